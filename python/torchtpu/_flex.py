"""Lets ``flex_attention`` take tensors on ``"tpu"``: PyTorch has a list of the devices that it lets in."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey

MODULE = "torch.nn.attention.flex_attention"
AUTOCAST: Any = DispatchKey.__members__["AutocastPrivateUse1"]


def let_in() -> None:
    """Called before the module is imported, as a rule: it is large, and few programs use it."""
    if module := sys.modules.get(MODULE):
        _extend(module)
    else:
        sys.meta_path.insert(0, _Extends())


class _Extends(MetaPathFinder):
    """Stays until the module is there: specs are looked for by those, too, who load nothing."""

    def __init__(self) -> None:
        self._asks_others = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != MODULE or self._asks_others:
            return None
        self._asks_others = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asks_others = False
        if spec and spec.loader:
            run: Callable[[ModuleType], None] = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                _extend(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


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
