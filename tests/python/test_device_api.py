"""`torch.tpu` beside `torch.cuda`: what device-generic scripts and libraries call."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchtpu
from fused_at_once import fused_at_once
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.autograd import DeviceType
from torch.utils.data import DataLoader, TensorDataset


def test_devices_are_chosen_per_thread_and_per_block() -> None:
    assert torch.tpu.is_available() and torch.tpu.is_initialized()
    assert torch.get_device_module("tpu") is torch.tpu
    assert torch.accelerator.current_accelerator() == torch.device("tpu")
    assert torch.accelerator.device_count() == torch.tpu.device_count() > 1
    with torch.tpu.device(1):
        assert torch.tpu.current_device() == 1
        assert torch.ones(1, device="tpu").device == torch.device("tpu", 1)
    with torch.accelerator.device_index(1):
        assert torch.accelerator.current_device_index() == 1
    assert torch.tpu.current_device() == 0
    with pytest.raises(RuntimeError, match="there is no device tpu:99"):
        torch.tpu.set_device(99)
    with pytest.raises(RuntimeError, match="there is no device tpu:256"):
        torch.tpu.set_device(256)


def test_devices_are_there_once_a_plugin_is() -> None:
    script = """
import torch, torchtpu
for wrong in (lambda: torch.tpu.set_device(0), lambda: torch.ones(2, device="tpu")):
    try:
        wrong()
    except RuntimeError as error:
        print(str(error).startswith("no PJRT plugin"))
