"""Small programs of aten ops over tensors: their text, their graph, and what PyTorch computes for them.

A program is a list of lines. `v0 = f32([2, 3], [1.0, 2.0])` is an input (its values over and over if they are too few),
`v1 = aten.add.Tensor(v0, v0, alpha=2)` a step, `v2[0]` a part of a result, and `outputs(v1, v2[0])` the last line.
"""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from operator import getitem
from typing import Any

import torch
from test_samples import DTYPES
from torch import Size, Tensor, UntypedStorage, fx
from torch._ops import OpOverload

NAMES = {dtype: name for name, dtype in DTYPES.items()}
# Words of the text besides the element types.
WORDS = {
    "nan": math.nan,
    "inf": math.inf,
    "strided": torch.strided,
    "contiguous_format": torch.contiguous_format,
    "channels_last": torch.channels_last,
    "channels_last_3d": torch.channels_last_3d,
    "preserve_format": torch.preserve_format,
}


@dataclasses.dataclass(frozen=True)
class Ref:
    """The result of line `node`, or a part of it."""

    node: int
    part: int | None = None


@dataclasses.dataclass(frozen=True)
class Input:
    tensor: Tensor


@dataclasses.dataclass(frozen=True)
class Step:
    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def refs(self) -> Iterator[Ref]:
        yield from leaves((self.args, self.kwargs), Ref)

    def written(self, value: Callable[[Ref], Any]) -> Iterator[Tensor]:
        """The tensors that it writes to, where `value` gives what a value is."""
        args, kwargs = self.mapped(value)
        for i, argument in enumerate(self.op._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                given = args[i] if i < len(args) and not argument.kwarg_only else kwargs.get(argument.name)
                yield from leaves(given, Tensor)

    def mapped(self, change: Callable[[Ref], Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with `change` of each value."""
        return mapped(list(self.args), change), mapped(self.kwargs, change)


@dataclasses.dataclass
class Program:
    nodes: list[Input | Step] = dataclasses.field(default_factory=list)
    outputs: list[Ref] = dataclasses.field(default_factory=list)
    # Whether 16-bit floats are rounded wherever PyTorch rounds them.
    exact: bool = True

    def inputs(self) -> list[tuple[int, Tensor]]:
        return [(i, node.tensor) for i, node in enumerate(self.nodes) if isinstance(node, Input)]

    def steps(self) -> int:
        return sum(isinstance(node, Step) for node in self.nodes)

    def without(self, dropped: set[int]) -> Program:
        """The program without these nodes, which nothing uses."""
        places = {}
        for i in range(len(self.nodes)):
            if i not in dropped:
                places[i] = len(places)

        def move(ref: Ref) -> Ref:
            return Ref(places[ref.node], ref.part)

        nodes: list[Input | Step] = []
        for i, node in enumerate(self.nodes):
            if i in places:
                nodes.append(node if isinstance(node, Input) else Step(node.op, *moved(node.mapped(move))))
        return Program(nodes, [move(ref) for ref in self.outputs], self.exact)


def moved(arguments: tuple[list[Any], dict[str, Any]]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(arguments[0]), arguments[1]


def leaves(given: Any, kind: type) -> Iterator[Any]:
    """Everything of this type in nested lists, tuples and dictionaries."""
    if isinstance(given, kind):
        yield given
    elif isinstance(given, (list, tuple)):
        for item in given:
            yield from leaves(item, kind)
    elif isinstance(given, dict):
        yield from leaves(list(given.values()), kind)


def mapped(given: Any, change: Callable[[Ref], Any]) -> Any:
    if isinstance(given, Ref):
        return change(given)
    if isinstance(given, (list, tuple)):
        return [mapped(item, change) for item in given]
    if isinstance(given, dict):
        return {name: mapped(item, change) for name, item in given.items()}
    return given


def copy(x: Tensor) -> Tensor:
    """The same elements in the same places of a new storage."""
    with torch.no_grad():
        storage = x.untyped_storage().clone()
        return torch.empty(0, dtype=x.dtype).set_(storage, x.storage_offset(), x.shape, x.stride())


# Text.


def text(program: Program) -> str:
    lines = [] if program.exact else ["excess_precision()"]
    for i, node in enumerate(program.nodes):
        lines.append(f"v{i} = {spelled(node.tensor) if isinstance(node, Input) else spelled_step(node)}")
    lines.append(f"outputs({', '.join(map(word, program.outputs))})")
    return "\n".join(lines) + "\n"


def spelled_step(step: Step) -> str:
    parts = [*map(word, step.args), *(f"{name}={word(value)}" for name, value in step.kwargs.items())]
    return f"{step.op}({', '.join(parts)})"


def spelled(x: Tensor) -> str:
    values = x.to(torch.float32) if x.element_size() == 1 and x.is_floating_point() else x
    flat = values.reshape(-1).tolist()
    if len(flat) > 1 and len({repr(v) for v in flat}) == 1:
        flat = flat[:1]
    strides = "" if x.is_contiguous() else f", strides={list(x.stride())}"
    return f"{NAMES[x.dtype]}({list(x.shape)}, [{', '.join(map(word, flat))}]{strides})"


def word(value: Any) -> str:
    if isinstance(value, Ref):
        return f"v{value.node}" if value.part is None else f"v{value.node}[{value.part}]"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(word, value))}]"
    if isinstance(value, torch.dtype):
        return NAMES[value]
    if isinstance(value, torch.device):
        return f"device({value.type!r})"
    if isinstance(value, complex):
        return f"complex({word(value.real)}, {word(value.imag)})"
    for name, meant in WORDS.items():
        if value is meant:
            return name
    return repr(value)


def parse(source: str) -> Program:
    program = Program()
    for line in ast.parse(source).body:
        if isinstance(line, ast.Assign):
            assert isinstance(line.targets[0], ast.Name) and line.targets[0].id == f"v{len(program.nodes)}"
            program.nodes.append(read_line(line.value))
            continue
        assert isinstance(line, ast.Expr) and isinstance(line.value, ast.Call)
        match line.value.func:
            case ast.Name(id="excess_precision"):
                program.exact = False
            case ast.Name(id="outputs"):
                program.outputs = [read(arg) for arg in line.value.args]
    return program


def read_line(call: ast.expr) -> Input | Step:
    assert isinstance(call, ast.Call)
    args = [read(arg) for arg in call.args]
    kwargs = {k.arg: read(k.value) for k in call.keywords if k.arg}
    if isinstance(call.func, ast.Name):
        return Input(made(DTYPES[call.func.id], *args, **kwargs))
    op: Any = torch.ops
    for part in ast.unparse(call.func).split("."):
        op = getattr(op, part)
    return Step(op, tuple(args), kwargs)


def made(dtype: torch.dtype, shape: list[int], values: list[Any], strides: list[int] | None = None) -> Tensor:
    size = math.prod(shape)
    flat = (values * (size // max(len(values), 1) + 1))[:size]
    wide = torch.float32 if dtype.itemsize == 1 and dtype.is_floating_point else dtype
    dense = torch.tensor(flat, dtype=wide).to(dtype).reshape(shape)
    return dense if strides is None else torch.empty_strided(shape, strides, dtype=dtype).copy_(dense)


def read(value: ast.expr) -> Any:
    match value:
        case ast.Constant():
            return value.value
        case ast.List():
            return [read(item) for item in value.elts]
        case ast.UnaryOp(op=ast.USub()):
            return -read(value.operand)
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=part)):
            return Ref(int(name[1:]), part)
        case ast.Call(func=ast.Name(id="device")):
            return torch.device(read(value.args[0]))
        case ast.Call(func=ast.Name(id="complex")):
            return complex(*map(read, value.args))
        case ast.Name(id=name):
            return DTYPES[name] if name in DTYPES else WORDS[name] if name in WORDS else Ref(int(name[1:]))
    raise ValueError(f"{ast.unparse(value)} is no argument")


# PyTorch.

# What is taken for rounding: relative changes of everything that is computed, some times the size of real ones.
SHAKES = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
# How far results may come apart by that.
WIDEST = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.3}
# Greater numbers soon leave their type.
LARGEST = {torch.float64: 1e5, torch.float32: 1e5, torch.float16: 500.0, torch.bfloat16: 1e4}


# Ops, by a part of their name, whose results are free, or all rounding, for singular matrices or rows of equal numbers.
UNSTEADY = [
    "linalg", "qr", "cholesky", "lu_", "svd", "ldl", "triangular_solve", "lstsq", "inverse", "pinv", "eig", "det",
    "rank", "_norm",
]  # fmt: skip

# Ops, by a part of their name, that reckon by series or by turns: even what should come out plain, such as 0 or 1, may
# be a rounding beside it.
INEXACT = [
    "fft", "i0", "i1", "ndtr", "gamma", "bessel", "zeta", "erf", "gelu", "entr", "polynomial", "upsample", "grid_sampl",
]  # fmt: skip

# Ops that multiply elements, by a part of their name.
PRODUCTS = ["mul", "dropout_backward"]


def masks(name: str, operands: Iterable[Tensor]) -> bool:
    """Whether the op is a product with nothing but zeros and ones, of which XLA makes a choice."""
    return any(part in name for part in PRODUCTS) and any(bool(((x == 0) | (x == 1)).all()) for x in operands)


class Rejected(Exception):
    """A step that no program should take."""


class Runs:
    """A program in PyTorch step by step: as it is, and with what it computes disturbed as by roundings.

    Of the disturbed runs the first two are moved in opposite directions, so that what lies on an edge falls to both
    sides. Where the runs come apart, so will two correct implementations. A step after which they do so by much, or in
    an integer, or in what is finite, is rejected.
    """

    DISTURBED = 3

    def __init__(self, exact: bool = True) -> None:
        self.exact = exact
        self.lanes: list[list[Any]] = [[] for _ in range(1 + self.DISTURBED)]
        # What the results of each node looked like when they were made.
        self.metas: list[Any] = []
        self.steps = 0

    def input(self, x: Tensor) -> None:
        self.metas.append(x.detach())
        for k, lane in enumerate(self.lanes):
            lane.append(copy(x))
            self._disturb(k, lane[-1], self.lanes[0][-1], exact=True)

    def get(self, ref: Ref, lane: int = 0) -> Any:
        value = self.lanes[lane][ref.node]
        return value if ref.part is None else value[ref.part]

    def step(self, step: Step) -> None:
        """Takes `step` in every run, or leaves all as they were and says why."""
        saved = self._save(step)
        shapes = [x.shape for x in self._written(step, 0)]
        try:
            steady = self._steady(step)
            # Asked before the call, which may write to its operands.
            masked = masks(step.op.name(), list(leaves(self._arguments(step, 0), Tensor)))
            results = [self._call(step, k) for k in range(len(self.lanes))]
            if shapes != [x.shape for x in self._written(step, 0)]:
                raise Rejected("PyTorch resizes what it writes to")
            if any(writes_beside(x, *before) for x, *before in saved):
                raise Rejected("PyTorch writes beside what it is given")
            touched = [list(leaves((result, self._written(step, k)), Tensor)) for k, result in enumerate(results)]
            base = touched[0]
            if "_ex" in step.op.name() and any(x.dtype == torch.int32 and x.any() for x in base):
                raise Rejected("the factorisation fails half-way")
            for x, y in zip(base, steady):
                fits(x, y)
            for k in range(1, len(touched)):
                for i, (x, y) in enumerate(zip(base, touched[k], strict=True)):
                    fits(x, y, strict=i < len(base))
            exact = not any(part in step.op.name() for part in INEXACT)
            for k in range(1, len(touched)):
                for i in self._fresh(step, k, touched[k]):
                    self._disturb(k, touched[k][i], base[i], exact)
                    if masked:
                        take_signs_of_zeros(touched[k][i])
        except Exception as error:
            for x, storage, *layout in saved:
                x.untyped_storage().resize_(storage.nbytes()).copy_(storage)
                x.as_strided_(*layout)
            raise error if isinstance(error, Rejected) else Rejected(f"PyTorch: {error}") from None
        self.steps += 1
        self.metas.append(detached(results[0]))
        for lane, result in zip(self.lanes, results):
            lane.append(result)

    def _steady(self, step: Step) -> list[Tensor]:
        """What a factorisation or a norm gives where whole numbers are disturbed too: much the same, or it is free."""
        if not any(part in step.op.name() for part in UNSTEADY):
            return []
        args, kwargs = step.mapped(lambda ref: shaken(self.get(ref)))
        return list(leaves(step.op(*args, **kwargs), Tensor))

    def _arguments(self, step: Step, lane: int) -> tuple[list[Any], dict[str, Any]]:
        return step.mapped(lambda ref: self.get(ref, lane))

    def _call(self, step: Step, lane: int) -> Any:
        args, kwargs = self._arguments(step, lane)
        return step.op(*args, **kwargs)

    def _written(self, step: Step, lane: int) -> list[Tensor]:
        return list(step.written(lambda ref: self.get(ref, lane)))

    def _save(self, step: Step) -> list[tuple[Any, ...]]:
        """What `step` writes to, with the storage and the layout that it has before."""
        written = [x for k in range(len(self.lanes)) for x in self._written(step, k)]
        return [(x, x.untyped_storage().clone(), x.shape, x.stride(), x.storage_offset()) for x in written]

    def _fresh(self, step: Step, lane: int, touched: list[Tensor]) -> list[int]:
        """Which of `touched` hold new numbers: those written, and those in storages of their own."""
        arguments = {x.untyped_storage().data_ptr() for x in leaves(self._arguments(step, lane), Tensor)}
        written = {id(x) for x in self._written(step, lane)}
        seen: set[int] = set()
        places = []
        for i, x in enumerate(touched):
            storage = x.untyped_storage().data_ptr()
            if storage not in seen and (id(x) in written or storage not in arguments):
                seen.add(storage)
                places.append(i)
        return places

    def _disturb(self, lane: int, x: Tensor, base: Tensor, exact: bool) -> None:
        """`exact`: plain numbers stay as they are."""
        if lane == 0 or x.numel() == 0 or x.is_conj() or x.is_neg():
            return
        if x.is_complex():
            x, base = torch.view_as_real(x), torch.view_as_real(base)
        shake = SHAKES.get(x.dtype)
        if shake is None or any(size > 1 and stride == 0 for size, stride in zip(x.shape, x.stride())):
            return
        wide, turn = x.double(), 1 if lane % 2 else -1
        # Sums err by the size of what they add up, which may be gone from the result.
        size = wide.abs() + 0.1 * wide.nan_to_num(0, 0, 0).abs().max()
        kept = (self._plain(wide, x.dtype) & (wide == base.double()) & exact) | ~wide.isfinite()
        x.copy_(
            torch.where(kept, wide, wide + turn * shake * size * noise(wide, (lane + 1) // 2 * 1000003 + self.steps))
        )

    def _plain(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Numbers that come out exactly if they come out at all: with few digits, as far as the type has more."""
        if dtype in (torch.float16, torch.bfloat16):
            return (x == 0) | (x.abs() == 1) if not self.exact else (x.abs() <= 8) & (x == x.round())
        return (x.abs() < 1024) & (x * 16 == (x * 16).round())


def take_signs_of_zeros(x: Tensor) -> None:
    """Makes every zero positive: a choice gives such where the product with a mask is -0."""
    if (x.is_floating_point() or x.is_complex()) and x.element_size() > 1 and not (x.is_conj() or x.is_neg()):
        parts = torch.view_as_real(x) if x.is_complex() else x
        parts.masked_fill_(parts == 0, 0)


def writes_beside(x: Tensor, storage: UntypedStorage, shape: Size, stride: tuple[int, ...], offset: int) -> bool:
    """Whether `x`, which had this layout in `storage`, has changed what else lies there."""
    before, after = (torch.empty(0, dtype=x.dtype).set_(s) for s in (storage, x.untyped_storage()))
    elsewhere = torch.ones(len(before), dtype=torch.bool)
    elsewhere.as_strided(shape, stride, offset).fill_(False)
    before, after = before[elsewhere], after[: len(before)][elsewhere]
    return not torch.equal(before.view(torch.uint8), after.view(torch.uint8))


def shaken(x: Tensor) -> Tensor:
    """`x` with every element disturbed."""
    real = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    if real.dtype not in SHAKES:
        return copy(x)
    wide = real.double()
    moved = (wide + 4 * SHAKES[real.dtype] * noise(wide + torch.arange(wide.numel()).reshape(wide.shape), 1)).to(
        real.dtype
    )
    return torch.view_as_complex(moved) if x.is_complex() else moved


def noise(x: Tensor, key: int) -> Tensor:
    """Numbers from 0.5 to 1, of either sign, that look random: the same for equal elements, which so stay equal."""
    h = x.contiguous().view(torch.int64) * 6364136223846793005 + key * 1442695040888963407 % 2**62
    h = (h ^ (h >> 31)) * 2862933555777941757
    size = 0.5 + ((h >> 33) & 0xFFFFF).double() / 2**21
    return torch.where((h >> 55) % 2 == 0, size, -size)


def detached(result: Any) -> Any:
    """`result` as it looks now: in-place views may change it."""
    if isinstance(result, Tensor):
        return result.detach()
    if isinstance(result, (list, tuple)):
        return [detached(part) for part in result]
    return result


def fits(x: Tensor, y: Tensor, strict: bool = True) -> None:
    """Rejects results of two runs that are too far apart, or no numbers to go on with."""
    if x.shape != y.shape or x.dtype != y.dtype:
        raise Rejected("its result has another type after a rounding")
    if x.is_complex():
        x, y = torch.view_as_real(x.resolve_conj()), torch.view_as_real(y.resolve_conj())
        if not x.isfinite().all():
            raise Rejected("a complex number is infinite")
    if x.dtype not in SHAKES:
        if x.is_floating_point():
            x, y = x.float(), y.float()
        if not torch.equal(
            x.nan_to_num() if x.is_floating_point() else x, y.nan_to_num() if y.is_floating_point() else y
        ):
            raise Rejected("its result jumps")
        return
    finite = x.isfinite()
    if not torch.equal(finite, y.isfinite()) or not torch.equal(x[~finite].nan_to_num(0), y[~finite].nan_to_num(0)):
        raise Rejected("a rounding decides whether its result is finite")
    a, b = x[finite].double(), y[finite].double()
    if (a.abs() > LARGEST[x.dtype]).any():
        raise Rejected("its result is large")
    if ((a != 0) & (a.abs() < torch.finfo(x.dtype).tiny)).any():
        raise Rejected("its result is subnormal, and XLA's CPU compiler takes that for 0")
    if ((a - b).abs() > WIDEST[x.dtype] * a.abs().clamp(min=1)).any():
        raise Rejected("it makes much of a rounding")


def run(program: Program) -> Runs:
    """The program in PyTorch.

    Raises:
        Rejected: a step that no program should take.
    """
    runs = Runs(program.exact)
    for node in program.nodes:
        if isinstance(node, Input):
            runs.input(node.tensor)
        else:
            runs.step(node)
    return runs


def graph(program: Program, metas: list[Any]) -> fx.GraphModule:
    """The program as an FX graph; its inputs in order."""
    g = fx.Graph()
    made: dict[int, fx.Node] = {}
    parts: dict[Ref, fx.Node] = {}
    for i, node in enumerate(program.nodes):
        if isinstance(node, Input):
            made[i] = g.placeholder(f"v{i}")
            made[i].meta["val"] = metas[i]

    def value(ref: Ref) -> fx.Node:
        if ref.part is None:
            return made[ref.node]
        if ref not in parts:
            with g.inserting_after(made[ref.node]):
                parts[ref] = g.call_function(getitem, (made[ref.node], ref.part))
            parts[ref].meta["val"] = metas[ref.node][ref.part]
        return parts[ref]

    for i, node in enumerate(program.nodes):
        if isinstance(node, Step):
            args, kwargs = node.mapped(value)
            made[i] = g.call_function(node.op, tuple(args), kwargs)
            made[i].meta["val"] = metas[i]
    g.output(tuple(value(ref) for ref in program.outputs))
    return fx.GraphModule({}, g)
