"""Higher-order ops, and ops written in Python, that are put in terms of others before anything is compiled.

For most of them PyTorch has an implementation in plain ops, which it runs where no backend knows better. Here it is
traced, and the trace takes the op's place. What is left is what the native compiler makes a branch or a loop of.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, fx
from torch._C import DispatchKey
from torch._dynamo._trace_wrapped_higher_order_op import zeros_and_scatter
from torch._guards import detect_fake_mode
from torch._higher_order_ops.associative_scan import associative_scan_op
from torch._higher_order_ops.flex_attention import flex_attention, flex_attention_backward
from torch._higher_order_ops.while_loop import while_loop_op, while_loop_stack_output_op
from torch._library.custom_ops import OPDEFS
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from torchtpu._loops import NUMBERS, NotTraced, cond, count_turns, gives_numbers, stack_turns, take_turns, while_loop

_BY_OWN_KERNEL = frozenset(("flex_attention", "flex_attention_backward", "hints_wrapper", "out_dtype"))
# Ops that PyTorch itself writes in Python, with `torch.library.custom_op`.
_PYTHON_OPS = "torch_nn"
_KERNEL = DispatchKey.CompositeExplicitAutograd


def decompose(gm: fx.GraphModule, table: dict[Any, Callable[..., Any]]) -> None:
    """Replaces such ops in ``gm`` and in the graphs within it. ``table`` decomposes what their implementations use."""
    for child in gm.children():
        if isinstance(child, fx.GraphModule):
            decompose(child, table)
    for node in list(gm.graph.nodes):
        if node.target is while_loop_stack_output_op:
            take_turns(gm, node)
    found = [(node, run) for node in gm.graph.nodes if (run := _implementation(node))]
    for node, run in found:
        try:
            body = _trace(gm, node, run, table)
        except NotTraced:
            continue
        decompose(body, table)
        _inline(gm, node, body)
    if found:
        gm.graph.lint()
        gm.recompile()


def _implementation(node: fx.Node) -> Callable[..., Any] | None:
    target: Any = node.target
    if gives_numbers(node):
        return while_loop if target is while_loop_op else cond
    if target in _OURS:
        return _OURS[target]
    if isinstance(target, torch._ops.HigherOrderOperator) and target.name() in _BY_OWN_KERNEL:
        return target.py_kernels[_KERNEL]
    if isinstance(target, torch._ops.OpOverload) and target.namespace == _PYTHON_OPS:
        return torch.func.functionalize(OPDEFS[target._schema.name]._init_fn, remove="mutations")
    return None


def _trace(gm: fx.GraphModule, node: fx.Node, run: Callable[..., Any], table: dict[Any, Any]) -> fx.GraphModule:
    """``run`` on the arguments of ``node`` as a graph, which takes the values among them in order."""
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    inputs = _inputs(node)
    values = [source.meta["val"] for source in inputs]

    def call(*given: Any) -> Any:
        known: dict[fx.Node, Any] = dict(zip(inputs, given, strict=True))

        def argument(leaf: Any) -> Any:
            if not isinstance(leaf, fx.Node):
                return leaf
            return known[leaf] if leaf in known else _Body(operator.attrgetter(str(leaf.target))(gm))

        args, kwargs = pytree.tree_unflatten([argument(leaf) for leaf in leaves], spec)
        with traceback.set_current_meta(node):
            results, shape = pytree.tree_flatten(run(*args, **kwargs))
        recorded = pytree.tree_leaves(node.meta["val"])
        return pytree.tree_unflatten(map(_as_recorded, results, recorded), shape)

    # The gradient of a tensor that a score modification reads: an op of PyTorch's own, of which only that module knows.
    table = {**table, torch.ops.flex_lib.zeros_and_scatter.default: zeros_and_scatter._init_fn}
    fake_mode = detect_fake_mode(values)
    with traceback.preserve_node_meta(), torch.no_grad(), fake_mode or contextlib.nullcontext():
        return make_fx(call, decomposition_table=table)(*values)


def _as_recorded(result: Any, recorded: Any) -> Any:
    """``result`` in the element type that the graph goes on with: PyTorch records f32 for the statistics of f64."""
    return result.to(recorded.dtype) if isinstance(recorded, Tensor) and result is not None else result


def _inputs(node: fx.Node) -> list[fx.Node]:
    """The values, not the graphs, that ``node`` is given."""
    return [source for source in node.all_input_nodes if "val" in source.meta]


class _Body(fx.GraphModule):
    """A graph that is traced node by node, so that what comes of each has its line."""

    def __init__(self, gm: fx.GraphModule) -> None:
        super().__init__(gm, gm.graph)
        self.forward = self._trace

    def _trace(self, *args: Any) -> Any:
        results = fx.Interpreter(self).run(*args)
        return list(results) if isinstance(results, list) else results  # fx's own kind of list is none to `torch.vmap`


def _inline(gm: fx.GraphModule, node: fx.Node, body: fx.GraphModule) -> None:
    """Puts the nodes of ``body`` in the place of ``node``."""
    copies: dict[fx.Node, fx.Node] = {}
    sources = iter(_inputs(node))
    results: Any = None
    with gm.graph.inserting_before(node):
        for inner in body.graph.nodes:
            if inner.op == "placeholder":
                copies[inner] = next(sources)
            elif inner.op == "output":
                results = fx.node.map_arg(inner.args[0], lambda n: copies[n])
            else:
                copy = copies[inner] = gm.graph.node_copy(inner, lambda n: copies[n])
                if inner.op == "get_attr":
                    copy.target = f"{node.name}_{inner.target}".replace(".", "_")
                    setattr(gm, copy.target, operator.attrgetter(str(inner.target))(body))
                copy.meta.setdefault("stack_trace", node.meta.get("stack_trace"))
    _replace(gm, node, results)


def _replace(gm: fx.GraphModule, node: fx.Node, result: Any) -> None:
    if isinstance(result, fx.Node):
        if node.users and isinstance(node.meta["val"], NUMBERS) and isinstance(result.meta["val"], Tensor):
            with gm.graph.inserting_before(node):
                number = gm.graph.call_function(torch.ops.aten._local_scalar_dense.default, (result,))
            number.meta = dict(node.meta)
            result = number
        node.replace_all_uses_with(result)
    for user in list(node.users):
        assert user.target is operator.getitem, f"{user} takes {node} whole"
        place: Any = user.args[1]
        _replace(gm, user, result[place])
    gm.graph.erase_node(node)


def _flex_attention_backward(
    query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor, *rest: Any
) -> Any:
    """In f64 the statistics are reckoned again, since those that were kept are f32."""
    if query.dtype == torch.float64:
        _, _, score_mod, _, *options = rest
        forward = flex_attention.py_kernels[_KERNEL]
        logsumexp = forward(query, key, value, score_mod, *options)[1]
    return flex_attention_backward.py_kernels[_KERNEL](query, key, value, out, logsumexp, *rest)


def _associative_scan(combine: Callable[..., Any], xs: Any, additional: Any) -> Any:
    """In a turn, every row is combined with the one a distance before it, and the distance doubles."""
    rank, count = [x.dim() for x in xs], len(xs)
    batched = torch.vmap(combine, in_dims=(0,) * 2 * count + (None,) * len(additional))

    def more(distance: Tensor, *rest: Any) -> Tensor:
        return torch.lt(distance, rest[0].shape[0])

    def step(distance: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        rows, (places, *seen) = rest[:count], rest[count:]
        before = places - distance
        earlier = [row.index_select(0, before.clamp(min=0)) for row in rows]
        combined = pytree.tree_leaves(batched(*earlier, *rows, *seen))
        chosen = [
            torch.where((before >= 0).view(-1, *[1] * (dim - 1)), new, old)
            for new, old, dim in zip(combined, rows, rank, strict=True)
        ]
        return distance * 2, *chosen

    places = torch.arange(xs[0].shape[0], device=xs[0].device)
    first = torch.ones((), dtype=torch.int64, device=xs[0].device)
    with _no_loop_over_rows():
        return while_loop_op(more, step, (first, *xs), (places, *additional))[1:]


_OURS: dict[Any, Callable[..., Any]] = {
    associative_scan_op: _associative_scan,
    flex_attention_backward: _flex_attention_backward,
    count_turns: count_turns,
    stack_turns: stack_turns,
}


@contextlib.contextmanager
def _no_loop_over_rows() -> Iterator[None]:
    """Lets ``torch.vmap`` fail where it would go row by row."""
    functorch: Any = torch._C._functorch
    enabled = functorch._is_vmap_fallback_enabled()
    functorch._set_vmap_fallback_enabled(False)
    try:
        yield
    except (RuntimeError, NotImplementedError) as error:
        raise NotTraced from error
    finally:
        functorch._set_vmap_fallback_enabled(enabled)
