"""Eager ops on device "tpu" beside the CPU, interleaved in one run: calls, chains, training steps, optimizer steps.

    python benches/eager.py --rounds 40

Each round times every pair once. Reported are medians in microseconds and the ratio of medians, device to CPU, with a
95% bootstrap interval over rounds; beside it the executions and compiles that a call caused once it was warm. Dispatch
is what a call takes until it returns; whole is with the wait for the device.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torchtpu
from torch import Tensor, nn
from torchtpu import _native
from turns import ratio

WARM_UP = 3


@dataclass
class Pair:
    """The same work on the device and on the CPU; `calls` of it make one measurement."""

    name: str
    make: Callable[[str], Callable[[], Any]]
    calls: int = 1
    wait: bool = True
    times: dict[str, list[float]] = field(default_factory=lambda: {"tpu": [], "cpu": []})
    executions: float = 0.0
    compiles: int = 0


def small_op(device: str) -> Callable[[], Any]:
    x, y = torch.ones(4, device=device), torch.ones(4, device=device)
    return lambda: x + y


def in_place_op(device: str) -> Callable[[], Any]:
    x, y = torch.ones(4, device=device), torch.ones(4, device=device)
    return lambda: x.add_(y, alpha=0.5)


def chain(device: str) -> Callable[[], Any]:
    start = torch.ones(4, device=device)

    def run() -> Tensor:
        x = start
        for _ in range(1000):
            x = x * 1.0001
        return x

    return run


def training(model: nn.Module, shape: tuple[int, ...], device: str) -> Callable[[], Any]:
    torch.manual_seed(0)
    model = model.to(device)
    x = torch.randn(shape, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def mlp(device: str) -> Callable[[], Any]:
    layers = [nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)]
    return training(nn.Sequential(*layers), (32, 64), device)


def block(device: str) -> Callable[[], Any]:
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    return training(layer, (4, 64, 128), device)


def optimizer(device: str) -> Callable[[], Any]:
    parameters = [nn.Parameter(torch.ones(32, 4, device=device)) for _ in range(100)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    return torch.optim.AdamW(parameters, lr=1e-3, foreach=True).step


def compiled(device: str) -> Callable[[], Any]:
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64)).to(device)
    step = torch.compile(model, backend="torchtpu")
    x = torch.randn(32, 64, device=device)

    def run() -> Any:
        with torch.no_grad():
            return step(x)

    return run


PAIRS = [
    Pair("small op, dispatch", small_op, calls=200, wait=False),
    Pair("small in-place op, dispatch", in_place_op, calls=200, wait=False),
    Pair("chain of 1000 ops, whole", chain),
    Pair("MLP training step", mlp),
    Pair("transformer block training step", block),
    Pair("AdamW, 100 parameters, foreach", optimizer),
    Pair("compiled MLP, tensors there", compiled),
]


def measure(step: Callable[[], Any], pair: Pair, device: str) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    for _ in range(pair.calls):
        step()
    if device == "tpu" and pair.wait:
        torch.tpu.synchronize()  # type: ignore[attr-defined]
    seconds = (time.perf_counter() - start) / pair.calls
    if device == "tpu":
        torch.tpu.synchronize()  # type: ignore[attr-defined]
    return seconds


def run(pair: Pair, rounds: int) -> None:
    steps = {device: pair.make(device) for device in pair.times}
    for _ in range(WARM_UP):
        for device, step in steps.items():
            measure(step, pair, device)
    before, compiles = _native.device_stats()["executions"], torchtpu.stats()["compiles"]
    for _ in range(rounds):
        for device, step in steps.items():
            pair.times[device].append(measure(step, pair, device))
    pair.executions = (_native.device_stats()["executions"] - before) / rounds / pair.calls
    pair.compiles = torchtpu.stats()["compiles"] - compiles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--only", default="", help="part of the name of what to run")
    options = parser.parse_args()
    print(f"{'':34}{'tpu us':>10}{'cpu us':>10}{'ratio':>8}{'95%':>16}{'executions':>12}{'compiles':>10}")
    for pair in PAIRS:
        if options.only not in pair.name:
            continue
        run(pair, options.rounds)
        device, cpu = (statistics.median(pair.times[d]) * 1e6 for d in ("tpu", "cpu"))
        middle, low, high = ratio(pair.times["tpu"], pair.times["cpu"])
        span = f"{low:.2f}..{high:.2f}"
        print(
            f"{pair.name:34}{device:10.1f}{cpu:10.1f}{middle:8.2f}{span:>16}{pair.executions:12.1f}{pair.compiles:10d}",
            flush=True,
        )


if __name__ == "__main__":
    main()
