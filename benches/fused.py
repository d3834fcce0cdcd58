"""Fused eager beside strict, the CPU's eager and torch.compile, interleaved in one run: training steps and small loops.

    python benches/fused.py --set small --rounds 30

Every variant is warmed until its programs are compiled; then each round times one step of each, with the wait for the
device. Reported are medians in milliseconds and the ratios of medians, with a 95% bootstrap interval over rounds, and
fused's first step beside strict's, which comes first and fills the caches. What is in each set is fixed below.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torchtpu
from torch import Tensor, nn
from torchtpu import _native

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))
from zoo import ZOO, Size

RESAMPLES = 2000
# Steps before anything is timed: a region's program is used from its fourth occurrence on, and an optimizer's first
# steps are not like its later ones.
WARM_UP = 9
VARIANTS = ("strict", "fused", "cpu", "compiled")
# The large ones are meant to have a compiled step over 50 ms on two cores. Measured were six: 230 to 800 ms; BERT, T5,
# Mixtral and LSTM were not.
SMALL: dict[str, Size] = {name: "small" for name in ZOO}
LARGE: dict[str, Size] = {name: "full" for name in ZOO if name not in ("mlp", "cnn", "gpt_block")}


def training(name: str, size: Size) -> Callable[[str], Callable[[], Any]]:
    def make(variant: str) -> Callable[[], Any]:
        entry, device = ZOO[name], "cpu" if variant == "cpu" else "tpu"
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
        start = torch.ones(elements, device="cpu" if variant == "cpu" else "tpu")

        def body(x: Tensor) -> Tensor:
            for _ in range(100):
                x = x * 1.0001 + 0.5
            return x

        run = torch.compile(body, backend="torchtpu") if variant == "compiled" else body
        return lambda: run(start)

    return make


def optimizer(foreach: bool, shape: tuple[int, int]) -> Callable[[str], Callable[[], Any]]:
    def make(variant: str) -> Callable[[], Any]:
        device = "cpu" if variant == "cpu" else "tpu"
        parameters = [nn.Parameter(torch.ones(shape, device=device)) for _ in range(100)]
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        step = torch.optim.AdamW(parameters, lr=1e-3, foreach=foreach).step
        return torch.compile(step, backend="torchtpu") if variant == "compiled" else step

    return make


def mlp(variant: str) -> Callable[[], Any]:
    torch.manual_seed(0)
    device = "cpu" if variant == "cpu" else "tpu"
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
        steps, device = itertools.count(), "cpu" if variant == "cpu" else "tpu"
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


@dataclass
class Variant:
    """One way to run a step, and what was measured of it, in seconds."""

    name: str
    step: Callable[[], Any]
    first: float = 0.0
    times: list[float] = field(default_factory=list)

    def time(self) -> float:
        mode = self.name if self.name == "fused" else "strict"
        with torchtpu.eager_mode(mode), contextlib.nullcontext() if self.name != "compiled" else _recurrent():
            start = time.perf_counter()
            result = self.step()  # held, or there would be nothing to compute
            if self.name != "cpu":
                torch.tpu.synchronize()  # type: ignore[attr-defined]
            seconds = time.perf_counter() - start
            del result
            return seconds

    def warm_up(self) -> None:
        self.first = self.time()
        for _ in range(WARM_UP):
            self.time()
            if self.name == "fused":
                _wait_for_programs()


def _recurrent() -> Any:
    return torch._dynamo.config.patch(allow_rnn=True)


def _wait_for_programs() -> None:
    while any(region["state"] == "compiling" for region in _native.device_regions()["regions"]):
        time.sleep(0.05)


def ratio(times: list[float], reference: list[float]) -> tuple[float, float, float]:
    """The ratio of medians and its 95% bootstrap interval over rounds."""
    pick = random.Random(0)
    ratios = []
    for _ in range(RESAMPLES):
        rounds = [pick.randrange(len(times)) for _ in times]
        ratios.append(statistics.median(times[i] for i in rounds) / statistics.median(reference[i] for i in rounds))
    ratios.sort()
    middle = statistics.median(times) / statistics.median(reference)
    return middle, ratios[int(0.025 * RESAMPLES)], ratios[int(0.975 * RESAMPLES)]


def measure(name: str, make: Callable[[str], Callable[[], Any]], variants: list[str], rounds: int) -> float:
    """Prints a line; gives how many times faster fused is than strict."""
    torch._dynamo.reset()
    running = {variant: Variant(variant, make(variant)) for variant in variants}
    for variant in running.values():
        variant.warm_up()
    for _ in range(rounds):
        for variant in running.values():
            variant.times.append(variant.time())
    ours = running["fused"].times
    cells = [f"{name:32}", f"{statistics.median(ours) * 1e3:9.2f}"]
    gain = 1.0
    for variant in variants:
        if variant == "fused":
            continue
        middle, low, high = ratio(running[variant].times, ours)
        gain = middle if variant == "strict" else gain
        cells.append(f"{middle:8.2f} {f'{low:.2f}..{high:.2f}':>13}")
    cells.append(f"{running['fused'].first / running['strict'].first:8.2f}")
    print("".join(cells), flush=True)
    return gain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="small,loops", help=f"of {', '.join(SETS)}")
    parser.add_argument("--only", default="", help="part of the name of what to run")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    options = parser.parse_args()
    variants = options.variants.split(",")
    for chosen in options.set.split(","):
        headings = "".join(f"{f'{v}/fused':>22}" for v in variants if v != "fused")
        print(f"{chosen:32}{'fused ms':>9}{headings}{'first':>8}")
        cases = {name: make for name, make in SETS[chosen].items() if options.only in name}
        gains = [measure(name, make, variants, options.rounds) for name, make in cases.items()]
        print(f"{'geometric mean of strict/fused':32}{math.exp(statistics.fmean(map(math.log, gains))):.2f}")


if __name__ == "__main__":
    main()
