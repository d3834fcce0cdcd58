"""Image classifiers of timm."""

from __future__ import annotations

from typing import Any

from torch import nn

from architectures.core import Architecture, images, library_class


def timm(name: str, kind: str, side: int = 32, rows: int = 2, **shrink: Any) -> Architecture:
    def make() -> nn.Module:
        import timm

        return timm.create_model(name, num_classes=10, **shrink)

    return Architecture(name, "timm", kind, make, images(side, rows))


def timm_class(
    name: str, module: str, class_name: str, kind: str, side: int = 32, rows: int = 2, **shrink: Any
) -> Architecture:
    def make() -> nn.Module:
        module_of = library_class(f"timm.models.{module}", class_name)
        return module_of(num_classes=10, **shrink)

    return Architecture(name, "timm", kind, make, images(side, rows))


ENTRIES = [
    timm("test_efficientnet", "convolution", rows=4),
    timm("test_nfnet", "convolution"),
    timm("test_coatnet", "hybrid", img_size=64, side=64),
    timm("test_mambaout", "convolution"),
    timm("convnextv2_atto", "convolution", depths=(1, 1, 2, 1), dims=(8, 16, 24, 32)),
    timm(
        "swinv2_tiny_window8_256",
        "vision transformer",
        img_size=32,
        window_size=4,
        patch_size=2,
        embed_dim=16,
        depths=(2, 1),
        num_heads=(2, 4),
    ),
    timm_class("mlp_mixer", "mlp_mixer", "MlpMixer", "MLP", img_size=32, patch_size=8, embed_dim=32, num_blocks=1),
    timm_class("poolformer", "metaformer", "MetaFormer", "MLP", depths=(1, 1, 1, 1), dims=(8, 16, 24, 32)),
    timm("beit_base_patch16_224", "vision transformer", img_size=32, patch_size=8, embed_dim=32, depth=1, num_heads=4),
    timm("eva02_tiny_patch14_224", "vision transformer", img_size=32, patch_size=8, embed_dim=32, depth=1, num_heads=4),
    timm("cait_xxs24_224", "vision transformer", img_size=32, patch_size=8, embed_dim=32, depth=1, num_heads=4),
    timm("xcit_nano_12_p16_224", "vision transformer", img_size=32, embed_dim=32, depth=1, num_heads=4),
    timm(
        "pvt_v2_b0", "vision transformer", 64, depths=(1, 1, 1, 1), embed_dims=(8, 16, 24, 32), num_heads=(1, 2, 3, 4)
    ),
    timm_class(
        "twins",
        "twins",
        "Twins",
        "vision transformer",
        img_size=32,
        patch_size=2,
        depths=(2, 2),
        embed_dims=(8, 16),
        num_heads=(1, 2),
        sr_ratios=(4, 2),
        wss=(4, 4),
        mlp_ratios=(2, 2),
    ),
    timm_class(
        "nest",
        "nest",
        "Nest",
        "vision transformer",
        img_size=32,
        embed_dims=(8, 16, 32),
        num_heads=(1, 2, 4),
        depths=(1, 1, 2),
    ),
    timm("densenet121", "convolution", 64, 4, growth_rate=8, block_config=(2, 2, 2)),
    timm(
        "visformer_tiny",
        "hybrid",
        img_size=64,
        embed_dim=32,
        depth=(1, 1, 1),
        num_heads=2,
        init_channels=8,
        side=64,
        rows=4,
    ),
    timm("repvit_m0_9", "convolution", 64, 4, embed_dim=(16, 24, 32, 48), depth=(1, 1, 1, 1)),
]
