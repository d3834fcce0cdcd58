"""A fixed part of what ops do on device "tpu" beyond results and gradients; `make test-all` runs all of it."""

from __future__ import annotations

import behaviours
import opdb
import pytest
import torch
from behaviours import BEHAVIOURS, Case
from device_exclusions import EXCLUDED_BEHAVIOURS, KNOWN_MISBEHAVIOURS
from torch import Tensor
from torch.autograd import forward_ad

CASES = behaviours.cases()
# Chosen by the op's name, so an op stays in or out as others come and go; an op does not show all of its behaviours.
TURNS = {behaviour: turn for turn, behaviour in enumerate(BEHAVIOURS)}
# And what once went wrong.
ALWAYS = ("differences/sin-float64", "in place/nn.functional.rrelu-float32", "views/split-float32")
PART = [case for case in CASES if case.pair.order // 4 % 120 == TURNS[case.behaviour] or case.name in ALWAYS]


@pytest.mark.parametrize("case", PART, ids=[case.name for case in PART])
def test_the_device_does_as_the_cpu(case: Case, request: pytest.FixtureRequest) -> None:
    # Each entry has its reason beside it and is counted against us; strict, so that one that is mended leaves the list.
    if case.name in KNOWN_MISBEHAVIOURS:
        request.applymarker(pytest.mark.xfail(reason=KNOWN_MISBEHAVIOURS[case.name], strict=True))
    case.run()


def test_every_behaviour_is_shown_and_every_name_left_out_is_a_case() -> None:
    assert {case.behaviour for case in PART} == set(BEHAVIOURS)
    assert KNOWN_MISBEHAVIOURS.keys() <= {case.name for case in CASES}
    assert not EXCLUDED_BEHAVIOURS.keys() & {case.name for case in CASES}


def _case(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def _on_tpu(broken: object, right: object) -> object:
    """`right` on the CPU, `broken` on the device."""
    return lambda t, *args, **kwargs: (broken if t.device.type == "tpu" else right)(t, *args, **kwargs)  # type: ignore[operator]


def _sin_of_a_copy(t: Tensor) -> Tensor:
    return t.clone().sin_()


def _sin_into_another(t: Tensor, out: Tensor | None = None) -> Tensor:
    return torch.sin(t)


def _copied_transpose(t: Tensor, *dims: int) -> Tensor:
    return t.transpose(*dims).contiguous()


@pytest.mark.parametrize(
    ("name", "attribute", "broken"),
    [
        ("in place/sin-float32", "inplace_variant", _sin_of_a_copy),
        ("out/sin-float32", "op", _sin_into_another),
        ("views/transpose-float32", "op", _copied_transpose),
        ("spread out/sin-float32", "op", lambda t: t.as_strided(t.size(), [1] * t.dim()).sin()),
        ("forward/sin-float32", "op", lambda t: t.sin() + (t - forward_ad.unpack_dual(t).primal)),
        ("differences/sin-float64", "op", lambda t: t.sin() + (t - t.detach())),
    ],
)
def test_misbehaviour_is_found(name: str, attribute: str, broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    case = _case(name)
    case.run()
    right = getattr(case.pair.op, attribute)
    monkeypatch.setattr(case.pair.op, attribute, _on_tpu(broken, right))
    with pytest.raises(opdb.Disagreement):
        case.run()
