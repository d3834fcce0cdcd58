"""scan, map, associative_scan and flex_attention: compiled and eager, results and gradients, sizes that change."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torchtpu
from counting import programs
from test_control_flow import compiled, unknown
from test_export_models import export, outputs_of, run, tputc
from torch import Tensor
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.switch import switch
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention
from torch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions
from torch.utils import _pytree as pytree

Fn = Callable[..., Any]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """PyTorch warns that flex_attention is slow without torch.compile, and that these ops are young."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def agree(ours: Fn, theirs: Fn, args: tuple[Tensor, ...], device: str, gradients: bool) -> None:
    """``ours`` gives on ``device`` what ``theirs`` gives on the CPU, and the gradients of the sum of squares."""
    grads = [gradients and a.is_floating_point() for a in args]
    mine = [a.to(device).detach().requires_grad_(g) for a, g in zip(args, grads)]
    their = [a.detach().clone().requires_grad_(g) for a, g in zip(args, grads)]
    got, want = pytree.tree_leaves(ours(*mine)), pytree.tree_leaves(theirs(*their))
    assert all(t.device.type == device for t in got)
    torch.testing.assert_close([t.cpu() for t in got], want)
    if gradients:
        for results in (got, want):
            torch.stack([t.square().sum() for t in results if t.requires_grad]).sum().backward()
        for a, b in zip(mine, their):
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None:
                torch.testing.assert_close(a.grad.cpu(), b.grad)


# --- loops over rows -------------------------------------------------------------------------------------------------


