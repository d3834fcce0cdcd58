"""Where 16-bit floats are rounded in compiled code, and where they stay `f32` from one op to the next."""

from __future__ import annotations

import pytest
import torch
import torchtpu
from test_backend import compiled
from torch import Tensor


def _five_products(x, y):
    return x * y * y * y * y * y


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numerics_of_16_bit_floats(dtype):
    """Between ops values stay in f32, so that a chain errs as one rounding does, unless every rounding is asked for."""
    torch.manual_seed(0)
    x, y = (torch.rand(256) + 0.5).to(dtype), (torch.rand(256) + 0.5).to(dtype)
    eager, true = _five_products(x, y), _five_products(x.double(), y.double())
    half_ulp = torch.finfo(dtype).eps / 2

    def errors(out):
        return (out.double() / true - 1).abs().max().item()

    assert errors(compiled(_five_products)(x, y)) <= half_ulp * 1.001 < errors(eager)
    for options in ({"numerics": "exact"}, {"optimize": False}):
        torch._dynamo.reset()
        assert torch.equal(compiled(_five_products, options=options)(x, y), eager)


def test_casts_round():
    def f(x):
        return (x * 1.1).bfloat16().float() * 3.0, x.half() + x

    x = torch.randn(64)
    ours, expected = compiled(f)(x), f(x)
    assert torch.equal(ours[0], expected[0]) and torch.equal(ours[1], expected[1])


@pytest.mark.parametrize("target", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("source", [torch.float64, torch.float32])
@pytest.mark.parametrize("count", [8, 5000])  # few elements are compiled with less effort
def test_casts_round_as_often_as_on_the_cpu(source: torch.dtype, target: torch.dtype, count: int) -> None:
    ties = torch.tensor([368 - 2**-7, 1.125 + 2**-20, 1 + 2**-11 + 2**-40, 1 + 2**-8 + 2**-40], dtype=torch.float64)
    x = torch.cat([ties, torch.linspace(-400, 400, count, dtype=torch.float64)]).to(source)
    expected = x.to(target).float()
    for mode in ("strict", "debug"):
        with torchtpu.eager_mode(mode):  # type: ignore[arg-type]
            assert torch.equal(x.to("tpu").to(target).cpu().float(), expected)
    assert torch.equal(torch.compile(lambda x: x.to(target), backend="torchtpu")(x).float(), expected)


def test_a_16_bit_float_is_rounded_where_several_ops_read_it() -> None:
    x = torch.linspace(0.5, 2, 4096).bfloat16()

    def once(x: Tensor) -> Tensor:
        return (x * 1.003) + 0.3

    def twice(x: Tensor) -> Tensor:
        y = x * 1.003
        return (y + 0.3) * y.view(64, 64).reshape(-1)

    wide = x.float() * 1.003
    narrow = wide.bfloat16().float()
    summand = torch.tensor(0.3).bfloat16()  # as the CPU's kernels round what they add
    assert not torch.equal((wide + summand).bfloat16(), (narrow + summand).bfloat16())
    torch._dynamo.reset()
    assert torch.equal(compiled(once)(x), (wide + summand).bfloat16())
    assert torch.equal(compiled(twice)(x), ((narrow + summand) * narrow).bfloat16())


def test_a_16_bit_float_is_rounded_behind_a_convolution() -> None:
    x, w = torch.linspace(0.5, 2, 4096).bfloat16().view(1, 1, -1), torch.full((1, 1, 1), 1.7).bfloat16()

    def forward(x: Tensor, bias: Tensor | None) -> Tensor:
        return torch.conv1d(x * 1.75, w, bias) * 1.003

    wide = (x * 1.75).float() * w.float()
    assert not torch.equal((wide * 1.003).bfloat16(), wide.bfloat16() * 1.003)
    torch._dynamo.reset()
    ours = compiled(forward)
    for bias in (None, torch.full((1,), 0.3).bfloat16()):
        leaf = x.clone().requires_grad_()
        got = ours(leaf, bias)
        assert torch.equal(got, (wide + (0 if bias is None else bias.float())).bfloat16() * 1.003)
        (gradient,) = torch.autograd.grad(got, leaf, x)
        of_result = (x * 1.003).float() * w.float()
        assert not torch.equal((of_result * 1.75).bfloat16(), of_result.bfloat16() * 1.75)
        assert torch.equal(gradient, of_result.bfloat16() * 1.75)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_statistics_are_kept_unrounded(dtype: torch.dtype) -> None:
    """The gradient of a norm over two values is what is left when nearly all cancels: noise, of rounded statistics."""
    torch.manual_seed(0)
    x, grad = ((torch.randn(2, 8, 1, 1) + 4).to(dtype) for _ in range(2))

    def gradient(device: str, dtype: torch.dtype) -> torch.Tensor:
        norm = torch.nn.BatchNorm2d(8).to(device, dtype)
        given = x.to(device, dtype).requires_grad_()
        norm(given).backward(grad.to(device, dtype))
        assert given.grad is not None
        return given.grad.cpu().double()

    exact = gradient("cpu", torch.float64)
    assert (gradient("tpu", dtype) - exact).norm() / exact.norm() < 1e-2
    rows = x.view(2, 8)
    _, mean, rstd = torch.native_layer_norm(rows.to("tpu"), [8], None, None, 1e-5)
    wide = torch.native_layer_norm(rows.float(), [8], None, None, 1e-5)
    torch.testing.assert_close((mean.cpu(), rstd.cpu()), wide[1:])
