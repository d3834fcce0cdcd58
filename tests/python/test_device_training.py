"""The models of the zoo, trained eagerly on device "tpu": the CPU's script with another device string.

Agreement is what it is for compiled models (`agreement.py`). `make test` runs some of the matrix of models, optimizers,
element types and modes; `TORCHTPU_TRAINING=all` (`make test-all`) runs all of it.
"""

from __future__ import annotations

import os
from functools import cache
from itertools import product

import pytest
import torch
import torchtpu
from agreement import KEPT, SEEDS, Trajectory, assert_error_within_eager, assert_same_trajectory, fallbacks, train
from fused_at_once import fused_at_once
from zoo import ZOO

STEPS = 5
# Twice as many starts in bf16 as for compiled models: losses of so few are decided by chance where SGD moves little.
STARTS = {torch.float64: 1, torch.float32: SEEDS[torch.float32], torch.bfloat16: 2 * SEEDS[torch.bfloat16]}
TYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16}
MATRIX = list(product(ZOO, TYPES, ("adamw", "sgd"), ("strict", "debug", "fused")))
# A model of each kind: perceptron, convolutions with batch statistics, transformer, recurrence.
OF_EACH_KIND = ("mlp", "cnn", "gpt_block", "lstm")


def selected(model: str, dtype: str, optimizer: str, mode: str) -> bool:
    """What `make test` runs: every model in f64 with both optimizers; elsewhere a model of each kind."""
    if dtype == "f64":
        return mode == "strict" or (model in OF_EACH_KIND and (mode == "debug" or optimizer == "adamw"))
    return mode == "strict" and optimizer == "adamw" and model in OF_EACH_KIND


def cases() -> list[tuple[str, str, str, str]]:
    everything = os.environ.get("TORCHTPU_TRAINING") == "all"
    return [case for case in MATRIX if everything or selected(*case)]


@cache
def on_the_cpu(model: str, dtype: torch.dtype, optimizer: str, seeds: int) -> list[Trajectory]:
    return train(ZOO[model], dtype, optimizer, seeds=seeds, steps=STEPS)


@pytest.mark.parametrize(("model", "dtype", "optimizer", "mode"), cases(), ids=map("-".join, cases()))
def test_training_agrees_with_the_cpu(model: str, dtype: str, optimizer: str, mode: str) -> None:
    ty, seeds = TYPES[dtype], STARTS[TYPES[dtype]]
    before = fallbacks()
    with fused_at_once() if mode == "fused" else torchtpu.eager_mode(mode):
        ours = train(ZOO[model], ty, optimizer, seeds=seeds, steps=STEPS, device="tpu")
    assert fallbacks() == before, "ops ran on the host"
    theirs = on_the_cpu(model, ty, optimizer, seeds)
    if ty == torch.float64:
        assert_same_trajectory(ours[0], theirs[0])
    else:
        exact = on_the_cpu(model, torch.float64, optimizer, seeds)
        assert_error_within_eager(ours, theirs, exact, KEPT[ty])
