"""The shim of device ``"tpu"``: loads the one built for the installed PyTorch, or builds it.

Binaries do not cross minor versions of PyTorch, sources do. The wheel brings the shim of one version; for another it is
compiled on first use, if there is a C++ compiler, into the user's cache folder.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import torch

_HERE = Path(__file__).parent
_FLAGS = ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wno-sign-compare"]
_LIBRARIES = ["c10", "torch_cpu", "torch_python"]


def _error(message: str) -> RuntimeError:
    """An error of the package's, or a plain one while the package itself is being built."""
    try:
        from torchtpu._errors import Error
    except ImportError:
        return RuntimeError(message)
    return Error(message)


@functools.cache
def load() -> Any:
    """The shim as a module.

    Raises:
        Error: there is none for this PyTorch, and none can be built.
    """
    path = _HERE / name()
    if not path.is_file():
        path = _cached()
    loader = importlib.machinery.ExtensionFileLoader("torchtpu._shim", str(path))
    spec = importlib.util.spec_from_loader("torchtpu._shim", loader)
    if spec is None:
        raise _error(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def name() -> str:
    """The file of the shim for this PyTorch and Python, such as ``_shim.torch2.15-cp311.so``."""
    major, minor = torch.__version__.split(".")[:2]
    return f"_shim.torch{major}.{minor}-cp{sys.version_info.major}{sys.version_info.minor}.so"


def sources() -> list[Path]:
    """The shim's C++ files: in the package, or beside it in a checkout."""
    for folder in (_HERE / "csrc", _HERE.parent.parent / "csrc"):
        if found := sorted(folder.glob("*.cpp")):
            return found
    return []


def _cached() -> Path:
    files = sources()
    if not files:
        raise _error(f"torchtpu has no shim for PyTorch {torch.__version__}, and its C++ sources are not installed")
    text = b"".join(file.read_bytes() for file in [*files, *sorted(files[0].parent.glob("*.h"))])
    stamp = hashlib.sha256(text + torch.__version__.encode()).hexdigest()[:16]
    users = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    root = os.environ.get("TORCHTPU_CACHE_DIR") or Path(users, "torchtpu")
    target = Path(root, f"shim-{stamp}", name())
    if not target.is_file():
        print(
            f"torchtpu: building its C++ shim for PyTorch {torch.__version__} (once, a minute or two)", file=sys.stderr
        )
        build(target)
    return target


def build(target: Path) -> None:
    """Compiles the shim for the installed PyTorch into ``target``, with the environment's ``CXX`` and ``CXXFLAGS``.

    Raises:
        Error: there is no compiler, or it fails.
    """
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise _error(
            f"torchtpu has no shim for PyTorch {torch.__version__} and there is no C++ compiler to build it; install "
            "g++ (apt install g++ python3-dev), or the PyTorch version that the wheel was made for"
        )
    home = Path(torch.__file__).parent
    folders = ("include", "include/torch/csrc/api/include", "include/kineto")
    includes = [*(home / folder for folder in folders), sysconfig.get_paths()["include"]]
    asked = shlex.split(os.environ.get("CXXFLAGS", ""))
    flags = [*_FLAGS, *asked, *(f"-I{folder}" for folder in includes)]
    with tempfile.TemporaryDirectory() as scratch:
        objects = [(source, Path(scratch, source.stem + ".o")) for source in sources()]
        _all([[compiler, *flags, "-c", str(source), "-o", str(object)] for source, object in objects])
        library = Path(scratch, target.name)
        links = [f"-L{home / 'lib'}", *(f"-l{lib}" for lib in _LIBRARIES), f"-Wl,-rpath,{home / 'lib'}"]
        _all([[compiler, "-shared", *asked, "-o", str(library), *(str(object) for _, object in objects), *links]])
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}")
        shutil.copy(library, partial)
        partial.replace(target)  # whole or not at all, whoever else is building


def _all(commands: list[list[str]]) -> None:
    """Runs commands, as many at once as there are processors."""
    waiting = list(commands)
    running: list[tuple[list[str], subprocess.Popen[str]]] = []
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            command = waiting.pop(0)
            running.append((command, subprocess.Popen(command, stderr=subprocess.PIPE, text=True)))
        command, process = running.pop(0)
        _, errors = process.communicate()
        if process.returncode != 0:
            for _, other in running:
                other.kill()
            raise _error(f"torchtpu's C++ shim cannot be built: {' '.join(command)} failed:\n{errors[-4000:]}")


if __name__ == "__main__":
    # Into a folder; without one, says what the shim depends on besides its sources.
    if folders := sys.argv[1:]:
        build(Path(folders[0], name()))
    else:
        print(name(), torch.__version__)
