"""Attention over sequences of different lengths: nested tensors with ``layout=torch.jagged`` on ``"tpu"``.

PyTorch has kernels for them on CUDA; elsewhere it makes strided nested tensors of them, which the device does not have.
Here the sequences are padded, and the padding is masked.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from torchtpu._late import when_imported


def let_in() -> None:
    when_imported("torch.nested._internal.ops", _extend)


def _extend(module: Any) -> None:
    others = module.jagged_scaled_dot_product_attention

    @functools.wraps(others)
    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        tensors = {"query": query, "key": key, "value": value}
        if attn_mask is not None or not all(map(_is_ours, tensors.values())):
            return others(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        for name, t in tensors.items():
            _check_form(name, t)
        _check_that_alike("key and value", key, value)
        if is_causal:
            _check_that_alike("query and key, with is_causal=True,", query, key)
        return _attention(query, key, value, dropout_p, is_causal, scale, enable_gqa)

    module.jagged_scaled_dot_product_attention = attention


def _is_ours(t: Any) -> bool:
    """Whether it is one of the device's. Where positions are not what differs, PyTorch attends to the values."""
    is_jagged = t.is_nested and t.layout == torch.jagged and t.device.type == "tpu"
    return is_jagged and not (t.dim() > 3 and t._ragged_idx == 1)


def _check_form(name: str, t: Any) -> None:
    if t.dim() != 4 or t._ragged_idx != 2 or t.lengths() is not None:
        apart = ", and something between its sequences" if t.lengths() is not None else ""
        raise RuntimeError(
            f"scaled_dot_product_attention: expected {name} to be [sequences, heads, positions, width] with nothing "
            f"between the sequences, but it has {t.dim()} dimensions, positions in dimension {t._ragged_idx}{apart}: "
            "split its heads (unflatten, transpose), or contiguous() it"
        )


def _check_that_alike(what: str, one: Any, other: Any) -> None:
    if one.size(2) != other.size(2) and not torch.equal(one.offsets(), other.offsets()):
        raise RuntimeError(f"scaled_dot_product_attention: expected {what} to have sequences of the same lengths")


def _attention(
    query: Any, key: Any, value: Any, dropout_p: float, is_causal: bool, scale: float | None, enable_gqa: bool
) -> Any:
    from torch.nested._internal.nested_tensor import nested_from_padded

    q, k, v = map(_padded, (query, key, value))
    mask = _within(key.offsets(), k.size(2))
    if is_causal:
        mask = mask & mask.new_ones(q.size(2), k.size(2)).tril()
    out = scaled_dot_product_attention(q, k, v, mask, dropout_p, scale=scale, enable_gqa=enable_gqa)
    rows, longest = query.transpose(1, 2).values().size(0), query._maybe_max_seqlen
    padded = out.transpose(1, 2)
    return nested_from_padded(padded, query.offsets(), 1, query._maybe_min_seqlen, longest, rows).transpose(1, 2)


def _padded(t: Any) -> Tensor:
    """``[sequences, heads, longest, width]``."""
    rows = t.transpose(1, 2)
    rows._get_max_seqlen()  # which is known from then on: else the padding would be as long as all sequences together
    padded: Tensor = torch.nested.to_padded_tensor(rows, 0.0)
    return padded.transpose(1, 2)


def _within(offsets: Tensor, length: int) -> Tensor:
    """Which of so many positions each sequence has, ``[sequences, 1, 1, positions]``."""
    return torch.arange(length, device=offsets.device) < offsets.diff()[:, None, None, None]
