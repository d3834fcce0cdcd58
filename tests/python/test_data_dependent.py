"""Graphs in which sizes and numbers are data: read where they are needed, counted by line, and never a fallback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torchtpu
from counting import programs
from torch import Tensor

ERROR = {"fallback": "error"}


@pytest.fixture(autouse=True)
def _capture() -> Iterator[None]:
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def reads(fn: Callable[..., Any]) -> dict[str, int]:
    """How often each op was waited for on the lines of `fn`."""
    first = fn.__code__.co_firstlineno
    lines = {f"{__file__}:{line}" for line in range(first, first + 10)}
    counts = {op: sum(places.get(line, 0) for line in lines) for op, places in torchtpu.stats()["reads"].items()}
    return {op: n for op, n in counts.items() if n}


def positive(x: Tensor) -> Tensor:
    return (x * 2)[x > 0] + 1


def places(x: Tensor) -> Tensor:
    found = (x > 0).nonzero()
    return found.float().sum(0) + found.shape[0]


def columns(x: Tensor) -> tuple[Tensor, ...]:
    return torch.where((x > 0) & (x[:, None] != 0))


def length(x: Tensor) -> Tensor:
    return torch.ones(int(x.abs().sum().item()), 2, device=x.device) * x[0]


def agreed(x: Tensor) -> tuple[bool, Tensor]:
    return (x > 0).all().item(), x + 1


def distinct(x: Tensor) -> tuple[Tensor, Tensor]:
    values, counts = torch.unique(x.round(), return_counts=True)
    return values * 2, counts


def together(x: Tensor) -> Tensor:
    above, below, neither = x[x > 0], x[x < 0], x[x == 0]
    count = sum([len(above), len(below), len(neither)])
    return torch.arange(count, device=x.device) - torch.cat([above, below, neither])


def framed(x: Tensor) -> Tensor:
    low, high = (x > 2).sum().item(), (x < 0).sum().item()
    return torch.nn.functional.pad(x[None, None], (low, high))


FUNCTIONS = {
    positive: {"aten.index.Tensor": 1},
    places: {"aten.nonzero.default": 1},
    columns: {"aten.nonzero.default": 1},
    length: {"aten._local_scalar_dense.default": 1},
    agreed: {"aten._local_scalar_dense.default": 1},
    distinct: {"aten._unique2.default": 1},
    together: {"aten.index.Tensor": 3},
    framed: {"aten._local_scalar_dense.default": 2},
}


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_sizes_that_are_data(fn: Callable[..., Any], device: str) -> None:
    torch._dynamo.reset()
    step, before = torch.compile(fn, backend="torchtpu", fullgraph=True, options=ERROR), reads(fn)
    inputs = [torch.tensor(v) for v in ([1.0, -2.0, 3.0], [-1.0, -1.0, -1.0], [1.0, 1.0, 4.0])]
    for x in inputs:
        torch.testing.assert_close(step(x.to(device)), fn(x), check_device=False)
    counted = {op: n - before.get(op, 0) for op, n in reads(fn).items()}
    assert counted == {op: n * len(inputs) for op, n in FUNCTIONS[fn].items()}


def mirrored(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return torch.nn.functional.pad(x[None], (low, high), mode="reflect")  # type: ignore[arg-type]


def test_gradients_of_what_is_as_long_as_tensors_say() -> None:
    """AOTAutograd names the sizes twice, and gives the backward graph one name's values and the other's shapes."""
    x = torch.tensor([3.0, -1.0, 2.0, 5.0], requires_grad=True)
    low, high = torch.tensor(1), torch.tensor(2)
    torch.compile(mirrored, backend="torchtpu", fullgraph=True, options=ERROR)(x, low, high).square().sum().backward()
    ours, x.grad = x.grad, None
    mirrored(x, low, high).square().sum().backward()
    assert ours is not None
    torch.testing.assert_close(ours, x.grad)


def test_gradients_through_a_mask() -> None:
    x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    torch._dynamo.reset()
    torch.compile(positive, backend="torchtpu", fullgraph=True, options=ERROR)(x).square().sum().backward()
    ours, x.grad = x.grad, None
    positive(x).square().sum().backward()
    torch.testing.assert_close(ours, x.grad)


# --- programs that PyTorch's own backend runs -------------------------------------------------------------------------


def padded(x: Tensor) -> Tensor:
    return torch.nn.functional.pad(x[x > 0], (0, 3))


def padded_rows(x: Tensor) -> Tensor:
    return torch.nn.functional.pad(x[:, None].expand(-1, 2)[x > 0], (1, 0, 2, 3))


def joined(x: Tensor) -> Tensor:
    return torch.cat([x[x > 0], x[x < 2]])[torch.tensor([0, 1, 0], device=x.device)]


def picked_of_joined(x: Tensor) -> Tensor:
    y = torch.cat([x[x > 0], x[x < 2]])
    return y[y > 0].sum()


def doubled(x: Tensor) -> Tensor:
    return x[x != 0].repeat(2)[::2]


def product(x: Tensor) -> Tensor:
    rows = x[:, None] * x.new_tensor([1.0, -0.5])
    return rows[x > 0].flatten() @ rows.cos()[x > 0].flatten()


def product_of_joined(x: Tensor) -> Tensor:
    rows = x[:, None] * x.new_tensor([1.0, -0.5])
    y = torch.cat([rows[x > 0], rows[x < 2].sin()])
    return y.T @ y


def picked_of_row(x: Tensor) -> Tensor:
    row = x[None, :2]
    y = row[row[:, 0] < 9].T @ row  # as many rows as `row` has, one
    return y[y > 0]


def outer_product(x: Tensor) -> Tensor:
    return x[x > 0][:, None] * x[x < 2]


def chosen_by_number(x: Tensor) -> Tensor:
    many = (x > 0).sum().item() > 1
    return torch.cond(many, lambda x: x * 2, lambda x: x.sin(), (x,)) + 1


def chosen_by_truth(x: Tensor) -> Tensor:
    return torch.cond((x > 2).any().item(), lambda x: x.square(), lambda x: -x, (x,))


def chosen_by_size(x: Tensor) -> Tensor:
    y = x[x > 0]
    return torch.cond(y.shape[0] > 1, lambda y: y * 2, lambda y: y - 1, (y,))


def chosen_otherwise(x: Tensor) -> Tensor:
    many = torch.sym_not(x[x > 0].shape[0] + (x > 2).sum().item() > 2)
    return torch.cond(many, lambda x: x.cos() @ x, lambda x: x.sum(), (x,))


def picked_in_a_branch(x: Tensor) -> Tensor:
    return torch.cond((x > 0).sum().item() > 1, lambda x: x[x > 0] * 2, lambda x: x[x < 0] - 1, (x,)) * 3


SAMPLES = ([1.0, -2.0, 3.0], [-1.0, -1.0, 1.0], [1.0, 1.5, 4.0])
RUN_BY_PYTORCH = (
    padded,
    padded_rows,
    joined,
    picked_of_joined,
    doubled,
    product,
    outer_product,
    product_of_joined,
    picked_of_row,
    chosen_by_number,
    chosen_by_truth,
    chosen_by_size,
    chosen_otherwise,
    picked_in_a_branch,
)


def results(fn: Callable[[Tensor], Tensor], values: list[float], device: str = "cpu") -> tuple[Tensor, Tensor | None]:
    x = torch.tensor(values, device=device, requires_grad=True)
    y = fn(x)
    y.square().sum().backward()
    return y, x.grad


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("fn", RUN_BY_PYTORCH, ids=lambda fn: fn.__name__)
def test_what_pytorch_runs_runs(fn: Callable[[Tensor], Tensor], device: str) -> None:
    theirs = torch.compile(fn, backend="aot_eager", fullgraph=True)
    wanted = [results(theirs, values) for values in SAMPLES]
    torch._dynamo.reset()
    ours = torch.compile(fn, backend="torchtpu", fullgraph=True, options=ERROR)
    for values, want in zip(SAMPLES, wanted, strict=True):
        torch.testing.assert_close(results(ours, values, device), want, check_device=False)


def test_a_number_that_chooses_is_served_at_any_value() -> None:
    step = torch.compile(chosen_by_number, backend="torchtpu", fullgraph=True, options=ERROR)
    step(torch.tensor(SAMPLES[0]))
    before = programs()
    for values in SAMPLES:
        torch.testing.assert_close(step(torch.tensor(values)), chosen_by_number(torch.tensor(values)))
    assert programs() == before


def of_other_lengths(x: Tensor) -> Tensor:
    return torch.cond((x > 0).sum().item() > 1, lambda x: x[:2] * 2, lambda x: x - 1, (x,)) * 3


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_a_number_chooses_between_results_of_other_lengths(device: str) -> None:
    step = torch.compile(of_other_lengths, backend="torchtpu", fullgraph=True, options=ERROR)
    for values in SAMPLES:
        x = torch.tensor(values)
        torch.testing.assert_close(step(x.to(device)), of_other_lengths(x), check_device=False)


# --- checks -----------------------------------------------------------------------------------------------------------


def asserted(x: Tensor) -> Tensor:
    torch._assert_async((x > 0).all(), "all have to be positive")
    return x.log()


def factor(x: Tensor) -> Tensor:
    return torch.linalg.cholesky(x * 2) + 1


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_assertions_hold_in_compiled_graphs(device: str) -> None:
    torch._dynamo.reset()
    step = torch.compile(asserted, backend="torchtpu", fullgraph=True, options=ERROR)
    x = torch.tensor([1.0, 2.0])
    torch.testing.assert_close(step(x.to(device)), x.log(), check_device=False)
    with pytest.raises(RuntimeError, match="all have to be positive"):
        step(-x.to(device))


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("training", [True, False])
def test_failed_factorisations_raise_in_compiled_graphs(device: str, training: bool) -> None:
    torch._dynamo.reset()
    step = torch.compile(factor, backend="torchtpu", fullgraph=True, options=ERROR)
    theirs = (torch.eye(3) + 0.1).requires_grad_(training)
    ours = theirs.detach().to(device).requires_grad_(training)
    torch.testing.assert_close(step(ours), factor(theirs), check_device=False)
    if training:
        step(ours).sum().backward()
        factor(theirs).sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad, check_device=False)
    with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
        step(-ours)


# --- views ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("written", [False, True])
def test_views_at_places_that_change(device: str, written: bool) -> None:
    """A result that is a view of an input is one here, and lies where it should."""

    def part(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
        if written:
            x.mul_(2)
        return x[n : n + 2, n:], x.T[n:]

    torch._dynamo.reset()
    step = torch.compile(part, backend="torchtpu", fullgraph=True, options=ERROR, dynamic=True)
    for n in (3, 2, 1):
        theirs = torch.arange(30.0).reshape(5, 6)
        ours = theirs.to(device)
        if device == "cpu":
            ours = ours.clone()
        wanted, got = part(theirs, n), step(ours, n)
        torch.testing.assert_close(got, wanted, check_device=False)
        for t in (*wanted, *got):
            t.zero_()
        torch.testing.assert_close(ours, theirs, check_device=False)


def test_views_at_places_that_are_data() -> None:
    torch._dynamo.reset()
    x, places = torch.arange(10.0), torch.tensor([1, 4])
    step = torch.compile(torch.tensor_split, backend="torchtpu", fullgraph=True, options=ERROR)
    torch.testing.assert_close(step(x, places), torch.tensor_split(x, places))
    x = torch.arange(24.0).reshape(2, 6, 2)  # the strides of a part along the middle are those of the whole
    torch.testing.assert_close(step(x, places, 1), torch.tensor_split(x, places, 1))
    x, start = torch.arange(10.0), torch.tensor(3)
    cut = torch.compile(lambda x, n: x.narrow(0, n.item(), 2) + 1, backend="torchtpu", fullgraph=True, options=ERROR)
    torch.testing.assert_close(cut(x, start), x[3:5] + 1)


def test_a_number_that_only_leaves_the_graph_is_never_read() -> None:
    torch._dynamo.reset()

    def total(x: Tensor) -> float:
        return x.sum().item()

    step, before = torch.compile(total, backend="torchtpu", fullgraph=True, options=ERROR), reads(total)
    assert step(torch.ones(3)) == 3.0
    assert reads(total) == before


FLOATS: dict[str, Callable[[Tensor], Any]] = {
    "given": lambda x: (x + 1, x.sum().item() * 2),
    "two": lambda x: (x * x.sum().item() + x.mean().item(), x.sum().item() * x.mean().item() + 1),
    "of an integer": lambda x: (x.cos(), x.sum().long().item() / 2),
    "multiplied": lambda x: (x * x.sum().item() ** 2, x.sum().item() / 3),
}


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_reckoned_with(name: str, device: str) -> None:
    torch._dynamo.reset()
    x = torch.arange(1.0, 4.0, device=device)
    compiled = torch.compile(FLOATS[name], backend="torchtpu", fullgraph=True, options=ERROR)
    torch.testing.assert_close(compiled(x), FLOATS[name](x))


def filled(x: Tensor) -> Tensor:
    return x.new_full((3,), x.sum().item() * 2) + x


def test_what_takes_a_float_as_a_number_runs_on_the_host() -> None:
    x = torch.arange(1.0, 4.0)
    with pytest.warns(UserWarning, match=r"new_full.*takes a float that only the data tells"):
        torch.testing.assert_close(torch.compile(filled, backend="torchtpu", fullgraph=True)(x), filled(x))
    torch._dynamo.reset()
    with pytest.raises(torchtpu.UnsupportedOp, match=rf"new_full.*{__file__}:\d+.*takes a float"):
        torch.compile(filled, backend="torchtpu", fullgraph=True, options=ERROR)(x)
