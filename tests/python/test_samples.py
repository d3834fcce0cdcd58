"""Every sample of the op table, computed by the reference evaluator, against PyTorch on the CPU.

The samples come from `cargo run -p torchtpu-ir --example samples`; `TORCHTPU_SAMPLES` names a binary to run instead.
"""

import base64
import contextlib
import functools
import importlib
import json
import math
import os
import pathlib
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]

DTYPES = {
    "bool": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
    "f8e4m3fn": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "c64": torch.complex64,
    "c128": torch.complex128,
}

# Modules that register operators outside torch, or outside what `import torch` loads.
for module in ("torch._inductor.inductor_prims", "transformers.integrations.moe", "torchvision"):
    with contextlib.suppress(ImportError):
        importlib.import_module(module)

# Results of which only type and shape are compared, with the reason.
UNSPECIFIED = {
    "aten::empty.memory_format": "holds whatever was in memory",
    "aten::empty_like.default": "holds whatever was in memory",
    "aten::empty_permuted.default": "holds whatever was in memory",
    "aten::empty_strided.default": "holds whatever was in memory",
    "aten::new_empty.default": "holds whatever was in memory",
    "aten::new_empty_strided.default": "holds whatever was in memory",
    "aten::_make_dep_token.default": "holds whatever was in memory",
}


def factors_of_svd(u: torch.Tensor, s: torch.Tensor, vh: torch.Tensor) -> list[torch.Tensor]:
    """Singular values, the matrix that the factors make, and the products that are identities."""
    if u.dim() < 2:
        return [u, s, vh]
    k = s.shape[-1]
    return [s, u[..., :k] * s[..., None, :] @ vh[..., :k, :], u.mH @ u, vh @ vh.mH]


def factors_of_eigh(values: torch.Tensor, vectors: torch.Tensor) -> list[torch.Tensor]:
    """Likewise."""
    if vectors.dim() < 2:
        return [values, vectors]
    return [values, vectors * values[..., None, :] @ vectors.mH, vectors.mH @ vectors]


def factors_of_eig(values: torch.Tensor, vectors: torch.Tensor) -> list[torch.Tensor]:
    """Eigenvalues in an order that roundings leave alone, and the projections on the eigenvectors."""
    order = (0.6 * values.real + 0.8 * values.imag).argsort()
    projections = vectors[..., :, None, :] * vectors[..., None, :, :].conj()
    ordered = projections.take_along_dim(order[..., None, None, :], -1)
    return [values.take_along_dim(order, -1), ordered]


def ordered_eigenvalues(values: torch.Tensor) -> list[torch.Tensor]:
    """Likewise."""
    return [values.take_along_dim((0.6 * values.real + 0.8 * values.imag).argsort(), -1)]


# Results that are free but for what this makes of them: singular vectors and eigenvectors may be turned, eigenvalues of
# matrices that are not Hermitian come in any order.
FREE: dict[str, Callable[..., list[torch.Tensor]]] = {
    "aten::_linalg_svd.default": factors_of_svd,
    "aten::linalg_svd.default": factors_of_svd,
    "aten::svd.default": lambda u, s, v: factors_of_svd(u, s, v.mH),
    "aten::_linalg_eigh.default": factors_of_eigh,
    "aten::linalg_eigh.default": factors_of_eigh,
    "aten::_linalg_eigvals.default": ordered_eigenvalues,
    "aten::linalg_eigvals.default": ordered_eigenvalues,
    "aten::linalg_eig.default": factors_of_eig,
}

# Ops that give their statistics unrounded: in a program they become what its trace says, on the device what PyTorch's
# meta kernels say, which is another type than the CPU's.
UNROUNDED = ("aten::native_batch_norm.", "aten::native_layer_norm.")

