"""The optimizer end to end: what it makes of a network of convolutions, and that options keep it in bounds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torchtpu
from torch import Tensor, nn


class Net(nn.Module):
    """One of each: dense, by stride, depthwise, grouped, a norm, and a product at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 5, padding=2, groups=8, bias=False),
            nn.Conv2d(8, 16, 3, padding=2, dilation=2, groups=4),
            nn.GELU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layers(x).mean((2, 3)))
        return logits


def net() -> tuple[Net, Tensor]:
    torch.manual_seed(0)
    return Net(), torch.randn(2, 3, 20, 20)


@pytest.mark.parametrize("options", [{"optimize": False}, {"numerics": "exact"}, {}, {"numerics": "fast"}])
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_results_and_gradients_stay(options: dict[str, object], training: bool) -> None:
    model, x = net()
    model.train(training)
    expected = model(x)
    expected.square().sum().backward()
    gradients = [p.grad for p in model.parameters()]
    model.zero_grad()
    again, _ = net()
    again.train(training)
    step = torch.compile(again, backend="torchtpu", fullgraph=True, options=options)
    ours = step(x)
    ours.square().sum().backward()
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close([p.grad for p in again.parameters()], gradients, rtol=1e-4, atol=1e-4)


def test_what_is_written_for_the_cpu() -> None:
    model, x = net()
    with torch.no_grad():
        plain, fused = (torchtpu.lower(model.eval(), x, stage=stage) for stage in ("core", "fused"))
    assert plain.count("convolution(") == 3
    assert "feature_group_count:8" in plain and "feature_group_count:8" not in fused
    assert fused.count("convolution(") == 1, "groups of few are products"


def test_every_process_writes_the_same() -> None:
    program = (
        "import torch, torchtpu, hashlib; torch.manual_seed(0);"
        "from test_optimizer import net; m, x = net();"
        "print(hashlib.sha256(torchtpu.lower(m.eval(), x, stage='fused').encode()).hexdigest())"
    )

    def run(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), environment.get("PYTHONPATH", "")])
        command = [sys.executable, "-c", program]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

    assert len({run(seed) for seed in ("0", "1")}) == 1
