"""Nested tensors with ``layout=torch.jagged``: sequences of different lengths, one behind another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

pytestmark = pytest.mark.filterwarnings("error:.*runs on the host")

LENGTHS = (3, 1, 5)


def sequences(device: str, lengths: tuple[int, ...] = LENGTHS, width: int = 8, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    parts = [torch.randn(length, width, generator=random).to(device) for length in lengths]
    return torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)


def heads(t: Tensor) -> Tensor:
    return t.unflatten(-1, (2, -1)).transpose(1, 2)


USES: dict[str, Callable[[Tensor], Tensor]] = {
    "padded": lambda t: torch.nested.to_padded_tensor(t, -2.5),
    "cut off": lambda t: torch.nested.to_padded_tensor(t, 0.0, (3, 6, 8)),
    "softmax": lambda t: F.softmax(t, 1),
    "norm": lambda t: F.layer_norm(t, (8,)),
    "layers": lambda t: F.gelu(t @ torch.ones(8, 3, device=t.device)) * 2 + 1,
}


@pytest.mark.parametrize("name", USES)
def test_sequences_are_used(name: str) -> None:
    ours, theirs = sequences("tpu"), sequences("cpu")
    results = USES[name](ours), USES[name](theirs)
    check(*results)
    for result in results:
        (result.values() if result.is_nested else result).square().sum().backward()
    check(ours.grad, theirs.grad)


def check(ours: Tensor | None, theirs: Tensor | None) -> None:
    assert ours is not None and theirs is not None and ours.is_nested == theirs.is_nested
    if ours.is_nested:
        assert ours.offsets().tolist() == theirs.offsets().tolist()
        ours, theirs = ours.values(), theirs.values()
    assert ours.device.type == "tpu" and ours.shape == theirs.shape and ours.stride() == theirs.stride()
    torch.testing.assert_close(ours.cpu(), theirs)


@pytest.mark.parametrize("scale", [None, 0.3])
def test_sequences_attend_to_themselves(scale: float | None) -> None:
    ours, theirs = sequences("tpu"), sequences("cpu")
    results = [F.scaled_dot_product_attention(*[heads(t)] * 3, scale=scale) for t in (ours, theirs)]
    check(*results)
    for result in results:
        result.transpose(1, 2).values().square().sum().backward()
    check(ours.grad, theirs.grad)


def test_sequences_attend_to_themselves_in_a_compiled_function() -> None:
    compiled = torch.compile(lambda t: F.scaled_dot_product_attention(*[heads(t)] * 3), backend="torchtpu")
    for lengths in (LENGTHS, (4, 4)):
        ours, theirs = sequences("tpu", lengths), sequences("cpu", lengths)
        results = compiled(ours), F.scaled_dot_product_attention(*[heads(theirs)] * 3)
        for result in results:
            result.transpose(1, 2).values().square().sum().backward()
        torch.testing.assert_close(*(result.transpose(1, 2).values().cpu() for result in results))
        check(ours.grad, theirs.grad)


def test_sequences_attend_to_others() -> None:
    results = []
    for device in ("tpu", "cpu"):
        query, key = sequences(device), sequences(device, (2, 4, 1), seed=1)
        value = torch.nested.nested_tensor_from_jagged(key.values() * 2, key.offsets())
        again = torch.nested.nested_tensor_from_jagged(key.values() * 2, key.offsets().clone())
        for v in (value, again):
            results.append(F.scaled_dot_product_attention(heads(query), heads(key), heads(v)))
    for i in (0, 1):
        check(results[i], results[2 + i])


def test_sequences_of_other_lengths_are_refused() -> None:
    one, other = heads(sequences("tpu", (2, 4, 1))), heads(sequences("tpu", (2, 1, 4)))
    with pytest.raises(RuntimeError, match="expected key and value to have sequences of the same lengths"):
        F.scaled_dot_product_attention(one, one, other)
    with pytest.raises(
        RuntimeError, match="expected query and key, with is_causal=True, to have sequences of the same"
    ):
        F.scaled_dot_product_attention(one, other, other, is_causal=True)


def test_sequences_that_are_no_heads_or_lie_apart_are_refused() -> None:
    dense = torch.randn(3, 6, 8, device="tpu")
    apart = torch.nested.narrow(dense, 1, 0, torch.tensor([2, 3, 1], device="tpu"), layout=torch.jagged)
    for t in (sequences("tpu"), heads(apart)):
        with pytest.raises(RuntimeError, match=r"expected query to be \[sequences, heads, positions, width\]"):
            F.scaled_dot_product_attention(t, t, t)
    together = heads(apart.contiguous())
    assert F.scaled_dot_product_attention(together, together, together).transpose(1, 2).values().shape == (6, 2, 4)


def test_sequences_attend_to_what_came_before() -> None:
    # PyTorch's CPU refuses this; its other devices do not.
    ours = sequences("tpu")
    together = F.scaled_dot_product_attention(*[heads(ours)] * 3, is_causal=True).transpose(1, 2)
    for i, part in enumerate(ours.values().detach().cpu().split(LENGTHS)):
        alone = F.scaled_dot_product_attention(*[heads(part[None])] * 3, is_causal=True)
        torch.testing.assert_close(together[i].cpu(), alone[0].transpose(0, 1))


def test_an_empty_sequence_attends_to_nothing() -> None:
    ours, theirs = sequences("tpu", (2, 0, 3)), sequences("cpu", (2, 0, 3))
    padded = [torch.nested.to_padded_tensor(t, 1.0) for t in (ours, theirs)]
    torch.testing.assert_close(padded[0].cpu(), padded[1])
    attended = F.scaled_dot_product_attention(*[heads(ours)] * 3)
    alone = [F.scaled_dot_product_attention(*[heads(p[None])] * 3)[0] for p in theirs.values().split((2, 3))]
    torch.testing.assert_close(attended.transpose(1, 2).values().cpu(), torch.cat([a.transpose(0, 1) for a in alone]))


def test_a_model_of_sequences_is_trained() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.out = nn.LayerNorm(8), nn.Linear(8, 8)
            self.qkv = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, t: Tensor) -> Tensor:
            q, k, v = (heads(layer(self.norm(t))) for layer in self.qkv)
            return t + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))

    losses: dict[str, list[Tensor]] = {}
    for device in ("tpu", "cpu"):
        torch.manual_seed(0)
        model = nn.Sequential(Block(), Block()).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        losses[device] = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = model(sequences(device)).values().square().mean()
            loss.backward()
            optimizer.step()
            losses[device].append(loss.detach().cpu())
    torch.testing.assert_close(losses["tpu"], losses["cpu"])
