"""Real models through `torch.compile`: inference, gradients, training with a compiled optimizer, dropout.

Pick one with `-k`, for example `-k "bert and gradients"`. `TORCHTPU_TEST_BACKEND=aot_eager` runs the same tests on
PyTorch's own backend, which shows that a failure is the backend's and not the test's. Dynamo makes one graph of every
model here.
"""

from __future__ import annotations

import os
from functools import cache

import pytest
import torch
from agreement import (
    KEPT,
    SEEDS,
    Trajectory,
    assert_error_within_eager,
    assert_same_distribution,
    assert_same_outputs,
    assert_same_trajectory,
    compiled,
    compiling,
    differentiate,
    eager,
    graph_count,
    infer,
    sample_losses,
    train,
    train_with_dropout,
)
from torch import Tensor
from zoo import ZOO, Entry

every_model = pytest.mark.parametrize("entry", ZOO.values(), ids=ZOO.keys())

# Left to `make test-all`: the lesser optimizer; bf16, f64 and dropout in models of many layers, and f32 in two of them,
# 10 to 30 s each. Those that stay have what the others are made of: convolutions, recurrence, attention, experts.
ALL = os.environ.get("TORCHTPU_TRAINING") == "all"
MANY_LAYERS = () if ALL else ("resnet50", "mobilenet_v3", "convnext", "bert", "gpt2", "vit", "t5")
FEW_LAYERS = [entry for entry in ZOO.values() if entry.name not in MANY_LAYERS]
IN_F32 = [entry for entry in ZOO.values() if ALL or entry.name not in ("resnet50", "mobilenet_v3")]
TRAINED = [("f32", torch.float32, entry) for entry in IN_F32] + [
    ("bf16", torch.bfloat16, entry) for entry in FEW_LAYERS
]


@cache
def eager_runs(name: str, dtype: torch.dtype, optimizer: str, seeds: int) -> list[Trajectory]:
    return train(ZOO[name], dtype, optimizer, seeds=seeds)


@every_model
def test_inference(entry: Entry) -> None:
    with compiling(entry):
        ours = infer(entry, compiled)
        assert graph_count() == 1
    assert_same_outputs(ours, infer(entry))


@every_model
def test_gradients(entry: Entry) -> None:
    with compiling(entry):
        ours = differentiate(entry, compiled)
        assert graph_count() == 1
    torch.testing.assert_close(ours, differentiate(entry))


@pytest.mark.parametrize("entry", FEW_LAYERS, ids=lambda entry: entry.name)
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"] if ALL else ["adamw"])
def test_training_f64(entry: Entry, optimizer: str) -> None:
    with compiling(entry):
        [ours] = train(entry, torch.float64, optimizer, compiled)
    [expected] = eager_runs(entry.name, torch.float64, optimizer, 1)
    assert_same_trajectory(ours, expected)


@pytest.mark.parametrize(
    ("entry", "dtype"),
    [pytest.param(entry, dtype, id=f"{name}-{entry.name}") for name, dtype, entry in TRAINED],
)
def test_training_error(entry: Entry, dtype: torch.dtype) -> None:
    seeds = SEEDS[dtype]
    with compiling(entry):
        ours = train(entry, dtype, "adamw", compiled, seeds)
    expected = eager_runs(entry.name, dtype, "adamw", seeds)
    assert_error_within_eager(ours, expected, eager_runs(entry.name, torch.float64, "adamw", seeds), KEPT[dtype])


@pytest.mark.parametrize("entry", [e for e in FEW_LAYERS if e.has_dropout], ids=lambda entry: entry.name)
def test_dropout(entry: Entry) -> None:
    with compiling(entry):
        ours = sample_losses(entry, compiled)
        again = sample_losses(entry, compiled)
        elsewhere = sample_losses(entry, compiled, seed=1)
        training = train_with_dropout(entry, compiled)
    assert torch.equal(ours, again)
    assert not torch.equal(ours, elsewhere)
    assert len(ours.unique()) > len(ours) // 2, "calls repeat each other"
    assert_same_distribution(ours, sample_losses(entry, eager))
    assert training[-3:].mean() < training[:3].mean()


def _drop(x: Tensor) -> Tensor:
    return torch.nn.functional.dropout(x, 0.3)


def test_dropout_mask() -> None:
    """The kept share is 1 - p, what is kept is scaled by 1 / (1 - p), and backward sees the mask of forward."""
    x = torch.ones(100, 100, requires_grad=True)
    torch.manual_seed(0)
    out = compiled(_drop)(x)
    out.sum().backward()
    kept = out != 0
    share = kept.double().mean().item()
    assert abs(share - 0.7) < 5 * (0.3 * 0.7 / out.numel()) ** 0.5
    torch.testing.assert_close(out[kept], torch.full_like(out[kept], 1 / 0.7))
    torch.testing.assert_close(x.grad, out.detach())
