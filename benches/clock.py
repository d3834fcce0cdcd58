"""The optimizer's clock for TPUs (crates/fuse/src/cost.rs) against what libtpu makes of small programs.

    python benches/clock.py [--target v5e:1x1] [--only KIND] [--page docs/tpu-cost-model.md] [--log FILE]

Each program is one op at one size in one type, or a chain of them; libtpu compiles it, and the roofline of its
optimized program (docs/tpu-cost-model.md) stands beside our price. The clock leaves out reading a program's inputs,
writing its results and starting the first fusion, which are the same whatever is chosen; a roofline does not, so here a
price is at least that.
What the clock must get right is order: so Spearman's rank correlation is given, of each kind and of all programs
together, and the pairs that it puts the wrong way round although their rooflines are more than a fifth apart.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fuse

FLOATS = ("f32", "bf16")
# Rows and columns: square, long, wide; some that fill no tile.
SHAPES = ((256, 256), (1024, 1024), (4096, 1024), (65536, 3), (128, 16384), (1000, 1000), (4096, 4096))
APART = 1.2
# Seconds to start a fusion, as the roofline has it.
START = 1.2e-6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="v5e:1x1")
    parser.add_argument("--only", default="", help="kinds whose names hold this")
    parser.add_argument("--page", type=Path, help="where the table goes, between its marks")
    parser.add_argument("--log", type=Path, help="where every program's figures go, a line of JSON each")
    args = parser.parse_args()
    found = measured({k: v for k, v in programs().items() if args.only in k}, args.target)
    if args.log:
        args.log.write_text("".join(json.dumps(one) + "\n" for one in found))
    table = page(found, args.target)
    print("\n".join(table))
    if args.page:
        fuse.between_marks(args.page, "clock", table)


def measured(graphs: dict[str, str], target: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, text in graphs.items():
            files.append(Path(folder) / f"{name}.txt")
            files[-1].write_text(text)
        found = fuse.tpu_costs(target, [str(file) for file in files])
    return [{"name": one["name"], "kind": one["name"].split("-")[0], **one["before"]} for one in found]


def price(one: dict[str, Any]) -> float:
    return max(one["picoseconds"] * 1e-12, one["end_seconds"] + START)


def page(found: list[dict[str, Any]], target: str) -> list[str]:
    rows = [
        f"| kind, {target} | programs | rank correlation | ours / roofline, p10 | p50 | p90 | pairs the wrong way |"
    ]
    rows.append("|---|---:|---:|---:|---:|---:|---:|")
    kinds = {kind: [one for one in found if one["kind"] == kind] for kind in sorted({one["kind"] for one in found})}
    rows += [row(kind, ones) for kind, ones in kinds.items()]
    rows.append(row("all", found))
    return rows


def row(kind: str, ones: list[dict[str, Any]]) -> str:
    ours, theirs = [price(one) for one in ones], [one["seconds"] for one in ones]
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    low, middle, high = (ratios[round(share * (len(ratios) - 1))] for share in (0.1, 0.5, 0.9))
    wrong, apart = inversions(ours, theirs)
    correlation = spearman(ours, theirs) if len(ones) > 2 else 1.0
    return f"| {kind} | {len(ones)} | {correlation:.2f} | {low:.2f} | {middle:.2f} | {high:.2f} | {wrong} of {apart} |"


def inversions(ours: list[float], theirs: list[float]) -> tuple[int, int]:
    """Of pairs whose rooflines are well apart: how many we order otherwise, and how many there are."""
    pairs = [
        (a, b)
        for a, b in itertools.combinations(zip(ours, theirs, strict=True), 2)
        if max(a[1], b[1]) > APART * min(a[1], b[1])
    ]
    return sum((a[0] - b[0]) * (a[1] - b[1]) <= 0 for a, b in pairs), len(pairs)


def spearman(first: list[float], second: list[float]) -> float:
    return statistics.correlation(ranks(first), ranks(second))


def ranks(values: list[float]) -> list[float]:
    """From 1; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    result = [0.0] * len(values)
    for _, group in itertools.groupby(enumerate(order), key=lambda it: values[it[1]]):
        same = list(group)
        for _, index in same:
            result[index] = statistics.fmean(place + 1 for place, _ in same)
    return result


