"""A whole training step as one program: forward, backward and the optimizer's update."""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._functorch._aot_autograd.logging_utils import setup_stacktrace_preservation_hooks
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.export.graph_signature import InputKind, InputSpec
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from torchtpu._capture import Trace
from torchtpu._effects import drop_effects
from torchtpu._errors import DataDependentOp, Error
from torchtpu._higher_order import decompose
from torchtpu._hoist import hoist
from torchtpu._lines import DATA_DEPENDENT, line_in, line_of, place_in, place_of
from torchtpu._optimizers import update
from torchtpu._random import draw_again
from torchtpu._recompute import mark_forward, marking, recompute
from torchtpu.backend import decompositions, without_onednn
from torchtpu.trace import Walked, walk

Named = dict[str, Tensor]


class Step:
    """A captured training step.

    Its inputs are the parameters and buffers by their qualified names, the optimizer's state as
    ``optimizer.PARAMETER.KEY``, the batch by its keywords, and what other tensors the model, the loss or the optimizer
    holds. It returns the loss, then the gradients in the order of :attr:`gradients`, and updates parameters, buffers
    and state in place.
    """

    def __init__(self, trace: Trace, arguments: Named, gradients: list[str]) -> None:
        self.trace = trace
        self.arguments = arguments
        """The tensors it was captured with, in the order of the trace's inputs; the optimizer's may be abstract."""
        self.gradients = gradients
        """The parameters that the results after the first are the gradients of."""

    def __repr__(self) -> str:
        inputs, gradients = len(self.arguments), len(self.gradients)
        return f"<torchtpu.Step of {self.trace.num_nodes} nodes, {inputs} inputs, {gradients} gradients>"


def loss_of(output: Any) -> Tensor:
    """The loss in what a model returns: the tensor itself, or what is called ``loss`` in it."""
    if isinstance(output, Tensor):
        return output
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if not isinstance(loss, Tensor):
        raise Error(
            f"the model returns a {type(output).__name__} with no tensor called `loss`: say what to minimise, as in "
            "capture_step(..., loss=lambda output: output[0].mean())"
        )
    return loss


def capture_step(
    model: nn.Module,
    inputs: Mapping[str, Any] | Sequence[Any] | Tensor,
    *,
    loss: Callable[[Any], Tensor] = loss_of,
    optimizer: torch.optim.Optimizer | None = None,
    return_gradients: bool = False,
) -> Step:
    """Traces one training step of ``model(**inputs)``, or ``model(*inputs)``; nothing is computed or allocated.

    What the model runs in ``torch.utils.checkpoint`` is computed again in the backward pass. What it checks or prints
    besides computing is not in the step.

    Args:
        model: its parameters and buffers may be abstract: made on the device ``"meta"``, or as fake tensors.
        inputs: the batch, by keyword or in the order of ``forward``'s arguments; or the only one. What is no tensor,
            such as ``None`` or a number, the program is captured for.
        loss: gives the scalar to minimise of what the model returns. By default that is the tensor it returns, or what
            is called ``loss`` in it.
        optimizer: over the model's parameters. Without one, the step ends with the gradients. State that it has not
            made yet is made abstractly; a step to be run needs an optimizer that has stepped before.
        return_gradients: return them beside the loss, which keeps them in memory to the end. Without an optimizer they
            are always returned.

    Raises:
        Error: the batch is not what ``forward`` takes, or there is no loss, or it is no scalar that depends on a
            parameter, or the model checkpoints with ``use_reentrant=True``, or it or the optimizer branches on the data
            of tensors.
        UnsupportedOp: an op of the model gives a number that is data, or as much as the data says.
        TypeError: ``model`` is no module, or ``optimizer`` no optimizer.
    """
    _refuse_kinds(model, optimizer)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    forward, given = _export(model, _by_keyword(model, inputs), loss)
    mark_forward(forward.graph)
    state = _state(model, optimizer, mode) if optimizer else {}
    arguments = {**{i.name: i.value for i in given if isinstance(i.value, Tensor)}, **state}
    trained = [name for name, p in model.named_parameters() if p.requires_grad and name in arguments]
    returned = trained if return_gradients or not optimizer else []
    abstract = {name: _abstract(mode, t, name in trained) for name, t in arguments.items()}

    def step(*flat: Tensor) -> list[Tensor]:
        tensors = dict(zip(abstract, flat, strict=True))
        result = _Forward(forward).run(*(tensors.get(i.name, i.value) for i in given))
        value = result[-1] if isinstance(result, (tuple, list)) else result
        if value.grad_fn is None or value.dim():
            raise Error("the loss must be a scalar that depends on the parameters")
        setup_stacktrace_preservation_hooks([value.grad_fn])
        with fx.traceback.annotate({_BACKWARD: True}):
            gradients = torch.autograd.grad(value, [tensors[name] for name in trained], materialize_grads=True)
        if optimizer:
            groups = _groups(model, optimizer)
            with torch.no_grad(), _stepping(optimizer, groups, tensors, dict(zip(trained, gradients))):
                update(optimizer)
        return [value.detach(), *(gradients if returned else [])]

    with mode, fx.traceback.preserve_node_meta(), _remembering_lines(), without_onednn():
        gm = make_fx(step, decomposition_table=decompositions(), tracing_mode="real")(*abstract.values())
    _say_modules(gm)
    walked = _walked(gm, {i.name: i.kind for i in given}, list(arguments))
    return Step(Trace(walked.program), arguments | walked.constants, returned)


