"""``torch.compile(backend="torchtpu")`` as a user meets it: what it must get right besides the numbers of models."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torchtpu
from torch import Tensor, nn


def compiled(fn, **kwargs):
    return torch.compile(fn, backend="torchtpu", **kwargs)


def check(fn, *args, **kwargs):
    """Compiled and eager results agree, in structure too."""
    torch.testing.assert_close(compiled(fn, **kwargs)(*args), fn(*args))


def native_program(trace: bytes):
    return torchtpu._native.Program(trace, plugin=torchtpu._plugins.current())


def compiles() -> int:
    return torchtpu.stats()["compiles"] + torchtpu.stats()["cache_hits"] + torchtpu.stats()["disk_hits"]


# Names and options.


def test_both_names_are_known_without_an_import():
    code = """
        import torch
        assert {"torchtpu", "tpu"} <= set(torch._dynamo.list_backends(exclude_tags=()))
        print(torch.compile(lambda x: x + 1, backend="tpu")(torch.ones(2)).tolist())
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert run.stdout == "[2.0, 2.0]\n", run.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fast": True}, "unknown option 'fast'"),
        ({"fallback": "gpu"}, "'fallback' is 'gpu'"),
        ({"numerics": "sloppy"}, "'numerics' is 'sloppy'"),
        ({"fallback": 0}, "'fallback' is 0; it must be one of 'cpu', 'error'"),
        ({"optimize": "yes"}, "'optimize' is 'yes'; it must be one of True, False"),
        ({"optimize": 0}, "'optimize' is 0; it must be one of True, False"),
        ({"plugin": "/no/such/plugin.so"}, "neither 'cpu' nor 'tpu' nor a file"),
        ({"plugin": 5}, "'plugin' is 5; it must be 'cpu', 'tpu', a path or None"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(Exception, match=message):
        compiled(lambda x: x + 1, options=options)(torch.ones(2))


# Structure of arguments and results.


def test_nested_outputs_and_non_tensor_inputs():
    def fn(batch, scale, name, flag=True):
        x = batch["x"] * scale
        return {"a": [x, (x + 1, None)], "n": x.shape[0], name: flag}

    batch = {"x": torch.randn(3, 2)}
    got, want = compiled(fn)(batch, 2.5, "key"), fn(batch, 2.5, "key")
    torch.testing.assert_close(got, want)


def test_outputs_that_alias_inputs_and_each_other():
    def fn(x):
        y = x * 2
        return x, x.view(-1), y, y.t(), x

    x = torch.randn(2, 3)
    a, b, y, yt, c = compiled(fn)(x)
    assert a is x and c is x
    assert b.data_ptr() == x.data_ptr()
    x.add_(1)
    torch.testing.assert_close(b, x.view(-1))
    torch.testing.assert_close(yt, y.t())


def test_results_have_the_strides_of_eager():
    def fn(x):
        return x.t() + 1, x.to(memory_format=torch.channels_last) * 2 if x.dim() == 4 else x.t().contiguous()

    for x in (torch.randn(3, 4), torch.randn(5, 2).t()):
        for got, want in zip(compiled(fn)(x), fn(x)):
            assert got.stride() == want.stride()
    image = torch.randn(2, 3, 4, 5)

    def last(x):
        return x.contiguous(memory_format=torch.channels_last) * 2

    assert compiled(last)(image).stride() == last(image).stride()
    torch.testing.assert_close(compiled(last)(image), last(image))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), ()])
def test_zero_size_and_zero_dim(shape):
    check(lambda x: (x * 2 + 1, x.sum(), x.reshape(-1)), torch.randn(shape))


def test_non_contiguous_and_expanded_inputs():
    base = torch.randn(6, 8)
    for x in (base.t(), base[::2, 1::3], base[0].expand(4, 8), base[:, None, 3:]):
        check(lambda x: x * 2 - x.sum(), x)


def test_unaligned_inputs():
    base = torch.randn(1001)
    x = base[1:]
    assert x.data_ptr() % 64 != 0
    check(lambda x: x.sin() + 1, x)


