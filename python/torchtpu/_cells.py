"""One time step of each kind of recurrent network, and its gradients.

Gradients come in two parts, so that the loop back over time has little left to do: what a step's gradients are
multiplied with is computed for all steps at once, and the loop multiplies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor


class Cell(Protocol):
    """One kind of network. States come hidden state first; gates lie side by side in the last dimension."""

    def step(self, x: Tensor, gates: Tensor, states: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The next states, and what `factors` needs of this step.

        ``x`` is what the input adds to the gates, and ``gates`` what the hidden state does.
        """

    def factors(
        self, xs: Tensor, before: Sequence[Tensor], after: Sequence[Tensor], kept: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """What the gradients of a step are multiplied with. Everything is given, and comes, for all steps at once."""

    def step_back(
        self, grads: Sequence[Tensor], factors: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor, tuple[Tensor | None, ...]]:
        """Gradients of ``x``, of ``gates`` and of the states, as far as these do not come through the gates.

        ``grads`` are those of the next states.
        """

    def hidden(self, after: Sequence[Tensor], kept: Sequence[Tensor]) -> Tensor:
        """The hidden states of all steps before they are projected."""


class Lstm:
    """Gates are input, forget, cell and output."""

    def step(self, x: Tensor, gates: Tensor, states: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        gates = gates + x
        i, f, g, o = self._open(gates)
        c = f * states[1] + i * g
        return (o * c.tanh(), c), (gates,)

    def factors(
        self, xs: Tensor, before: Sequence[Tensor], after: Sequence[Tensor], kept: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        i, f, g, o = self._open(kept[0])
        t = after[1].tanh()
        of_cell = g * i * (1 - i), before[1] * f * (1 - f), i * (1 - g * g)
        return *of_cell, t * o * (1 - o), o * (1 - t * t), f

    def step_back(
        self, grads: Sequence[Tensor], factors: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor, tuple[Tensor | None, ...]]:
        d_hidden, d_cell = grads
        by_i, by_f, by_g, by_o, through, f = factors
        d_cell = d_cell + d_hidden * through
        d_gates = torch.cat((d_cell * by_i, d_cell * by_f, d_cell * by_g, d_hidden * by_o), -1)
        return d_gates, d_gates, (None, d_cell * f)

    def hidden(self, after: Sequence[Tensor], kept: Sequence[Tensor]) -> Tensor:
        return self._open(kept[0])[3] * after[1].tanh()

    @staticmethod
    def _open(gates: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        i, f, g, o = gates.chunk(4, -1)
        return i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()


class Gru:
    """Gates are reset, update and new."""

    def step(self, x: Tensor, gates: Tensor, states: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        _, z, n, _ = self._open(x, gates)
        return ((states[0] - n) * z + n,), (gates,)

    def factors(
        self, xs: Tensor, before: Sequence[Tensor], after: Sequence[Tensor], kept: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        r, z, n, h_n = self._open(xs, kept[0])
        by_n = (1 - z) * (1 - n * n)
        return by_n * h_n * r * (1 - r), (before[0] - n) * z * (1 - z), by_n, by_n * r, z

    def step_back(
        self, grads: Sequence[Tensor], factors: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor, tuple[Tensor | None, ...]]:
        (d_hidden,) = grads
        d_r, d_z, d_n, d_h_n, d_before = (d_hidden * factor for factor in factors)
        return torch.cat((d_r, d_z, d_n), -1), torch.cat((d_r, d_z, d_h_n), -1), (d_before,)

    def hidden(self, after: Sequence[Tensor], kept: Sequence[Tensor]) -> Tensor:
        return after[0]

    @staticmethod
    def _open(x: Tensor, gates: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        (x_r, x_z, x_n), (h_r, h_z, h_n) = x.chunk(3, -1), gates.chunk(3, -1)
        r = (h_r + x_r).sigmoid()
        return r, (h_z + x_z).sigmoid(), (x_n + h_n * r).tanh(), h_n


class Plain:
    """One gate, which is the hidden state once `activation` is applied. `slope` is its derivative at a result."""

    def __init__(self, activation: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]) -> None:
        self.activation, self.slope = activation, slope

    def step(self, x: Tensor, gates: Tensor, states: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        return (self.activation(gates + x),), ()

    def factors(
        self, xs: Tensor, before: Sequence[Tensor], after: Sequence[Tensor], kept: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        return (self.slope(after[0]),)

    def step_back(
        self, grads: Sequence[Tensor], factors: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor, tuple[Tensor | None, ...]]:
        d_gates = grads[0] * factors[0]
        return d_gates, d_gates, (None,)

    def hidden(self, after: Sequence[Tensor], kept: Sequence[Tensor]) -> Tensor:
        return after[0]


CELLS: dict[Callable[..., Any], Cell] = {
    torch.lstm: Lstm(),
    torch.gru: Gru(),
    torch.rnn_tanh: Plain(torch.tanh, lambda h: 1 - h * h),
    torch.rnn_relu: Plain(torch.relu, lambda h: (h > 0).to(h.dtype)),
}
