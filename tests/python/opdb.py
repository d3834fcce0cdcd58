"""PyTorch's own database of ops and samples (`op_db`), each pair of op and dtype as we run it and on the CPU.

We run it on two faces: eagerly on device "tpu", and through `torch.compile` on the CPU's tensors.

A pair is right if all its samples give the same results and gradients, by the tolerances of PyTorch's own suite, in the
same types and on the device. What is compared less, or not at all, and why, is listed in `device_exclusions`.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
import torchtpu
from device_exclusions import (
    CHOSEN_BY_DEVICE,
    EXCLUDED,
    ON_HOST,
    TIED,
    TURNED,
    TYPED_BY_DEVICE,
    UNDETERMINED,
    UNORDERED,
)
from torch import Tensor
from torch.testing._internal import common_methods_invocations, common_utils
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core
from torch.testing._internal.opinfo.core import DecorateInfo, OpInfo, SampleInput
from torch.utils import _pytree as pytree

# Looks for a running method of `unittest`, which ours never are, in a call stack with source lines: 0.2 s for each op.
common_utils.extract_test_fn = core.extract_test_fn = lambda: None

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
# Samples of a pair that are run, spread evenly over those there are: most of them differ in shapes only.
MOST_SAMPLES = int(os.environ.get("TORCHTPU_SAMPLES_PER_PAIR", "10"))
# What PyTorch's suite allows between a device and the CPU (`TestCommon.test_compare_cpu`), at least.
SUITE = {torch.float32: (1e-3, 1e-3), torch.bfloat16: (1.6e-2, 1e-3)}
# How much further from the result in the next wider type than the CPU's own result ours may be.
NO_WORSE = 2.0
WIDER = {torch.float32: torch.float64, torch.bfloat16: torch.float32}


class Disagreement(AssertionError):
    """The device and the CPU differ."""


@dataclass(frozen=True)
class Pair:
    """An op of the database and the element type of its samples, and the face that runs it."""

    op: OpInfo
    dtype: torch.dtype
    compiled: bool = False

    @property
    def name(self) -> str:
        return f"{self.op.full_name}-{str(self.dtype).removeprefix('torch.')}"

    @property
    def order(self) -> int:
        """Fixed and without pattern; that of all dtypes of an op is the same."""
        return zlib.crc32(self.op.full_name.encode())

    def run(self, most: int = MOST_SAMPLES) -> None:
        """Runs at most so many samples.

        Raises:
            Disagreement: what comes out differs.
            Exception: what the device refuses.
        """
        if self.compiled:
            with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
                each_sample(self, lambda sample: check_sample(self, sample, compiled, "cpu"), most)
        else:
            each_sample(self, lambda sample: check_sample(self, sample), most)


def pairs(compiled: bool = False) -> list[Pair]:
    """Every op of the database with each dtype it has on the CPU, but for what is excluded, in a fixed mixed order."""
    all_pairs = (Pair(op, d, compiled) for op in op_db for d in DTYPES if d in op.supported_dtypes("cpu"))
    return sorted((p for p in all_pairs if p.op.full_name not in EXCLUDED), key=lambda p: (p.order, p.name))


def tenth(compiled: bool = False) -> list[Pair]:
    """A fixed tenth of the pairs. Chosen by the op's name, so an op stays in or out as others come and go."""
    return [pair for pair in pairs(compiled) if pair.order % 10 == 0]


def each_sample(pair: Pair, check: Callable[[SampleInput], None], most: int = MOST_SAMPLES) -> None:
    """Checks at most so many samples of a pair; an error says which one it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index, sample in samples(pair, most):
            try:
                check(sample)
            except Exception as error:
                error.add_note(f"sample {index}: {describe(sample)}")
                raise


def samples(pair: Pair, most: int) -> Iterator[tuple[int, SampleInput]]:
    torch.manual_seed(pair.order)
    every = [s for s in pair.op.sample_inputs("cpu", pair.dtype, requires_grad=has_gradient(pair)) if is_dense(s)]
    count = min(len(every), most)
    for i in range(count):
        index = i * (len(every) - 1) // max(count - 1, 1)
        yield index, determined(pair, every[index])


def determined(pair: Pair, sample: SampleInput) -> SampleInput:
    """The sample saying itself what PyTorch would choose by the device's name."""
    options = sample.kwargs.get("options")
    if pair.op.full_name in CHOSEN_BY_DEVICE and options is not None:
        same = {"acc_policy": "accurate", "acc_dtype": torch.float32}
        sample.kwargs["options"] = dataclasses.replace(options, **same)
    return sample


