"""torch.compile over tensors of device "tpu": no copy to the host, mixed with eager ops."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest
import torch
import torchtpu
from agreement import default_dtype
from torch import Tensor, fx, nn
from torchtpu import device as tpu
from torchtpu.backend import torchtpu as torchtpu_backend


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2)).double()


def test_training_equals_the_cpu() -> None:
    ours, theirs = model().to("tpu"), model()
    x = torch.randn(16, 4, dtype=torch.float64)
    forward = torch.compile(ours, backend="torchtpu", fullgraph=True)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (ours, theirs)]
    step = torch.compile(optimizers[0].step, backend="torchtpu")
    before = tpu.fallbacks()
    for _ in range(4):
        (forward(x.to("tpu")) ** 2).mean().backward()
        (theirs(x) ** 2).mean().backward()
        step()
        optimizers[1].step()
        for optimizer in optimizers:
            optimizer.zero_grad()
    state = {name: value.cpu() for name, value in ours.state_dict().items()}
    torch.testing.assert_close(state, dict(theirs.state_dict()))
    assert tpu.fallbacks() == before


def test_compiled_adamw_with_steps_on_the_host() -> None:
    theirs = nn.Linear(3, 2).double()
    ours = copy.deepcopy(theirs).to("tpu")
    x = torch.randn(4, 3, dtype=torch.float64)
    with default_dtype(torch.float64):  # of the step counters, which a compiled AdamW computes with
        optimizers = [torch.optim.AdamW(m.parameters(), lr=0.1) for m in (ours, theirs)]
        step = torch.compile(optimizers[0].step, backend="torchtpu")
        for _ in range(3):
            ours(x.to("tpu")).square().sum().backward()
            theirs(x).square().sum().backward()
            step()
            optimizers[1].step()
            for optimizer in optimizers:
                optimizer.zero_grad()
    torch.testing.assert_close(ours.weight.detach().cpu(), theirs.weight.detach())


def test_writes_to_arguments_and_views() -> None:
    @torch.compile(backend="torchtpu", fullgraph=True)
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        y.add_(1)
        x[1:].mul_(2)
        return x.t(), x.sum()

    a, b = torch.arange(6.0, device="tpu").reshape(2, 3), torch.zeros(10, device="tpu")
    transposed, total = program(a, b[2:5])
    assert a.tolist() == [[0, 1, 2], [6, 8, 10]]
    assert b.tolist() == [0, 0, 1, 1, 1, 0, 0, 0, 0, 0]
    assert total.item() == 27
    transposed.add_(1)
    assert a[0, 0].item() == 1, "the result is a view of the argument"


def test_results_on_both_devices() -> None:
    @torch.compile(backend="torchtpu", fullgraph=True)
    def program() -> tuple[Tensor, Tensor]:
        return torch.ones(2, device="tpu"), torch.zeros(2)

    one, zero = program()
    assert (one.device.type, zero.device.type) == ("tpu", "cpu")
    assert (one.tolist(), zero.tolist()) == ([1, 1], [0, 0])


def test_random_numbers_follow_the_devices_generator() -> None:
    @torch.compile(backend="torchtpu", fullgraph=True)
    def draw(x: Tensor) -> Tensor:
        return torch.rand_like(x)

    x = torch.zeros(8, device="tpu")
    torch.manual_seed(3)
    first, second = draw(x), draw(x)
    torch.manual_seed(3)
    assert torch.equal(draw(x), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dynamic", [True, False, None])
def test_changing_sizes(dynamic: bool | None) -> None:
    double = torch.compile(lambda x: x * 2, backend="torchtpu", dynamic=dynamic)
    for n in (3, 5, 8):
        x = torch.arange(float(n), device="tpu")
        assert double(x).tolist() == [2.0 * i for i in range(n)]


def test_no_gradients_and_inference_mode() -> None:
    net = model().to("tpu").eval()
    compiled = torch.compile(net, backend="torchtpu")
    x = torch.ones(2, 4, dtype=torch.float64, device="tpu")
    with torch.no_grad():
        expected = net(x)
        torch.testing.assert_close(compiled(x), expected)
    with torch.inference_mode():
        torch.testing.assert_close(compiled(x), expected)


def test_memory_is_not_kept() -> None:
    step = torch.compile(lambda x: x.mul_(1.5), backend="torchtpu")
    x = torch.ones(1 << 18, device="tpu")
    step(x)
    before = torch.tpu.memory_allocated()
    for _ in range(10):
        step(x)
    torch.tpu.synchronize()
    assert torch.tpu.memory_allocated() == before


def test_devices_are_not_mixed() -> None:
    add = torch.compile(lambda x, y: x.to("tpu:1") + y, backend="torchtpu")
    with pytest.raises(torchtpu.Error, match="several devices"):
        add(torch.ones(2, device="tpu:0"), torch.ones(2, device="tpu:1"))


@pytest.mark.filterwarnings("error")
def test_without_a_backend_the_device_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    def inductor(*_: Any, **__: Any) -> None:
        raise RuntimeError("Inductor was asked")

    def ours_counted(graph: fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return torchtpu_backend(graph, inputs)

    graphs: list[fx.GraphModule] = []
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", inductor)
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    monkeypatch.setattr("torchtpu.backend.torchtpu", ours_counted)
    ours = copy.deepcopy(model).to("tpu")
    loss = torch.compile(ours, mode="max-autotune")(x.to("tpu")).square().sum()
    torch.testing.assert_close([g.cpu() for g in torch.autograd.grad(loss, list(ours.parameters()))], list(expected))
    assert len(graphs) == 1
    # Nothing goes in, and one comes out.
    assert torch.equal(torch.compile(lambda: torch.arange(3, device="tpu") + 1)().cpu(), torch.arange(3) + 1)
    assert len(graphs) == 2
    with pytest.raises(Exception, match="Inductor was asked"):
        torch.compile(model)(x)


GROUPED = """
import torch, torch.distributed as dist
dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(2)
dist.all_reduce(x)
try:
    dist.all_reduce(torch.ones(2, device="tpu"))
