"""Device "tpu", eagerly: what a script sees when only its device string changes."""

from __future__ import annotations

import copy
import io
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchtpu
from counting import programs
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

# `make test-all` takes ten thousand.
LEAK_STEPS = int(os.environ.get("TORCHTPU_LEAK_STEPS", "1500"))


def on_tpu(value: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda t: t.to("tpu"), value)


def check(fn: Callable[..., Any], *args: Any) -> None:
    """`fn` on the device gives what it gives on the CPU, and leaves its arguments as it leaves them there."""
    ours, theirs = on_tpu(copy.deepcopy(args)), copy.deepcopy(args)
    got, want = fn(*ours), fn(*theirs)
    torch.testing.assert_close(pytree.tree_map_only(Tensor, Tensor.cpu, got), want)
    torch.testing.assert_close(pytree.tree_map_only(Tensor, Tensor.cpu, ours), theirs)


# --- tensors ----------------------------------------------------------------------------------------------------------


def test_views_and_in_place() -> None:
    def program(x: Tensor) -> Tensor:
        x[1:, ::2] = 7
        x.t().add_(1)
        x.view(-1)[3:5].zero_()
        x.as_strided((2, 2), (5, 1), 1).mul_(2)
        return x.t()[1] + x.select(1, 0)[:1]

    check(program, torch.arange(12.0).reshape(3, 4))


def test_a_storage_is_copied_from_its_own_elements_of_another_type() -> None:
    def program(x: Tensor, y: Tensor, z: Tensor) -> None:
        x.copy_(x.view(torch.int32))
        y.view(torch.int32).copy_(y)
        z[:] = z.real

    check(program, torch.tensor([1.5, 2]), torch.tensor([1.5, 2]), torch.tensor([1 + 2j, 3 - 4j]))


def test_a_storage_seen_as_another_type() -> None:
    def program(x: Tensor) -> list[Tensor]:
        x.view(torch.int32)[0] = 1
        y = torch.view_as_real(torch.complex(x, x))
        y[0] = 5
        return [x, y, x.view(torch.uint8)]

    check(program, torch.arange(4.0))


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_transformer_layers_in_inference(norm_first: bool, activation: str, batch_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first, norm_first=norm_first, activation=activation)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    ours = copy.deepcopy(encoder).to("tpu")
    padding = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]], dtype=torch.bool)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    x = torch.randn(2, 5, 8) if batch_first else torch.randn(5, 2, 8)
    torch.tpu.fallbacks().clear()
    for masks in ({}, {"src_key_padding_mask": padding}, {"mask": causal}, {"mask": causal, "is_causal": True}):
        with torch.no_grad():
            want, got = encoder(x, **masks), ours(x.to("tpu"), **on_tpu(masks)).cpu()
        seen = ~padding if batch_first else ~padding.t()  # what PyTorch gives for padding is nobody's concern
        torch.testing.assert_close(got[seen], want[seen])
    assert not any("transformer" in op or "nested" in op for op, _ in torch.tpu.fallbacks())


FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def laid_out(t: Tensor, last: bool) -> Tensor:
    return t.to(memory_format=FORMATS[t.dim()]) if last else t


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("image", [(5, 6), (4, 5, 6)])
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_lie_as_on_the_cpu(transposed: bool, image: tuple[int, ...], dtype: torch.dtype) -> None:
    convolve = getattr(F, f"conv{'_transpose' * transposed}{len(image)}d")
    for rows, channels, kernel in itertools.product((1, 2), (1, 3), (1, 2)):
        x = torch.randn(rows, channels, *image, dtype=dtype)
        weight = torch.randn(*((channels, 4) if transposed else (4, channels)), *[kernel] * len(image), dtype=dtype)
        for x_last, weight_last, bias in itertools.product((False, True), repeat=3):
            given = [laid_out(x, x_last), laid_out(weight, weight_last), torch.randn(4, dtype=dtype) if bias else None]
            assert convolve(*on_tpu(given)).stride() == convolve(*given).stride()


