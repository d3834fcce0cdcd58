"""Reports as `tputc check --format json` writes them, of any size, without a compiler: a training step's."""

import random
from typing import Any

Json = dict[str, Any]

MODELING = "transformers/models/llama/modeling_llama.py"
TRAINING = "train.py"

# Of a decoder layer: submodule, op, line, fusion kind, flops per byte that it would need, and what bounds it.
STEPS = [
    ("input_layernorm", "aten.mul.Tensor", 67, "loop", 1, "bandwidth"),
    ("self_attn.q_proj", "aten.mm.default", 241, "output", 400, "matrix unit"),
    ("self_attn.k_proj", "aten.mm.default", 242, "output", 400, "matrix unit"),
    ("self_attn.v_proj", "aten.mm.default", 243, "output", 400, "matrix unit"),
    ("self_attn", "aten.cat.default", 146, "loop", 2, "bandwidth"),
    ("self_attn", "aten._softmax.default", 181, "input", 6, "vector unit"),
    ("self_attn", "aten.bmm.default", 183, "output", 120, "bandwidth"),
    ("self_attn.o_proj", "aten.mm.default", 266, "output", 400, "matrix unit"),
    ("", "aten.add.Tensor", 301, "loop", 1, "bandwidth"),
    ("post_attention_layernorm", "aten.rsqrt.default", 68, "input", 2, "bandwidth"),
    ("mlp.gate_proj", "aten.mm.default", 153, "output", 400, "matrix unit"),
    ("mlp.up_proj", "aten.mm.default", 153, "output", 400, "matrix unit"),
    ("mlp.act_fn", "aten.silu.default", 153, "loop", 4, "bandwidth"),
    ("mlp.down_proj", "aten.mm.default", 153, "output", 400, "matrix unit"),
    ("mlp", "all-reduce", 154, "all-reduce", 0, "interconnect"),
    ("", "aten.view.default", 307, "bitcast", 0, "overhead"),
]

PEAK_FLOPS, BANDWIDTH = 197e12, 819e9


LAYERS = 32


def layer_of(index: int, count: int) -> int:
    """The layer that the region comes from: first forward through all, then back."""
    share = index / count * 2
    return min(int((share if share < 1 else 2 - share) * LAYERS), LAYERS - 1)


def place(layer: int, module: str, op: str, line: int) -> Json:
    path = ".".join(part for part in ("model.layers", str(layer), module) if part)
    return {"file": MODELING, "line": line, "module": path, "op": op}


def regions(count: int, chance: random.Random) -> list[Json]:
    """`count` regions, layer by layer and back, each reading the one before it and now and then one further back."""
    made: list[Json] = []
    for index in range(count):
        layer, step = layer_of(index, count), index % len(STEPS)
        module, op, line, kind, intensity, bound = STEPS[step]
        moved = chance.uniform(1, 48) * 2**20
        seconds = {"overhead": 1e-7}.get(bound, moved / BANDWIDTH * (intensity / 240 if intensity > 240 else 1))
        name = f"{'all-reduce' if bound == 'interconnect' else 'fusion'}.{index}"
        far = {made[chance.randrange(index)]["name"]} if index and chance.random() < 0.3 else set()
        # The first region is read by many, as a mask or a rotary table is.
        shared = {made[0]["name"]} if index and step == 4 else set()
        made.append(
            {
                "name": name,
                "kind": kind,
                "source": place(layer, module, op, line),
                "runs": 1.0,
                "flops": moved * intensity,
                "hbm_bytes": moved,
                "transcendentals": moved / 8 if "softmax" in op or "silu" in op else 0.0,
                "seconds": seconds,
                "bound": bound,
                "estimated_cycles": round(seconds * 940e6 * chance.uniform(0.9, 1.6)) if index % 3 else None,
                "operands": sorted({made[-1]["name"]} | far | shared) if index else [],
            }
        )
    return made


def by_line(made: list[Json]) -> list[Json]:
    total = sum(region["seconds"] for region in made)
    lines: dict[tuple[str, int, str], Json] = {}
    zero: Json = {"flops": 0.0, "hbm_bytes": 0.0, "transcendentals": 0.0, "seconds": 0.0, "share": 0.0}
    for region in made:
        source = region["source"]
        line = lines.setdefault((source["file"], source["line"], source["module"]), {"source": source, **zero})
        for key in ("flops", "hbm_bytes", "transcendentals", "seconds"):
            line[key] += region[key]
        line["share"] = line["seconds"] / total
    return sorted(lines.values(), key=lambda line: -line["seconds"])


