"""An LSTM in StableHLO written by hand, run by the plugin alone, beside PyTorch's own and ours.

    cargo build --release -p torchtpu-runtime --example timed
    python benches/recurrent.py [--rounds 30]

What the CPU plugin can make of a recurrent layer, whoever writes it: `loop` is a `while` over the steps of each
layer, `unrolled` has every step on its own. Both hoist the projections of inputs. The size is that of the zoo's LSTM: 8
rows of 32 steps, 128 features, two layers of 256. Times are medians of interleaved calls, and ratios to PyTorch's.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch._dynamo
from turns import ratio, until_rested

ROWS, STEPS, FEATURES, HIDDEN = 8, 32, 128, 256
TIMED = Path(__file__).resolve().parents[1] / "target" / "release" / "examples" / "timed"


def tensor(*shape: int) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}f32>"


GATES, STATE, SEQUENCE = tensor(ROWS, 4 * HIDDEN), tensor(ROWS, HIDDEN), tensor(STEPS, ROWS, HIDDEN)
PROJECTED, ONE_STEP = tensor(STEPS, ROWS, 4 * HIDDEN), tensor(1, ROWS, HIDDEN)


class Lines:
    """The lines of a function, whose values are numbered."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.count = 0

    def add(self, op: str) -> str:
        self.count += 1
        self.text.append(f"%v{self.count} = stablehlo.{op}")
        return f"%v{self.count}"

    def elementwise(self, op: str, *operands: str) -> str:
        return self.add(f"{op} {', '.join(operands)} : {STATE}")


def cell(to: Lines, x: str, h: str, c: str, weight: str) -> tuple[str, str]:
    """The next states of an LSTM; `x` is the input's share of the gates."""
    types = f"({STATE}, {tensor(HIDDEN, 4 * HIDDEN)}) -> {GATES}"
    product = to.add(f"dot_general {h}, {weight}, contracting_dims = [1] x [0] : {types}")
    gates = to.add(f"add {product}, {x} : {GATES}")
    parts = [
        to.add(f"slice {gates} [0:{ROWS}, {i * HIDDEN}:{(i + 1) * HIDDEN}] : ({GATES}) -> {STATE}") for i in range(4)
    ]
    kinds = ("logistic", "logistic", "tanh", "logistic")
    i, f, g, o = (to.elementwise(kind, part) for kind, part in zip(kinds, parts, strict=True))
    c = to.elementwise("add", to.elementwise("multiply", f, c), to.elementwise("multiply", i, g))
    return to.elementwise("multiply", o, to.elementwise("tanh", c)), c


def projected(to: Lines, x: str, layer: int) -> tuple[str, str]:
    """The inputs' share of all gates of a layer, and its recurrent weight as the loop reads it."""
    width = FEATURES if layer == 0 else HIDDEN
    types = f"({tensor(STEPS, ROWS, width)}, {tensor(4 * HIDDEN, width)}) -> {PROJECTED}"
    product = to.add(f"dot_general {x}, %wi{layer}, contracting_dims = [2] x [1] : {types}")
    bias = to.add(f"broadcast_in_dim %b{layer}, dims = [2] : ({tensor(4 * HIDDEN)}) -> {PROJECTED}")
    types = f"({tensor(4 * HIDDEN, HIDDEN)}) -> {tensor(HIDDEN, 4 * HIDDEN)}"
    weight = to.add(f"transpose %wh{layer}, dims = [1, 0] : {types}")
    return to.add(f"add {product}, {bias} : {PROJECTED}"), weight


def unrolled(to: Lines, xs: str, weight: str) -> str:
    h = c = to.add(f"constant dense<0.0> : {STATE}")
    states = []
    one = tensor(1, ROWS, 4 * HIDDEN)
    for step in range(STEPS):
        x = to.add(f"slice {xs} [{step}:{step + 1}, 0:{ROWS}, 0:{4 * HIDDEN}] : ({PROJECTED}) -> {one}")
        h, c = cell(to, to.add(f"reshape {x} : ({one}) -> {GATES}"), h, c, weight)
        states.append(to.add(f"reshape {h} : ({STATE}) -> {ONE_STEP}"))
    types = f"({', '.join([ONE_STEP] * STEPS)}) -> {SEQUENCE}"
    return to.add(f"concatenate {', '.join(states)}, dim = 0 : {types}")