class Graph:
    """A program in the text form, written line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.inputs = 0

    def value(self, ty: str, op: str) -> str:
        self.lines.append(f"  %{len(self.lines)}: {ty} = {op}")
        return f"%{len(self.lines) - 1}"

    def input(self, ty: str) -> str:
        self.inputs += 1
        return self.value(ty, f'input {self.inputs - 1} "a.{self.inputs - 1}" user')

    def text(self, result: str) -> str:
        return "\n".join(["graph @one {", *self.lines, f'  return {result} "out"', "}", ""])


def ty(dtype: str, *shape: int) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def spelled(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def programs() -> dict[str, str]:
    """Names, which begin with the kind, and texts."""
    kinds = (elementwise, chains, moves, reductions, products, convolutions, windows, lookups)
    return dict(itertools.chain.from_iterable(kind() for kind in kinds))


def one(op: str, result: str, *inputs: str) -> str:
    graph = Graph()
    operands = [graph.input(ty) for ty in inputs]
    return graph.text(graph.value(result, f"{op} {', '.join(operands)}"))


def elementwise() -> Iterator[tuple[str, str]]:
    for (rows, columns), dtype in itertools.product(SHAPES, FLOATS):
        shape = ty(dtype, rows, columns)
        size = f"{dtype}-{rows}x{columns}"
        for op in ("negate", "tanh", "exponential", "rsqrt"):
            yield f"unary-{op}-{size}", one(op, shape, shape)
        for op in ("add", "divide", "power"):
            yield f"binary-{op}-{size}", one(op, shape, shape, shape)
        yield f"select-{size}", one("select", shape, ty("bool", rows, columns), shape, shape)
        yield f"compare-{size}", one("compare_lt", ty("bool", rows, columns), shape, shape)
        other = "bf16" if dtype == "f32" else "f32"
        yield f"convert-{size}", one(f"convert(dtype:{other})", ty(other, rows, columns), shape)


def chains() -> Iterator[tuple[str, str]]:
    """So much arithmetic that it counts beside reading and writing."""
    for (rows, columns), op, length in itertools.product(
        ((256, 256), (1024, 1024), (4096, 1024)), ("tanh", "add", "divide", "select"), (8, 64)
    ):
        graph = Graph()
        shape = ty("f32", rows, columns)
        x, y = graph.input(shape), graph.input(shape)
        for _ in range(length):
            if op == "select":
                smaller = graph.value(ty("bool", rows, columns), f"compare_lt {x}, {y}")
                x, y = y, graph.value(shape, f"select {smaller}, {x}, {y}")
            else:
                x = graph.value(shape, f"tanh {x}" if op == "tanh" else f"{op} {x}, {y}")
        yield f"chain-{op}-{length}-{rows}x{columns}", graph.text(x)


def moves() -> Iterator[tuple[str, str]]:
    for (rows, columns), dtype in itertools.product(SHAPES, FLOATS):
        shape, size = ty(dtype, rows, columns), f"{dtype}-{rows}x{columns}"
        yield f"transpose-{size}", one("transpose(permutation:[1,0])", ty(dtype, columns, rows), shape)
        half = (rows // 2, columns)
        yield f"slice-{size}", one(f"slice(start:[0,0],limit:{spelled(half)},stride:[1,1])", ty(dtype, *half), shape)
        yield f"concatenate-{size}", one("concatenate(dim:0)", ty(dtype, 2 * rows, columns), shape, shape)
        yield f"reverse-{size}", one("reverse(dims:[1])", shape, shape)
        flat = (rows * columns,)
        yield f"reshape-{size}", one(f"reshape(shape:{spelled(flat)})", ty(dtype, *flat), shape)
        wide = (8, rows, columns)
        spread = f"broadcast_in_dim(shape:{spelled(wide)},dims:[1,2])"
        if rows * columns < 1 << 23:
            yield f"broadcast-{size}", one(spread, ty(dtype, *wide), shape)
        graph = Graph()
        x, zero = graph.input(shape), graph.input(ty(dtype))
        padded = ty(dtype, rows + 1, columns + 1)
        yield f"pad-{size}", graph.text(graph.value(padded, f"pad(low:[1,1],high:[0,0],interior:[0,0]) {x}, {zero}"))


def reductions() -> Iterator[tuple[str, str]]:
    for (rows, columns), dtype, dim in itertools.product(SHAPES, FLOATS, (0, 1)):
        kept = (columns, rows)[dim]
        op = f"reduce(reducer:{'add' if dtype == 'f32' else 'maximum'},dims:[{dim}])"
        yield f"reduce-{dtype}-{rows}x{columns}-{dim}", one(op, ty(dtype, kept), ty(dtype, rows, columns))


def products() -> Iterator[tuple[str, str]]:
    sizes = (
        (128, 128, 128),
        (512, 512, 512),
        (2048, 2048, 2048),
        (4096, 64, 4096),
        (4096, 4096, 8),
        (1, 4096, 4096),
        (8, 1024, 16384),
        (1000, 768, 3000),
    )
    for (m, k, n), dtype in itertools.product(sizes, FLOATS):
        precision = "highest" if dtype == "f32" else "default"
        tail = f"precision:{precision},out:{dtype}"
        op = f"dot_general(lhs_batch:[],rhs_batch:[],lhs_contract:[1],rhs_contract:[0],{tail})"
        yield f"dot-{dtype}-{m}x{k}x{n}", one(op, ty(dtype, m, n), ty(dtype, m, k), ty(dtype, k, n))
    for (batch, m, k, n), dtype in itertools.product(
        ((16, 384, 64, 384), (64, 128, 128, 128), (256, 32, 64, 32)), FLOATS
    ):
        tail = f"precision:{'highest' if dtype == 'f32' else 'default'},out:{dtype}"
        op = f"dot_general(lhs_batch:[0],rhs_batch:[0],lhs_contract:[2],rhs_contract:[1],{tail})"
        yield (
            f"dot-{dtype}-{batch}x{m}x{k}x{n}",
            one(op, ty(dtype, batch, m, n), ty(dtype, batch, m, k), ty(dtype, batch, k, n)),
        )


def convolutions() -> Iterator[tuple[str, str]]:
    # Images, features in and out, extent, window, groups.
    cases = (
        (8, 64, 64, 56, 1, 1),
        (8, 64, 64, 56, 3, 1),
        (8, 3, 64, 112, 7, 1),
        (8, 256, 256, 14, 3, 1),
        (8, 64, 64, 56, 3, 64),
        (8, 64, 64, 56, 3, 8),
    )
    for (count, features, out, extent, size, groups), dtype in itertools.product(cases, FLOATS):
        around = size // 2
        op = (
            f"convolution(strides:[1,1],padding:[({around},{around}),({around},{around})],lhs_dilation:[1,1],rhs_dilation:[1,1],"
            "input_batch:0,input_feature:1,input_spatial:[2,3],kernel_input_feature:1,kernel_output_feature:0,kernel_spatial:[2,3],"
            f"output_batch:0,output_feature:1,output_spatial:[2,3],feature_group_count:{groups},batch_group_count:1,"
            f"precision:{'highest' if dtype == 'f32' else 'default'},out:{dtype})"
        )
        given, kernel = ty(dtype, count, features, extent, extent), ty(dtype, out, features // groups, size, size)
        kind = "grouped" if groups > 1 else "convolution"
        yield (
            f"{kind}-{dtype}-{features}x{extent}-{size}-{groups}",
            one(op, ty(dtype, count, out, extent, extent), given, kernel),
        )


def windows() -> Iterator[tuple[str, str]]:
    for extent, size, dtype in itertools.product((28, 56, 112), (2, 3), FLOATS):
        low = extent - size + 1
        graph = Graph()
        x = graph.input(ty(dtype, 8, 64, extent, extent))
        ones, none = "[1,1,1,1]", "[(0,0),(0,0),(0,0),(0,0)]"
        window = f"(size:[1,1,{size},{size}],strides:{ones},padding:{none},base_dilation:{ones},dilation:{ones})"
        result = graph.value(ty(dtype, 8, 64, low, low), f"reduce_window(reducer:maximum,window:{window}) {x}")
        yield f"window-{dtype}-{extent}-{size}", graph.text(result)


def lookups() -> Iterator[tuple[str, str]]:
    for rows, count, dtype in itertools.product((1024, 32768), (128, 4096), FLOATS):
        op = (
            "gather(offset_dims:[1],collapsed_slice_dims:[0],operand_batching_dims:[],start_indices_batching_dims:[],"
            "start_index_map:[0],index_vector_dim:1,slice_sizes:[1,512])"
        )
        yield (
            f"gather-{dtype}-{rows}-{count}",
            one(op, ty(dtype, count, 512), ty(dtype, rows, 512), ty("i32", count, 1)),
        )
    for rows, dtype in itertools.product((64, 1024), FLOATS):
        yield (
            f"sort-{dtype}-{rows}",
            one("sort(dim:1,descending:false,stable:true)", ty(dtype, rows, 1024), ty(dtype, rows, 1024)),
        )


if __name__ == "__main__":
    main()
