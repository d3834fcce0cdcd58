"""What it means for a compiled model to agree with eager PyTorch on the CPU.

Inference and gradients are compared directly, in f32, at the defaults of `torch.testing`. Training is not: an
optimizer such as Adam turns rounding noise into steps of full length wherever the true gradient is zero (an attention
key bias), so two correct f32 runs part within three steps. Training is therefore compared in f64, at the defaults, and
in f32 and bf16 only by its distance from the eager f64 run, which may be at most `ALLOWED_ERROR` times eager's own.

In bf16 that noise reaches gradients that are not zero: where a gradient is smaller than its own error, its sign is
chance, and one wrong sign moves one element by `2 * lr`, a hundred times what rounding does. Over one run, one such
element decides about a small tensor, for eager as for us. So bf16 distances are taken over several starts together,
and without the share `1 - KEPT` of a tensor's elements that errs most, in eager's run as in ours. How many signs are
wrong is chance too: where `n` are to be expected, three standard deviations more, `3 * sqrt(n)`, are left out, since
hundreds of tensors are compared, some of 8 elements in 4 starts. By two, one bias of ResNet-50's 123 tensors was 2.4
times as far off as eager's on a processor with AVX2, for its 26th of 32 elements, and all others within 1.1.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from zoo import Batch, Entry

BACKEND = os.environ.get("TORCHTPU_TEST_BACKEND", "torchtpu")
ALLOWED_ERROR = 2.0
ATOL = 1e-5  # of torch.testing for f32 and bf16
STEPS = 3
SEEDS = {torch.float32: 1, torch.bfloat16: 4}
KEPT = {torch.float32: 1.0, torch.bfloat16: 0.9}  # up to 8% of the signs are wrong in eager's runs: ResNet's biases

OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "adamw": lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01),
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4),
}

Wrap = Callable[[Any], Any]


def eager(fn: Any) -> Any:
    return fn


def compiled(fn: Any) -> Any:
    return torch.compile(fn, backend=BACKEND)


@contextlib.contextmanager
def compiling(entry: Entry) -> Iterator[None]:
    """A fresh Dynamo with the settings that `entry` asks for; nothing inside may fall back to the host."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    before = fallbacks()
    with torch._dynamo.config.patch(**entry.dynamo), _settings_of_the_backend():
        yield
    assert fallbacks() == before, "operations ran on the host instead of the plugin"


def _settings_of_the_backend() -> contextlib.AbstractContextManager[object]:
    """PyTorch's own backends cannot differentiate the oneDNN LSTM that AOTAutograd picks; ours has to."""
    if BACKEND == "torchtpu":
        return contextlib.nullcontext()
    return torch.backends.mkldnn.flags(enabled=False)  # type: ignore[no-any-return]


def fallbacks() -> object:
    """A snapshot of what `torchtpu.stats()` has counted, so that a test can ask for no more."""
    if BACKEND != "torchtpu":
        return None
    import torchtpu

    return copy.deepcopy(torchtpu.stats()["fallbacks"])


def graph_count() -> int:
    """How many graphs Dynamo has handed to a backend since `compiling` began."""
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


# --- what is compared ------------------------------------------------------------------------------------------------


def infer(entry: Entry, wrap: Wrap = eager) -> Any:
    """Outputs in evaluation mode, without gradients, in f32."""
    model = entry.build().eval()
    with torch.no_grad():
        return wrap(model)(**entry.batch().inputs)


