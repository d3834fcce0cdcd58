"""Language models of transformers: decoders, encoders, encoder-decoders with their caches, state spaces, experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from architectures.core import Architecture, Inputs, call, library_class

VOCABULARY = 67
# What most configurations call their sizes.
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = SHAPE | {"num_key_value_heads": 2}


def hugging_face(
    family: str,
    head: str,
    kind: str,
    config: dict[str, Any],
    inputs: Callable[[], Inputs],
    labels: Callable[[], Inputs] = dict,
    name: str = "",
    **rest: Any,
) -> Architecture:
    """The class `family` + `head` with a configuration of its own."""

    def make() -> nn.Module:
        model_class = library_class("transformers", family + head)
        return model_class(model_class.config_class(**config))

    return Architecture(name or family.lower(), "transformers", kind, make, inputs, labels, **rest)


def tokens(rows: int = 2, length: int = 10, **more: Callable[[], Any]) -> Callable[[], Inputs]:
    return lambda: {"input_ids": torch.randint(3, VOCABULARY, (rows, length))} | {k: make() for k, make in more.items()}


def token_labels(rows: int = 2, length: int = 10) -> Callable[[], Inputs]:
    return lambda: {"labels": torch.randint(3, VOCABULARY, (rows, length))}


def decoder(family: str, kind: str = "decoder", head: str = "ForCausalLM", **config: Any) -> Architecture:
    return hugging_face(family, head, kind, {**GROUPED, **config}, tokens(), token_labels())


def encoder(family: str, head: str = "ForMaskedLM", length: int = 10, **config: Any) -> Architecture:
    """With rows of different lengths."""
    mask = lambda: (torch.arange(length) < torch.tensor([[length], [length - 3]])).long()  # noqa: E731
    return hugging_face(
        family,
        head,
        "encoder",
        {**SHAPE, "num_hidden_layers": 1, **config},
        tokens(length=length, attention_mask=mask),
        token_labels(length=length),
    )


def decode(model: Any, inputs: Inputs) -> Any:
    """A pass over a prompt, and one over the next token with the cache that the first one left."""
    first = model(**inputs, use_cache=True)
    following = first.logits[:, -1:].argmax(-1)
    sources = {name: value for name, value in inputs.items() if not name.startswith("decoder_")}
    encoded = (first.encoder_last_hidden_state,)
    second = model(
        **{name: value for name, value in sources.items() if name == "attention_mask"},
        encoder_outputs=encoded,
        decoder_input_ids=following,
        past_key_values=first.past_key_values,
        use_cache=True,
    )
    return first.logits, second.logits, second.past_key_values


def encoder_decoder(family: str, **config: Any) -> Architecture:
    inputs = tokens(decoder_input_ids=lambda: torch.randint(3, VOCABULARY, (2, 5)))
    shape = {"vocab_size": VOCABULARY, "pad_token_id": 0, "decoder_start_token_id": 1, "eos_token_id": 2}
    return hugging_face(
        family,
        "ForConditionalGeneration",
        "encoder-decoder with cache",
        {**shape, **config},
        inputs,
        token_labels(length=5),
        infer=decode,
    )


BART: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
}
T5: dict[str, Any] = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4}
EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2}

ENTRIES = [
    decoder("Mistral", sliding_window=6),
    decoder("Qwen3", head_dim=8),
    decoder("Gemma2", head_dim=8, sliding_window=6),
    decoder("Gemma3", head_dim=8, sliding_window=6),
    decoder("Phi"),
    decoder("GPTNeoX"),
    decoder("OPT", ffn_dim=48, word_embed_proj_dim=32),
    decoder("Bloom", n_layer=2, n_head=4),
    decoder("Falcon"),
    decoder("Mamba", "state space", state_size=4, conv_kernel=3, expand=2, time_step_rank=4),
    decoder(
        "Mamba2",
        "state space",
        state_size=4,
        conv_kernel=3,
        expand=2,
        num_heads=4,
        head_dim=16,
        n_groups=2,
        chunk_size=4,
    ),
    decoder(
        "RecurrentGemma",
        "state space",
        lru_width=32,
        attention_window_size=6,
        block_types=("recurrent", "attention"),
        head_dim=8,
    ),
    decoder("Rwkv", "state space", attention_hidden_size=32, context_length=32),
    decoder(
        "Jamba",
        "hybrid of state space, attention and experts",
        mamba_d_state=4,
        mamba_dt_rank=4,
        attn_layer_period=2,
        attn_layer_offset=1,
        expert_layer_period=2,
        expert_layer_offset=1,
        use_mamba_kernels=False,
        **EXPERTS,
    ),
    decoder("Olmoe", "mixture of experts", **EXPERTS),
    decoder(
        "DeepseekV3",
        "mixture of experts",
        num_key_value_heads=4,
        moe_intermediate_size=16,
        n_routed_experts=4,
        n_group=2,
        topk_group=1,
        num_experts_per_tok=2,
        first_k_dense_replace=1,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=8,
    ),
    decoder("GptOss", "mixture of experts", num_local_experts=4, num_experts_per_tok=2, head_dim=8, sliding_window=6),
    encoder_decoder("Bart", **BART),
    encoder_decoder("MT5", **T5),
    # Its stack refuses a cache by name, whatever the configuration.
    replace(
        encoder_decoder(
            "SwitchTransformers",
            **T5,
            num_sparse_encoder_layers=1,
            num_sparse_decoder_layers=1,
            num_experts=4,
            router_jitter_noise=0.0,
        ),
        kind="mixture of experts",
        infer=call,
    ),
    encoder("Albert", embedding_size=16),
    encoder(
        "DebertaV2",
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        position_buckets=8,
    ),
    encoder("FNet", "ForMaskedLM"),
    encoder(
        "ModernBert",
        num_hidden_layers=2,
        global_attn_every_n_layers=2,
        local_attention=4,
        cls_token_id=1,
        sep_token_id=2,
    ),
    encoder("Longformer", length=16, attention_window=[4], max_position_embeddings=80),
    hugging_face(
        "Funnel",
        "ForMaskedLM",
        "encoder",
        {
            "vocab_size": VOCABULARY,
            "block_sizes": [1, 1],
            "num_decoder_layers": 1,
            "d_model": 32,
            "n_head": 4,
            "d_head": 8,
            "d_inner": 48,
        },
        tokens(length=16),
        token_labels(length=16),
    ),
    hugging_face(
        "Reformer",
        "ModelWithLMHead",
        "decoder",
        {
            **SHAPE,
            "attn_layers": ["local"],
            "axial_pos_embds": False,
            "attention_head_size": 8,
            "feed_forward_size": 48,
            "local_attn_chunk_length": 8,
            "is_decoder": True,
        },
        tokens(length=16),
        token_labels(length=16),
    ),
    hugging_face(
        "XLNet",
        "LMHeadModel",
        "decoder",
        {"vocab_size": VOCABULARY, "d_model": 32, "n_layer": 1, "n_head": 4, "d_inner": 48},
        tokens(),
        token_labels(),
    ),
    hugging_face(
        "Perceiver",
        "ForMaskedLM",
        "encoder",
        {
            "vocab_size": VOCABULARY,
            "max_position_embeddings": 16,
            "num_latents": 8,
            "d_latents": 32,
            "d_model": 24,
            "num_self_attends_per_block": 1,
            "num_self_attention_heads": 4,
            "num_cross_attention_heads": 4,
            "qk_channels": 16,
            "v_channels": 32,
        },
        tokens(length=16),
        token_labels(length=16),
    ),
]
