"""``torchtpu.check``: what it says of programs on TPUs that are not there."""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchtpu
from torch import Tensor, nn

# Setting up without libtpu is supported, and what needs it cannot be tested then.
needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="libtpu is Google's; `make setup WITHOUT_LIBTPU=1` leaves it out"
)
pytestmark = needs_libtpu


class Net(nn.Module):
    """Two layers, of which the first is wide."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(300, 4000, bias=False)
        self.down = nn.Linear(4000, 10, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x).tanh())


def line_of(function, text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_memory_is_attributed_to_parameters_and_lines() -> None:
    net = Net().bfloat16().requires_grad_(False)
    report = torchtpu.check(net, torch.zeros(64, 300, dtype=torch.bfloat16))
    assert report.runs and report.backward is None
    memory = report.data["memory"]
    assert report.peak_hbm is not None
    assert sum(holder["bytes"] for holder in report.holders) + memory["unattributed"] == report.peak_hbm
    assert memory["unattributed"] <= 0.05 * report.peak_hbm
    largest = report.holders[0]
    assert (largest["kind"], largest["values"]) == ("argument", ["up.weight"])
    assert 300 * 4000 * 2 <= largest["bytes"] <= 1.3 * 300 * 4000 * 2


def test_cost_counts_what_the_program_computes_and_names_its_lines() -> None:
    net = Net().bfloat16().requires_grad_(False)
    report = torchtpu.check(net, torch.zeros(64, 300, dtype=torch.bfloat16))
    products = 2 * 64 * (300 * 4000 + 4000 * 10)
    assert report.flops is not None and report.hbm_bytes is not None and report.seconds is not None
    assert products <= report.flops <= 1.1 * products
    assert report.hbm_bytes >= 300 * 4000 * 2
    assert report.seconds >= report.hbm_bytes / 819e9
    places = {(Path(line["source"]["file"]).name, line["source"]["line"]) for line in report.data["cost"]["lines"]}
    assert ("test_check.py", line_of(Net, "self.up(x)")) in places


def test_places_in_a_text_are_in_its_file(tmp_path: Path) -> None:
    trace, file = str(tmp_path / "net.json"), tmp_path / "net.mlir"
    torchtpu.capture(Net(), torch.zeros(8, 300)).save(trace)
    tputc, target = str(Path(sys.executable).with_name("tputc")), ["--target", "v5e:1x1"]
    subprocess.run([tputc, "lower", trace, *target, "-o", str(file)], check=True)
    check = [tputc, "check", str(file), *target, "--format", "json"]
    (report,) = json.loads(subprocess.run(check, capture_output=True, check=True).stdout)
    lines = report["cost"]["lines"]
    assert lines and {line["source"]["file"] for line in lines} == {"net.mlir"}
    assert all(0 < line["source"]["line"] <= len(file.read_text().splitlines()) for line in lines)


def test_several_targets_give_a_report_each_and_training_one_for_its_backward() -> None:
    targets = ["v5e:1x1", "v5p:1x1x1"]
    reports = torchtpu.check(Net(), torch.zeros(8, 300), target=targets)
    assert [report.data["target"]["name"] for report in reports] == targets
    assert all(report.backward is not None and report.runs for report in reports)
    for report in reports:
        assert 0 < report.data["memory"]["vmem_peak"] <= report.data["target"]["vmem_bytes"]
    assert reports[0].data["target"]["hbm_bytes"] < reports[1].data["target"]["hbm_bytes"]


def test_mamba_trains_on_a_tpu() -> None:
    """Every second one of 8 rows, transposed, fills its scan's gradient: libtpu 0.0.51 aborts on that as it stands."""
    from transformers import MambaConfig, MambaForCausalLM

    sizes = {"vocab_size": 128, "hidden_size": 64, "state_size": 16, "num_hidden_layers": 1}
    model = MambaForCausalLM(MambaConfig(**sizes, use_cache=False))
    ids = torch.zeros(2, 8, dtype=torch.int64)
    report = torchtpu.check(model, input_ids=ids, labels=ids, target="v5e:1x1")
    assert report.runs
    assert report.backward is not None and report.backward.runs


def test_what_cannot_be_compiled_is_found_with_its_line() -> None:
    def positive(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].sum()

    report = torchtpu.check(positive, torch.zeros(9))
    assert not report.runs and report.peak_hbm is None
    (finding,) = report.findings
    assert (finding["severity"], finding["kind"]) == ("error", "data-dependent-shape")
    assert finding["source"]["line"] == line_of(positive, "x[x > 0]") and finding["help"]


