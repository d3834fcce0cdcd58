"""Models of transformers that see or hear, or do both and speak; time series, and decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from architectures.core import DATA, Architecture, Inputs, images
from architectures.text_models import GROUPED, SHAPE, VOCABULARY, hugging_face, token_labels, tokens

# Of transformers that see.
EYES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
TEXT = SHAPE | {"projection_dim": 16, "num_hidden_layers": 1}


def pictures(side: int = 32, rows: int = 2) -> Callable[[], Inputs]:
    return images(side, rows, name="pixel_values")


def sound(length: int, rows: int = 2) -> Callable[[], Inputs]:
    return lambda: {"input_values": torch.randn(rows, length)}


def merged(*parts: Callable[[], Inputs]) -> Callable[[], Inputs]:
    return lambda: {name: value for part in parts for name, value in part().items()}


def classes(rows: int = 2) -> Callable[[], Inputs]:
    return lambda: {"labels": torch.randint(2, (rows,))}


WAVE: dict[str, Any] = {
    **SHAPE,
    "num_hidden_layers": 1,
    "conv_dim": (16, 16),
    "conv_kernel": (10, 3),
    "conv_stride": (5, 2),
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "apply_spec_augment": False,
    "ctc_loss_reduction": "mean",
}


def text_and_picture(family: str, **config: Any) -> Architecture:
    return hugging_face(
        family,
        "Model",
        "vision-language",
        {"text_config": TEXT, "vision_config": EYES | {"projection_dim": 16}, "projection_dim": 16, **config},
        merged(tokens(), pictures()),
        lambda: {"return_loss": True},
    )


IMAGE_TOKEN = 3


def prompt(count: int) -> Callable[[], Inputs]:
    """Text of which `count` places stand for a picture."""

    def make() -> Inputs:
        ids = torch.randint(4, VOCABULARY, (1, count + 6))
        ids[:, 2 : 2 + count] = IMAGE_TOKEN
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    return make


ENTRIES = [
    # Pictures.
    hugging_face(
        "Dinov2", "ForImageClassification", "vision transformer", {**EYES, "mlp_ratio": 2}, pictures(), classes()
    ),
    hugging_face(
        "ViTMAE",
        "ForPreTraining",
        "vision transformer",
        {
            **EYES,
            "decoder_hidden_size": 16,
            "decoder_num_hidden_layers": 1,
            "decoder_num_attention_heads": 2,
            "decoder_intermediate_size": 24,
        },
        merged(pictures(), lambda: {"noise": torch.rand(2, 16)}),
    ),
    hugging_face(
        "Segformer",
        "ForSemanticSegmentation",
        "segmentation",
        {
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [8, 16, 24, 32],
            "num_attention_heads": [1, 2, 2, 4],
            "decoder_hidden_size": 16,
        },
        pictures(64),
        lambda: {"labels": torch.randint(2, (2, 64, 64))},
    ),
    # Sounds.
    hugging_face(
        "Wav2Vec2",
        "ForCTC",
        "audio",
        WAVE,
        sound(200),
        lambda: {"labels": torch.randint(3, VOCABULARY, (2, 4))},
        dynamo=DATA,
    ),
    hugging_face(
        "Hubert",
        "ForCTC",
        "audio",
        WAVE,
        sound(200),
        lambda: {"labels": torch.randint(3, VOCABULARY, (2, 4))},
        dynamo=DATA,
    ),
    hugging_face(
        "Whisper",
        "ForConditionalGeneration",
        "audio, encoder-decoder",
        {
            "vocab_size": VOCABULARY,
            "d_model": 32,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            "num_mel_bins": 8,
            "max_source_positions": 12,
            "max_target_positions": 16,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
        lambda: {"input_features": torch.randn(2, 8, 24), "decoder_input_ids": torch.randint(3, VOCABULARY, (2, 5))},
        token_labels(length=5),
    ),
    hugging_face(
        "AST",
        "ForAudioClassification",
        "audio",
        {**EYES, "patch_size": 4, "frequency_stride": 4, "time_stride": 4, "max_length": 24, "num_mel_bins": 16},
        lambda: {"input_values": torch.randn(2, 24, 16)},
        classes(),
    ),
    hugging_face(
        "Encodec",
        "Model",
        "audio codec",
        {
            "num_filters": 4,
            "upsampling_ratios": [4, 2],
            "hidden_size": 16,
            "codebook_size": 32,
            "codebook_dim": 16,
            "num_lstm_layers": 1,
            "target_bandwidths": [1.5],
            "sampling_rate": 2400,
        },
        lambda: {"input_values": torch.randn(1, 1, 160)},
        dynamo={**DATA, "allow_rnn": True},
    ),
    # Pictures and text.
    text_and_picture("CLIP"),
    text_and_picture("Siglip"),
    hugging_face(
        "Blip",
        "ForConditionalGeneration",
        "vision-language",
        {"text_config": {**TEXT, "encoder_hidden_size": 32}, "vision_config": EYES, "image_text_hidden_size": 16},
        merged(tokens(), pictures()),
        token_labels(),
    ),
    hugging_face(
        "Llava",
        "ForConditionalGeneration",
        "vision-language",
        {
            "text_config": {**GROUPED, "num_hidden_layers": 1, "model_type": "llama"},
            "vision_config": {**EYES, "model_type": "clip_vision_model"},
            "image_token_index": IMAGE_TOKEN,
            "vision_feature_layer": -1,
        },
        merged(prompt(16), pictures(rows=1)),
        lambda: {"labels": torch.randint(4, VOCABULARY, (1, 22))},
    ),
    hugging_face(
        "PaliGemma",
        "ForConditionalGeneration",
        "vision-language",
        {
            "text_config": {**GROUPED, "num_hidden_layers": 1, "model_type": "gemma", "head_dim": 8},
            "vision_config": {**EYES, "model_type": "siglip_vision_model", "projection_dim": 32},
            "image_token_index": IMAGE_TOKEN,
            "projection_dim": 32,
        },
        merged(prompt(16), pictures(rows=1), lambda: {"token_type_ids": torch.tensor([[0] * 20 + [1] * 2])}),
        lambda: {"labels": torch.randint(4, VOCABULARY, (1, 22))},
    ),
    hugging_face(
        "Qwen2VL",
        "ForConditionalGeneration",
        "vision-language",
        {
            "text_config": {
                **GROUPED,
                "num_hidden_layers": 1,
                "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]},
            },
            "vision_config": {
                "depth": 1,
                "embed_dim": 32,
                "hidden_size": 32,
                "num_heads": 4,
                "mlp_ratio": 2,
                "patch_size": 8,
            },
            "image_token_id": IMAGE_TOKEN,
            "vision_start_token_id": 62,
            "vision_end_token_id": 63,
            "video_token_id": 64,
        },
        merged(
            prompt(4),
            lambda: {
                "pixel_values": torch.randn(16, 3 * 2 * 64),
                "image_grid_thw": torch.tensor([[1, 4, 4]]),
                "mm_token_type_ids": torch.tensor([[0, 0, 1, 1, 1, 1, 0, 0, 0, 0]]),
            },
        ),
        lambda: {"labels": torch.randint(4, VOCABULARY, (1, 10))},
    ),
    hugging_face(
        "Vilt",
        "ForQuestionAnswering",
        "vision-language",
        {**SHAPE, **EYES, "num_labels": 3},
        merged(tokens(), pictures()),
        lambda: {"labels": torch.rand(2, 3)},
        dynamo=DATA,
    ),
    # Series, and decisions.
    hugging_face(
        "PatchTST",
        "ForPrediction",
        "time series",
        {
            "num_input_channels": 2,
            "context_length": 32,
            "patch_length": 8,
            "patch_stride": 8,
            "d_model": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 24,
            "prediction_length": 4,
            "loss": "mse",
            "distribution_output": "normal",
        },
        lambda: {"past_values": torch.randn(2, 32, 2)},
        lambda: {"future_values": torch.randn(2, 4, 2)},
    ),
    hugging_face(
        "DecisionTransformer",
        "Model",
        "decisions",
        {"state_dim": 5, "act_dim": 3, "hidden_size": 32, "max_ep_len": 32, "n_layer": 2, "n_head": 4, "vocab_size": 1},
        lambda: {
            "states": torch.randn(2, 6, 5),
            "actions": torch.randn(2, 6, 3),
            "rewards": torch.randn(2, 6, 1),
            "returns_to_go": torch.randn(2, 6, 1),
            "timesteps": torch.arange(6).repeat(2, 1),
            "attention_mask": torch.ones(2, 6),
        },
    ),
]
