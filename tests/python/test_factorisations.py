"""Factorisations by PyTorch's LAPACK, compiled and by eager ops: what the CPU's eager gives."""

from collections.abc import Callable

import pytest
import torch
import torchtpu
from test_check import needs_libtpu
from test_products import needs_mkl
from torch import Tensor

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
linalg = torch.linalg


def hermitian(x: Tensor) -> Tensor:
    return (x + x.mH) / 2


def positive(x: Tensor) -> Tensor:
    return x @ x.mH + x.shape[-2] * torch.eye(x.shape[-2], dtype=x.dtype, device=x.device)


def products(x: Tensor) -> tuple[Tensor, ...]:
    """What eigenvectors and singular vectors make, whatever their signs."""
    values, vectors = linalg.eigh(hermitian(x @ x.mH))
    u, s, vh = linalg.svd(x, full_matrices=False)
    full = linalg.svd(x)
    return (
        values,
        vectors * values.unsqueeze(-2) @ vectors.mH,
        s,
        u * s.unsqueeze(-2) @ vh,
        full[0] @ full[0].mH,
        full[2] @ full[2].mH,
        linalg.svdvals(x),
        linalg.eigvalsh(x @ x.mH),
    )


def general(x: Tensor) -> tuple[Tensor, ...]:
    """Eigenvalues come in no order that rounding leaves alone: what they make is compared."""
    square = x @ x.mH + x[..., :1] * torch.arange(x.shape[-2], device=x.device)
    values, vectors = linalg.eig(square)
    alone = linalg.eigvals(square)
    return (
        vectors * values.unsqueeze(-2) @ linalg.inv(vectors),
        vectors.abs().square().sum(-2),
        values.sum(-1),
        alone.sum(-1),
        alone.square().sum(-1),
    )


def factors(x: Tensor) -> tuple[Tensor, ...]:
    square = positive(x)
    lu, pivots = linalg.lu_factor(x)
    packed, tau = torch.geqrf(x)
    p, lower, upper = linalg.lu(x)
    return (
        lu,
        pivots,
        p @ lower @ upper,
        *linalg.qr(x),
        *linalg.qr(x, "complete"),
        torch.ormqr(packed, tau, x),
        torch.ormqr(packed, tau, x, transpose=True),
        *linalg.cholesky_ex(square),
        *linalg.cholesky_ex(square, upper=True),
        linalg.solve(square, x),
        linalg.solve(square, x.mH, left=False),
        linalg.inv(square),
        linalg.det(square / x.shape[-2] / 4),
        *linalg.slogdet(square),
        linalg.solve_triangular(square, x, upper=True),
        linalg.solve_triangular(square / square.abs().amax((-2, -1), True), x, upper=False, unitriangular=True),
        linalg.solve_triangular(square, x.mH, upper=True, left=False),
    )


CASES = [
    (f, dtype, shape) for f in (products, general, factors) for dtype in DTYPES for shape in ((1, 1), (5, 3), (40, 70))
]
CASES += [(f, torch.float32, (3, 50, 4, 4)) for f in (products, factors)] + [(products, torch.float64, (130, 130))]