def test_lines_are_convolved_as_on_the_cpu() -> None:
    x, weight = torch.randn(2, 7, 3).transpose(1, 2), torch.randn(4, 2, 3).transpose(1, 2)
    for given in ([x, weight], [x.contiguous(), weight], [x, weight.contiguous()], [x[0], weight]):
        assert F.conv1d(*on_tpu(given)).stride() == F.conv1d(*given).stride()


# One that drops weights is composed of ops on the CPU, too.
ATTENTION: dict[str, dict[str, Any]] = {
    "full": {},
    "causal": {"is_causal": True},
    "masked": {"attn_mask": torch.tensor([[True, False], [True, True]]).repeat(3, 3)},
    "biased": {"attn_mask": torch.randn(2, 1, 6, 6)},
    "dropping": {"dropout_p": 0.5},
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_lies_as_on_the_cpu(name: str) -> None:
    def attend(joined: Tensor, options: dict[str, Any]) -> Tensor:
        q, k, v = (t.view(2, 6, 4, 2).transpose(1, 2) for t in joined.split(8, -1))
        return F.scaled_dot_product_attention(q, k, v, **options)

    joined, options = torch.randn(2, 6, 24), ATTENTION[name]
    want, got = attend(joined, options), attend(joined.to("tpu"), on_tpu(options))
    assert got.stride() == want.stride()
    if name != "dropping":
        torch.testing.assert_close(got.transpose(1, 2).view(2, 6, 8).cpu(), want.transpose(1, 2).view(2, 6, 8))


def attended(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Query, key and value are one tensor, and one is computed from another."""
    return F.scaled_dot_product_attention(x, x.sin(), x, mask).cos().sum()


@pytest.mark.parametrize("masked", [False, True])
def test_attention_is_differentiated_twice(masked: bool) -> None:
    x, mask = torch.randn(1, 2, 3, 4, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64) if masked else None

    def second(device: str) -> Tensor:
        on_device = x.to(device).requires_grad_()
        (first,) = torch.autograd.grad(attended(on_device, on_tpu(mask)), on_device, create_graph=True)
        return torch.autograd.grad(first.square().sum(), on_device)[0]

    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):  # the CPU's fused kernel has no second derivatives
        want = torch.func.grad(lambda x: torch.func.grad(partial(attended, mask=mask))(x).square().sum())(x)
    torch.testing.assert_close(second("tpu").cpu(), want)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_attention_is_transformed() -> None:
    x = torch.randn(3, 1, 2, 3, 4)

    def program(x: Tensor) -> list[Tensor]:
        tangent = torch.func.jvp(attended, (x[0].clone(),), (x[1].clone(),))[1]
        return [torch.func.vmap(attended)(x), torch.func.vmap(torch.func.grad(attended))(x), tangent]

    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        want = program(x)
    torch.testing.assert_close([t.cpu() for t in program(x.to("tpu"))], want)


UNWRITTEN: dict[str, Callable[[str], Tensor]] = {
    "floats": lambda d: torch.empty(3, device=d),
    "integers": lambda d: torch.empty_like(torch.ones(2, 2, dtype=torch.uint8, device=d)),
    "truth values": lambda d: torch.empty(3, dtype=torch.bool, device=d),
    "in strides": lambda d: torch.empty_strided((2, 3), (1, 2), dtype=torch.bfloat16, device=d),
    "behind others": lambda d: torch.ones(3, device=d).resize_(5),
    "none": lambda d: torch.ones(3, device=d).resize_(2),
}


@pytest.mark.parametrize("name", UNWRITTEN)
def test_memory_that_nobody_wrote_shows_where_all_is_to_be_deterministic(name: str) -> None:
    torch.use_deterministic_algorithms(True)
    try:
        want, got = UNWRITTEN[name]("cpu"), UNWRITTEN[name]("tpu")
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(got.cpu(), want, equal_nan=True, rtol=0, atol=0)


def test_derivatives_of_gamma_close_below_zero() -> None:
    x = torch.tensor([-1e-3, -1e-5, -5e-8, -1e-8, -0.7, -2.3, 0.4, 30.0])
    for n in (1, 2, 3, 10, 20):
        torch.testing.assert_close(torch.polygamma(n, x.to("tpu")).cpu(), torch.polygamma(n, x), rtol=2e-6, atol=0)
        ends = torch.tensor([float("inf"), float("nan")])
        torch.testing.assert_close(torch.polygamma(n, ends.to("tpu")).cpu(), torch.polygamma(n, ends), equal_nan=True)
    s, q = torch.tensor([3.0, 999.0, 10_000.0]), torch.tensor([0.5, 1.5, 1.0, 2.0, -1e-8])
    want = torch.special.zeta(s[:, None], q)
    torch.testing.assert_close(torch.special.zeta(s.to("tpu")[:, None], q.to("tpu")).cpu(), want, equal_nan=True)


def test_traces_and_scripts_of_torchscript_run() -> None:
    layer = torch.nn.Conv2d(2, 3, 3).to("tpu")
    x = torch.randn(1, 2, 5, 5, device="tpu")
    torch.testing.assert_close(torch.jit.trace(layer, x)(x), layer(x))

    @torch.jit.script
    def chosen(x: Tensor, where: Tensor) -> Tensor:
        return x[where]

    row = torch.arange(3.0, device="tpu")
    assert chosen(row, row > 0).tolist() == [1, 2]
    with torchtpu.eager_mode("debug"), pytest.raises(RuntimeError, match="index 5 is out of bounds"):
        chosen(row, torch.tensor([5], device="tpu"))


@pytest.mark.parametrize("value", [torch.tensor(3), torch.tensor([3]), torch.tensor(2.5, dtype=torch.float64)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
def test_masks_are_filled_with_values_of_other_types(dtype: torch.dtype, value: Tensor) -> None:
    def filled(device: str) -> Tensor:
        x = torch.arange(6, dtype=dtype, device=device).view(2, 3)
        x[x > 3] = value
        x[torch.tensor([True, False], device=device)] = value
        return x.cpu()

    torch.testing.assert_close(filled("tpu"), filled("cpu"))


def test_truth_values_are_no_numbers_to_a_difference() -> None:
    for x in (torch.ones(2, device="tpu"), torch.ones(2, dtype=torch.int32, device="tpu")):
        with pytest.raises(NotImplementedError, match="with a bool tensor is not supported"):
            x - True
    assert (torch.ones(2, dtype=torch.int32, device="tpu") + True).tolist() == [2, 2]


def test_out_arguments_are_resized() -> None:
    out = torch.empty(0, device="tpu")
    torch.add(torch.ones(3, device="tpu"), 1, out=out)
    assert out.tolist() == [2, 2, 2]


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_ranges(mode: str) -> None:
    cases: list[tuple[tuple[float, ...], torch.dtype | None]] = [
        ((5,), None),
        ((0,), None),
        ((3, 9, 2), torch.int64),
        ((9, 3, -2), torch.int32),
        ((2**53, 2**53 + 9, 3), torch.int64),
        ((0.5, 3), torch.int64),
        ((0, 1, 0.1), None),
        ((1, 4), torch.bfloat16),
    ]
    with torchtpu.eager_mode(mode):
        for numbers, dtype in cases * 2:
            made = torch.arange(*numbers, dtype=dtype, device="tpu")
            torch.testing.assert_close(made.cpu(), torch.arange(*numbers, dtype=dtype))
        kept = torch.zeros(2, 3, device="tpu")
        torch.arange(6, out=kept)
        assert kept.tolist() == [[0, 1, 2], [3, 4, 5]]
        kept = torch.arange(1, out=torch.empty((), device="tpu"))
        assert kept.shape == ()
        with pytest.raises(RuntimeError, match="upper bound and lower bound inconsistent"):
            torch.arange(5, 1, device="tpu")


def test_a_range_seen_before_asks_no_meta_kernel() -> None:
    torch.arange(7, device="tpu")
    calls = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        torch.arange(7, device="tpu")
    finally:
        sys.setprofile(None)
    assert not [file for file in calls if "_refs" in file or "_meta" in file]


def test_resizing_keeps_what_was_there() -> None:
    check(lambda x: x.resize_(2).resize_(2, 1).clone(), torch.arange(6.0))
    x = torch.arange(6.0, device="tpu")
    assert x.resize_(8)[:6].tolist() == [0, 1, 2, 3, 4, 5]


def test_shared_weights_stay_shared() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    model.to("tpu")
    assert model[1].weight is model[0].weight


def test_saving_copying_and_loading() -> None:
    model = nn.Linear(3, 2).to("tpu")
    again = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    assert state["weight"].device.type == "tpu"
    file.seek(0)
    on_cpu = torch.load(file, map_location="cpu", weights_only=True)
    torch.testing.assert_close(on_cpu["weight"], again.weight.detach().cpu())


def test_printing() -> None:
    x = torch.tensor([1.5, float("nan")], device="tpu")
    assert str(x) == "tensor([1.5000,    nan], device='tpu:0')"


def test_data_dependent_sizes() -> None:
    x = torch.tensor([[0, 1], [2, 0]])
    check(lambda x: [x.nonzero(), x[x > 0], torch.masked_select(x, x > 0), torch.where(x > 0)[0]], x)
    check(lambda x: [x[x > 9], (x + 1).nonzero(), torch.argwhere(x), x[0].nonzero(as_tuple=True)[0]], x)


def test_results_of_unknown_size_lie_as_on_the_cpu() -> None:
    x = torch.randint(0, 2, (3, 9, 4))
    for fn in (torch.nonzero, torch.argwhere, *(partial(torch.unique, dim=d) for d in range(3))):
        got, want = fn(x.to("tpu")), fn(x)
        assert got.stride() == want.stride()
        torch.testing.assert_close(got.cpu(), want)


def test_numbers_are_rounded_as_the_kernels_of_the_cpu_round_them() -> None:
    def program(x: Tensor) -> list[Tensor]:
        third = torch.tensor(1 / 3)
        sums = [x + 1 / 3, 1 / 3 - x, x.sub(x.flip(0), alpha=0.1), x + third, torch._foreach_add([x], 1 / 3)[0]]
        quotients = [x % 0.1, torch.fmod(x, 0.1), x // 0.1, x / 0.1, x * 0.1]
        parameters = [torch.nn.functional.softshrink(x, 0.1), torch.nn.functional.elu(x, 0.1), x.lerp(x.flip(0), 0.1)]
        return [*sums, *quotients, *parameters, torch.atan2(x, third), torch.xlogy(x, 0.3), x.abs() ** 0.3]

    for dtype in (torch.bfloat16, torch.float16):
        x = torch.randn(1000, generator=torch.Generator().manual_seed(0)).to(dtype)
        got, want = program(x.to("tpu")), program(x)
        different = [int((g.cpu() != w).sum()) for g, w in zip(got, want, strict=True)]
        assert max(different) <= 2, different  # roundings of transcendental functions


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_float8_without_infinity_saturates(dtype: torch.dtype) -> None:
    x = torch.tensor([448, 465, 500, 1e4, -3e4, float("inf"), -float("inf"), -2.3]).to(dtype)
    check(lambda x: x.to(torch.float8_e4m3fn).float(), x)
    check(lambda x: (x.nan_to_num(0, 1000, -1000)).int().to(torch.float8_e4m3fn).float(), x)
    assert (x[:2] - float("inf") + float("inf")).to("tpu").to(torch.float8_e4m3fn).float().isnan().all()


def test_data_dependent_sizes_are_read_once_and_kept_nowhere() -> None:
    x = torch.tensor([[0, 1], [2, 0]], device="tpu")
    x.nonzero()
    before = torchtpu.stats()
    places = x.nonzero()
    after = torchtpu.stats()
    assert after["eager"]["sizes_read"] == before["eager"]["sizes_read"] + 1
    assert after["fallbacks"] == before["fallbacks"]
    assert places.untyped_storage().nbytes() == places.numel() * 8


def test_no_program_is_made_for_a_size_that_is_data() -> None:
    x = torch.arange(12.0).reshape(6, 2)
    on_device = x.to("tpu")

    (on_device > 1.5).nonzero()
    torch.masked_select(on_device, on_device > 1.5)
    before = programs()
    for bound in map(float, range(-1, 13)):
        assert torch.equal((on_device > bound).nonzero().cpu(), (x > bound).nonzero())
        assert torch.equal(torch.masked_select(on_device, on_device > bound).cpu(), x[x > bound])
    assert programs() == before


def test_values_are_formed_by_programs_that_are_kept() -> None:
    x = torch.tensor([[1.0, 2.0, 1.0], [3.0, 4.0, 3.0]])
    on_device = x.to("tpu")

    def formed() -> list[Tensor]:
        return [torch.unique(on_device, dim=1), (on_device + 1).view(torch.int16) + 1]

    expected = [torch.unique(x, dim=1), (x + 1).view(torch.int16) + 1]
    formed()
    before = programs()
    assert all(torch.equal(a.cpu(), b) for a, b in zip(formed(), expected, strict=True))
    assert programs() == before


def test_storages_are_counted_when_they_are_made() -> None:
    def made() -> int:
        return int(torchtpu.stats()["eager"]["storages"])

    before = made()
    x = torch.empty(3, device="tpu")
    assert made() == before + 1
    x.view(3, 1).detach().contiguous()
    assert made() == before + 1
    assert torch.empty_like(x).shape == (3,)
    assert made() == before + 2


def test_results_of_unknown_size_into_given_tensors() -> None:
    x = torch.tensor([[0.0, 1.5], [2.5, 0.0]], device="tpu")
    places, values = torch.empty(0, dtype=torch.long, device="tpu"), torch.ones(7, device="tpu")
    assert torch.nonzero(x, out=places) is places
    assert places.tolist() == [[0, 1], [1, 0]]
    assert torch.masked_select(x, x > 2, out=values).tolist() == [2.5]
    assert values.shape == (1,)
    with pytest.raises(RuntimeError, match="Expected object of scalar type Long as out, but got Float"):
        torch.nonzero(x, out=values)


DRAWS: dict[str, Callable[[Tensor], Tensor]] = {
    "gamma below 1": lambda x: torch._standard_gamma(x * 0.3),
    "gamma above 1": lambda x: torch._standard_gamma(x * 7.5),
    "dirichlet": lambda x: torch._sample_dirichlet(x[:, None] * torch.tensor([2.0, 0.5, 3.0]).to(x.device))[:, 1],
    "poisson, few": lambda x: torch.poisson(x * 3.7),
    "poisson, at the border": lambda x: torch.poisson(x * 10),
    "poisson, many": lambda x: torch.poisson(x * 1234.5),
    "binomial, few": lambda x: torch.binomial(x * 30, x * 0.1),
    "binomial, at the border": lambda x: torch.binomial(x * 100, x * 0.1),
    "binomial, many": lambda x: torch.binomial(x * 900, x * 0.3),
    "binomial, likely": lambda x: torch.binomial(x * 900, x * 0.8),
    "binomial, likely and few": lambda x: torch.binomial(x * 30, x * 0.9),
}


@pytest.mark.parametrize("name", DRAWS)
def test_distributions_drawn_by_rejection(name: str) -> None:
    """Moments and quantiles of so many numbers differ from PyTorch's by no more than chance allows."""
    torch.manual_seed(7)
    ones = torch.ones(100_000)
    ours, theirs = DRAWS[name](ones.to("tpu")).cpu().double(), DRAWS[name](ones).double()
    spread = (theirs.var() / len(ones)).sqrt()
    assert abs(ours.mean() - theirs.mean()) < 6 * spread
    fourth = ((theirs - theirs.mean()) ** 4).mean()
    assert abs(ours.var() - theirs.var()) < 6 * (2 * fourth / len(ones)).sqrt()
    for level in (0.01, 0.1, 0.5, 0.9, 0.99):
        bound = theirs.quantile(level)
        below = [(sample <= bound).double().mean() for sample in (ours, theirs)]
        assert abs(below[0] - below[1]) < 6 * (2 * level * (1 - level) / len(ones)) ** 0.5


def test_distributions_of_what_cannot_be_drawn() -> None:
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([0.0, nan, inf, -1.0], device="tpu")
    torch.testing.assert_close(torch.poisson(x).cpu(), torch.tensor([0.0, nan, inf, nan]), equal_nan=True)
    counts, p = (
        torch.tensor([5.0, 5, 0, -1, nan, 5], device="tpu"),
        torch.tensor([0.0, 1, 0.5, 0.5, 0.5, nan], device="tpu"),
    )
    want = torch.tensor([0.0, 5, 0, 0, nan, nan])
    torch.testing.assert_close(torch.binomial(counts, p).cpu(), want, equal_nan=True)
    assert torch._standard_gamma(x)[2].item() == inf


def test_distributions_repeat_by_seed_and_differ_without() -> None:
    rate = torch.full((1000,), 4.0, device="tpu")
    torch.manual_seed(3)
    first, second = torch.poisson(rate), torch.poisson(rate)
    torch.manual_seed(3)
    assert torch.equal(first, torch.poisson(rate)) and not torch.equal(first, second)


def test_distinct_elements() -> None:
    x = torch.tensor([[3, 1, 3], [1, 1, 0]])
    options = {"return_inverse": True, "return_counts": True}
    check(lambda x: [*torch.unique(x, **options), torch.unique(x)], x)
    check(lambda x: [*torch.unique(x, dim=1, **options), *torch.unique_consecutive(x, **options)], x)


def test_sizes_without_a_bound_share_programs() -> None:
    check(lambda x: [x.bincount(), x.bincount(minlength=9), x.repeat_interleave(x)], torch.tensor([3, 0, 3, 1]))
    torch.tensor([5, 2, 0], device="tpu").bincount()
    before = torchtpu.stats()["eager"]["traced"]
    assert torch.tensor([7, 2, 2], device="tpu").bincount().shape == (8,)
    assert torchtpu.stats()["eager"]["traced"] == before
    with pytest.raises(RuntimeError, match="bincount only supports 1-d non-negative integral inputs"):
        torch.tensor([1, -1], device="tpu").bincount()
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        torch.tensor([1, -1], device="tpu").repeat_interleave(torch.tensor([1, -1], device="tpu"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("periodic", [True, False])
def test_kaiser_windows(periodic: bool, dtype: torch.dtype) -> None:
    for length in (0, 1, 2, 7, 12):
        ours = torch.kaiser_window(length, periodic, 9.5, dtype=dtype, device="tpu")
        torch.testing.assert_close(ours.cpu(), torch.kaiser_window(length, periodic, 9.5, dtype=dtype))


@pytest.mark.parametrize("activation", [F.silu, F.mish])
def test_gradients_that_the_cpu_rounds_once_are_rounded_once(activation: Callable[..., Tensor]) -> None:
    x = torch.linspace(-4, 4, 401, dtype=torch.bfloat16)
    exact, ours = x.double().requires_grad_(), x.to("tpu").requires_grad_()
    activation(exact).sum().backward()
    activation(ours).sum().backward()
    # Half a step of bfloat16's 8 bits.
    torch.testing.assert_close(ours.grad.cpu().double(), exact.grad, rtol=2**-8, atol=2**-16)


def test_several_devices() -> None:
    assert torch.tpu.device_count() > 1
    x = torch.arange(3.0, device="tpu:1")
    assert (x + 1).device == torch.device("tpu", 1)
    assert (x.to("tpu:0") + torch.ones(3, device="tpu:0")).tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + torch.ones(3, device="tpu:0")


BESIDE = {
    "masked_fill": lambda x, c: x.masked_fill(x > 1, c),
    "masked_fill_": lambda x, c: x.clone().masked_fill_(x > 1, c),
    "index_fill": lambda x, c: x.index_fill(0, torch.tensor([1], device=x.device), c),
    "copysign": lambda x, c: torch.copysign(x, c),
    "copysign of": lambda x, c: torch.copysign(c, x),
    "floor_divide": lambda x, c: x // c,
    "floor_divide by": lambda x, c: c // x,
    "lerp": lambda x, c: torch.lerp(x, x + 1, c),
    "where": lambda x, c: torch.where(x > 1, c, x),
    "atan2": lambda x, c: torch.atan2(c, x),
}


@pytest.mark.parametrize("mode", ["debug", "strict", "fused"])
@pytest.mark.parametrize("name", BESIDE)
def test_numbers_in_0d_tensors_of_the_host_stand_beside_tensors(name: str, mode: str) -> None:
    x, c = torch.tensor([0.5, 1.5, 2.5]), torch.tensor(-2.0)
    with torchtpu.eager_mode(mode):
        torch.testing.assert_close(BESIDE[name](x.to("tpu"), c).cpu(), BESIDE[name](x, c))
        assert BESIDE[name](x.to("tpu").bfloat16(), c).dtype == torch.bfloat16


# --- random numbers ---------------------------------------------------------------------------------------------------


def test_random_numbers_repeat_by_seed() -> None:
    torch.manual_seed(0)
    first, second = torch.rand(8, device="tpu"), torch.rand(8, device="tpu")
    torch.manual_seed(0)
    assert torch.equal(first, torch.rand(8, device="tpu"))
    assert not torch.equal(first, second)
    state = torch.tpu.get_rng_state()
    third = torch.rand(8, device="tpu")
    torch.tpu.set_rng_state(state)
    assert torch.equal(third, torch.rand(8, device="tpu"))
    generator = torch.Generator("tpu").manual_seed(5)
    mine = torch.rand(8, device="tpu", generator=generator)
    assert torch.equal(mine, torch.rand(8, device="tpu", generator=generator.manual_seed(5)))
    with pytest.raises(RuntimeError, match="Expected a 'tpu' device type for generator but found 'cpu'"):
        torch.rand(8, device="tpu", generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_draw_the_same_numbers_again(reentrant: bool) -> None:
    x = torch.ones(64, device="tpu", requires_grad=True)
    y = checkpoint(lambda x: torch.nn.functional.dropout(x, 0.5) * x, x, use_reentrant=reentrant)
    y.sum().backward()
    # Each kept element is 2 x * x, and its gradient 4 x.
    assert torch.equal(x.grad, 2 * y.detach())


# --- errors -----------------------------------------------------------------------------------------------------------


def test_larger_tensors_of_the_host_are_refused() -> None:
    x, c = torch.ones(3, device="tpu"), torch.ones(3)
    with pytest.raises(RuntimeError, match="on the same device"):
        torch.copysign(x, c)


WRITES: dict[str, Callable[[Tensor, Tensor], object]] = {
    "add_": lambda number, x: number.add_(x),
    "addcmul_": lambda number, x: number.addcmul_(x, x),
    "clamp_": lambda number, x: number.clamp_(max=x),
    "out": lambda number, x: torch.add(x, x, out=number),
    "out of a reduction": lambda number, x: torch.sum(x[None], 0, out=number),
    "one of two": lambda number, x: torch.max(x[None], 0, out=(torch.empty_like(x), number.long())),
    "a list": lambda number, x: torch._foreach_add_([number, number], [x, x]),
}


@pytest.mark.parametrize("mode", ["strict", "debug", "fused"])
@pytest.mark.parametrize("name", WRITES)
def test_numbers_of_the_host_are_not_written(name: str, mode: str) -> None:
    number, x = torch.tensor(1.0), torch.tensor(2.0, device="tpu")
    with torchtpu.eager_mode(mode), pytest.raises(RuntimeError, match=r"tpu:0.*cpu"):
        WRITES[name](number, x)
    assert number.item() == 1.0


def test_a_mode_that_there_is_not_is_warned_of() -> None:
    code = "import torch; print((torch.ones(2, device='tpu') + 1).tolist())"
    environment = {**os.environ, "TORCHTPU_EAGER_MODE": "fusd"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "[2.0, 2.0]\n"
    assert "TORCHTPU_EAGER_MODE: there is no eager mode 'fusd'; the modes are 'debug', 'strict', 'fused'" in run.stderr


def test_errors_are_pytorchs() -> None:
    a, b = torch.ones(2, 3, device="tpu"), torch.ones(4, device="tpu")
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(3\) must match the size of tensor b \(4\)"):
        a + b
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        a + torch.ones(3)
    with pytest.raises(RuntimeError, match="result type Float can't be cast"):
        torch.ones(2, dtype=torch.int64, device="tpu").add_(torch.ones(2, device="tpu"))


def test_modes() -> None:
    with torchtpu.eager_mode("debug"):
        assert (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]
    with pytest.raises(torchtpu.Error, match="no eager mode 'lazy'"):
        torchtpu.eager_mode("lazy")


def test_training_leaks_nothing() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(8, 16, device="tpu")

    def steps(count: int) -> tuple[int, int]:
        """Bytes on the device and pages of the process afterwards."""
        for _ in range(count):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        torch.tpu.synchronize()
        return torch.tpu.memory_allocated(), int(Path("/proc/self/statm").read_text().split()[1])

    # Threads that come and allocators that round up grow once; a leak grows every time.
    marks = [steps(500), *(steps(LEAK_STEPS // 3) for _ in range(3))]
    assert min(later[0] - device for (device, _), later in pairwise(marks)) < 1 << 16
    assert min(later[1] - pages for (_, pages), later in pairwise(marks)) < 512  # two megabytes


def test_ops_on_the_host_are_counted_by_line() -> None:
    with torch.library._scoped_library("counted", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: 2 * x, "CPU")
        with pytest.warns(UserWarning, match=r"counted::twice.* runs on the host.*test_device\.py"):
            doubled = torch.ops.counted.twice(torch.ones(2, device="tpu"))
        assert doubled.tolist() == [2, 2] and host_calls("counted::twice") == 1


@pytest.mark.parametrize("folder", ["torch", "torchtpu"])
def test_lines_in_folders_named_like_packages_are_the_users(folder: str) -> None:
    file = f"/home/user/{folder}/train.py"
    exec(compile("y = torch.ones(2, device='tpu').erf()", file, "exec"), {"torch": torch})
    assert f"{file}:1" in torchtpu.stats()["eager"]["ops"]["aten::erf.default"]


def host_calls(op: str) -> int:
    """How often overloads of `op` ran on the host for lines of this file."""
    lines = [line for name, lines in torchtpu.stats()["fallbacks"].items() if op in name for line in lines.items()]
    return sum(times for line, times in lines if "test_device.py" in line)


def test_memory_goes_with_the_tensor() -> None:
    before = torch.tpu.memory_allocated()
    x = torch.ones(1 << 20, device="tpu")
    assert torch.tpu.memory_allocated() - before >= 4 << 20
    del x
    assert torch.tpu.memory_allocated() == before


@pytest.mark.parametrize("op", [torch.sum, torch.prod, torch.cumsum, torch.cumprod])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float64])
def test_sums_are_computed_in_the_type_of_out(op: Callable[..., Tensor], dtype: torch.dtype) -> None:
    x = torch.tensor([1.6, 2.7, 1 / 3])
    theirs, ours = (op(x.to(device), 0, out=torch.empty(0, dtype=dtype, device=device)) for device in ("cpu", "tpu"))
    torch.testing.assert_close(ours.cpu(), theirs)


def test_an_out_overload_updates_running_statistics() -> None:
    x, ones = torch.randn(4, 3, 5), torch.ones(3)
    seen = []
    for device in ("cpu", "tpu"):
        mean, var, w = torch.zeros(3, device=device), torch.ones(3, device=device), ones.to(device)
        outs = [torch.empty(0, device=device) for _ in range(3)]
        kernel = torch.ops.aten._native_batch_norm_legit.out
        kernel(x.to(device), w, w, mean, var, True, 0.5, 1e-5, out=outs[0], save_mean=outs[1], save_invstd=outs[2])
        seen.append([t.cpu() for t in (*outs, mean, var)])
    torch.testing.assert_close(seen[1], seen[0])