def test_conjugated_and_negated_inputs():
    z = torch.randn(4, dtype=torch.complex64)
    check(lambda x: x * 2, z.conj())
    check(lambda x: x * 2, z.conj().imag)


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8,
     torch.uint8, torch.bool, torch.complex64, torch.complex128],
)  # fmt: skip
def test_every_dtype_goes_in_and_out(dtype):
    x = torch.tensor([0, 1, 1, 0, 1]).to(dtype)
    check(lambda x: (x.reshape(5, 1), torch.cat([x, x]), x == x), x)


def test_nan_and_infinity():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1.0])
    got, want = (
        compiled(lambda x: (x + 1, x.relu(), x.max(), x > 0, 1 / x))(x),
        (x + 1, x.relu(), x.max(), x > 0, 1 / x),
    )
    torch.testing.assert_close(got, want, equal_nan=True)


# Coherence: the user's memory is the truth.


def test_every_kind_of_write_is_seen():
    weight = nn.Parameter(torch.ones(16))
    fn = compiled(lambda x: x * weight)
    x = torch.arange(16.0)
    with torch.no_grad():
        torch.testing.assert_close(fn(x), x)
        weight.mul_(2)
        torch.testing.assert_close(fn(x), x * 2)
        weight.data = torch.full((16,), 3.0)
        torch.testing.assert_close(fn(x), x * 3)
        weight.detach().numpy()[:] = 4
        torch.testing.assert_close(fn(x), x * 4)
        weight.data.fill_(5)
        torch.testing.assert_close(fn(x), x * 5)
    array = np.zeros(16, dtype=np.float32)
    shared = torch.from_numpy(array)
    for i in range(3):
        array[:] = i
        torch.testing.assert_close(fn(shared), torch.full((16,), 5.0 * i))


def test_results_survive_their_inputs_and_later_calls():
    fn = compiled(lambda x: x + 1)
    kept = [fn(torch.full((64,), float(i))) for i in range(20)]
    for i, result in enumerate(kept):
        torch.testing.assert_close(result, torch.full((64,), i + 1.0))


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.t(), lambda x: x[1:, ::2], lambda x: x[0]])
def test_mutated_inputs(view):
    def fn(x):
        x.mul_(2)
        x += 1
        return x.sum()

    base, other = torch.randn(4, 6), None
    other = base.clone()
    torch.testing.assert_close(compiled(fn)(view(base)), fn(view(other)))
    torch.testing.assert_close(base, other)


def test_a_mutation_is_seen_by_the_next_call_and_by_views():
    fn = compiled(lambda x: x.add_(1))
    x = torch.zeros(64)
    alias = x.view(8, 8)
    for i in range(1, 4):
        fn(x)
        assert alias.eq(i).all()


def test_large_mutations_are_donated_in_place():
    fn = compiled(lambda x: x.mul_(2))
    x = torch.ones(1 << 16)
    address = x.data_ptr()
    fn(x)
    assert x.data_ptr() == address and x.eq(2).all()


def test_batch_norm_statistics():
    ours, theirs = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    run = compiled(ours)
    for _ in range(3):
        x = torch.randn(4, 3, 5, 5)
        torch.testing.assert_close(run(x), theirs(x))
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


# Modes.


def test_statistics_of_data_far_from_zero_are_as_exact_as_eager():
    def f(x):
        return torch.nn.functional.batch_norm(x, None, None, training=True)

    torch.manual_seed(0)
    x = torch.randn(4, 16, 16, 16) + 5
    true = f(x.double())
    ours, eager = ((run(x) - true).square().mean().sqrt().item() for run in (compiled(f), f))
    assert ours < 2 * eager


def test_no_grad_and_inference_mode_share_a_function():
    model = nn.Linear(4, 3)
    run = compiled(model)
    x = torch.randn(2, 4)
    want = model(x)
    with torch.no_grad():
        torch.testing.assert_close(run(x), want)
    with torch.inference_mode():
        got = run(x)
        assert got.is_inference()
        torch.testing.assert_close(got, want)
    torch.testing.assert_close(run(x), want)