torchtpu.set_plugin("cpu")
torch.tpu.set_device(torch.tpu.device_count() - 1)
print(torch.randn(2, device="tpu").device.index == torch.tpu.device_count() - 1)
"""
    command = [sys.executable, "-c", script]
    environment = {**os.environ, "TORCHTPU_PLUGIN": "/nowhere/plugin.so"}
    run = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment, check=True)
    assert run.stdout.split() == ["True"] * 3, run.stdout


def test_a_generators_state_is_real_in_fake_modes() -> None:
    with FakeTensorMode():
        state = torch.tpu.get_rng_state()
    assert torch.equal(state, torch.tpu.get_rng_state())


# Bound to one processor before anything counts them.
COUNTED = (
    "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); import torch; print(torch.tpu.device_count())"
)


@pytest.mark.parametrize(("said", "counted"), [(None, "1"), ("3", "3")])
def test_no_more_virtual_devices_than_processors_unless_told(said: str | None, counted: str) -> None:
    run = _counted(said)
    assert (run.stdout.strip(), run.stderr) == (counted, "")


@pytest.mark.parametrize("said", ["many", "0"])
def test_a_number_of_virtual_devices_that_is_none_is_refused(said: str) -> None:
    run = _counted(said)
    assert run.returncode == 1
    assert "TORCHTPU_CPU_DEVICES must be a" in run.stderr.splitlines()[-1] and said in run.stderr.splitlines()[-1]


def _counted(said: str | None) -> subprocess.CompletedProcess[str]:
    """A process of its own that counts its devices."""
    env = {name: value for name, value in os.environ.items() if name != "TORCHTPU_CPU_DEVICES"}
    if said is not None:
        env["TORCHTPU_CPU_DEVICES"] = said
    return subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, env=env)


def test_default_devices() -> None:
    with torch.device("tpu"):
        assert torch.tensor([1.0]).device.type == nn.Linear(1, 1).weight.device.type == "tpu"
    torch.set_default_device("tpu")
    try:
        assert torch.arange(2).device.type == torch.get_default_device().type == "tpu"
    finally:
        torch.set_default_device(None)


def test_methods_named_after_the_device() -> None:
    x = torch.arange(2.0)
    assert x.tpu().is_tpu and x.tpu(1).device.index == 1 and not x.is_tpu
    assert nn.Linear(1, 1).tpu().weight.is_tpu
    assert x.untyped_storage().tpu().device.type == "tpu"
    packed = nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 1), [3, 2])
    assert packed.tpu().data.is_tpu
    assert x.tpu().type() == "torch.tpu.FloatTensor"


def test_streams_and_events() -> None:
    stream = torch.tpu.Stream()
    with torch.tpu.stream(stream), stream:
        x = torch.ones(4, device="tpu") + 1
    stream.wait_stream(torch.tpu.current_stream())
    event = stream.record_event()
    stream.wait_event(event)
    event.wait()
    event.synchronize()
    x.record_stream(stream)
    torch.tpu.synchronize()
    assert event.query() and stream.query()
    assert torch.tpu.default_stream(1).device == torch.device("tpu", 1)
    assert not torch.tpu.is_current_stream_capturing()


def test_a_stream_of_no_device_in_particular_is_of_the_current_one() -> None:
    with torch.tpu.device(1):
        stream = torch.Stream(device="tpu")
    assert stream.device == torch.device("tpu", 1)
    stream.synchronize()
    assert stream.query()


def test_events_take_the_devices_time() -> None:
    x = torch.ones(600, 600, device="tpu")
    y = x @ x
    begin, end = (torch.tpu.Event(enable_timing=True) for _ in range(2))
    torch.tpu.synchronize()
    begin.record()
    for _ in range(20):
        y = y @ x
    end.record()
    assert end.query()
    # 20 products of 2 * 600**3 operations: no machine of today queues them and is done in less.
    assert begin.elapsed_time(end) > 1.0
    with pytest.raises(ValueError, match="Both events must be recorded"):
        torch.tpu.Event(enable_timing=True).elapsed_time(end)


def test_memory_is_counted() -> None:
    torch.ones(1, device="tpu")  # the number stays on the device
    torch.tpu.reset_peak_memory_stats()
    torch.tpu.reset_accumulated_memory_stats()
    before = torch.tpu.memory_allocated()
    x = torch.ones(1 << 18, device="tpu")
    del x
    stats = torch.tpu.memory_stats()
    assert torch.tpu.memory_allocated() == before == torch.accelerator.memory_allocated()
    assert torch.tpu.max_memory_allocated() >= before + (1 << 20)
    assert stats["allocated_bytes.all.allocated"] >= 1 << 20
    assert stats["allocated_bytes.all.freed"] >= 1 << 20
    torch.tpu.reset_max_memory_allocated()
    assert torch.tpu.max_memory_allocated() == before
    assert "tensors" in torch.tpu.memory_summary()
    torch.tpu.empty_cache()
    free, total = torch.tpu.mem_get_info()
    assert 0 < free < total
    # The CPU plugin's devices have the machine's memory.
    assert total == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert torch.tpu.get_device_properties(0).total_memory == total
    assert torch.accelerator.get_memory_info() == (free, total)
    assert torch.tpu.get_device_properties(0).name == torch.tpu.get_device_name()


@pytest.mark.parametrize("mode", ["strict", "debug", "fused"])
def test_an_emptied_storage_frees_its_memory(mode: str) -> None:
    with torchtpu.eager_mode(mode):
        x = torch.full((1 << 18,), 2.0, device="tpu")
        y = x + 1
        torch.tpu.synchronize()
        before = torch.tpu.memory_allocated()
        storage = x.untyped_storage()
        storage.resize_(0)
        assert torch.tpu.memory_allocated() == before - (1 << 20)
        storage.resize_(1 << 20)
        x.fill_(3.0)
        assert torch.equal(x, y), "what was computed from it stays"


def _peak(work: Callable[[], object]) -> int:
    """The most bytes in use while `work` runs, beyond those in use before."""
    torch.tpu.synchronize()
    torch.tpu.reset_peak_memory_stats()
    before = torch.tpu.memory_allocated()
    result = work()
    torch.tpu.synchronize()
    del result
    return int(torch.tpu.max_memory_allocated() - before)


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_the_peak_is_what_programs_take_while_they_run(mode: str, deterministic: None) -> None:
    w = torch.ones(256, 256, device="tpu")

    def products() -> torch.Tensor:
        return ((w @ w) @ w).sum()

    with torchtpu.eager_mode(mode):
        for _ in range(6):  # a region runs as one program from its fourth time on
            assert w.nbytes * 2 <= _peak(products) <= w.nbytes * 2 + 64
            assert _peak(lambda: w.mul_(0.5)) <= 64, "what is written in place is not there twice"
            assert _peak(lambda: torch._foreach_mul_([w], 0.5)) <= 64
    compiled = torch.compile(products, backend="torchtpu")
    assert w.nbytes * 2 <= _peak(compiled) <= w.nbytes * 2 + 64


@pytest.mark.filterwarnings("ignore:pin_memory gives ordinary memory")
def test_pinned_memory_is_ordinary_memory() -> None:
    for pin in (lambda: torch.ones(1).pin_memory(), lambda: torch.ones(1, pin_memory=True)):
        assert pin().tolist() == [1] and not pin().is_pinned()
    for workers in (0, 1):
        loader = DataLoader(TensorDataset(torch.arange(4)), batch_size=2, pin_memory=True, num_workers=workers)
        assert [batch.tolist() for (batch,) in loader] == [[0, 1], [2, 3]]
    assert torch.ones(1).to("tpu", non_blocking=True).tolist() == [1]


def test_generators() -> None:
    torch.tpu.manual_seed_all(3)
    states = torch.tpu.get_rng_state_all()
    first = [torch.rand(2, device=f"tpu:{i}").cpu() for i in range(2)]
    torch.tpu.set_rng_state_all(states)
    for i in range(2):
        assert torch.equal(first[i], torch.rand(2, device=f"tpu:{i}").cpu())
    assert torch.tpu.initial_seed() == 3
    assert len(torch.tpu.default_generators) == torch.tpu.device_count()
    with torch.random.fork_rng(devices=[0], device_type="tpu"):
        inside = torch.rand(2, device="tpu")
    assert torch.equal(inside, torch.rand(2, device="tpu"))


def test_calls_draw_different_numbers() -> None:
    draws = [torch.rand(1000, device="tpu") for _ in range(2)]
    draws += torch.compile(lambda x: (torch.rand_like(x), torch.rand_like(x)), backend="torchtpu")(draws[0])
    assert len(torch.cat(draws).unique()) > 3990


def test_autocast_computes_in_bfloat16() -> None:
    x = torch.ones(2, 2, device="tpu")
    with torch.autocast("tpu"):
        assert (x @ x).dtype == torch.bfloat16
        assert torch.softmax(x, 0).dtype == torch.float32
    with torch.tpu.amp.autocast(dtype=torch.float16):
        assert (x @ x).dtype == torch.float16
    assert torch.tpu.is_bf16_supported()


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_loss_of_classes_is_computed_in_single_precision_under_autocast(reduction: str) -> None:
    logits, classes = torch.randn(16, 100, generator=torch.Generator().manual_seed(0)).bfloat16(), torch.arange(16)

    def loss(device: str) -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16):
            return nn.functional.cross_entropy(logits.to(device), classes.to(device), reduction=reduction)

    torch.testing.assert_close(loss("tpu").cpu(), loss("cpu"))


@pytest.mark.parametrize("make", [torch.amp.GradScaler, None])
def test_scaled_gradients(make: type[torch.amp.GradScaler] | None) -> None:
    scaler = make("tpu", init_scale=64.0) if make else torch.tpu.amp.GradScaler(init_scale=64.0)
    model = nn.Linear(2, 1).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def backward() -> None:
        with torch.autocast("tpu", dtype=torch.float16):
            loss = model(torch.ones(3, 2, device="tpu")).sum()
        scaler.scale(loss).backward()

    backward()
    scaler.unscale_(optimizer)
    torch.testing.assert_close(model.weight.grad.cpu(), torch.full((1, 2), 3.0))
    scaler.step(optimizer)
    scaler.update()
    backward()
    model.weight.grad.fill_(float("inf"))
    before = model.weight.detach().clone()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(model.weight, before), "a step with infinite gradients must be left out"
    assert scaler.get_scale() == 32.0


def test_the_profiler_shows_device_time() -> None:
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    with torch.profiler.profile(activities=activities) as profile:
        x = torch.ones(500, 500, device="tpu")
        (x @ x @ x).sum().item()
    on_host = [event for event in profile.events() if event.device_type == DeviceType.CPU]
    assert [event.name for event in on_host].count("aten::matmul") == 2
    with torch.autograd.profiler.profile(use_device="tpu") as timed:
        (x @ x @ x).sum().item()
    products = next(event for event in timed.key_averages() if event.key == "aten::mm")
    assert products.device_time > 0


def profiled(step: Callable[[], object], path: Path) -> tuple[set[str], list[dict[str, Any]]]:
    """The names that a profile of `step` has on the device, and the executions of its trace."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    with torch.profiler.profile(activities=activities) as profile:
        step()
    profile.export_chrome_trace(str(path))
    executions = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("cat") == "kernel"]
    return {event.name for event in profile.events() if event.device_type == DeviceType.PrivateUse1}, executions


