"""What ops do beyond results and gradients, on the device and on the CPU, for all of PyTorch's op database.

A case is a behaviour, an op and an element type: writing in place, `out=` arguments, views and what is written through
them, inputs that are not contiguous, derivatives forward, and gradients (first and second) against differences. And the
functions and ops that PyTorch's suite defines for itself. Right is what the CPU does, refusals and strides included.
What is left out, and why, is listed in `device_exclusions`.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import opdb
import torch
from device_exclusions import EXCLUDED, EXCLUDED_BEHAVIOURS, LENIENT
from opdb import Act, Disagreement, Pair
from torch import Tensor
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.testing._internal.autograd_function_db import autograd_function_db
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.custom_op_db import custom_op_db
from torch.testing._internal.hop_db import hop_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

_FLOAT = (torch.float32,)
_BOTH = (torch.float32, torch.int64)
# Ops that are not asked how they behave: those that are not run, and those whose results' type we do not have.
LEFT_OUT = {*EXCLUDED, "chalf"}
# Samples of a pair that are run in each way.
MOST_SAMPLES = 2
# Larger samples are not differentiated by differences.
MOST_ELEMENTS = 1000


@dataclass(frozen=True)
class Case:
    """A behaviour of an op with an element type."""

    behaviour: str
    pair: Pair

    @property
    def name(self) -> str:
        return f"{self.behaviour}/{self.pair.name}"

    def run(self) -> None:
        """Raises:
        Disagreement: the device does something else than the CPU.
        """
        opdb.each_sample(self.pair, lambda sample: BEHAVIOURS[self.behaviour].check(self.pair, sample), MOST_SAMPLES)


@dataclass(frozen=True)
class Behaviour:
    """Which ops have it, in which element types, and how a sample is checked."""

    ops: Callable[[], list[OpInfo]]
    dtypes: tuple[torch.dtype, ...]
    check: Callable[[Pair, SampleInput], None]


def cases() -> list[Case]:
    """All cases, mixed as the pairs of the op database are."""
    made = (
        Case(name, Pair(op, dtype))
        for name, behaviour in BEHAVIOURS.items()
        for op in behaviour.ops()
        for dtype in behaviour.dtypes
        if dtype in op.supported_dtypes("cpu") and op.full_name not in LEFT_OUT
    )
    kept = (case for case in made if case.name not in EXCLUDED_BEHAVIOURS)
    return sorted(kept, key=lambda case: (case.pair.order, case.name))


def check_acts(*acts: Act) -> Callable[[Pair, SampleInput], None]:
    def check(pair: Pair, sample: SampleInput) -> None:
        for act in acts:
            check_act(pair, sample, act)

    return check


def check_act(pair: Pair, sample: SampleInput, act: Act) -> None:
    """That the device gives what the CPU gives, or refuses what it refuses."""
    try:
        opdb.run(pair, sample, opdb.to_cpu, "cpu", act)
    except Exception as refusal:
        assert_refused(pair, sample, act, refusal)
        return
    try:
        opdb.check_sample(pair, sample, act)
    except Exception as error:
        error.add_note(f"doing {act.__name__}")
        raise


def assert_refused(pair: Pair, sample: SampleInput, act: Act, refusal: Exception) -> None:
    try:
        opdb.run(pair, sample, opdb.to_tpu, "tpu", act)
    except Exception:
        return
    if act.__name__ in LENIENT:
        return
    raise Disagreement(f"{act.__name__} is accepted where the CPU refuses it: {str(refusal)[:200]}")


def layout(t: Tensor) -> tuple[Any, ...]:
    return (*t.stride(), t.storage_offset(), t.is_contiguous())


# --- in place ---------------------------------------------------------------------------------------------------------


def with_inplace_variant() -> list[OpInfo]:
    return [op for op in op_db if op.inplace_variant is not None]


def in_place(pair: Pair, sample: SampleInput) -> None:
    method = pair.op.inplace_variant

    def whole(_: Any, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target = first.clone()
        result = method(target, *args, **kwargs)
        return [target, result is target, target.dtype == first.dtype, *layout(target)]

    def through_a_view(_: Any, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        base = torch.stack([first, first], -1)
        target = base[..., 1]
        result = method(target, *args, **kwargs)
        return [base, result is target]

    def without_gradients(op: Any, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with torch.no_grad():
            return through_a_view(op, first, args, kwargs)

    check_acts(whole, through_a_view, without_gradients)(pair, sample)


# --- out= -------------------------------------------------------------------------------------------------------------


def with_out() -> list[OpInfo]:
    return [op for op in op_db if op.supports_out]


def of_right_size(t: Tensor) -> Tensor:
    return torch.ones(t.shape, dtype=t.dtype, device=t.device)


def empty(t: Tensor) -> Tensor:
    return torch.empty(0, dtype=t.dtype, device=t.device)


def too_large(t: Tensor) -> Tensor:
    return torch.ones((t.numel() + 3,), dtype=t.dtype, device=t.device)


def part_of_more(t: Tensor) -> Tensor:
    return torch.ones((*t.shape, 2), dtype=t.dtype, device=t.device)[..., 1]


# Whose strides are then the result's, which hang on the kernel.
RESIZED = (empty, too_large)


def of_wider_type(t: Tensor) -> Tensor:
    return of_right_size(t).to(torch.complex128 if t.is_complex() else torch.float64)


def of_whole_numbers(t: Tensor) -> Tensor:
    return of_right_size(t).to(torch.int32)


def writes_to(make: Callable[[Tensor], Tensor]) -> Act:
    def act(op: Any, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with torch.no_grad():
            like = op(first, *args, **kwargs)
            targets = pytree.tree_map_only(Tensor, make, like)
            # Named tuples cannot be given as `out`.
            targets = tuple(targets) if isinstance(targets, tuple) else targets
            result = op(first, *args, **kwargs, out=targets)
        pairs = zip(pytree.tree_leaves(targets), pytree.tree_leaves(result), strict=True)
        same = [a is b for a, b in pairs]
        flat = pytree.tree_leaves(targets)
        kept = [layout(t) for t in flat] if make not in RESIZED else []
        return [flat, [t._base for t in flat], same, kept]

    act.__name__ = f"out= {make.__name__}"
    return act


# --- views ------------------------------------------------------------------------------------------------------------


def with_views() -> list[OpInfo]:
    """Ops whose first sample, on the CPU, gives a tensor that shares its input's memory."""
    return [op for op in op_db if op.full_name not in LEFT_OUT and is_view(op)]


