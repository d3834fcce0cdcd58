"""What ``torch.compile(backend="torchtpu")`` computes where ops, types and views meet at their edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torchtpu
from test_backend import check, compiled
from torch import Tensor, nn


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_as_strided_reads_the_storage_around_a_view(device: str, dynamic: bool | None) -> None:
    def parts(x: torch.Tensor, n: int) -> tuple[torch.Tensor, ...]:
        return torch.as_strided(x, (n, 3), (1, 4), 2) + 1, torch.as_strided(x, (2, n), (n, 1)) * 2, x.sum()

    torch._dynamo.reset()
    step = torch.compile(parts, backend="torchtpu", fullgraph=True, dynamic=dynamic, options={"fallback": "error"})
    for start, n in ((8, 3), (3, 2), (0, 3), (3, 4)):
        base = torch.arange(20.0).to(device)
        theirs = base.cpu()[start : start + 4]
        torch.testing.assert_close(step(base[start : start + 4], n), parts(theirs, n), check_device=False)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.narrow(0, 1, x.shape[0] - 2),
        lambda x: x[: x.shape[0] - 2, ::2],
        lambda x: x[:, 1:2].expand(x.shape[0], 5),
        lambda x: x.expand(2, *x.shape).transpose(0, 1),
        lambda x: x.view(x.shape[0], 1, 2).expand(x.shape[0], 3, 2),
        lambda x: torch.broadcast_tensors(x[:, None], x[None])[0],
        lambda x: x.view(-1)[: x.shape[0]].expand(3, x.shape[0]),
        lambda x: x[6:],
    ],
    ids=["narrow", "slice", "column", "transposed", "row", "broadcast", "flat", "rest"],
)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_views_of_an_input_whose_symbolic_size_the_graph_fixes(
    view: Callable[[Tensor], Tensor], dynamic: bool | None, device: str
) -> None:
    """AOTAutograd does not call such views again: it makes them by the strides and offset of what the graph gives."""

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        return len(x.split(3)) * x, view(x)  # seven rows leave a part of one

    torch._dynamo.reset()
    step = torch.compile(program, backend="torchtpu", dynamic=dynamic)
    base = torch.arange(80.0).reshape(40, 2)
    for start, n in ((0, 5), (0, 7), (3, 7), (0, 10)):
        mine, theirs = (t[start : start + n] if start else t[:n].clone() for t in (base.to(device), base))
        mine.requires_grad_(), theirs.requires_grad_()
        (got, want) = (step(mine)[1], program(theirs)[1])
        torch.testing.assert_close(got, want, check_device=False, check_stride=True)
        assert got.storage_offset() - mine.storage_offset() == want.storage_offset() - theirs.storage_offset()
        weights = torch.linspace(0, 1, want.numel()).reshape(want.shape)
        (got,) = torch.autograd.grad((got * weights.to(device)).sum(), mine)
        torch.testing.assert_close(got, torch.autograd.grad((want * weights).sum(), theirs)[0], check_device=False)


def test_as_strided_at_places_that_the_graph_computes() -> None:
    torch._dynamo.reset()
    step = torch.compile(lambda x, n: torch.as_strided(x, (n * n,), (1,)) + 1, backend="torchtpu", dynamic=True)
    x = torch.arange(20.0)[5:]
    with pytest.raises(torchtpu.UnsupportedOp, match="places that the graph computes") as caught:
        step(x, 3)
    assert caught.value.file == __file__ and f"{__file__}:{caught.value.line}" in str(caught.value)


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y[1:].copy_(y[:3].clone()),
        lambda y: y[:3].copy_(y[1:].clone()),
        lambda y: y[:, 1:3].copy_(y[:, :2].clone() + 1),
        lambda y: y[:, 2:5].copy_(y[:, 2:5].flip(1)),
        lambda y: y[1:3, 2:5].copy_(y[2:4, 1:4].clone()),
        lambda y: y[:2].copy_(y.view(24)[5:17].view(2, 6).clone()),
        lambda y: y[1].copy_(y[0] * 2 + y[2]),
        lambda y: y[0].copy_(y.sum(0)),
        lambda y: [y[i].add_(y[i - 1]) for i in range(1, 4)],
        lambda y: y[1:3].mul_(2),
    ],
    ids=["down", "up", "right", "flip", "block", "reshaped", "rows", "sum", "in turn", "in place"],
)
@pytest.mark.parametrize("device", ["cpu", "tpu", "eager"])
def test_a_write_of_what_is_computed_from_other_elements(write: Callable[[torch.Tensor], object], device: str) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.clone()
        write(y)
        return y, y.view(24)[2:8], y + 1, y.t()

    x = torch.arange(24.0).view(4, 6)
    torch._dynamo.reset()
    step = program if device == "eager" else torch.compile(program, backend="torchtpu", fullgraph=True)
    got = step(x.to("cpu" if device == "cpu" else "tpu"))
    torch.testing.assert_close(got, program(x), check_device=False)


def test_writes_to_what_a_larger_value_was_cut_to() -> None:
    """Functional graphs cut it once for the write and once for what is written."""

    def moved(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        v = nn.functional.pad(x, (0, 0, 1, 0))[:6]
        flat = v.view(-1)
        flat[2:] = flat[:-2] * 0.25 + 0.5
        before = v.clone()
        v[2:] = v[:-2] * 0.25
        right = v.clone()
        right[:, 3:] = right[:, :-3] + 1
        return v, before, right, right.clone()

    x = torch.arange(36.0).reshape(6, 6)
    torch.testing.assert_close(compiled(moved)(x.clone()), moved(x.clone()))


def test_a_graph_that_hands_on_its_input_is_counted_apart() -> None:
    torch._dynamo.reset()
    before = torchtpu.stats()
    x = torch.ones(3)
    assert torch.equal(torch.compile(lambda x: x.contiguous(), backend="torchtpu", fullgraph=True)(x), x)
    after = torchtpu.stats()
    assert after["shared"] == before["shared"] + 1
    assert after["executions"] == before["executions"] + 1
    torch.compile(torch.neg, backend="torchtpu", fullgraph=True)(x)
    assert torchtpu.stats()["shared"] == after["shared"]


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_every_call_counts_as_an_execution(device: str) -> None:
    f, x = torch.compile(lambda x: x * 2 + 1, backend="torchtpu"), torch.ones(4, device=device)
    f(x)
    before = torchtpu.stats()
    for _ in range(3):
        f(x)
    after = torchtpu.stats()
    assert after["executions"] == before["executions"] + 3
    assert after["execute_seconds"] > before["execute_seconds"]


def test_a_product_by_truth_values_keeps_nan_and_signs() -> None:
    x = torch.tensor([[math.nan, math.inf, -1.0], [2.0, -0.0, 0.0]])
    mask = torch.zeros_like(x, dtype=torch.bool)
    for program in (
        lambda x, mask: x * mask,
        lambda x, mask: mask.to(x.dtype) * x,
        lambda x, mask: x * mask.to(torch.int32).float(),
        lambda x, mask: x * (x > 5),
    ):
        torch._dynamo.reset()
        expected = program(x, mask)
        for got in (
            torch.compile(program, backend="torchtpu")(x, mask),
            torch.compile(program, backend="torchtpu", options={"optimize": False})(x, mask),
            program(x.to("tpu"), mask.to("tpu")).cpu(),
        ):
            torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
            assert torch.equal(got.signbit() | got.isnan(), expected.signbit() | expected.isnan())


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.float16])
def test_floor_division_of_a_0d_tensor_and_a_number(dtype: torch.dtype) -> None:
    for program in (lambda x: x // 2, lambda x: 2 // x, lambda x: torch.floor_divide(x, 2)):
        for x in (torch.tensor(7, dtype=dtype), torch.tensor([7, -7], dtype=dtype)):
            torch._dynamo.reset()
            got = torch.compile(program, backend="torchtpu")(x)
            torch.testing.assert_close(got, program(x))


def test_clamping_integers_by_numbers_they_cannot_be() -> None:
    for dtype, bounds in ((torch.uint8, [(-1, 1), (None, 300), (-300, 5)]), (torch.int32, [(-(2**40), 1)])):
        x = torch.tensor([0, 6, 100], dtype=dtype)
        for low, high in bounds:
            torch._dynamo.reset()
            expected = x.clamp(low, high)
            got = torch.compile(lambda x, low=low, high=high: x.clamp(low, high), backend="torchtpu")(x)
            torch.testing.assert_close(got, expected)
            torch.testing.assert_close(x.to("tpu").clamp(low, high).cpu(), expected)
    with pytest.raises(RuntimeError, match="Clamp min value 300 is outside the representable range of Byte"):
        torch.tensor([1], dtype=torch.uint8, device="tpu").clamp(300).cpu()


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers_wrap(dtype: torch.dtype) -> None:
    """Squares and absolute values are negative where they do not fit, which XLA does not expect of them."""
    least = torch.iinfo(dtype).min
    x = torch.tensor([least, least // 2 - 1, math.isqrt(-least) + 1, 3], dtype=dtype)
    check(lambda x: (x * x < 0, (x * x) // 4, x.square() < 0, x.abs() < 0, x.abs() // 2, x.abs().clamp(min=0)), x)


def test_numbers_in_code_are_exact() -> None:
    """Every float64 as it is written, the greatest of each type among them, and what a mask is filled with."""
    floats = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
    random = np.random.default_rng(0)
    numbers = [float(n) for n in random.standard_normal(100) * 10.0 ** random.integers(-300, 300, 100)]
    numbers += [
        sign * getattr(torch.finfo(t), end) for t in floats for end in ("max", "tiny", "eps") for sign in (1, -1)
    ]
    zero = torch.zeros((), dtype=torch.float64)
    added = compiled(lambda x: torch.stack([x + n for n in numbers]))(zero)
    assert added.tolist() == numbers

    for dtype in floats:
        least = torch.finfo(dtype).min
        filled = compiled(lambda x, least=least: x.masked_fill(x > 0, least))(torch.ones(2, dtype=dtype))
        assert filled.tolist() == [least, least]


NUMBERS: dict[str, Callable[[int], float]] = {
    "abs": lambda k: abs(k) * 3,
    "bits": lambda k: (k ^ 5) + (k & 6) + (k | 8) + ~k,
    "round": lambda k: round(k / 4) + round(k / 3, 2),
    "shifts": lambda k: (k << 2) + (k >> 1),
    "sines": lambda k: math.sin(k) + math.cos(k) + math.tan(k) + math.asin(k / 99) + math.acos(k / 99) + math.atan(k),
    "hyperbolic": lambda k: math.sinh(k / 9) + math.cosh(k / 9) + math.tanh(k / 9),
    "logarithms": lambda k: math.log2(abs(k) + 1) + math.log(abs(k) + 1) + math.sqrt(abs(k)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_python_computes_with_symbolic_numbers_in_one_graph(name: str) -> None:
    def program(x: Tensor, k: int) -> Tensor:
        return x * NUMBERS[name](k) + x

    torch._dynamo.reset()
    step = torch.compile(program, backend="torchtpu", dynamic=True, options={"fallback": "error"})
    x = torch.tensor([1.0, -2.5], dtype=torch.float64)
    for k in (2, 14, -5, 30, 6):  # 14 / 4 and 6 / 4 are halves
        torch.testing.assert_close(step(x, k), program(x, k))


CHAINS: dict[str, tuple[Callable[[Tensor], Tensor], list[float]]] = {
    "factors": (lambda x: x * 1e20 * 1e20, [0.0, 1e-10, -1e-10]),
    "many factors": (lambda x: x * 1e20 * 1e10 * 1e15, [0.0, 1e-10]),
    "small factors": (lambda x: x * 1e-30 * 1e-30, [1e30]),
    "divisors": (lambda x: x / 1e-20 / 1e-20, [0.0, 1e-10]),
    "a factor and a divisor": (lambda x: x * 1e30 / 1e-20, [0.0, 1e-20]),
    "summands": (lambda x: x + 3e38 + 3e38, [-3e38]),
    "subtrahends": (lambda x: x - 3e38 - 3e38, [3e38]),
}


@pytest.mark.parametrize("options", [{}, {"numerics": "exact"}, {"optimize": False}], ids=str)
@pytest.mark.parametrize("name", CHAINS)
def test_numbers_that_overflow_together_meet_one_by_one(name: str, options: dict[str, Any]) -> None:
    chain, x = CHAINS[name][0], torch.tensor(CHAINS[name][1])
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(chain, backend="torchtpu", options=options)(x), chain(x))


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_the_error_function_ends_at_one(device: str) -> None:
    x = torch.tensor([math.inf, -math.inf, 3.92, -4.5, 100, -1000, 3.9, 0.5, -0.0, math.nan], device=device)

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.erf(x), torch.nn.functional.gelu(x[2:])  # PyTorch's GELU of infinity is NaN

    compiled = torch.compile(program, backend="torchtpu")
    for erf, gelu in [compiled(x)] + [program(x)] * (device == "tpu"):
        torch.testing.assert_close((erf.cpu(), gelu.cpu()), program(x.cpu()), equal_nan=True)
        assert erf[:6].tolist() == [1, -1, 1, -1, 1, -1]
        assert gelu[2:4].tolist() == [100, 0]


@pytest.mark.parametrize("exponent", [True, False])
def test_a_power_of_truth_values(exponent: bool) -> None:
    x = torch.tensor([True, False, True])
    compiled = torch.compile(lambda x: x**exponent + 1, backend="torchtpu")
    assert compiled(x).tolist() == (x**exponent + 1).tolist()
    result = x.to("tpu") ** exponent
    assert result.dtype == torch.bool and result.tolist() == (x**exponent).tolist()


def test_a_spectrum_of_several_signals_comes_back() -> None:
    def there_and_back(x: Tensor) -> Tensor:
        window = torch.hann_window(8)
        return torch.istft(torch.stft(x, 8, 4, window=window, return_complex=True), 8, 4, window=window, length=40)

    x = torch.randn(2, 40)
    torch.testing.assert_close(torch.compile(there_and_back, backend="torchtpu")(x), x)


REFUSED: dict[str, tuple[Callable[[Tensor], object], Tensor]] = {
    "no elements": (lambda x: x.max(0), torch.empty(0, 3)),
    "an element type": (lambda x: x.softmax(0), torch.tensor([1, 2])),
    "truth values": (lambda x: -x, torch.tensor([True])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_raises_its_class(name: str) -> None:
    call, x = REFUSED[name]
    with pytest.raises((RuntimeError, IndexError)) as plain:
        call(x)
    for tried in (lambda: torch.compile(call, backend="torchtpu")(x), lambda: call(x.to("tpu"))):
        with pytest.raises(plain.type):
            tried()


RAGGED = {
    "sin": torch.sin,
    "softmax": lambda n: torch.softmax(n, -1),
    "linear": lambda n: nn.functional.linear(n, torch.arange(20.0).reshape(5, 4)),
}


@pytest.mark.parametrize("name", RAGGED)
def test_nested_tensors_of_rows_of_different_lengths(name):
    for lengths in ([2, 3], [4, 1, 2]):
        n = torch.nested.nested_tensor([torch.randn(length, 4) for length in lengths], layout=torch.jagged)
        ours, theirs = compiled(RAGGED[name])(n), RAGGED[name](n)
        torch.testing.assert_close(ours.values(), theirs.values())
        assert [t.shape for t in ours.unbind()] == [t.shape for t in theirs.unbind()]
        (ours + theirs).values()  # both have the rows of `n`
