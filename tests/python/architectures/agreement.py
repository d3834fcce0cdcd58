"""Whether a compiled architecture agrees with eager PyTorch.

Outputs, the loss, gradients, and parameters and buffers after one step are held against eager f32 at the defaults of
`torch.testing`. Where those do not hold, a value may still be no further from eager f64 than `ALLOWED_ERROR` times what
eager f32 is: the furthest of a few runs, whose inputs are moved by a rounding. One run's distance is chance where a
value hangs on few roundings: over eight seeds, the gradient of MViT's class token (16 elements, about 3e5) came out
at 0.5 to 2.4 times eager's distance, in exact numerics at 0.5 to 1.4.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from agreement import ALLOWED_ERROR, ATOL, default_dtype
from torch import Tensor
from torch.utils._pytree import tree_map

from architectures.core import Architecture, tensors

Values = dict[str, Tensor]
Traced = dict[str, Any]
Wrap = Callable[[Any], Any]
# Runs of eager f32 beside the plain one.
SHAKEN = 3
FAINT = 30 * ATOL
RTOL = {
    torch.float32: 1.3e-6,
    torch.float16: 1e-3,
    torch.bfloat16: 1.6e-2,
    torch.float64: 1e-7,
    torch.complex64: 1.3e-6,
}


def examine(entry: Architecture, backend: str) -> dict[str, Any]:
    """The record of one model: what it is, how it was compiled, and how far it is from eager PyTorch."""
    model = entry.build()
    record: dict[str, Any] = {
        "name": entry.name,
        "library": entry.library,
        "kind": entry.kind,
        "class": type(model).__name__,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }
    before = _stats(backend)
    record["inference"] = _part(entry, infer, backend)
    record["training"] = _part(entry, train, backend)
    after = _stats(backend)
    record["programs"] = after["compiles"] + after["disk_hits"] - before["compiles"] - before["disk_hits"]
    record["host"] = _grown(after["fallbacks"], before["fallbacks"])
    record["reads"] = _grown(after["reads"], before["reads"])
    record["right"] = not record["host"] and not any(record[part].get("failure") for part in ("inference", "training"))
    return record


def _stats(backend: str) -> dict[str, Any]:
    if backend != "torchtpu":
        return {"compiles": 0, "disk_hits": 0, "fallbacks": {}, "reads": {}}
    import torchtpu

    return torchtpu.stats()


def _grown(after: dict[str, Any], before: dict[str, Any]) -> list[str]:
    return sorted(op for op, lines in after.items() if lines != before.get(op))


def _part(entry: Architecture, compute: Callable[..., tuple[Values, Traced]], backend: str) -> dict[str, Any]:
    """One of the two computations, compiled and eager: the largest error, in tolerances, or why there is none."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    expected, _ = compute(entry, torch.float32)
    result: dict[str, Any] = {}
    try:
        with torch._dynamo.config.patch(**entry.dynamo), _settings(backend):
            ours, traced = compute(entry, torch.float32, lambda fn: torch.compile(fn, backend=backend))
        result |= traced
        runs = (compute(entry, torch.float32, _shaking(seed))[0] for seed in range(SHAKEN))
        result |= _compare(ours, expected, runs, lambda: compute(entry, torch.float64)[0])
    except Exception as error:
        result |= _traced() | {"failure": f"{type(error).__name__}: {str(error)[:1500]}"}
    return result


def _traced() -> Traced:
    """How many graphs Dynamo has made so far, and why it broke them."""
    counters = torch._dynamo.utils.counters
    breaks = counters["graph_break"]
    graphs = int(counters["stats"]["unique_graphs"])
    return {"graphs": graphs, "breaks": sum(breaks.values()), "why": sorted({why.splitlines()[0] for why in breaks})}


def _settings(backend: str) -> contextlib.AbstractContextManager[object]:
    """PyTorch's own backends cannot differentiate the oneDNN LSTM that AOTAutograd picks; ours has to."""
    if backend == "torchtpu":
        return contextlib.nullcontext()
    return torch.backends.mkldnn.flags(enabled=False)  # type: ignore[no-any-return]


def infer(entry: Architecture, dtype: torch.dtype, wrap: Wrap = lambda fn: fn) -> tuple[Values, Traced]:
    """Outputs in evaluation mode, and how they were traced."""
    model, inputs = entry.build(dtype).eval(), entry.batch(dtype)
    with torch.no_grad(), default_dtype(dtype):
        outputs = wrap(entry.infer)(model, inputs)
    return {f"output {i}": value for i, value in enumerate(tensors(outputs))}, _traced()