def is_dense(sample: SampleInput) -> bool:
    leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    return all(t.layout == torch.strided for t in leaves if isinstance(t, Tensor))


def has_gradient(pair: Pair) -> bool:
    floating = pair.dtype.is_floating_point
    return floating and pair.op.supports_autograd and pair.dtype in pair.op.supported_backward_dtypes("cpu")


# --- one sample -------------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """What came of a sample somewhere: tensors on the CPU, in order."""

    outputs: Any
    gradients: list[Tensor | None]


# What is done with an op: it is called as `act(op, input, args, kwargs)`.
Act = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]


class Made:
    """How many storages the ops made on "tpu" while they ran. What puts their inputs there does not count."""

    storages = 0


def call(op: Callable[..., Any], first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    before = torchtpu.stats()["eager"]["storages"]
    try:
        return op(first, *args, **kwargs)
    finally:
        Made.storages += torchtpu.stats()["eager"]["storages"] - before


def compiled(op: Callable[..., Any], first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """As `call` does it, through `torch.compile`."""
    torch._dynamo.reset()
    step = torch.compile(lambda f, a, k: op(f, *a, **k), backend="torchtpu", fullgraph=True)
    # Some ops of the database fork the generator around the call, which Dynamo cannot trace; `run` seeds it anyway.
    with mock.patch.object(common_methods_invocations, "wrapper_set_seed", lambda inner, *a, **k: inner(*a, **k)):
        return step(first, args, kwargs)


def check_sample(pair: Pair, sample: SampleInput, act: Act = call, device: str = "tpu") -> None:
    """Compares what `act` does on `device` with what it does on the CPU, where `compiled` is compared with `call`."""
    wanted = run(pair, sample, to_cpu, "cpu", call if act is compiled else act)
    got = run(pair, sample, to_tpu if device == "tpu" else to_cpu, device, act)
    if pair.op.full_name in UNDETERMINED or (pair.op.full_name in TIED and act not in (call, compiled)):
        wanted, got = types_of(wanted), types_of(got)
    elif pair.op.full_name in TIED:
        wanted, got = without_ties(pair, sample, wanted, got)
    truth: list[Run] = []

    def true() -> Run | None:
        """The run in the wider type; asked for only where the two differ."""
        wider = WIDER.get(pair.dtype)
        if wider is None or wider not in pair.op.supported_dtypes("cpu"):
            return None
        if not truth:
            own = call if act is compiled else act
            asked = in_wider_type(sample, pair.dtype, wider)
            truth.append(run(pair, asked, lambda t: widened(to_cpu(t), pair.dtype, wider), "cpu", own))
        return truth[0]

    compare("result", pair, got.outputs, wanted.outputs, lambda: (r := true()) and r.outputs)
    compare("gradient", pair, got.gradients, wanted.gradients, lambda: (r := true()) and r.gradients)


def run(pair: Pair, sample: SampleInput, place: Callable[[Tensor], Tensor], device: str, act: Act = call) -> Run:
    torch.manual_seed(0)
    moved = first, args, kwargs = moved_sample(pair, sample, place, device)
    outputs = act(pair.op, first, args, kwargs)
    placed = any(isinstance(leaf, (Tensor, torch.device)) for leaf in pytree.tree_leaves(moved))
    for t in pytree.tree_leaves(outputs):
        if placed and isinstance(t, Tensor) and t.device.type != device:
            raise Disagreement(f"a result is on {t.device}")
    if pair.op.full_name in UNORDERED:
        outputs = ordered(outputs)
    gradients: list[Tensor | None] = []
    if has_gradient(pair):
        gradients = gradients_of(sample.output_process_fn_grad(outputs), pytree.tree_leaves(moved))
    if pair.op.full_name in TURNED:
        types = [torch.zeros_like(t) for t in pytree.tree_leaves(outputs)]
        outputs = [types, sample.output_process_fn_grad(outputs)]
    # Values last: the results may be views of what the gradients' formulas wrote.
    return Run(pytree.tree_map(on_cpu, outputs), [None if g is None else on_cpu(g) for g in gradients])


def moved_sample(pair: Pair, sample: SampleInput, place: Callable[[Tensor], Tensor], device: str) -> Any:
    """Input, arguments and keyword arguments elsewhere."""

    def move(leaf: Any) -> Any:
        return moved_leaf(leaf, place, device)

    rest = (sample.args, sample.kwargs)
    return (
        pytree.tree_map(move, sample.input),
        *(rest if pair.op.full_name in ON_HOST else pytree.tree_map(move, rest)),
    )


def ordered(outputs: Any) -> Any:
    """Eigenvalues, and what belongs to each, in an order that roundings leave alone."""
    values = outputs if isinstance(outputs, Tensor) else outputs[0]
    place = (0.6 * values.detach().real + 0.8 * values.detach().imag).argsort()
    in_order = values.take_along_dim(place, -1)
    if values is outputs:
        return in_order
    return in_order, *(t.take_along_dim(place[..., None, :], -1) for t in outputs[1:])


def moved_leaf(leaf: Any, place: Callable[[Tensor], Tensor], device: str) -> Any:
    if isinstance(leaf, Tensor):
        return place(leaf.detach()).requires_grad_(leaf.requires_grad)
    if isinstance(leaf, torch.device) or leaf == "cpu":
        return torch.device(device)
    return leaf


def gradients_of(outputs: Any, inputs: list[Any]) -> list[Tensor | None]:
    """Gradients of the sum of the outputs with fixed weights."""
    sources = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad]
    targets = [t for t in pytree.tree_leaves(outputs) if isinstance(t, Tensor) and t.requires_grad]
    if not sources or not targets:
        return []
    generator = torch.Generator().manual_seed(1)
    weights = [drawn(t, generator) for t in targets]
    return list(torch.autograd.grad(targets, sources, weights, allow_unused=True))


def drawn(like: Tensor, generator: torch.Generator) -> Tensor:
    """Random numbers that are the same in every type and place: bfloat16 holds them."""
    dtype = torch.complex64 if like.is_complex() else torch.float32
    raw = torch.randn(like.shape, generator=generator, dtype=dtype)
    parts = torch.view_as_real(raw) if like.is_complex() else raw
    rounded = parts.bfloat16().float()
    return (torch.view_as_complex(rounded) if like.is_complex() else rounded).to(like.device, like.dtype)


def to_cpu(t: Tensor) -> Tensor:
    return with_layout(t, lambda base: base.clone())


def to_tpu(t: Tensor) -> Tensor:
    return with_layout(t, lambda base: base.to("tpu"))


def with_layout(t: Tensor, move: Callable[[Tensor], Tensor]) -> Tensor:
    """`t` elsewhere, a view as it is a view here."""
    if t.is_contiguous() and t.storage_offset() == 0:
        return move(t)
    if t.is_conj() or t.is_neg():
        return move(t.resolve_conj().resolve_neg())
    base = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
    return move(base).as_strided(t.size(), t.stride(), t.storage_offset())


def in_wider_type(sample: SampleInput, dtype: torch.dtype, wider: torch.dtype) -> SampleInput:
    """The sample asking for results of the wider type where it asks for one."""
    kwargs = {name: wider if value == dtype else value for name, value in sample.kwargs.items()}
    process = sample.output_process_fn_grad
    return SampleInput(sample.input, args=sample.args, kwargs=kwargs, output_process_fn_grad=process)


def widened(t: Tensor, dtype: torch.dtype, wider: torch.dtype) -> Tensor:
    return t.to(wider) if t.dtype == dtype else t


def on_cpu(value: Any) -> Any:
    return value.detach().cpu() if isinstance(value, Tensor) else value


def types_of(value: Run) -> Run:
    """Of results that nobody can foretell: shapes and types."""
    empty = [None if g is None else torch.zeros_like(g) for g in value.gradients]
    outputs = pytree.tree_map(lambda v: torch.zeros_like(v) if isinstance(v, Tensor) else v, value.outputs)
    return Run(outputs, empty)


def without_ties(pair: Pair, sample: SampleInput, wanted: Run, got: Run) -> tuple[Run, Run]:
    """Where the two chose other elements among equal ones, without what follows from that."""
    at = TIED[pair.op.full_name][0]
    if at is None:
        ties = sample.input.dim() > 0 and bool((sample.input.sort(0).values.diff(dim=0) == 0).any())
        return (Run(wanted.outputs, []), Run(got.outputs, [])) if ties else (wanted, got)
    ours, theirs = pytree.tree_leaves(got.outputs), pytree.tree_leaves(wanted.outputs)
    if ours[at].shape != theirs[at].shape or torch.equal(ours[at], theirs[at]):
        return wanted, got
    values = [Run([*leaves[:at], torch.zeros_like(leaves[at])], []) for leaves in (theirs, ours)]
    return values[0], values[1]


# --- comparison -------------------------------------------------------------------------------------------------------


def compare(what: str, pair: Pair, got: Any, wanted: Any, truth: Callable[[], Any]) -> None:
    ours, ours_spec = pytree.tree_flatten(got)
    theirs, theirs_spec = pytree.tree_flatten(wanted)
    if ours_spec != theirs_spec:
        raise Disagreement(f"{what}: {ours_spec} instead of {theirs_spec}")
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        try:
            compare_leaf(a, b, tolerance(pair, b), pair.op.full_name not in TYPED_BY_DEVICE)
        except AssertionError as error:
            wide = truth()
            if not (
                isinstance(b, Tensor)
                and wide is not None
                and no_worse(a, b, pytree.tree_leaves(wide)[i], tolerance(pair, b))
            ):
                raise Disagreement(f"{what} {i}: {error}") from None


def compare_leaf(a: Any, b: Any, allowed: tuple[float, float], same_type: bool) -> None:
    if not isinstance(a, (Tensor, int, float, complex)):
        assert type(a) is type(b) and (not isinstance(a, str) or a == b), f"{a!r} instead of {b!r}"
        return
    rtol, atol = allowed
    torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True, check_device=False, check_dtype=same_type)


