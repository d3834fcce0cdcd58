"""What the sweep of PyTorch's op database (`opdb`) leaves out or compares less, and why."""

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
TIED: dict[str, tuple[int, str]] = {
    "sort": (1, "not stable unless asked to be"),
    "argsort": (0, "not stable unless asked to be"),
    "topk": (1, "PyTorch says so in its documentation"),
    "kthvalue": (1, "any of the places of that value"),
    "mode": (1, "any of the places of the most frequent value"),
}

# Arguments behind the first that PyTorch wants on the CPU whatever the device.
ON_HOST: dict[str, str] = {"tensor_split": "sections as a tensor have to be on the CPU, says PyTorch"}

_SPARSE = "makes sparse tensors, which the device does not have: its tensors are strided"
_COMPLEX32 = "makes complex32, which StableHLO does not have"
_JITERATOR = "compiles CUDA source; PyTorch refuses it on any other device"

# Not run.
EXCLUDED: dict[str, str] = {
    "to_sparse": _SPARSE,
    "sparse.sampled_addmm": _SPARSE,
    "sparse.mm.reduce": _SPARSE,
    "chalf": _COMPLEX32,
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

# Pairs that are not right, each counted against us.
KNOWN_FAILURES: dict[str, str] = {
    "msort-bfloat16": "not stable: the gradient goes to other ones among equal elements",
    "native_dropout_backward-bool": "the rule multiplies, which bool does not do",
    "nextafter-bfloat16": "a defect, cause not found: our gradient is 0 where the CPU's is not",
    "nn.functional.bilinear-bfloat16": "XLA's CPU lacks the product of 16-bit matrices for one layout in its gradient",
    "nn.functional.linear_cross_entropy.chunked-bfloat16": "its accumulation type depends on the device",
    "nn.functional.linear_cross_entropy.chunked_none-bfloat16": "its accumulation type depends on the device",
}