def _refuse_kinds(model: Any, optimizer: Any) -> None:
    def told(value: Any) -> str:
        return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"

    if not isinstance(model, nn.Module):
        raise TypeError(
            f"expected a module, got {told(model)}: wrap what computes the loss in the `forward` of one that holds the "
            "parameters"
        )
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(
            f"expected an optimizer over the model's parameters, such as torch.optim.SGD(model.parameters()), got "
            f"{told(optimizer)}"
        )


@contextlib.contextmanager
def _remembering_lines() -> Iterator[None]:
    """Autograd remembers in anomaly mode only which line made a node; it warns that this is slow."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Anomaly Detection")
        with torch.autograd.detect_anomaly(check_nan=False):
            yield


class _Loss(nn.Module):
    def __init__(self, model: nn.Module, loss: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, **inputs: Any) -> Tensor:
        return self.loss(self.model(**inputs))


@dataclass(frozen=True)
class _Input:
    """An input of the forward graph: a tensor, or what else it was traced for."""

    name: str
    kind: InputKind
    value: Any


# What a trace calls the kinds of what is held.
_HELD = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "tensor_constant",
}


def _by_keyword(model: nn.Module, inputs: Mapping[str, Any] | Sequence[Any] | Tensor) -> Mapping[str, Any]:
    if isinstance(inputs, Mapping):
        return inputs
    signature = inspect.signature(model.forward)
    try:
        bound = signature.bind(*([inputs] if isinstance(inputs, Tensor) else inputs)).arguments
    except TypeError as error:
        raise Error(f"`forward{signature}` does not take the batch: {error}") from None
    unnamed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY)
    if any(signature.parameters[name].kind in unnamed for name in bound):
        raise Error(f"the arguments of `forward{signature}` have no names: wrap the model in one whose arguments have")
    return bound


def _export(
    model: nn.Module, inputs: Mapping[str, Any], loss: Callable[[Any], Tensor]
) -> tuple[fx.GraphModule, list[_Input]]:
    """The forward graph, with source lines and module names, and its inputs."""
    whole = _Loss(model, loss)
    try:
        with marking():
            program = torch.export.export(whole, (), dict(inputs))
    except GuardOnDataDependentSymNode as error:
        raise _branches(error) from None
    for node in _nodes(program.graph_module):
        if stack := node.meta.get("nn_module_stack"):
            node.meta["nn_module_stack"] = _without_wrapper(stack)
    tied, batch = _tied(model), iter(pytree.tree_leaves(dict(inputs)))
    held = program.constants | dict([*_named_parameters(whole), *_named_buffers(whole)])

    def given(spec: InputSpec) -> _Input:
        if spec.target is None:
            return _Input(spec.arg.name, spec.kind, next(batch))
        name = spec.target.removeprefix("model.")
        return _Input(tied.get(name, name), spec.kind, held[spec.target])

    found = [given(spec) for spec in program.graph_signature.input_specs]
    _refuse_namesakes(found)
    return program.graph_module, found


def _nodes(gm: fx.GraphModule) -> Iterator[fx.Node]:
    """Those of all its graphs."""
    for module in gm.modules():
        if isinstance(module, fx.GraphModule):
            yield from module.graph.nodes


def _without_wrapper(stack: Mapping[str, tuple[str, Any]]) -> dict[str, tuple[str, Any]]:
    """The modules of ``stack`` by the names that they have in the model, not in :class:`_Loss`."""
    outer = "model"
    inner = {key: entry for key, entry in stack.items() if entry[0] == outer or entry[0].startswith(f"{outer}.")}
    return {key: (path.removeprefix(outer).removeprefix("."), kind) for key, (path, kind) in inner.items()}


# What `node.meta["custom"]` says of the backward pass.
_BACKWARD = "torchtpu.backward"


def _say_modules(gm: fx.GraphModule) -> None:
    """Tells backward nodes the modules of the forward op whose gradient they compute: autograd numbers both alike, and
    the first op of a number is the one that has a gradient."""
    first: dict[int, Any] = {}
    for node in _nodes(gm):
        number = node.meta.get("seq_nr")
        if number is None:
            continue
        if not node.meta.get("custom", {}).get(_BACKWARD):
            first.setdefault(number, node.meta.get("nn_module_stack"))
        elif number in first:
            node.meta["fwd_nn_module_stack"] = first[number]


_named_parameters = functools.partial(nn.Module.named_parameters, remove_duplicate=False)
_named_buffers = functools.partial(nn.Module.named_buffers, remove_duplicate=False)


def _refuse_namesakes(inputs: list[_Input]) -> None:
    first: dict[str, Any] = {}
    for given in inputs:
        if first.setdefault(given.name, given.value) is not given.value:
            raise Error(f"the model holds a tensor called `{given.name}` and is given another: rename one of the two")


def _branches(cause: GuardOnDataDependentSymNode) -> Error:
    error = Error(
        f"the model branches on the data of a tensor{place_in(cause)}, which one program cannot: compute both ways and "
        "choose with torch.where"
    )
    error.file, error.line = line_in(cause) or (None, None)
    return error


class _Forward(fx.Interpreter):
    """Runs the forward graph abstractly."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False  # which is added to the message

    def run_node(self, n: fx.Node) -> Any:
        try:
            return super().run_node(n)
        except DATA_DEPENDENT as error:
            raise _depends_on_data(n, error) from None


