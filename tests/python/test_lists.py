"""Ops over lists of tensors, `torch._foreach_*`, of which optimizers are made: what they write, and who knows of it."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator

import pytest
import torch
import torchtpu
from opdb import common_methods_invocations as database
from torch import Tensor, nn

INFOS = [
    info
    for infos in (
        database.foreach_unary_op_db,
        database.foreach_binary_op_db,
        database.foreach_pointwise_op_db,
        database.foreach_other_op_db,
    )
    for info in infos
    if info.inplace_variant is not None
]


def both_ways(run: Callable[[str], object]) -> tuple[object, object]:
    """What `run` gives or raises on the CPU and on device "tpu"."""
    results = []
    for device in ("cpu", "tpu"):
        try:
            results.append(run(device))
        except (RuntimeError, ValueError) as error:
            results.append(type(error))
    return results[0], results[1]


def assert_alike(run: Callable[[str], object]) -> bool:
    """That both give or refuse the same; whether they give anything."""
    expected, actual = both_ways(run)
    if isinstance(expected, type) or isinstance(actual, type):
        assert actual is expected
        return False
    torch.testing.assert_close(actual, expected, equal_nan=True)
    return True


def moved(value: object, device: str) -> object:
    if isinstance(value, Tensor):
        return value.detach().to(device, copy=True)
    return [moved(v, device) for v in value] if isinstance(value, (list, tuple)) else value


def samples(info: database.ForeachFuncInfo) -> Iterator[tuple[list[Tensor], list[object], dict[str, object]]]:
    """The database's, whose lists are long, cut to their first tensors."""

    def cut(value: object, length: int) -> object:
        is_one = isinstance(value, list) or (isinstance(value, Tensor) and value.dim() == 1 and len(value) == length)
        return value[:4] if is_one else value

    for sample in info.sample_inputs("cpu", torch.float32, noncontiguous=False):
        length = len(sample.input)
        args = [cut(a, length) for a in sample.args]
        yield sample.input[:4], args, {name: cut(value, length) for name, value in sample.kwargs.items()}


@pytest.mark.parametrize("info", INFOS, ids=lambda info: info.name)
def test_what_is_written_in_place_is_counted(info: database.ForeachFuncInfo) -> None:
    seen = 0
    for tensors, args, kwargs in samples(info):

        def run(device: str, tensors: object = tensors, args: object = args, kwargs: object = kwargs) -> object:
            written = moved(tensors, device)
            info.inplace_variant(written, *moved(args, device), **kwargs)
            return [t._version for t in written], [t.cpu() for t in written]

        seen += assert_alike(run)
    assert seen


@pytest.mark.parametrize("mode", ["strict", "fused"])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_a_gradient_of_weights_that_an_optimizer_has_changed_is_refused(
    optimizer: type[torch.optim.Optimizer], mode: str
) -> None:
    with torchtpu.eager_mode(mode):
        weight = nn.Parameter(torch.ones(3, device="tpu"))
        first, second = (weight * 2).sum(), (weight * weight).sum()
        step = optimizer([weight], lr=0.1)
        first.backward()
        step.step()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            second.backward()


def test_clipped_gradients_are_counted() -> None:
    def versions(device: str) -> list[int]:
        weight = nn.Parameter(torch.ones(3, device=device))
        weight.grad = torch.ones(3, device=device)
        nn.utils.clip_grad_norm_([weight], 0.1)
        nn.utils.clip_grad_value_([weight], 0.01)
        return [weight._version, weight.grad._version]

    assert versions("tpu") == versions("cpu")


def test_tensors_made_under_inference_mode_are_not_counted() -> None:
    with torch.inference_mode():
        x = [torch.ones(2, device="tpu")]
        torch._foreach_add_(x, 1.0)
    assert x[0].tolist() == [2, 2]


# --- tensors that share memory ----------------------------------------------------------------------------------------


def _twice(x: Tensor) -> None:
    torch._foreach_mul_([x, x], 3.0)


def _twice_by_lists(x: Tensor) -> None:
    torch._foreach_add_([x, x], [x, x])


def _exchanged(x: Tensor) -> None:
    torch._foreach_mul_([x[:2], x[2:]], [x[2:], x[:2]])


def _overlapping(x: Tensor) -> None:
    torch._foreach_mul_([x[:3], x[1:]], [2.0, 3.0])


def _moved_along(x: Tensor) -> None:
    torch._foreach_copy_([x[:3]], [x[1:]])


def _moved_along_of_two(x: Tensor) -> None:
    torch._foreach_copy_([x[:3], x[3:]], [x[1:], x[:1]])


def _itself(x: Tensor) -> None:
    torch._foreach_mul_([x[:2], x[2:]], [x[:2], x[2:]])


