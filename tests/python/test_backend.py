"""``torch.compile(backend="torchtpu")`` as a user meets it: what it must get right besides the numbers of models."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import torchtpu
from torch import nn


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


@torch.library.custom_op("backend::sides", mutates_args=())
def sides(x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return x + 1, [x * 2, x.sum(0)]


@sides.register_fake
def _(x):
    return torch.empty_like(x), [torch.empty_like(x), torch.empty_like(x[0])]


@pytest.mark.filterwarnings("ignore:backend.sides.default .* runs on the host")
@pytest.mark.parametrize("dynamic", [False, True])
def test_an_op_that_gives_a_tensor_and_a_list_runs_on_the_host(dynamic):
    def fn(x):
        first, (second, third) = sides(x.relu())
        return first * third, sides(x)[1][0] + second

    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(fn, fullgraph=True, dynamic=dynamic)(x), fn(x))


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
    with pytest.raises(ValueError, match="no stage `llvm`; the stages are core, fused"):
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


def test_lowering_refuses_sizes_of_no_symbol():
    x = torch.ones(4, 8)
    torch._dynamo.mark_dynamic(x, 0)
    trace = torchtpu.capture(torch.nn.Linear(8, 8), x)
    (symbol,) = re.findall(r"Symbol\('(s\d+)'", trace.to_bytes().decode())[:1]
    with pytest.raises(ValueError, match=rf"dims={{'B': 6}}: .* no symbol 'B': {symbol} \(dimension 0 of `input`\)"):
        torchtpu.lower(trace, dims={"B": 6})
    assert "tensor<6x8xf32>" in torchtpu.lower(trace, dims={symbol: 6})
    with pytest.raises(ValueError, match="no symbol 's0': all its sizes are fixed"):
        torchtpu.lower(torch.nn.Linear(8, 8), torch.ones(4, 8), dims={"s0": 6})


def test_a_function_of_several_graphs_is_no_program():
    def branches(x):
        return x + 1 if x.sum().item() > 0 else x

    with pytest.raises(torchtpu.Error, match=r"test_backend\.py"):
        torchtpu.capture(branches, torch.ones(3))


def test_a_trace_leaves_no_other_backward_beside_it(tmp_path):
    layer, x = torch.nn.Linear(3, 2), torch.ones(4, 3)
    torchtpu.capture(layer, x).save(tmp_path / "layer.json")
    assert (tmp_path / "layer.backward.json").exists()
    with torch.no_grad():
        torchtpu.capture(layer, x).save(tmp_path / "layer.json")
    assert not (tmp_path / "layer.backward.json").exists()


def test_sizes_and_targets_are_checked():
    x = torch.ones(3)
    for dims in ({"s33": "a"}, [1]):
        with pytest.raises(TypeError, match="give a dictionary of symbols with sizes"):
            torchtpu.lower(torch.sin, x, dims=dims)
    for target in (5, []):
        with pytest.raises(TypeError, match="give a slice such as 'v5e:2x2', or a list of such"):
            torchtpu.check(torch.sin, x, target=target)


def test_the_package_lists_what_it_has():
    assert set(torchtpu.__all__) <= set(dir(torchtpu))


def test_lowering_takes_numbers_that_are_symbols():
    numbers = torch._dynamo.config.patch(specialize_int=False, assume_static_by_default=False)
    with numbers:
        trace = torchtpu.capture(lambda x, n: x * n, torch.ones(4, 8), 5)
    symbols = set(re.findall(r"Symbol\('(s\d+)'", json.dumps(trace.program)))
    assert len(symbols) == 3
    assert "stablehlo" in torchtpu.lower(trace, dims=dict.fromkeys(symbols, 6))


def inputs_of(trace):
    assert trace is not None
    return [next(iter(arg.values()))["name"] for arg in trace.program["graph_module"]["graph"]["inputs"]]


class Wide(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x, *rest, mul, batch, **more):
        return self.weight * x * mul * rest[0] * batch["mask"][1] + more["bias"]


class Shadowed(Wide):
    def forward(self, weight):
        return self.weight * weight


def test_inputs_of_a_trace_are_called_as_the_user_calls_them():
    x, linear = torch.ones(2, 4), torch.nn.Linear(4, 3)
    for trace in (torchtpu.capture(linear, x), torchtpu.capture(linear, input=x), torchtpu.capture(linear.forward, x)):
        assert inputs_of(trace) == ["weight", "bias", "input"]
    a, b, c, d, e = (x + i for i in range(5))
    wide, given = ["weight", "x", "rest.0", "mul", "batch.mask.1", "more.bias"], {"batch": {"mask": [a, d]}, "bias": e}
    assert sorted(inputs_of(torchtpu.capture(Wide(), a, b, mul=c, **given))) == sorted(wide)
    attention = torchtpu.capture(torch.nn.MultiheadAttention(4, 2), a, b, value=c)
    assert inputs_of(attention)[:3] == ["query", "key", "value"]
    held, other = inputs_of(torchtpu.capture(Shadowed(), x))
    assert held == "weight" and other not in ("weight", "primals_2")

    def own(args, kwargs, *rest):
        return args[1] * kwargs["a"] * rest[0]

    assert inputs_of(torchtpu.capture(own, [a, b], {"a": c}, d)) == ["args.1", "kwargs.a", "rest.0"]


def test_inputs_of_the_backward_are_called_as_the_forwards():
    trace = torchtpu.capture(torch.nn.Linear(4, 3), torch.ones(2, 4))
    assert inputs_of(trace.backward) == ["input", "tangents_1"]
    # Ops that would be called as these inputs are give way.
    x, y = torch.rand(2, 4, requires_grad=True), torch.rand(2, 4, requires_grad=True)
    trace = torchtpu.capture(lambda mul, mul_1: (mul * mul_1).sin() * mul, x, y)
    assert inputs_of(trace) == ["mul", "mul_1"]
    assert set(inputs_of(trace.backward)) >= {"mul", "mul_1", "tangents_1"}
    for part in (trace, trace.backward):
        names = [node["outputs"][0]["as_tensor"]["name"] for node in part.program["graph_module"]["graph"]["nodes"]]
        assert not {"mul", "mul_1"} & set(names) and len(set(names)) == len(names)
        assert "stablehlo" in torchtpu.lower(part)


def test_what_is_no_function_cannot_be_captured():
    for nothing, told in ((None, "None"), (torch.ones(2), "a Tensor"), ("f", "a str")):
        for call in (torchtpu.capture, torchtpu.lower):
            with pytest.raises(TypeError, match=f"expected a function or module, .*: got {told}"):
                call(nothing, torch.ones(2))


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
    (entry,) = folder.glob("*.exe")
    entry.write_bytes(entry.read_bytes()[:-100])
    assert run_cached(folder) == "1 0"
    assert run_cached(folder) == "0 1"


def test_the_disk_cache_tells_the_compilers_flags_apart(tmp_path: Path) -> None:
    folder, flags = tmp_path / "cache", "--xla_cpu_enable_concurrency_optimized_scheduler={}"
    assert run_cached(folder, XLA_FLAGS=flags.format("true")) == "1 0"
    assert run_cached(folder, XLA_FLAGS=flags.format("false")) == "1 0"
    file = tmp_path / "flags"
    file.write_text(flags.format("true"))
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