def differentiate(entry: Entry, wrap: Wrap = eager) -> dict[str, Tensor]:
    """Loss, gradients of parameters and floating-point inputs, and buffers after one training-mode pass in f32."""
    model = entry.build()
    batch = entry.batch()
    inputs = {name: value for name, value in batch.inputs.items() if value.is_floating_point()}
    for value in inputs.values():
        value.requires_grad_()
    loss = wrap(entry.loss)(model, batch)
    loss.backward()
    result = {"loss": loss.detach()}
    leaves = {**dict(model.named_parameters()), **inputs}
    result |= {f"grad {name}": leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
    return result | {f"buffer {name}": buffer for name, buffer in model.named_buffers()}


@dataclass(frozen=True)
class Trajectory:
    """The losses of a few steps, and every parameter and buffer after them."""

    losses: Tensor
    state: dict[str, Tensor]


Runs = Sequence[Trajectory]


def train(
    entry: Entry,
    dtype: torch.dtype,
    optimizer: str,
    wrap: Wrap = eager,
    seeds: int = 1,
    *,
    steps: int = STEPS,
    device: str = "cpu",
) -> list[Trajectory]:
    """`steps` steps on one batch, without dropout, from each of `seeds` starts; `wrap` takes the loss and the step."""
    entries = [dataclasses.replace(entry, seed=entry.seed + i) for i in range(seeds)]
    # Made before the default dtype changes, in which weights are drawn.
    starts = [(entry.build(dtype=dtype), entry.batch(dtype=dtype)) for entry in entries]
    model = copy.deepcopy(starts[0][0]).to(device)
    with default_dtype(torch.promote_types(dtype, torch.float32)):
        step = _Step(entry, model, OPTIMIZERS[optimizer](model), wrap)
        return [_trajectory(step, start, batch.to(device), steps) for start, batch in starts]


def _trajectory(step: _Step, start: nn.Module, batch: Batch, steps: int) -> Trajectory:
    """Kept on the CPU, wherever it was computed."""
    step.start_from(start)
    losses = torch.stack([step(batch) for _ in range(steps)])
    state = {**dict(step.model.named_parameters()), **dict(step.model.named_buffers())}
    return Trajectory(losses.cpu(), {name: value.detach().to("cpu", copy=True) for name, value in state.items()})


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Adam counts its steps in the default dtype, and a compiled Adam computes its bias correction from that tensor."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class _Step:
    """One whole training step: forward, backward, update. Returns the loss before the update."""

    def __init__(self, entry: Entry, model: nn.Module, optimizer: torch.optim.Optimizer, wrap: Wrap):
        self.model = model
        self.loss = wrap(entry.loss)
        self.optimizer = optimizer
        self.update = wrap(optimizer.step)

    def start_from(self, model: nn.Module) -> None:
        """The weights of `model`, and an optimizer that has seen no step, in the same tensors: nothing recompiles."""
        with torch.no_grad():
            ours, theirs = ({**dict(m.named_parameters()), **dict(m.named_buffers())} for m in (self.model, model))
            for name, value in ours.items():
                value.copy_(theirs[name])
            for value in pytree.tree_leaves(list(self.optimizer.state.values())):
                value.zero_()

    def __call__(self, batch: Batch) -> Tensor:
        self.optimizer.zero_grad()
        loss: Tensor = self.loss(self.model, batch)
        loss.backward()
        self.update()
        return loss.detach()


# --- how it is compared ----------------------------------------------------------------------------------------------


def assert_same_outputs(ours: Any, expected: Any) -> None:
    """Same structure, and every tensor close at the defaults of `torch.testing`."""
    ours_leaves, ours_spec = pytree.tree_flatten(ours)
    leaves, spec = pytree.tree_flatten(expected)
    assert ours_spec == spec
    assert leaves, "a model without outputs proves nothing"
    torch.testing.assert_close(ours_leaves, leaves)


def assert_same_trajectory(ours: Trajectory, expected: Trajectory) -> None:
    torch.testing.assert_close(ours.losses, expected.losses)
    torch.testing.assert_close(ours.state, expected.state)


def assert_error_within_eager(ours: Runs, expected: Runs, truth: Runs, kept: float) -> None:
    """Per tensor, distance from `truth` over all runs: ours at most `ALLOWED_ERROR` times eager's, plus `ATOL`."""
    excess = {}
    for name in ("losses", *truth[0].state):
        error, allowed = _distance(ours, truth, name, kept), _distance(expected, truth, name, kept)
        if not error <= ALLOWED_ERROR * allowed + ATOL:
            excess[name] = f"{error:.3g}, eager {allowed:.3g}"
    assert not excess, f"further from f64 than eager is: {excess}"


def _tensor(trajectory: Trajectory, name: str) -> Tensor:
    return trajectory.losses if name == "losses" else trajectory.state[name]


def _distance(runs: Runs, truth: Runs, name: str, kept: float) -> float:
    """Root mean square over the elements that err least, the share `kept` but for chance. NaN if any is."""
    errors = [_tensor(run, name).double() - _tensor(true, name).double() for run, true in zip(runs, truth, strict=True)]
    squares = torch.stack(errors).square().flatten().sort().values
    if squares.isnan().any():
        return math.nan
    expected = (1 - kept) * len(squares)
    count = math.ceil(len(squares) - expected - 3 * math.sqrt(expected))
    return float(squares[: max(count, 1)].mean().sqrt()) if len(squares) else 0.0


# --- dropout ---------------------------------------------------------------------------------------------------------

CALLS = 64


def sample_losses(entry: Entry, wrap: Wrap = eager, seed: int = 0) -> Tensor:
    """Losses of `CALLS` passes with dropout over one batch, from one seed."""
    model = entry.build(dropout=True)
    batch = entry.batch()
    loss = wrap(entry.loss)
    torch.manual_seed(seed)
    with torch.no_grad():
        return torch.stack([loss(model, batch) for _ in range(CALLS)])


def train_with_dropout(entry: Entry, wrap: Wrap, steps: int = 12) -> Tensor:
    """Losses of `steps` steps with dropout on one batch. The optimizer is eager: it writes what compiled code reads."""
    model = entry.build(dropout=True)
    batch = entry.batch()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loss_of = wrap(entry.loss)
    torch.manual_seed(0)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def assert_same_distribution(ours: Tensor, expected: Tensor) -> None:
    """Means within five standard errors, spreads within a factor of two: false alarms below 1e-5 for 64 draws each."""
    spread = (ours.var() / len(ours) + expected.var() / len(expected)).sqrt()
    assert abs(float(ours.mean() - expected.mean())) < 5 * float(spread)
    assert 0.5 < float(ours.std() / expected.std()) < 2.0
