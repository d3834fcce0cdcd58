"""A fixed part of PyTorch's module and optimizer databases on the device; `make test-all` runs all of them."""

from __future__ import annotations

import pytest

pytest.importorskip("expecttest", reason="torch.testing._internal needs it")

import torch
from device_exclusions import (
    ERRATIC_OPTIMIZERS,
    EXCLUDED_MODULES,
    EXCLUDED_OPTIMIZERS,
    RANDOM_MODULES,
    STATELESS_OPTIMIZERS,
)
from suites import Case, cases, module_db, optim_db
from torch import Tensor, nn

# Every sixth case, and what once went wrong.
ALWAYS = ("nn.BatchNorm2d-float32", "nn.GRU-float64", "nn.LSTM-float64", "optim.AdamW-float32", "optim.SGD-float32")
PART = [case for i, case in enumerate(cases()) if i % 6 == 0 or case.name in ALWAYS]


@pytest.mark.parametrize("case", PART, ids=lambda case: case.name)
def test_the_device_agrees_with_the_cpu(case: Case) -> None:
    case.run()


def test_every_name_that_is_left_out_is_there() -> None:
    assert EXCLUDED_MODULES.keys() | RANDOM_MODULES.keys() <= {info.name for info in module_db}
    names = {info.optim_cls.__name__ for info in optim_db}
    assert EXCLUDED_OPTIMIZERS.keys() | STATELESS_OPTIMIZERS.keys() | ERRATIC_OPTIMIZERS.keys() <= names


def _case(name: str) -> Case:
    return next(case for case in cases() if case.name == name)


def test_a_wrong_module_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = nn.Softplus.forward

    def broken(self: nn.Softplus, x: Tensor) -> Tensor:
        return right(self, x) + (x - x.detach() if x.is_tpu else 0)

    monkeypatch.setattr(nn.Softplus, "forward", broken)
    with pytest.raises(AssertionError, match="not close"):
        _case("nn.Softplus-float32").run()


def test_a_wrong_optimizer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = torch.optim.SGD.step

    def broken(self: torch.optim.SGD, closure: object = None) -> None:
        right(self, closure)  # type: ignore[arg-type]
        weight = self.param_groups[0]["params"][0]
        if weight.is_tpu:
            weight.data.mul_(1.01)

    monkeypatch.setattr(torch.optim.SGD, "step", broken)
    with pytest.raises(AssertionError, match="not close"):
        _case("optim.SGD-float32").run()
