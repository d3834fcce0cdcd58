"""Device ``"tpu"``: what ``torch.tpu`` is.

PyTorch loads this through its ``torch.backends`` entry point, so ``import torch`` is all a script needs. The names
follow ``torch.cuda``. A plugin is loaded, and devices are counted, when the first of them is asked for.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import os
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from types import ModuleType, TracebackType, coroutine
from typing import Any, Literal, TypeVar, cast

import torch
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
from torch.multiprocessing import reductions
from torch.utils._contextlib import _DecoratorContextManager
from torch.utils.dlpack import DLDeviceType

from torchtpu import _accelerator, _fallback, _flex, _jagged, _meta_kernels, _native, _stats
from torchtpu._errors import Error, UnsupportedOp

Mode = Literal["debug", "strict", "fused"]
_F = TypeVar("_F", bound=Callable[..., Any])
_MODES = {"debug": 1, "strict": 0, "fused": 4}  # bits of TpuMode, csrc/abi.h
_CHECK_NAN, _DETERMINISTIC = 2, 8
# Asked for by torch.utils.checkpoint, which else does not keep the state of the generators.
_initialized = True


def register() -> None:
    """Makes ``"tpu"`` a device of PyTorch's. Called once, by PyTorch's own loading of backends."""
    if getattr(torch, "tpu", None) is not None:
        return
    torch.utils.rename_privateuse1_backend("tpu")
    shim = _shim()
    for package in (torch.__file__, __file__):
        shim.add_foreign_folder(os.path.join(os.path.dirname(package), ""))
    _native.device_join(shim.load(_native.device_table()))
    shim.set_fallback_handler(_on_fallback)
    # It may be called from within a frame that Dynamo compiles; what it calls is Dynamo's no more than itself.
    left_alone = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
    set_code_exec_strategy(_on_fallback.__code__, left_alone)
    torch._register_device_module("tpu", sys.modules[__name__])
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    _prefer_bfloat16()
    atexit.register(_come_to_rest, shim)
    _export_through_the_host()
    _keep_from_other_processes()
    _pass_autocast()
    _flex.let_in()
    _jagged.let_in()
    _accelerator.settle()
    _meta_kernels.wait_for_dynamo()
    if mode := os.environ.get("TORCHTPU_EAGER_MODE"):
        _default_to(shim, mode)


def _default_to(shim: Any, mode: str) -> None:
    """Sets the mode of threads that were told nothing. An error here would keep torch itself from being imported."""
    try:
        shim.set_mode(_bits(mode, False), True)
    except Error as error:
        warnings.warn(f"TORCHTPU_EAGER_MODE: {error}; eager ops run in 'strict'", stacklevel=2)


def _come_to_rest(shim: Any) -> None:
    """Leaves no thread at work when the process ends."""
    if _native.device_in_use():
        try:
            shim.settle_backward()
        finally:
            _native.device_drain()


def _prefer_bfloat16() -> None:
    """Makes bfloat16 what ``torch.autocast("tpu")`` computes in. PyTorch keeps that per thread."""
    torch.set_autocast_dtype("tpu", torch.bfloat16)


def _pass_autocast() -> None:
    """Lets higher-order ops run under ``torch.autocast("tpu")``: the ops within cast. PyTorch has a list of devices."""
    ops: Any = torch._ops
    ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(_flex.AUTOCAST)
    for op in ops._higher_order_ops.values():
        op.fallthrough(_flex.AUTOCAST)


def _keep_from_other_processes() -> None:
    """Says what to do where a device tensor is sent to another process, whose memory is not the device's. PyTorch's own
    words are about file descriptors."""
    share = reductions.reduce_tensor

    def reduce_tensor(tensor: torch.Tensor) -> Any:
        if tensor.device.type == "tpu":
            raise Error(f"a tensor on {tensor.device} cannot be sent to another process; send Tensor.cpu()")
        return share(tensor)

    for kind in (torch.Tensor, torch.nn.parameter.Parameter):
        ForkingPickler.register(kind, reduce_tensor)


def _export_through_the_host() -> None:
    """Keeps DLPack from giving away addresses of device tensors: there is nothing at them for another library."""
    export = torch.Tensor.__dlpack__

    @functools.wraps(export)
    def __dlpack__(self: torch.Tensor, **options: Any) -> Any:
        if self.device.type == "tpu" and tuple(options.get("dl_device") or ()) != (DLDeviceType.kDLCPU, 0):
            raise BufferError(
                f"a tensor on {self.device} has no memory that another library can read; export a copy on the host, "
                "with Tensor.cpu() or device='cpu'"
            )
        return export(self, **options)

    torch.Tensor.__dlpack__ = __dlpack__  # type: ignore[method-assign]


# --- modes ------------------------------------------------------------------------------------------------------------


class _Before(threading.local):
    """The modes that a thread goes back to: the innermost `with` last."""

    def __init__(self) -> None:
        self.entries: list[int] = []
        # What held before the constructor, in its thread, until the first `with` or decoration.
        self.constructor: int | None = None

    def claim(self) -> int | None:
        before, self.constructor = self.constructor, None
        return before


class eager_mode(_DecoratorContextManager):
    """Sets how eager ops on ``"tpu"`` run in this thread, for good or, as a context manager, for a while; as a
    decorator, while the function runs, in whichever thread.

    ``"debug"`` waits for each op, so an error is raised on the very line, with what went into the op; indices out of
    range, which a device does not notice, are refused as on the CPU. ``"strict"`` returns at once and keeps order;
    errors come at the next synchronisation and name the op and the line. ``"fused"`` records ops and runs those between
    two reads together, as one program once they came several times (docs/fused-eager.md). A thread that was told
    nothing follows ``TORCHTPU_EAGER_MODE``, else it is strict. Backward passes follow the thread that asked for them.

    Args:
        mode: ``"debug"``, ``"strict"`` or ``"fused"``.
        check_nan: in debug mode, refuse results that hold NaN.
    """

    def __init__(self, mode: str, *, check_nan: bool = False) -> None:
        self._mode, self._check_nan = mode, check_nan
        self._bits = _bits(mode, check_nan)
        self._before = _Before()
        self._before.constructor = _shim().mode()
        _shim().set_mode(self._bits, False)

    def __call__(self, orig_func: _F) -> _F:
        before = self._before.claim()
        if before is not None:
            _shim().set_mode(before, False)
        if inspect.iscoroutinefunction(orig_func):
            return cast(_F, self._stepwise(orig_func))
        return super().__call__(orig_func)

    def _stepwise(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, whose steps run in the mode. Between them others of its thread run, in theirs."""

        def steps(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            return (yield from function(*args, **kwargs).__await__())

        awaitable = coroutine(super().__call__(steps))

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return await awaitable(*args, **kwargs)

        return awaited

    def __enter__(self) -> None:
        before = self._before.claim()
        self._before.entries.append(_shim().mode() if before is None else before)
        _shim().set_mode(self._bits, False)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _shim().set_mode(self._before.entries.pop(), False)

    def clone(self) -> eager_mode:
        """Another one, for a call of what this one decorates."""
        return eager_mode(self._mode, check_nan=self._check_nan)


def _bits(mode: str, check_nan: bool) -> int:
    if mode not in _MODES:
        raise Error(f"there is no eager mode {mode!r}; the modes are {', '.join(map(repr, _MODES))}")
    if check_nan and mode != "debug":
        raise Error("check_nan waits for each op: it goes with mode 'debug'")
    return _MODES[mode] | (_CHECK_NAN if check_nan else 0) | (_DETERMINISTIC if _of_several_processes() else 0)


def _of_several_processes() -> bool:
    """Whether this process is one of several that work together, and so must run alike."""
    return os.environ.get("WORLD_SIZE", "1") not in ("", "1")


# --- devices ----------------------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether there is a device. Never raises."""
    try:
        return _native.device_count() > 0
    except RuntimeError:
        return False


def is_initialized() -> bool:
    """Always: devices come up when they are first used."""
    return True


def init() -> None:
    """Does nothing: devices come up when they are first used."""


def _is_in_bad_fork() -> bool:
    return _native.device_forked()


def device_count() -> int:
    """How many devices the plugin has."""
    return _native.device_count()


def current_device() -> int:
    """The index of this thread's device."""
    return int(_shim().current_device())


def set_device(device: torch.device | str | int) -> None:
    """Makes ``device`` this thread's device."""
    index = _index(device)
    _shim().set_device(index)


def synchronize(device: torch.device | str | int | None = None) -> None:
    """Waits for everything started on ``device``.

    Raises:
        RuntimeError: the first failure since the last time, naming the op and the Python line that issued it.
    """
    _native.device_synchronize(_index(device))


class device:
    """A context in which ``device`` is this thread's device."""

    def __init__(self, device: torch.device | str | int | None) -> None:
        self._index = None if device is None else _index(device)
        self._before = 0

    def __enter__(self) -> None:
        self._before = current_device()
        if self._index is not None:
            set_device(self._index)

    def __exit__(self, *_: object) -> None:
        set_device(self._before)


class device_of(device):
    """A context in which the device of a tensor is this thread's device; nothing changes for tensors elsewhere."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.device if tensor.device.type == "tpu" else None)


def _index(device: torch.device | str | int | None) -> int:
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "tpu":
        raise ValueError(f"expected a tpu device, got {device}")
    return current_device() if device.index is None else device.index


@dataclass(frozen=True)
class DeviceProperties:
    """What the plugin says of a device. ``total_memory`` is in bytes, 0 where it does not say."""

    name: str
    total_memory: int
    index: int


def get_device_properties(device: torch.device | str | int | None = None) -> DeviceProperties:
    """What the plugin says of a device."""
    index = _index(device)
    name, total, _ = _native.device_properties(index)
    return DeviceProperties(name, total, index)


def get_device_name(device: torch.device | str | int | None = None) -> str:
    """The device's kind, ``"cpu"`` for the embedded plugin."""
    return get_device_properties(device).name


def get_device_capability(device: torch.device | str | int | None = None) -> tuple[int, int]:
    """There are no numbered capabilities: always ``(0, 0)``."""
    _index(device)
    return (0, 0)


def can_device_access_peer(device: int, peer: int) -> bool:
    """Copies between devices need no host."""
    return device != peer


def is_current_stream_capturing() -> bool:
    """Nothing is ever captured: there are no graphs of the device's own."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Every TPU computes in bfloat16."""
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The types that ``torch.autocast("tpu")`` takes."""
    return [torch.bfloat16, torch.float16]


# --- streams and events -----------------------------------------------------------------------------------------------

# Made without a device, they are the current accelerator's: ours.
Stream = torch.Stream
Event = torch.Event


def current_stream(device: torch.device | str | int | None = None) -> torch.Stream:
    """The one stream of a device: the device keeps the order of ops itself."""
    return torch._C._accelerator_getStream(_index(device))


def default_stream(device: torch.device | str | int | None = None) -> torch.Stream:
    """The one stream of a device."""
    return current_stream(device)


def set_stream(stream: torch.Stream) -> None:
    """There is one stream per device: nothing changes."""


@contextlib.contextmanager
def stream(stream: torch.Stream | None) -> Iterator[None]:
    """There is one stream per device: nothing changes."""
    yield


# --- random numbers ---------------------------------------------------------------------------------------------------


class _Generators:
    """The generators of all devices, by index."""

    def __len__(self) -> int:
        return device_count()

    def __getitem__(self, index: int) -> torch.Generator:
        if not 0 <= index < device_count():
            raise IndexError(f"there is no device tpu:{index}")
        return _generator(index)

    def __iter__(self) -> Iterator[torch.Generator]:
        return (_generator(index) for index in range(device_count()))


default_generators = _Generators()


def _generator(index: int) -> torch.Generator:
    generator: torch.Generator = _shim().default_generator(index)
    return generator


def manual_seed(seed: int) -> None:
    """Seeds the generator of this thread's device."""
    _generator(current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices; brings none up that nobody has used."""
    _shim().seed_all(int(seed))


def seed() -> None:
    """Seeds the generator of this thread's device with a number nobody can know."""
    _generator(current_device()).seed()


def seed_all() -> None:
    """Seeds the generators of all devices with one number nobody can know."""
    manual_seed_all(torch.seed())


def initial_seed() -> int:
    """The seed of this thread's device."""
    return int(_generator(current_device()).initial_seed())


def get_rng_state(device: torch.device | str | int = "tpu") -> torch.Tensor:
    """Seed and offset of a device's generator: sixteen bytes."""
    return _generator(_index(device)).get_state()


def set_rng_state(new_state: torch.Tensor, device: torch.device | str | int = "tpu") -> None:
    """Puts a device's generator where :func:`get_rng_state` found it."""
    _generator(_index(device)).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices' generators."""
    return [generator.get_state() for generator in default_generators]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Puts all devices' generators where :func:`get_rng_state_all` found them."""
    for generator, state in zip(default_generators, new_states, strict=False):
        generator.set_state(state)


# --- memory -----------------------------------------------------------------------------------------------------------


def memory_stats(device: torch.device | str | int | None = None) -> dict[str, int]:
    """Bytes and counts, under the names of ``torch.cuda.memory_stats``."""
    return dict(torch.accelerator.memory_stats(_index(device)))


def memory_allocated(device: torch.device | str | int | None = None) -> int:
    """Bytes that live tensors hold on a device."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: torch.device | str | int | None = None) -> int:
    """The most bytes that tensors and running programs have held since :func:`reset_peak_memory_stats`."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: torch.device | str | int | None = None) -> int:
    """As :func:`memory_allocated`: the plugin keeps what it reserves to itself."""
    return memory_allocated(device)


def max_memory_reserved(device: torch.device | str | int | None = None) -> int:
    """As :func:`max_memory_allocated`."""
    return max_memory_allocated(device)


def reset_peak_memory_stats(device: torch.device | str | int | None = None) -> None:
    """Forgets the most memory that a device has used."""
    torch.accelerator.reset_peak_memory_stats(_index(device))


def reset_max_memory_allocated(device: torch.device | str | int | None = None) -> None:
    """As :func:`reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: torch.device | str | int | None = None) -> None:
    """Forgets how much was allocated and freed so far."""
    torch.accelerator.reset_accumulated_memory_stats(_index(device))


def memory_summary(device: torch.device | str | int | None = None, abbreviated: bool = False) -> str:
    """:func:`memory_stats` as a table for people."""
    stats = memory_stats(device)
    columns = ("current", "peak", "allocated", "freed")
    rows: list[tuple[str, list[str]]] = [("", list(columns))]
    for title, name in (("bytes", "allocated_bytes"), ("tensors", "allocation")):
        rows.append((title, [f"{stats.get(f'{name}.all.{column}', 0):,}" for column in columns]))
    lines = (f"{title:<8}" + "".join(f"{cell:>20}" for cell in cells) for title, cells in rows)
    return "\n".join([f"Memory of tpu:{_index(device)} ({get_device_name(device)})", *lines])


def mem_get_info(device: torch.device | str | int | None = None) -> tuple[int, int]:
    """Free and total bytes of a device, as the plugin says; those of the machine on the CPU plugin."""
    _, total, free = _native.device_properties(_index(device))
    return free, total


def empty_cache() -> None:
    """Gives the system what the CPU plugin keeps for its next call; on a TPU a tensor's memory goes with the tensor."""
    _native.give_back_memory()


# --- ops on the host --------------------------------------------------------------------------------------------------


def fallbacks() -> dict[tuple[str, str], int]:
    """How often each op ran on the host, by op and the Python line; part of :func:`torchtpu.stats`."""
    counts: dict[str, dict[str, int]] = _stats.stats()["fallbacks"]
    return {(op, line): times for op, lines in counts.items() for line, times in lines.items()}


def _on_fallback(op: str, why: str) -> None:
    place = _caller()
    if _fallback.by_default() == "error":
        raise UnsupportedOp(f"{op}: {why}, and TORCHTPU_FALLBACK=error forbids the host ({place})")
    if _stats.record_fallback(op, place):
        warnings.warn(f"{op} runs on the host: {why} (at {place})", stacklevel=2)


def _caller() -> str:
    """The user's line: the innermost frame outside PyTorch and this package."""
    frame = sys._getframe(1)
    here, home = (os.path.join(os.path.dirname(file), "") for file in (__file__, torch.__file__))
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((here, home, "<")):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "?"


def _shim() -> Any:
    from torchtpu import _build

    return _build.load()


# --- mixed precision --------------------------------------------------------------------------------------------------


class _Autocast(torch.autocast):
    """``torch.autocast("tpu")``, as ``torch.tpu.amp.autocast``."""

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype = torch.bfloat16, cache_enabled: bool | None = None
    ) -> None:
        super().__init__("tpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class _GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler("tpu")``, as ``torch.tpu.amp.GradScaler``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("tpu", **kwargs)


amp = ModuleType("torch.tpu.amp", "Automatic mixed precision, as in torch.cuda.amp.")
vars(amp).update(autocast=_Autocast, GradScaler=_GradScaler)


if globals().get("_to_be_registered"):
    register()
