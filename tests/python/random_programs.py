"""Random well-typed programs over the op table.

Steps are samples of the table whose tensors are replaced by values the program has: of the same type, or made so by
glue (casts, reshapes, slices, broadcasts); by values of other shapes, where PyTorch takes them; or by new inputs. What
PyTorch refuses is not taken, nor what no two implementations would agree on; see `programs.Runs` and `program_rules`.
"""

from __future__ import annotations

import collections
import functools
import math
import random
from typing import Any

import program_rules as rules
import test_samples as samples
import torch
from programs import DTYPES, Input, Program, Ref, Rejected, Runs, Step, copy, fits, leaves, made
from torch import Tensor
from torch._ops import OpOverload

aten = torch.ops.aten
MOST_STEPS = 60
MOST_ELEMENTS = 2048
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


class Op:
    """An op of the table, with the samples that show how it is called."""

    def __init__(self, name: str, rows: list[dict[str, Any]]) -> None:
        self.name = name
        self.rows = [row for row in rows if "results" in row]
        self.functional = overload(name)
        namespace = name.split("::")[0]
        variants = [v if "." in v else f"{v}.default" for v in rows[0]["variants"]]
        self.overloads = [self.functional, *(overload(f"{namespace}::{v}") for v in variants)]
        base = rules.base_name(name)
        self.public = not base.startswith(rules.TRUSTING) and "backward" not in base
        self.together = any(part in name for part in rules.BELONG_TOGETHER)
        # Gradients come first, then what was computed before, which belongs together too.
        tensors = sum("Tensor" in str(argument.type) for argument in self.functional._schema.arguments)
        self.saves = "backward" in base and tensors > 2
        self.left_out = self._reason(rows)

    def _reason(self, rows: list[dict[str, Any]]) -> str | None:
        for part, reason in rules.LEFT_OUT.items():
            if self.name.startswith(part):
                return reason
        if rows[0]["bounded"]:
            return "its results are as large as the data says, where a graph is cut"
        if not self.rows:
            return "it has no samples that work"
        if any("number" in row["results"] for row in self.rows):
            return "gives a number"
        if any(row["results"].get("random") for row in self.rows):
            return "draws random numbers"
        return None


def overload(name: str) -> OpOverload:
    namespace, rest = name.split("::")
    base, which = rest.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), base), which)


@functools.cache
def table() -> list[Op]:
    by_name: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for row in samples.samples(False):
        by_name[row["op"]].append(row)
    return [Op(name, rows) for name, rows in by_name.items()]


