"""Meshes and shardings as users write them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from torchtpu._errors import Error

#: For each dimension an axis, several (the coarsest first), or ``None``. Dimensions beyond the last are whole.
Spec = Sequence[str | Sequence[str] | None]
Mesh = Mapping[str, int]
#: Patterns over names, and what the tensors they match are split by; the first that matches decides.
Shard = Mapping[str, Spec | None]


def native_mesh(mesh: Mesh) -> list[tuple[str, int]]:
    """The axes in order.

    Raises:
        TypeError: a size is no integer.
    """
    for axis, size in mesh.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise TypeError(f"mesh axis {axis!r} has size {size!r}, not a number of devices")
    return list(mesh.items())


def native_shard(shard: Shard) -> list[tuple[str, list[list[str]]]]:
    """The rules in order, each dimension's axes as a list.

    Raises:
        TypeError: a spec is no sequence of axis names, tuples of them, and ``None``.
    """
    return [(pattern, _dims(pattern, spec)) for pattern, spec in shard.items()]


def _dims(pattern: str, spec: Any) -> list[list[str]]:
    if spec is None:
        return []
    if isinstance(spec, str) or not isinstance(spec, Sequence):
        raise TypeError(
            f'sharding {pattern!r} is {spec!r}, not a tuple with an entry per dimension, such as ("data", None)'
        )
    return [_axes(pattern, entry) for entry in spec]


def _axes(pattern: str, entry: Any) -> list[str]:
    if entry is None:
        return []
    axes = [entry] if isinstance(entry, str) else entry
    if not isinstance(axes, Sequence) or not all(isinstance(axis, str) for axis in axes):
        raise TypeError(f"sharding {pattern!r} holds {entry!r}, which is no axis, tuple of axes, or None")
    return list(axes)


def from_dtensors(
    model: nn.Module, inputs: Mapping[str, Tensor] | None = None
) -> tuple[dict[str, int], dict[str, Spec]]:
    """Mesh and shardings of a model whose parameters are ``DTensor``, as :func:`distribute_tensor`,
    ``parallelize_module`` and ``fully_shard`` make them; and of ``inputs`` that are.

    A mesh dimension without a name is called ``mesh_0``, ``mesh_1`` and so on.

    Raises:
        Error: no tensor is a ``DTensor``; they are on different meshes; a placement is ``Partial``, or splits a
            dimension in an order or a way that a sharding cannot say.
    """
    from torch.distributed.tensor import DTensor

    named = {**dict(model.named_parameters()), **dict(model.named_buffers()), **(inputs or {})}
    placed = {name: t for name, t in named.items() if isinstance(t, DTensor)}
    if not placed:
        raise Error("no parameter, buffer or input is a DTensor: give mesh and shard")
    roots = {name: _root(t.device_mesh) for name, t in placed.items()}
    first, mesh = next(iter(roots.items()))
    for name, root in roots.items():
        if root != mesh:
            raise Error(f"`{first}` is on {mesh}, but `{name}` on {root}: a program runs on one mesh")
    if mesh.mesh.flatten().tolist() != list(range(mesh.size())):
        raise Error(f"{mesh} does not count its ranks from 0 in row-major order, as the devices of a slice are")
    axes = dict(zip(_names(mesh), mesh.shape, strict=True))
    return axes, {name: _placed(name, t, axes) for name, t in placed.items()}


def _root(mesh: Any) -> Any:
    """The mesh that ``mesh`` was sliced from: along its other axes, devices hold the same."""
    return mesh._get_root_mesh()


def _names(mesh: Any) -> Sequence[str]:
    return mesh.mesh_dim_names or tuple(f"mesh_{i}" for i in range(mesh.ndim))


def _placed(name: str, tensor: Any, sizes: Mapping[str, int]) -> Spec:
    """The axes that split each dimension. Of two that split one, the mesh's earlier is the coarser, unless its
    placement is strided: `fully_shard` splits further what a later axis has split already."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    dims: list[list[str]] = [[] for _ in tensor.shape]
    for axis, placement in reversed(list(zip(_names(tensor.device_mesh), tensor.placements, strict=True))):
        if type(placement) is Shard:
            dims[placement.dim].insert(0, axis)
        elif type(placement) is _StridedShard and placement.split_factor == _parts(dims[placement.dim], sizes):
            dims[placement.dim].append(axis)
        elif not isinstance(placement, Replicate):
            raise Error(f"`{name}` is placed as {placement} along `{axis}`, which no sharding of an input says")
    return tuple(tuple(split) if len(split) > 1 else (split[0] if split else None) for split in dims)


def _parts(axes: Sequence[str], sizes: Mapping[str, int]) -> int:
    return math.prod(sizes[axis] for axis in axes)
