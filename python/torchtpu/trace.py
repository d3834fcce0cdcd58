"""Writes an FX graph of aten ops in the schema ``torch.export`` serialises to.

PyTorch's own serializer refuses AOTAutograd's graphs (their module stacks hold classes), and it writes an archive where
a compile wants bytes. The result is what ``models/model.json`` of a ``.pt2`` holds, so the same importer and the same
tools read both. Schema: ``torch/_export/serde/schema.py``.
"""

from __future__ import annotations

import functools
import json
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils import _pytree as pytree

SCHEMA_VERSION = {"major": 8, "minor": 20}

_DTYPES = {
    torch.uint8: 1, torch.int8: 2, torch.int16: 3, torch.int32: 4, torch.int64: 5, torch.float16: 6, torch.float32: 7,
    torch.float64: 8, torch.complex32: 9, torch.complex64: 10, torch.complex128: 11, torch.bool: 12, torch.bfloat16: 13,
    torch.uint16: 28, torch.float8_e4m3fn: 29, torch.float8_e5m2: 30, torch.float8_e4m3fnuz: 31,
    torch.float8_e5m2fnuz: 32, torch.float8_e8m0fnu: 33, torch.uint32: 34, torch.uint64: 35,
}  # fmt: skip
_LAYOUTS = {torch.sparse_coo: 1, torch.sparse_csr: 2, torch.sparse_csc: 3, torch.strided: 7}
_MEMORY_FORMATS = {
    torch.contiguous_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
    torch.preserve_format: 4,
}


class UnsupportedValue(TypeError):
    """A value in the graph that the export schema has no spelling for."""


class Walked:
    """A graph in the export schema, and the tensors lifted out of its module, by their names in it, which extend the
    inputs in this order."""

    def __init__(self, program: dict[str, Any], constants: dict[str, torch.Tensor]) -> None:
        self.program = program
        self.constants = constants

    def to_bytes(self) -> bytes:
        return json.dumps(self.program, allow_nan=False, separators=(",", ":")).encode()


def walk(gm: fx.GraphModule, static_inputs: Iterable[int] = ()) -> Walked:
    """Serialises ``gm``. The inputs at the positions ``static_inputs`` are marked as parameters; those whose nodes have
    ``qualified`` in their ``meta``, a pair of ``"parameter"``, ``"buffer"`` or ``"tensor_constant"`` and a qualified
    name, as these.

    Raises:
        UnsupportedValue: the graph holds an argument of a type the schema does not know.
    """
    walker = _Walker(gm, frozenset(static_inputs))
    graph = walker.graph()
    program = {
        "graph_module": {
            "graph": graph,
            "signature": walker.signature,
            "module_call_graph": [],
            "metadata": {},
            "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": 10},
        "range_constraints": {},
        "schema_version": SCHEMA_VERSION,
        "verifiers": [],
        "torch_version": torch.__version__,
        "guards_code": [],
    }
    return Walked(program, walker.constants)


def compound_inputs(gm: fx.GraphModule) -> dict[sympy.Basic, sympy.Basic]:
    """Inputs that are expressions, such as the length of what an earlier part made: what they are called instead, a
    symbol, or of a truth value whether one is not 0.

    Nothing could be solved for the symbols in them. Of an extent that is only so if no input gives its symbols.
    """
    numbers, extents = dict[str, sympy.Basic](), dict[str, sympy.Basic]()
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if node.op != "placeholder":
            continue
        if isinstance(value, (torch.SymInt, torch.SymBool)):
            numbers[f"{node.name}_value"] = value.node.expr
        elif isinstance(value, torch.Tensor):
            for i, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    extents[f"{node.name}_size_{i}"] = size.node.expr
    given = {expr for expr in (*numbers.values(), *extents.values()) if expr.is_symbol}
    compound = {**numbers, **{name: expr for name, expr in extents.items() if not expr.free_symbols <= given}}
    names: dict[sympy.Basic, sympy.Basic] = {}
    for name, expr in compound.items():
        if expr.free_symbols and not expr.is_symbol:
            symbol = sympy.Symbol(name, integer=True)
            names.setdefault(expr, sympy.Ne(symbol, 0) if isinstance(expr, sympy.logic.boolalg.Boolean) else symbol)
    return names