class Generator:
    """Makes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.program = Program(exact=self.random.random() < 0.5)
        self.runs = Runs(self.program.exact)
        # Whether inputs hold NaN, infinities and -0.
        self.special = self.random.random() < 0.2
        self.live: list[Ref] = []
        # Values that nothing is computed from.
        self.ends: list[Ref] = []
        self.rejected: collections.Counter[tuple[str, str]] = collections.Counter()

    def make(self) -> Program:
        ops = [op for op in table() if op.left_out is None]
        length = 1 + int((MOST_STEPS - 1) * self.random.random() ** 4)
        for _ in range(4 * length):
            if self.program.steps() >= length:
                break
            if self.live and self.random.random() < 0.25:
                self.attempt("glue", self.glue)
            else:
                op = self.random.choice(ops)
                self.attempt(op.name, lambda op=op: self.sample(op))
        self._finish()
        return self.program

    def attempt(self, name: str, take: Any) -> None:
        try:
            take()
        except Rejected as error:
            self.rejected[name, str(error).split("\n")[0]] += 1

    def _finish(self) -> None:
        """The outputs: what nothing uses, and some of the rest. Inputs that nothing uses are dropped."""
        used = {ref for node in self.program.nodes if isinstance(node, Step) for ref in node.refs()}
        made = [ref for ref in [*self.live, *self.ends] if isinstance(self.program.nodes[ref.node], Step)]
        self.program.outputs = [ref for ref in made if ref not in used or self.random.random() < 0.2]
        nodes = {ref.node for ref in used} | {ref.node for ref in self.program.outputs}
        idle = {i for i, _ in self.program.inputs() if i not in nodes}
        self.program = self.program.without(idle)

    # What the program gets.

    def input(self, x: Tensor) -> Ref:
        if x.numel() > MOST_ELEMENTS:
            raise Rejected("it is large")
        self.program.nodes.append(Input(x))
        self.runs.input(x)
        self.live.append(Ref(len(self.program.nodes) - 1))
        return self.live[-1]

    def step(self, op: OpOverload, *args: Any, **kwargs: Any) -> Ref:
        """Takes a step; the first tensor that comes of it."""
        if self.program.steps() >= MOST_STEPS:
            raise Rejected("the program is long enough")
        step = Step(op, args, kwargs)
        if len(op._schema.returns) > 1 and any(isinstance(r.type, torch.ListType) for r in op._schema.returns):
            raise Rejected("a trace holds no lists among several results")
        rules.check(step, self.runs)
        self.runs.step(step)
        self.program.nodes.append(step)
        node = len(self.program.nodes) - 1
        result = self.runs.lanes[0][node]
        refs = [Ref(node)] if isinstance(result, Tensor) else []
        if isinstance(result, (list, tuple)):
            refs = [Ref(node, i) for i, part in enumerate(result) if isinstance(part, Tensor)]
        if any(self.runs.get(ref).numel() > MOST_ELEMENTS for ref in refs):
            refs = [ref for ref in refs if self.runs.get(ref).numel() <= MOST_ELEMENTS]
        if not refs:
            return Ref(node)
        (self.ends if self.is_end(step, refs) else self.live).extend(refs)
        return refs[0]

    def is_end(self, step: Step, results: list[Ref]) -> bool:
        """Whether nothing should be computed from the results.

        They may be constants, with which XLA's CPU plugin computes wrongly: it folds masks over transposed ones, clamps
        NaN to a number, and `exp` of a NaN that it knows is whatever was in memory.
        """
        operands = [self.tensor(ref) for ref in step.refs()]
        new_nan = any(self.tensor(ref).isnan().any() for ref in results) and not any(x.isnan().any() for x in operands)
        return new_nan or any(x.numel() == 0 for x in operands)

    def tensor(self, ref: Ref) -> Tensor:
        return self.runs.get(ref)

    def some(self, dtype: torch.dtype | None = None) -> Ref:
        """A value, rather a late one."""
        found = [ref for ref in self.live if dtype is None or self.tensor(ref).dtype == dtype]
        if not found:
            raise Rejected("there is no such value yet")
        return found[int(len(found) * self.random.random() ** 0.5)]

    # Samples.

    def sample(self, op: Op) -> None:
        row = self.random.choice(op.rows)
        called = self.random.choice(op.overloads) if self.random.random() < 0.4 else op.functional
        if torch.Tag.inplace_view in called.tags:
            called = op.functional
        given = {argument["name"]: argument["value"] for argument in row["args"]}
        flexible = op.public and self.random.random() < 0.4
        values: dict[str, Any] = {}
        for i, (name, spec) in enumerate(given.items()):
            own = op.together or (op.saves and i > 0)
            values[name] = self.literally(spec) if own else self.argument(spec, flexible and name not in rules.CODES)
        args, kwargs = [], {}
        for argument in op.functional._schema.arguments:
            if argument.name not in values:
                continue
            if argument.kwarg_only or len(args) < op.functional._schema.arguments.index(argument):
                kwargs[argument.name] = values[argument.name]
            else:
                args.append(values[argument.name])
        kwargs |= self.out_arguments(op, called, args, kwargs)
        self.step(called, *args, **kwargs)

    def out_arguments(self, op: Op, called: OpOverload, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Ref]:
        """What the call writes its results to: values of their types."""
        names = [argument.name for argument in called._schema.arguments if argument.is_out]
        if not names:
            return {}
        if op.functional._schema.is_mutable:
            raise Rejected("it writes to more than its results")
        given, named = Step(op.functional, tuple(args), kwargs).mapped(self.tensor)
        try:
            result = op.functional(*given, **named)
        except Exception as error:
            raise Rejected(f"PyTorch: {error}") from None
        results = list(leaves(result, Tensor))
        if len(results) != len(names):
            raise Rejected("its results are no tensors")
        outs: dict[str, Ref] = {}
        for name, x in zip(names, results):
            same = [ref for ref in self.live if self.is_like(ref, x.dtype, x.shape) and ref not in outs.values()]
            fresh = not same or self.random.random() < 0.5
            outs[name] = self.input(self.data(x.dtype, list(x.shape))) if fresh else self.random.choice(same)
        if any(rules.overlaps(self.tensor(ref)) for ref in outs.values()):
            raise Rejected("kernels write as many elements as there are, past the end of a place that holds fewer")
        self.check_out(called, (given, named), results, outs)
        return outs

    def check_out(
        self, called: OpOverload, given: tuple[list[Any], dict[str, Any]], results: list[Tensor], outs: dict[str, Ref]
    ) -> None:
        """Rejects an overload that writes something else to these tensors than the one without `out=` gives.

        Many of PyTorch's kernels write to `out` as if its elements lay one behind the other.
        """
        args, kwargs = given
        written = {name: copy(self.tensor(ref)) for name, ref in outs.items()}
        try:
            called(*args, **kwargs, **written)
        except Exception as error:
            raise Rejected(f"PyTorch: {error}") from None
        for x, y in zip(results, written.values()):
            fits(x, y)

    def is_like(self, ref: Ref, dtype: torch.dtype, shape: Any) -> bool:
        x = self.tensor(ref)
        return x.dtype == dtype and list(x.shape) == list(shape)

    def literally(self, spec: dict[str, Any] | None) -> Any:
        """An argument with the sample's own data."""
        if spec is not None and "tensor" in spec:
            return self.input(samples.tensor(spec["tensor"]))
        if spec is not None and "list" in spec:
            return [self.literally(item) for item in spec["list"]]
        return samples.value(spec)

    def argument(self, spec: dict[str, Any] | None, flexible: bool) -> Any:
        if spec is None:
            return None
        ((kind, given),) = spec.items()
        if kind == "tensor":
            return self.operand(given, flexible)
        if kind == "list":
            return [self.argument(item, flexible) for item in given]
        value = samples.value(spec)
        if flexible and self.random.random() < 0.15:
            if kind == "int":
                return self.random.choice([value - 1, value + 1, -1, 0, 1, 2])
            if kind == "float":
                return self.random.choice([value, -value, 0.5 * value, 1.0, 2.5])
        return value

    def operand(self, spec: dict[str, Any], flexible: bool) -> Ref:
        """A value for a tensor of a sample."""
        dtype, shape = DTYPES[spec["dtype"]], spec["shape"]
        chance = self.random.random()
        if flexible and spec["any"] and chance < 0.4 and self.live:
            return self.some(None if self.random.random() < 0.3 else dtype)
        if chance < 0.8 and (found := self.existing(spec, dtype, shape)) is not None:
            return found
        return self.input(self.fresh(spec, dtype, shape))

    def existing(self, spec: dict[str, Any], dtype: torch.dtype, shape: list[int]) -> Ref | None:
        same = [ref for ref in self.live if self.is_like(ref, dtype, shape)]
        if same and (within := [ref for ref in same if self.allowed(ref, spec)]):
            return self.random.choice(within)
        if not self.live or (dtype.itemsize == 1 and dtype.is_floating_point):
            return None
        try:
            ref = self.random.choice(same) if same else self.shaped(self.cast(self.some(), dtype), shape)
            return ref if self.allowed(ref, spec) else self.clamped(ref, spec)
        except Rejected:
            return None

    def allowed(self, ref: Ref, spec: dict[str, Any]) -> bool:
        """Whether the value lies where the sample's does; anything goes for an op that takes any values."""
        x, like = self.tensor(ref), samples.tensor(spec)
        if spec["any"] or x.numel() == 0:
            return True
        if x.is_complex() or x.dtype == torch.bool or like.numel() == 0:
            return False
        x, like = x.double(), like.double().nan_to_num(0)
        return bool((x >= like.min()).all() and (x <= like.max()).all())

    def clamped(self, ref: Ref, spec: dict[str, Any]) -> Ref:
        like = samples.tensor(spec)
        if like.numel() == 0 or like.is_complex() or like.dtype == torch.bool:
            raise Rejected("it has no least value")
        low, high = like.min().item(), like.max().item()
        if not (math.isfinite(low) and math.isfinite(high)):
            raise Rejected("it has no least value")
        ref = self.step(aten.clamp.default, ref, low, high)
        if not self.allowed(ref, spec):
            raise Rejected("it is NaN")
        return ref

    def cast(self, ref: Ref, dtype: torch.dtype) -> Ref:
        x = self.tensor(ref)
        if x.dtype == dtype:
            return ref
        if x.element_size() == 1 and x.is_floating_point():
            raise Rejected("8-bit floats are converted by samples only")
        if dtype == torch.bool:
            return self.step(aten.ne.Scalar, ref, 0)
        if x.is_complex() and not dtype.is_complex:
            ref = self.step(aten.view_as_real.default, self.step(aten.resolve_conj.default, ref))
            ref = self.step(aten.select.int, ref, -1, 0)
        return self.step(aten._to_copy.default, ref, dtype=dtype)

    def shaped(self, ref: Ref, shape: list[int]) -> Ref:
        """The value, or some of its elements, in this shape."""
        size, x = math.prod(shape), self.tensor(ref)
        if list(x.shape) == shape:
            return ref
        if x.numel() == 0 and size > 0:
            raise Rejected("it is empty")
        if x.numel() == 1 or self.expands(x, shape):
            ref = ref if x.dim() <= len(shape) else self.step(aten.reshape.default, ref, [])
            return self.step(aten.expand.default, ref, list(shape))
        if x.numel() < size:
            times = -(-size // x.numel())
            ref = self.step(aten.cat.default, [self.step(aten.reshape.default, ref, [-1])] * times)
        elif list(self.tensor(ref).shape) != [x.numel()]:
            ref = self.step(aten.reshape.default, ref, [x.numel()])
        if self.tensor(ref).numel() != size:
            ref = self.step(aten.slice.Tensor, ref, 0, 0, size)
        return self.step(aten.reshape.default, ref, list(shape))

    def expands(self, x: Tensor, shape: list[int]) -> bool:
        try:
            return list(torch.broadcast_shapes(x.shape, shape)) == shape
        except RuntimeError:
            return False

    def fresh(self, spec: dict[str, Any], dtype: torch.dtype, shape: list[int]) -> Tensor:
        """Data like the sample's."""
        if not spec["any"] or (dtype.itemsize == 1 and dtype.is_floating_point):
            return samples.tensor(spec)
        dense = self.data(dtype, shape)
        return torch.empty_strided(shape, spec["strides"], dtype=dtype).copy_(dense)

    def data(self, dtype: torch.dtype, shape: list[int]) -> Tensor:
        return made(dtype, shape, [self.number(dtype) for _ in range(math.prod(shape))])

    def number(self, dtype: torch.dtype) -> Any:
        pick = self.random
        if dtype == torch.bool:
            return pick.random() < 0.5
        if dtype.is_complex:
            return complex(round(pick.uniform(-2, 2), 3), round(pick.uniform(-2, 2), 3))
        if not dtype.is_floating_point:
            return pick.randrange(16) if not dtype.is_signed else pick.randrange(-8, 8)
        if self.special and pick.random() < 0.15:
            return pick.choice([math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0])
        return 0.0 if pick.random() < 0.05 else round(pick.uniform(-3, 3), 3)

    # Glue.

    def glue(self) -> None:
        """A step that joins values of any types: so shapes and types come about that no sample has."""
        pick, ref = self.random, self.some()
        x = self.tensor(ref)
        kinds = [self.cast_any, self.broadcast, self.choose, self.reshape, self.join]
        if x.dim() > 0:
            kinds += [self.reorder, self.part, self.write]
        pick.choice(kinds)(ref)

    def cast_any(self, ref: Ref) -> None:
        if self.tensor(ref).is_complex():
            raise Rejected("complex numbers stay so")
        self.cast(ref, self.random.choice([*FLOATS, *FLOATS, *INTEGERS, torch.bool]))

    def broadcast(self, ref: Ref) -> None:
        self.step(self.random.choice([aten.add.Tensor, aten.mul.Tensor, aten.sub.Tensor, aten.maximum.default,
                                      aten.lt.Tensor, aten.eq.Tensor, aten.div.Tensor]), ref, self.some())  # fmt: skip

    def choose(self, ref: Ref) -> None:
        self.step(aten.where.self, self.some(torch.bool), ref, self.some())

    def reshape(self, ref: Ref) -> None:
        x = self.tensor(ref)
        dim = self.random.randint(0, x.dim())
        if self.random.random() < 0.5 or x.dim() == 0:
            self.step(aten.unsqueeze.default, ref, dim)
        else:
            self.step(aten.reshape.default, ref, self.random.choice([[-1], [x.shape[0], -1], [-1, x.shape[-1]]]))

    def join(self, ref: Ref) -> None:
        x = self.tensor(ref)
        if x.dim() == 0:
            raise Rejected("numbers are not joined")
        same = [
            other for other in self.live if self.tensor(other).shape[1:] == x.shape[1:] and self.tensor(other).dim()
        ]
        self.step(aten.cat.default, [ref, self.random.choice(same)])

    def reorder(self, ref: Ref) -> None:
        x = self.tensor(ref)
        self.step(aten.permute.default, ref, self.random.sample(range(x.dim()), x.dim()))

    def part(self, ref: Ref) -> None:
        pick, x = self.random, self.tensor(ref)
        dim = pick.randrange(x.dim())
        size = x.shape[dim]
        if size and pick.random() < 0.4:
            self.step(aten.select.int, ref, dim, pick.randrange(-size, size))
        else:
            start = pick.randint(0, size)
            self.step(aten.slice.Tensor, ref, dim, start, pick.randint(start, size), pick.choice([1, 1, 2, 3]))

    def write(self, ref: Ref) -> None:
        """A write through what may be a view."""
        pick = self.random
        if pick.random() < 0.3:
            self.step(aten.fill_.Scalar, ref, pick.randint(0, 3))
        else:
            self.step(pick.choice([aten.copy_.default, aten.add_.Tensor, aten.mul_.Tensor]), ref, self.some())