def test_slow_types_are_told_by_line() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return (x.double() * 3).float()

    report = torchtpu.check(double, torch.zeros(64, 64))
    (finding,) = report.findings
    assert (finding["severity"], finding["kind"]) == ("warning", "dtype") and "f64" in finding["message"]
    assert finding["source"]["line"] == line_of(double, "x.double()")


def test_sizes_that_recompile_are_told_with_buckets(tmp_path: Path) -> None:
    rows = torch.export.Dim("rows", min=2, max=100)
    program = torch.export.export(Net(), (torch.zeros(8, 300),), dynamic_shapes=({0: rows},))
    torch.export.save(program, tmp_path / "net.pt2")
    trace = torchtpu.Trace(json.loads(read_model(tmp_path / "net.pt2")))
    (symbol,) = trace.program["range_constraints"]
    report = torchtpu.check(trace, dims={symbol: 8})
    (finding,) = [f for f in report.findings if f["kind"] == "dynamic-shape"]
    assert "`x`" in finding["message"] and "2, 4, 8, 16, 32, 64, 100: 7 programs" in finding["help"]


def read_model(archive: Path) -> bytes:
    import zipfile

    with zipfile.ZipFile(archive) as file:
        name = next(name for name in file.namelist() if name.endswith("models/model.json"))
        return file.read(name)


def test_a_program_that_does_not_fit_is_refused_with_who_holds_the_most() -> None:
    def large(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w) @ w

    x = torch.empty(65536, 65536, dtype=torch.bfloat16, device="meta")
    report = torchtpu.check(capture_abstract(large, x, x))
    assert not report.runs and "does not fit on v5e:1x1" in report.summary
    assert report.peak_hbm is not None and report.peak_hbm >= 3 * 65536 * 65536 * 2
    assert report.data["verdict"]["advice"]
    assert len(report.holders) >= 3


def capture_abstract(fn, *args: torch.Tensor) -> torchtpu.Trace:
    """A trace of tensors that nobody could allocate."""

    class Abstract(nn.Module):
        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return fn(*inputs)

    program = torch.export.export(Abstract(), args)
    from torchtpu.trace import walk

    return torchtpu.Trace(walk(program.graph_module).program)


def test_a_mesh_makes_shards_and_tells_collectives() -> None:
    net = Net().bfloat16().requires_grad_(False)
    x = torch.zeros(64, 300, dtype=torch.bfloat16)
    whole = torchtpu.check(net, x, target="v5e:2x2")
    shard = {"up.weight": ("model", None), "down.weight": (None, "model")}
    split = torchtpu.check(net, x, target="v5e:2x2", mesh={"model": 4}, shard=shard)
    assert split.runs and split.data["target"]["devices_used"] == 4
    assert split.peak_hbm < whole.peak_hbm / 2
    assert any(c["kind"].startswith("all-reduce") and c["bytes"] > 0 for c in split.data["cost"]["collectives"])


def test_a_sum_that_each_device_keeps_a_part_of_is_a_reduce_scatter() -> None:
    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    x, w = torch.empty(4096, 8192, device="meta"), torch.empty(8192, 4096, device="meta")
    shard = {"inputs_0": (None, "d"), "inputs_1": ("d",), "output.0": ("d",)}
    report = torchtpu.check(capture_abstract(product, x, w), target="v5e:2x2", mesh={"d": 4}, shard=shard)
    sent = {c["kind"]: c["bytes"] for c in report.data["cost"]["collectives"]}
    assert "all-reduce" not in sent
    # Three of four parts of the result, which libtpu pads by a tenth.
    least = 0.75 * 4096 * 4096 * 4
    assert least <= sent["reduce-scatter"] <= 1.15 * least


def test_a_mesh_that_does_not_fit_is_an_error() -> None:
    x = torch.zeros(64, 300)
    with pytest.raises(torchtpu.Error, match=r"the mesh has 8 devices, v5e:2x2 has 4"):
        torchtpu.check(Net().requires_grad_(False), x, target="v5e:2x2", mesh={"data": 8}, shard={"x": ("data",)})
    with pytest.raises(TypeError, match="shard without a mesh"):
        torchtpu.check(Net(), x, shard={"*": ("data",)})
    with pytest.raises(ValueError, match="`v5e` is no TPU slice: it lacks its shape"):
        torchtpu.check(Net(), x, target="v5e")


