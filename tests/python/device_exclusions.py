"""What the runs of PyTorch's databases on the device leave out or compare less, and why.

They are `opdb`, `suites` and `behaviours`.
"""

from __future__ import annotations

_RANDOM = "draws random numbers: every device has a generator of its own"
_UNWRITTEN = "gives memory that nobody wrote"

# Only shapes and types of results are compared.
UNDETERMINED: dict[str, str] = {
    **dict.fromkeys(
        (
            "bernoulli",
            "cauchy",
            "exponential",
            "geometric",
            "log_normal",
            "multinomial",
            "nn.functional.alpha_dropout",
            "nn.functional.dropout",
            "nn.functional.dropout2d",
            "nn.functional.dropout3d",
            "nn.functional.feature_alpha_dropout.with_train",
            "nn.functional.multi_head_attention_forward",
            "nn.functional.scaled_dot_product_attention",
            "nn.functional.fractional_max_pool2d",
            "nn.functional.fractional_max_pool3d",
            "nn.functional.rrelu",
            "normal",
            "normal.in_place",
            "normal.number_mean",
            "pca_lowrank",
            "rand_like",
            "randint",
            "randint_like",
            "randn",
            "randn_like",
            "svd_lowrank",
            "uniform",
        ),
        _RANDOM,
    ),
    **dict.fromkeys(
        ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"), _UNWRITTEN
    ),
}

# Results whose types PyTorch itself chooses by device: compared in values only.
TYPED_BY_DEVICE: dict[str, str] = {
    name: "statistics of 16-bit inputs are float32 on accelerators, and on the meta device, but 16 bits on the CPU"
    for name in ("native_layer_norm", "native_batch_norm", "_batch_norm_with_update", "_native_batch_norm_legit")
}

# The result that holds indices: which of several equal elements it names, PyTorch leaves open. Gradients follow it.
# None where the indices are no result.
TIED: dict[str, tuple[int | None, str]] = {
    "msort": (None, "not stable"),
    "sort": (1, "not stable unless asked to be"),
    "argsort": (0, "not stable unless asked to be"),
    "topk": (1, "PyTorch says so in its documentation"),
    "kthvalue": (1, "any of the places of that value"),
    "mode": (1, "any of the places of the most frequent value"),
}

# Results of which types are compared, and what the samples make of them for gradients: sizes or products.
TURNED: dict[str, str] = dict.fromkeys(
    ("linalg.svd", "svd", "linalg.eigh", "linalg.eig"), "a vector times a number of size 1 is as good a one"
)

# Results whose order along the first result's last dimension PyTorch leaves open.
UNORDERED: dict[str, str] = dict.fromkeys(
    ("linalg.eig", "linalg.eigvals"), "eigenvalues are found in the order in which iterations converge"
)

# Arguments behind the first that PyTorch wants on the CPU whatever the device.
ON_HOST: dict[str, str] = {"tensor_split": "sections as a tensor have to be on the CPU, says PyTorch"}

# Options that PyTorch chooses by the device's name, given by the samples instead.
CHOSEN_BY_DEVICE: dict[str, str] = dict.fromkeys(
    ("nn.functional.linear_cross_entropy.chunked", "nn.functional.linear_cross_entropy.chunked_none"),
    "accumulates 16-bit floats in float32 on CPU and CUDA, and in 16 bits on any other device",
)

_SPARSE = "makes sparse tensors, which the device does not have: its tensors are strided"
_COMPLEX32 = "makes complex32, which StableHLO does not have"
_JITERATOR = "compiles CUDA source; PyTorch refuses it on any other device"

# Not run.
EXCLUDED: dict[str, str] = {
    "to_sparse": _SPARSE,
    "sparse.sampled_addmm": _SPARSE,
    "sparse.mm.reduce": _SPARSE,
    **dict.fromkeys(
        (
            "jiterator_unary",
            "jiterator_binary",
            "jiterator_binary_return_by_ref",
            "jiterator_4inputs_with_extra_args",
            "jiterator_2inputs_2outputs",
        ),
        _JITERATOR,
    ),
}

_FOUR = ("float32", "bfloat16", "int64", "bool")
_UNTYPED = {f"chalf-{dtype}": _COMPLEX32 for dtype in _FOUR}

# Pairs that are not right, each counted against us.
KNOWN_FAILURES: dict[str, str] = {
    **_UNTYPED,
    "frexp-bfloat16": "its gradient divides by a subnormal number, which XLA's CPU takes for 0",
    "matrix_exp-bfloat16": "PyTorch's own result is wrong: NaN, infinities and 1e30 where they are about 1",
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu-bfloat16": (
        "gradients up to 25 are 0.28 to 0.36 off in bf16, where PyTorch's own are 0.13 to 0.23"
    ),
    "nextafter-bfloat16": "its gradient asks whether subnormal numbers differ from 0: XLA's CPU takes them for 0",
}

# Pairs that are right, but for which `stats()` shows nothing on device "tpu", so that they count against us.
UNEXECUTED: dict[str, str] = {
    **dict.fromkeys(
        (
            *(f"{op}-{dtype}" for op in ("contiguous", "conj", "conj_physical", "real") for dtype in _FOUR),
            *(f"{op}-{dtype}" for op in ("resolve_conj", "resolve_neg") for dtype in _FOUR),
            *(f"positive-{dtype}" for dtype in _FOUR[:3]),
            *(f"nn.functional.feature_alpha_dropout.without_train-{dtype}" for dtype in _FOUR),
        ),
        "PyTorch answers with the tensor itself, or a view of it: nothing reaches a device",
    ),
    "broadcast_shapes-float32": "computes with sizes, without tensors",
}