def _columns(x: Tensor) -> None:
    grid = x.view(2, 2)
    torch._foreach_add_([grid[:, 0], grid[:, 1]], [grid[:, 1], grid[:, 0]])


def _one_weight_for_two(x: Tensor) -> None:
    a, b = nn.Parameter(x), nn.Parameter(x)
    a.grad, b.grad = torch.ones_like(x), torch.ones_like(x)
    torch.optim.SGD([a, b], lr=0.1, foreach=True).step()


SHARING = [
    _twice,
    _twice_by_lists,
    _exchanged,
    _overlapping,
    _moved_along,
    _moved_along_of_two,
    _itself,
    _columns,
    _one_weight_for_two,
]


@pytest.mark.parametrize("mode", ["strict", "fused"])
@pytest.mark.parametrize("write", SHARING, ids=lambda f: f.__name__.strip("_"))
def test_tensors_that_share_memory_are_written_in_order(write: Callable[[Tensor], None], mode: str) -> None:
    def run(device: str) -> object:
        x = torch.arange(1.0, 5.0, device=device)
        write(x)
        return x.cpu()

    with torchtpu.eager_mode(mode):
        assert_alike(run)


# --- numbers and devices ----------------------------------------------------------------------------------------------

POINTWISE = ["_foreach_addcmul", "_foreach_addcdiv", "_foreach_addcmul_", "_foreach_addcdiv_"]


@pytest.mark.parametrize("name", POINTWISE)
def test_numbers_may_come_as_a_tensor_of_the_host(name: str) -> None:
    def run(device: str) -> object:
        x, y, z = ([torch.full((2,), start + i, device=device) for i in range(3)] for start in (1.0, 2.0, 4.0))
        made = getattr(torch, name)(x, y, z, torch.tensor([2.0, 3.0, 5.0]))
        return [t.cpu() for t in (made or x)]

    assert assert_alike(run)


def test_numbers_on_the_device_are_refused_by_their_name() -> None:
    x = [torch.ones(2, device="tpu")]
    with pytest.raises(RuntimeError, match="Expected scalars to be on CPU, got tpu:0 instead"):
        torch._foreach_addcmul(x, x, x, torch.ones(1, device="tpu"))


def test_tensors_of_several_devices_go_one_by_one() -> None:
    x, host, other = torch.ones(2, device="tpu"), torch.ones(2), torch.ones(2, device="tpu:1")
    sums = torch._foreach_add([x, host, other, torch.tensor(1.0)], 1.0)
    assert [str(s.device) for s in sums] == ["tpu:0", "cpu", "tpu:1", "cpu"]
    assert [s.sum().item() for s in sums] == [4, 4, 4, 2]
    norms = torch._foreach_norm([x, host])
    assert [str(n.device) for n in norms] == ["tpu:0", "cpu"]
    torch._foreach_copy_([x, host], [torch.arange(2), torch.full((2,), 7.0, device="tpu")])
    assert (x.tolist(), host.tolist()) == ([0, 1], [7, 7])
    torch._foreach_copy_([host], [x])
    assert host.tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="at least two devices, tpu:0 and cpu"):
        torch._foreach_add_([x], [host])


def test_many_tensors_in_one_call() -> None:
    many = [torch.full((2,), float(i), device="tpu") for i in range(700)]
    torch._foreach_add_(many, many[::-1][:350] + many[:350][::-1])
    assert [t[0].item() for t in many[:3]] == [699, 699, 699]


# --- storages that came as bytes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_an_optimizer_goes_on_with_what_was_loaded_onto_the_device(mode: str) -> None:
    def trained(device: str) -> list[Tensor]:
        torch.manual_seed(0)
        net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(20)]).to(device)
        optimizer = torch.optim.AdamW(net.parameters(), amsgrad=True)

        def step() -> None:
            net(torch.ones(2, 4, device=device)).sum().backward()
            optimizer.step()

        step()
        file = io.BytesIO()
        torch.save((net.state_dict(), optimizer.state_dict()), file)
        file.seek(0)
        weights, state = torch.load(file, map_location=device)
        net.load_state_dict(weights)
        optimizer.load_state_dict(copy.deepcopy(state))
        step()
        return [p.detach().cpu() for p in net.parameters()]

    with torchtpu.eager_mode(mode):
        torch.testing.assert_close(trained("tpu"), trained("cpu"))


def test_many_tensors_that_came_as_bytes_are_one_call() -> None:
    parts = [torch.arange(4.0) + i for i in range(40)]
    file = io.BytesIO()
    torch.save(parts, file)
    file.seek(0)
    assert torch.equal(torch.cat(torch.load(file, map_location="tpu")).cpu(), torch.cat(parts))
