"""What a call costs besides the program: ours and PJRT's share, by number of arguments.

The program adds one to its first argument and ignores the rest, as a model with that many parameters hands them over.
What is left is the exchange of tensors, the checks, PJRT's execute, and the result. ``cargo run --release -p
torchtpu-runtime --example latency`` prints PJRT's part alone.
"""

from __future__ import annotations

import statistics
import time

import torch
import torchtpu
from torchtpu import _native, _plugins
from torchtpu.trace import walk

CALLS = 2000


def program(arguments: int) -> tuple[_native.Program, list[torch.Tensor]]:
    """The program of ``arguments`` inputs, and tensors for it."""
    graph = torch.fx.Graph()
    tensors = [torch.ones(64) for _ in range(arguments)]
    nodes = [graph.placeholder(f"p{i}") for i in range(arguments)]
    result = graph.call_function(torch.ops.aten.add.Tensor, (nodes[0], 1))
    graph.output((result,))
    for node, value in zip([*nodes, result], [*tensors, tensors[0]], strict=True):
        node.meta["val"] = value
    walked = walk(torch.fx.GraphModule({}, graph))
    return _native.Program(walked.to_bytes(), plugin=_plugins.current()), tensors


def main() -> None:
    print(f"torchtpu {torchtpu.__version__}; median of {CALLS} calls")
    for count in (1, 10, 100, 320):
        run, tensors = program(count)
        run.prepare()
        times = []
        for _ in range(CALLS):
            start = time.perf_counter()
            run(tensors)
            times.append(time.perf_counter() - start)
        print(f"{count:4} arguments: {statistics.median(times) * 1e6:6.1f} us a call, least {min(times) * 1e6:.1f}")


if __name__ == "__main__":
    main()