def test_autocast():
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8))
    x = torch.randn(3, 8)

    def fn(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    got, want = compiled(fn)(x), fn(x)
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)  # bf16 sums in another order


def test_graph_break():
    def fn(x):
        x = x.sin()
        torch._dynamo.graph_break()
        return x.cos()

    check(fn, torch.randn(3))


def test_double_backward_of_separate_graphs():
    x = torch.randn(5, requires_grad=True)
    fn = compiled(lambda x: (x.sin() * x).sum())
    (grad,) = torch.autograd.grad(fn(x), x)
    torch.testing.assert_close(grad, x.cos() * x + x.sin())


# Shapes and numbers.


@pytest.mark.parametrize("dynamic", [True, False, None])
def test_dynamic_shapes(dynamic):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def fn(x):
        return model(x).softmax(-1)[: x.shape[0] - 1] * x.shape[0]

    run = compiled(fn, dynamic=dynamic)
    for n in (3, 5, 9, 5):
        x = torch.randn(n, 4)
        torch.testing.assert_close(run(x), fn(x))


def test_dynamic_training():
    model = nn.Linear(4, 3)
    run = compiled(model, dynamic=True)
    for n in (2, 6, 3):
        x = torch.randn(n, 4)
        run(x).pow(2).sum().backward()
        got = model.weight.grad.clone()
        model.zero_grad()
        model(x).pow(2).sum().backward()
        torch.testing.assert_close(got, model.weight.grad)
        model.zero_grad()


def test_a_changing_number_does_not_recompile():
    fn = compiled(lambda x, k: x * k + k, dynamic=True)
    x = torch.randn(4)
    fn(x, 7)
    before = compiles()
    for k in range(8, 20):
        torch.testing.assert_close(fn(x, k), x * k + k)
    assert compiles() == before


def test_a_known_shape_does_not_recompile():
    fn = compiled(lambda x: x.relu().sum(), dynamic=True)
    for n in (3, 4):
        fn(torch.randn(n))
    before = compiles()
    for n in (3, 4, 3):
        fn(torch.randn(n))
    assert compiles() == before


# Random numbers.


def test_dropout_follows_the_seed():
    fn = compiled(lambda x: nn.functional.dropout(x, 0.3))
    x = torch.ones(10_000)
    torch.manual_seed(1)
    first, second = fn(x), fn(x)
    torch.manual_seed(1)
    torch.testing.assert_close(fn(x), first)
    assert not first.equal(second)
    kept = first != 0
    assert abs(kept.float().mean().item() - 0.7) < 0.02
    torch.testing.assert_close(first[kept], torch.full_like(first[kept], 1 / 0.7))


def test_two_draws_in_one_program_differ():
    a, b = compiled(lambda x: (torch.rand_like(x), torch.rand_like(x)))(torch.ones(1000))
    assert not a.equal(b)
    assert a.min() >= 0 and a.max() < 1 and abs(a.mean() - 0.5) < 0.05


def test_dropout_gradient_uses_the_same_mask():
    x = torch.ones(1000, requires_grad=True)
    y = compiled(lambda x: nn.functional.dropout(x, 0.5))(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())


# Fallbacks and errors.