def test_the_profiler_names_what_ran_on_the_device(tmp_path: Path) -> None:
    x = torch.full((100, 100), 0.01, device="tpu")
    x.tanh()  # before the profile, and not in it

    def step() -> float:
        return (x @ x).sum().item()

    with torchtpu.eager_mode("strict"):
        names, executions = profiled(step, tmp_path / "strict.json")
    assert names == {"aten::mm.default", "aten::sum.default"}
    assert [event["name"] for event in executions] == ["aten::mm.default", "aten::sum.default"]
    assert all(event["args"]["line"].startswith(f"{__file__}:") for event in executions)
    assert executions[0]["ts"] + executions[0]["dur"] <= executions[1]["ts"] + 0.001, "one after the other"
    with fused_at_once():
        names, executions = profiled(step, tmp_path / "fused.json")
    assert [re.sub(r"\d+", "N", name) for name in names] == ["step:N"]
    assert len(executions) == 1
    compiled = torch.compile(step, backend="torchtpu")
    assert profiled(compiled, tmp_path / "compiled.json")[0] == {"a compiled program"}


def test_a_profile_may_begin_before_the_device() -> None:
    script = """
import torch
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.PrivateUse1]) as profile:
    torch.ones(3, device="tpu").tanh()
print("aten::tanh.default" in {event.name for event in profile.events()})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split("\n")[-2] == "True", done.stderr


def test_eager_ops_do_not_import_torch_dynamo() -> None:
    # Which takes a second. Once somebody has, it guards meta kernels as ever.
    script = """