@pytest.mark.parametrize("f, dtype, shape", CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_what_lapack_gives_is_what_eager_gets(
    f: Callable[..., object], dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    if f is general and shape == (40, 70):
        shape = (12, 7)  # larger ones are too far from normal for their products to be exact
    x = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(len(shape) + shape[-1]))
    wanted = f(x)
    with torch.no_grad():
        compiled = torch.compile(lambda x: f(x), backend="torchtpu", dynamic=False)(x)
    # Sums are made in blocks that hang on how a matrix lies.
    tolerance = (
        {"rtol": 2e-4, "atol": 2e-4} if dtype in (torch.float32, torch.complex64) else {"rtol": 1e-8, "atol": 1e-8}
    )
    torch.testing.assert_close(compiled, wanted, **tolerance)
    torch.testing.assert_close(f(x.to("tpu")), wanted, check_device=False, **tolerance)


@needs_mkl
def test_compiled_programs_call_it() -> None:
    x = torch.randn(6, 6)

    def calls(f: Callable[..., object]) -> int:
        text = torchtpu.lower(f, x, stage="stablehlo")
        return text.count("torchtpu.lapack")

    assert calls(lambda x: linalg.eigh(x)) == 1
    assert calls(lambda x: linalg.solve(x, x)) == 4  # factors, the order of rows, and two triangles
    assert calls(lambda x: linalg.svdvals(x)) == 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_has_no_values_and_ends(dtype: torch.dtype, bad: float) -> None:
    x = torch.eye(6, dtype=dtype).repeat(3, 1, 1)
    x[1, 2, 3] = x[1, 3, 2] = bad

    def f(x: Tensor) -> tuple[Tensor, ...]:
        return *linalg.eigh(x), *linalg.svd(x), *torch.ops.aten.linalg_eig(x)

    for made in (torch.compile(f, backend="torchtpu", dynamic=False)(x), f(x.to("tpu"))):
        for part in made:
            finite = part.cpu().isfinite().flatten(1).all(1).tolist()
            assert finite == [True, False, True]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_gradients_through_it(dtype: torch.dtype) -> None:
    a = torch.randn(4, 6, 6, dtype=dtype, generator=torch.Generator().manual_seed(0))

    def loss(x: Tensor) -> Tensor:
        square = positive(x)
        values, vectors = linalg.eigh(square)
        total = (vectors * values.log().unsqueeze(-2) @ vectors.mH).abs().sum() + linalg.svdvals(x).sum()
        total = total + linalg.solve(square, x).abs().sum() + linalg.cholesky(square).abs().sum()
        return total + linalg.qr(x)[1].abs().sum() + linalg.slogdet(square)[1].sum()

    wanted, got, eager = (a.clone().requires_grad_() for _ in range(3))
    loss(wanted).backward()
    torch.compile(lambda x: loss(x), backend="torchtpu", dynamic=False)(got).backward()
    loss(eager.to("tpu")).backward()
    torch.testing.assert_close(got.grad, wanted.grad)
    torch.testing.assert_close(eager.grad, wanted.grad)


def launches(f: Callable[[Tensor], object], x: Tensor) -> list[float]:
    """How often a TPU starts something, forward, and backward if there is that."""
    report = torchtpu.check(lambda x: f(x), x, target="v5e:1x1")
    parts = [report] if report.backward is None else [report, report.backward]
    assert all(part.runs for part in parts)
    return [sum(region["runs"] for region in part.data["cost"]["regions"]) for part in parts]


@needs_libtpu
@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: linalg.eigh(positive(x)), torch.randn(2, 33, 33)),
        (lambda x: linalg.eigvalsh(positive(x)), torch.randn(33, 33)),
        (lambda x: linalg.cholesky(positive(x), upper=True), torch.randn(2, 33, 33)),
        (linalg.inv, torch.randn(2, 33, 33)),
        (lambda x: linalg.lu(x), torch.randn(2, 33, 17)),
        (lambda x: linalg.lu(x), torch.randn(17, 33)),
        (linalg.qr, torch.randn(33, 17)),
        (linalg.qr, torch.randn(2, 17, 33)),
        (lambda x: linalg.qr(x, "complete"), torch.randn(33, 17)),
        (lambda x: linalg.solve_triangular(x, x, upper=True, unitriangular=True), torch.randn(2, 33, 33)),
    ],
    ids=[
        "eigh",
        "eigvalsh",
        "cholesky",
        "inv",
        "tall_lu",
        "wide_lu",
        "tall_qr",
        "wide_qr",
        "complete_qr",
        "triangular",
    ],
)
def test_a_tpu_does_not_launch_every_column(f: Callable[[Tensor], object], x: Tensor) -> None:
    """33 steps, of several launches each, where there are loops."""
    assert max(launches(f, x)) <= 33
    if x.shape[-2:] == (33, 33):
        assert max(launches(f, x.clone().requires_grad_())) <= 33
