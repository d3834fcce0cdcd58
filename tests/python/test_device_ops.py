"""A tenth of PyTorch's op database on device "tpu", results and gradients; `make test-all` runs all of it."""

from __future__ import annotations

import opdb
import pytest
from device_exclusions import KNOWN_FAILURES
from torch import Tensor

TENTH = opdb.tenth()


@pytest.mark.parametrize("pair", TENTH, ids=[pair.name for pair in TENTH])
def test_the_device_agrees_with_the_cpu(
    pair: opdb.Pair, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each entry has its reason beside it and is counted against us; strict, so that one that is mended leaves the list.
    if pair.name in KNOWN_FAILURES:
        request.applymarker(pytest.mark.xfail(reason=KNOWN_FAILURES[pair.name], strict=True))
    monkeypatch.setenv("TORCHTPU_FALLBACK", "error")
    pair.run()


def test_every_name_that_is_left_out_is_an_op() -> None:
    names = {op.full_name for op in opdb.op_db}
    listed = opdb.EXCLUDED.keys() | opdb.UNDETERMINED.keys() | opdb.TIED.keys() | opdb.TYPED_BY_DEVICE.keys()
    assert listed | opdb.ON_HOST.keys() | opdb.CHOSEN_BY_DEVICE.keys() <= names
    assert {name.rsplit("-", 1)[0] for name in KNOWN_FAILURES} <= names


def _pair(name: str) -> opdb.Pair:
    return next(pair for pair in opdb.pairs() if pair.name == name)


@pytest.mark.parametrize("wrong", [lambda t: t + 0.5, lambda t: t[..., :0], lambda t: t.double(), lambda t: t.cpu()])
def test_a_wrong_result_is_found(wrong: object, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = _pair("sin-float32")
    right = pair.op.op

    def broken(t: Tensor) -> Tensor:
        return wrong(right(t)) if t.device.type == "tpu" else right(t)  # type: ignore[operator]

    monkeypatch.setattr(pair.op, "op", broken)
    with pytest.raises(opdb.Disagreement):
        pair.run()


def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = _pair("sin-float32")
    right = pair.op.op
    monkeypatch.setattr(pair.op, "op", lambda t: right(t) + (t - t.detach() if t.device.type == "tpu" else 0))
    with pytest.raises(opdb.Disagreement, match="gradient"):
        pair.run()
