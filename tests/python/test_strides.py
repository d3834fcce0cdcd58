"""Eager results and gradients lie in memory as on the CPU, whatever the strides of what they are computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
IMAGE, VOLUME, LINE = (2, 4, 3, 5), (2, 4, 3, 3, 5), (2, 4, 5)


def padded(mode: str) -> Callable[[Tensor], Tensor]:
    return lambda x: F.pad(x, [1, 1] * (len(x.shape) - 2), mode=mode)


def normalized(x: Tensor, training: bool) -> Tensor:
    mean, var, weight, bias = (x.new_full((x.shape[1],), n) for n in (0.5, 2.0, 3.0, 4.0))
    return F.batch_norm(x, mean, var, weight, bias, training=training)


def normalized_by_name(x: Tensor) -> list[Tensor]:
    """What each of the native batch norms gives of `x`, and gradients."""
    mean, var, weight, bias = (x.new_full((x.shape[1],), n) for n in (0.5, 2.0, 3.0, 4.0))
    aten, about = torch.ops.aten, (0.1, 1e-5)
    results = [
        aten._native_batch_norm_legit(x, weight, bias, mean.clone(), var.clone(), True, *about)[0],
        aten._native_batch_norm_legit.no_stats(x, weight, bias, True, *about)[0],
        aten._native_batch_norm_legit_no_training(x, weight, bias, mean, var, *about)[0],
        aten._batch_norm_with_update(x, weight, bias, mean.clone(), var.clone(), *about)[0],
    ]
    saved = (mean, var, mean, var, True, 1e-5, [True, True, True])
    gradients = [
        [
            aten.native_batch_norm_backward(upstream, x, weight, *saved)[0],
            aten.batch_norm_backward(upstream, x, weight, *saved, x.new_empty(0, dtype=torch.uint8))[0],
        ]
        for upstream in (x, x.clone(memory_format=torch.contiguous_format))
    ]
    return [*results, *gradients[0], *gradients[1]]


def unpooled(x: Tensor) -> Tensor:
    places = torch.arange(x[0, 0].numel(), device=x.device).view(x.shape[2:])
    return F.max_unpool2d(x, places.expand(x.shape).contiguous(), 2)


CASES: dict[str, tuple[Callable[[Tensor], Tensor], tuple[tuple[int, ...], ...]]] = {
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (IMAGE, (1, 8, 1, 1), (4, 3, 5))),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), (IMAGE, VOLUME)),
    "max_unpool2d": (unpooled, (IMAGE,)),
    "reflect": (padded("reflect"), (LINE, IMAGE, VOLUME)),
    "replicate": (padded("replicate"), (LINE, IMAGE, VOLUME)),
    "batch_norm, training": (lambda x: normalized(x, True), ((4, 3), LINE, IMAGE, VOLUME, (2, 1, 3, 5), (4, 3, 1, 1))),
    "batch_norm": (lambda x: normalized(x, False), ((4, 3), LINE, IMAGE, VOLUME, (2, 1, 3, 5), (4, 3, 1, 1))),
    "roll": (lambda x: torch.roll(x, 1, 1), (LINE, IMAGE, VOLUME)),
    "roll, all": (lambda x: torch.roll(x, 1), (LINE, IMAGE)),
    "glu": (lambda x: F.glu(x, 1), (IMAGE,)),
    "copysign": (lambda x: torch.copysign(x, x.new_ones(())), (LINE, IMAGE)),
    "div": (lambda x: torch.div(x, x.new_ones(()), rounding_mode="trunc"), (LINE, IMAGE)),
    "div by a number": (lambda x: torch.div(x, 2.0, rounding_mode="trunc"), (LINE, IMAGE)),
    "floor_divide": (lambda x: x.detach() // x.new_ones(()), (LINE, IMAGE)),
    "normal": (lambda x: torch.normal(x, torch.zeros_like(x)), (LINE, IMAGE)),
    "dropout's gradient": (
        lambda x: torch.ops.aten.native_dropout_backward(x, x.new_ones(x.shape, dtype=torch.bool), 2.0),
        (LINE, IMAGE),
    ),
}


def layouts(shape: tuple[int, ...]) -> Iterator[Tensor]:
    """One tensor in rows, features last, back to front, transposed, and as every other element."""
    x = torch.randn(shape)
    yield x
    if len(shape) in LAST:
        yield x.to(memory_format=LAST[len(shape)])
    reverse = tuple(reversed(range(len(shape))))
    yield x.permute(reverse).contiguous().permute(reverse)
    yield x.mT.contiguous().mT
    yield torch.randn(*shape[:-1], 2 * shape[-1])[..., ::2]


@pytest.mark.parametrize("name", CASES)
def test_results_lie_as_on_the_cpu(name: str) -> None:
    compute, shapes = CASES[name]
    for x in (x for shape in shapes for x in layouts(shape)):
        want, got = (differentiated(compute, t) for t in (x, as_it_lies(x)))
        for w, g in zip(want, got, strict=True):
            assert g.stride() == w.stride(), (x.shape, x.stride())
            torch.testing.assert_close(g.cpu(), w)


@pytest.mark.parametrize("shape", [LINE, IMAGE, VOLUME, (2, 1, 3, 5)], ids=str)
def test_native_batch_norms_lie_as_on_the_cpu(shape: tuple[int, ...]) -> None:
    with torch.no_grad():
        for x in layouts(shape):
            want, got = (normalized_by_name(t) for t in (x, as_it_lies(x)))
            assert [g.stride() for g in got] == [w.stride() for w in want], x.stride()
            torch.testing.assert_close([g.cpu() for g in got], want)


def as_it_lies(x: Tensor) -> Tensor:
    """On the device, with gaps where `x` has them."""
    return torch.empty_strided(x.shape, x.stride(), device="tpu").copy_(x)


def differentiated(compute: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, ...]:
    """The result, and a gradient if it has one. That of the sum would be 0 behind a normalization."""
    x = x.detach().requires_grad_()
    y = compute(x)
    if not y.requires_grad:
        return (y,)
    weights = torch.arange(y.numel(), dtype=y.dtype).sin().view(y.shape)
    return y.detach(), *torch.autograd.grad(y, x, torch.empty_like(y).copy_(weights))


OF_ROWS: dict[str, Callable[[Tensor], object]] = {
    "pad": lambda x: F.pad(x, (1, 0, 2, 1)),
    "clone": lambda x: x.clone(memory_format=torch.preserve_format),
    "clone, channels last": lambda x: x[None].clone(memory_format=torch.channels_last),
    "contiguous, channels last": lambda x: x[None].contiguous(memory_format=torch.channels_last),
    "to, channels last": lambda x: x[None].to(torch.float16, memory_format=torch.channels_last),
    "zeros_like, channels last": lambda x: torch.zeros_like(x[None], memory_format=torch.channels_last),
    "pad by less": lambda x: F.pad(x, (-1, 0, 1, -2)),
    "rot90": lambda x: torch.rot90(x, 1, [0, 2]),
    "fft": lambda x: torch.fft.fft(x, dim=1),
    "rfft": lambda x: torch.fft.rfft(x, dim=0),
    "irfft": lambda x: torch.fft.irfft(x, dim=0),
    "inv": torch.linalg.inv,
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(5, device=x.device)),
    "qr": torch.linalg.qr,
    "solve": lambda x: torch.linalg.solve(x, x),
    "lu_factor": torch.linalg.lu_factor,
    "nonzero_static": lambda x: torch.nonzero_static(x > 0, size=7),
    "index": lambda x: x[:, x[0, 0].argsort()],
    "index, between": lambda x: x[:, :, x[0, 0].argsort()],
    "flip": lambda x: x.flip(1),
    "sum": lambda x: x.sum(1, keepdim=True),
    "sort": lambda x: x.sort(1),
    "topk": lambda x: x.topk(2, 1),
    "matmul": lambda x: x @ x.mT,
    "where": lambda x: torch.where(x > 0, x, 2.0),
    "pow of truths": lambda x: (x > 0) ** True,
}


@pytest.mark.parametrize("name", OF_ROWS)
def test_results_of_rows_lie_as_on_the_cpu(name: str) -> None:
    """Of most ops no meta kernel is asked then."""
    x = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(0))
    wanted, given = OF_ROWS[name](x), OF_ROWS[name](x.to("tpu"))
    pairs = [(wanted, given)] if isinstance(wanted, Tensor) else zip(wanted, given, strict=True)
    for theirs, ours in pairs:
        assert (ours.dtype, ours.shape, ours.stride()) == (theirs.dtype, theirs.shape, theirs.stride())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_gradients_of_a_batch_norm_without_weights_are_of_the_type_of_its_statistics(dtype: torch.dtype) -> None:
    """The meta kernel says that they are of the input's."""

    def gradients(device: str) -> list[Tensor]:
        x = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0)).to(dtype).to(device)
        mean, var = (torch.full((3,), n, device=device) for n in (0.5, 2.0))
        saved = (mean, var, mean, var, True, 1e-5, [True, True, True])
        return list(torch.ops.aten.native_batch_norm_backward(x, x, None, *saved))

    torch.testing.assert_close(gradients("tpu"), gradients("cpu"), check_device=False)