@torch.library.custom_op("backend::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x**3


cube.register_fake(torch.empty_like)


def unlowered(x):
    return cube(x.relu()) * 2


def test_an_op_without_a_lowering_runs_on_the_host_and_says_so():
    before = sum(torchtpu.stats()["fallbacks"].get("backend.cube.default", {}).values())
    x = torch.randn(8)
    fn = compiled(unlowered, fullgraph=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.testing.assert_close(fn(x), unlowered(x))
        fn(x)
    lines = torchtpu.stats()["fallbacks"]["backend.cube.default"]
    assert sum(lines.values()) == before + 2
    assert all("test_backend.py:" in line for line in lines)
    said = [str(w.message) for w in caught if "cube" in str(w.message)]
    assert len(said) == 1 and "test_backend.py:" in said[0]


def test_fallback_can_be_forbidden():
    fn = compiled(unlowered, fullgraph=True, options={"fallback": "error"})
    with pytest.raises(torchtpu.UnsupportedOp, match=r"(?s)cube.*test_backend\.py:\d+") as raised:
        fn(torch.randn(8))
    assert raised.value.op == "backend.cube.default"
    assert raised.value.file.endswith("test_backend.py")


def test_a_kernel_argument_of_the_wrong_kind_is_an_error():
    program = native_program(torchtpu.capture(lambda x: x + 1, torch.ones(3)).to_bytes())
    for bad in ([], [torch.ones(4)], [torch.ones(3, dtype=torch.float64)], [3], ["x"], [torch.ones(3, device="meta")]):
        with pytest.raises((torchtpu.ExecutionError, TypeError, BufferError)):
            program(bad)
    torch.testing.assert_close(program([torch.ones(3)]), [torch.full((3,), 2.0)])


# Looking inside.


def test_capture_save_and_lower(tmp_path):
    model = nn.Linear(4, 2)
    trace = torchtpu.capture(model, torch.randn(3, 4))
    assert trace.num_nodes > 0 and trace.backward is not None
    trace.save(tmp_path / "trace.json")
    assert (tmp_path / "trace.backward.json").exists()
    for stage, sign in (("core", "dot_general"), ("stablehlo", "stablehlo.dot_general"), ("hlo", "HloModule")):
        assert sign in torchtpu.lower(trace, stage=stage)
    with pytest.raises(torchtpu.Error, match="no stage `llvm`"):
        torchtpu.lower(trace, stage="llvm")


def test_lowering_takes_sizes_of_dynamic_dimensions():
    x = torch.randn(4, 8)
    torch._dynamo.mark_dynamic(x, 0)
    model = nn.Linear(8, 2)
    with pytest.raises(torchtpu.CompileError, match=r"has no value") as raised:
        torchtpu.lower(model, x)
    symbol = re.search(r'give it one: `dims=\{"(\w+)": 8\}`', str(raised.value)).group(1)
    assert "tensor<6x8xf32>" in torchtpu.lower(model, x, dims={symbol: 6})


FACTORISED = {
    "inv": torch.linalg.inv,
    "solve": lambda x: torch.linalg.solve(x, x),
    "cholesky": torch.linalg.cholesky,
    "MultivariateNormal": lambda x: torch.distributions.MultivariateNormal(x[0], x).log_prob(x[1]),
}


@pytest.mark.parametrize("name", FACTORISED)
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_captured_factorisations_go_without_their_checks(name, training, tmp_path):
    x = 2 * torch.eye(4)
    trace = torchtpu.capture(FACTORISED[name], x.requires_grad_(training))
    assert len(trace.program["graph_module"]["graph"]["inputs"]) == 1, "no token"
    assert "stablehlo" in torchtpu.lower(trace)
    assert (trace.backward is not None) == training
    assert not training or "stablehlo" in torchtpu.lower(trace.backward)
    trace.save(tmp_path / "trace.json")
    tputc = str(Path(sys.executable).with_name("tputc"))
    run = subprocess.run([tputc, "run", str(tmp_path / "trace.json"), "--random", "0"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_what_a_captured_function_prints_is_not_in_its_trace():
    def fn(x):
        torch._higher_order_ops.print("{}", x)
        return x * 2

    (node,) = torchtpu.capture(fn, torch.ones(3)).program["graph_module"]["graph"]["nodes"]
    assert node["target"] == "torch.ops.aten.mul.Tensor"


def test_lowering_is_deterministic():
    model, x = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)), torch.randn(3, 4)
    assert torchtpu.lower(model, x) == torchtpu.lower(model, x)


CACHED = """
import sys, torch, torchtpu
torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
with torch.no_grad():
    torch.compile(model, backend="torchtpu")(torch.ones(2, 8))
stats = torchtpu.stats()
print(stats["compiles"], stats["disk_hits"])
"""


def run_cached(folder: Path, **more: str) -> str:
    env = {**os.environ, "TORCHTPU_CACHE_DIR": str(folder), **more}
    run = subprocess.run([sys.executable, "-c", CACHED], capture_output=True, text=True, env=env)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_the_disk_cache_serves_a_second_process_and_survives_damage(tmp_path):
    folder = tmp_path / "cache"
    assert run_cached(folder) == "1 0"
    assert run_cached(folder) == "0 1"
    (entry,) = folder.glob("*.exe")
    entry.write_bytes(entry.read_bytes()[:-100])
    assert run_cached(folder) == "1 0"
    assert run_cached(folder) == "0 1"


def test_the_disk_cache_tells_the_compilers_flags_apart(tmp_path: Path) -> None:
    folder, flags = tmp_path / "cache", "--xla_cpu_enable_concurrency_optimized_scheduler={}"
    assert run_cached(folder, XLA_FLAGS=flags.format("true")) == "1 0"
    assert run_cached(folder, XLA_FLAGS=flags.format("false")) == "1 0"
    assert run_cached(folder, XLA_FLAGS=flags.format("true")) == "0 1"
    file = tmp_path / "flags"
    file.write_text(flags.format("false"))
    assert run_cached(folder, XLA_FLAGS=str(file)) == "0 1"
    file.write_text("--xla_cpu_parallel_codegen_split_count=1")
    assert run_cached(folder, XLA_FLAGS=str(file)) == "1 0"


def test_dumps_can_be_replayed(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHTPU_DUMP", str(tmp_path))
    compiled(lambda x: x.exp() + 1)(torch.ones(3))
    (folder,) = tmp_path.iterdir()
    names = {path.name for path in folder.iterdir()}
    assert names == {"trace.json", "core.txt", "fused.txt", "stablehlo.mlir", "hlo.txt"}
    program = native_program((folder / "trace.json").read_bytes())
    torch.testing.assert_close(program([torch.ones(3)]), [torch.ones(3).exp() + 1])


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_as_strided_reads_the_storage_around_a_view(device: str, dynamic: bool | None) -> None:
    def parts(x: torch.Tensor, n: int) -> tuple[torch.Tensor, ...]:
        return torch.as_strided(x, (n, 3), (1, 4), 2) + 1, torch.as_strided(x, (2, n), (n, 1)) * 2, x.sum()

    torch._dynamo.reset()
    step = torch.compile(parts, backend="torchtpu", fullgraph=True, dynamic=dynamic, options={"fallback": "error"})
    for start, n in ((8, 3), (3, 2), (0, 3), (3, 4)):
        base = torch.arange(20.0).to(device)
        theirs = base.cpu()[start : start + 4]
        torch.testing.assert_close(step(base[start : start + 4], n), parts(theirs, n), check_device=False)


def test_as_strided_at_places_that_the_graph_computes() -> None:
    torch._dynamo.reset()
    step = torch.compile(lambda x, n: torch.as_strided(x, (n * n,), (1,)) + 1, backend="torchtpu", dynamic=True)
    x = torch.arange(20.0)[5:]
    with pytest.raises(torchtpu.UnsupportedOp, match="places that the graph computes") as caught:
        step(x, 3)
    assert caught.value.file == __file__ and f"{__file__}:{caught.value.line}" in str(caught.value)


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y[1:].copy_(y[:3].clone()),
        lambda y: y[:3].copy_(y[1:].clone()),
        lambda y: y[:, 1:3].copy_(y[:, :2].clone() + 1),
        lambda y: y[:, 2:5].copy_(y[:, 2:5].flip(1)),
        lambda y: y[1:3, 2:5].copy_(y[2:4, 1:4].clone()),
        lambda y: y[:2].copy_(y.view(24)[5:17].view(2, 6).clone()),
        lambda y: y[1].copy_(y[0] * 2 + y[2]),
        lambda y: y[0].copy_(y.sum(0)),
        lambda y: [y[i].add_(y[i - 1]) for i in range(1, 4)],
        lambda y: y[1:3].mul_(2),
    ],
    ids=["down", "up", "right", "flip", "block", "reshaped", "rows", "sum", "in turn", "in place"],
)
@pytest.mark.parametrize("device", ["cpu", "tpu", "eager"])
def test_a_write_of_what_is_computed_from_other_elements(write: Callable[[torch.Tensor], object], device: str) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.clone()
        write(y)
        return y, y.view(24)[2:8], y + 1, y.t()

    x = torch.arange(24.0).view(4, 6)
    torch._dynamo.reset()
    step = program if device == "eager" else torch.compile(program, backend="torchtpu", fullgraph=True)
    got = step(x.to("cpu" if device == "cpu" else "tpu"))
    torch.testing.assert_close(got, program(x), check_device=False)


def test_a_graph_that_hands_on_its_input_is_counted_apart() -> None:
    torch._dynamo.reset()
    before = torchtpu.stats()
    x = torch.ones(3)
    assert torch.equal(torch.compile(lambda x: x.contiguous(), backend="torchtpu", fullgraph=True)(x), x)
    after = torchtpu.stats()
    assert after["shared"] == before["shared"] + 1
    assert after["executions"] == before["executions"] + 1
    torch.compile(torch.neg, backend="torchtpu", fullgraph=True)(x)
    assert torchtpu.stats()["shared"] == after["shared"]


def test_a_product_by_truth_values_keeps_nan_and_signs() -> None:
    x = torch.tensor([[math.nan, math.inf, -1.0], [2.0, -0.0, 0.0]])
    mask = torch.zeros_like(x, dtype=torch.bool)
    for program in (
        lambda x, mask: x * mask,
        lambda x, mask: mask.to(x.dtype) * x,
        lambda x, mask: x * mask.to(torch.int32).float(),
        lambda x, mask: x * (x > 5),
    ):
        torch._dynamo.reset()
        expected = program(x, mask)
        for got in (
            torch.compile(program, backend="torchtpu")(x, mask),
            torch.compile(program, backend="torchtpu", options={"optimize": False})(x, mask),
            program(x.to("tpu"), mask.to("tpu")).cpu(),
        ):
            torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
            assert torch.equal(got.signbit() | got.isnan(), expected.signbit() | expected.isnan())


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.float16])
def test_floor_division_of_a_0d_tensor_and_a_number(dtype: torch.dtype) -> None:
    for program in (lambda x: x // 2, lambda x: 2 // x, lambda x: torch.floor_divide(x, 2)):
        for x in (torch.tensor(7, dtype=dtype), torch.tensor([7, -7], dtype=dtype)):
            torch._dynamo.reset()
            got = torch.compile(program, backend="torchtpu")(x)
            torch.testing.assert_close(got, program(x))


def test_clamping_integers_by_numbers_they_cannot_be() -> None:
    for dtype, bounds in ((torch.uint8, [(-1, 1), (None, 300), (-300, 5)]), (torch.int32, [(-(2**40), 1)])):
        x = torch.tensor([0, 6, 100], dtype=dtype)
        for low, high in bounds:
            torch._dynamo.reset()
            expected = x.clamp(low, high)
            got = torch.compile(lambda x, low=low, high=high: x.clamp(low, high), backend="torchtpu")(x)
            torch.testing.assert_close(got, expected)
            torch.testing.assert_close(x.to("tpu").clamp(low, high).cpu(), expected)
    with pytest.raises(RuntimeError, match="Clamp min value 300 is outside the representable range of Byte"):
        torch.tensor([1], dtype=torch.uint8, device="tpu").clamp(300).cpu()


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers_wrap(dtype: torch.dtype) -> None:
    """Squares and absolute values are negative where they do not fit, which XLA does not expect of them."""
    least = torch.iinfo(dtype).min
    x = torch.tensor([least, least // 2 - 1, math.isqrt(-least) + 1, 3], dtype=dtype)
    check(lambda x: (x * x < 0, (x * x) // 4, x.square() < 0, x.abs() < 0, x.abs() // 2, x.abs().clamp(min=0)), x)


def test_numbers_in_code_are_exact() -> None:
    """Every float64 as it is written, the greatest of each type among them, and what a mask is filled with."""
    floats = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
    random = np.random.default_rng(0)
    numbers = [float(n) for n in random.standard_normal(100) * 10.0 ** random.integers(-300, 300, 100)]
    numbers += [
        sign * getattr(torch.finfo(t), end) for t in floats for end in ("max", "tiny", "eps") for sign in (1, -1)
    ]
    zero = torch.zeros((), dtype=torch.float64)
    added = compiled(lambda x: torch.stack([x + n for n in numbers]))(zero)
    assert added.tolist() == numbers

    for dtype in floats:
        least = torch.finfo(dtype).min
        filled = compiled(lambda x, least=least: x.masked_fill(x > 0, least))(torch.ones(2, dtype=dtype))
        assert filled.tolist() == [least, least]


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_the_error_function_ends_at_one(device: str) -> None:
    x = torch.tensor([math.inf, -math.inf, 3.92, -4.5, 100, -1000, 3.9, 0.5, -0.0, math.nan], device=device)

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.erf(x), torch.nn.functional.gelu(x[2:])  # PyTorch's GELU of infinity is NaN

    compiled = torch.compile(program, backend="torchtpu")
    for erf, gelu in [compiled(x)] + [program(x)] * (device == "tpu"):
        torch.testing.assert_close((erf.cpu(), gelu.cpu()), program(x.cpu()), equal_nan=True)
        assert erf[:6].tolist() == [1, -1, 1, -1, 1, -1]
        assert gelu[2:4].tolist() == [100, 0]


@pytest.mark.parametrize("exponent", [True, False])
def test_a_power_of_truth_values(exponent: bool) -> None:
    x = torch.tensor([True, False, True])
    compiled = torch.compile(lambda x: x**exponent + 1, backend="torchtpu")
    assert compiled(x).tolist() == (x**exponent + 1).tolist()
    result = x.to("tpu") ** exponent
    assert result.dtype == torch.bool and result.tolist() == (x**exponent).tolist()


def test_a_spectrum_of_several_signals_comes_back() -> None:
    def there_and_back(x: Tensor) -> Tensor:
        window = torch.hann_window(8)
        return torch.istft(torch.stft(x, 8, 4, window=window, return_complex=True), 8, 4, window=window, length=40)

    x = torch.randn(2, 40)
    torch.testing.assert_close(torch.compile(there_and_back, backend="torchtpu")(x), x)


REFUSED: dict[str, tuple[Callable[[Tensor], object], Tensor]] = {
    "no elements": (lambda x: x.max(0), torch.empty(0, 3)),
    "an element type": (lambda x: x.softmax(0), torch.tensor([1, 2])),
    "truth values": (lambda x: -x, torch.tensor([True])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_raises_its_class(name: str) -> None:
    call, x = REFUSED[name]
    with pytest.raises((RuntimeError, IndexError)) as plain:
        call(x)
    for tried in (lambda: torch.compile(call, backend="torchtpu")(x), lambda: call(x.to("tpu"))):
        with pytest.raises(plain.type):
            tried()


RAGGED = {
    "sin": torch.sin,
    "softmax": lambda n: torch.softmax(n, -1),
    "linear": lambda n: nn.functional.linear(n, torch.arange(20.0).reshape(5, 4)),
}


@pytest.mark.parametrize("name", RAGGED)
def test_nested_tensors_of_rows_of_different_lengths(name):
    for lengths in ([2, 3], [4, 1, 2]):
        n = torch.nested.nested_tensor([torch.randn(length, 4) for length in lengths], layout=torch.jagged)
        ours, theirs = compiled(RAGGED[name])(n), RAGGED[name](n)
        torch.testing.assert_close(ours.values(), theirs.values())
        assert [t.shape for t in ours.unbind()] == [t.shape for t in theirs.unbind()]
        (ours + theirs).values()  # both have the rows of `n`
