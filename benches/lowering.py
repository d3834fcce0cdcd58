"""Time of `tputc lower` by the length of the trace: a whole process, from reading the file to the text on disk.

The traces repeat the ops of a small residual block. What is reported is the median of a few runs, the processor time of
the least, which a busy machine disturbs less, and the time a node.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import fx
from torchtpu.trace import walk

RUNS = 9
TPUTC = Path(sys.executable).with_name("tputc")
aten = torch.ops.aten


def block(graph: fx.Graph, x: fx.Node, w: fx.Node, b: fx.Node) -> fx.Node:
    """Ten ops: a layer, its norm, and the residual."""
    call = graph.call_function
    mean = call(aten.mean.dim, (x, [1], True))
    centred = call(aten.sub.Tensor, (x, mean))
    square = call(aten.mul.Tensor, (centred, centred))
    variance = call(aten.mean.dim, (square, [1], True))
    scale = call(aten.rsqrt.default, (call(aten.add.Tensor, (variance, 1e-5)),))
    normed = call(aten.mul.Tensor, (centred, scale))
    layer = call(aten.addmm.default, (b, normed, w))
    return call(aten.add.Tensor, (x, call(aten.gelu.default, (layer,))))


def trace(nodes: int) -> bytes:
    """A trace of `nodes` ops."""
    graph = fx.Graph()
    names = ("x", "w", "b")
    inputs = [graph.placeholder(name) for name in names]
    value = inputs[0]
    for _ in range(nodes // 10):
        value = block(graph, value, inputs[1], inputs[2])
    graph.output((value,))
    tensors = {"x": torch.empty(8, 16), "w": torch.empty(16, 16), "b": torch.empty(16)}
    column, full = torch.empty(8, 1), tensors["x"]
    for node in graph.nodes:
        narrow = node.target in (aten.mean.dim, aten.rsqrt.default) or node.args[1:] == (1e-5,)
        node.meta["val"] = tensors.get(node.name, column if narrow else full)
        node.meta["stack_trace"] = '  File "model.py", line 7, in forward\n    return self.block(x)\n'
    return walk(fx.GraphModule({}, graph)).to_bytes()


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds on the clock and of the processor that a process takes."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, check=True)
    wall, after = time.perf_counter() - start, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    print(f"{TPUTC.name} lower, median of {RUNS} runs")
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder, "trace.json"), Path(folder, "out.mlir")
        for nodes in (1_000, 10_000, 100_000):
            file.write_bytes(trace(nodes))
            times, processor = zip(*(timed([str(TPUTC), "lower", str(file), "-o", str(out)]) for _ in range(RUNS)))
            median = statistics.median(times)
            each = f"{median * 1e3:8.1f} ms, least {min(times) * 1e3:.1f}, processor {min(processor) * 1e3:.1f}"
            print(f"{nodes:7} nodes: {each}; {median / nodes * 1e6:.2f} us a node")


if __name__ == "__main__":
    main()
