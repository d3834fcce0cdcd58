"""Fused mode: eager ops recorded, and run together as one program."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchtpu
import zoo
from counting import programs
from fused_at_once import fused_at_once
from torch import Tensor, nn

HERE = __file__


@pytest.fixture(autouse=True)
def _settled() -> None:
    """Every test begins in a stream that is known, whatever ran before."""
    with torchtpu.eager_mode("fused"):
        x = torch.zeros(3, device="tpu")
        for _ in range(40):
            x = x + 1
    torch.tpu.synchronize()  # type: ignore[attr-defined]


def regions() -> dict[str, int]:
    counts: dict[str, int] = torchtpu.stats()["eager"]["regions"]
    return counts


def gained(before: dict[str, int]) -> dict[str, int]:
    return {name: count - before[name] for name, count in regions().items()}


# --- programs that must give what the CPU gives -----------------------------------------------------------------------


def in_place_through_views(device: str) -> list[Tensor]:
    base = torch.arange(24.0, device=device).reshape(4, 6)
    before, row, column = base.clone(), base[1], base[:, 2]
    row.add_(10)
    column.mul_(row[3])
    base.t()[0].copy_(column)
    flat = base.reshape(-1)
    flat[3:7] = 0.5
    return [base, before, row, column, base.sum(0)]


def numbers_that_change(device: str) -> list[Tensor]:
    x, results = torch.linspace(-2, 2, 7, device=device), []
    for i in range(6):
        x = (x * (1 + i / 7)).clamp(-3 + i / 10, 3).add(x, alpha=0.1 * i)
        results.append(x)
    return results


def element_types(device: str) -> list[Tensor]:
    x = torch.linspace(-3, 3, 50, device=device)
    half = (x.to(torch.bfloat16) * 3).sin()
    whole = (x * 10).to(torch.int32) // 3
    flags = (whole % 2 == 0) & (x > 0)
    turned = torch.complex(x, half.float()) * 2j
    return [half, whole, flags, turned, torch.where(flags, x, half.float()), whole.to(torch.int8).sum()]


def not_finite(device: str) -> list[Tensor]:
    x = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0], device=device)
    y = x / x
    return [y, x * 0, torch.maximum(x, y), x.exp().log(), (x - x).isnan().sum(), x.nan_to_num(3.0)]


def of_no_size(device: str) -> list[Tensor]:
    none, scalar = torch.ones(0, 3, device=device), torch.tensor(2.5, device=device)
    return [none + 1, none.sum(0) * scalar, scalar.exp() - scalar, torch.cat([none, none * 2])]


def gradients(device: str) -> list[Tensor]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.Flatten(), nn.Linear(64, 5)).to(device)
    x = torch.linspace(-1, 1, 2 * 3 * 36).reshape(2, 3, 6, 6).to(device).requires_grad_()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), torch.tensor([1, 4], device=device))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    assert x.grad is not None
    return [loss.detach(), x.grad, *(p.detach() for p in model.parameters()), *model.buffers()]


def overwritten_while_others_hold_it(device: str) -> list[Tensor]:
    x = torch.arange(5.0, device=device)
    kept, shared = [], x.detach()
    for i in range(4):
        kept.append(x.clone())
        x += i
        x.data = x * 2
    return [*kept, x, shared]


def sizes_that_are_data(device: str) -> list[Tensor]:
    x = torch.linspace(-1, 1, 9, device=device)
    positive = (x * 2)[x > 0]
    return [positive + 1, torch.nonzero(x > 0.3) * 2, torch.unique((x * 3).round())]


def moved_within_what_was_computed(device: str) -> list[Tensor]:
    table = torch.arange(70.0, device=device).reshape(10, 7)
    rows = torch.arange(8, device=device)
    makers: list[Callable[[], Tensor]] = [
        lambda: table[rows],
        lambda: table[table[:, 0] > 5],
        lambda: nn.functional.embedding(rows, table),
        lambda: torch.cat([table.unsqueeze(1)[:4], table.unsqueeze(1)[4:]]).squeeze(1),
        lambda: nn.functional.max_pool2d(table.reshape(1, 1, 10, 7), (2, 1)).reshape(5, 7),
        lambda: table.flip(0),
    ]
    results = []
    for make in makers:
        right, down, turned, boxes, rise = (make() for _ in range(5))
        right[:, 1:] = right[:, :-1] + 1
        down[1:] = down[:-1] * 2
        turned[:, :4] = turned[:, :4].flip(1)
        boxes[:, :4] = torch.cat([boxes[:, :2] - boxes[:, 2:4] / 2, boxes[:, :2] + boxes[:, 2:4] / 2], 1)
        for k in range(1, 4):
            rise[k] = rise[k - 1] * 0.5 + rise[k]
        results += [right, down, turned, boxes, rise]
    return results


PROGRAMS: list[Callable[[str], list[Tensor]]] = [
    in_place_through_views,
    numbers_that_change,
    element_types,
    not_finite,
    of_no_size,
    gradients,
    overwritten_while_others_hold_it,
    sizes_that_are_data,
    moved_within_what_was_computed,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_give_what_the_cpu_gives(program: Callable[[str], list[Tensor]]) -> None:
    before = regions()
    with fused_at_once():
        ours = [t.cpu() for t in program("tpu")]
    assert gained(before)["runs"] > 0, "nothing ran as one program"
    torch.testing.assert_close(ours, program("cpu"), equal_nan=True)


def test_random_numbers_are_those_of_strict_mode() -> None:
    def draws() -> list[Tensor]:
        torch.manual_seed(11)
        x = torch.rand(8, device="tpu")
        y = nn.functional.dropout(x + 1, 0.5)
        return [x.cpu(), (y * torch.randn(8, device="tpu")).cpu(), torch.randperm(10, device="tpu").cpu()]

    with fused_at_once():
        ours = draws()
    torch.testing.assert_close(ours, draws())


# --- regions ----------------------------------------------------------------------------------------------------------


def step_of(model: nn.Module, x: Tensor, lr: float) -> Callable[[], float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def test_a_training_step_becomes_one_program(deterministic: None) -> None:
    torch.manual_seed(0)
    step = step_of(
        nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 1)).to("tpu"), torch.ones(3, 6, device="tpu"), 0.01
    )
    with torchtpu.eager_mode("fused"):
        losses = [step() for _ in range(8)]
        made, before = programs(), regions()
        losses += [step() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert gained(before)["runs"] == gained(before)["cuts"] == 5, "each step is one run of one program"
    assert programs() == made


def test_a_number_that_changes_finds_its_region(deterministic: None) -> None:
    x = torch.ones(4, device="tpu")
    with torchtpu.eager_mode("fused"):
        for i in range(2, 10):
            if i == 7:
                made, before = programs(), regions()
            assert ((x + 0.25 * i) * (i + 0.5) - i / 3)[0].item() == pytest.approx((1 + 0.25 * i) * (i + 0.5) - i / 3)
    assert gained(before) == {"recorded": 12, "met": 0, "compiled": 0, "compiling": 0, "runs": 3, "cuts": 3}
    assert programs() == made


def test_streams_that_never_repeat_compile_no_regions() -> None:
    before = regions()
    with torchtpu.eager_mode("fused"):
        for length in range(2, 12):
            x = torch.ones(length, device="tpu")
            assert ((x + 1) * x).sum().item() == 2 * length
    assert gained(before)["compiled"] == gained(before)["runs"] == 0


def test_printing_in_the_middle_works() -> None:
    with torchtpu.eager_mode("fused"):
        x = torch.ones(3, device="tpu") * 2
        assert "2., 2., 2." in str(x)
        assert (x + 1).tolist() == [3, 3, 3]


def test_modes_may_change_while_a_region_is_open() -> None:
    with torchtpu.eager_mode("fused"):
        x = torch.ones(3, device="tpu") + 1
        with torchtpu.eager_mode("debug"):
            y = x * 3
            assert y.tolist() == [6, 6, 6]
        z = y + x
    with torchtpu.eager_mode("strict"):
        assert (z - x).tolist() == [6, 6, 6]


def test_inference_mode_and_generators_work() -> None:
    with torchtpu.eager_mode("fused"), torch.inference_mode():
        for _ in range(5):
            x = torch.ones(4, device="tpu")
            x.mul_(3)
            assert (x + x)[1:].sum().item() == 18


def test_compiled_functions_take_what_was_recorded() -> None:
    double = torch.compile(lambda x: x * 2, backend="torchtpu")
    with torchtpu.eager_mode("fused"):
        x = torch.arange(4.0, device="tpu") + 1
        assert (double(x) - x).tolist() == [1, 2, 3, 4]


def test_a_mistake_is_told_at_its_line() -> None:
    with torchtpu.eager_mode("fused"):
        x = torch.ones(3, device="tpu") + 1
        with pytest.raises(RuntimeError, match="must match the size"):
            x + torch.ones(4, device="tpu")
        assert (x * 2).tolist() == [4, 4, 4]


def test_memory_of_what_nobody_holds_is_never_taken(deterministic: None) -> None:
    with torchtpu.eager_mode("fused"):
        x = torch.ones(1 << 16, device="tpu")
        for i in range(6):
            if i == 5:
                torch.tpu.synchronize()  # type: ignore[attr-defined]
                torch.tpu.reset_peak_memory_stats()  # type: ignore[attr-defined]
                base = torch.tpu.memory_allocated()  # type: ignore[attr-defined]
            y = x
            for _ in range(20):
                y = torch.sin(y) * 2
            y[0].item()
    assert torch.tpu.max_memory_allocated() - base <= 2 * x.nbytes  # type: ignore[attr-defined]


def test_a_region_ends_when_it_keeps_much_that_nobody_else_does(deterministic: None) -> None:
    with torchtpu.eager_mode("fused"):
        for _ in range(8):
            torch.tpu.synchronize()  # type: ignore[attr-defined]
            before = regions()
            given = [torch.full((2 << 20,), float(i), device="tpu") for i in range(16)]
            torch.tpu.synchronize()  # type: ignore[attr-defined]
            torch.tpu.reset_peak_memory_stats()  # type: ignore[attr-defined]
            base = torch.tpu.memory_allocated()  # type: ignore[attr-defined]
            made = []
            while given:
                made.append(given.pop().add(1))
            torch.tpu.synchronize()  # type: ignore[attr-defined]
    assert gained(before)["runs"] == gained(before)["cuts"] > 4, "128 MiB were given"
    assert torch.tpu.max_memory_allocated() - base <= 5 * made[0].nbytes  # type: ignore[attr-defined]
    assert [x[0].item() for x in made] == list(range(16, 0, -1))


def test_what_a_region_takes_over_is_counted_once() -> None:
    x = torch.ones(1 << 18, device="tpu")

    def step() -> None:
        x.mul_(1.5).add_(1)
        torch.tpu.synchronize()  # type: ignore[attr-defined]

    with fused_at_once():
        step()
        step()
        torch.tpu.reset_peak_memory_stats()  # type: ignore[attr-defined]
        base = torch.tpu.memory_allocated()  # type: ignore[attr-defined]
        step()
    assert torch.tpu.max_memory_allocated() - base < x.nbytes / 2  # type: ignore[attr-defined]


def test_the_report_names_regions_cuts_and_what_was_missed(deterministic: None) -> None:
    with torchtpu.eager_mode("fused"):
        for i in range(6):
            x = torch.ones(13, device="tpu")
            y = torch.tanh(x) + 1
            if i == 5:
                y = y - 2  # another op than the times before
            y.sum().item()  # the read
    report = torchtpu.explain_eager()
    text = str(report)
    ours = [r for r in report.regions if any(line.startswith(f"{HERE}:") for line, _ in r.lines)]
    assert any(r.runs and r.state == "compiled" for r in ours)
    assert any("a value was read" in cut.why and HERE in cut.line for cut in report.cuts)
    assert any("aten::sub" in r.instead_of and HERE in r.instead_of for r in ours)
    torch.tpu.synchronize()  # type: ignore[attr-defined]
    with torchtpu.eager_mode("fused"):
        y = torch.ones(250_000, device="tpu").tanh()
        line = sys._getframe().f_lineno + 1
        y[0].item()
        (y + 1)[0].item()
    between = next(cut for cut in torchtpu.explain_eager().cuts if cut.line == f"{HERE}:{line}")
    assert (between.count, between.read_back) == (1, y.nbytes)
    assert "1.0 MB each time is read back" in str(dataclasses.replace(report, cuts=(between,)))
    less = dataclasses.replace(between, read_back=2048)
    assert "2.0 kB each time is read back" in str(dataclasses.replace(report, cuts=(less,)))
    assert "ops were recorded" in text
    assert "a value was read" in text


def test_complex_numbers_seen_as_real_ones_cut_no_region(deterministic: None) -> None:
    def turned(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        z = torch.view_as_complex(x.reshape(5, 3, 2)) * by
        z.imag.add_(1)  # seen as real ones, and then as complex again
        return torch.view_as_real(z * by).flatten() + x.view(torch.int32)

    first = sys._getframe().f_lineno
    x, by = torch.randn(30), torch.randn(3, dtype=torch.complex64)
    on_tpu, by_tpu = x.to("tpu"), by.to("tpu")
    with torchtpu.eager_mode("fused"):
        for _ in range(4):
            got = turned(on_tpu, by_tpu)
            torch.testing.assert_close(got.cpu(), turned(x, by))
    lines = {f"{HERE}:{line}" for line in range(first - 5, sys._getframe().f_lineno)}
    cuts = [cut for cut in torchtpu.explain_eager().cuts if cut.line in lines]
    assert {cut.why for cut in cuts} == {"a value was read"}, cuts
    torch.testing.assert_close(on_tpu.cpu(), x)


def test_gradients_are_told_by_the_lines_they_are_of(deterministic: None) -> None:
    weight = nn.Parameter(torch.ones(11, 11, device="tpu"))
    with torchtpu.eager_mode("fused"):
        for _ in range(5):
            rows = weight[:, :7]
            places = torch.ones(3, device="tpu") == 2  # a call that has no gradient
            x = torch.ones(11, 11, device="tpu") @ rows  # the product
            x.exp().sum().backward()
            weight.grad.sum().item()
    counts = {line: calls for region in torchtpu.explain_eager().regions for line, calls in region.lines}
    product = test_gradients_are_told_by_the_lines_they_are_of.__code__.co_firstlineno + 6
    assert counts[f"{HERE}:{product} (backward)"] >= 1
    assert counts[f"{HERE}:{product + 1} (backward)"] >= 1
    assert counts[f"{HERE}:{product - 2} (backward)"] >= 1
    assert f"{HERE}:{product - 1} (backward)" not in counts, places


def test_hooks_are_told_by_their_own_lines(deterministic: None) -> None:
    weight = nn.Parameter(torch.ones(13, 13, device="tpu"))
    with torchtpu.eager_mode("fused"):
        for _ in range(5):
            square = weight @ weight
            square.register_hook(lambda gradient: gradient * 3)
            square.sum().backward()
            weight.grad.sum().item()
    counts = {line: calls for region in torchtpu.explain_eager().regions for line, calls in region.lines}
    product = test_hooks_are_told_by_their_own_lines.__code__.co_firstlineno + 4
    assert counts[f"{HERE}:{product} (backward)"] >= 1
    assert counts[f"{HERE}:{product + 1}"] >= 1
    assert f"{HERE}:{product + 1} (backward)" not in counts


def walk(device: str, seed: int) -> float:
    """Ops of which no sixteen come in the same order again."""
    kinds: list[Callable[[Tensor], Tensor]] = [torch.sin, torch.tanh, torch.abs, torch.neg, torch.square, torch.sigmoid]
    pick, y = random.Random(seed), torch.linspace(-1, 1, 5, device=device)
    for _ in range(400):
        y = pick.choice(kinds)(y)
    return y.sum().item()


def test_at_once_a_new_stream_runs_as_programs_too() -> None:
    with fused_at_once():
        before = regions()
        assert walk("tpu", 1) == pytest.approx(walk("cpu", 1), rel=1e-4)
    assert gained(before) | {"met": 0, "compiled": 0} == {
        "recorded": 402,
        "met": 0,
        "compiled": 0,
        "compiling": 0,
        "runs": 1,
        "cuts": 1,
    }


def test_a_stream_that_never_repeats_runs_an_op_at_a_time_until_it_does() -> None:
    def loop(device: str) -> float:
        y = torch.linspace(-1, 1, 5, device=device)
        for _ in range(100):
            y = torch.sigmoid(torch.sin(y) + y)
        return y.sum().item()

    with torchtpu.eager_mode("fused"):
        before = regions()
        assert walk("tpu", 0) == pytest.approx(walk("cpu", 0), rel=1e-4)
        assert gained(before)["recorded"] < 200
        assert any(
            cut.why.startswith("the stream is new") and HERE in cut.line for cut in torchtpu.explain_eager().cuts
        )
        before = regions()
        assert loop("tpu") == pytest.approx(loop("cpu"), rel=1e-4)
        assert gained(before)["recorded"] > 200


def test_regions_are_dumped_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHTPU_DUMP", str(tmp_path))
    with fused_at_once():
        x = torch.ones(17, device="tpu")
        (torch.cosh(x) * 3 - x)[0].item()
    names = {path.name.rsplit("-", 1)[0]: path for path in tmp_path.iterdir()}
    folder = next(path for name, path in names.items() if name.startswith("test_regions_are_dumped_by_name"))
    stages = {path.name: path.read_text() for path in folder.iterdir()}
    assert stages.keys() == {"core.txt", "fused.txt", "stablehlo.mlir", "hlo.txt"}
    assert "stablehlo.multiply" in stages["stablehlo.mlir"]


# --- the same everywhere ----------------------------------------------------------------------------------------------

RUNS = int(os.environ.get("TORCHTPU_SAME_RUNS", "2"))


# CI takes the shortest of the models.
@pytest.mark.parametrize("models", ["", ",".join(zoo.ZOO) if RUNS > 2 else "mlp,gpt_block"], ids=["loop", "models"])
def test_processes_under_different_load_cut_alike(models: str) -> None:
    def run(seed: int) -> Any:
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "WORLD_SIZE": "2" if seed % 2 else "1"}
        command = [sys.executable, str(Path(__file__).with_name("same_regions.py")), str(seed), *filter(None, [models])]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    first = run(0)
    assert first.keys() == set(models.split(","))
    assert all(recorded > (100 if models else 3000) for _, recorded, _ in first.values())
    for seed in range(1, RUNS):
        for model, (sequence, recorded, loss) in run(seed).items():
            assert [sequence, recorded] == first[model][:2], f"{model}, disturbed by {seed}"
            torch.testing.assert_close(loss, first[model][2])