def loop(to: Lines, xs: str, weight: str) -> str:
    zero, out = to.add(f"constant dense<0.0> : {STATE}"), to.add(f"constant dense<0.0> : {SEQUENCE}")
    start, index = to.add("constant dense<0> : tensor<i32>"), "tensor<i32>"
    body = Lines()
    body.count = 1000 * to.count
    nothing, next_one = (body.add(f"constant dense<{n}> : {index}") for n in (0, 1))
    one = tensor(1, ROWS, 4 * HIDDEN)
    types = f"({PROJECTED}, {index}, {index}, {index}) -> {one}"
    sizes = f"sizes = [1, {ROWS}, {4 * HIDDEN}]"
    x = body.add(f"dynamic_slice {xs}, %i, {nothing}, {nothing}, {sizes} : {types}")
    h, c = cell(body, body.add(f"reshape {x} : ({one}) -> {GATES}"), "%h", "%c", weight)
    row = body.add(f"reshape {h} : ({STATE}) -> {ONE_STEP}")
    types = f"({SEQUENCE}, {ONE_STEP}, {index}, {index}, {index}) -> {SEQUENCE}"
    filled = body.add(f"dynamic_update_slice %o, {row}, %i, {nothing}, {nothing} : {types}")
    after = body.add(f"add %i, {next_one} : {index}")
    carried = f"{index}, {STATE}, {STATE}, {SEQUENCE}"
    body.text.append(f"stablehlo.return {after}, {h}, {c}, {filled} : {carried}")
    to.count += 1
    to.text.append(
        f"%v{to.count}:4 = stablehlo.while(%i = {start}, %h = {zero}, %c = {zero}, %o = {out}) : {carried} cond {{\n"
        f"%most = stablehlo.constant dense<{STEPS}> : {index}\n"
        f"%more = stablehlo.compare LT, %i, %most : ({index}, {index}) -> tensor<i1>\n"
        "stablehlo.return %more : tensor<i1>\n} do {\n" + "\n".join(body.text) + "\n}"
    )
    return f"%v{to.count}#3"


def program(layer: Callable[[Lines, str, str], str]) -> str:
    to, x = Lines(), "%x"
    arguments = [f"%x: {tensor(STEPS, ROWS, FEATURES)}"]
    for i, width in enumerate((FEATURES, HIDDEN)):
        arguments += [f"%wi{i}: {tensor(4 * HIDDEN, width)}", f"%wh{i}: {tensor(4 * HIDDEN, HIDDEN)}"]
        arguments.append(f"%b{i}: {tensor(4 * HIDDEN)}")
        x = layer(to, *projected(to, x, i))
    lines = "\n".join(to.text)
    return f"func.func @main({', '.join(arguments)}) -> {SEQUENCE} {{\n{lines}\nreturn {x} : {SEQUENCE}\n}}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    torch._dynamo.config.allow_rnn = True
    net = torch.nn.LSTM(FEATURES, HIDDEN, num_layers=2, batch_first=True).eval()
    x = torch.randn(ROWS, STEPS, FEATURES)
    compiled = torch.compile(net, backend="torchtpu")
    with tempfile.TemporaryDirectory() as folder:
        files = {layer.__name__: Path(folder) / f"{layer.__name__}.mlir" for layer in (loop, unrolled)}
        for layer in (loop, unrolled):
            files[layer.__name__].write_text(program(layer))
        command = [str(TIMED), "cpu", *(str(file) for file in files.values())]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def by_hand(number: int) -> float:
            assert worker.stdin and worker.stdout
            print(number, file=worker.stdin, flush=True)
            return float(worker.stdout.readline())

        def timed(call: Callable[[torch.Tensor], object]) -> float:
            start = time.perf_counter()
            with torch.inference_mode():
                call(x)
            return time.perf_counter() - start

        ways: dict[str, Callable[[], float]] = {"PyTorch": lambda: timed(net), "torchtpu": lambda: timed(compiled)}
        ways |= {name: lambda number=number: by_hand(number) for number, name in enumerate(files)}
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, run in ways.items():
                until_rested(run)
                times[name].append(run())
        worker.terminate()
    print("| LSTM, inference | ms | of PyTorch's |\n|---|---:|---|")
    for name, taken in times.items():
        middle, low, high = ratio(taken, times["PyTorch"])
        print(f"| {name} | {statistics.median(taken) * 1e3:.2f} | {middle:.2f} ({low:.2f}..{high:.2f}) |")


if __name__ == "__main__":
    main()
