"""Several threads compile and train at once, or train on the device: what each computes is what it does alone."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable

import pytest
import torch

# In a process of its own, without a cache on disk: the threads must compile, not look up what an earlier run compiled.
TRAIN = """
import copy, sys, threading
import torch, torchtpu
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 1)

    def forward(self, tokens):
        x = self.embed(tokens)
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        return self.out(x + F.scaled_dot_product_attention(q, k, v, is_causal=True)).mean(1)


torch.manual_seed(0)
CNN = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 1))
TASKS = [
    (nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 1)), torch.randn(8, 6)),
    (CNN, torch.randn(4, 3, 8, 8)),
    (Attention(), torch.randint(11, (4, 5))),
    (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), torch.randn(4, 7, 8)),
]


compiled, devices = sys.argv[1] == "compiled", sys.argv[2:]


def train(model, x, device):
    model, x = copy.deepcopy(model).to(device), x.to(device)
    step = torch.compile(model, backend="torchtpu") if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = (step(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [value.cpu() for value in [*losses, *model.state_dict().values()]]


def worker(place):
    start.wait()
    results[place] = train(*TASKS[place], devices[place])


# PyTorch 2.15's `lookup_backend` is not safe for threads: those that look a name up for the first time at once all
# register it, and all but one fail with "duplicate name".
if compiled: torch._dynamo.lookup_backend("torchtpu")
results, start = [None] * len(TASKS), threading.Barrier(len(TASKS))
threads = [threading.Thread(target=worker, args=(i,)) for i in range(len(TASKS))]
[t.start() for t in threads], [t.join() for t in threads]
assert None not in results, "a thread failed"
assert torchtpu.stats()["compiles"] >= 2 * len(TASKS) and not torchtpu.stats()["fallbacks"], torchtpu.stats()
torch._dynamo.reset()
for together, task, device in zip(results, TASKS, devices):
    alone = train(*task, device)
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert alone[4] < alone[0], "nothing was learnt"
print("equal")
"""


@pytest.mark.parametrize(
    "how",
    [["compiled", *["cpu"] * 4], ["eager", *["tpu"] * 4], ["eager", "tpu:0", "tpu:1", "tpu:2", "tpu:3"]],
    ids=["compiled", "one device", "four devices"],
)
def test_four_threads_train_four_models(how: list[str]) -> None:
    env = {**os.environ, "TORCHTPU_CACHE_DIR": ""}
    run = subprocess.run([sys.executable, "-c", TRAIN, *how], capture_output=True, text=True, env=env, timeout=600)
    assert run.stdout == "equal\n", run.stderr


def test_threads_share_one_compiled_function():
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4)).eval()
    step = torch.compile(model, backend="torchtpu")
    inputs = [torch.randn(32, 16) for _ in range(4)]
    done: list[bool] = []

    def worker(place: int) -> None:
        with torch.no_grad():
            expected = model(inputs[place])
            done.append(all(torch.allclose(step(inputs[place]), expected, atol=1e-5) for _ in range(50)))

    threads = [threading.Thread(target=worker, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True] * 4


def test_a_thread_reads_what_a_compiled_call_of_another_replaces():
    value, factor = torch.ones(256, device="tpu"), torch.ones(256, device="tpu")
    step = torch.compile(lambda: value.mul_(factor), backend="torchtpu")
    step()
    over, seen = threading.Event(), set()

    def read() -> None:
        while not over.is_set():
            seen.add(float((value + 1).min()))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(2000):
        step()
    over.set()
    reader.join()
    assert seen == {2.0}


@pytest.mark.parametrize("how", ["compiled", "copied", "item"])
def test_a_thread_reads_what_a_compiled_call_of_another_takes_over(how: str) -> None:
    """While such a call starts, its argument holds a promise that stands in no line."""
    value, factor = torch.ones(128, 128, device="tpu"), torch.ones(128, 128, device="tpu")
    step = torch.compile(lambda: value.mul_(factor), backend="torchtpu")
    total = torch.compile(lambda x: (x * 2).max(), backend="torchtpu")
    reads: dict[str, Callable[[], float]] = {
        "compiled": lambda: float(total(value)) / 2,
        "copied": lambda: float(value.cpu().max()),
        "item": lambda: value[0, 0].item(),
    }
    read = reads[how]
    step()
    read()
    over, seen, failed = threading.Event(), set(), []

    def keep_reading() -> None:
        while not over.is_set():
            try:
                seen.add(read())
            except RuntimeError as error:
                failed.append(error)

    reader = threading.Thread(target=keep_reading)
    reader.start()
    for _ in range(3000):
        step()
    over.set()
    reader.join()
    assert not failed, f"{len(failed)} times: {failed[0]}"
    assert seen == {1.0}


def run_fresh(script: str, *arguments: str) -> str:
    """What a process prints; it is killed if it hangs."""
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_threads_meet_the_device_at_once() -> None:
    script = """
    import faulthandler, sys, threading, torch
    faulthandler.dump_traceback_later(60, exit=True)
    sys.setswitchinterval(1e-6)
    firsts = [
        lambda: torch.ones(2, device="tpu:1"),
        lambda: torch.tpu.set_device(0),
        lambda: torch.tpu.manual_seed(0),
        lambda: torch.randn(2, device="tpu"),
    ]
    start = threading.Barrier(len(firsts))
    def run(first):
        start.wait()
        first()
    threads = [threading.Thread(target=run, args=(first,)) for first in firsts]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print("met")
    """
    assert run_fresh(script) == "met\n"


def test_a_plugin_fails_to_load_beside_others() -> None:
    script = """
    import faulthandler, threading, time, torch, torchtpu
    faulthandler.dump_traceback_later(60, exit=True)
    end = time.monotonic() + 2
    def load():
        while time.monotonic() < end:
            try:
                torchtpu.set_plugin("/nowhere/plugin.so")
            except torchtpu.Error:
                continue
            raise SystemExit("loaded")
    def look():
        while time.monotonic() < end:
            torchtpu.stats()
    threads = [threading.Thread(target=f) for f in (load, look, load, look)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print("ended")
    """
    assert run_fresh(script) == "ended\n"


USES = {
    "compile": "torch.compile(lambda x: x.cos(), backend='torchtpu')(torch.ones(2))",
    "eager": "(torch.ones(2, device='tpu') + 1).cpu()",
    "plugin": "torchtpu.set_plugin('cpu')",
}


@pytest.mark.parametrize("use", USES)
def test_compiling_in_a_fork_is_refused(use: str) -> None:
    script = """
    import os, sys, torch, torchtpu
    exec(sys.argv[1])
    if (pid := os.fork()) == 0:
        try:
            torch.compile(lambda x: x.sin() * 2, backend="torchtpu")(torch.ones(3))
        except RuntimeError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
    """
    told = run_fresh(script, USES[use])
    assert "cannot compile in a forked process" in told and "multiprocessing_context" in told


def test_a_fork_while_a_plugin_loads_is_refused_too() -> None:
    script = """
    import faulthandler, os, signal, threading, torch, torchtpu
    from pathlib import Path
    loading = threading.Thread(target=torchtpu.set_plugin, args=("cpu",))
    loading.start()
    while "pjrt" not in Path("/proc/self/maps").read_text():
        assert loading.is_alive()
    if (pid := os.fork()) == 0:
        signal.alarm(60)  # a lock that nobody opens
        faulthandler.dump_traceback_later(50)
        torchtpu.stats()
        try:
            torch.compile(lambda x: x.sin() * 2, backend="torchtpu")(torch.ones(3))
        except RuntimeError as error:
            print(error, flush=True)
        os._exit(0)
    loading.join()
    assert os.waitpid(pid, 0)[1] == 0
    """
    assert "cannot compile in a forked process" in run_fresh(script)
