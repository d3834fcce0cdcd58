"""Writes the traces of this folder: NAME.json as torch.export serialises a program, NAME.values.json with the inputs and
results PyTorch computes. Run it where torch is installed; it writes beside itself."""

from __future__ import annotations

import copy
import io
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim

HERE = Path(__file__).parent


class Mlp(nn.Module):
    """Batch norm in training mode, so that buffers are written."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.down = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.norm(self.up(x)).relu_())


class Views(nn.Module):
    """Writes through views of a copy."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.clone()
        y[1:3, ::2].add_(1)
        y.t()[1].fill_(7)
        z = y.view(2, 12)
        z.mul_(2)
        y.unsqueeze(0)[0, 0] = z[1, :6]
        return y, z.t(), y[1:, 2:], y.permute(1, 0)[::2]


class Mutation(nn.Module):
    """Writes a buffer and an argument, and returns views of both."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.n.add_(1)
        self.n[0] = 5.0
        x[0] = self.n
        return x.view(-1), self.n, x * 2


class Dynamic(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, int, torch.Tensor]:
        b = x.shape[0]
        h = x.view(b * 2, 3).reshape(b, -1)
        z = torch.cat([h, y], 0)
        return z * b, z.shape[0] + 1, z[: b - 1]


class Regions(nn.Module):
    """Graphs in graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            y = x * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = self.a(y)
        return y, z


class Lists(nn.Module):
    def forward(self, x: torch.Tensor, k: float, none: None) -> dict[str, Any]:
        p, q = x.split(2, dim=1)
        u, v = torch.unbind(x, 0)
        nn.functional.dropout(q.add_(1), 0.5, training=False, inplace=True)
        return {"p": p * k, "rest": (u, v + 1, None, 3, q), "x": x}


class ChannelsLast(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.to(memory_format=torch.channels_last) * 2
        return y, y.permute(0, 2, 3, 1).view(-1)


def flat(t: torch.Tensor) -> list[Any]:
    def spell(v: Any) -> Any:
        odd = isinstance(v, float) and not math.isfinite(v)
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(v, "NaN") if odd else v

    t = t.detach().contiguous()
    return [spell(v) for v in (t.float() if t.dtype == torch.bfloat16 else t).reshape(-1).tolist()]


def program(ep: torch.export.ExportedProgram) -> dict[str, Any]:
    file = io.BytesIO()
    torch.export.save(ep, file)
    archive = zipfile.ZipFile(file)
    name = next(n for n in archive.namelist() if n.endswith("models/model.json"))
    trace = json.loads(archive.read(name))
    trace["graph_module"]["module_call_graph"] = []
    tidy(trace["graph_module"]["graph"])
    return trace


def tidy(graph: dict[str, Any]) -> None:
    """No paths of this machine."""
    for node in graph["nodes"]:
        kept = {k: v for k, v in node["metadata"].items() if k in ("stack_trace", "nn_module_stack")}
        if "stack_trace" in kept:
            text = kept["stack_trace"].replace(str(HERE), "/home/user")
            kept["stack_trace"] = text.replace(str(Path(torch.__file__).parent), "/usr/lib/python3/dist-packages/torch")
        node["metadata"] = kept
        for argument in node["inputs"]:
            if inner := argument["arg"].get("as_graph"):
                tidy(inner["graph"])


def write(name: str, model: nn.Module, args: tuple[Any, ...], dims: dict[str, int] | None = None, **export: Any) -> None:
    ep = torch.export.export(model, copy.deepcopy(args), **export)
    trace = program(ep)
    specs = trace["graph_module"]["signature"]["input_specs"]
    state = {**ep.state_dict, **ep.constants}
    values: dict[str, Any] = {"dims": dims or {}, "inputs": {}, "outputs": [], "mutations": {}}
    model, args = copy.deepcopy(model), copy.deepcopy(args)
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(args)]
    users = iter(leaves)
    held: dict[str, torch.Tensor] = {}
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for spec in specs:
        ((kind, spec),) = spec.items()
        if kind == "constant_input":
            next(users)
            continue
        if kind == "user_input":
            held[spec["arg"]["as_tensor"]["name"]] = next(users)
        else:
            target = spec.get("parameter_name") or spec.get("buffer_name") or spec.get("tensor_constant_name")
            held[spec["arg"]["name"]] = named.get(target, state.get(target))
    before = {k: v.detach().clone() for k, v in held.items()}
    values["inputs"] = {k: flat(v) for k, v in before.items()}
    results = torch.utils._pytree.tree_leaves(model(*args))
    for result in results:
        if isinstance(result, torch.Tensor):
            entry = {"shape": list(result.shape), "stride": list(result.stride()), "values": flat(result)}
            values["outputs"].append(entry)
        else:
            values["outputs"].append(result)
    written = {k: v for k, v in held.items() if not torch.equal(v, before[k])}
    values["mutations"] = {k: flat(v) for k, v in written.items()}
    (HERE / f"{name}.json").write_text(json.dumps(trace, separators=(",", ":")) + "\n")
    (HERE / f"{name}.values.json").write_text(json.dumps(values, indent=None) + "\n")


def main() -> None:
    torch.manual_seed(0)
    numbers = torch.arange(24.0).reshape(4, 6)
    write("mlp", Mlp().train(), (torch.randn(5, 3),))
    write("views", Views(), (numbers,))
    write("mutation", Mutation(), (torch.randn(2, 3),))
    sizes = ({0: Dim("batch", min=3, max=64)}, {0: Dim.AUTO})
    pair = (torch.randn(4, 6), torch.randn(5, 6))
    write("dynamic", Dynamic(), pair, dims={"s77": 4, "s17": 5}, dynamic_shapes=sizes)
    write("regions", Regions(), (torch.randn(2, 4),))
    write("lists", Lists(), (torch.randn(2, 4), 2.5, None))
    write("channels_last", ChannelsLast(), (torch.randn(2, 3, 2, 2),))


if __name__ == "__main__":
    main()
