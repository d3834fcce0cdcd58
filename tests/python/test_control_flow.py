"""torch.cond and torch.while_loop, compiled: results, gradients, both devices, and what is left to the host."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchtpu
from counting import programs
from test_export_models import TPUTC
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop

ERROR = {"fallback": "error"}


def compiled(fn: Callable[..., Any], **kwargs: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(fn, backend="torchtpu", fullgraph=True, options=ERROR, **kwargs)


def branch(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: (x - 1).cos(), (x,)) + 1


def nested(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    def positive(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cond(y.max() > 1, lambda x, y: (x @ y, y + 1), lambda x, y: (x @ y * 2, y - 1), (x, y))

    return torch.cond((x > 0).all(), positive, lambda x, y: (x @ y - 3, y * 1), (x, y))


def collatz(n: Tensor) -> tuple[Tensor, Tensor]:
    def step(n: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        return torch.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    return while_loop(lambda n, count: n != 1, step, (n, torch.zeros((), dtype=torch.int64, device=n.device)))


def power_iteration(a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    def step(v: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        w = a @ v
        return w / w.norm(), i + 1

    return while_loop(lambda v, i: i < 20, step, (v, torch.zeros((), dtype=torch.int64, device=a.device)))


POSITIVE, NEGATIVE = torch.arange(1.0, 7).reshape(2, 3), -torch.arange(1.0, 7).reshape(2, 3)
CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "cond, true": (branch, (POSITIVE,)),
    "cond, false": (branch, (NEGATIVE,)),
    "cond, strided": (branch, (POSITIVE.t(),)),
    "nested, inner true": (nested, (POSITIVE, POSITIVE.t().clone())),
    "nested, inner false": (nested, (POSITIVE, NEGATIVE.t().clone())),
    "nested, outer false": (nested, (NEGATIVE, POSITIVE.t().clone())),
    "while": (collatz, (torch.tensor(27),)),
    "while, no turn": (collatz, (torch.tensor(1),)),
    "while, what is not carried": (power_iteration, (torch.eye(3) + 0.1, torch.tensor([1.0, 2, 3]))),
}


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("fn, args", CASES.values(), ids=CASES)
def test_control_flow_is_compiled(fn: Callable[..., Any], args: tuple[Tensor, ...], device: str) -> None:
    got = compiled(fn)(*(a.to(device) for a in args))
    torch.testing.assert_close(torch.utils._pytree.tree_map(lambda t: t.cpu(), got), fn(*args))


@pytest.mark.parametrize("x", [POSITIVE, NEGATIVE], ids=["true", "false"])
def test_gradients_go_through_the_branch_taken(x: Tensor) -> None:
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    compiled(branch)(ours).square().sum().backward()
    branch(theirs).square().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_one_executable_serves_both_branches() -> None:
    fn = compiled(branch)
    fn(POSITIVE)
    before = programs()
    torch.testing.assert_close(fn(NEGATIVE), branch(NEGATIVE))
    assert programs() == before


@pytest.mark.parametrize("dynamic", [True, False])
def test_sizes_and_numbers_in_branches(dynamic: bool) -> None:
    def fn(x: Tensor, n: int) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * x.shape[0] + n, lambda x: x - x.shape[0] * n, (x,))

    ours = compiled(fn, dynamic=dynamic)
    for rows, n in ((2, 3), (4, 3), (4, 5)):
        for sign in (1, -1):
            x = sign * torch.ones(rows, 2)
            torch.testing.assert_close(ours(x, n), fn(x, n))


@pytest.mark.parametrize("x", [POSITIVE, NEGATIVE], ids=["true", "false"])
def test_branches_and_loops_hold_constants(x: Tensor) -> None:
    def fn(x: Tensor) -> Any:
        def inner(x: Tensor) -> Tensor:
            return torch.cond(
                x.max() > 3, lambda x: x + torch.tensor([1.0, 2, 3]), lambda x: x * torch.tensor(5.0), (x,)
            )

        y = torch.cond(x.sum() > 0, inner, lambda x: x - torch.tensor([4.0, 5, 6]), (x,))
        start = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, y: i < torch.tensor(3), lambda i, y: (i + 1, y * torch.tensor(2.0)), (start, y))

    torch.testing.assert_close(compiled(fn)(x), fn(x))


@torch.library.custom_op("branches::unknown", mutates_args=())
def unknown(x: Tensor) -> Tensor:
    return x.exp()


unknown.register_fake(torch.empty_like)


def test_a_branch_that_cannot_be_compiled_runs_on_the_host() -> None:
    def fn(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: unknown(x), lambda x: x * 2, (x,)) + 1

    torch._dynamo.reset()
    x = torch.eye(3)
    with pytest.warns(UserWarning, match=r"unknown.* runs on the host"):
        torch.testing.assert_close(torch.compile(fn, backend="torchtpu")(x), fn(x))
    with pytest.raises(torchtpu.UnsupportedOp, match=r"unknown"):
        compiled(fn)(x)


def test_an_exported_branch_lowers_without_python(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return branch(x)

    torch.export.save(torch.export.export(Model(), (POSITIVE,)), tmp_path / "model.pt2")
    lowered = subprocess.run([TPUTC, "lower", tmp_path / "model.pt2"], capture_output=True, text=True, check=True)
    assert "stablehlo.if" in lowered.stdout
