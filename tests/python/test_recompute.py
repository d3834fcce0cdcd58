"""Activation checkpointing in captured steps: the same results, and less kept for the backward pass."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable

import pytest
import torch
import torchtpu
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torchtpu import _native, _plugins
from torchtpu._recompute import barrier
from torchtpu._step import Step, capture_step

BATCH, LENGTH = 8, 16


def llama(layers: int = 2, **sizes: int) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    small = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, use_cache=False, **(small | sizes))).train()


def tokens(batch: int = BATCH, length: int = LENGTH) -> dict[str, Tensor]:
    ids = torch.randint(0, 64, (batch, length), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, "labels": ids}


def checkpointed(model: nn.Module) -> nn.Module:
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def run(step: Step) -> tuple[list[Tensor], list[Tensor]]:
    """What the step gives, and its arguments after it."""
    arguments = [t.detach().clone() for t in step.arguments.values()]
    return _native.Program(step.trace.to_bytes(), plugin=_plugins.current())(arguments), arguments


def barriers(step: Step) -> int:
    nodes = step.trace.program["graph_module"]["graph"]["nodes"]
    return sum(node["target"] == f"{barrier.__module__}.{barrier.__name__}" for node in nodes)


@pytest.mark.filterwarnings("ignore:`gradient_checkpointing_enable`:FutureWarning")
def test_a_checkpointed_llama_takes_the_step_that_eager_takes() -> None:
    model, batch = checkpointed(llama()), tokens()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(**batch).loss.backward()
    optimizer.step()
    step = capture_step(model, batch, optimizer=optimizer, return_gradients=True)
    assert barriers(step) > 0
    results, arguments = run(step)
    optimizer.zero_grad()
    loss = model(**batch).loss
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    torch.testing.assert_close(results, [loss.detach(), *gradients])
    optimizer.step()
    updated = dict(zip(step.arguments, arguments, strict=True))
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(updated[name], parameter.detach())


def dropped(x: Tensor) -> Tensor:
    return nn.functional.dropout(x, 0.5)


def drawn(x: Tensor) -> Tensor:
    return x * (torch.rand_like(x) < 0.5) * 2


class Random(nn.Module):
    """Ones, some of which are kept, and doubled."""

    def __init__(self, keep: Callable[[Tensor], Tensor], use_reentrant: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(64))
        self.keep = keep
        self.use_reentrant = use_reentrant

    def region(self, x: Tensor) -> Tensor:
        return self.keep((x * self.weight).exp())

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.region, x, use_reentrant=self.use_reentrant).square().sum()


def captured(model: nn.Module, rows: int = 16) -> Step:
    return capture_step(model, {"x": torch.ones(rows, 64)}, loss=lambda loss: loss)


@pytest.mark.parametrize("keep", [dropped, drawn])
def test_random_numbers_are_those_of_the_forward_pass(keep: Callable[[Tensor], Tensor]) -> None:
    step = captured(Random(keep))
    assert barriers(step) > 0
    (loss, gradient), _ = run(step)
    # Both are sums over what was kept, and would not agree if the backward pass had drawn anew.
    assert 0 < loss < 4 * 16 * 64
    torch.testing.assert_close(gradient.sum(), 2 * loss)


class Overwriting(nn.Module):
    """Writes to a region's input after the region."""

    def __init__(self, region: Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((64,), 0.5))
        self.region = region

    def forward(self, x: Tensor) -> Tensor:
        scaled = x * self.weight
        result = self.region(lambda x: x.exp().exp(), scaled)
        scaled.detach().add_(1)
        return (result * scaled.detach()).mean()


def test_what_is_overwritten_is_not_computed_again() -> None:
    results, _ = run(captured(Overwriting(functools.partial(checkpoint, use_reentrant=False)), rows=1))
    model = Overwriting(lambda function, x: function(x))
    loss = model(torch.ones(1, 64))
    loss.backward()
    torch.testing.assert_close(results, [loss.detach(), model.weight.grad])


def test_reentrant_checkpoints_are_refused() -> None:
    with pytest.raises(torchtpu.Error, match="give use_reentrant=False"):
        captured(Random(dropped, use_reentrant=True))


# libtpu is Google-licensed and the user's to install: without it nothing compiles for a TPU, here or in test_check.py.
@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="libtpu is left out")
@pytest.mark.filterwarnings("ignore:`gradient_checkpointing_enable`:FutureWarning")
def test_a_checkpointed_step_keeps_less_in_hbm() -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 256}

    def temporaries(prepare: Callable[[nn.Module], nn.Module]) -> tuple[int, float]:
        with torch.device("meta"):
            model = prepare(llama(3, **sizes)).bfloat16()
        batch = {name: t.to("meta") for name, t in tokens(8, 512).items()}
        step = capture_step(model, batch, optimizer=torch.optim.SGD(model.parameters()))
        report = torchtpu.check(step.trace, target="v5e:1x1")
        assert report.runs and report.flops is not None
        return report.data["memory"]["temporaries"], report.flops

    (kept, once), (dropped, twice) = temporaries(lambda model: model), temporaries(checkpointed)
    assert dropped < 0.6 * kept, (dropped, kept)
    # The layers' forward pass, of three parts of the work, is done twice.
    assert 1.15 * once < twice < 1.4 * once, (once, twice)


def test_a_recurrent_step_is_captured_in_ops_of_the_table() -> None:
    lstm = nn.LSTM(3, 4, num_layers=2, batch_first=True)
    step = capture_step(lstm, {"input": torch.zeros(2, 5, 3)}, loss=lambda output: output[0].sum())
    text = _native.Program(step.trace.to_bytes(), plugin=_plugins.current()).text("core")
    assert "dot_general" in text, "oneDNN's layers, which have no lowering, are not picked"


def test_a_transpose_is_made_again_from_what_it_is_of() -> None:
    def spread(x: Tensor, y: Tensor) -> Tensor:
        return x[:, None].expand(-1, 8, -1).transpose(-1, 1) * y.sin()

    kept: set[tuple[int, ...]] = set()

    def keep(t: Tensor) -> Tensor:
        kept.add(tuple(t.shape))
        return t

    x, y = torch.randn(4, 32), torch.randn(4, 32, 8, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        result = torch.compile(spread, backend="torchtpu")(x, y)
    # Spread out, it would be another of `y`'s size.
    assert kept == {x.shape, y.shape}
    (gradient,) = torch.autograd.grad(result.sum(), y)
    torch.testing.assert_close(gradient, torch.autograd.grad(spread(x, y).sum(), y)[0])


def test_transposes_of_no_dimensions_and_of_one_with_itself() -> None:
    def both(x: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        return x.transpose(1, 1) + 1, number.transpose(0, -1) + 1

    inputs = (torch.randn(2, 3), torch.tensor(2.0))
    assert_equal = functools.partial(torch.testing.assert_close, rtol=0, atol=0)
    assert_equal(torch.compile(both, backend="torchtpu")(*inputs), both(*inputs))