def timeline(made: list[Json], arguments: int, peak: int) -> list[Json]:
    """Memory that grows in the forward half and falls in the backward one, in a sawtooth."""
    half = len(made) / 2
    moments = []
    for index, region in enumerate(made):
        share = 1 - abs(index - half) / half
        saw = (index * 37 % 113) / 113 * 0.06
        bytes_ = arguments + int((peak - arguments) * min(share * 0.94 + saw, 1))
        moments.append({"step": index * 3, "instruction": region["name"], "bytes": bytes_})
    top = max(range(len(made)), key=lambda index: moments[index]["bytes"])
    moments[top]["bytes"] = peak
    return moments


def memory(made: list[Json], peak: int, chance: random.Random) -> Json:
    arguments = int(peak * 0.42)
    rest = int(peak * 0.01)
    holders: list[Json] = []
    for layer in range(LAYERS):
        for module, op, line, _, intensity, _ in STEPS:
            if intensity == 400:
                held = int(arguments / LAYERS / 7)
                where = {"file": "", "line": 0, "module": "", "op": ""}
                values = [f"model.layers.{layer}.{module}.weight"]
                holders.append({"bytes": held, "unpadded": held, "kind": "argument", "values": values, "source": where})
            else:
                held = int((peak - arguments - rest) / LAYERS / 9 * chance.uniform(0.6, 1.3))
                where = place(layer, module, op, line)
                values = [f"fusion.{chance.randrange(len(made))}" for _ in range(3)]
                unpadded = int(held * chance.choice([1, 1, 0.75]))
                kind = "output" if op.endswith("view.default") else "temporary"
                holders.append({"bytes": held, "unpadded": unpadded, "kind": kind, "values": values, "source": where})
    holders.sort(key=lambda holder: -holder["bytes"])
    total = sum(holder["bytes"] for holder in holders)
    return {
        "peak": total + rest,
        "arguments": arguments,
        "outputs": int(arguments * 0.9),
        "aliased": int(arguments * 0.88),
        "temporaries": total - arguments,
        "code": 37_421_056,
        "holders": holders,
        "unattributed": rest,
        "timeline": timeline(made, arguments, total + rest),
        "vmem_peak": 96 * 2**20,
    }


def source_text() -> list[Json]:
    """Lines around those named, in two stretches."""
    code = {
        67: "        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)",
        146: "    q_embed = (q * cos) + (rotate_half(q) * sin)",
        153: "        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))",
        181: "    attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)",
        183: "    attn_output = torch.matmul(attn_weights, value_states)",
        241: "        query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)",
        242: "        key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)",
        243: "        value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)",
        266: "        attn_output = self.o_proj(attn_output)",
    }
    named = sorted({line for _, _, line, _, _, _ in STEPS})
    kept = sorted({number for line in named for number in range(line - 6, line + 7)})
    filler = [
        "        # …",
        "",
        "        batch, length = hidden_states.shape[:-1]",
        "    def forward(self, hidden_states):",
    ]
    lines = [[number, code.get(number, filler[number % len(filler)])] for number in kept]
    return [{"file": MODELING, "lines": lines}]


def findings() -> list[Json]:
    def finding(severity: str, kind: str, message: str, help_: str | None, source: Json) -> Json:
        return {"severity": severity, "kind": kind, "message": message, "help": help_, "source": source}

    loss = {"file": TRAINING, "line": 58, "module": "", "op": "aten.index.Tensor"}
    softmax = place(3, "self_attn", "aten._softmax.default", 181)
    head = {"file": MODELING, "line": 487, "module": "lm_head", "op": "aten.mm.default"}
    return [
        finding("warning", "dtype", "softmax is computed in f32: 2x the bytes of bf16", "drop dtype=float32", softmax),
        finding(
            "warning", "padding", "32001 columns fill 97.7% of the matrix unit", "pad the vocabulary to 32128", head
        ),
        finding("note", "dynamic-shape", "the batch s0 makes a program for each of its values", None, loss),
    ]


