"""A few of the architectures; `make test-all` runs all, which are listed with their results in docs/models.md."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import torch
from architectures import ARCHITECTURES
from architectures.agreement import examine
from architectures.core import Inputs
from torch import Tensor, nn

PART = ("poolformer", "mlp_mixer", "olmoe", "mamba", "dit", "clip")
PAGE = Path(__file__).parents[2] / "docs" / "models.md"


@pytest.mark.parametrize("name", PART)
def test_it_agrees_with_eager(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHTPU_FALLBACK", "error")
    record = examine(ARCHITECTURES[name], "torchtpu")
    assert record["right"], record


def test_a_wrong_model_is_found() -> None:
    def infer(model: nn.Module, inputs: Inputs) -> Tensor:
        out: Tensor = model(**inputs)
        return out * 1.001 if torch.compiler.is_compiling() else out

    def loss(model: nn.Module, inputs: Inputs) -> Tensor:
        out: Tensor = model(**inputs)
        return out.square().mean() if torch.compiler.is_compiling() else out.square().mean() * 1.001

    record = examine(dataclasses.replace(ARCHITECTURES["mlp_mixer"], infer=infer, loss=loss), "torchtpu")
    assert not record["right"]
    assert "further from f64" in record["inference"]["failure"]
    assert "further from f64" in record["training"]["failure"]


def test_every_architecture_is_on_the_page() -> None:
    listed = re.findall(r"^\| (\w+) \| `", PAGE.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(ARCHITECTURES)
    assert len(ARCHITECTURES) >= 60
