"""What is done to a module of PyTorch's once somebody imports it: it is large, and few programs use it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def when_imported(name: str, extend: Callable[[ModuleType], None]) -> None:
    """Calls ``extend`` with the module ``name``: now if it is there, else as soon as it is."""
    if module := sys.modules.get(name):
        extend(module)
    else:
        sys.meta_path.insert(0, _Extends(name, extend))


class _Extends(MetaPathFinder):
    """Stays until the module is there: specs are looked for by those, too, who load nothing."""

    def __init__(self, name: str, extend: Callable[[ModuleType], None]) -> None:
        self._name, self._extend = name, extend
        self._asks_others = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name or self._asks_others:
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
                self._extend(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
