"""Max pooling: its values, positions and gradients against PyTorch on the CPU, and how a TPU trains through it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torchtpu
import torchtpu.backend
from test_check import needs_libtpu
from test_export_models import tputc
from torch import Tensor, fx, nn
from torch.nn import functional

POOLS: list[Callable[..., Any]] = [functional.max_pool1d, functional.max_pool2d, functional.max_pool3d]
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.uint8]


def windows(seed: int) -> tuple[int, tuple[int, ...], dict[str, Any]]:
    """A number of pooled dimensions, an input's extents, and windows over it."""
    choose = random.Random(seed)
    n = choose.randint(1, 3)
    kernel = [choose.choice([1, 2, 3, 3, 11]) for _ in range(n)]
    dilation = [choose.choice([1, 1, 2]) for _ in range(n)]
    extents = [choose.randint((k - 1) * d + 1, (k - 1) * d + 9) for k, d in zip(kernel, dilation, strict=True)]
    where = {
        "kernel_size": kernel,
        "stride": [choose.randint(1, 3) for _ in range(n)],
        "padding": [choose.randint(0, k // 2) for k in kernel],
        "dilation": dilation,
        "ceil_mode": choose.random() < 0.3,
    }
    return n, (2, 33, *extents), where


def numbers(shape: Sequence[int], dtype: torch.dtype, seed: int) -> Tensor:
    """Few different ones, so that windows have equals; of floats some NaN, and many of the least."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 5, shape, generator=generator).to(dtype)
    if dtype.is_floating_point:
        fate = torch.rand(shape, generator=generator)
        x = x.masked_fill(fate < 0.02, float("nan")).masked_fill(fate > 0.7, float("-inf"))
    return x


@pytest.mark.parametrize("seed", range(18))
def test_values_and_positions(seed: int) -> None:
    n, shape, where = windows(seed)
    x = numbers(shape, TYPES[seed % len(TYPES)], seed)

    def pool(x: Tensor) -> tuple[Tensor, Tensor]:
        return POOLS[n - 1](x, **where, return_indices=True)  # type: ignore[no-any-return]

    expected = pool(x)
    for found in (torch.compile(pool, backend="torchtpu", dynamic=False)(x), [t.cpu() for t in pool(x.to("tpu"))]):
        torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0, equal_nan=True)
        assert torch.equal(found[1], expected[1])


@pytest.fixture
def as_on_a_tpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[fx.GraphModule]]:
    """Splits programs into forward and backward as for a TPU; gives the parts that are compiled meanwhile."""
    parts: list[fx.GraphModule] = []
    compile_graph = torchtpu.backend.compile_graph

    def kept(gm: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        parts.append(gm)
        return compile_graph(gm, *args, **kwargs)

    monkeypatch.setattr(torchtpu.backend, "_is_for_tpu", lambda options: True)
    monkeypatch.setattr(torchtpu.backend, "compile_graph", kept)
    yield parts
    torch._dynamo.reset()


def pools_in(gm: fx.GraphModule) -> int:
    return sum("with_indices.default" in str(node.target) for node in gm.graph.nodes)


class Net(nn.Module):
    """Two pools of overlapping windows among convolutions."""

    def __init__(self, **pool: Any) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1, **pool), nn.Conv2d(8, 8, 3), nn.MaxPool2d(2, 1, **pool)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).square().mean()  # type: ignore[no-any-return]


def gradients(loss: Callable[..., Tensor], *of: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss(), of)


@pytest.mark.parametrize("dilation", [1, 2])
def test_a_tpu_keeps_no_positions_but_pools_again(as_on_a_tpu: list[fx.GraphModule], dilation: int) -> None:
    net, x = Net(dilation=dilation), torch.randn(2, 3, 24, 24, requires_grad=True)
    compiled = torch.compile(net, backend="torchtpu", dynamic=False)
    of = [x, *net.parameters()]
    torch.testing.assert_close(gradients(lambda: compiled(x), *of), gradients(lambda: net(x), *of))
    _, backward = as_on_a_tpu
    assert pools_in(backward) == (2 if dilation == 1 else 0)  # nothing selects from windows with gaps
    saved = [node.meta["val"] for node in backward.graph.find_nodes(op="placeholder")]
    assert sum(t.dtype in (torch.int64, torch.int8) for t in saved) == (0 if dilation == 1 else 2)


def test_positions_that_something_else_reads_are_kept(as_on_a_tpu: list[fx.GraphModule]) -> None:
    x = torch.randn(2, 4, 6, 8, 8, requires_grad=True)

    def unpooled(x: Tensor) -> Tensor:
        y, places = functional.max_pool3d(x, 2, return_indices=True)
        return functional.max_unpool3d(y * y, places, 2).sum()

    compiled = torch.compile(unpooled, backend="torchtpu", dynamic=False)
    torch.testing.assert_close(gradients(lambda: compiled(x), x), gradients(lambda: unpooled(x), x))
    assert pools_in(as_on_a_tpu[-1]) == 0


def test_a_tpu_selects_where_it_would_scatter(tmp_path: Path) -> None:
    trace = torchtpu.capture(Net(), torch.randn(2, 3, 24, 24))
    trace.save(tmp_path / "net.json")

    def rules(name: str) -> list[str]:
        told = json.loads(tputc("fuse", tmp_path / name, "--platform", "tpu", "--format", "json"))
        return [change["rule"] for change in told["changes"]]

    assert rules("net.json").count("unread-positions") == 2
    assert rules("net.backward.json").count("pool-gradient-by-selection") == 2


@needs_libtpu
@pytest.mark.parametrize("n", [1, 2, 3])
def test_what_a_tpu_selects_compiles_for_it(tmp_path: Path, n: int) -> None:
    pool = [nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d][n - 1](3, 2, 1)
    x = torch.randn(2, 8, *[12] * n, requires_grad=True)
    torchtpu.capture(lambda x: pool(x * 2).square(), x).save(tmp_path / "net.json")
    program = tputc("lower", tmp_path / "net.backward.json", "--target", "v5e:1x1", "--stage", "hlo")
    assert "select-and-scatter(" in program and " scatter(" not in program
