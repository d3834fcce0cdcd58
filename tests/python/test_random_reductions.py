"""Random programs that reduce rows and columns of what they compute, of extents that threads divide.

What the host computes of a reduction depends on its extents (`crates/runtime/src/ffi/rows.rs`): whether rows or columns
are divided among threads, and how many are taken at once. The small tensors of other tests see one case of these.
TORCHTPU_REDUCTION_PROGRAMS: how many programs.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.nn import functional

PROGRAMS = int(os.environ.get("TORCHTPU_REDUCTION_PROGRAMS", "40"))

COMPUTED: list[Callable[[Tensor], Tensor]] = [
    lambda x: x,
    lambda x: x * 1.3 + 0.2,
    functional.gelu,
    lambda x: x.abs().sqrt(),
    lambda x: x * x - 0.3,
    lambda x: x.exp(),
    lambda x: torch.where(x > 0, x, x * 0.1),
    functional.silu,
    lambda x: x - x.mean(-1, keepdim=True),
    lambda x: x.softmax(-1),
    lambda x: x / x.square().sum(-1, keepdim=True).sqrt(),
    lambda x: x * x.amax(0, keepdim=True),
]
REDUCTIONS: list[Callable[[Tensor, tuple[int, ...]], Tensor]] = [Tensor.sum, Tensor.mean, Tensor.amax, Tensor.amin]
EXTENTS = [16, 17, 31, 32, 33, 64, 100, 128, 255, 256, 257, 300, 500, 511, 512, 513, 768, 1000, 1024, 1500, 2000]
MOST = 1 << 19


@dataclass
class Program:
    shape: tuple[int, ...]
    dtype: torch.dtype
    computed: list[Callable[[Tensor], Tensor]]
    reductions: list[tuple[Callable[[Tensor, tuple[int, ...]], Tensor], tuple[int, ...]]]
    keeps_computed: bool

    def __call__(self, x: Tensor) -> list[Tensor]:
        for compute in self.computed:
            x = compute(x)
        results = [reduce(x, dims) for reduce, dims in self.reductions]
        return [*results, x * 2] if self.keeps_computed else results


def program(seed: int) -> Program:
    """Every second one reduces columns of which there are more than rows, and enough for two threads."""
    draw = random.Random(seed)
    is_wide = seed % 2 == 1
    shape: tuple[int, ...] = (MOST, MOST)
    while torch.Size(shape).numel() > MOST or (
        is_wide and not (shape[0] < shape[1] and shape[0] * shape[1] >= 1 << 15)
    ):
        shape = (*draw.choice([()] if is_wide else [(), (1,), (3,)]), draw.choice(EXTENTS), draw.choice(EXTENTS))
    places = list(range(len(shape)))
    dims = [(0,), (places[-1],), (places[-2],), tuple(places[:-1]), (0, places[-1]), tuple(places)]
    dims = [(0,)] if is_wide else dims
    return Program(
        shape,
        draw.choice([torch.float32, torch.float32, torch.float64]),
        [draw.choice(COMPUTED) for _ in range(draw.choice([1, 1, 2]))],
        [(draw.choice(REDUCTIONS), draw.choice(dims)) for _ in range(draw.choice([1, 2, 3]))],
        draw.choice([False, True]),
    )


def assert_as_near(x: Tensor, found: Tensor, eager: Tensor, exact: Tensor) -> None:
    """Within eight times the distance of PyTorch's kernels from the exact result, or what roundings at random come to.

    An element is made of as many terms as `x` has for each.
    """
    assert found.dtype == eager.dtype
    assert found.shape == eager.shape
    relative = 1.3e-6 if found.dtype == torch.float32 else 1e-7
    rounding = relative * (x.numel() / found.numel()) ** 0.5 * (1 + exact.abs().amax())
    assert (found - exact).abs().amax() <= 8 * (eager - exact).abs().amax() + rounding


def step(f: Callable[[Tensor], list[Tensor]], x: Tensor) -> list[Tensor]:
    """Results, and the gradient of a sum in which each element weighs something else."""
    x = x.detach().requires_grad_()
    results = f(x)
    sums = [(r * torch.linspace(-1, 1, r.numel(), dtype=r.dtype).view_as(r)).sum() for r in results]
    return [*results, *torch.autograd.grad(sums, x)]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_agree(seed: int) -> None:
    made = program(seed)
    torch.manual_seed(seed)
    x = torch.randn(made.shape, dtype=torch.float64).to(made.dtype)
    compiled = torch.compile(made.__call__, backend="torchtpu", dynamic=False)
    for results in zip(compiled(x), made(x), made(x.double()), strict=True):
        assert_as_near(x, *results)


@pytest.mark.parametrize("seed", range(0, PROGRAMS, 3))
def test_gradients_agree(seed: int) -> None:
    made = program(seed)
    # Of two elements that are nearly the same, which is the greatest is a matter of rounding.
    if made.dtype == torch.float32:
        made.reductions = [(torch.sum if f in (Tensor.amax, Tensor.amin) else f, dims) for f, dims in made.reductions]
    torch.manual_seed(seed)
    x = torch.randn(made.shape, dtype=torch.float64).to(made.dtype)
    compiled = torch.compile(made.__call__, backend="torchtpu", dynamic=False)
    for results in zip(step(compiled, x), step(made, x), step(made, x.double()), strict=True):
        assert_as_near(x, *results)
