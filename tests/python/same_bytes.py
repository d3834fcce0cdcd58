"""Digests of what this process makes of two models, for test_deterministic.py: a line of JSON.

Each model's trace, and from it the optimized graph and StableHLO with its locations, which name regions; by several
threads at once, of which each must get the same.
"""

from __future__ import annotations

import hashlib
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import torch
import torchtpu
import zoo
from torch import nn
from torchtpu import _plugins
from torchtpu._native import Program

STAGES = ("core", "fused", "stablehlo")


class Loss(nn.Module):
    """A model with its loss, as `capture_step` wants it."""

    def __init__(self, entry: zoo.Entry) -> None:
        super().__init__()
        self.entry = entry
        self.model = entry.build("small")

    def forward(self, targets: torch.Tensor, **inputs: torch.Tensor) -> object:
        loss = self.entry.loss(self.model, zoo.Batch(inputs, targets))
        return type("Output", (), {"loss": loss})


def traces() -> dict[str, bytes]:
    """GPT-2's training step and the inference of a network of convolutions, both small."""
    gpt2, cnn = zoo.ZOO["gpt2"], zoo.ZOO["mobilenet_v3"]
    torch.manual_seed(0)
    loss, batch = Loss(gpt2), gpt2.data("small")
    adamw = torch.optim.AdamW(loss.parameters())
    step = torchtpu.capture_step(loss, {**batch.inputs, "targets": batch.targets}, optimizer=adamw)
    convolutions = torchtpu.capture(cnn.build("small").eval().requires_grad_(False), **cnn.data("small").inputs)
    return {"gpt2": step.trace.to_bytes(), "cnn": convolutions.to_bytes()}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def main() -> None:
    threads = int(sys.argv[1])
    torch.set_num_threads(threads)
    found = {}
    for name, trace in traces().items():
        found[name] = digest(trace)
        for stage in STAGES:
            with ThreadPoolExecutor(threads) as pool:
                texts = list(
                    pool.map(lambda s, t=trace: Program(t, plugin=_plugins.current()).text(s), [stage] * threads)
                )
            assert len(set(texts)) == 1, f"threads disagree on {name}'s {stage}"
            found[f"{name}, {stage}"] = digest(texts[0].encode())
    print(json.dumps(found))


if __name__ == "__main__":
    main()
