"""The models that the tests and benchmarks run: real classes, random weights, no network.

Each `Entry` builds one model in two sizes. `small` keeps the real layers and shrinks widths, depths and images until a
training step takes milliseconds; `full` is the published configuration, with a batch that a laptop can step in under
two seconds. Weights and inputs are rounded to bfloat16 values when they are made, so that the f64, f32 and bf16 runs of
a model start from exactly the same point and every later difference is arithmetic.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Size = Literal["small", "full"]
SIZES: tuple[Size, ...] = ("small", "full")


@dataclass(frozen=True)
class Batch:
    """Keyword arguments of `forward`, and what the loss compares the output with."""

    inputs: dict[str, Tensor]
    targets: Tensor

    def to(self, device: str) -> Batch:
        return Batch({name: value.to(device) for name, value in self.inputs.items()}, self.targets.to(device))


@dataclass(frozen=True)
class Entry:
    """One model.

    `make(size, dropout)` returns a module with fresh weights, in training mode; `dropout` is the probability for every
    dropout-like layer that the class has. `data(size)` returns an f32 batch. `loss(model, batch)` runs forward and
    gives a scalar. `has_dropout` is false for a class without any random layer. `dynamo` holds the settings of
    `torch._dynamo.config` under which Dynamo traces the class at all; `for_f64` readies a model whose default kernels
    PyTorch has in f32 and bf16 only, or that computes in f32 whatever its dtype. `seed` is chosen such that no ReLU
    stands within f32 rounding of its kink, where gradients jump.
    """

    name: str
    make: Callable[[Size, float], nn.Module]
    data: Callable[[Size], Batch]
    loss: Callable[[nn.Module, Batch], Tensor]
    has_dropout: bool = True
    dynamo: Mapping[str, Any] = field(default_factory=dict)
    for_f64: Callable[[nn.Module], None] = lambda model: None
    seed: int = 0

    def build(
        self,
        size: Size = "small",
        *,
        dropout: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> nn.Module:
        """A model with the same weights each time, cast to `dtype`."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = self.make(size, 0.2 if dropout else 0.0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(_on_bf16_grid(parameter))
        if dtype == torch.float64:
            self.for_f64(model)
        return model.to(dtype)

    def batch(self, size: Size = "small", *, dtype: torch.dtype = torch.float32) -> Batch:
        """The same inputs and targets each time; floating-point inputs are cast to `dtype`."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed + 1)
            batch = self.data(size)
        inputs = {name: _cast(value, dtype) for name, value in batch.inputs.items()}
        return Batch(inputs, _cast(batch.targets, dtype))


def _on_bf16_grid(value: Tensor) -> Tensor:
    return value.to(torch.bfloat16).to(value.dtype)


def _cast(value: Tensor, dtype: torch.dtype) -> Tensor:
    return _on_bf16_grid(value).to(dtype) if value.is_floating_point() else value


def _cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """Class scores in the last dimension against integer targets, in f32 at least."""
    scores = model(**batch.inputs)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return F.cross_entropy(scores.flatten(0, -2), batch.targets.flatten())


def _loss_of_the_class(model: nn.Module, batch: Batch) -> Tensor:
    """The loss that a Hugging Face model computes itself from `labels`."""
    loss: Tensor = model(**batch.inputs, labels=batch.targets).loss
    return loss


# --- our own ---------------------------------------------------------------------------------------------------------


class Mlp(nn.Module):
    def __init__(self, widths: tuple[int, ...], dropout: float) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for fan_in, fan_out in zip(widths[:-2], widths[1:-1], strict=True):
            layers += [nn.Linear(fan_in, fan_out), nn.GELU(), nn.LayerNorm(fan_out), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


class Cnn(nn.Module):
    """Two convolution blocks whose batch norms mutate their statistics, and an in-place activation."""

    def __init__(self, channels: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, padding=1, stride=2),
            nn.BatchNorm2d(2 * channels),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(2),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(dropout), nn.Linear(8 * channels, classes))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.features(x))
        return out


class CausalAttention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        q, k, v = (
            part.view(rows, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        p = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=p)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return out


class GptBlock(nn.Module):
    """Token and position embeddings, one pre-norm transformer block, and an output layer tied to the embedding."""

    def __init__(self, vocabulary: int, width: int, heads: int, length: int, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.attention_norm = nn.LayerNorm(width)
        self.attention = CausalAttention(width, heads, dropout)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.tokens.weight, std=0.1)

    def forward(self, ids: Tensor) -> Tensor:
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.dropout(self.tokens(ids) + self.positions(positions))
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        x = x + self.dropout(self.mlp(self.mlp_norm(x)))
        return F.linear(self.norm(x), self.tokens.weight)


class Lstm(nn.Module):
    def __init__(self, features: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, num_layers=2, batch_first=True, dropout=dropout)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        states, (last, _) = self.lstm(x)
        out: Tensor = self.head(states.mean(dim=1) + last[-1])
        return out


def _mlp(size: Size, dropout: float) -> nn.Module:
    return Mlp((16, 32, 24, 5) if size == "small" else (784, 1024, 1024, 10), dropout)


def _mlp_data(size: Size) -> Batch:
    rows, features, classes = (6, 16, 5) if size == "small" else (64, 784, 10)
    return Batch({"x": torch.randn(rows, features)}, torch.randint(classes, (rows,)))


def _cnn(size: Size, dropout: float) -> nn.Module:
    return Cnn(*((6, 5) if size == "small" else (64, 10)), dropout)


def _gpt_block(size: Size, dropout: float) -> nn.Module:
    return GptBlock(*((61, 32, 4, 24) if size == "small" else (50257, 768, 12, 128)), dropout)


def _lstm(size: Size, dropout: float) -> nn.Module:
    return Lstm(*((7, 12, 5) if size == "small" else (128, 256, 10)), dropout)


def _lstm_data(size: Size) -> Batch:
    rows, length, features, classes = (3, 5, 7, 5) if size == "small" else (8, 32, 128, 10)
    return Batch({"x": torch.randn(rows, length, features)}, torch.randint(classes, (rows,)))


# --- torchvision and timm --------------------------------------------------------------------------------------------


def _images(name: str, small: tuple[int, int, int], full: tuple[int, int, int]) -> Callable[[Size], Batch]:
    """Images of (rows, side, classes) under the argument that the class calls `name`."""

    def data(size: Size) -> Batch:
        rows, side, classes = small if size == "small" else full
        return Batch({name: torch.randn(rows, 3, side, side)}, torch.randint(classes, (rows,)))

    return data


def _resnet50(size: Size, dropout: float) -> nn.Module:
    from torchvision.models.resnet import Bottleneck, ResNet, resnet50

    if size == "full":
        return resnet50()
    # One block of each width, and one without a projection. Random residual branches at full strength amplify rounding
    # until eager f32 is itself far from f64; trained networks and `zero_init_residual` have weak ones.
    model = ResNet(Bottleneck, [1, 2, 1, 1], num_classes=10, width_per_group=8)
    for block in model.modules():
        if isinstance(block, Bottleneck):
            nn.init.constant_(block.bn3.weight, 0.2)
    return model


def _mobilenet_v3(size: Size, dropout: float) -> nn.Module:
    from torchvision.models import mobilenetv3

    if size == "full":
        return mobilenetv3.mobilenet_v3_large(dropout=dropout)
    # The first five blocks of the small variant hold every kind: both activations, with and without squeeze-excite,
    # both kernel sizes and strides, with and without a residual.
    blocks, _ = mobilenetv3._mobilenet_v3_conf("mobilenet_v3_small", width_mult=0.35)
    return mobilenetv3.MobileNetV3(blocks[:5], last_channel=64, num_classes=10, dropout=dropout)


def _convnext(size: Size, dropout: float) -> nn.Module:
    import timm

    shrink = {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32), "num_classes": 10} if size == "small" else {}
    return timm.create_model("convnext_tiny", drop_rate=dropout, drop_path_rate=dropout, **shrink)


def _vit(size: Size, dropout: float) -> nn.Module:
    import timm

    shrink: dict[str, Any] = {}
    if size == "small":
        shrink = {"img_size": 32, "patch_size": 8, "depth": 1, "embed_dim": 32, "num_heads": 4, "num_classes": 10}
    rates = {rate: dropout for rate in ("drop_rate", "proj_drop_rate", "attn_drop_rate", "drop_path_rate")}
    return timm.create_model("vit_small_patch16_224", **rates, **shrink)


# --- Hugging Face ----------------------------------------------------------------------------------------------------

SMALL_VOCABULARY = 67


def _tokens(small: tuple[int, int], full: tuple[int, int, int]) -> Callable[[Size], Batch]:
    """Token ids of (rows, length), and the same ids as labels. `full` names its vocabulary third."""

    def data(size: Size) -> Batch:
        rows, length, vocabulary = (*small, SMALL_VOCABULARY) if size == "small" else full
        ids = torch.randint(vocabulary, (rows, length))
        return Batch({"input_ids": ids}, ids.clone())

    return data


def _gpt2(size: Size, dropout: float) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    shrink = {"vocab_size": SMALL_VOCABULARY, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 4}
    shrink |= {"bos_token_id": 0, "eos_token_id": 0}
    rates = {"resid_pdrop": dropout, "embd_pdrop": dropout, "attn_pdrop": dropout}
    config = GPT2Config(**(shrink if size == "small" else {}), **rates, use_cache=False)
    model = GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"  # left out, the class logs the same choice in its loss, which breaks the graph
    return model


def _bert(size: Size, dropout: float) -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    shrink = {
        "vocab_size": SMALL_VOCABULARY,
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 32,
    }
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return BertForMaskedLM(BertConfig(**(shrink if size == "small" else {}), **rates))


def _bert_data(size: Size) -> Batch:
    """Rows of different lengths, so that the attention mask matters; padding is no target."""
    rows, length, vocabulary = (3, 11, SMALL_VOCABULARY) if size == "small" else (2, 64, 30522)
    ids = torch.randint(vocabulary, (rows, length))
    lengths = torch.tensor([length - 3 * row for row in range(rows)])
    mask = (torch.arange(length) < lengths[:, None]).long()
    return Batch({"input_ids": ids, "attention_mask": mask}, ids.masked_fill(mask == 0, -100))


def _llama_shape(size: Size) -> dict[str, int]:
    """Grouped-query attention in both sizes. The published default is 7e9 parameters: `full` is a laptop-sized one."""
    if size == "small":
        return {
            "vocab_size": SMALL_VOCABULARY,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
        }
    return {
        "vocab_size": 32000,
        "hidden_size": 512,
        "intermediate_size": 1408,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
    }


def _llama(size: Size, dropout: float) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**_llama_shape(size), attention_dropout=dropout, use_cache=False)
    return LlamaForCausalLM(config)


def _mixtral(size: Size, dropout: float) -> nn.Module:
    from transformers import MixtralConfig, MixtralForCausalLM

    shape = _llama_shape(size) | {"num_local_experts": 4 if size == "small" else 8, "num_experts_per_tok": 2}
    if size == "full":
        shape |= {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 6}
    config = MixtralConfig(**shape, attention_dropout=dropout, use_cache=False)
    return MixtralForCausalLM(config)


def _without_grouped_mm(model: nn.Module) -> None:
    """Eager `grouped_mm` rejects f64; the batched form of the experts computes the same."""
    model.set_experts_implementation("batched_mm")


def _norms_in_f64(model: nn.Module) -> None:
    """Hugging Face's RMS norms compute in f32 whatever they are given. In a run that is to be f64 that leaves f32
    rounding behind, which Adam turns into steps where a gradient is small."""
    for module in model.modules():
        if hasattr(module, "variance_epsilon"):
            module.forward = functools.partial(_rms_norm, module)


def _rms_norm(module: nn.Module, x: Tensor) -> Tensor:
    return module.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + module.variance_epsilon)


def _mixtral_in_f64(model: nn.Module) -> None:
    _without_grouped_mm(model)
    _norms_in_f64(model)


def _t5(size: Size, dropout: float) -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    shrink = {
        "vocab_size": SMALL_VOCABULARY,
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 2,
        "num_heads": 4,
    }
    config = T5Config(
        **(shrink if size == "small" else {}),
        dropout_rate=dropout,
        use_cache=False,
        decoder_start_token_id=0,
    )
    return T5ForConditionalGeneration(config)


def _t5_data(size: Size) -> Batch:
    rows, source, target, vocabulary = (2, 9, 6, SMALL_VOCABULARY) if size == "small" else (2, 64, 32, 32128)
    labels = torch.randint(1, vocabulary, (rows, target))
    shifted = F.pad(labels[:, :-1], (1, 0), value=0)
    ids = torch.randint(1, vocabulary, (rows, source))
    return Batch({"input_ids": ids, "decoder_input_ids": shifted}, labels)


def _gpt_block_data(size: Size) -> Batch:
    rows, length, vocabulary = (2, 12, 61) if size == "small" else (2, 64, 50257)
    ids = torch.randint(vocabulary, (rows, length + 1))
    return Batch({"ids": ids[:, :-1].contiguous()}, ids[:, 1:].contiguous())


ZOO: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("mlp", _mlp, _mlp_data, _cross_entropy),
        Entry("cnn", _cnn, _images("x", (4, 16, 5), (16, 32, 10)), _cross_entropy),
        Entry("gpt_block", _gpt_block, _gpt_block_data, _cross_entropy),
        Entry(
            "resnet50", _resnet50, _images("x", (4, 64, 10), (2, 224, 1000)), _cross_entropy, has_dropout=False, seed=3
        ),
        Entry("mobilenet_v3", _mobilenet_v3, _images("x", (4, 32, 10), (4, 224, 1000)), _cross_entropy),
        Entry("convnext", _convnext, _images("x", (2, 32, 10), (2, 224, 1000)), _cross_entropy),
        Entry("vit", _vit, _images("x", (2, 32, 10), (2, 224, 1000)), _cross_entropy),
        Entry("gpt2", _gpt2, _tokens((2, 10), (1, 64, 50257)), _loss_of_the_class),
        Entry("bert", _bert, _bert_data, _loss_of_the_class),
        Entry("llama", _llama, _tokens((2, 10), (1, 64, 32000)), _loss_of_the_class, for_f64=_norms_in_f64),
        Entry(
            "mixtral",
            _mixtral,
            _tokens((2, 8), (1, 64, 32000)),
            _loss_of_the_class,
            for_f64=_mixtral_in_f64,
        ),
        Entry("t5", _t5, _t5_data, _loss_of_the_class, for_f64=_norms_in_f64),
        Entry("lstm", _lstm, _lstm_data, _cross_entropy, dynamo={"allow_rnn": True}),
    )
}
