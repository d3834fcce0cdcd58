"""What benches/fused.py runs: training steps and small loops, on whatever device a variant is for.

Needs PyTorch alone, so that benches/xla_worker.py can run the same under another one.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))
from zoo import ZOO, Size

VARIANTS = ("strict", "fused", "cpu", "compiled", "xla-lazy", "xla-eager")


def device_of(variant: str) -> str:
    return "cpu" if variant == "cpu" else "xla" if variant.startswith("xla") else "tpu"


# The large ones are to have a compiled step over 50 ms on two cores: LSTM's takes 23.
SMALL: dict[str, Size] = {name: "small" for name in ZOO}
LARGE: dict[str, Size] = {name: "full" for name in ZOO if name not in ("mlp", "cnn", "gpt_block", "lstm")}


def training(name: str, size: Size) -> Callable[[str], Callable[[], Any]]:
    def make(variant: str) -> Callable[[], Any]:
        entry, device = ZOO[name], device_of(variant)
        model, batch = entry.build(size).to(device), entry.batch(size).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        loss_of, update = entry.loss, optimizer.step
        if variant == "compiled":
            loss_of, update = (torch.compile(f, backend="torchtpu") for f in (loss_of, update))

        def step() -> Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            update()
            return loss.detach()

        return step

    return make


def chain(elements: int) -> Callable[[str], Callable[[], Any]]:
    def make(variant: str) -> Callable[[], Any]:
        start = torch.ones(elements, device=device_of(variant))

        def body(x: Tensor) -> Tensor:
            for _ in range(100):
                x = x * 1.0001 + 0.5
            return x

        run = torch.compile(body, backend="torchtpu") if variant == "compiled" else body
        return lambda: run(start)

    return make


def of_parts(body: Callable[[Tensor], Tensor], *shape: int) -> Callable[[str], Callable[[], Any]]:
    def make(variant: str) -> Callable[[], Any]:
        start = torch.rand(*shape, generator=torch.Generator().manual_seed(0)).to(device_of(variant))
        run = torch.compile(body, backend="torchtpu") if variant == "compiled" else body
        return lambda: run(start)

    return make


def shifted_writes(x: Tensor) -> Tensor:
    y = x * 2
    for k in range(1, 9):
        y[:, k:] = y[:, :-k] * 0.5 + 1
    return y


def stencil(x: Tensor) -> Tensor:
    u = x.clone()
    for _ in range(4):
        inner = u[1:-1, 1:-1]
        u[1:-1, 1:-1] = inner + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner)
    return u


def rotated_halves(x: Tensor) -> Tensor:
    q, half = x * 1.5, x.shape[-1] // 2
    q[..., :half] = q[..., :half] * 0.5 - q[..., half:] * 0.3
    return q


def windows(x: Tensor) -> Tensor:
    return x.unfold(-1, 16, 4).mean(-1) * 3


def resized(x: Tensor) -> Tensor:
    return nn.functional.interpolate(x.relu(), scale_factor=2, mode="bilinear") * 2


def optimizer(foreach: bool, shape: tuple[int, int]) -> Callable[[str], Callable[[], Any]]:
    def make(variant: str) -> Callable[[], Any]:
        device = device_of(variant)
        parameters = [nn.Parameter(torch.ones(shape, device=device)) for _ in range(100)]
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        step = torch.optim.AdamW(parameters, lr=1e-3, foreach=foreach).step
        return torch.compile(step, backend="torchtpu") if variant == "compiled" else step

    return make


def mlp(variant: str) -> Callable[[], Any]:
    torch.manual_seed(0)
    device = device_of(variant)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
    x, update = torch.randn(32, 64, device=device), torch.optim.SGD(model.parameters(), lr=1e-3)

    def loss_of(x: Tensor) -> Tensor:
        return model(x).square().mean()

    compute = torch.compile(loss_of, backend="torchtpu") if variant == "compiled" else loss_of

    def step() -> None:
        update.zero_grad()
        compute(x).backward()
        update.step()

    return step


def adversary(work: Callable[[str, int, int], Any]) -> Callable[[str], Callable[[], Any]]:
    """`work(device, step, width)` for step after step.

    Each variant has its own width, so that none finds what another compiled.
    """

    def make(variant: str) -> Callable[[], Any]:
        steps, device = itertools.count(), device_of(variant)
        return lambda: work(device, next(steps), 32 + VARIANTS.index(variant))

    return make


def layer(x: Tensor) -> Tensor:
    """Something to compute."""
    return torch.softmax(torch.tanh(x * 0.5) + x.square(), -1) * x


def branch_on_item(device: str, step: int, width: int) -> None:
    x = torch.full((64, width), 0.5 + step % 3, device=device)
    for _ in range(10):
        x = layer(x) + 1
        x = x * 2 if x.mean().item() > 1 else x / 2


def print_every_op(device: str, step: int, width: int) -> None:
    x = torch.full((width,), 0.25, device=device)
    for _ in range(10):
        x = x * 1.5
        str(x)


def random_lengths(device: str, step: int, width: int) -> None:
    length = random.Random(step).randrange(16, 48)
    for _ in range(10):
        layer(layer(torch.ones(length, width, device=device)))


def shapes_never_repeat(device: str, step: int, width: int) -> None:
    layer(layer(torch.ones(100 + step, width, device=device)))


def last_short_batch(device: str, step: int, width: int) -> None:
    for _ in range(10):
        layer(layer(torch.ones(5 if step % 8 == 7 else 32, width, device=device)))


def growing_cache(device: str, step: int, width: int) -> None:
    """Text generation: a key and a value a token, attention over all so far."""
    keys = torch.empty(4, 0, width, device=device)
    query = torch.full((4, 1, width), 0.1, device=device)
    for _ in range(24):
        keys = torch.cat([keys, query], 1)
        query = torch.softmax(query @ keys.mT, -1) @ keys + 0.01
        query.argmax().item()


SETS: dict[str, dict[str, Callable[[str], Callable[[], Any]]]] = {
    "small": {name: training(name, size) for name, size in SMALL.items()},
    "large": {name: training(name, size) for name, size in LARGE.items()},
    "loops": {
        "chain of 200 over 4 Mi": chain(4 << 20),
        "chain of 200 over 256": chain(256),
        "AdamW, 100 of 128 elements": optimizer(foreach=False, shape=(32, 4)),
        "the same, foreach": optimizer(foreach=True, shape=(32, 4)),
        "AdamW, 100 of 65,536": optimizer(foreach=False, shape=(256, 256)),
        "the same of 65,536, foreach": optimizer(foreach=True, shape=(256, 256)),
        "MLP training step": mlp,
    },
    "parts": {
        "8 shifted writes, 512x512": of_parts(shifted_writes, 512, 512),
        "4 steps of a stencil, 1024x1024": of_parts(stencil, 1024, 1024),
        "halves rotated in place, 4x256x8x64": of_parts(rotated_halves, 4, 256, 8, 64),
        "means of 16 every 4, 64x4096": of_parts(windows, 64, 4096),
        "twice as large, 4x32x64x64": of_parts(resized, 4, 32, 64, 64),
    },
    "adversaries": {
        work.__name__: adversary(work)
        for work in (
            branch_on_item,
            print_every_op,
            random_lengths,
            shapes_never_repeat,
            last_short_batch,
            growing_cache,
        )
    },
}
