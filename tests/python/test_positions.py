"""Integers that say only where something lies: others at the same place of a program compile nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torchtpu
from counting import programs
from torch import Tensor

STARTS = range(1, 9)


def written(x: Tensor, start: int) -> Tensor:
    y = x.clone()
    y[:, start : start + 3] = y[:, start : start + 3] * 2 + x[:, :3]
    return y


def written_row(x: Tensor, i: int) -> Tensor:
    y = x * 1
    y[i] = x[i + 1]
    return y


FUNCTIONS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "slice": lambda x, i: x[:, i : i + 4].sin(),
    "slice with steps": lambda x, i: x[i : i + 7 : 2] * 2,
    "slice of a slice": lambda x, i: x[i : i + 4, i + 1 : i + 3].sum(0),
    "row": lambda x, i: x[i] * x[-i],
    # Of `x[:, i]` PyTorch itself makes a program for each `i`.
    "column": lambda x, i: x.select(1, i).cos(),
    "narrow": lambda x, i: x.narrow(0, i, 4) + 1,
    "written slice": written,
    "written row": written_row,
    "slice_scatter": lambda x, i: x.slice_scatter(x[:2].exp(), 0, i, i + 2),
    "select_scatter": lambda x, i: x.select_scatter(x[:, 0].exp(), 1, i),
    "roll": lambda x, i: x.roll(i, 1) + x.roll(-i, 0),
    "roll of all": lambda x, i: x.roll(5 * i),
    "triu": lambda x, i: x.triu(i) + x.tril(-i),
    "kthvalue": lambda x, i: x.kthvalue(i, 1)[0],
}


def random() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(18, 20)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_compiled_functions_of_positions_compile_once(function: str, device: str) -> None:
    fn, x = FUNCTIONS[function], random()
    compiled = torch.compile(fn, backend="torchtpu", dynamic=True)
    for i in STARTS:
        torch.testing.assert_close(compiled(x.to(device), i).cpu(), fn(x, i))
        if i == 2:  # the first may be special
            before = programs()
    assert programs() == before


@pytest.mark.parametrize("function", [name for name in FUNCTIONS if name != "kthvalue"])
def test_gradients_by_positions_compile_once(function: str) -> None:
    def loss(x: Tensor, i: int) -> Tensor:
        return (FUNCTIONS[function](x, i) * 1.5).square().sum()

    compiled, x = torch.compile(loss, backend="torchtpu", dynamic=True), random().requires_grad_()
    for i in STARTS:
        ours, theirs = (torch.autograd.grad(f(x, i), x)[0] for f in (compiled, loss))
        torch.testing.assert_close(ours, theirs)
        if i == 2:
            before = programs()
    assert programs() == before


# Eager reads of parts with gaps are programs of their own: those that models have begin at the same few places.
@pytest.mark.parametrize("function", [name for name in FUNCTIONS if name != "slice with steps"])
@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_eager_calls_of_other_positions_compile_once(function: str, mode: str) -> None:
    fn, x = FUNCTIONS[function], random()

    def run(i: int) -> None:
        on_device = x.to("tpu").requires_grad_()
        y, wanted = fn(on_device, i), fn(x, i)
        torch.testing.assert_close(y.detach().cpu(), wanted)
        theirs = torch.autograd.grad(fn(leaf := x.clone().requires_grad_(), i).square().sum(), leaf)[0]
        torch.testing.assert_close(torch.autograd.grad(y.square().sum(), on_device)[0].cpu(), theirs)

    with torchtpu.eager_mode(mode):
        for i in (2, 3):
            run(i)
        before = programs()
        for i in (4, 5, 6):
            run(i)
        # Fused mode also compiles, once, what came a few times.
        assert mode == "fused" or programs() == before


def test_a_returned_view_and_a_written_input_stay_what_they_are() -> None:
    def fn(x: Tensor, i: int) -> tuple[Tensor, Tensor]:
        part = x[:, i : i + 3]
        part.mul_(2)
        return part, x[i] + 1

    compiled = torch.compile(fn, backend="torchtpu", dynamic=True)
    for i in (2, 5):
        ours, theirs = random(), random()
        results, wanted = compiled(ours, i), fn(theirs, i)
        torch.testing.assert_close(results, wanted)
        torch.testing.assert_close(ours, theirs)
        results[0].zero_()
        assert not ours[:, i : i + 3].any()


def test_sizes_that_hang_on_a_position_are_those_of_the_call() -> None:
    fn: Callable[[Tensor, int], Tensor] = lambda x, i: x[i:].sum(0) + x[: i + 1].sum(0)  # noqa: E731
    compiled, x = torch.compile(fn, backend="torchtpu", dynamic=True), random()
    for i in (2, 7, 3):
        torch.testing.assert_close(compiled(x, i), fn(x, i))


def test_a_place_that_is_not_there_is_refused() -> None:
    compiled = torch.compile(lambda x, i: x[i] + 1, backend="torchtpu", dynamic=True)
    compiled(random(), 3)
    with pytest.raises((IndexError, RuntimeError), match=r"out of range|out of bounds"):
        compiled(random(), 40)
