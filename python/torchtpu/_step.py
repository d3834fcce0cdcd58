"""A whole training step as one program: forward, backward and the optimizer's update."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._functorch._aot_autograd.logging_utils import setup_stacktrace_preservation_hooks
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from torchtpu._capture import Trace
from torchtpu._errors import Error
from torchtpu._higher_order import decompose
from torchtpu._hoist import hoist
from torchtpu._random import draw_again
from torchtpu._recompute import mark_forward, marking, recompute
from torchtpu.backend import decompositions, without_onednn
from torchtpu.trace import walk

Named = dict[str, Tensor]


class Step:
    """A captured training step.

    Its inputs are the parameters and buffers by their qualified names, the optimizer's state as
    ``optimizer.PARAMETER.KEY``, and the batch by its keywords. It returns the loss, then the gradients in the order of
    :attr:`gradients`, and updates parameters, buffers and state in place.
    """

    def __init__(self, trace: Trace, arguments: Named, gradients: list[str]) -> None:
        self.trace = trace
        self.arguments = arguments
        """The tensors it was captured with, in the order of the trace's inputs; the optimizer's may be abstract."""
        self.gradients = gradients
        """The parameters that the results after the first are the gradients of."""


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
    inputs: Mapping[str, Tensor],
    *,
    loss: Callable[[Any], Tensor] = loss_of,
    optimizer: torch.optim.Optimizer | None = None,
    return_gradients: bool = False,
) -> Step:
    """Traces one training step of ``model(**inputs)``; nothing is computed and nothing is allocated.

    What the model runs in ``torch.utils.checkpoint`` is computed again in the backward pass.

    Args:
        model: its parameters and buffers may be abstract: made on the device ``"meta"``, or as fake tensors.
        inputs: the batch, by keyword.
        loss: gives the scalar to minimise of what the model returns. By default that is the tensor it returns, or what
            is called ``loss`` in it.
        optimizer: over the model's parameters. Without one, the step ends with the gradients. State that it has not
            made yet is made abstractly; a step to be run needs an optimizer that has stepped before.
        return_gradients: return them beside the loss, which keeps them in memory to the end. Without an optimizer they
            are always returned.

    Raises:
        Error: there is no loss, or it is no scalar that depends on a parameter, or the model checkpoints with
            ``use_reentrant=True``.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    forward, names = _export(model, inputs, loss)
    mark_forward(forward.graph)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers()), **inputs}
    state = _state(model, optimizer, mode) if optimizer else {}
    arguments = {**{name: tensors[name] for name in names if name in tensors}, **state}
    trained = [name for name, p in model.named_parameters() if p.requires_grad and name in arguments]
    returned = trained if return_gradients or not optimizer else []
    abstract = {name: _abstract(mode, t, name in trained) for name, t in arguments.items()}

    def step(*flat: Tensor) -> list[Tensor]:
        given = dict(zip(abstract, flat, strict=True))
        result = fx.Interpreter(forward).run(*(given.get(name) for name in names))
        value = result[-1] if isinstance(result, (tuple, list)) else result
        if value.grad_fn is None or value.dim():
            raise Error("the loss must be a scalar that depends on the parameters")
        setup_stacktrace_preservation_hooks([value.grad_fn])
        gradients = torch.autograd.grad(value, [given[name] for name in trained], materialize_grads=True)
        if optimizer:
            with torch.no_grad(), _stepping(optimizer, _groups(model, optimizer), given, dict(zip(trained, gradients))):
                _update(optimizer)
        return [value.detach(), *(gradients if returned else [])]

    with mode, fx.traceback.preserve_node_meta(), _remembering_lines(), without_onednn():
        gm = make_fx(step, decomposition_table=decompositions(), tracing_mode="real")(*abstract.values())
    return Step(Trace(_program(gm, model, list(arguments))), arguments, returned)


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

    def forward(self, **inputs: Tensor) -> Tensor:
        return self.loss(self.model(**inputs))


def _export(
    model: nn.Module, inputs: Mapping[str, Tensor], loss: Callable[[Any], Tensor]
) -> tuple[fx.GraphModule, list[str]]:
    """The forward graph, with source lines and module names, and what its inputs are called."""
    with marking():
        program = torch.export.export(_Loss(model, loss), (), dict(inputs))
    names = [
        (spec.target or "").removeprefix("model.") if spec.target else spec.arg.name
        for spec in program.graph_signature.input_specs
    ]
    constants = {name for name in names if name in program.constants}
    if constants:
        raise Error(f"the model holds tensors that are neither parameters nor buffers: {sorted(constants)}")
    tied = _tied(model)
    return program.graph_module, [tied.get(name, name) for name in names]


def _tied(model: nn.Module) -> dict[str, str]:
    """Of each parameter and buffer with several names, by each of them the one it goes by here: the first."""
    first = {id(t): name for name, t in (*model.named_parameters(), *model.named_buffers())}
    parameters = model.named_parameters(remove_duplicate=False)
    buffers = model.named_buffers(remove_duplicate=False)
    return {name: first[id(t)] for name, t in (*parameters, *buffers)}


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
                _update(optimizer)
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


def _update(optimizer: torch.optim.Optimizer) -> None:
    """One step, without the hooks around it, which record profiles and switch gradients."""
    step = inspect.unwrap(type(optimizer).step)
    code = step.__code__
    fx.traceback.set_stack_trace([f'  File "{code.co_filename}", line {code.co_firstlineno}, in step\n'])
    step(optimizer)


def _program(gm: fx.GraphModule, model: nn.Module, names: list[str]) -> dict[str, Any]:
    recompute(gm)
    decompose(gm, decompositions())
    hoist(gm)
    draw_again(gm)
    parameters = {name for name, _ in model.named_parameters()}
    for node, name in zip(gm.graph.find_nodes(op="placeholder"), names):
        if name in parameters:
            node.meta["qualified"] = ("parameter", name)
        elif "." in name or name in dict(model.named_buffers()):
            node.meta["qualified"] = ("buffer", name)
        else:
            node.name = name
    return walk(gm).program
