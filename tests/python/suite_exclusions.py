"""What the runs of PyTorch's module and optimizer databases (`suites`) leave out or compare less, and why."""

from __future__ import annotations

# Draw random numbers in training: every device has a generator of its own, so only shapes are compared.
RANDOM_MODULES: frozenset[str] = frozenset()

EXCLUDED_MODULES: dict[str, str] = {}

# Only the parameters are compared, not the state.
STATELESS_OPTIMIZERS: dict[str, str] = {"LBFGS": "how many directions it keeps hangs on the last bit of a line search"}

EXCLUDED_OPTIMIZERS: dict[str, str] = {"SparseAdam": 'takes sparse gradients, and "tpu" tensors are strided'}