def transformer(count: int = 5000, runs: bool = True, seed: int = 0) -> Json:
    """The report of a program of `count` regions that fits, or does not."""
    chance = random.Random(seed)
    made = regions(count, chance)
    limit = int(15.75 * 2**30)
    held = memory(made, int(limit * (0.81 if runs else 1.34)), chance)
    flops = sum(region["flops"] for region in made)
    seconds = sum(region["seconds"] for region in made)
    fits = "The program fits: 12.40 GiB of 15.75 GiB at its peak."
    does_not = "At its peak the program holds 20.54 GiB; v5e has 15.75 GiB."
    return {
        "schema": 1,
        "program": {"name": "train_step (Llama 7B, bf16)", "num_ops": count * 2, "hash": "7f3a" * 16},
        "target": {
            "name": "v5e:4x4",
            "device_kind": "TPU v5 lite",
            "num_devices": 16,
            "devices_used": 16,
            "compiler": "0.0.51",
            "peak_flops": PEAK_FLOPS,
            "hbm_bandwidth": BANDWIDTH,
            "hbm_bytes": limit,
            "vmem_bytes": 128 * 2**20,
        },
        "verdict": {
            "runs": runs,
            "summary": fits if runs else does_not,
            "advice": [] if runs else ["v5e:4x8 holds it", "keep half of the batch: 14.2 GiB"],
        },
        "findings": findings(),
        "memory": held,
        "cost": {
            "flops": flops,
            "hbm_bytes": sum(region["hbm_bytes"] for region in made),
            "transcendentals": sum(region["transcendentals"] for region in made),
            "seconds": seconds,
            "peak_share": flops / (seconds * PEAK_FLOPS),
            "regions": made,
            "lines": by_line(made),
            "padding": [
                {
                    "source": {"file": MODELING, "line": 487, "module": "lm_head", "op": "aten.mm.default"},
                    "shape": [1, 8192, 4096, 32001],
                    "padded": [1, 8192, 4096, 32128],
                    "waste": 0.004,
                    "advice": "32128 columns fill the matrix unit",
                },
                {
                    "source": place(0, "self_attn", "aten.bmm.default", 183),
                    "shape": [32, 2048, 80, 2048],
                    "padded": [32, 2048, 128, 2048],
                    "waste": 0.375,
                    "advice": "a head size of 128 would cost the same",
                },
            ],
            "collectives": [{"kind": "all-reduce", "count": count / len(STEPS), "bytes": 3.2e9}],
        },
        "sources": source_text(),
    }


def plan() -> Json:
    """25 slices of what `transformer` is about."""
    return {
        "count": 25,
        "chips": 400,
        "hosts": 50,
        "slice_batch": 64,
        "batch": 1600,
        "gradient_bytes": 25 * 2**18,
        "device_bytes": 12 * 2**20,
        "host_bytes": 96 * 2**20,
        "host_bandwidth": 25e9,
        "exchange_seconds": 0.05,
        "slice_seconds": 0.2,
        "exposed": {"seconds": 0.25, "efficiency": 0.8},
        "overlapped": {"seconds": 0.2, "efficiency": 1.0},
        "extra_hbm_bytes": 25 * 2**18,
        "fits": True,
        "assumptions": ["Not measured."],
    }


def rewrites() -> Json:
    """What the optimizer changed in some such program: one rule in two layers, another at one line."""

    def change(rule: str, class_: str, *places: Json) -> Json:
        became = {"before": "dot_general", "after": ["slice", "slice", "reshape"]}
        return {"rule": rule, "class": class_, "why": f"{rule} is right", "places": list(places)} | became

    def products(layer: int) -> Json:
        queries, keys = (
            place(layer, f"self_attn.{name}_proj", "aten.mm.default", 241 + k) for k, name in enumerate("qk")
        )
        return change("products-side-by-side", "reassociating", queries, keys)

    softmax = place(0, "self_attn", "aten._softmax.default", 181)
    return {
        "platform": "tpu",
        "ops": {"before": 100, "after": 90},
        "picoseconds": {"before": 1_200_000_000, "after": 900_000_000},
        "changes": [products(0), change("convert-of-convert", "exact", softmax), products(1)],
    }


def planned() -> list[Json]:
    """What the optimizer would run together in some such program."""

    def region(name: str, layer: int, picoseconds: int) -> Json:
        source = place(layer, "mlp", "aten.mm.default", 300)
        bytes_ = {"read": 1024, "written": 1024, "kept": 4096}
        return {
            "name": name,
            "source": source,
            "picoseconds": picoseconds,
            "bound": "memory",
            "gains": ["one pass"],
        } | bytes_

    return [region("rmsnorm+matmul", 0, 1_000_000), region("matmul+silu", 1, 3_000_000)]
