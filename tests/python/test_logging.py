"""``TORCH_LOGS``: what a user sees of compiles, cache hits and fallbacks, and that nothing needs importing for it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

COMPILE = """
    import torch
    double = torch.compile(lambda x: x + x, backend="torchtpu")
    double(torch.ones(2))
"""


def logged(code: str, **environment: str) -> list[str]:
    """The lines on standard error of a process that runs ``code``."""
    env = {**os.environ, "TORCHTPU_CACHE_DIR": "", **environment}
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=env)
    assert run.returncode == 0, run.stderr
    return run.stderr.splitlines()


def count(lines: list[str], *parts: str) -> int:
    return sum(all(part in line for part in parts) for line in lines)


@pytest.mark.parametrize("first", ["", "import torchtpu"])
def test_a_plus_shows_everything_once_whatever_is_imported_first(first):
    lines = logged(f"{first}\n{textwrap.dedent(COMPILE)}", TORCH_LOGS="+torchtpu")
    assert count(lines, "graph of 1 ops compiled in") == 1, lines
    assert count(lines, "1 inputs", "bytes of trace") == 1, lines
    assert count(lines, "1 core ops, 1 inputs, 1 outputs", "lowered in") == 1, lines


def test_without_a_plus_details_stay_away():
    lines = logged(COMPILE, TORCH_LOGS="torchtpu", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert count(lines, "graph of 1 ops compiled in") == 1, lines
    assert not count(lines, "lowered in"), lines
    assert not logged(COMPILE)


def test_a_cache_that_cannot_be_written_is_told_once():
    lines = logged(f"{textwrap.dedent(COMPILE)}\ntorch.ones(2, device='tpu') + 1", TORCHTPU_CACHE_DIR="/dev/null/cache")
    assert count(lines, "kept for other processes: /dev/null/cache: Not a directory", "TORCHTPU_CACHE_DIR") == 1, lines


def test_sizes_cache_hits_and_fallbacks_are_told(tmp_path):
    code = """
        import torch
        torch._dynamo.config.capture_dynamic_output_shape_ops = True
        grow = torch.compile(lambda x: x.repeat(2) + 1, backend="torchtpu", dynamic=True)
        grow(torch.ones(3)), grow(torch.ones(5))
        count = torch.compile(lambda x: torch.nonzero(x + 1).sum(), backend="torchtpu")
        count(torch.ones(3))
        mean = torch.Tensor.mean
        mean = torch.library.custom_op("logged::mean", mean, mutates_args=(), schema="(Tensor x) -> Tensor")
        mean.register_fake(lambda x: x.new_empty(()))
        torch.compile(lambda x: mean(x + 1) + 1, backend="torchtpu")(torch.ones(3))
    """
    settings = {"TORCH_LOGS": "+torchtpu", "TORCHTPU_CACHE_DIR": str(tmp_path)}
    lines = logged(code, **settings)
    assert count(lines, "sizes {'s", ": 3}") == count(lines, "sizes {'s", ": 5}") == 1, lines
    assert count(lines, "cut at aten.nonzero", "which will be waited for") == 1, lines
    assert count(lines, "cut at logged.mean", "which will run on the host") == 1, lines
    assert not count(lines, "found on disk"), lines
    again = logged(code, **settings)
    assert count(again, "found on disk") == count(lines, " ops compiled in") > 2, again
