"""Text generation with transformers' `generate`: its tokens, and how many executables it compiles.

A compiled `forward` is one executable for the prompt and one for a further token, if the cache has a fixed size. A
cache that grows takes one for each length. A second call, with other tokens, compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torchtpu
from counting import programs
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration

NEW_TOKENS = 5
VOCABULARY = 64


def llama() -> nn.Module:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    return LlamaForCausalLM(config)


def t5() -> nn.Module:
    config = T5Config(
        vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    return T5ForConditionalGeneration(config)


def generator(make: Callable[[], nn.Module]) -> Any:
    torch.manual_seed(0)
    model: Any = make().eval()
    # Random weights end a sentence anywhere: without an end, how many steps there are is known.
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def prompts() -> list[Tensor]:
    draws = torch.Generator().manual_seed(1)
    return [torch.randint(2, VOCABULARY, (2, 9), generator=draws) for _ in range(2)]


def generated(model: Any, prompt: Tensor, **options: Any) -> Tensor:
    options = {"do_sample": False, **options}
    tokens = model.generate(prompt, max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, **options)
    assert isinstance(tokens, Tensor)
    return tokens.cpu()


def compiles(run: Callable[[], Tensor]) -> tuple[Tensor, int]:
    """What it gives, and the executables that had to be made or loaded for it."""
    before = programs()
    return run(), programs() - before


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    torch._dynamo.reset()
    before = torchtpu.stats()["fallbacks"]
    yield
    assert torchtpu.stats()["fallbacks"] == before


def both_calls(model: Any, device: str = "cpu", **options: Any) -> int:
    """How many executables the first call takes; the tokens are the CPU's, and the second call takes none."""
    first, second = prompts()
    wanted = [generated(model, p) for p in (first, second)]
    model.to(device)
    if options.pop("compiled", True):
        model.forward = torch.compile(model.forward, backend="torchtpu", **options.pop("compile", {}))
    tokens, count = compiles(lambda: generated(model, first.to(device), **options))
    torch.testing.assert_close(tokens, wanted[0])
    tokens, again = compiles(lambda: generated(model, second.to(device), **options))
    torch.testing.assert_close(tokens, wanted[1])
    assert again == 0
    return count


@pytest.mark.parametrize("make", [llama, t5])
def test_static_cache(make: Callable[[], nn.Module]) -> None:
    assert both_calls(generator(make), cache_implementation="static", compile={"fullgraph": True}) <= 3


def test_growing_cache() -> None:
    assert both_calls(generator(llama)) <= NEW_TOKENS


def test_static_cache_on_the_device() -> None:
    both_calls(generator(llama), "tpu", cache_implementation="static", compile={"fullgraph": True})


def test_eager_on_the_device() -> None:
    both_calls(generator(llama), "tpu", compiled=False)


def test_beams() -> None:
    model = generator(llama)
    prompt = prompts()[0]
    wanted = generated(model, prompt, num_beams=3)
    assert torch.equal(generated(model.to("tpu"), prompt.to("tpu"), num_beams=3), wanted)


def test_sampling_repeats_with_its_seed() -> None:
    model = generator(llama).to("tpu")
    prompt = prompts()[0].to("tpu")
    draws = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        draws.append(generated(model, prompt, do_sample=True, top_k=20, top_p=0.9, temperature=0.8))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert int(draws[0].max()) < VOCABULARY
