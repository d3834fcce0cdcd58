"""A fixed part of PyTorch's module and optimizer databases on the device; `sweep_device_suites.py` runs all of them."""

from __future__ import annotations

import pytest

pytest.importorskip("expecttest", reason="torch.testing._internal needs it")

from suites import Case, cases

# Every sixth case, and what once went wrong.
ALWAYS = ("nn.BatchNorm2d-float32", "nn.GRU-float64", "nn.LSTM-float64", "optim.AdamW-float32", "optim.SGD-float32")
PART = [case for i, case in enumerate(cases()) if i % 6 == 0 or case.name in ALWAYS]


@pytest.mark.parametrize("case", PART, ids=lambda case: case.name)
def test_the_device_agrees_with_the_cpu(case: Case) -> None:
    case.run()
