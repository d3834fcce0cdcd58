"""Random programs of views, writes through them and reads, on the device and on the CPU: bit for bit the same.

In strict and in fused mode.

`make test` runs some; `TORCHTPU_VIEW_PROGRAMS=10000` (`make test-all`) as many as one likes.
"""

from __future__ import annotations

import os
import random

import pytest
import torch
from fused_at_once import fused_at_once
from torch import Tensor

PROGRAMS = int(os.environ.get("TORCHTPU_VIEW_PROGRAMS", "150"))
DTYPES = [torch.int32, torch.int64, torch.uint8, torch.bool]
SHAPES = [(6,), (4, 6), (2, 3, 4), (1, 5), (3, 0), ()]


class Program:
    """A random program, told by a seed: what it does to tensors depends on their shapes alone."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.steps: list[str] = []

    def run(self, tensors: list[Tensor]) -> list[Tensor]:
        """All tensors at the end; the first few are the bases."""
        live = list(tensors)
        for _ in range(self.random.randint(3, 8)):
            x = self.random.choice(live)
            action = self.random.choice([self.view, self.view, self.write, self.compute])
            result = action(x, live)
            if result is not None:
                live.append(result)
        return live

    def note(self, text: str) -> None:
        self.steps.append(text)

    def view(self, x: Tensor, live: list[Tensor]) -> Tensor | None:
        pick = self.random
        kinds = ["flat", "unsqueeze", "permute", "slice", "select", "expand", "strided", "diagonal", "split"]
        kind = pick.choice(kinds)
        self.note(f"{kind} of {tuple(x.shape)}")
        if kind == "flat":
            return x.view(-1) if x.is_contiguous() else x.reshape(-1)
        if kind == "unsqueeze":
            return x.unsqueeze(pick.randint(0, x.dim()))
        if kind == "permute":
            return x.permute(pick.sample(range(x.dim()), x.dim()))
        if kind == "strided":
            return self.strided(x)
        if x.dim() == 0:
            return None
        dim = pick.randrange(x.dim())
        size = x.shape[dim]
        if kind == "slice":
            start = pick.randint(0, size)
            return x[(slice(None),) * dim + (slice(start, pick.randint(start, size), pick.choice([1, 1, 2, 3])),)]
        if kind == "select":
            return x.select(dim, pick.randrange(size)) if size else None
        if kind == "expand":
            return x.unsqueeze(0).expand(pick.randint(1, 3), *x.shape)
        if kind == "diagonal":
            return x.diagonal(pick.choice([-1, 0, 1])) if x.dim() == 2 else None
        return x.split(max(1, size // 2), dim)[0] if size else None

    def strided(self, x: Tensor) -> Tensor | None:
        room = x.untyped_storage().nbytes() // x.element_size()
        if room < 2:
            return None
        sizes = [self.random.randint(1, 3) for _ in range(self.random.randint(1, 3))]
        strides = [self.random.randint(0, 3) for _ in sizes]
        reach = sum((n - 1) * s for n, s in zip(sizes, strides))
        if reach >= room:
            return None
        return x.as_strided(sizes, strides, self.random.randint(0, room - 1 - reach))

    def write(self, x: Tensor, live: list[Tensor]) -> None:
        if overlaps(x):
            return
        kind = self.random.choice(["fill", "add", "copy", "zero", "mask", "put"])
        other = self.random.choice(live)
        self.note(f"{kind} {tuple(x.shape)} {tuple(x.stride())} at {x.storage_offset()}")
        if kind == "fill":
            x.fill_(self.random.randint(0, 5))
        elif kind == "zero":
            x.zero_()
        elif kind == "add" and x.dtype != torch.bool:
            x.add_(self.random.randint(1, 3))
        elif kind == "copy" and other.shape == x.shape:
            x.copy_(other.clone())
        elif kind == "mask":
            x.masked_fill_(x == 1, 2)
        elif kind == "put" and x.dim() and x.shape[0]:
            x[self.random.randrange(x.shape[0])] = self.random.randint(0, 3)

    def compute(self, x: Tensor, live: list[Tensor]) -> Tensor | None:
        kind = self.random.choice(["clone", "sum", "eq", "cat", "contiguous", "bitcast"])
        self.note(f"{kind} {tuple(x.shape)}")
        if kind == "clone":
            return x.clone()
        if kind == "sum":
            return x.sum()
        if kind == "eq":
            return x == 1
        if kind == "cat":
            return torch.cat([x, x]) if x.dim() else None
        if kind == "bitcast" and x.dtype == torch.int32 and x.dim() and x.stride(-1) == 1 and x.is_contiguous():
            return x.view(torch.uint8)
        return x.contiguous()


def overlaps(x: Tensor) -> bool:
    """Whether elements may share a place: such tensors are not written."""
    if x.numel() == 0:
        return False
    places = torch.arange(x.untyped_storage().nbytes() // x.element_size())
    seen = places.as_strided(x.shape, x.stride(), x.storage_offset()).reshape(-1)
    return len(seen.unique()) < len(seen)


def bases(seed: int) -> list[Tensor]:
    pick = random.Random(seed + 1)
    generator = torch.Generator().manual_seed(seed)
    shapes = [pick.choice(SHAPES) for _ in range(2)]
    dtype = pick.choice(DTYPES)
    return [torch.randint(0, 2 if dtype == torch.bool else 9, s, generator=generator).to(dtype) for s in shapes]


def disagreement(seed: int) -> str | None:
    program, again = Program(seed), Program(seed)
    theirs = program.run(bases(seed))
    ours = again.run([t.to("tpu") for t in bases(seed)])
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a.dtype != b.dtype or not torch.equal(a.cpu(), b):
            return f"program {seed}, tensor {i}:\n" + "\n".join(program.steps) + f"\n{a.cpu()}\nshould be\n{b}"
    return None


@pytest.mark.parametrize("start", range(0, PROGRAMS, 50))
def test_programs_agree(start: int) -> None:
    for seed in range(start, min(start + 50, PROGRAMS)):
        assert (message := disagreement(seed)) is None, message


@pytest.mark.parametrize("start", range(0, PROGRAMS, 150))
def test_programs_agree_in_fused_mode(start: int) -> None:
    """Each runs as the few programs that its reads cut it into."""
    with fused_at_once():
        for seed in range(start, min(start + 50, PROGRAMS)):
            assert (message := disagreement(seed)) is None, message