def test_rules_are_for_the_forward_and_the_backward_together() -> None:
    net, x = Net(), torch.zeros(64, 300)
    options = {"target": "v5e:2x1", "mesh": {"d": 2}}
    whole = torchtpu.check(net, x, target="v5e:1x1")

    def split(shard: dict[str, Any]) -> tuple[torchtpu.Report, torchtpu.Report]:
        report = torchtpu.check(net, x, shard=shard, **options)
        assert report.runs and report.backward is not None
        return report, report.backward

    forward, _ = split({"up.weight": ("d",)})  # of which the backward has no need
    assert forward.peak_hbm < whole.peak_hbm - 2_000_000
    for shard in ({"x": ("d",)}, {"*": ("d",)}, {"down.weight": None, "*": ("d",)}):
        assert split(shard)[1].flops < 0.7 * whole.backward.flops, shard
    assert split({"tangents_1": ("d",)})[1].flops < whole.backward.flops
    split({"x": ("d",), "output.0": ("d",)})
    for shard, words in (
        ({"x": ("d",), "up.wieght": ("d",)}, "`up.wieght` matches no input of the program(?s:.*)`up.weight`"),
        ({"primals_1": ("d",)}, "`primals_1` matches no input"),
        ({"output.7": ("d",)}, "`output.7` matches no result"),
        ({"*": ("d",), "x": ("d",)}, "`x` decides nothing: `\\*` comes before it"),
    ):
        with pytest.raises(torchtpu.CompileError, match=words):
            torchtpu.check(net, x, shard=shard, **options)


@pytest.mark.parametrize("timeout", [math.nan, -1.0, 0, -math.inf])
def test_a_timeout_that_is_no_time_is_an_error(timeout: float) -> None:
    with pytest.raises(ValueError, match=r"timeout is .*: give seconds, more than 0, or math.inf for no limit"):
        torchtpu.check(Net(), torch.zeros(64, 300), timeout=timeout)


@pytest.mark.parametrize("timeout", [math.inf, 1e300])
def test_a_compile_may_take_as_long_as_it_takes(timeout: float) -> None:
    assert torchtpu.check(Net().requires_grad_(False), torch.zeros(64, 300), timeout=timeout).runs


def test_what_is_no_program_mesh_or_sharding_is_an_error() -> None:
    net, x = Net().requires_grad_(False), torch.zeros(64, 300)
    with pytest.raises(TypeError, match=r"expected a function or module, .* or a torchtpu.Trace: got None"):
        torchtpu.check(None, x)
    with pytest.raises(TypeError, match=r"mesh is a list: give a dictionary of .* such as {'data': 4}"):
        torchtpu.check(net, x, mesh=[2])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"shard is a list: give a dictionary of patterns"):
        torchtpu.check(net, x, mesh={"d": 2}, shard=[("x", ("d",))])  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"dims={'s0': 3}: the program has no symbol 's0': all its sizes are fixed"):
        torchtpu.check(net, x, dims={"s0": 3})


def test_whether_there_is_a_tpu_is_known_at_once() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TPU_SKIP_MDS_QUERY"}
    doctor = [str(Path(sys.executable).with_name("tputc")), "doctor"]
    environment["TORCHTPU_PLUGIN"] = "tpu"
    done = subprocess.run(
        doctor, env=environment, capture_output=True, text=True, timeout=25, check=False
    )  # else minutes
    found = done.returncode == 0 and "platform: tpu" in done.stdout
    assert found or (done.returncode == 2 and "there is no TPU that libtpu could use" in done.stdout)
    assert "xla-cpu-pjrt" not in done.stdout