def train(entry: Architecture, dtype: torch.dtype, wrap: Wrap = lambda fn: fn) -> tuple[Values, Traced]:
    """Loss and gradients of one step, and parameters and buffers after it; and how the loss was traced."""
    model, inputs = entry.build(dtype).train(), entry.batch(dtype, training=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with default_dtype(dtype):
        loss = wrap(entry.loss)(model, inputs)
        loss.backward()
        gradients = {f"grad {name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
        traced = _traced()  # before the optimizer, whose step Dynamo always breaks once
        wrap(optimizer.step)()
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    values = {"loss": loss, **gradients, **state}
    assert gradients, "a step without gradients proves nothing"
    return {name: value.detach() for name, value in values.items()}, traced


def _shaking(seed: int) -> Wrap:
    """Moves every number that a function is given by up to half a unit in the last place."""
    generator = torch.Generator().manual_seed(seed)

    def shaken(x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.is_floating_point():
            return x
        noise = torch.rand(x.shape, generator=generator, dtype=torch.float64) - 0.5
        return x * (1 + noise.to(x.dtype) * torch.finfo(x.dtype).eps)

    return lambda fn: lambda *args: fn(*tree_map(shaken, args))


def _compare(ours: Values, expected: Values, shaken: Iterable[Values], truth: Callable[[], Values]) -> dict[str, Any]:
    """The largest error in tolerances, and how it was judged."""
    _check_that_errors_show(expected)
    # Where a parameter has no part in the loss, eager leaves the gradient out, and AOTAutograd may give zeros.
    zeros = {name: torch.zeros_like(value) for name, value in ours.items() if name not in expected}
    assert all(name.startswith("grad ") for name in zeros), f"not in eager: {list(zeros)[:5]}"
    assert expected.keys() <= ours.keys(), f"only in eager: {sorted(expected.keys() - ours.keys())[:5]}"
    expected = {**expected, **zeros}
    errors = {name: _in_tolerances(ours[name], value) for name, value in expected.items()}
    if max(errors.values()) <= 1:
        return {"judged": "f32", "error": max(errors.values())}
    exact = {**zeros, **truth()}
    eager = [expected, *({**zeros, **values} for values in shaken)]
    far = [name for name, error in errors.items() if not error <= 1]
    ratios = {name: _beside_eager(ours[name], [values[name] for values in eager], exact[name]) for name in far}
    worst = sorted(ratios, key=lambda name: -ratios[name])
    result = {"judged": "f64", "error": ratios[worst[0]]}
    if not ratios[worst[0]] <= 1:
        told = [
            f"{name} {_rms(ours[name], exact[name]):.3g}, eager {_rms(expected[name], exact[name]):.3g}"
            for name in worst[:5]
            if ours[name].shape == exact[name].shape
        ]
        result["failure"] = f"further from f64 than eager is: {'; '.join(told) or worst[:5]}"
    return result


def _check_that_errors_show(values: Values) -> None:
    """Where most values are no larger than what is allowed, nothing is compared."""
    computed = [v for name, v in values.items() if name.startswith(("output", "grad")) and v.is_floating_point()]
    assert computed, "a model without outputs proves nothing"
    largest = [float(v.abs().max()) for v in computed if v.numel()]
    faint = sum(value < FAINT for value in largest)
    assert 2 * faint <= len(largest), f"{faint} of {len(largest)} values are close to nought"


def _in_tolerances(ours: Tensor, expected: Tensor) -> float:
    """The largest difference of two elements in tolerances of `torch.testing`; infinite if they cannot be compared."""
    if ours.shape != expected.shape or ours.dtype != expected.dtype:
        return math.inf
    if not expected.numel():
        return 0.0
    if not expected.dtype.is_floating_point and not expected.dtype.is_complex:
        return 0.0 if torch.equal(ours, expected) else math.inf
    same = (ours == expected) | (ours.isnan() & expected.isnan())
    allowed = ATOL + RTOL[expected.dtype] * expected.abs().double()
    error = ((ours - expected).abs().double() / allowed).masked_fill(same, 0)
    return float(error.nan_to_num(math.inf, math.inf).max())


def _beside_eager(ours: Tensor, eager: list[Tensor], truth: Tensor) -> float:
    """Our distance from the truth, as a share of what is allowed."""
    if ours.shape != truth.shape or not ours.dtype.is_floating_point:
        return math.inf
    error, allowed = _rms(ours, truth), ALLOWED_ERROR * max(_rms(value, truth) for value in eager) + ATOL
    return error / allowed if math.isfinite(error) and math.isfinite(allowed) else math.inf


def _rms(value: Tensor, truth: Tensor) -> float:
    return float((value.double() - truth.double()).square().mean().sqrt())