def recurrence(xs: Tensor, w: Tensor) -> Any:
    def step(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(h @ w + x)
        return h, h * 2

    return scan(step, torch.zeros(3, device=xs.device), xs)


def backwards(xs: Tensor, w: Tensor) -> Any:
    def step(state: Any, x: Tensor) -> Any:
        total, count = state["total"] + x.sum(0), state["count"] + 1
        return {"total": total, "count": count}, (total @ w, x.cos())

    state = {"total": torch.zeros(3, device=xs.device), "count": torch.zeros((), device=xs.device)}
    return scan(step, state, xs, dim=1, reverse=True)


def chosen_steps(xs: Tensor, w: Tensor) -> Any:
    def step(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.cond(x.sum() > 0, lambda h, x: (h @ w + x).tanh(), lambda h, x: (h - x).sin(), (h, x))
        return h, h * 2

    return scan(step, torch.zeros(3, device=xs.device), xs)


def scan_in_scan(xs: Tensor, w: Tensor) -> Any:
    def step(h: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        def inner(c: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            return c * row + h, c + row

        c, given = scan(inner, h * 1, rows)
        return c @ w, given.sum(0)

    return scan(step, torch.zeros(3, device=xs.device), xs)


def mapped(xs: Tensor, w: Tensor) -> Tensor:
    result: Tensor = map_rows(lambda x, b: (x @ w + b).sin(), xs, torch.ones(3, device=xs.device))
    return result


def linear_recurrence(a: Tensor, x: Tensor, **how: Any) -> Any:
    def combine(left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return left[0] * right[0], left[1] * right[0] + right[1]

    return associative_scan(combine, (a, x), **how)


W = torch.tensor([[0.5, -1, 0.2], [0.1, 0.3, 0.7], [-0.4, 0.6, 0.9]])
ROWS = torch.linspace(-2, 2, 15).reshape(5, 3)
BLOCKS = torch.linspace(-1, 2, 24).reshape(4, 2, 3)
LOOPS: dict[str, tuple[Fn, tuple[Tensor, ...]]] = {
    "scan": (recurrence, (ROWS, W)),
    "scan, one row": (recurrence, (ROWS[:1], W)),
    "scan, dict, dim, reverse": (backwards, (BLOCKS, W)),
    "scan, cond": (chosen_steps, (ROWS, W)),
    "scan, scan": (scan_in_scan, (BLOCKS, W)),
    "map": (mapped, (BLOCKS, W)),
    "associative": (lambda a, x: linear_recurrence(a, x, dim=0), (ROWS, ROWS.cos())),
    "associative, one row": (lambda a, x: linear_recurrence(a, x, dim=0), (ROWS[:1], ROWS[:1].cos())),
    "associative, dim, reverse": (lambda a, x: linear_recurrence(a, x, dim=1, reverse=True), (ROWS, ROWS.cos())),
    "associative, generic": (lambda a, x: linear_recurrence(a, x, dim=0, combine_mode="generic"), (ROWS, ROWS.cos())),
}


@pytest.mark.parametrize("gradients", [False, True], ids=["results", "gradients"])
@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("fn, args", LOOPS.values(), ids=LOOPS)
def test_loops_over_rows(fn: Fn, args: tuple[Tensor, ...], device: str, gradients: bool) -> None:
    agree(compiled(fn), fn, args, device, gradients)


@pytest.mark.parametrize("name", ["scan", "map", "associative", "associative, generic"])
def test_loops_over_rows_run_eagerly_on_the_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHTPU_FALLBACK", "error")
    fn, args = LOOPS[name]
    agree(fn, fn, args, "tpu", True)


def test_no_row_is_a_scan_of_its_own() -> None:
    agree(compiled(recurrence), recurrence, (ROWS[:0], W), "cpu", False)


@pytest.mark.parametrize("name", ["scan", "map", "associative"])
def test_a_loop_over_any_number_of_rows_is_one_loop_and_one_graph(name: str) -> None:
    fn, args = LOOPS[name]
    many = [torch.cat([a] * 40) if a is not W else a for a in args]
    assert torchtpu.lower(fn, *many).count("stablehlo.while") == 1
    ours = compiled(fn, dynamic=True)
    for rows in (4, 3, 2):
        cut = tuple(a[:rows] if a is not W else a for a in args)
        torch.testing.assert_close(ours(*cut), fn(*cut))
        before = programs()
        ours(*cut)
        assert programs() == before


@pytest.mark.parametrize("name", ["scan", "scan, cond", "map", "associative"])
def test_an_exported_loop_runs_without_python(name: str, tmp_path: Path) -> None:
    fn, (xs, other) = LOOPS[name]

    class Model(torch.nn.Module):
        def forward(self, xs: Tensor, other: Tensor) -> Any:
            return fn(xs, other)

    inputs = {"xs": xs, "other": other}
    export(Model(), inputs, tmp_path / "model.pt2")
    assert tputc("lower", tmp_path / "model.pt2").count("stablehlo.while") == 1
    torch.testing.assert_close(run(tmp_path / "model.pt2", inputs), outputs_of(Model(), inputs))


def test_an_op_without_a_lowering_in_a_loop_is_named_with_its_line() -> None:
    def fn(xs: Tensor) -> Any:
        def step(c: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            x = unknown(x)
            return c + x, x * 2

        return scan(step, torch.zeros(3), xs)

    with pytest.raises(torchtpu.UnsupportedOp, match=r"branches.unknown") as caught:
        compiled(fn)(ROWS)
    assert caught.value.line == fn.__code__.co_firstlineno + 2


@pytest.mark.parametrize("gradients", [False, True], ids=["results", "gradients"])
@pytest.mark.parametrize("place", [-3, 0, 1, 2, 7])
def test_switch_clamps_its_index(place: int, gradients: bool) -> None:
    def fn(i: Tensor, x: Tensor) -> Any:
        return switch(i, (lambda x: x.sin(), lambda x: x * x, lambda x: x - 1), (x,))

    agree(compiled(fn), fn, (torch.tensor(place), ROWS), "cpu", gradients)


# --- numbers, and loops whose gradients are asked for ----------------------------------------------------------------


def counted(x: Tensor) -> Any:
    return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2 + i), (0, x))


def counted_by_data(x: Tensor) -> Any:
    i, x = while_loop(lambda i, x: x.sum() < 1000, lambda i, x: (i + 1, x * 2 + 1), (0, x))
    return x * i


def rows_in_turn(x: Tensor) -> Any:
    def step(i: int, x: Tensor, total: Tensor) -> Any:
        return i + 2, x.clone(), total + x.narrow(0, i, 1).squeeze(0) * (i + 1)

    return while_loop(lambda i, x, total: i < x.shape[0], step, (0, x, torch.zeros(3)))


def chosen_number(x: Tensor) -> Any:
    y, n = torch.cond(x.sum() > 0, lambda x: (x * 2, 3), lambda x: (x - 1, 4), (x,))
    return y + n, n


@pytest.mark.parametrize("fn", [counted, counted_by_data, chosen_number])
@pytest.mark.parametrize("shift", [-1, 3])
def test_numbers_that_a_loop_or_a_branch_gives(fn: Fn, shift: int) -> None:
    x = ROWS + shift if fn is not counted_by_data else ROWS.abs()
    torch.testing.assert_close(compiled(fn)(x), fn(x))


def test_a_loop_takes_rows_by_its_own_counter() -> None:
    fn = compiled(rows_in_turn)
    torch.testing.assert_close(fn(ROWS), (6, ROWS, ROWS[0] + 3 * ROWS[2] + 5 * ROWS[4]))


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("turns", [1, 4])
def test_gradients_of_a_loop(turns: int, device: str) -> None:
    def looped(x: Tensor, w: Tensor, turns: Tensor) -> Any:
        return while_loop(lambda i, x: i < turns, lambda i, x: (i + 1, (x @ w).sin()), (torch.zeros_like(turns), x))[1]

    def unrolled(x: Tensor, w: Tensor, turns: Tensor) -> Any:
        for _ in range(int(turns)):
            x = (x @ w).sin()
        return x

    agree(compiled(looped), unrolled, (ROWS, W, torch.tensor(turns)), device, True)


def test_a_loop_without_a_turn_keeps_what_it_was_given() -> None:
    def looped(x: Tensor) -> Any:
        start = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, x: i > 5, lambda i, x: (i + 1, x * 2), (start, x))[1]

    x = ROWS.clone().requires_grad_()
    torch.testing.assert_close(compiled(looped)(x), x)


# --- random numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("rows", [1.0, -1.0], ids=["true", "false"])
def test_a_branch_draws_random_numbers(rows: float, device: str) -> None:
    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        first = torch.cond(x.sum() > 0, lambda x: functional.dropout(x, 0.5), lambda x: torch.rand_like(x), (x,))
        return first, torch.rand_like(x)

    ours = compiled(fn)
    x = torch.full((64, 64), rows, device=device)
    (a, b), (c, d) = ours(x), ours(x)
    assert abs(float(a.mean()) - (1 if rows > 0 else 0.5)) < 0.1
    assert not any(torch.equal(s, t) for s, t in itertools.combinations((a, b, c, d), 2))


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_each_turn_of_a_loop_draws_anew(device: str) -> None:
    def scanned(x: Tensor) -> Any:
        def step(c: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return c + 1, torch.rand_like(x)

        return scan(step, torch.zeros((), device=x.device), x)[1]

    def looped(x: Tensor) -> Any:
        def step(i: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, x + torch.rand_like(x)

        return while_loop(lambda i, x: i < 100, step, (torch.zeros((), device=x.device), x))[1]

    drawn = compiled(scanned)(torch.zeros(50, 40, device=device))
    assert len(drawn.unique()) > 1990
    sums = compiled(looped)(torch.zeros(400, device=device))
    assert abs(float(sums.mean()) - 50) < 1
    assert abs(float(sums.std()) - math.sqrt(100 / 12)) < 0.5


# --- flex_attention --------------------------------------------------------------------------------------------------


def attention(
    q: Tensor, k: Tensor, v: Tensor, score_mod: Fn | None = None, mask: Fn | None = None, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """What flex_attention stands for, and the logarithms of the sums."""
    groups = q.shape[1] // k.shape[1]
    k, v = (t.expand(len(q), -1, -1, -1).repeat_interleave(groups, 1) for t in (k, v))
    scores = q @ k.mT * (scale or q.shape[-1] ** -0.5)
    grids = torch.meshgrid(*(torch.arange(n, device=q.device) for n in scores.shape), indexing="ij")
    scores = score_mod(scores, *grids) if score_mod else scores
    scores = scores.masked_fill(~mask(*grids), -math.inf) if mask else scores
    empty = (scores == -math.inf).all(-1)
    logs = scores.masked_fill(empty[..., None], 0).logsumexp(-1).masked_fill(empty, -math.inf)
    weights = (scores - logs.masked_fill(empty, 0)[..., None]).exp()
    return weights @ v, logs


def flex(q: Tensor, k: Tensor, v: Tensor, score_mod: Fn | None = None, mask: Fn | None = None, **how: Any) -> Any:
    block_mask = create_block_mask(mask, len(q), None, q.shape[2], k.shape[2], device=q.device) if mask else None
    gqa = q.shape[1] != k.shape[1]
    out, aux = flex_attention(q, k, v, score_mod, block_mask, enable_gqa=gqa, return_aux=AuxRequest(lse=True), **how)
    return out, aux.lse


def later(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i > j  # leaves the first query with nothing to attend to


def causal(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


def heads(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype)


Q, K, V = heads(2, 4, 12, 8), heads(2, 4, 12, 8).cos(), heads(2, 4, 12, 8).sin()
# Each is given the attention to use, and what it works on.
FLEX: dict[str, tuple[Fn, tuple[Tensor, ...]]] = {
    "plain": (lambda f, q, k, v: f(q, k, v), (Q, K, V)),
    "scale": (lambda f, q, k, v: f(q, k, v, scale=0.3), (Q, K, V)),
    "places": (lambda f, q, k, v: f(q, k, v, lambda s, b, h, i, j: s + (i - j) * 0.1 * (h + 1) - b), (Q, K, V)),
    "captured vector": (
        lambda f, q, k, v, a: f(q, k, v, lambda s, b, h, i, j: s + a[h] * (i - j)),
        (Q, K, V, V[0, :, 0, 0]),
    ),
    "captured matrix": (
        lambda f, q, k, v, a: f(q, k, v, lambda s, b, h, i, j: s * a[b, i, j].tanh()),
        (Q, K, V, heads(2, 12, 12)),
    ),
    "captured scalar": (lambda f, q, k, v, a: f(q, k, v, lambda s, b, h, i, j: s * a), (Q, K, V, torch.tensor(1.5))),
    "softcap": (lambda f, q, k, v: f(q, k, v, lambda s, b, h, i, j: 2 * torch.tanh(s / 2)), (Q, K, V)),
    "causal": (lambda f, q, k, v: f(q, k, v, None, causal), (Q, K, V)),
    "empty row": (lambda f, q, k, v: f(q, k, v, None, later), (Q, K, V)),
    "documents": (
        lambda f, q, k, v, d: f(q, k, v, None, lambda b, h, i, j: (d[i] == d[j]) & (i >= j)),
        (Q, K, V, torch.arange(12) // 5),
    ),
    "grouped": (lambda f, q, k, v: f(q, k, v, lambda s, b, h, i, j: s + h, causal), (Q, K[:, :2], V[:, :2])),
    "other lengths": (lambda f, q, k, v: f(q, k, v, None, causal), (Q[:, :, :5], K, V[..., :3])),
    "f64": (
        lambda f, q, k, v: f(q, k, v, lambda s, b, h, i, j: s + (i - j))[0],
        tuple(heads(2, 4, 12, 8, dtype=torch.float64) for _ in range(3)),
    ),
}


@pytest.mark.parametrize("gradients", [False, True], ids=["results", "gradients"])
@pytest.mark.parametrize("case, args", FLEX.values(), ids=FLEX)
def test_flex_attention_on_the_device(
    case: Fn, args: tuple[Tensor, ...], gradients: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHTPU_FALLBACK", "error")
    agree(compiled(lambda *args: case(flex, *args)), lambda *args: case(attention, *args), args, "tpu", gradients)
    torch._dynamo.reset()
    agree(lambda *args: case(flex, *args), lambda *args: case(attention, *args), args, "tpu", gradients)


def test_flex_attention_is_let_in_also_where_somebody_has_asked_for_it_before() -> None:
    script = """
import importlib.util, torch
for _ in range(2):
    assert importlib.util.find_spec("torch.nn.attention.flex_attention")
from torch.nn.attention.flex_attention import flex_attention
q = torch.randn(1, 2, 16, 8, device="tpu")
print(flex_attention(q, q, q).device.type)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200)
    assert ended.stdout == "tpu\n", ended.stderr


@pytest.mark.parametrize("name", ["places", "captured matrix", "causal", "empty row", "grouped"])
def test_flex_attention_on_cpu_tensors(name: str) -> None:
    case, args = FLEX[name]
    agree(compiled(lambda *args: case(flex, *args)), lambda *args: case(attention, *args), args, "cpu", False)


def test_flex_attention_under_lengths_that_change() -> None:
    def fn(f: Fn, q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Any:
        return f(q, k, v, lambda s, b, h, i, j: s + bias[h, i, j], causal)

    graphs: list[Any] = []
    ours = compiled(lambda *args: fn(flex, *args), dynamic=True)
    for length in (12, 7, 9):
        args = (*(t[:, :, :length] for t in (Q, K, V)), heads(4, 20, 20))
        agree(ours, lambda *args: fn(attention, *args), args, "tpu", True)
        graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert len(set(graphs)) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_flex_attention_in_16_bits(dtype: torch.dtype) -> None:
    args = [t.to(dtype) for t in (Q, K, V)]
    got = compiled(lambda *args: flex(*args, None, causal)[0])(*args)
    want = attention(*(t.float() for t in args), None, causal)[0]
    assert got.dtype == dtype
    # Against f32: one rounding of the arguments to the scores, and one of the result.
    torch.testing.assert_close(got.float(), want, rtol=torch.finfo(dtype).eps * 2, atol=torch.finfo(dtype).eps)


# --- ops that PyTorch writes in Python --------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_cross_entropy_in_chunks(reduction: str) -> None:
    torch.manual_seed(0)
    x, weight = (torch.randn(n, 5, requires_grad=True) for n in (6, 7))
    target = torch.randint(7, (6,))
    options = LinearCrossEntropyOptions(batch_chunk_size=2, allow_retain_graph=True)

    def loss(x: Tensor, weight: Tensor) -> Tensor:
        return functional.linear_cross_entropy(x, weight, target, reduction=reduction, options=options).sum()

    torch._dynamo.reset()
    got = torch.compile(loss, backend="torchtpu", fullgraph=True, options={"fallback": "error"})(x, weight)
    wanted = loss(x, weight)
    torch.testing.assert_close(got, wanted)
    gradients = [torch.autograd.grad(result, (x, weight)) for result in (got, wanted)]
    torch.testing.assert_close(*gradients)


def test_flex_attention_in_a_branch_and_in_a_loop() -> None:
    def attend(x: Tensor) -> Tensor:
        return flex(x, x, x, lambda s, b, h, i, j: s + (i - j))[0]

    def fn(f: Fn, xs: Tensor) -> Any:
        def step(c: Tensor, x: Tensor) -> Any:
            x = torch.cond(c.sum() > 0, lambda c, x: f(x) + c, lambda c, x: f(x) * 2, (c, x))
            return c + x, x.mean()

        return scan(step, torch.zeros_like(xs[0]), xs)

    def plain(x: Tensor) -> Tensor:
        return attention(x, x, x, lambda s, b, h, i, j: s + (i - j))[0]

    agree(
        compiled(lambda xs: fn(attend, xs)), lambda xs: fn(plain, xs), (torch.stack([Q, K, V]).double(),), "tpu", True
    )


CASTING: dict[str, tuple[Fn, Fn]] = {
    "cond": (
        lambda x: torch.cond(x.sum() > 1e6, lambda x: (x @ x.mT).sin(), lambda x: x @ x.mT * 2, (x,)),
        lambda x: x @ x.mT * 2,
    ),
    "map": (lambda x: map_rows(lambda row: row @ row.mT, x), lambda x: x @ x.mT),
    "flex_attention": (lambda x: flex_attention(x, x, x), lambda x: attention(x, x, x)[0]),
}


@pytest.mark.parametrize("compiling", [True, False], ids=["compiled", "eager"])
@pytest.mark.parametrize("fn, exact", CASTING.values(), ids=CASTING)
def test_autocast_reaches_into_higher_order_ops(fn: Fn, exact: Fn, compiling: bool) -> None:
    def cast(x: Tensor) -> Any:
        with torch.autocast("tpu", dtype=torch.bfloat16):
            return fn(x)

    x, plain = Q.to("tpu").requires_grad_(), Q.clone().requires_grad_()
    got, want = (compiled(cast) if compiling else cast)(x), exact(plain)
    assert got.dtype == torch.bfloat16
    # bfloat16 keeps 8 bits: a sum errs by a few parts in 256 of its terms, here up to 59, and 35 in gradients.
    torch.testing.assert_close(got.cpu().float(), want, rtol=2e-2, atol=5e-2)
    got.float().sum().backward()
    want.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), plain.grad, rtol=5e-2, atol=0.2)
