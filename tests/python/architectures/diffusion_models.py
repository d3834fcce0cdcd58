"""Denoisers and autoencoders of diffusers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from architectures.core import Architecture, Inputs, library_class


def diffuser(name: str, class_name: str, kind: str, inputs: Callable[[], Inputs], **config: Any) -> Architecture:
    def make() -> nn.Module:
        return library_class("diffusers", class_name)(**config)

    return Architecture(name, "diffusers", kind, make, inputs)


def noisy(channels: int, side: int, **more: Callable[[], Any]) -> Callable[[], Inputs]:
    """Two pictures at different times."""

    def make() -> Inputs:
        return {"timestep": torch.tensor([3, 700])} | {name: made() for name, made in more.items()}

    return lambda: {name: torch.randn(2, channels, side, side) for name in ["sample"]} | make()


ENTRIES = [
    diffuser(
        "unet2d",
        "UNet2DModel",
        "diffusion U-Net",
        noisy(3, 16),
        sample_size=16,
        block_out_channels=(8, 16),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=4,
        attention_head_dim=4,
    ),
    diffuser(
        "unet2d_condition",
        "UNet2DConditionModel",
        "diffusion U-Net",
        noisy(4, 16, encoder_hidden_states=lambda: torch.randn(2, 5, 16)),
        sample_size=16,
        block_out_channels=(8, 16),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        norm_num_groups=4,
        attention_head_dim=4,
        cross_attention_dim=16,
    ),
    diffuser(
        "dit",
        "DiTTransformer2DModel",
        "diffusion transformer",
        lambda: {
            "hidden_states": torch.randn(2, 4, 8, 8),
            "timestep": torch.tensor([3, 700]),
            "class_labels": torch.tensor([1, 4]),
        },
        sample_size=8,
        num_layers=1,
        num_attention_heads=2,
        attention_head_dim=8,
        num_embeds_ada_norm=10,
        norm_num_groups=4,
        out_channels=8,
        in_channels=4,
    ),
    diffuser(
        "sd3_transformer",
        "SD3Transformer2DModel",
        "diffusion transformer",
        lambda: {
            "hidden_states": torch.randn(2, 4, 8, 8),
            "encoder_hidden_states": torch.randn(2, 5, 16),
            "pooled_projections": torch.randn(2, 12),
            "timestep": torch.tensor([3, 700]),
        },
        sample_size=8,
        patch_size=2,
        in_channels=4,
        num_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=16,
        caption_projection_dim=16,
        pooled_projection_dim=12,
        out_channels=4,
        pos_embed_max_size=8,
    ),
    diffuser(
        "autoencoder_kl",
        "AutoencoderKL",
        "variational autoencoder",
        lambda: {"sample": torch.randn(2, 3, 16, 16)},
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
        block_out_channels=(8, 16),
        norm_num_groups=4,
        sample_size=16,
    ),
]
