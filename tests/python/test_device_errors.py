"""What a user's mistakes look like on device "tpu", how debug mode finds them, and what is counted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchtpu
from torch import nn
from torchtpu import device as tpu

HERE = re.escape(__file__)


def error(call: Callable[..., Any], device: str) -> Exception:
    with pytest.raises(Exception) as caught:
        call(device)
    return caught.value


# --- in PyTorch's words -----------------------------------------------------------------------------------------------

MISTAKES: dict[str, Callable[[str], Any]] = {
    "broadcast": lambda d: torch.ones(2, 3, device=d) + torch.ones(4, device=d),
    "matmul": lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
    "matmul of two types": lambda d: torch.ones(2, 2, device=d) @ torch.ones(2, 2, dtype=torch.float64, device=d),
    "cat": lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(3, 2, device=d)]),
    "view": lambda d: torch.ones(6, device=d).view(4),
    "channels": lambda d: nn.Conv2d(3, 2, 3).to(d)(torch.ones(1, 4, 8, 8, device=d)),
    "targets": lambda d: F.cross_entropy(torch.ones(2, 3, device=d), torch.zeros(3, dtype=torch.long, device=d)),
    "item": lambda d: torch.ones(2, 3, device=d).item(),
    "truth": lambda d: bool(torch.ones(2, device=d)),
    "select": lambda d: torch.ones(2, device=d)[5],
    "integer softmax": lambda d: torch.ones(2, dtype=torch.long, device=d).softmax(0),
    "in-place type": lambda d: torch.ones(2, dtype=torch.long, device=d).add_(1.5),
    "leaf": lambda d: torch.ones(2, device=d, requires_grad=True).add_(1),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_read_as_on_the_cpu(name: str) -> None:
    ours, theirs = error(MISTAKES[name], "tpu"), error(MISTAKES[name], "cpu")
    assert isinstance(theirs, type(ours))
    # Ours may put the op's name before it.
    assert str(theirs).splitlines()[0] in str(ours)
    assert "frame #" not in str(ours) and ".cpp" not in str(ours)


def test_tensors_of_two_devices() -> None:
    x = torch.ones(2, 3, device="tpu")
    for call in (lambda: x + torch.ones(2, 3), lambda: x @ torch.ones(3, 2), lambda: nn.Linear(3, 2)(x)):
        with pytest.raises(RuntimeError, match=r"Expected all tensors to be on the same device.*tpu:0 and cpu"):
            call()
    with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\)"):
        x.numpy()
    with pytest.raises(RuntimeError, match="there is no device tpu:77; there are"):
        torch.ones(1, device="tpu:77")


def test_out_of_memory_names_the_holders() -> None:
    keep = torch.ones(1 << 20, device="tpu")
    line = keep.numel() and sys._getframe().f_lineno - 1
    for elements in (1 << 38, 1 << 42):  # more than there is, and more than there are addresses for
        with pytest.raises(torch.OutOfMemoryError) as caught:
            torch.ones(elements, dtype=torch.int8, device="tpu")
        assert re.search(rf"largest holders.*\n.*4194304 bytes in 1 tensors.*{HERE}:{line}", str(caught.value))
    assert (keep + 1)[0].item() == 2, "the process goes on"


# --- debug mode -------------------------------------------------------------------------------------------------------


def places(value: int, device: str) -> torch.Tensor:
    return torch.tensor([0, value], device=device)


def rows(device: str) -> torch.Tensor:
    return torch.arange(6.0, device=device).reshape(2, 3)


OUT_OF_RANGE: dict[str, Callable[[str], Any]] = {
    "index": lambda d: rows(d)[places(7, d)],
    "negative": lambda d: rows(d)[places(-3, d)],
    "index_put_": lambda d: rows(d).index_put_((places(7, d),), torch.tensor(1.0, device=d)),
    "gather": lambda d: rows(d).gather(0, torch.full((2, 3), 9, device=d)),
    "scatter": lambda d: rows(d).scatter(0, torch.full((2, 3), 9, device=d), 1.0),
    "index_select": lambda d: rows(d).index_select(0, places(7, d)),
    "index_add": lambda d: rows(d).index_add(0, places(7, d), rows(d)),
    "take": lambda d: rows(d).take(places(99, d)),
    "embedding": lambda d: F.embedding(places(7, d), rows(d)),
    "nll_loss": lambda d: F.nll_loss(rows(d), places(7, d)),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_debug_mode_refuses_places_out_of_range(name: str) -> None:
    with torchtpu.eager_mode("debug"):
        ours, theirs = error(OUT_OF_RANGE[name], "tpu"), error(OUT_OF_RANGE[name], "cpu")
        assert (type(ours), str(ours)) == (type(theirs), str(theirs))
        x = rows("tpu")
        assert x[places(1, "tpu")].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert x.index_put_((places(1, "tpu"),), torch.tensor(1.0, device="tpu")).sum().item() == 6


def test_nan_is_refused_where_it_arises() -> None:
    x = torch.tensor([1.0, -1.0], device="tpu")
    with torchtpu.eager_mode("debug", check_nan=True):
        line = sys._getframe().f_lineno + 2
        with pytest.raises(RuntimeError) as caught:
            x.sqrt()
        assert (x + 1).tolist() == [2, 0]
    message = str(caught.value)
    assert "NaN in 1 places, and no input does" in message and "aten::sqrt.default" in message
    assert f"{__file__}:{line}" in message
    assert "from -1 to 1" in message
    with torchtpu.eager_mode("debug"):
        assert x.sqrt().isnan().tolist() == [False, True]
    with pytest.raises(torchtpu.Error, match="check_nan"):
        torchtpu.eager_mode("strict", check_nan=True)


def in_debug() -> bool:
    return isinstance(_result(lambda: OUT_OF_RANGE["index"]("tpu")), IndexError)


def _result(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as caught:
        return caught


def test_modes_are_of_a_thread() -> None:
    seen: list[bool] = []
    with torchtpu.eager_mode("debug"):
        thread = threading.Thread(target=lambda: seen.append(in_debug()))
        thread.start()
        thread.join()
        with torchtpu.eager_mode("strict"):
            seen.append(in_debug())
        seen.append(in_debug())
    seen.append(in_debug())
    assert seen == [False, False, True, False]


def test_a_mode_is_set_for_good_or_decorates() -> None:
    @torchtpu.eager_mode("debug")
    def debugged() -> bool:
        return in_debug()

    torchtpu.eager_mode("strict")
    assert debugged() and not in_debug()
    torchtpu.eager_mode("debug")
    assert in_debug()
    torchtpu.eager_mode("strict")


def test_backward_passes_follow_the_mode_of_the_thread() -> None:
    x = torch.tensor([0.0], device="tpu", requires_grad=True)
    with torchtpu.eager_mode("debug", check_nan=True), pytest.raises(RuntimeError, match="holds NaN"):
        (x.sqrt() * 0).backward()


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=settings)


def test_the_environment_sets_the_mode_of_all_threads() -> None:
    script = "import torch; torch.ones(2, device='tpu')[torch.tensor([5], device='tpu')]; print('ran')"
    assert "IndexError: index 5 is out of bounds" in run(script, TORCHTPU_EAGER_MODE="debug").stderr
    assert run(script, TORCHTPU_EAGER_MODE="strict").stdout == "ran\n"
    assert "there is no eager mode 'lazy'" in run(script, TORCHTPU_EAGER_MODE="lazy").stderr


def test_cpp_traces_are_shown_when_asked_for() -> None:
    script = "import torch; torch.ones(2, device='tpu') + torch.ones(3, device='tpu')"
    assert "c10::" not in run(script).stderr
    assert "c10::" in run(script, TORCH_SHOW_CPP_STACKTRACES="1").stderr


# --- counts -----------------------------------------------------------------------------------------------------------


def unlowered(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.eigvals(x)


def test_ops_on_the_host_are_counted_warned_of_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.eye(2, device="tpu")
    with pytest.warns(UserWarning, match="runs on the host: it has no lowering"):
        unlowered(x)
    unlowered(x)
    line = unlowered.__code__.co_firstlineno + 1
    counts = {op: lines for op, lines in torchtpu.stats()["fallbacks"].items() if "eig" in op}
    assert [lines[f"{__file__}:{line}"] for lines in counts.values()] == [2]
    assert any("eig" in op and place == f"{__file__}:{line}" for op, place in tpu.fallbacks())
    monkeypatch.setenv("TORCHTPU_FALLBACK", "error")
    with pytest.raises(torchtpu.UnsupportedOp, match="TORCHTPU_FALLBACK=error forbids the host"):
        unlowered(x)


def test_eager_ops_are_counted_by_line() -> None:
    x = torch.ones(3, 7, device="tpu")
    before = torchtpu.stats()["eager"]
    for _ in range(5):
        x = torch.atan2(x, x)
    line = sys._getframe().f_lineno - 1
    now = torchtpu.stats()["eager"]
    counts = now["ops"]["aten::atan2.default"][f"{__file__}:{line}"]
    assert counts["calls"] == 5 and counts["traced"] <= 1
    assert now["executions"] - before["executions"] == 5
    assert now["cache_hits"] - before["cache_hits"] == 5 - counts["traced"]