def _depends_on_data(node: fx.Node, cause: BaseException) -> DataDependentOp:
    if isinstance(cause, DataDependentOutputException):
        reason = "a number is read out of a tensor, and a step is one program: keep it in the tensor"
    else:
        reason = (
            "the size of its result depends on the data of a tensor, and a step is one program, whose sizes are known "
            "before it runs: mask with torch.where rather than select"
        )
    error = DataDependentOp(f"{node.target}{place_of(node)}: {reason}")
    error.op, error.node = str(node.target), node.name
    error.file, error.line = line_of(node) or (None, None)
    return error


def _tied(model: nn.Module) -> dict[str, str]:
    """Of each parameter and buffer with several names, by each of them the one it goes by here: the first."""
    first = {id(t): name for name, t in (*model.named_parameters(), *model.named_buffers())}
    return {name: first[id(t)] for name, t in (*_named_parameters(model), *_named_buffers(model))}


def _abstract(mode: FakeTensorMode, tensor: Tensor, trained: bool) -> Tensor:
    with mode:
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return made.requires_grad_(trained)


def _groups(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[list[str]]:
    """Names of the parameters in each of the optimizer's groups."""
    names = {id(p): name for name, p in model.named_parameters()}
    try:
        return [[names[id(p)] for p in group["params"]] for group in optimizer.param_groups]
    except KeyError:
        raise Error("the optimizer holds parameters that are not the model's") from None


def _state(model: nn.Module, optimizer: torch.optim.Optimizer, mode: FakeTensorMode) -> Named:
    """The optimizer's state by name; abstract where it is not made yet."""
    groups = _groups(model, optimizer)
    held = {
        name: {key: t for key, t in optimizer.state.get(p, {}).items() if isinstance(t, Tensor)}
        for name, p in model.named_parameters()
    }
    if not any(held.values()):
        parameters = {name: _abstract(mode, p, False) for name, p in model.named_parameters()}
        with mode, torch.no_grad():
            gradients = {name: torch.empty_like(p) for name, p in parameters.items()}
            with _stepping(optimizer, groups, parameters, gradients) as made:
                update(optimizer)
        held = {name: {k: t for k, t in made[p].items() if isinstance(t, Tensor)} for name, p in parameters.items()}
    return {f"optimizer.{name}.{key}": t for name, state in held.items() for key, t in state.items()}


@contextlib.contextmanager
def _stepping(
    optimizer: torch.optim.Optimizer, groups: list[list[str]], given: Named, gradients: Named
) -> Iterator[dict[Tensor, dict[str, Any]]]:
    """Puts other parameters and state in the optimizer's place, and has it compute with tensors where it would read
    numbers."""
    kept = [dict(group) for group in optimizer.param_groups], optimizer.state
    compiling = torch.compiler._is_compiling_flag
    state: dict[Tensor, dict[str, Any]] = defaultdict(dict)
    own = {
        n: p for group, names in zip(kept[0], groups, strict=True) for n, p in zip(names, group["params"], strict=True)
    }
    for name, parameter in own.items():
        prefix = f"optimizer.{name}."
        old = dict(kept[1].get(parameter, {}))
        new = {key.removeprefix(prefix): t for key, t in given.items() if key.startswith(prefix)}
        if old or new:
            state[given[name]] = old | new
        given[name].grad = gradients.get(name)
    try:
        torch.compiler._is_compiling_flag = True
        for group, names in zip(optimizer.param_groups, groups):
            group["params"] = [given[name] for name in names]
            group.update({key: True for key in ("capturable",) if key in group})
            group.update({key: False for key in ("foreach", "fused") if key in group})
        optimizer.state = state  # type: ignore[assignment]
        yield state
    finally:
        torch.compiler._is_compiling_flag = compiling
        for group, old in zip(optimizer.param_groups, kept[0]):
            group.clear()
            group.update(old)
        optimizer.state = kept[1]


def _walked(gm: fx.GraphModule, kinds: Mapping[str, InputKind], names: list[str]) -> Walked:
    drop_effects(gm)
    recompute(gm)
    decompose(gm, decompositions())
    hoist(gm)
    draw_again(gm)
    _give_way(gm.graph, [name for name, kind in kinds.items() if kind is InputKind.USER_INPUT])
    for node, name in zip(gm.graph.find_nodes(op="placeholder"), names):
        kind = kinds.get(name, InputKind.BUFFER)  # the optimizer's state
        if kind is InputKind.USER_INPUT:
            node.name = name
        else:
            node.meta["qualified"] = (_HELD[kind], name)
    return walk(gm)


def _give_way(graph: fx.Graph, names: list[str]) -> None:
    """Renames what in ``graph`` is called as inputs are to be called."""
    namespace = graph._graph_namespace
    for name in names:
        namespace.create_name(name, None)
    for node in graph.nodes:
        if node.name in names:
            node.name = namespace.create_name(node.name, None)