import sys, torch
from torchtpu._meta_kernels import _guards
x = torch.ones(4, 4, device="tpu", requires_grad=True)
y = torch.nn.functional.gelu(torch.nn.functional.layer_norm(x @ x, (4,)) * 2 + 1).softmax(0) / x
y[y > 0.1].sum().backward()
print("torch._dynamo" in sys.modules)
import torch._dynamo
disabled = lambda kernel: getattr(kernel, "__dynamo_disable", None)
guarded = lambda: any(hasattr(disabled(kernel), "_torchdynamo_disable") for _, kernel in _guards())
print(guarded(), (x.detach().mT[:2, :2] * 2.5).tolist(), guarded())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split("\n")[:2] == ["False", "False [[2.5, 2.5], [2.5, 2.5]] True"], done.stdout + done.stderr


def test_eager_ops_do_not_import_sympy() -> None:
    # Which takes 0.4 s, and is what PyTorch's meta kernels in Python do first.
    script = """
import sys, torch
x = torch.ones(4, 4, device="tpu", requires_grad=True)
w = torch.ones(4, device="tpu")
y = torch.nn.functional.gelu(torch.nn.functional.layer_norm(x @ x, (4,), w, w) * 2 + 1).softmax(0) / x.clamp(0.1)
torch.nn.functional.cross_entropy(y, torch.zeros(4, dtype=torch.long, device="tpu")).backward()
with torch.no_grad():
    x.add_(x.grad, alpha=-0.1).mul_(2).addcmul_(x.grad, x.grad)
print(x.isfinite().all().item(), "sympy" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split("\n")[0] == "True False", done.stdout + done.stderr


@pytest.mark.parametrize(
    "first",
    ["import torchtpu; torchtpu.eager_mode('strict')", "from torchtpu import device", "import torchtpu.device"],
)
def test_the_package_may_be_imported_before_pytorch(first: str) -> None:
    script = f"{first}\nimport torch\nprint((torch.ones(2, device='tpu') + 1).tolist(), torch.tpu.is_available())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split("\n")[0] == "[2.0, 2.0] True", done.stderr
