"""Lets ``flex_attention`` take tensors on ``"tpu"``: PyTorch has a list of the devices that it lets in."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey

from torchtpu._late import when_imported

AUTOCAST: Any = DispatchKey.__members__["AutocastPrivateUse1"]


def let_in() -> None:
    when_imported("torch.nn.attention.flex_attention", _extend)


def _extend(module: Any) -> None:
    check = module._validate_device

    def _validate_device(query: Any, key: Any, value: Any) -> None:
        if query.device.type != "tpu":
            check(query, key, value)

    module._validate_device = _validate_device
    op = module.flex_attention_hop
    if AUTOCAST not in op.py_kernels:
        op.py_impl(AUTOCAST)(functools.partial(_autocast, op))


def _autocast(op: Any, query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> Any:
    """As PyTorch has it for its own devices: queries, keys and values are cast."""
    dtype = torch.get_autocast_dtype("tpu")
    query, key, value = (t.to(dtype) if t.dtype != torch.float64 else t for t in (query, key, value))
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(AUTOCAST)):
        return op(query, key, value, *rest)
