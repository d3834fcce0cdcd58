"""A tenth of PyTorch's op database through `torch.compile`, in one graph each and never on the host.

Two samples of each pair; `make test-all` runs ten of every pair.
"""

from __future__ import annotations

import opdb
import pytest
import torch
import torchtpu
from device_exclusions import KNOWN_COMPILED_FAILURES

TENTH = opdb.tenth(compiled=True)
SAMPLES = 2


@pytest.mark.parametrize("pair", TENTH, ids=[pair.name for pair in TENTH])
def test_compiled_ops_agree_with_eager_ones(
    pair: opdb.Pair, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each entry has its reason beside it and is counted against us; strict, so that one that is mended leaves the list.
    if pair.name in KNOWN_COMPILED_FAILURES:
        request.applymarker(pytest.mark.xfail(reason=KNOWN_COMPILED_FAILURES[pair.name], strict=True))
    monkeypatch.setenv("TORCHTPU_FALLBACK", "error")
    pair.run(SAMPLES)


def test_every_name_that_is_left_out_is_a_pair() -> None:
    assert KNOWN_COMPILED_FAILURES.keys() <= {pair.name for pair in opdb.pairs(compiled=True)}


def test_a_wrong_compiled_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what ran was ours."""
    pair = next(pair for pair in opdb.pairs(compiled=True) if pair.name == "sin-float32")
    before = torchtpu.stats()["executions"]
    pair.run(SAMPLES)
    assert torchtpu.stats()["executions"] > before
    eager = opdb.call
    monkeypatch.setattr(opdb, "call", lambda op, first, args, kwargs: eager(op, first, args, kwargs) + 0.5)
    with pytest.raises(opdb.Disagreement):
        pair.run(SAMPLES)


COMPLEX = {
    "logsumexp": lambda x: x.logsumexp(0),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "ldexp": lambda x: torch.ldexp(x, torch.tensor(2)),
    "linspace": lambda x: x + torch.linspace(0, 1j, 2),
    "logspace": lambda x: x + torch.logspace(0, 1 + 1j, 2, dtype=torch.complex64),
}


@pytest.mark.filterwarnings("ignore:.*runs on the host")
@pytest.mark.parametrize("name", COMPLEX)
def test_functions_of_complex_numbers_without_a_lowering_run_on_the_host(name: str) -> None:
    x = torch.tensor([1 + 2j, -1 + 0.5j])
    torch.testing.assert_close(torch.compile(COMPLEX[name], backend="torchtpu")(x), COMPLEX[name](x))
