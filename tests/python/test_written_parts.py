"""Random programs that write parts of what they compute from other parts of it, in one program each.

XLA's CPU compiler computes such parts in the loop that writes them (`crates/ir/src/overwrite.rs`): without what is done
about it, 3 of 60 programs, the first of them the tenth, compute from parts that are overwritten already.
TORCHTPU_WRITE_PROGRAMS: how many programs.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
import torch
import torchtpu
from fused_at_once import fused_at_once
from torch import Tensor
from torch.nn import functional

PROGRAMS = int(os.environ.get("TORCHTPU_WRITE_PROGRAMS", "10"))

Indices = Tensor
Compute = Callable[[Tensor, Tensor, Indices, int], Tensor]
Write = Callable[[Tensor, Tensor, Indices, int], None]

COMPUTED: list[Compute] = [
    lambda a, b, at, k: a[at],
    lambda a, b, at, k: a.gather(0, at[:, None].expand_as(a)),
    lambda a, b, at, k: torch.cat([a.unsqueeze(1)[k:], b.unsqueeze(1)[:k]]).squeeze(1),
    lambda a, b, at, k: functional.max_pool2d(a[None, None], (3, 1), stride=1, padding=(1, 0)).reshape(a.shape),
    lambda a, b, at, k: functional.pad(a, (0, 0, k, 0))[: a.shape[0]],
    lambda a, b, at, k: a.flip(k % 2).roll(k, 0),
    lambda a, b, at, k: a * 0.5 + b.tanh(),
    lambda a, b, at, k: torch.where(a > b, a, b * 0.5),
    lambda a, b, at, k: a.cumsum(k % 2) / a.shape[0],
    lambda a, b, at, k: a.sort(k % 2)[0],
    lambda a, b, at, k: a.t().reshape(a.shape),
    lambda a, b, at, k: torch.stack([a, b]).amax(0),
    lambda a, b, at, k: a.softmax(k % 2),
    lambda a, b, at, k: a[:k].repeat(a.shape[0], 1)[: a.shape[0]],
    lambda a, b, at, k: a.clone(),
]


def _right(a: Tensor, b: Tensor, at: Indices, k: int) -> None:
    a[:, k:] = a[:, :-k] + 0.25


def _down(a: Tensor, b: Tensor, at: Indices, k: int) -> None:
    a[k:] = a[:-k] * 0.5


def _turned(a: Tensor, b: Tensor, at: Indices, k: int) -> None:
    a[:, :4] = a[:, :4].flip(1) * 0.5


def _joined(a: Tensor, b: Tensor, at: Indices, k: int) -> None:
    a[:, :2] = torch.cat([b[:, 1:2] - a[:, :1], a[:, 1:2] + b[:, :1]], 1)


def _flat(a: Tensor, b: Tensor, at: Indices, k: int) -> None:
    flat = a.view(-1)
    flat[k:] = flat[:-k] * 0.5 + 0.1


def _columns(a: Tensor, b: Tensor, at: Indices, k: int) -> None:
    a.t()[k] = a.t()[k - 1] * 0.5


def _row_after_row(a: Tensor, b: Tensor, at: Indices, k: int) -> None:
    for row in range(1, 4):
        a[row] = a[row - 1] * 0.5 + a[row]


def _indexed(a: Tensor, b: Tensor, at: Indices, k: int) -> None:
    a[at[:k]] = b[:k] * 0.5


def _masked(a: Tensor, b: Tensor, at: Indices, k: int) -> None:
    a[a > 0.6] = 0.3


def _one_row(a: Tensor, b: Tensor, at: Indices, k: int) -> None:
    a[k] = a[k - 1] + b[k] * 0.5


WRITES: list[Write] = [_right, _down, _turned, _joined, _flat, _columns, _row_after_row, _indexed, _masked, _one_row]


def program(seed: int) -> Callable[[Tensor, Indices], list[Tensor]]:
    choices = random.Random(seed)
    steps: list[tuple[Compute | None, Write | None, int, int, int]] = []
    values = 1
    for _ in range(choices.randint(6, 18)):
        a, b, k = choices.randrange(values), choices.randrange(values), choices.randrange(1, 4)
        if choices.random() < 0.5:
            steps.append((choices.choice(COMPUTED), None, a, b, k))
            values += 1
        else:
            steps.append((None, choices.choice(WRITES), a, b, k))

    def run(x: Tensor, at: Indices) -> list[Tensor]:
        made = [x.clone()]
        for compute, write, a, b, k in steps:
            if compute is not None:
                made.append(compute(made[a], made[b], at, k))
            if write is not None:
                write(made[a], made[b], at, k)
        return made

    return run


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_parts_are_computed_from_what_was_there_before(seed: int) -> None:
    random_numbers = torch.Generator().manual_seed(seed)
    x = torch.rand(8, 6, generator=random_numbers)
    at = torch.randint(8, (8,), generator=random_numbers)
    run = program(seed)
    expected = run(x, at)
    torch._dynamo.reset()
    got = {"compiled": torch.compile(run, backend="torchtpu", fullgraph=True)(x, at)}
    with fused_at_once():
        got["fused"] = [value.cpu() for value in run(x.to("tpu"), at.to("tpu"))]
    for mode, values in got.items():
        for i, (value, wanted) in enumerate(zip(values, expected, strict=True)):
            # Values that are computed of one another in up to 18 steps.
            torch.testing.assert_close(
                value, wanted, rtol=1e-5, atol=1e-5, msg=lambda m, i=i, mode=mode: f"{mode}, {i}: {m}"
            )


SHIFTED: dict[str, Callable[[Tensor], Tensor]] = {
    "down": lambda x: x.slice_scatter(x[:-1], 0, 1),
    "up, and to the left": lambda x: x.slice_scatter(x[1:], 0, 0, -1).slice_scatter(x[:, 2:], 1, 0, -2),
    "of what was written": lambda x: x.slice_scatter(x[:2] * 2, 0, 3, 5).slice_scatter(x[3:5], 0, 0, 2),
    "a circular border": lambda x: functional.pad(x[None, None], (2, 1, 3, 0), mode="circular"),
    "a circular border of what is cut": lambda x: functional.pad(x[None, None], (2, -1, -1, 3), mode="circular"),
}


@pytest.mark.parametrize("name", SHIFTED)
def test_parts_that_are_moved_are_joined(name: str) -> None:
    shifted, x = SHIFTED[name], torch.randn(6, 5)
    torch.testing.assert_close(torch.compile(shifted, backend="torchtpu")(x), shifted(x), rtol=0, atol=0)
    gradients = []
    for f in (shifted, torch.compile(shifted, backend="torchtpu")):
        own = x.clone().requires_grad_()
        f(own).sin().sum().backward()
        gradients.append(own.grad)
    torch.testing.assert_close(*gradients)


def test_moved_rows_are_joined_without_choices() -> None:
    program = torchtpu.lower(SHIFTED["down"], torch.randn(6, 5), stage="fused")
    assert " = concatenate(" in program and " = select " not in program
