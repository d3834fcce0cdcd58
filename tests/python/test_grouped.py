"""Products of groups of rows, as mixtures of experts make them: against the CPU, and what a TPU makes of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torchtpu
from test_check import needs_libtpu
from torch import Tensor

ENDS = ((5, 9, 24), (0, 0, 24), (8, 8, 24), (24, 24, 24))


def grouped(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
    return torch._grouped_mm(x, w, ends)


def operands(dtype: torch.dtype, ends: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, a matrix for each group, and where groups end."""
    torch.manual_seed(0)
    x, w = torch.randn(24, 32, dtype=dtype), torch.randn(3, 32, 16, dtype=dtype)
    return x, w, torch.tensor(ends, dtype=torch.int32)


@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_each_group_has_its_own_matrix(dtype: torch.dtype, ends: tuple[int, ...]) -> None:
    x, w, at = operands(dtype, ends)
    begins = (0, *ends)
    wanted = torch.cat([x[a:b] @ w[i] for i, (a, b) in enumerate(zip(begins, ends, strict=False))])
    compiled = torch.compile(grouped, backend="torchtpu")
    torch.testing.assert_close(compiled(x, w, at), wanted)
    torch.testing.assert_close(grouped(x.to("tpu"), w.to("tpu"), at.to("tpu")).cpu(), wanted)


@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_gradients_are_of_the_rows_of_each_group(ends: tuple[int, ...]) -> None:
    x, w, at = operands(torch.float32, ends)

    def gradients(f: Callable[[Tensor, Tensor, Tensor], Tensor], device: str) -> list[Tensor]:
        own = [t.to(device).requires_grad_() for t in (x, w)]
        loss = (f(*own, at.to(device)) ** 2).sum()
        return [g.cpu() for g in torch.autograd.grad(loss, own)]

    def by_slices(x: Tensor, w: Tensor, _: Tensor) -> Tensor:
        return torch.cat([x[a:b] @ w[i] for i, (a, b) in enumerate(zip((0, *ends), ends, strict=False))])

    wanted = gradients(by_slices, "cpu")
    torch.testing.assert_close(gradients(torch.compile(grouped, backend="torchtpu"), "cpu"), wanted)
    torch.testing.assert_close(gradients(grouped, "tpu"), wanted)


def test_groups_that_threads_share_and_their_gradients() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(200, 256), torch.randn(5, 256, 384)
    at, begins = torch.tensor([40, 40, 41, 150, 200], dtype=torch.int32), [0, 40, 40, 41, 150, 200]

    def gradients(device: str, f: Callable[[Tensor, Tensor], Tensor]) -> list[Tensor]:
        own = [t.to(device).requires_grad_() for t in (x, w)]
        made = f(*own)
        return [made, *torch.autograd.grad(made.sin().sum(), own)]

    wanted = gradients("cpu", lambda x, w: torch.cat([x[begins[i] : begins[i + 1]] @ w[i] for i in range(5)]))
    compiled = torch.compile(grouped, backend="torchtpu")
    # Of 256 products of numbers of the size of one, in any order.
    about = {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(gradients("cpu", lambda x, w: compiled(x, w, at)), wanted, **about)
    torch.testing.assert_close(
        gradients("tpu", lambda x, w: grouped(x, w, at.to("tpu"))), wanted, check_device=False, **about
    )


def test_what_is_no_number_stays_in_its_rows() -> None:
    x, w, at = operands(torch.float32, (5, 9, 24))
    x[7, 3], w[2, 1, 1] = float("nan"), float("inf")
    wanted = torch.cat([x[:5] @ w[0], x[5:9] @ w[1], x[9:] @ w[2]])
    torch.testing.assert_close(torch.compile(grouped, backend="torchtpu")(x, w, at), wanted, equal_nan=True)


@needs_libtpu
@pytest.mark.parametrize("rows", [512, 500])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_tpu_multiplies_all_groups_at_once(dtype: torch.dtype, rows: int) -> None:
    """Without a loop, which launches every step, and without multiplying all rows by every matrix."""
    groups, inner, columns = 8, 256, 384
    x, w = torch.randn(rows, inner, dtype=dtype), torch.randn(groups, inner, columns, dtype=dtype)
    ends = torch.linspace(0, rows, groups + 1)[1:].to(torch.int32)
    report = torchtpu.check(grouped, x.requires_grad_(), w.requires_grad_(), ends, target="v5e:1x1")
    assert report.backward is not None
    for part, products in ((report, 1), (report.backward, 2)):
        assert part.runs
        cost = part.data["cost"]
        assert all(region["runs"] == 1 for region in cost["regions"])
        flops = 2 * rows * inner * columns * products
        assert flops <= cost["flops"] < 1.5 * flops