def is_view(op: OpInfo) -> bool:
    dtype = next((d for d in _BOTH if d in op.supported_dtypes("cpu")), None)
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        for sample in op.sample_inputs("cpu", dtype) if dtype else ():
            first = next((t for t in pytree.tree_leaves(sample.input) if isinstance(t, Tensor) and t.numel()), None)
            if first is None or not opdb.is_dense(sample):
                continue
            outputs = pytree.tree_leaves(op(sample.input, *sample.args, **sample.kwargs))
            return any(isinstance(t, Tensor) and t is not first and shares(t, first) for t in outputs)
    return False


def shares(a: Tensor, b: Tensor) -> bool:
    if a.layout != torch.strided:
        return False
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def changed(t: Tensor) -> None:
    """Writes something to all of `t` that hangs on what is there."""
    if t.dtype == torch.bool:
        t.bitwise_xor_(True)
    else:
        t.mul_(t).add_(1)


def write_through_views(op: Any, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    base = pytree.tree_map_only(Tensor, torch.clone, first)
    views = [t for t in pytree.tree_leaves(op(base, *args, **kwargs)) if isinstance(t, Tensor)]
    for view in views:
        changed(view)
    for t in pytree.tree_leaves(base):
        changed(t)
    bases = pytree.tree_leaves(base)
    lies = [[layout(v), v._is_view(), [shares(v, b) for b in bases], v._version] for v in views]
    return [base, views, lies]


def write_through_views_of_numbers(op: Any, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with torch.no_grad():
        return write_through_views(op, first, args, kwargs)


def write_through_detached_views(op: Any, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What autograd saved is found to have been written, or not."""
    base = pytree.tree_map_only(Tensor, torch.clone, first)
    views = [t for t in pytree.tree_leaves(op(base, *args, **kwargs)) if isinstance(t, Tensor)]
    squares = [v * v for v in views]
    for view in views[:1]:
        changed(view.detach())
    return [squares, views]


# --- inputs -----------------------------------------------------------------------------------------------------------


def every_op() -> list[OpInfo]:
    return list(op_db)


def spread_out(pair: Pair, sample: SampleInput) -> None:
    """With inputs that have gaps between their elements."""
    check_act(pair, sample.noncontiguous(), opdb.call)


def own_functions() -> list[OpInfo]:
    return [*autograd_function_db, *custom_op_db, *hop_db]


def as_given(pair: Pair, sample: SampleInput) -> None:
    check_act(pair, sample, opdb.call)


# --- derivatives ------------------------------------------------------------------------------------------------------


def with_forward_derivatives() -> list[OpInfo]:
    return [op for op in op_db if op.supports_forward_ad]


def forward(op: Any, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    generator = torch.Generator().manual_seed(2)

    def dual(t: Tensor) -> Tensor:
        plain = t.detach()
        return forward_ad.make_dual(plain, opdb.drawn(plain, generator)) if t.requires_grad else t

    with forward_ad.dual_level():
        first, args, kwargs = pytree.tree_map_only(Tensor, dual, (first, args, kwargs))
        outputs = [t for t in pytree.tree_leaves(op(first, *args, **kwargs)) if isinstance(t, Tensor)]
        return [forward_ad.unpack_dual(t).tangent for t in outputs]


def some_with_gradients() -> list[OpInfo]:
    """A quarter: differences take many calls."""
    return [op for op in op_db if op.supports_autograd and zlib.crc32(op.full_name.encode()) % 4 == 2]


def against_differences(pair: Pair, sample: SampleInput) -> None:
    leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    sources = [t for t in leaves if isinstance(t, Tensor) and t.requires_grad]
    if not sources or sum(t.numel() for t in sources) > MOST_ELEMENTS or not differentiable(pair, sample, "cpu"):
        return
    if not differentiable(pair, sample, "tpu"):
        raise Disagreement("the gradient is none, or its gradient is not, where the CPU's are")


def differentiable(pair: Pair, sample: SampleInput, device: str) -> bool:
    """Whether gradients, and theirs, agree with differences."""
    op = pair.op
    place = opdb.to_cpu if device == "cpu" else opdb.to_tpu
    leaves, spec = pytree.tree_flatten(opdb.moved_sample(pair, sample, place, device))
    at = [i for i, t in enumerate(leaves) if isinstance(t, Tensor) and t.requires_grad]

    def function(*sources: Tensor) -> Any:
        given = list(leaves)
        for i, source in zip(at, sources, strict=True):
            given[i] = source
        first, args, kwargs = pytree.tree_unflatten(given, spec)
        torch.manual_seed(0)
        outputs = sample.output_process_fn_grad(op.gradcheck_wrapper(op.op, first, *args, **kwargs))
        return tuple(t for t in pytree.tree_leaves(outputs) if isinstance(t, Tensor) and t.requires_grad)

    sources = tuple(leaves[i] for i in at)
    options = {"raise_exception": False, "fast_mode": True, "nondet_tol": op.gradcheck_nondet_tol}
    if not function(*sources):
        return device == "tpu"
    try:
        first_order = gradcheck(function, sources, check_batched_grad=False, **options)
        return first_order and (not op.supports_gradgrad or gradgradcheck(function, sources, **options))
    except Exception:
        if device == "cpu":
            return False
        raise


BEHAVIOURS: dict[str, Behaviour] = {
    "in place": Behaviour(with_inplace_variant, _BOTH, in_place),
    "out": Behaviour(
        with_out,
        _FLOAT,
        check_acts(
            *map(writes_to, (of_right_size, empty, too_large, part_of_more, of_wider_type, of_whole_numbers)),
        ),
    ),
    "views": Behaviour(
        with_views,
        (*_BOTH, torch.bool),
        check_acts(write_through_views, write_through_views_of_numbers, write_through_detached_views),
    ),
    "spread out": Behaviour(every_op, _FLOAT, spread_out),
    "forward": Behaviour(with_forward_derivatives, _FLOAT, check_acts(forward)),
    "differences": Behaviour(some_with_gradients, (torch.float64,), against_differences),
    "own": Behaviour(own_functions, _BOTH, as_given),
}
