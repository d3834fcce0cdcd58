"""Trains a small GPT-2 through ``torch.compile(backend="torchtpu")`` and checks it against eager PyTorch.

Run it with ``make demo``. It needs no TPU and no network: the model is random, and runs on the embedded CPU plugin.
"""

from __future__ import annotations

import copy
import importlib.util
import time

import torch
import torchtpu
from transformers import GPT2Config, GPT2LMHeadModel

STEPS = 12


def build() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=4, n_head=8, n_embd=256, n_positions=128, vocab_size=4096, bos_token_id=0, eos_token_id=0,
        attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0, use_cache=False,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"  # what the class defaults to, with a warning that breaks the graph
    return model


def train(model: GPT2LMHeadModel, forward, tokens: torch.Tensor) -> tuple[list[float], list[float]]:
    """Losses and seconds of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    losses, seconds = [], []
    for _ in range(STEPS):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = forward(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    return losses, seconds


def median(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) // 2]


def main() -> None:
    tokens = torch.randint(0, 4096, (4, 128), generator=torch.Generator().manual_seed(1))
    eager = build()
    compiled = copy.deepcopy(eager)
    print(f"GPT-2 with {sum(p.numel() for p in eager.parameters()) / 1e6:.1f} M parameters, batch 4 x 128 tokens")

    eager_losses, eager_seconds = train(eager, eager, tokens)
    losses, seconds = train(compiled, torch.compile(compiled, backend="torchtpu"), tokens)
    torch.testing.assert_close(losses, eager_losses, rtol=1e-4, atol=1e-4)
    print(f"training: losses equal eager PyTorch's over {STEPS} steps, from {losses[0]:.4f} to {losses[-1]:.4f}")
    print(f"          first step {seconds[0]:.2f} s (compiles forward and backward)")
    print(f"          step {median(seconds[2:]) * 1e3:.1f} ms, eager {median(eager_seconds[2:]) * 1e3:.1f} ms")

    eager.eval()
    compiled.load_state_dict(eager.state_dict())
    compiled.eval()
    run = torch.compile(compiled, backend="torchtpu")
    with torch.inference_mode():
        torch.testing.assert_close(run(tokens).logits, eager(tokens).logits, rtol=1e-4, atol=1e-4)
        ours, theirs = [], []
        for _ in range(10):
            for call, times in ((run, ours), (eager, theirs)):
                start = time.perf_counter()
                call(tokens)
                times.append(time.perf_counter() - start)
    print(f"inference: equals eager; {median(ours) * 1e3:.1f} ms, eager {median(theirs) * 1e3:.1f} ms")

    stats = torchtpu.stats()
    fallbacks = stats.pop("fallbacks")
    print(f"stats: {stats}; ops on the host: {fallbacks or 'none'}")
    check(eager.train(), tokens)


def check(model: GPT2LMHeadModel, tokens: torch.Tensor) -> None:
    """The same training step on a TPU that is not there."""
    if importlib.util.find_spec("libtpu") is None:
        print("libtpu is not installed: what the step would cost on a TPU is left out")
        return
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    step = torchtpu.capture_step(model, {"input_ids": tokens, "labels": tokens}, optimizer=optimizer)
    print("\nThe training step compiled for a v5e TPU, of which this machine has none:\n")
    print(torchtpu.check(step.trace, target="v5e:1x1"))


if __name__ == "__main__":
    main()