except RuntimeError as error:
    print(error)
print(dist.get_backend_config())
"""


def test_process_groups_start_as_if_there_were_no_device() -> None:
    run = subprocess.run([sys.executable, "-c", GROUPED], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "No backend type associated with device type tpu\ncpu:gloo\n"


def test_another_device_than_the_first() -> None:
    double = torch.compile(lambda x: x * 2, backend="torchtpu")
    result = double(torch.ones(2, device="tpu:1"))
    assert result.device == torch.device("tpu", 1)
    assert result.tolist() == [2, 2]


@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.InstanceNorm1d])
def test_gradients_through_a_norm_in_evaluation(norm: type[nn.Module]) -> None:
    """PyTorch's kernels leave what was used empty on the CPU; what is traced for another device keeps it."""
    theirs = norm(3, affine=True, track_running_stats=True).double().eval()
    nn.init.uniform_(theirs.running_var)
    ours = copy.deepcopy(theirs).to("tpu")
    x = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True)
    y = x.detach().to("tpu").requires_grad_()
    torch.compile(ours, backend="torchtpu", fullgraph=True)(y).square().sum().backward()
    theirs(x).square().sum().backward()
    for got, want in ((y, x), (ours.weight, theirs.weight), (ours.bias, theirs.bias)):
        torch.testing.assert_close(got.grad.cpu(), want.grad)


@pytest.mark.parametrize("mode", ["sum", "weighted", "mean", "max"])
@pytest.mark.parametrize("last", [False, True])
def test_gradients_through_bags(mode: str, last: bool) -> None:
    """Helper results have other sizes than on the CPU."""
    table = torch.randn(10, 3, dtype=torch.float32, requires_grad=True)
    copied = table.detach().to("tpu").requires_grad_()
    i, offsets = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 3, 3, 8][: 4 if last else 3])
    weights = torch.rand(8) if mode == "weighted" else None

    def bags(table: Tensor, i: Tensor, offsets: Tensor, weights: Tensor | None) -> Tensor:
        how = "sum" if mode == "weighted" else mode
        bag = torch.nn.functional.embedding_bag
        return bag(i, table, offsets, mode=how, include_last_offset=last, per_sample_weights=weights)

    program = torch.compile(bags, backend="torchtpu", fullgraph=True)
    on_tpu = [None if t is None else t.to("tpu") for t in (i, offsets, weights)]
    with torch.no_grad():  # another op: the forward pass alone
        torch.testing.assert_close(program(copied, *on_tpu).cpu(), bags(table, i, offsets, weights))
    got, want = program(copied, *on_tpu), bags(table, i, offsets, weights)
    torch.testing.assert_close(got.cpu(), want)
    got.square().sum().backward()
    want.square().sum().backward()
    torch.testing.assert_close(copied.grad.cpu(), table.grad)
