"""What random programs leave out: where PyTorch's own kernels, or XLA's, do not agree among themselves.

Each list is of parts of ops' names. Everything that such programs find is put right, or stands here with its reason.
"""

from __future__ import annotations

import test_samples as samples
import torch
from programs import NAMES, SHAKES, Rejected, Runs, Step, masks
from torch import Tensor

INTEGERS = [dtype for dtype in NAMES if not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)]

# Why programs have no such step, by a part of the op's name.
LEFT_OUT = {
    "aten::empty": "holds whatever was in memory",
    "aten::new_empty": "holds whatever was in memory",
    "aten::_make_dep_token": "holds whatever was in memory",
    "aten::sym_": "gives a number",
    "aten::_linalg_eigh": "eigenvectors may be turned round",
    "aten::_linalg_svd": "singular vectors may be turned round",
    "aten::linalg_eig.": "eigenvectors may be turned round",
    "aten::linalg_eigh.": "eigenvectors may be turned round",
    "aten::linalg_svd.": "singular vectors may be turned round",
    "aten::svd.": "singular vectors may be turned round",
    "aten::linalg_eigvals.": "eigenvalues come in any order",
    "aten::_linalg_eigvals": "eigenvalues come in any order",
    "aten::linalg_polar": "of a singular matrix the turn is free",
    "aten::_amp_update_scale_": "what it gives is its first operand, and a copy with us",
}


# Ops that trust their arguments, or take some by accident: how their names start.
TRUSTING = ("_", "native_", "rnn_", "gru", "lstm", "batch_norm")
# Ops whose operands belong together, such as an output and what it was computed from: they get the samples' own data.
BELONG_TOGETHER = [
    "attention_backward",
    "embedding_bag",  # offsets and the bags that follow from them
    "attention_for_cpu_backward",
    "ldl_solve",  # a factorisation and its pivots
    "bucketize",  # boundaries in order
    "searchsorted",
    "histogram.bins_tensor",
    "lu_unpack",
    "lu_solve",
    "dirichlet_grad",  # numbers and their sum
    "grouped_mm",  # groups end one after the other
    "ctc_loss",  # PyTorch's kernel reads targets as if they lay one beside the other
]
# Numbers that stand for words.
CODES = ("reduction", "mode")
# Ops that look at the sign or the bits of NaN, which are nobody's promise.
BITS = ["copysign", "signbit", "view.dtype", "frexp", "nextafter"]
# Ops of which PyTorch does not say which of equal numbers they find.
CHOOSING = ["topk", "kthvalue", "median", "mode"]
# Ops whose results are views of several tensors, or are one of them: with us they are copies, which later writes do not
# reach.
VIEWS_OF_SEVERAL = ["meshgrid", "broadcast_tensors", "cartesian_prod", "aten::lift.", "mH", "matrix_H", "adjoint"]
# Ops not called with NaN and infinities, besides those that samples are not.
NOT_SPECIAL = {
    "margin_loss": "PyTorch's kernels multiply infinities with zeros, or do not",
}
# Ops that convert numbers, and the floats of which C++ says which integer they become.
CONVERSIONS = ["_to_copy", "type_as", "copy", "to.", "convert", "_cast", "scatter", "fill", "put"]
LEAST, GREATEST = 0, 100
# Ops that write to operands without saying so.
WRITES = ["batch_norm", "instance_norm"]


def check(step: Step, runs: Runs) -> None:
    """Rejects a call whose result is nobody's promise."""
    operands = [runs.get(ref) for ref in step.refs()]
    name = step.op.name()
    if is_one_of(name, VIEWS_OF_SEVERAL):
        raise Rejected("what it gives is views of several tensors, and copies with us")
    if "index_put" in name and any(x.dtype in (torch.bool, torch.uint8) for x in operands[1:-1]):
        raise Rejected("how many values it takes is data: such a call is cut, and the evaluator runs programs whole")
    if base_name(name).startswith(TRUSTING) and any(overlaps(x) for x in operands):
        raise Rejected("its kernel may read as many elements as there are, past the end of a place that holds fewer")
    check_writes(step, runs, operands)
    check_choice(name, operands)
    check_conversion(step, operands)
    check_product(name, operands)
    check_special(name, operands)


def base_name(name: str) -> str:
    """The op's name without its namespace."""
    return name.split("::")[1]


def is_one_of(name: str, parts: list[str]) -> bool:
    return any(part in name for part in parts)


def check_writes(step: Step, runs: Runs, operands: list[Tensor]) -> None:
    written = operands if is_one_of(step.op.name(), WRITES) else list(step.written(runs.get))
    if any(overlaps(x) for x in written):
        raise Rejected("it writes to elements that share a place")
    storages = [x.untyped_storage().data_ptr() for x in operands if x.numel()]
    if any(x.numel() and storages.count(x.untyped_storage().data_ptr()) > 1 for x in written):
        raise Rejected("it writes to what it reads")


def overlaps(x: Tensor) -> bool:
    """Whether elements may share a place."""
    reach = 0
    for stride, size in sorted(zip(x.stride(), x.shape)):
        if size > 1 and stride <= reach:
            return x.numel() > 0
        reach += stride * (size - 1)
    return False


def check_choice(name: str, operands: list[Tensor]) -> None:
    if not is_one_of(name, CHOOSING):
        return
    x = operands[0]
    if x.numel() != x.unique().numel() or (x != x).sum() > 1:
        raise Rejected("PyTorch does not say which of equal numbers it finds")


def check_conversion(step: Step, operands: list[Tensor]) -> None:
    whole = step.kwargs.get("dtype") in INTEGERS or any(x.dtype in INTEGERS for x in operands)
    if not (whole and is_one_of(step.op.name(), CONVERSIONS)):
        return
    if not all(((x >= LEAST) & (x <= GREATEST)).all() for x in wide_floats(operands)):
        raise Rejected("C++ does not say which integer it becomes")
    if any(((edge(x) > 0) & (edge(x) < 8 * SHAKES[x.dtype])).any() for x in wide_floats(operands)):
        raise Rejected("a rounding decides which integer it becomes")


def edge(x: Tensor) -> Tensor:
    """How far its elements are from whole numbers."""
    wide = x.double()
    return (wide - wide.round()).abs() / wide.abs().clamp(min=1)


def wide_floats(operands: list[Tensor]) -> list[Tensor]:
    """Those of 16 bits and more."""
    return [x for x in operands if x.is_floating_point() and x.element_size() > 1]


def check_product(name: str, operands: list[Tensor]) -> None:
    if masks(name, operands) and not all(x.isfinite().all() for x in wide_floats(operands)):
        raise Rejected("XLA makes a choice of a product with a mask, in which 0 times NaN is 0")


def check_special(name: str, operands: list[Tensor]) -> None:
    if all(x.isfinite().all() for x in wide_floats(operands)):
        return
    if is_one_of(name, BITS) and any(x.isnan().any() for x in operands):
        raise Rejected("the sign of NaN is nobody's promise")
    for part, reason in (samples.NOT_SPECIAL | NOT_SPECIAL).items():
        if part in name:
            raise Rejected(reason)
