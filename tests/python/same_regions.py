"""What regions fused mode cuts while models train, disturbed in every way that must not matter: a line of JSON.

    python tests/python/same_regions.py SEED [MODEL,...]

SEED seeds the disturbances: threads that take the processor, delays between modules, in the backward pass and between
steps. Without models it is a loop of many small steps. The losses are those of the last step.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time

import torch
import torchtpu
import zoo
from torch import nn

STEPS = 6


class Noise:
    """Delays, and a thread in the way."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        if self.random.random() < 0.7:
            threading.Thread(target=self.burn, daemon=True).start()

    def burn(self) -> None:
        while True:
            time.sleep(self.random.random() / 100)
            sum(range(self.random.randrange(20000)))

    def delay(self, *_: object) -> None:
        if self.random.random() < 0.1:
            time.sleep(self.random.random() / 200)

    def within(self, model: nn.Module) -> nn.Module:
        for module in model.modules():
            module.register_forward_hook(self.delay)
        for parameter in model.parameters():
            parameter.register_hook(self.delay)
        return model


def many_small_steps(noise: Noise) -> float:
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 1)).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.linspace(-1, 1, 24).reshape(4, 6).to("tpu")
    for step in range(30):
        optimizer.zero_grad()
        for _ in range(30):
            loss = model(x).square().mean()
            loss.backward()
            noise.delay()
        optimizer.step()
        if step % 7 == 0:
            loss.item()
    return loss.item()


def training(entry: zoo.Entry, noise: Noise) -> float:
    model, batch = noise.within(entry.build("small").to("tpu")), entry.batch("small").to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = entry.loss(model, batch)
        loss.backward()
        optimizer.step()
        noise.delay()
    return loss.item()


def main() -> None:
    noise = Noise(int(sys.argv[1]))
    torch.manual_seed(0)
    found, before = {}, 0
    with torchtpu.eager_mode("fused"):
        for name in sys.argv[2].split(",") if len(sys.argv) > 2 else [""]:
            loss = training(zoo.ZOO[name], noise) if name else many_small_steps(noise)
            report = torchtpu.explain_eager()
            found[name] = [report.sequence, report.recorded - before, loss]
            before = report.recorded
    print(json.dumps(found))


if __name__ == "__main__":
    main()
