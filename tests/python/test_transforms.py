"""What wraps a function before it is compiled: torch.func, checkpoints, regions, autograd.Function."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchtpu
from test_control_flow import compiled
from test_higher_order import agree
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.foreach_map import foreach_map
from torch.nn import functional
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

Fn = Callable[..., Any]
X = torch.linspace(-1, 2, 24).reshape(6, 4)
W = torch.linspace(1, -1, 16).reshape(4, 4).sin()
linear = nn.Linear(4, 4)


class Cube(torch.autograd.Function):
    """Its gradient is not that of what it gives."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] * x * 7


class Power(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, n: int) -> Tensor:
        return x**n

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.n = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return ctx.saved_tensors[0] * grads[0] * ctx.n, None


@torch.compiler.nested_compile_region
def region(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).sin()


@torch.compiler.nested_compile_region
def dropping_region(x: Tensor) -> Tensor:
    return functional.dropout(x, 0.5).sin() * 1.0


def wave(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).sin()


def pulled_back(x: Tensor, w: Tensor) -> Any:
    value, pull = torch.func.vjp(lambda x: wave(x, w), x)
    return pull(torch.ones_like(value))


def without_grad(x: Tensor, w: Tensor) -> Tensor:
    with torch.no_grad():
        y = x @ w
    return y * x


def checked(x: Tensor) -> Tensor:
    torch._check(x.shape[0] > 2)
    return x * 2


CASES: dict[str, tuple[Fn, tuple[Tensor, ...]]] = {
    "vmap": (lambda x, w: torch.vmap(lambda r: (w @ r).sin())(x), (X, W)),
    "vmap, cond": (lambda x: torch.vmap(lambda r: torch.cond(r.sum() > 0, torch.sin, torch.cos, (r,)))(x), (X,)),
    "vmap, associative_scan": (
        lambda x: torch.vmap(lambda r: associative_scan(lambda a, b: a * b, r, 0))(x),
        (X,),
    ),
    "vmap, grad": (
        lambda x, w: torch.vmap(torch.func.grad(lambda w, r: (w @ r).sin().sum()), in_dims=(None, 0))(w, x),
        (X, W),
    ),
    "grad": (lambda x, w: torch.func.grad(lambda x: wave(x, w).sum())(x), (X, W)),
    "grad_and_value": (lambda x, w: torch.func.grad_and_value(lambda x: wave(x, w).sum())(x), (X, W)),
    "jvp": (lambda x, w: torch.func.jvp(lambda x: wave(x, w), (x,), (torch.ones_like(x),)), (X, W)),
    "vjp": (pulled_back, (X, W)),
    "jacrev": (lambda x, w: torch.func.jacrev(lambda x: wave(x, w))(x[0]), (X, W)),
    "jacfwd": (lambda x, w: torch.func.jacfwd(lambda x: wave(x, w))(x[0]), (X, W)),
    "hessian": (lambda x, w: torch.func.hessian(lambda x: wave(x, w).sum())(x[0]), (X, W)),
    "functional_call": (
        lambda x, w: torch.func.functional_call(linear, {"weight": w, "bias": w[0]}, (x,)),
        (X, W),
    ),
    "autograd.Function": (lambda x: Cube.apply(x) + 1, (X,)),
    "autograd.Function, setup_context": (lambda x: Power.apply(x, 3), (X,)),
    "no_grad": (without_grad, (X, W)),
    "_check": (checked, (X,)),
    "region": (lambda x, w: region(region(x, w), w) + region(x, w), (X, W)),
    "checkpoint": (lambda x, w: checkpoint(wave, x, w, use_reentrant=False).exp(), (X, W)),
    "checkpoint, reentrant": (lambda x, w: checkpoint(wave, x, w, use_reentrant=True).exp(), (X, W)),
}


@pytest.mark.parametrize("gradients", [False, True], ids=["results", "gradients"])
@pytest.mark.parametrize("fn, args", CASES.values(), ids=CASES)
def test_transforms_are_compiled(fn: Fn, args: tuple[Tensor, ...], gradients: bool) -> None:
    agree(compiled(fn), fn, args, "cpu", gradients)