# Ops not called with NaN, infinity and -0, by a part of their name, with the reason.
NOT_SPECIAL = {
    "attention": "PyTorch's kernels meet infinities in other orders, which decides between them and NaN",
    "conv": "PyTorch's kernels multiply infinities with the zeros of padding, or do not, as the shape has it",
    "::gelu.": "PyTorch's vectorised kernel gives NaN for infinity, the plain one infinity",
    "_aa": "PyTorch's kernels multiply infinities with weights of zero, or do not, as the type has it",
    "_embedding_bag": "PyTorch's maxima pass over NaN, or not, as the order has it",
    "grid_sampler_2d_backward": "PyTorch's kernels multiply infinities with weights of zero, or do not",
    "grid_sampler_3d_backward": "as in two dimensions",
    "_norm": "PyTorch's kernels update variances step by step, so that infinities give NaN elsewhere",
    "fft_": "a transform spreads NaN and infinities, in PyTorch's kernels not to all results",
    "_linalg_": "factorisations meet infinities in other orders",
    "cholesky": "factorisations meet infinities in other orders",
    "geqrf": "factorisations meet infinities in other orders",
    "histogram.bin_ct": "PyTorch refuses data that is not finite, which a program cannot see",
    "_histogramdd_bin_edges": "as for one dimension",
    "_histogramdd_from_bin_cts": "as for one dimension",
    "stft": "as for transforms",
    "householder": "factorisations meet infinities in other orders",
    "::inverse": "factorisations meet infinities in other orders",
    "::pinverse": "factorisations meet infinities in other orders",
    "::svd": "factorisations meet infinities in other orders",
    "det.default": "factorisations meet infinities in other orders",
    "linalg_cond": "factorisations meet infinities in other orders",
    "linalg_svd": "factorisations meet infinities in other orders",
    "linalg_solve": "factorisations meet infinities in other orders",
    "linalg_tensor": "factorisations meet infinities in other orders",
    "linalg_matrix_rank": "factorisations meet infinities in other orders",
    "matrix_exp": "products meet infinities in other orders",
    "matrix_power": "products meet infinities in other orders",
    "lu_solve": "factorisations meet infinities in other orders",
    "linalg_inv": "factorisations meet infinities in other orders",
    "linalg_lu": "factorisations meet infinities in other orders",
    "linalg_eig": "factorisations meet infinities in other orders",
    "linalg_ldl": "factorisations meet infinities in other orders",
    "linalg_lstsq": "factorisations meet infinities in other orders",
    "linalg_pinv": "factorisations meet infinities in other orders",
    "ormqr": "PyTorch's kernels multiply infinities with zeros, or do not",
    "linalg_matrix_sqrth": "factorisations meet infinities in other orders",
    "linalg_polar": "factorisations meet infinities in other orders",
    "linalg_qr": "factorisations meet infinities in other orders",
    "triangular": "PyTorch's kernels multiply infinities with zeros of the other triangle, or do not",
    "roi_align": "the kernel multiplies infinities with weights of zero, and makes positions of NaN",
    "roi_pool": "the kernel makes positions of NaN",
    "deform_conv2d": "the kernel multiplies infinities with weights of zero, or does not, and makes positions of NaN",
    "_to_copy": "C++ does not say which integer NaN and infinity become",
    "::var": "PyTorch's kernels update variances step by step, so that infinities give NaN elsewhere",
    "::std": "as for variances",
}