# The same for compiled graphs.
UNEXECUTED_COMPILED: dict[str, str] = {
    **dict.fromkeys(("item-bool", "item-int64"), "a number is read from its tensor: nothing is left to compute"),
    "broadcast_shapes-float32": "computes with sizes, without tensors",
}

_SUBNORMAL = "XLA's CPU takes subnormal numbers for 0, and the gradient asks for them"

# Pairs that are not right through `torch.compile` in one graph, each counted against us. What PyTorch cannot capture no
# backend gets to see.
KNOWN_COMPILED_FAILURES: dict[str, str] = {
    **_UNTYPED,
    **dict.fromkeys(
        (
            *(f"equal-{dtype}" for dtype in _FOUR),
            *(f"allclose-{dtype}" for dtype in _FOUR[:2]),
            *(f"{op}-{dtype}" for op in ("cov", "corrcoef") for dtype in _FOUR[:3]),
        ),
        "not captured: compares tensors as a whole (`aten.equal`, `aten.allclose`), which gives a Python bool",
    ),
    **dict.fromkeys(
        (f"{op}-{dtype}" for op in ("resize_", "resize_as_") for dtype in _FOUR),
        "not captured: Dynamo does not trace resizing",
    ),
    **dict.fromkeys(
        ("linalg.lstsq-float32", "linalg.lstsq.grad_oriented-float32", "nn.functional.ctc_loss-float32"),
        "not captured: PyTorch has no meta kernel for it",
    ),
    "nn.functional.one_hot-int64": "not captured: its number of classes is data, which PyTorch's own check asks for",
    **dict.fromkeys(
        (f"nn.functional.gaussian_nll_loss-{dtype}" for dtype in _FOUR[:2]),
        "not captured: PyTorch's own check of the variance branches on data",
    ),
    **dict.fromkeys(
        (
            f"nn.functional.linear_cross_entropy.{kind}-{dtype}"
            for kind in ("chunked", "chunked_none")
            for dtype in _FOUR[:2]
        ),
        "not captured: Dynamo does not trace the warning that PyTorch's own code gives with some of the options",
    ),
    **dict.fromkeys(
        (f"unique_consecutive-{dtype}" for dtype in _FOUR),
        "captured with the wrong number of dimensions: PyTorch's own fake kernel does not know negative ones",
    ),
    "nextafter-bfloat16": _SUBNORMAL,
    "frexp-bfloat16": _SUBNORMAL,
    "matrix_exp-bfloat16": KNOWN_FAILURES["matrix_exp-bfloat16"],
}

# --- modules and optimizers (`suites`) --------------------------------------------------------------------------------

# Draw random numbers in training: only shapes are compared.
RANDOM_MODULES: dict[str, str] = {}

EXCLUDED_MODULES: dict[str, str] = {}

# Only the parameters are compared, not the state.
STATELESS_OPTIMIZERS: dict[str, str] = {"LBFGS": "how many directions it keeps hangs on the last bit of a line search"}

# Not compared where the CPU itself ends elsewhere when its parameters start one rounding away.
ERRATIC_OPTIMIZERS: dict[str, str] = {"LBFGS": "divides by differences of gradients, which are rounding once converged"}

EXCLUDED_OPTIMIZERS: dict[str, str] = {"SparseAdam": 'takes sparse gradients, and "tpu" tensors are strided'}

# --- what ops do beyond results and gradients (`behaviours`) ----------------------------------------------------------

# Where the device may accept what the CPU refuses.
LENIENT: dict[str, str] = dict.fromkeys(
    ("out= of_wider_type", "out= of_whole_numbers"),
    "which other types of `out` a kernel refuses is its own; the rules here take any that the result can be cast to",
)

# Not run, by the case's name.
EXCLUDED_BEHAVIOURS: dict[str, str] = {
    **dict.fromkeys(
        [f"views/{op}-{dtype}" for op in ("as_strided", "unfold") for dtype in ("bool", "float32", "int64")],
        "elements overlap: the CPU's result hangs on the order of its writes, the device refuses",
    ),
    **dict.fromkeys(
        ("out/nn.functional.linear-float32", "out/nn.functional.avg_pool3d-float32", "out/narrow_copy-float32"),
        "the CPU writes to an `out` with gaps as if it were dense, into its neighbours",
    ),
    "spread out/as_strided_copy-float32": "reads what lies between the elements, which nobody wrote",
    "own/NumpyExpMarkDirtyAutogradFunction-float32": "writes through memory that numpy shares with CPU tensors",
    "own/NumpyExpMarkDirtyAutogradFunction-int64": "writes through memory that numpy shares with CPU tensors",
    "own/register_hook.simple-int64": "PyTorch cannot make the sample: it asks for gradients of integers",
}

# Cases that are not right, each counted against us.
KNOWN_MISBEHAVIOURS: dict[str, str] = {
    **dict.fromkeys(
        (
            "out/cholesky_inverse-float32",
            "out/linalg.eigvals-float32",
            "out/linalg.lstsq-float32",
            "out/ormqr-float32",
            "out/triangular_solve-float32",
        ),
        "an `out` without elements gets other strides",
    ),
    "out/bernoulli-float32": "PyTorch's meta kernel refuses whole numbers, which the CPU's draws in",
    "out/normal.number_mean-float32": "takes an `out` of another size, which the CPU refuses for this overload alone",
}
