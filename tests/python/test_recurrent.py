"""Recurrent networks of several layers: dropout between them, and everything else, as eager has it.

With `p = 1` what one layer hands to the next is zero whatever is drawn, so results can be compared exactly.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from agreement import compiled
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence
from torchtpu.recurrent import layer_by_layer

NETWORKS = {
    "lstm": nn.LSTM,
    "lstm_both_ways": partial(nn.LSTM, bidirectional=True, batch_first=True),
    "lstm_proj": partial(nn.LSTM, proj_size=2),
    "gru": nn.GRU,
    "rnn_tanh": nn.RNN,
    "rnn_relu": partial(nn.RNN, nonlinearity="relu"),
}


@pytest.fixture(autouse=True)
def recurrent_networks_are_traced() -> Any:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def _build(make: Any, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return make(3, 4, num_layers=2, **options)  # type: ignore[no-any-return]


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS.keys())
def test_training(make: Any) -> None:
    network = _build(make, dropout=1.0)
    x = torch.randn(2, 3, 3, requires_grad=True)
    leaves = [x, *network.parameters()]
    results = []
    for run in (network, compiled(network)):
        out, _ = states = run(x)
        results.append((states, torch.autograd.grad(out.square().sum(), leaves)))
    torch.testing.assert_close(results[1], results[0])


def test_evaluation_drops_nothing() -> None:
    network = _build(nn.LSTM, dropout=1.0).eval()
    x = torch.randn(5, 2, 3)
    with torch.no_grad():
        torch.testing.assert_close(compiled(network)(x), network(x))


def test_calls_draw_anew() -> None:
    network = _build(nn.GRU, dropout=0.5)
    x = torch.randn(5, 2, 3)
    run = compiled(network)
    assert not torch.equal(run(x)[0], run(x)[0])


@pytest.mark.parametrize("op", [torch.lstm, torch.gru], ids=["lstm", "gru"])
def test_packed_sequences(op: Any) -> None:
    """Dynamo leaves these to eager; the function that takes a network apart serves them too."""
    network = _build(nn.LSTM if op is torch.lstm else nn.GRU, dropout=1.0)
    packed = pack_sequence([torch.randn(5, 3), torch.randn(2, 3)])
    zeros = torch.zeros(2, 2, 4)
    hidden: Tensor | list[Tensor] = [zeros, zeros] if op is torch.lstm else zeros
    expected, states = network(packed)
    weights = network._flat_weights
    rest = {"num_layers": 2, "dropout": 1.0, "train": True, "bidirectional": False}
    ours, *last = layer_by_layer(op, packed.data, packed.batch_sizes, hidden, weights, True, **rest)
    torch.testing.assert_close(ours, expected.data)
    torch.testing.assert_close(tuple(last), states if op is torch.lstm else (states,))