@functools.cache
def samples(special: bool) -> list[dict[str, Any]]:
    """The table's samples, evaluated; `special` mixes NaN, infinities and -0 into their data."""
    binary = os.environ.get("TORCHTPU_SAMPLES")
    build = ["cargo", "run", "-q", "-p", "torchtpu-ir", "--example", "samples", "--"]
    command = [binary] if binary else build
    flags = ["--special"] if special else []
    done = subprocess.run(command + flags, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def name(sample: dict[str, Any]) -> str:
    return f"{sample['op']}({sample['text']})"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    wanted = {"sample": False, "special_sample": True}
    for fixture in wanted.keys() & set(metafunc.fixturenames):
        rows = samples(wanted[fixture])
        metafunc.parametrize(fixture, rows, ids=[name(row) for row in rows])


def tensor(spec: dict[str, Any]) -> torch.Tensor:
    """The tensor that `spec` describes; an argument lies in the strides it names."""
    data = bytearray(base64.b64decode(spec["data"]))
    dtype = DTYPES[spec["dtype"]]
    dense = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    dense = dense.reshape(spec["shape"])
    if "offset" in spec or "strides" not in spec or list(dense.stride()) == spec["strides"]:
        return dense
    return torch.empty_strided(spec["shape"], spec["strides"], dtype=dtype).copy_(dense)


def value(spec: dict[str, Any] | None) -> Any:
    """An argument as Python takes it."""
    if spec is None:
        return None
    ((kind, given),) = spec.items()
    match kind:
        case "tensor":
            return tensor(given)
        case "list":
            return [value(item) for item in given]
        case "float":
            return float(given)
        case "complex":
            return complex(float(given[0]), float(given[1]))
        case "dtype":
            return DTYPES[given]
        case "memory_format" | "layout":
            return getattr(torch, given)
        case "device":
            return torch.device(given)
        case _:
            return given


def widened(given: Any) -> Any:
    """An argument with 16-bit floats made `float64`."""
    if isinstance(given, list):
        return [widened(item) for item in given]
    narrow = isinstance(given, torch.Tensor) and given.dtype in (torch.float16, torch.bfloat16)
    return given.double() if narrow else given


def call(sample: dict[str, Any], change: Callable[[Any], Any] = lambda given: given) -> list[Any]:
    """The results of the same call in PyTorch, then what became of the arguments it writes."""
    namespace, rest = sample["op"].split("::")
    base, overload = rest.split(".")
    op = getattr(getattr(getattr(torch.ops, namespace), base), overload)
    order = [argument.name for argument in op._schema.arguments if not argument.kwarg_only]
    named = {argument["name"]: change(value(argument["value"])) for argument in sample["args"]}
    after = list(flat([named.get(argument) for argument in sample["written"]]))
    positional = []
    for argument in order:
        if argument not in named:
            break
        positional.append(named.pop(argument))
    torch.manual_seed(0)
    result = op(*positional, **named)
    return (list(flat(result)) if op._schema.returns else []) + after


def flat(result: Any) -> Iterator[Any]:
    """The results one by one."""
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from flat(part)
    else:
        yield result


def check_layout(ours: dict[str, Any], theirs: torch.Tensor) -> None:
    """That a view lies where PyTorch's lies; steps along extents of 0 and 1 mean nothing."""
    if theirs.numel() == 0:
        return
    steps = zip(theirs.shape, ours["strides"], theirs.stride(), strict=True)
    assert all(size == 1 or a == b for size, a, b in steps), f"strides {ours['strides']}, not {theirs.stride()}"
    assert ours["offset"] == theirs.storage_offset()


def check_statistics(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """That two draws could come from one distribution: their means are as close as their number allows."""
    if ours.numel() < 100:
        return
    a, b = ours.double(), theirs.double()
    spread = math.sqrt((a.var() + b.var()).item() / a.numel())
    assert abs((a.mean() - b.mean()).item()) <= 6 * spread + 1e-12


def check_values(got: torch.Tensor, theirs: torch.Tensor, exact: Callable[[], torch.Tensor]) -> None:
    """That `got` is close to PyTorch's result, or for 16-bit floats no worse than twice as far from the exact one."""
    if got.element_size() == 1 and got.is_floating_point():
        got, theirs = got.float(), theirs.float()
    theirs = theirs.resolve_conj().resolve_neg()
    try:
        torch.testing.assert_close(got, theirs, equal_nan=True)
    except AssertionError:
        if got.dtype not in (torch.float16, torch.bfloat16):
            raise
        truth = exact().double()
        finite = theirs.isfinite() & truth.isfinite()
        torch.testing.assert_close(got[~finite], theirs[~finite], equal_nan=True)
        ours, eager = ((result[finite].double() - truth[finite]).abs().max() for result in (got, theirs))
        if not ours <= 2 * eager + 1e-5:
            raise


def check_tensor(sample: dict[str, Any], i: int, theirs: torch.Tensor) -> None:
    ours = sample["results"]["tensors"][i]
    got = tensor(ours)
    if i > 0 and sample["op"].startswith(UNROUNDED) and got.dtype == torch.float32:
        got = got.to(theirs.dtype)
    assert got.dtype == theirs.dtype, f"{got.dtype}, not {theirs.dtype}"
    assert got.shape == theirs.shape, f"{tuple(got.shape)}, not {tuple(theirs.shape)}"
    if "offset" in ours:
        check_layout(ours, theirs)
    if sample["op"] in UNSPECIFIED or sample["op"] in FREE:
        return
    if sample["results"].get("random"):
        check_statistics(got, theirs)
    else:
        check_values(got, theirs, lambda: call(sample, widened)[i])


def check(sample: dict[str, Any]) -> None:
    assert "failure" not in sample, sample["failure"]
    if "error" in sample:
        # What has no lowering PyTorch may well accept.
        if sample["error"] == "Invalid":
            with pytest.raises((RuntimeError, IndexError, ValueError, TypeError)):
                call(sample)
        return
    theirs = call(sample)
    results = sample["results"]
    if "number" in results:
        assert [value(results["number"])] == theirs
        return
    assert len(results["tensors"]) == len(theirs), f"{len(results['tensors'])} results, not {len(theirs)}"
    for i, (ours, expected) in enumerate(zip(results["tensors"], theirs, strict=True)):
        # A written argument that we leave as it is may be there in PyTorch.
        assert (ours is None) == (expected is None) or (ours is None and i >= sample["returns"])
        if ours is not None:
            check_tensor(sample, i, expected)
    if (determined := FREE.get(sample["op"])) is not None:
        got = determined(*map(tensor, results["tensors"]))
        for a, b in zip(got, determined(*theirs), strict=True):
            torch.testing.assert_close(a, b, equal_nan=True)


def test_sample(sample: dict[str, Any]) -> None:
    check(sample)


def test_special(special_sample: dict[str, Any]) -> None:
    reasons = [reason for part, reason in NOT_SPECIAL.items() if part in special_sample["op"]]
    if reasons:
        pytest.skip(reasons[0])
    check(special_sample)
