"""Ops over lists of tensors, `torch._foreach_*`, of which optimizers are made: what they write, and who knows of it."""

from __future__ import annotations

import copy
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torchtpu
from fused_at_once import fused_at_once
from opdb import common_methods_invocations as database
from test_products import needs_mkl
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


# --- many tensors, which the host takes in one call -------------------------------------------------------------------

# A number, nothing, more than is computed at once, and such as are too large.
EXTENTS = [(5,), (), (3, 4), (0, 3), (1,), (2_001,), (2, 3, 300), (40_000,)]

WRITES: dict[str, Callable[[list[Tensor], list[Tensor], list[Tensor]], object]] = {
    "scaled": lambda x, y, z: torch._foreach_mul_(x, 0.7),
    "scaled each": lambda x, y, z: torch._foreach_div_(x, [1.0 + i for i in range(len(x))]),
    "moved": lambda x, y, z: torch._foreach_add_(x, y, alpha=-0.3),
    "by itself": lambda x, y, z: torch._foreach_mul_(x, x),
    "less itself": lambda x, y, z: torch._foreach_sub_(x, [t * 2 for t in x]),
    "averaged": lambda x, y, z: torch._foreach_lerp_(x, y, 0.1),
    "averaged the other way": lambda x, y, z: torch._foreach_lerp_(x, y, 0.9),
    "averaged each": lambda x, y, z: torch._foreach_lerp_(x, y, z),
    "products": lambda x, y, z: torch._foreach_addcmul_(x, y, z, 0.5),
    "quotients": lambda x, y, z: torch._foreach_addcdiv_(x, y, z, [0.5 + i for i in range(len(x))]),
    "roots": lambda x, y, z: torch._foreach_sqrt_(x),
    "at most": lambda x, y, z: torch._foreach_clamp_max_(x, y),
    "at least": lambda x, y, z: torch._foreach_maximum_(x, 0.25),
    "signs": lambda x, y, z: torch._foreach_neg_(x),
    "two after each other": lambda x, y, z: (torch._foreach_add_(x, y), torch._foreach_mul_(y, x)),
    "others of it": lambda x, y, z: torch._foreach_copy_(z, torch._foreach_abs(x)),
}


def lists(dtype: torch.dtype) -> list[list[Tensor]]:
    generator = torch.Generator().manual_seed(0)
    made = [[torch.randn(e, generator=generator).to(dtype) for e in EXTENTS] for _ in range(3)]
    for (of_x, of_y, of_z), value in zip(zip(*made, strict=True), [0.0, -0.0, float("nan"), 1.0] * 2, strict=False):
        if of_x.numel() > 4:
            of_x.view(-1)[0], of_y.view(-1)[1], of_z.view(-1)[2] = value, float("inf"), value
    return made


@pytest.mark.parametrize("mode", ["strict", "fused"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", WRITES)
def test_many_tensors_are_written(name: str, dtype: torch.dtype, mode: str) -> None:
    def run(device: str) -> object:
        given = [[t.to(device, copy=True) for t in tensors] for tensors in lists(dtype)]
        seen = [given[0][5][:3], given[2][2].t()]
        kept = given[1][5].clone()
        WRITES[name](*given)
        return [[t.cpu() for t in tensors] for tensors in (*given, seen, [kept])]

    with torchtpu.eager_mode("strict") if mode == "strict" else fused_at_once():
        assert assert_alike(run)


def test_many_parts_of_tensors_are_written() -> None:
    def run(device: str) -> object:
        grids = [torch.arange(24.0, device=device).reshape(4, 6) + i for i in range(3)]
        parts = [part for g in grids for part in (g[:, 1], g[1:3, 2:], g.t()[3:], g[0, :1])]
        torch._foreach_mul_(parts, [0.5 + i for i in range(len(parts))])
        torch._foreach_add_([g.t() for g in grids] * 2, [g.t() * 0.1 for g in grids[::-1]] * 2)
        return [g.cpu() for g in grids]

    assert assert_alike(run)


OPTIMIZERS: dict[str, Callable[[list[Tensor]], torch.optim.Optimizer]] = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.05),
    "adamw, amsgrad": lambda p: torch.optim.AdamW(p, lr=0.05, amsgrad=True, maximize=True),
    # The CPU takes no such steps.
    "adam, capturable": lambda p: (
        torch.optim.Adam(p, lr=torch.tensor(0.05, device="tpu"), foreach=True, capturable=True)
        if p[0].device.type == "tpu"
        else torch.optim.Adam(p, lr=0.05)
    ),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.05, centered=True, momentum=0.5),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05, lr_decay=0.1),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.05),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.05),
}


def steps() -> Iterator[tuple[str, torch.dtype, str]]:
    """All but fused mode's first steps, and its f64, which `make test-all` also runs."""
    everything = os.environ.get("TORCHTPU_TRAINING") == "all"
    for name in OPTIMIZERS:
        yield name, torch.float32, "strict"
        yield name, torch.float32, "fused at once"
        # Capturable steps count themselves in 32 bits, and what follows of that is no more exact.
        dtypes = [torch.float32] if "capturable" in name else [torch.float32, torch.float64]
        if torch.float64 in dtypes:
            yield name, torch.float64, "strict"
        if everything:
            yield from ((name, dtype, "fused") for dtype in dtypes)
            yield from ((name, dtype, "fused at once") for dtype in dtypes[1:])


@pytest.mark.parametrize(("name", "dtype", "mode"), steps())
def test_optimizers_step_as_on_the_cpu(name: str, dtype: torch.dtype, mode: str) -> None:
    """Parameters of many extents, of which one has no gradient at first."""

    def run(device: str) -> object:
        parameters = [nn.Parameter(t.nan_to_num(1.0, 1.0).to(device)) for t in lists(dtype)[0]]
        optimizer = OPTIMIZERS[name](parameters)
        for i in range(8):
            for j, (p, grad) in enumerate(zip(parameters, lists(dtype)[1], strict=True)):
                p.grad = None if j == 2 and i < 2 else grad.nan_to_num(1.0, 1.0, -1.0).to(device) * (0.5 + i)
            optimizer.step()
        return [p.detach().cpu() for p in parameters]

    with fused_at_once() if mode == "fused at once" else torchtpu.eager_mode(mode):
        assert assert_alike(run)


@needs_mkl
def test_an_optimizers_step_is_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHTPU_DUMP", str(tmp_path))
    monkeypatch.setenv("TORCHTPU_CACHE_DIR", "")
    parameters = [nn.Parameter(torch.randn(10 + i, device="tpu")) for i in range(5)]
    for p in parameters:
        p.grad = torch.ones_like(p)
    optimizer = torch.optim.AdamW(parameters)
    with fused_at_once():
        for _ in range(3):
            optimizer.step()
            torch.accelerator.synchronize()
    steps = [
        text for text in (path.read_text() for path in tmp_path.rglob("hlo.txt")) if "sqrt" in text or "rows" in text
    ]
    assert steps and all(text.count("torchtpu.rows") == 1 for text in steps)


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