@pytest.mark.parametrize("name", ["jvp", "hessian", "autograd.Function", "checkpoint"])
def test_transforms_are_compiled_for_the_device(name: str) -> None:
    fn, args = CASES[name]
    linear.to("cpu")
    agree(compiled(fn), fn, args, "tpu", True)


def test_foreach_map_is_compiled() -> None:
    def fn(x: Tensor) -> Any:
        return foreach_map(torch.add, [x, x * 2], [x, x])

    agree(compiled(fn), lambda x: [x + x, x * 2 + x], (X,), "cpu", False)


def kept(x: Tensor) -> Tensor:
    return functional.dropout(x, 0.5).sin() * 1.0


def selective(x: Tensor) -> Tensor:
    contexts = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.sin.default])
    result: Tensor = checkpoint(kept, x, use_reentrant=False, context_fn=contexts)
    return result


DROPPING: dict[str, Fn] = {
    "checkpoint": lambda x: checkpoint(kept, x, use_reentrant=False),
    "checkpoint, reentrant": lambda x: checkpoint(kept, x, use_reentrant=True),
    "checkpoint, twice": lambda x: checkpoint(lambda x: kept(kept(x) + 1), x, use_reentrant=False),
    "selective": selective,
    "region": dropping_region,
    "noise": lambda x: checkpoint(lambda x: x * (torch.rand_like(x) > 0.5) * 2, x, use_reentrant=False).sin() * 1.0,
}


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("name", DROPPING)
def test_a_backward_pass_drops_what_the_forward_pass_dropped(name: str, device: str) -> None:
    ours = compiled(DROPPING[name])
    seen = []
    for _ in range(2):
        x = torch.ones(40, 40, device=device, requires_grad=True)
        y = ours(x)
        y.sum().backward()
        seen.append(y.detach().cpu())
        x0 = torch.ones(40, 40, requires_grad=True)
        if name == "checkpoint, twice":
            # The inner dropout shows in what the outer one keeps; elsewhere the gradient is 0 all the same.
            inner = (seen[-1] - math.sin(2 * (math.sin(2) + 1))).abs() < 1e-5
            x1 = torch.where(inner, (x0 * 2).sin(), 0 * x0) + 1
        else:
            x1 = x0
        torch.where(seen[-1] != 0, (x1 * 2).sin(), 0 * x1).sum().backward()
        assert x.grad is not None
        torch.testing.assert_close(x.grad.cpu(), x0.grad)
        assert 0.1 < float((seen[-1] != 0).float().mean()) < 0.6
    assert not torch.equal(*seen)


def test_a_checkpoint_with_dropout_is_captured() -> None:
    trace = torchtpu.capture(DROPPING["checkpoint"], X.clone().requires_grad_())
    assert trace.backward is not None
    assert "rng_bit_generator" in torchtpu.lower(trace)
    assert "rng_bit_generator" in torchtpu.lower(trace.backward)


@torch.library.custom_op("transforms::doubled_in_place", mutates_args=("x",))
def doubled_in_place(x: Tensor) -> None:
    x.mul_(2)


def test_a_custom_op_that_writes_runs_on_the_host_and_is_refused_by_its_name() -> None:
    def fn(x: Tensor) -> Tensor:
        y = x + 1
        doubled_in_place(y[1:3])
        return y * 2

    torch._dynamo.reset()
    with pytest.warns(UserWarning, match=r"transforms.doubled_in_place.* runs on the host"):
        torch.testing.assert_close(torch.compile(fn, backend="torchtpu")(X), fn(X))
    with pytest.raises(torchtpu.UnsupportedOp, match=r"^transforms.doubled_in_place"):
        compiled(fn)(X)


def test_a_graph_prints(capsys: pytest.CaptureFixture[str]) -> None:
    def fn(x: Tensor) -> Tensor:
        torch._higher_order_ops.print("rows: {}", x.shape[0])
        return x + 1

    torch.testing.assert_close(compiled(fn)(X), X + 1)
    assert capsys.readouterr().out.strip() == "rows: 6"
