"""Reference evaluator, CPU plugin and PyTorch agree on random programs over the op table.

`make test` runs some; `sweep_programs.py` (`make test-all`) 10,000. Programs in testdata/programs are what such runs
found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import three_ways
import torch
from programs import Rejected, Step, parse, run, text
from random_programs import MOST_STEPS, Generator, table
from three_ways import ROOT, Evaluator, Minimiser, complaints, decoded, encoded

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch warns of what it will drop

PROGRAMS = int(os.environ.get("TORCHTPU_PROGRAMS", "48"))
# Other programs than those of the sweep.
FIRST_SEED = 1_000_000
FOUND = sorted((ROOT / "testdata" / "programs").glob("*.txt"))


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    process = Evaluator()
    yield process
    process.close()


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + PROGRAMS))
def test_agree(seed: int, evaluator: Evaluator) -> None:
    program = Generator(seed).make()
    found = complaints(program, evaluator)
    assert not found, f"{found[0]}\n{text(Minimiser(evaluator, found[0]).smallest(program))}"


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_found(path: Any, evaluator: Evaluator) -> None:
    assert [str(c) for c in complaints(parse(path.read_text()), evaluator)] == []


def test_programs_are_told_by_their_seed_and_their_text() -> None:
    for seed in range(10):
        program = Generator(seed).make()
        assert text(program) == text(Generator(seed).make()) == text(parse(text(program)))
        assert 1 <= program.steps() <= MOST_STEPS


def test_programs_hold_most_ops() -> None:
    placed = {node.op.name() for seed in range(300) for node in Generator(seed).make().nodes if isinstance(node, Step)}
    ops = [op for op in table() if op.left_out is None]
    assert len([op for op in ops if any(o.name() in placed for o in op.overloads)]) > 0.5 * len(ops)


class Liar(Evaluator):
    """Doubles what `exp` gives, wherever it comes out."""

    def __call__(self, trace: bytes, exact: bool, inputs: list[torch.Tensor]) -> dict[str, Any]:
        answer = super().__call__(trace, exact, inputs)
        if b"aten.exp.default" in trace:
            answer["outputs"] = [encoded(2 * decoded(spec)) for spec in answer["outputs"]]
        return answer


def test_a_lie_is_found_and_made_small() -> None:
    program = parse(
        """
v0 = f32([2, 3], [1.0, -0.5, 0.25])
v1 = aten.tanh.default(v0)
v2 = aten.exp.default(v1)
v3 = aten.permute.default(v2, [1, 0])
v4 = aten.sub_.Tensor(v1, v0)
v5 = aten.sin.default(v3)
outputs(v4, v5)
"""
    )
    liar = Liar()
    found = complaints(program, liar)
    assert {c.who for c in found} == {"evaluator"}
    small = Minimiser(liar, found[0]).smallest(program)
    liar.close()
    assert [str(node.op) for node in small.nodes if isinstance(node, Step)] == ["aten.exp.default"]


@pytest.mark.parametrize(("numbers", "lies", "found"), [
    pytest.param("1.0, 0.5", ["reassociate"], {"plugin"}, id="finite"),
    pytest.param("1.0, inf", ["reassociate"], set(), id="infinite"),
    pytest.param("1.0, inf", ["reassociate", "exact"], {"plugin"}, id="wrong in both"),
])  # fmt: skip
def test_only_what_holds_infinities_is_asked_again_in_exact_numerics(
    numbers: str, lies: list[str], found: set[str], evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = parse(f"excess_precision()\nv0 = f32([2], [{numbers}])\nv1 = aten.neg.default(v0)\noutputs(v1)\n")
    honest = three_ways.plugin

    def plugin(trace: bytes, inputs: list[torch.Tensor], numerics: str) -> list[torch.Tensor | None]:
        outputs = honest(trace, inputs, numerics)
        return [x if x is None else x + (numerics in lies) for x in outputs]

    monkeypatch.setattr(three_ways, "plugin", plugin)
    assert {c.who for c in complaints(program, evaluator)} == found


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("aten.floor.default(v1)", "makes much of a rounding"),
        ("aten.lt.Tensor(v1, v2)", "jumps"),
        ("aten.reciprocal.default(v3)", "is large|finite"),
        ("aten.add.Tensor(v1, v4)", "PyTorch"),
    ],
)
def test_steps_that_nobody_would_agree_on_are_rejected(line: str, why: str) -> None:
    # v1 and v2 are 3 but for roundings, v3 is 0 but for them.
    program = parse(
        f"""
v0 = f32([3], [0.3])
v1 = aten.mul.Scalar(v0, 10)
v2 = aten.add.Scalar(v1, 0)
v3 = aten.sub.Tensor(v2, v1)
v4 = f32([2], [1.0])
v5 = {line}
outputs(v5)
"""
    )
    with pytest.raises(Rejected, match=why):
        run(program)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        pytest.param(
            """
v0 = f32([9], [1.0])
v1 = aten.select.int(v0, 0, 2)
v2 = f32([2, 3], [0.5])
v3 = aten.huber_loss.out(v2, v2, out=v1)
outputs(v0)
""",
            "beside what it is given",
            id="beside",
        ),
        pytest.param(
            """
v0 = f32([3], [-2.0, 0.5, -1.5])
v1 = f32([3], [0.0, 1.0, 0.0])
v2 = aten.mul.Tensor(v0, v1)
v3 = aten.signbit.default(v2)
outputs(v3)
""",
            "jumps",
            id="sign",
        ),
    ],
)
def test_what_pytorch_or_xla_make_of_it_is_rejected(source: str, why: str) -> None:
    with pytest.raises(Rejected, match=why):
        run(parse(source))


def test_what_an_overload_writes_by_right_is_not_taken_for_more() -> None:
    program = parse(
        """
v0 = f32([9], [1.0, nan])
v1 = aten.slice.Tensor(v0, 0, 1, 9, 3)
v2 = f32([3], [0.5])
v3 = aten.add.out(v2, v2, out=v1)
outputs(v0)
"""
    )
    assert run(program).steps == 2


def test_an_overload_that_writes_to_out_as_if_it_were_dense_is_rejected() -> None:
    op, x = torch.ops.aten.narrow_copy.out, torch.arange(10.0).reshape(5, 2)
    generator = Generator(0)
    dense, turned = generator.input(torch.zeros(3, 2)), generator.input(torch.zeros(2, 3).t())
    generator.check_out(op, ([x, 0, 1, 3], {}), [x[1:4]], {"out": dense})
    with pytest.raises(Rejected):
        generator.check_out(op, ([x, 0, 1, 3], {}), [x[1:4]], {"out": turned})
