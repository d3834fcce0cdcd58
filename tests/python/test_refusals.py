"""What PyTorch refuses for its element types, sizes or ranges is refused on device "tpu" in the same words."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

Call = Callable[[Callable[..., Tensor]], Any]

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.bfloat16,
    torch.float32,
    torch.complex64,
    torch.float8_e5m2,
]


def on(device: str) -> Callable[..., Tensor]:
    """Makes tensors of numbers there."""
    return lambda values, dtype=None: torch.tensor(values, dtype=dtype).to(device)


def outcome(call: Callable[[], Any]) -> Any:
    """What `call` gives, or how it fails."""
    try:
        result = call()
    except Exception as error:
        return type(error).__name__, str(error)
    return result.cpu().tolist() if isinstance(result, Tensor) else result


def assert_refused(call: Call) -> None:
    """By both, in the same words."""
    theirs = outcome(lambda: call(on("cpu")))
    assert isinstance(theirs, tuple), "the CPU refuses it"
    assert outcome(lambda: call(on("tpu"))) == theirs


# --- element types ---------------------------------------------------------------------------------------------------


# What gives a complex type that the device does not have, or is not known to PyTorch's meta kernel.
OTHERS = {(torch.bfloat16, torch.complex64), (torch.complex64, torch.float8_e5m2)}


@pytest.mark.parametrize("a", DTYPES, ids=str)
def test_types_are_promoted_or_refused_as_on_the_cpu(a: torch.dtype) -> None:
    condition = [True, False]
    for b, shape in itertools.product(DTYPES, ([1, 2], 1)):
        if shape == 1 and (a, b) in OTHERS:
            continue

        def chosen(device: str, b: torch.dtype = b, shape: Any = shape) -> Any:
            new = on(device)
            return outcome(lambda: torch.where(new(condition), new([3, 4]).to(a), new(shape).to(b)))

        assert chosen("tpu") == chosen("cpu"), (b, shape)


PROMOTED: dict[str, Call] = {
    "add": lambda new: new([1], torch.uint16) + new([-5]),
    "add_": lambda new: new([1], torch.uint16).add_(new([-5])),
    "into a wider one": lambda new: new([1]).add_(new([1], torch.uint32)),
    "lt": lambda new: new([1], torch.uint16) < new([-5]),
    "eq": lambda new: new([1], torch.uint64) == new([-5]),
    "maximum": lambda new: torch.maximum(new([1], torch.uint16), new([5])),
    "pow": lambda new: torch.pow(new([2], torch.uint16), new([5])),
    "and": lambda new: new([1], torch.uint32) & new([1]),
    "clamp": lambda new: torch.clamp(new([1], torch.uint16), new([1]), new([2])),
    "cat": lambda new: torch.cat([new([1], torch.uint16), new([5])]),
    "cat of nothing": lambda new: torch.cat([new([1], torch.uint16), new([], torch.long)]),
    "stack": lambda new: torch.stack([new([1], torch.uint16), new([5])]),
    "block_diag": lambda new: torch.block_diag(new([1], torch.uint16), new([[2]])),
    "outer": lambda new: torch.outer(new([1], torch.uint16), new([2])),
    "addr": lambda new: torch.addr(new([[0]]), new([1], torch.uint16), new([2])),
    "dist": lambda new: torch.dist(new([1], torch.uint16), new([2])),
    "vander": lambda new: torch.vander(new([1], torch.uint16)),
    "searchsorted": lambda new: torch.searchsorted(new([1], torch.uint16), new([2])),
    "float8": lambda new: new([1.0], torch.float8_e5m2) == new([1.0]),
    # What goes: a float decides, tensors with dimensions outrank others, and so does any tensor a number.
    "0-d": lambda new: new(1, torch.uint16) + new([-5]),
    "float": lambda new: new([1], torch.uint16) + new([1.5]),
    "number": lambda new: new([3], torch.uint16) * 2,
    "complex number": lambda new: new([3], torch.uint16) * 2j,
}


@pytest.mark.parametrize("name", PROMOTED)
def test_wide_unsigned_integers_do_not_mix(name: str) -> None:
    assert outcome(lambda: PROMOTED[name](on("tpu"))) == outcome(lambda: PROMOTED[name](on("cpu")))


def complex_line(new: Callable[..., Tensor]) -> Tensor:
    return new([1 + 2j, 3j])


MEANINGLESS: dict[str, Call] = {
    **{
        name: lambda new, name=name: getattr(torch, name)(complex_line(new), complex_line(new))
        for name in ("maximum", "minimum", "fmax", "fmin")
    },
    **{
        name: lambda new, name=name: getattr(torch, name)(complex_line(new))
        for name in ("sort", "argsort", "msort", "argmax", "argmin", "isposinf", "isneginf", "aminmax")
    },
    **{name: lambda new, name=name: getattr(torch.fft, name)(complex_line(new)) for name in ("rfft", "ihfft", "rfftn")},
    "max": lambda new: complex_line(new).max(0),
    "min": lambda new: complex_line(new).min(0),
    "topk": lambda new: complex_line(new).topk(1),
    "imag": lambda new: new([1.0]).imag,
    "view_as_real": lambda new: torch.view_as_real(new([1.0])),
    "view_as_complex": lambda new: torch.view_as_complex(complex_line(new)),
    "istft": lambda new: torch.istft(new([[1.0]]), 1),
    "searchsorted": lambda new: torch.searchsorted(complex_line(new), complex_line(new)),
    "bernoulli": lambda new: torch.bernoulli(complex_line(new)),
    "grid_sample": lambda new: torch.nn.functional.grid_sample(new([[[[1]]]]), new([[[[1, 1]]]])),
    "binary_cross_entropy_with_logits": lambda new: torch.nn.functional.binary_cross_entropy_with_logits(
        new([1]), new([1])
    ),
    "unravel_index": lambda new: torch.unravel_index(new([1.0]), (2,)),
}


@pytest.mark.parametrize("name", MEANINGLESS)
@pytest.mark.filterwarnings("ignore:A window was not provided", "ignore:Default grid_sample")
def test_types_that_make_no_sense(name: str) -> None:
    assert_refused(MEANINGLESS[name])


def test_types_that_make_no_sense_in_a_compiled_program() -> None:
    with pytest.raises(TypeError, match="maximum not implemented for complex tensors"):
        torch.compile(torch.maximum, backend="torchtpu")(complex_line(on("cpu")), complex_line(on("cpu")))


@pytest.mark.filterwarnings("ignore:where received a uint8")
def test_a_choice_by_bytes() -> None:
    def choose(new: Callable[..., Tensor]) -> Tensor:
        return torch.where(new([2, 0], torch.uint8), new([1.0, 2.0]), new([3, 4]))

    assert outcome(lambda: choose(on("tpu"))) == outcome(lambda: choose(on("cpu"))) == [1.0, 4.0]


# --- indices and ranges -----------------------------------------------------------------------------------------------

REFUSED: dict[str, Call] = {
    "put_ type": lambda new: new([0, 1]).put_(new([0]), new([1.0])),
    "put_ index": lambda new: new([0, 1]).put_(new([0], torch.int32), new([1])),
    "put_ index before type": lambda new: new([0, 1]).put_(new([0.0]), new([1.0])),
    "put_ count": lambda new: new([0, 1]).put_(new([0, 1]), new([1, 2, 3])),
    "put_ into nothing": lambda new: new([]).put_(new([0]), new([1.0])),
    "take index": lambda new: new([0, 1]).take(new([0], torch.int32)),
    "take of nothing": lambda new: new([]).take(new([0])),
    "index_reduce": lambda new: new([0.0]).index_reduce(0, new([0]), new([1.0]), "sum"),
    "setitem": lambda new: new([1.0, 2.0]).index_put_((new([0]),), new([1])),
    "index_add index": lambda new: new([1.0]).index_add(0, new([0.0]), new([1.0])),
    "index_add rank": lambda new: new([1.0]).index_add(0, new([[0]]), new([1.0])),
    "index_add type": lambda new: new([1.0]).index_add(0, new([0]), new([1])),
    "index_add count": lambda new: new([1.0]).index_add(0, new([0, 0]), new([1.0])),
    "index_copy index": lambda new: new([1.0]).index_copy(0, new([0], torch.int32), new([1.0])),
    "index_copy rank": lambda new: new([1.0]).index_copy(0, new([[0]]), new([1.0])),
    "index_copy ranks": lambda new: new([[1.0]]).index_copy(0, new([0]), new([1.0])),
    "index_copy type": lambda new: new([1.0]).index_copy(0, new([0]), new([1])),
    "index_copy count": lambda new: new([1.0]).index_copy(0, new([0, 0]), new([1.0])),
    "index_copy of one": lambda new: new([1.0]).index_copy(0, new([0, 0]), new(1.0)),
    "index_fill index": lambda new: new([1.0]).index_fill(0, new([0], torch.int32), 1.0),
    "index_fill rank": lambda new: new([1.0]).index_fill(0, new([[0]]), 1.0),
    "index_select index": lambda new: new([1.0]).index_select(0, new([0.0])),
    "index_select of one": lambda new: new(1.0).index_select(0, new([0, 0])),
    "scatter_add index": lambda new: new([1.0]).scatter_add(0, new([0.0]), new([1.0])),
    "take_along_dim": lambda new: torch.take_along_dim(new([1.0]), new([0.0]), 0),
    "sorter type": lambda new: torch.searchsorted(new([1.0]), new([1.0]), sorter=new([0.0])),
    "sorter shape": lambda new: torch.searchsorted(new([1.0]), new([1.0]), sorter=new([0, 0])),
    "sorter of a number": lambda new: torch.searchsorted(new([1.0]), 1.0, sorter=new([0.0])),
    "topk": lambda new: new([True, False]).topk(1),
    "argmin": lambda new: new([True, False]).argmin(),
    "kthvalue": lambda new: new([1j]).kthvalue(1),
    "kthvalue of flags": lambda new: new([True]).kthvalue(1),
    "mode": lambda new: new([1j]).mode(),
    "median": lambda new: new([1j]).median(0),
    "nanmedian of flags": lambda new: new([True]).nanmedian(0),
    "isin": lambda new: torch.isin(new([1j]), new([1j])),
    "isin of flags": lambda new: torch.isin(new([1]), new([True])),
    "repeat_interleave": lambda new: new([1.0]).repeat_interleave(new([2.0])),
    "repeat_interleave alone": lambda new: torch.repeat_interleave(new([2.0])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_types_and_sizes_of_indices(name: str) -> None:
    assert_refused(REFUSED[name])


RANGES: dict[str, tuple[torch.dtype, int, int | None]] = {
    "uint8": (torch.uint8, 0, 300),
    "int8": (torch.int8, 0, 129),
    "negative": (torch.uint8, -5, 3),
    "int32": (torch.int32, -(2**40), 3),
    "bool": (torch.bool, 0, 3),
    "half": (torch.half, 0, 2**17),
    "from half": (torch.half, -(2**17), 3),
    "complex": (torch.complex64, 0, 3),
    "float8": (torch.float8_e5m2, 0, 3),
    "empty": (torch.uint8, 500, 300),
    "open": (torch.uint8, 300, None),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_of_random_numbers(name: str) -> None:
    dtype, low, high = RANGES[name]

    def drawn(device: str) -> list[Any]:
        x = torch.empty(3, device=device, dtype=dtype)
        # A program that numbers in range have run is no other for these.
        if (dtype.is_floating_point and dtype.itemsize > 1) or not (dtype.is_floating_point or dtype.is_complex):
            for top in (1, 2):
                x.random_(0, top)
        calls: list[Callable[[], Any]] = [lambda: x.random_(low, high)]
        if high is not None:
            calls.append(lambda: torch.randint(low, high, (3,), dtype=dtype, device=device))
        return [outcome(call) for call in calls]

    assert drawn("tpu") == drawn("cpu")


@pytest.mark.parametrize(
    ("dtype", "low", "top"), [(torch.uint8, 250, 255), (torch.bool, 1, 1), (torch.half, 2040, 2048)]
)
def test_ranges_that_reach_as_far_as_the_type(dtype: torch.dtype, low: int, top: int) -> None:
    x = torch.empty(1000, device="tpu", dtype=dtype).random_(low, None).cpu().int()
    assert (x.min().item(), x.max().item()) == (low, top)


# --- `out=` -----------------------------------------------------------------------------------------------------------

VALUES, PLACES = torch.float64, torch.int32


def outs(new: Callable[..., Tensor], values: torch.dtype, places: torch.dtype) -> tuple[Tensor, Tensor]:
    return new([], values), new([], places)


def line(new: Callable[..., Tensor]) -> Tensor:
    return new([3.0, 1.0, 2.0])


def with_places(op: Callable[..., Any], *args: Any) -> dict[str, Call]:
    name = f"{op.__name__}{args}"
    return {
        f"{name} values": lambda new: op(line(new), *args, out=outs(new, VALUES, torch.long)),
        f"{name} places": lambda new: op(line(new), *args, out=outs(new, torch.float32, PLACES)),
    }


def with_one(op: Callable[..., Any], out: torch.dtype, *args: Any) -> dict[str, Call]:
    return {f"{op.__name__} {out}": lambda new: op(line(new), *args, out=new([], out))}


OUTS: dict[str, Call] = {
    **with_places(torch.sort),
    **with_places(torch.kthvalue, 1),
    **with_places(torch.median, 0),
    **with_places(torch.nanmedian, 0),
    **with_places(torch.mode, 0),
    **with_places(torch.cummax, 0),
    **with_places(torch.cummin, 0),
    **with_one(torch.msort, VALUES),
    **with_one(torch.clamp, VALUES, 0, 1),
    **with_one(torch.clamp, torch.half, 0, 1),
    **with_one(torch.clamp_min, VALUES, 0),
    **with_one(torch.clamp_max, VALUES, 0),
    **with_one(torch.logcumsumexp, VALUES, 0),
    "take": lambda new: torch.take(line(new), new([0]), out=new([], VALUES)),
    "complex": lambda new: torch.complex(line(new), line(new), out=new([], torch.complex128)),
    "bucketize": lambda new: torch.bucketize(line(new), line(new), out=new([], PLACES)),
    "bucketize narrowly": lambda new: torch.bucketize(line(new), line(new), out_int32=True, out=new([], torch.long)),
    "searchsorted": lambda new: torch.searchsorted(line(new), line(new), out=new([], PLACES)),
    "renorm": lambda new: torch.renorm(new([[1.0]]), 2, 0, 1, out=new([], VALUES)),
    "qr": lambda new: torch.linalg.qr(new([[1.0]]), out=outs(new, VALUES, torch.float32)),
}


@pytest.mark.parametrize("name", OUTS)
def test_types_of_out(name: str) -> None:
    assert_refused(OUTS[name])


CONVERTED: dict[str, Call] = {
    "cumsum": lambda new: torch.cumsum(line(new), 0, out=new([], VALUES)),
    "add": lambda new: torch.add(line(new), 1, out=new([], VALUES)),
    "clamp by tensors": lambda new: torch.clamp(line(new), new([0.0]), out=new([], VALUES)),
    "eq": lambda new: torch.eq(line(new), line(new), out=new([], PLACES)),
}


@pytest.mark.parametrize("name", CONVERTED)
def test_other_types_of_out_are_converted_to(name: str) -> None:
    assert outcome(lambda: CONVERTED[name](on("tpu"))) == outcome(lambda: CONVERTED[name](on("cpu")))