def no_worse(ours: Tensor, theirs: Tensor, truth: Tensor | None, allowed: tuple[float, float]) -> bool:
    """Whether our result is about as near to the truth as the CPU's."""
    if truth is None or ours.shape != theirs.shape or ours.dtype != theirs.dtype or truth.shape != ours.shape:
        return False
    if not ours.is_floating_point():
        return False
    ours, theirs, truth = ours.double(), theirs.double(), truth.double()
    finite = truth.isfinite() & theirs.isfinite()
    if not torch.equal(ours[~finite].nan_to_num(), theirs[~finite].nan_to_num()):
        return False
    theirs_off = (theirs - truth)[finite].abs().max().item() if finite.any() else 0.0
    slack = NO_WORSE * theirs_off + allowed[1] + allowed[0] * truth.abs()
    return bool(((ours - truth).abs() <= slack)[finite].all())


def tolerance(pair: Pair, result: Any) -> tuple[float, float]:
    """What PyTorch's suite allows for the op, relative and absolute."""
    exact = isinstance(result, int) or (
        isinstance(result, Tensor) and not (result.is_floating_point() or result.is_complex())
    )
    if exact:
        return 0.0, 0.0
    rtol, atol = SUITE.get(result.dtype if isinstance(result, Tensor) else torch.float32, SUITE[torch.float32])
    for decorator in pair.op.decorators:
        inner = decorator.decorators if isinstance(decorator, DecorateInfo) else [decorator]
        for override in inner:
            if isinstance(override, toleranceOverride) and pair.dtype in override.d:
                own = override.d[pair.dtype]
                rtol, atol = max(rtol, own.rtol), max(atol, own.atol)
    return rtol, atol


def describe(sample: SampleInput) -> str:
    def leaf(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        layout = "" if value.is_contiguous() else f" stride={value.stride()}"
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{layout}"

    moved = pytree.tree_map(leaf, (sample.input, sample.args, sample.kwargs))
    return f"{moved[0]}, {moved[1]}, {moved[2]}".replace("'", "")
