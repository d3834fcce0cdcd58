"""Runs programs in the reference evaluator, on the CPU plugin and in PyTorch, and makes those that disagree small.

The evaluator is `cargo run -p torchtpu-ir --example evaluate`; `TORCHTPU_EVALUATE` names a binary to run instead.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import pathlib
import subprocess
from typing import Any

import torch
from programs import DTYPES, NAMES, Input, Program, Ref, Rejected, Runs, Step, copy, graph, leaves, run
from torch import Tensor
from torchtpu import _native, _plugins
from torchtpu.trace import walk

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass
class Complaint:
    """What is wrong: who disagrees with PyTorch, where, and by what."""

    who: str
    output: Ref | None
    what: str

    def __str__(self) -> str:
        place = "" if self.output is None else f" at {self.output}"
        return f"{self.who}{place}: {self.what}"


class Complaints(list[Complaint]):
    """What is wrong with a program."""

    # Whether it is right only in exact numerics, since infinities meet in it.
    exact_only = False


class Evaluator:
    """The reference evaluator in a process of its own."""

    def __init__(self) -> None:
        binary = os.environ.get("TORCHTPU_EVALUATE")
        build = ["cargo", "run", "-q", "-p", "torchtpu-ir", "--example", "evaluate"]
        self.process = subprocess.Popen(
            [binary] if binary else build, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, trace: bytes, exact: bool, inputs: list[Tensor]) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        request = {"trace": trace.decode(), "exact": exact, "inputs": [encoded(x) for x in inputs]}
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()


def encoded(x: Tensor) -> dict[str, Any]:
    data = x.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if x.numel() else b""
    return {"dtype": NAMES[x.dtype], "shape": list(x.shape), "data": base64.b64encode(data).decode()}


def decoded(spec: dict[str, Any]) -> Tensor:
    data, dtype = bytearray(base64.b64decode(spec["data"])), DTYPES[spec["dtype"]]
    return (torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)).reshape(spec["shape"])


def complaints(program: Program, evaluator: Evaluator, runs: Runs | None = None) -> Complaints:
    """Where the evaluator or the plugin disagrees with PyTorch."""
    runs = runs or run(program)
    inputs = [x for _, x in program.inputs()]
    trace = walk(graph(program, runs.metas)).to_bytes()
    found = Complaints()
    answer = evaluator(trace, program.exact, inputs)
    if "error" in answer:
        found.append(Complaint("import", None, answer["error"]))
        return found
    ours = [decoded(spec) if spec else None for spec in answer["outputs"]]
    after = [decoded(answer["mutated"][str(i)]) if str(i) in answer["mutated"] else x for i, x in enumerate(inputs)]
    found.extend(differences("evaluator", program, runs, ours, after))
    wrong = plugin_complaints(program, runs, trace, "exact" if program.exact else "reassociate")
    # Reassociating may make NaN of an infinity, or an infinity of NaN: there only exact numerics are held to PyTorch.
    if wrong and not program.exact and not finite(runs):
        wrong = plugin_complaints(program, runs, trace, "exact")
        found.exact_only = not wrong
    found.extend(wrong)
    return found


def plugin_complaints(program: Program, runs: Runs, trace: bytes, numerics: str) -> list[Complaint]:
    """Where the CPU plugin disagrees with PyTorch."""
    after = [copy(x) for _, x in program.inputs()]
    try:
        outputs = plugin(trace, after, numerics)
    except Exception as error:
        return [Complaint("plugin", None, f"{type(error).__name__}: {error}")]
    return list(differences("plugin", program, runs, outputs, after))


def plugin(trace: bytes, inputs: list[Tensor], numerics: str) -> list[Tensor | None]:
    """What the CPU plugin gives; writes to `inputs` what the program does."""
    return _native.Program(trace, plugin=_plugins.current(), numerics=numerics)(list(inputs))


def finite(runs: Runs) -> bool:
    """Whether all numbers of a run of PyTorch are."""
    return all(bool(wide(x.resolve_conj()).isfinite().all()) for x in leaves(runs.lanes[0], Tensor))


def differences(
    who: str, program: Program, runs: Runs, outputs: list[Tensor | None], after: list[Tensor]
) -> list[Complaint]:
    """Where `outputs`, and what the inputs are afterwards, are not what PyTorch gives."""
    names = [*program.outputs, *(Ref(i) for i, _ in program.inputs())]
    found = []
    for ref, ours in zip(names, [*outputs, *after], strict=True):
        theirs = [runs.get(ref, k) for k in range(len(runs.lanes))]
        if ours is None or theirs[0] is None:
            what = None if ours is theirs[0] else "one is undefined"
        else:
            what = difference(ours, theirs)
        if what is not None:
            found.append(Complaint(who, ref, what))
    return found


def difference(ours: Tensor, theirs: list[Tensor]) -> str | None:
    """How `ours` differs from the first of `theirs` by more than the others do."""
    x = theirs[0].resolve_conj().resolve_neg()
    ours = ours.resolve_conj().resolve_neg()
    if ours.dtype != x.dtype or ours.shape != x.shape:
        return f"{NAMES[ours.dtype]}{list(ours.shape)}, not {NAMES[x.dtype]}{list(x.shape)}"
    if not x.is_floating_point() and not x.is_complex():
        wrong = ours != x
        return shown(ours[wrong], x[wrong]) if wrong.any() else None
    others = [y.resolve_conj().resolve_neg() for y in theirs[1:]]
    dtype = x.dtype
    ours, x, *others = (wide(y) for y in (ours, x, *others))
    apart = torch.stack([(y - x).abs() for y in others]).amax(0).nan_to_num(0, 0, 0)
    apart += (apart**2).mean().sqrt() if apart.numel() else 0
    relative, absolute = TOLERANCE.get(dtype, (0.3, 0.01))
    size = x.abs()
    if dtype.is_complex:  # a part may lose digits to the other one's size
        size = size.amax(-1, keepdim=True).expand_as(x)
    bound = absolute + relative * size + SLACK * apart
    same = (ours == x) | (ours.isnan() & x.isnan()) | (x.isfinite() & ((ours - x).abs() <= bound))
    return None if same.all() else shown(ours[~same], x[~same])


# PyTorch's own, `torch.testing.assert_close`.
TOLERANCE = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1.3e-6, 1e-5),
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
# How many times the disturbed runs' distance two implementations may be apart.
SLACK = 4.0


def wide(x: Tensor) -> Tensor:
    return torch.view_as_real(x).double() if x.is_complex() else x.double()


def shown(ours: Tensor, theirs: Tensor) -> str:
    pairs = zip(ours.reshape(-1).tolist()[:4], theirs.reshape(-1).tolist()[:4])
    return f"{ours.numel()} elements: " + "; ".join(f"{a}, not {b}" for a, b in pairs)


# Making programs small.


class Minimiser:
    """Takes nodes from a program as long as it goes wrong in the same way."""

    def __init__(self, evaluator: Evaluator, first: Complaint) -> None:
        self.evaluator = evaluator
        self.who = first.who
        self.kind = first.what.split(":")[0] if first.output is None else None

    def wrong(self, program: Program) -> bool:
        try:
            found = complaints(program, self.evaluator)
        except Rejected:
            return False
        return any(c.who == self.who and (c.output is None) == (self.kind is not None) for c in found)

    def smallest(self, program: Program) -> Program:
        for ref in program.outputs:
            if self.wrong(one := dataclasses.replace(program, outputs=[ref])):
                program = one
                break
        while (smaller := self.smaller(program)) is not None:
            program = smaller
        return program

    def smaller(self, program: Program) -> Program | None:
        unused = without_unused(program)
        if len(unused.nodes) < len(program.nodes) and self.wrong(unused):
            return unused
        try:
            runs = run(program)
        except Rejected:
            return None
        for i in reversed(range(len(program.nodes))):
            for candidate in candidates(program, runs, i):
                if self.wrong(candidate):
                    return candidate
        return None


def without_unused(program: Program) -> Program:
    """The program without what none of its outputs comes from; what writes to its arguments stays."""
    needed = {ref.node for ref in program.outputs}
    for i in reversed(range(len(program.nodes))):
        node = program.nodes[i]
        if isinstance(node, Step) and (i in needed or node.op._schema.is_mutable):
            needed |= {i, *(ref.node for ref in node.refs())}
    return program.without(set(range(len(program.nodes))) - needed)


def candidates(program: Program, runs: Runs, i: int) -> list[Program]:
    """The program with node `i` gone, or in the place of an input that holds what it computes."""
    node = program.nodes[i]
    uses = any(ref.node == i for n in program.nodes if isinstance(n, Step) for ref in n.refs())
    uses = uses or any(ref.node == i for ref in program.outputs)
    if not uses:
        return [program.without({i})]
    result = runs.lanes[0][i]
    if not isinstance(node, Step) or not isinstance(result, Tensor):
        return []
    nodes: list[Input | Step] = list(program.nodes)
    nodes[i] = Input(torch.empty_like(result).copy_(result))
    return [dataclasses.replace(program, nodes=nodes)]
