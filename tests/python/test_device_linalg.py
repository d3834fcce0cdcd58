"""Factorisations on device "tpu" at sizes where roundings could add up: each by what its factors make."""

from __future__ import annotations

import pytest
import torch
import torchtpu  # noqa: F401 -- the device
from torch import Tensor

DTYPES = (torch.float32, torch.float64, torch.complex128)
N = 40


def drawn(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


def check_near(got: Tensor, wanted: Tensor, scale: Tensor | float = 1.0) -> None:
    """That they differ by no more than roundings of as many numbers as a row has, of the size `scale`."""
    allowed = torch.finfo(wanted.dtype).eps * wanted.shape[-1] * float(scale)
    assert (got.cpu() - wanted).abs().max().item() <= 4 * allowed


def check_unitary(v: Tensor) -> None:
    check_near(v.mH @ v, torch.eye(v.shape[-1], dtype=v.dtype))


@pytest.mark.parametrize("shape", [(N, N), (3, N, 7), (5, N)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_svd(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = drawn(*shape, dtype=dtype)
    u, s, vh = (t.cpu() for t in torch.linalg.svd(a.to("tpu"), full_matrices=True))
    k = s.shape[-1]
    check_near(u[..., :k] * s[..., None, :] @ vh[..., :k, :], a, s.max())
    check_near(s, torch.linalg.svdvals(a), s.max())
    check_unitary(u)
    check_unitary(vh.mH)


@pytest.mark.parametrize("dtype", DTYPES)
def test_svd_of_little_rank(dtype: torch.dtype) -> None:
    a = drawn(N, 3, dtype=dtype) @ drawn(3, N, dtype=dtype)
    u, s, vh = (t.cpu() for t in torch.linalg.svd(a.to("tpu")))
    check_near(u * s @ vh, a, s.max())
    check_near(s[3:], torch.zeros(N - 3, dtype=s.dtype), s.max())
    check_unitary(u)
    check_unitary(vh.mH)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh(dtype: torch.dtype) -> None:
    a = drawn(2, N, N, dtype=dtype)
    a = a + a.mH
    values, vectors = (t.cpu() for t in torch.linalg.eigh(a.to("tpu")))
    scale = values.abs().max()
    check_near(values, torch.linalg.eigvalsh(a), scale)
    check_near(vectors * values[..., None, :] @ vectors.mH, a, scale)
    check_unitary(vectors)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eig(dtype: torch.dtype) -> None:
    a = drawn(2, N, N, dtype=dtype)
    values, vectors = (t.cpu() for t in torch.linalg.eig(a.to("tpu")))
    check_near(a.to(values.dtype) @ vectors, vectors * values[..., None, :], torch.linalg.matrix_norm(a, 2).max())
    check_near(vectors.abs().square().sum(-2), torch.ones(2, N, dtype=a.real.dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_ldl(dtype: torch.dtype) -> None:
    a = drawn(2, N, N, dtype=dtype)
    a = a + a.mH
    ld, pivots, _ = torch.linalg.ldl_factor_ex(a.to("tpu"), hermitian=True)
    assert torch.equal(pivots.cpu(), torch.linalg.ldl_factor_ex(a, hermitian=True).pivots)
    y = drawn(2, N, 3, dtype=dtype)
    x = torch.linalg.ldl_solve(ld, pivots, y.to("tpu"), hermitian=True).cpu()
    check_near(a @ x, y, torch.linalg.matrix_norm(a, 2).max() * x.abs().max())


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrix_exp(dtype: torch.dtype) -> None:
    a = drawn(2, N, N, dtype=dtype) * torch.tensor([0.01, 4.0], dtype=dtype)[:, None, None]
    a = a - a.mH
    check_unitary(torch.linalg.matrix_exp(a.to("tpu")).cpu()[:1])
    inverse = torch.linalg.matrix_exp(-a.to("tpu")).cpu()
    product = torch.linalg.matrix_exp(a.to("tpu")).cpu() @ inverse
    check_near(product, torch.eye(N, dtype=dtype).expand(2, N, N), torch.linalg.matrix_norm(a, 2).max())


@pytest.mark.parametrize("factor", [torch.linalg.svdvals, torch.linalg.eigvalsh, torch.linalg.eigvals])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_not_finite_ends_and_spoils_nothing_else(factor, number: float) -> None:  # type: ignore[no-untyped-def]
    a = torch.eye(6).repeat(2, 1, 1)
    a[0, 2, 3] = a[0, 3, 2] = number
    spoilt, good = factor(a.to("tpu")).cpu()
    assert spoilt.isnan().any()
    torch.testing.assert_close(good, torch.ones_like(good))


@pytest.mark.parametrize("name", ["cholesky_ex", "inv_ex", "solve_ex", "lu_factor_ex", "ldl_factor_ex"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_errors_are_raised_if_they_are_to_be_checked(name: str, batch: tuple[int, ...]) -> None:
    singular = torch.zeros(*batch, 2, 2)
    arguments = (singular, torch.ones(*batch, 2, 1)) if name == "solve_ex" else (singular,)
    run = getattr(torch.linalg, name)
    with pytest.raises(RuntimeError) as wanted:
        run(*arguments, check_errors=True)
    on_tpu = [t.to("tpu") for t in arguments]
    with pytest.raises(type(wanted.value)) as raised:
        run(*on_tpu, check_errors=True)
    # PyTorch says `linalg.` of some and `torch.linalg.` of others.
    got, want = (str(error.value).splitlines()[0].removeprefix("torch.") for error in (raised, wanted))
    assert got == want
    assert torch.equal(run(*on_tpu).info.cpu(), run(*arguments).info), "unchecked"
