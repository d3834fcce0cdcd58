"""Memory that the CPU plugin keeps for its next call: `crates/runtime/src/ffi/pool.rs`."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import textwrap

import pytest
import torch
import torchtpu

MIB = 1 << 20


def pool() -> dict[str, int]:
    sizes: dict[str, int] = torchtpu.stats()["memory_pool"]
    return sizes


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env={**os.environ, **environment})


@pytest.fixture
def step() -> object:
    """Gives 48 MiB: glibc would ask the system for them each time."""
    step = torch.compile(lambda x: x.exp(), backend="torchtpu")
    x = torch.randn(12 * MIB)
    torch.testing.assert_close(step(x), x.exp())
    return lambda: step(x)


def test_results_are_counted_while_they_live_and_kept_when_they_are_gone(step) -> None:
    torch.tpu.empty_cache()
    assert pool()["kept"] == 0
    before = pool()["lent"]
    result = step()
    assert pool()["lent"] >= before + result.nbytes
    del result
    assert pool()["lent"] == before
    assert pool()["kept"] >= 48 * MIB
    torch.tpu.empty_cache()
    assert pool() == {"lent": before, "kept": 0}


def test_a_call_touches_no_new_pages_when_it_comes_again(step) -> None:
    step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        step()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    # Each call would touch 12,288 of 4 KiB.
    assert faults < 12_288


def test_results_of_calls_at_once_are_apart(step) -> None:
    results = [step() for _ in range(4)]
    first = results.pop(0).clone()
    for result in results:
        assert torch.equal(result, first)
        result.zero_()
    assert torch.equal(step(), first)


def test_a_child_frees_what_it_inherits() -> None:
    script = """
    import os, torch, torchtpu
    result = torch.compile(lambda x: x.exp(), backend="torchtpu")(torch.randn(3 << 20))
    lent = torchtpu.stats()["memory_pool"]["lent"]
    if (pid := os.fork()) == 0:
        del result
        os._exit(int(torchtpu.stats()["memory_pool"]["lent"] >= lent))
    print(os.waitpid(pid, 0)[1], torchtpu.stats()["memory_pool"]["lent"] == lent)
    """
    ended = run(script)
    assert ended.stdout == "0 True\n", ended.stderr


def test_the_system_may_have_it() -> None:
    script = """
    import torch, torchtpu
    result = torch.compile(lambda x: x.exp(), backend="torchtpu")(torch.zeros(3 << 20))
    print(float(result.sum()), torchtpu.stats()["memory_pool"])
    """
    ended = run(script, TORCHTPU_CPU_MEMORY="system")
    assert ended.stdout == f"{float(3 << 20)} {{'kept': 0, 'lent': 0}}\n", ended.stderr


def test_who_else_may_not() -> None:
    ended = run("import torchtpu; torchtpu.set_plugin('cpu')", TORCHTPU_CPU_MEMORY="mine")
    assert ended.returncode != 0
    assert 'TORCHTPU_CPU_MEMORY must be `kept` or `system`, not "mine"' in ended.stderr
