"""Training for quantisation: PyTorch's fake-quantize modules with their observers, on device "tpu" and compiled."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.ao.quantization as ao
import torchtpu
from fused_at_once import fused_at_once
from torch import Tensor, nn
from torch.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize

CHANNELS = 5
LEARNABLE = (
    _LearnableFakeQuantize.with_args(
        observer=ao.MovingAverageMinMaxObserver, quant_min=0, quant_max=255, use_grad_scaling=True
    ),
    _LearnableFakeQuantize.with_args(
        observer=ao.MovingAveragePerChannelMinMaxObserver,
        quant_min=-128,
        quant_max=127,
        dtype=torch.qint8,
        qscheme=torch.per_channel_symmetric,
        channel_len=CHANNELS,
    ),
)
# What activations and weights go through.
KINDS = {
    "observed": (ao.default_fake_quant, ao.default_weight_fake_quant),
    "observed, by channel": (ao.default_fake_quant, ao.default_per_channel_weight_fake_quant),
    "fused": (ao.default_fused_act_fake_quant, ao.default_fused_wt_fake_quant),
    "fused, by channel": (ao.default_fused_act_fake_quant, ao.default_fused_per_channel_wt_fake_quant),
    "learnable": LEARNABLE,
}
STEPS = 6


class Quantized(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        activations, weights = KINDS[kind]
        self.linear, self.activations, self.weights = nn.Linear(6, CHANNELS), activations(), weights()

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weights(self.linear.weight)
        return nn.functional.linear(self.activations(x), weight, self.linear.bias)


def train(kind: str, device: str, backend: str | None = None) -> list[Any]:
    """The losses, and what is left of the model."""
    torch.manual_seed(0)
    model = Quantized(kind).to(device)
    learnable = [it for it in (model.activations, model.weights) if isinstance(it, _LearnableFakeQuantize)]
    for it in learnable:
        it.enable_static_estimate()
    step = torch.compile(model, backend=backend) if backend else model
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    draws = torch.Generator().manual_seed(1)
    losses = []
    for number in range(STEPS):
        if number == 2:
            for it in learnable:
                it.enable_param_learning()
        loss = step(torch.randn(7, 6, generator=draws).to(device)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return [losses, {name: value.cpu() for name, value in model.state_dict().items()}]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    # An observer of channels gives its state another size when it sees the first batch, on the host.
    if request.param != "fused, by channel":
        monkeypatch.setenv("TORCHTPU_FALLBACK", "error")
    yield request.param


@pytest.mark.filterwarnings("ignore:aten._fused_moving_avg_obs_fq_helper.default runs on the host")
@pytest.mark.parametrize("mode", ["strict", "fused", "debug"])
def test_training_for_quantisation_agrees_with_the_cpu(kind: str, mode: str) -> None:
    with fused_at_once() if mode == "fused" else torchtpu.eager_mode(mode):  # type: ignore[arg-type]
        ours = train(kind, "tpu")
    torch.testing.assert_close(ours, train(kind, "cpu"))


@pytest.mark.filterwarnings("ignore:aten._fused_moving_avg_obs_fq_helper")
@pytest.mark.filterwarnings(
    "error:Dynamo does not know how to trace"
)  # it is not to trace what counts runs on the host
@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_compiled_training_for_quantisation_agrees_with_the_cpu(kind: str, device: str) -> None:
    torch._dynamo.reset()
    torch.testing.assert_close(train(kind, device, "torchtpu"), train(kind, "cpu"))


def test_an_observer_of_channels_runs_on_the_host_once() -> None:
    quantize = ao.default_fused_per_channel_wt_fake_quant().to("tpu")
    weight = torch.randn(CHANNELS, 6, device="tpu")
    op = "aten::_fused_moving_avg_obs_fq_helper.default"

    def times() -> int:
        return sum(torchtpu.stats()["fallbacks"].get(op, {}).values())

    before = times()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # told once a line, perhaps to another test
        quantize(weight)
    quantize(weight), quantize(weight)
    assert times() == before + 1