class _Walker:
    def __init__(self, gm: fx.GraphModule, static: frozenset[int] = frozenset()) -> None:
        self.gm = gm
        self.renamed = compound_inputs(gm)
        self.static = static
        self.constants: dict[str, torch.Tensor] = {}
        self.inputs: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.values: dict[str, dict[str, Any]] = {"tensor": {}, "sym_int": {}, "sym_float": {}, "sym_bool": {}}
        self.arguments: dict[fx.Node, dict[str, Any]] = {}
        self.lifted: dict[str, fx.Node] = {}
        self.signature: dict[str, Any] = {"input_specs": [], "output_specs": []}

    def graph(self) -> dict[str, Any]:
        outputs: list[dict[str, Any]] = []
        single = False
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "get_attr":
                self._get_attr(node)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                single = isinstance(node.args[0], fx.Node)
                outputs = [self._argument(value) for value in ([node.args[0]] if single else node.args[0])]
            else:
                raise UnsupportedValue(f"{node.op} {node.target} is no aten op")
        for target, node in self.lifted.items():
            self.inputs.append(self.arguments[node])
            spec = {"arg": {"name": node.name}, "tensor_constant_name": target}
            self.signature["input_specs"].append({"tensor_constant": spec})
        self.signature["output_specs"] = [{"user_output": {"arg": arg}} for arg in outputs]
        return {
            "inputs": self.inputs,
            "outputs": outputs,
            "nodes": self.nodes,
            "is_single_tensor_return": single,
            "custom_obj_values": {},
            **{f"{kind}_values": values for kind, values in self.values.items()},
        }

    # Values.

    def _define(self, node: fx.Node, value: Any) -> dict[str, Any]:
        """Records the type of ``node`` and gives the argument that names it."""
        self.arguments[node] = self._typed(node.name, value)
        return self.arguments[node]

    def _typed(self, name: str, value: Any) -> dict[str, Any]:
        if value is None:
            return {"as_none": True}
        if isinstance(value, torch.Tensor):
            self.values["tensor"][name] = self._tensor_meta(value)
            return {"as_tensor": {"name": name}}
        for types, kind, plain in _SYMBOLIC:
            if isinstance(value, types):
                self.values[kind][name] = self._sym(value, plain)
                return {f"as_{kind}": {"as_name": name}}
        raise UnsupportedValue(f"`{name}` is a {type(value).__name__}")

    def _sym(self, value: Any, plain: str) -> dict[str, Any]:
        if isinstance(value, float):
            return {plain: _spell_float(value)}
        if isinstance(value, (bool, int)):
            return {plain: value}
        expr = value.node.expr.xreplace(self.renamed) if self.renamed else value.node.expr
        if expr.is_number or expr in (sympy.true, sympy.false):
            return {plain: {"as_int": int, "as_float": float, "as_bool": bool}[plain](expr)}
        return {"as_expr": {"expr_str": _srepr(expr), "hint": None}}

    def _tensor_meta(self, tensor: torch.Tensor) -> dict[str, Any]:
        strided = tensor.layout == torch.strided
        return {
            "dtype": _DTYPES.get(tensor.dtype, 0),
            "sizes": [self._sym(size, "as_int") for size in tensor.shape],
            "requires_grad": tensor.requires_grad,
            "device": {"type": tensor.device.type, "index": tensor.device.index},
            "strides": [self._sym(stride, "as_int") for stride in tensor.stride()] if strided else [],
            "storage_offset": self._sym(tensor.storage_offset(), "as_int") if strided else {"as_int": 0},
            "layout": _LAYOUTS.get(tensor.layout, 0),
        }

    def _placeholder(self, node: fx.Node) -> None:
        arg = self._define(node, node.meta.get("val"))
        if qualified := node.meta.get("qualified"):
            kind, name = qualified
            spec = {kind: {"arg": arg["as_tensor"], f"{kind}_name": name}}
            if kind == "buffer":
                spec[kind]["persistent"] = True
        elif len(self.inputs) in self.static and "as_tensor" in arg:
            spec = {"parameter": {"arg": arg["as_tensor"], "parameter_name": node.name}}
        elif "as_none" in arg:
            spec = {"constant_input": {"name": node.name, "value": arg}}
        else:
            spec = {"user_input": {"arg": arg}}
        self.inputs.append(arg)
        self.signature["input_specs"].append(spec)

    def _get_attr(self, node: fx.Node) -> None:
        target = str(node.target)
        value = operator.attrgetter(target)(self.gm)
        if isinstance(value, fx.GraphModule):
            self.arguments[node] = {"as_graph": {"name": node.name, "graph": _Walker(value).graph()}}
        elif not isinstance(value, torch.Tensor):
            raise UnsupportedValue(f"attribute `{target}` is a {type(value).__name__}")
        elif first := self.lifted.get(target):
            self.arguments[node] = self.arguments[first]
        else:
            self.lifted[target] = node
            self.constants[target] = value
            self._define(node, value)

    # Calls.

    def _call(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            return  # named by the node it takes from
        target, params = _target(node.target)
        names = [*params[: len(node.args)], *[""] * (len(node.args) - len(params))]
        spell = self._parts if isinstance(node.target, torch._ops.HigherOrderOperator) else self._whole
        inputs = [{"name": n, "arg": arg, "kind": 1} for n, v in zip(names, node.args) for arg in spell(v)]
        inputs += [{"name": n, "arg": arg, "kind": 2} for n, v in node.kwargs.items() for arg in spell(v)]
        self.nodes.append(
            {
                "target": target,
                "inputs": inputs,
                "outputs": self._outputs(node),
                "metadata": _metadata(node),
                "is_hop_single_tensor_return": None,
                "name": node.name,
            }
        )

    def _whole(self, value: Any) -> list[dict[str, Any]]:
        return [self._argument(value)]

    def _parts(self, value: Any) -> list[dict[str, Any]]:
        """An argument of a higher-order op, which may be anything: at least the numbers and values in it."""
        try:
            return self._whole(value)
        except UnsupportedValue:
            leaves = pytree.tree_leaves(value)
            return [self._argument(leaf) for leaf in leaves if isinstance(leaf, (fx.Node, int, float))]

    def _outputs(self, node: fx.Node) -> list[dict[str, Any]]:
        value = node.meta.get("val")
        if not isinstance(value, (tuple, list)):
            return [] if _returns_nothing(node.target) else [self._define(node, value)]
        parts = self._taken([node], node.name, value)
        if _returns_list(node.target):
            return [{"as_tensors": [part["as_tensor"] for part in parts]}]
        return parts

    def _taken(self, sources: Sequence[fx.Node], name: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        """The arguments that name the parts of a result of several, which nodes take from ``sources``."""
        takers: dict[Any, list[fx.Node]] = {}
        for user in (user for source in sources for user in source.users):
            if user.target is operator.getitem:
                takers.setdefault(user.args[1], []).append(user)
        parts = []
        for i, part in enumerate(values):
            users = takers.get(i, [])
            label = users[0].name if users else f"{name}_unused_{i}"
            if isinstance(part, (tuple, list)):
                parts.append({"as_tensors": [inner["as_tensor"] for inner in self._taken(users, label, part)]})
            else:
                parts.append(self._typed(label, part))
            self.arguments.update((user, parts[-1]) for user in users)
        return parts

    def _argument(self, value: Any) -> dict[str, Any]:
        if isinstance(value, fx.Node):
            return self.arguments[value]
        if isinstance(value, (list, tuple)):
            return _list([self._argument(v) for v in value])
        return _literal(value)


_SYMBOLIC: tuple[tuple[tuple[type, ...], str, str], ...] = (
    ((torch.SymBool, bool), "sym_bool", "as_bool"),
    ((torch.SymInt, int), "sym_int", "as_int"),
    ((torch.SymFloat, float), "sym_float", "as_float"),
)


def _list(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """A list argument: of the narrowest kind that holds all parts."""
    kinds = {next(iter(part)) for part in parts}
    if not kinds:
        return {"as_ints": []}
    if len(kinds) == 1 and (kind := kinds.copy().pop()) in _PLURALS:
        return {_PLURALS[kind]: [part[kind] for part in parts]}
    if kinds <= {"as_tensor", "as_none"}:
        return {"as_optional_tensors": parts}
    if kinds <= {"as_int", "as_sym_int"}:
        return {"as_sym_ints": [part.get("as_sym_int", part) for part in parts]}
    if kinds <= {"as_int", "as_bool", "as_float"}:
        return {"as_floats": [_number(part) for part in parts]}
    if kinds <= {"as_int", "as_float", "as_sym_float", "as_sym_int"}:
        return {"as_sym_floats": [part.get("as_sym_float", part.get("as_sym_int", part)) for part in parts]}
    raise UnsupportedValue(f"a list of {sorted(kinds)}")


_PLURALS = {
    "as_int": "as_ints",
    "as_float": "as_floats",
    "as_bool": "as_bools",
    "as_string": "as_strings",
    "as_tensor": "as_tensors",
}


def _number(part: dict[str, Any]) -> float | str:
    value = next(iter(part.values()))
    return value if isinstance(value, str) else float(value)


def _target(target: Any) -> tuple[str, list[str]]:
    """The op's name in the schema, and the names of its parameters."""
    if isinstance(target, torch._ops.OpOverload):
        return f"torch.ops.{target}", _parameters(target)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"torch.ops.higher_order.{target.name()}", []
    return f"{getattr(target, '__module__', None) or 'builtins'}.{target.__name__}", []


@functools.cache
def _parameters(target: torch._ops.OpOverload) -> list[str]:
    return [arg.name for arg in target._schema.arguments]


@functools.cache
def _returns_nothing(target: Any) -> bool:
    schema = getattr(target, "_schema", None)
    return schema is not None and not schema.returns


@functools.cache
def _returns_list(target: Any) -> bool:
    returns: Any = getattr(getattr(target, "_schema", None), "returns", ())
    return len(returns) == 1 and isinstance(returns[0].type, torch.ListType)


def _literal(value: Any) -> dict[str, Any]:
    match value:
        case None:
            return {"as_none": True}
        case bool():
            return {"as_bool": value}
        case int():
            return {"as_int": value}
        case float():
            return {"as_float": _spell_float(value)}
        case complex():
            return {"as_complex": {"real": _spell_float(value.real), "imag": _spell_float(value.imag)}}
        case str():
            return {"as_string": value}
        case torch.dtype():
            return {"as_scalar_type": _DTYPES.get(value, 0)}
        case torch.device():
            return {"as_device": {"type": value.type, "index": value.index}}
        case torch.layout():
            return {"as_layout": _LAYOUTS.get(value, 0)}
        case torch.memory_format():
            return {"as_memory_format": _MEMORY_FORMATS[value]}
        case torch._ops.OpOverload():
            return {"as_operator": f"torch.ops.{value}"}
    raise UnsupportedValue(f"an argument of type {type(value).__name__}")


def _spell_float(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


@functools.lru_cache(maxsize=4096)
def _srepr(expr: sympy.Basic) -> str:
    return str(sympy.srepr(expr))


def _metadata(node: fx.Node) -> dict[str, str]:
    metadata = {}
    if trace := node.meta.get("stack_trace"):
        metadata["stack_trace"] = trace
    if stack := node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack"):
        metadata["nn_module_stack"] = ";".join(f"{path},{path},{_type_name(t)}" for path, t in stack.values())
    return metadata


def _type_name(t: Any) -> str:
    return t if isinstance(t, str) else f"{t.__module__}.{t.__qualname__}"