class Returns(nn.Module):
    def __init__(self, of: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.layer, self.of = nn.Linear(2, 2), of

    def forward(self, x: Tensor) -> object:
        return self.of(self.layer(x).sum())


def test_a_step_minimises_what_the_model_returns_or_calls_loss() -> None:
    inputs = {"x": torch.ones(3, 2)}
    programs = {
        torchtpu.lower(torchtpu.capture_step(Returns(of), inputs).trace) for of in (lambda y: y, lambda y: {"loss": y})
    }
    assert len(programs) == 1
    with pytest.raises(torchtpu.Error, match=r"returns a tuple with no tensor called `loss`.*loss=lambda output"):
        torchtpu.capture_step(Returns(lambda y: (y,)), inputs)


class Whitening(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x) * torch.tensor([1.0, 2.0, 3.0, 4.0])
        factor = torch.linalg.cholesky(y.mT @ y + torch.eye(4))
        return torch.linalg.solve(factor, y.mT).square().mean() + torch.linalg.inv(factor).sum()


def test_factorisations_and_literals_run_in_a_step() -> None:
    model = Whitening()
    step = torchtpu.capture_step(model, {"x": torch.ones(16, 8)}, optimizer=torch.optim.Adagrad(model.parameters()))
    report = torchtpu.check(step.trace, target="v5e:1x1")
    assert report.runs and not report.findings


def test_factorisations_run() -> None:
    report = torchtpu.check(torch.linalg.inv, torch.eye(4).requires_grad_(), target="v5e:1x1")
    assert report.backward is not None and report.runs
    assert not report.findings and not report.backward.findings


def test_a_size_that_is_missing_is_asked_for_in_python() -> None:
    x = torch.zeros(8, 300)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(torchtpu.CompileError, match=r'has no value(?s:.*)give it one: `dims={"s\d+": 8}`'):
        torchtpu.check(Net().requires_grad_(False), x)


def test_slices_exchange_the_gradients_of_what_a_step_updates() -> None:
    net = Net()
    net.down.requires_grad_(False)
    x = torch.zeros(64, 300)
    optimizer = torch.optim.SGD([net.up.weight], lr=0.1)
    step = torchtpu.capture_step(net, {"x": x}, loss=lambda output: output.square().mean(), optimizer=optimizer)
    options = {"target": "v5e:2x2", "mesh": {"data": 4}}
    split = torchtpu.check(step.trace, slices=25, shard={"x": ("data",), "up.weight": ("data",)}, **options)
    alike = torchtpu.check(step.trace, slices=25, shard={"x": ("data",)}, **options)
    assert split.slices is not None and alike.slices is not None
    gradient = 4 * 300 * 4000
    assert (split.slices["gradient_bytes"], alike.slices["gradient_bytes"]) == (gradient // 4, gradient)
    for report in (split, alike):
        plan = report.slices
        assert (plan["chips"], plan["batch"], plan["slice_seconds"]) == (100, 25 * 64, report.seconds)
        assert plan["device_bytes"] == pytest.approx(2 * 24 / 25 * gradient / 4)
        assert plan["host_bytes"] == 4 * plan["device_bytes"]
        assert plan["exposed"]["seconds"] == pytest.approx(report.seconds + plan["exchange_seconds"])
        assert plan["exposed"]["efficiency"] <= plan["overlapped"]["efficiency"] <= 1
        text = " ".join(report.text().split())
        assert all(assumption in text for assumption in plan["assumptions"])
    assert torchtpu.check(step.trace, **options, shard={"x": ("data",)}).slices is None


def test_slices_that_cannot_be_planned_are_an_error() -> None:
    with pytest.raises(TypeError, match="slices without a target"):
        torchtpu.check(Net(), torch.zeros(64, 300), slices=2)
    with pytest.raises(ValueError, match="slices is 0: plan at least one"):
        torchtpu.check(Net(), torch.zeros(64, 300), target="v5e:1x1", slices=0)


def test_a_report_is_saved_in_the_form_its_name_asks_for(tmp_path: Path) -> None:
    report = torchtpu.check(Net().requires_grad_(False), torch.zeros(8, 300))
    for name in ("report.json", "report.html", "report.txt"):
        report.save(tmp_path / name)
    assert json.loads((tmp_path / "report.json").read_text()) == report.data
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "report.txt").read_text() == report.text() == str(report)
    assert "up.weight" in report.text()


def test_the_same_program_gives_the_same_report_in_every_process() -> None:
    code = """
import sys; sys.path.insert(0, sys.argv[1])
import torch, torchtpu, test_check
net = test_check.Net().requires_grad_(False)
print(torchtpu.check(net, torch.zeros(8, 300))._json)
"""
    folder = str(Path(__file__).parent)
    printed = {
        subprocess.run(
            [sys.executable, "-c", code, folder],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_a_check_that_takes_too_long_leaves_no_worker(tmp_path: Path) -> None:
    source = tmp_path / "hang.c"
    source.write_text("#include <unistd.h>\nvoid *GetPjrtApi(void) { for (;;) sleep(1); }\n")
    library = tmp_path / "hang.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    code = f"""
import torch, torchtpu
from torchtpu import _plugins
_plugins.libtpu = lambda: {str(library)!r}
try:
    torchtpu.check(torch.nn.Linear(2, 2), torch.zeros(1, 2), timeout=1.0)
except torchtpu.Error as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "took longer than 1 s" in run.stdout
    assert str(library) not in subprocess.run(["ps", "axww"], capture_output=True, text=True, check=False).stdout
