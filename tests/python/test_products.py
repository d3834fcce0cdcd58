"""Products of programs on the CPU: PyTorch's own, where its library offers them."""

import os
import platform
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

TORCH = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
# Wheels for other processors hold no MKL; their products are XLA's.
HAS_MKL = torch.backends.mkl.is_available() and platform.machine() == "x86_64"
needs_mkl = pytest.mark.skipif(not HAS_MKL, reason="this PyTorch has no MKL to offer")

STEP = """
    import torch, torchtpu
    torch.manual_seed(0)
    x, w = torch.randn(96, 300), torch.randn(200, 300) / 300**0.5
    q, k = torch.randn(2, 40, 3, 16), torch.randn(2, 50, 3, 16)

    def step(x, w, q, k):
        scores = torch.einsum("bshd,bthd->bhst", q, k)
        return torch.nn.functional.linear(x, w).tanh(), scores.softmax(-1)

    compiled = torch.compile(step, backend="torchtpu")
    for got, want in zip(compiled(x, w, q, k), step(x, w, q, k)):
        torch.testing.assert_close(got, want)
"""


def run(code: str, folder: Path, **env: str) -> str:
    """Output of a process of its own; programs are dumped and kept below ``folder``."""
    kept = {"TORCHTPU_DUMP": str(folder / "dump"), "TORCHTPU_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **kept, **env},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def programs(folder: Path) -> str:
    return "".join(path.read_text() for path in (folder / "dump").rglob("stablehlo.mlir"))


TELL = "    print(*map(torchtpu.stats().get, ('blas', 'compiles', 'disk_hits')))\n"


def test_products_are_called_and_found_again_by_who_calls_the_same(tmp_path: Path) -> None:
    if HAS_MKL:
        called(tmp_path)
    assert run(STEP + TELL, tmp_path, TORCHTPU_CPU_BLAS="").split() == ["None", "1", "0"]
    text = programs(tmp_path)
    assert "custom_call" not in text
    assert text.count("stablehlo.dot_general") == 2


def called(tmp_path: Path) -> None:
    assert run(STEP + TELL, tmp_path).split() == [str(TORCH), "1", "0"]
    text = programs(tmp_path)
    assert text.count('call_target_name = "torchtpu.product"') == 2
    assert "dot_general" not in text
    assert "transpose" not in text, "operands are taken as they lie"
    assert run(STEP + TELL, tmp_path).split() == [str(TORCH), "0", "1"]
    shutil.rmtree(tmp_path / "dump")


@pytest.mark.parametrize("named", ["/no/such/library.so", sys.executable])
def test_a_library_that_is_named_must_multiply(tmp_path: Path, named: str) -> None:
    product = """
        import torch
        x = torch.randn(300, 300, device="tpu")
        print((x @ x).sum().item())
    """
    with pytest.raises(AssertionError) as failure:
        run(product, tmp_path, TORCHTPU_CPU_BLAS=named)
    assert f"{named} cannot multiply for programs on the CPU" in str(failure.value)
    assert "help: `TORCHTPU_CPU_BLAS` names a library with MKL" in str(failure.value)


@needs_mkl
def test_convolutions_and_their_gradients_are_called(tmp_path: Path) -> None:
    code = """
        import torch, torchtpu
        torch.manual_seed(0)
        x, g = torch.randn(4, 6, 20, 20), torch.randn(4, 8, 10, 10) / 20
        v, w = ((torch.randn(8, n, 3, 3) / 9).requires_grad_() for n in (6, 8))

        def forward(x, v, w):
            y = torch.nn.functional.conv2d(x, v, padding=1).relu()
            return torch.nn.functional.conv2d(y, w, stride=2, padding=1)

        def step(forward, x, v, w, g):
            y = forward(x, v, w)
            return y, *torch.autograd.grad(y, [v, w], g)

        want = step(forward, x, v, w, g)
        on_tpu = [t.detach().to("tpu").requires_grad_(t.requires_grad) for t in (x, v, w)]
        for got in (step(torch.compile(forward, backend="torchtpu"), x, v, w, g), step(forward, *on_tpu, g.to("tpu"))):
            for a, b in zip(got, want):
                torch.testing.assert_close(a.cpu(), b)
    """
    run(code, tmp_path)
    text = programs(tmp_path)
    assert text.count('call_target_name = "torchtpu.convolution"') == 5, "two, and three gradients"
    assert not any(op in text for op in ("stablehlo.convolution", "transpose", "reverse"))


@needs_mkl
def test_threads_call_at_the_same_time(tmp_path: Path) -> None:
    # More callers than the plugin has threads, each with products worth several tiles: nobody may wait for all others.
    code = """
        import threading, torch, torchtpu
        x, w = torch.randn(512, 512), torch.randn(512, 512)
        compiled = torch.compile(lambda x, w: torch.stack([x @ w, w @ x, x.T @ w, x @ w.T]), backend="torchtpu")
        want = compiled(x, w)
        wrong = []

        def work():
            for _ in range(30):
                if not torch.equal(compiled(x, w), want):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(12)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        print(len(wrong), torch.get_num_threads())
    """
    wrong, threads = run(code, tmp_path).split()
    assert wrong == "0"
    assert int(threads) == torch.get_num_threads(), "PyTorch's own threads are as they were"


@needs_mkl
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_special_values_and_sizes(dtype: torch.dtype) -> None:
    compiled = torch.compile(torch.matmul, backend="torchtpu", dynamic=False)
    for m, k, n in [
        (1, 128, 128),
        (128, 1, 128),
        (128, 128, 1),
        (0, 128, 128),
        (128, 0, 128),
        (130, 129, 131),
        (700, 130, 7),
    ]:
        for transposed in (False, True):
            x = torch.randn(m, k, dtype=dtype)
            w = torch.randn(n, k, dtype=dtype).T if transposed else torch.randn(k, n, dtype=dtype)
            if m * k * n > 10_000:
                x[0, 0], w[-1, -1] = float("inf"), float("nan")
            torch.testing.assert_close(compiled(x, w), x @ w, equal_nan=True)
