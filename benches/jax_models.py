"""GPT-2, Llama and ViT as one would write them in JAX, to hold what libtpu makes of our programs against.

Plain functions over pytrees of parameters; no library but JAX. Matrices are (in, out), heads stay where `reshape` puts
them, and attention is `jax.nn.dot_product_attention`, which is what JAX offers for it: products of the parameters'
type, softmax in f32, heads of keys and values shared without repeating them. Norms and the loss compute in f32, as
the PyTorch classes do. `MODELS` are the shapes and weights of the zoo's entries of the same names; `agree` holds each
against its entry.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import zoo
from jax import Array, lax, nn

Params = Any
Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Model:
    """A model whose shapes come from `config`, a PyTorch module of the zoo."""

    convert: Callable[[Weights], Params]
    forward: Callable[..., Array]
    loss: Callable[[Array, Array], Array]
    settings: Callable[[Any], dict[str, Any]]
    data: str
    """The input's name in the zoo's batch."""


# --- layers ----------------------------------------------------------------------------------------------------------


def wide(x: Array) -> Array:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def layer_norm(p: Params, x: Array, eps: float) -> Array:
    y = wide(x)
    y = y - y.mean(-1, keepdims=True)
    y = y * lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + eps)
    return (y * p["scale"] + p["bias"]).astype(x.dtype)


def rms_norm(scale: Array, x: Array, eps: float) -> Array:
    y = wide(x)
    y = y * lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + eps)
    return scale * y.astype(x.dtype)


def linear(p: Params, x: Array) -> Array:
    return x @ p["kernel"] + p["bias"]


def merged_attention(p: Params, x: Array, heads: int, causal: bool) -> Array:
    """Attention whose queries, keys and values are one product."""
    rows, length, width = x.shape
    qkv = linear(p["qkv"], x).reshape(rows, length, 3, heads, width // heads)
    mixed = nn.dot_product_attention(*jnp.moveaxis(qkv, 2, 0), is_causal=causal)
    return linear(p["out"], mixed.reshape(rows, length, width))


def cross_entropy(scores: Array, targets: Array) -> Array:
    scores = wide(scores)
    picked = jnp.take_along_axis(scores, targets[..., None], axis=-1)[..., 0]
    return (nn.logsumexp(scores, axis=-1) - picked).mean()


def next_token_loss(scores: Array, ids: Array) -> Array:
    return cross_entropy(scores[:, :-1], ids[:, 1:])


# --- GPT-2 -----------------------------------------------------------------------------------------------------------


def gpt2(params: Params, ids: Array, *, heads: int, eps: float) -> Array:
    x = params["tokens"][ids] + params["positions"][: ids.shape[1]]
    for p in params["blocks"]:
        x = x + merged_attention(p, layer_norm(p["attention_norm"], x, eps), heads, causal=True)
        x = x + linear(p["down"], nn.gelu(linear(p["up"], layer_norm(p["mlp_norm"], x, eps)), approximate=True))
    return layer_norm(params["norm"], x, eps) @ params["tokens"].T


def gpt2_params(weights: Weights) -> Params:
    def block(prefix: str) -> Params:
        return {
            "attention_norm": norm_params(weights, f"{prefix}.ln_1"),
            "qkv": linear_params(weights, f"{prefix}.attn.c_attn", transposed=False),
            "out": linear_params(weights, f"{prefix}.attn.c_proj", transposed=False),
            "mlp_norm": norm_params(weights, f"{prefix}.ln_2"),
            "up": linear_params(weights, f"{prefix}.mlp.c_fc", transposed=False),
            "down": linear_params(weights, f"{prefix}.mlp.c_proj", transposed=False),
        }

    return {
        "tokens": to_jax(weights["transformer.wte.weight"]),
        "positions": to_jax(weights["transformer.wpe.weight"]),
        "blocks": each_block(weights, "transformer.h", block),
        "norm": norm_params(weights, "transformer.ln_f"),
    }


# --- Llama -----------------------------------------------------------------------------------------------------------


def llama(params: Params, ids: Array, *, heads: int, kv_heads: int, eps: float, theta: float) -> Array:
    x = params["tokens"][ids]
    for p in params["blocks"]:
        x = x + rotated_attention(p, rms_norm(p["attention_norm"], x, eps), heads, kv_heads, theta)
        h = rms_norm(p["mlp_norm"], x, eps)
        x = x + (nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
    return rms_norm(params["norm"], x, eps) @ params["head"]


def rotated_attention(p: Params, x: Array, heads: int, kv_heads: int, theta: float) -> Array:
    rows, length, _ = x.shape
    q = rotate((x @ p["q"]).reshape(rows, length, heads, -1), theta)
    k = rotate((x @ p["k"]).reshape(rows, length, kv_heads, -1), theta)
    v = (x @ p["v"]).reshape(rows, length, kv_heads, -1)
    return nn.dot_product_attention(q, k, v, is_causal=True).reshape(rows, length, -1) @ p["o"]


def rotate(x: Array, theta: float) -> Array:
    """Rotary positions, of (rows, length, heads, width)."""
    length, width = x.shape[1], x.shape[-1]
    frequencies = theta ** (-jnp.arange(0, width, 2, dtype=jnp.float32) / width)
    angles = jnp.arange(length, dtype=jnp.float32)[:, None] * frequencies
    cos, sin = (f(angles).astype(x.dtype)[:, None, :] for f in (jnp.cos, jnp.sin))
    left, right = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)


def llama_params(weights: Weights) -> Params:
    def block(prefix: str) -> Params:
        projections = {name: weights[f"{prefix}.self_attn.{name}_proj.weight"] for name in "qkvo"}
        mlp = {name: weights[f"{prefix}.mlp.{name}_proj.weight"] for name in ("gate", "up", "down")}
        return {
            **{name: to_jax(weight.T) for name, weight in (projections | mlp).items()},
            "attention_norm": to_jax(weights[f"{prefix}.input_layernorm.weight"]),
            "mlp_norm": to_jax(weights[f"{prefix}.post_attention_layernorm.weight"]),
        }

    return {
        "tokens": to_jax(weights["model.embed_tokens.weight"]),
        "blocks": each_block(weights, "model.layers", block),
        "norm": to_jax(weights["model.norm.weight"]),
        "head": to_jax(weights["lm_head.weight"].T),
    }


# --- ViT -------------------------------------------------------------------------------------------------------------


def vit(params: Params, images: Array, *, heads: int, eps: float) -> Array:
    """Class scores of images of (rows, channels, height, width)."""
    patches = params["patches"]
    side = patches["kernel"].shape[:2]
    order = ("NCHW", "HWIO", "NHWC")
    x = lax.conv_general_dilated(images, patches["kernel"], side, "VALID", dimension_numbers=order) + patches["bias"]
    x = x.reshape(x.shape[0], -1, x.shape[-1])
    first = jnp.broadcast_to(params["class"], (x.shape[0], 1, x.shape[-1]))
    x = jnp.concatenate([first, x], axis=1) + params["positions"]
    for p in params["blocks"]:
        x = x + merged_attention(p, layer_norm(p["attention_norm"], x, eps), heads, causal=False)
        x = x + linear(p["down"], nn.gelu(linear(p["up"], layer_norm(p["mlp_norm"], x, eps)), approximate=False))
    return linear(params["head"], layer_norm(params["norm"], x, eps)[:, 0])


def vit_params(weights: Weights) -> Params:
    def block(prefix: str) -> Params:
        return {
            "attention_norm": norm_params(weights, f"{prefix}.norm1"),
            "qkv": linear_params(weights, f"{prefix}.attn.qkv"),
            "out": linear_params(weights, f"{prefix}.attn.proj"),
            "mlp_norm": norm_params(weights, f"{prefix}.norm2"),
            "up": linear_params(weights, f"{prefix}.mlp.fc1"),
            "down": linear_params(weights, f"{prefix}.mlp.fc2"),
        }

    kernel = weights["patch_embed.proj.weight"].permute(2, 3, 1, 0)
    return {
        "patches": {"kernel": to_jax(kernel), "bias": to_jax(weights["patch_embed.proj.bias"])},
        "class": to_jax(weights["cls_token"]),
        "positions": to_jax(weights["pos_embed"]),
        "blocks": each_block(weights, "blocks", block),
        "norm": norm_params(weights, "norm"),
        "head": linear_params(weights, "head"),
    }


# --- weights ---------------------------------------------------------------------------------------------------------


def to_jax(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """A tensor's values; integers in 32 bits, which are JAX's own."""
    if tensor.dtype == torch.bfloat16:
        return tensor.detach().contiguous().view(torch.int16).numpy().view(jnp.bfloat16)
    array = tensor.detach().contiguous().numpy()
    return array.astype(np.int32) if array.dtype == np.int64 else array


def norm_params(weights: Weights, name: str) -> Params:
    return {"scale": to_jax(weights[f"{name}.weight"]), "bias": to_jax(weights[f"{name}.bias"])}


def linear_params(weights: Weights, name: str, *, transposed: bool = True) -> Params:
    weight = weights[f"{name}.weight"]
    return {"kernel": to_jax(weight.T if transposed else weight), "bias": to_jax(weights[f"{name}.bias"])}


def each_block(weights: Weights, prefix: str, block: Callable[[str], Params]) -> list[Params]:
    depth = 1 + max(int(name[len(prefix) + 1 :].split(".")[0]) for name in weights if name.startswith(prefix + "."))
    return [block(f"{prefix}.{index}") for index in range(depth)]


# --- steps -----------------------------------------------------------------------------------------------------------

State = tuple[Array, Params, Params]
LEARNING_RATE, DECAYS, EPS, WEIGHT_DECAY = 1e-3, (0.9, 0.999), 1e-8, 1e-2


def adamw_state(params: Params) -> State:
    """Steps done, and both moments."""
    return jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params)


def adamw(params: Params, gradients: Params, state: State) -> tuple[Params, State]:
    """`torch.optim.AdamW` with its defaults. Numbers are those of `wide`: in bfloat16 0.999 would be 1."""
    count, firsts, seconds = state[0] + 1, *state[1:]
    first, second = DECAYS
    steps = count.astype(jnp.float32)
    size, root = LEARNING_RATE / (1 - first**steps), jnp.sqrt(1 - second**steps)

    def update(*leaves: Array) -> tuple[Array, ...]:
        p, g, m, v = map(wide, leaves)
        m = first * m + (1 - first) * g
        v = second * v + (1 - second) * g * g
        p = p * (1 - LEARNING_RATE * WEIGHT_DECAY) - size * m / (jnp.sqrt(v) / root + EPS)
        return tuple(new.astype(leaves[0].dtype) for new in (p, m, v))

    updated = jax.tree.map(update, params, gradients, firsts, seconds)
    params, firsts, seconds = jax.tree.transpose(jax.tree.structure(params), jax.tree.structure((0, 0, 0)), updated)
    return params, (count, firsts, seconds)


MODELS = {
    "gpt2": Model(
        gpt2_params,
        gpt2,
        next_token_loss,
        lambda module: {"heads": module.config.n_head, "eps": module.config.layer_norm_epsilon},
        "input_ids",
    ),
    "llama": Model(
        llama_params,
        llama,
        next_token_loss,
        lambda module: {
            "heads": module.config.num_attention_heads,
            "kv_heads": module.config.num_key_value_heads,
            "eps": module.config.rms_norm_eps,
            "theta": module.config.rope_parameters["rope_theta"],
        },
        "input_ids",
    ),
    "vit": Model(
        vit_params,
        vit,
        cross_entropy,
        lambda module: {"heads": module.blocks[0].attn.num_heads, "eps": module.norm.eps},
        "x",
    ),
}


def functions(name: str, module: torch.nn.Module) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A model's forward, and its training step: parameters, state, inputs, targets to parameters, state, loss."""
    model = MODELS[name]
    forward = functools.partial(model.forward, **model.settings(module))

    def loss(params: Params, inputs: Array, targets: Array) -> Array:
        return model.loss(forward(params, inputs), targets)

    def step(params: Params, state: State, inputs: Array, targets: Array) -> tuple[Params, State, Array]:
        value, gradients = jax.value_and_grad(loss)(params, inputs, targets)
        return *adamw(params, gradients, state), value

    return forward, step


def lowered(name: str, kind: str, dtype: torch.dtype) -> str:
    """StableHLO for TPUs, of the zoo's full size; parameters and state are donated to a training step."""
    entry = zoo.ZOO[name]
    module = entry.build("full").to(dtype)
    batch = entry.batch("full", dtype=dtype)
    params = MODELS[name].convert(module.state_dict())
    inputs, targets = to_jax(batch.inputs[MODELS[name].data]), to_jax(batch.targets)
    forward, step = functions(name, module)
    if kind == "inference":
        traced = jax.jit(forward).trace(params, inputs)
    else:
        state = jax.eval_shape(adamw_state, params)
        traced = jax.jit(step, donate_argnums=(0, 1)).trace(params, state, inputs, targets)
    text: str = traced.lower(lowering_platforms=("tpu",)).as_text(debug_info=True)
    return text
