"""Real models as `.pt2` archives, lowered and run by `tputc` with no Python in its process.

`TPUTC` names the binary; without it, the one that `make setup` leaves next to the interpreter. With
`TORCHTPU_TEST_BACKEND` set to one of PyTorch's own backends, `torch.export.load` runs the archives instead, which shows
that they and the files around them are sound.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import BACKEND
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from zoo import ZOO, Entry

TPUTC = os.environ.get("TPUTC", str(Path(sys.executable).with_name("tputc")))
TIMEOUT_SECONDS = 120

every_model = pytest.mark.parametrize("entry", ZOO.values(), ids=ZOO.keys())


def tputc(*arguments: str | Path) -> str:
    """What `tputc` prints. A non-zero exit status fails the test with what it said."""
    command = [TPUTC, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert done.returncode == 0, f"{' '.join(command)} gave {done.returncode}:\n{done.stderr}"
    return done.stdout


def export(model: nn.Module, inputs: dict[str, Tensor], archive: Path, **options: Any) -> None:
    """Saves `model`. The archive's inputs carry the names of the keyword arguments, which `tputc run` asks for."""
    program = torch.export.export(model, (), inputs, **options)
    assert set(program.graph_signature.user_inputs) == set(inputs)
    torch.export.save(program, archive)


def run(archive: Path, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Outputs by name, `out.0` first, through files as a user of `tputc` passes them."""
    given, results = archive.with_name("in.safetensors"), archive.with_name("out.safetensors")
    save_file({name: value.contiguous() for name, value in inputs.items()}, given)
    if BACKEND == "torchtpu":
        tputc("run", archive, "--inputs", given, "-o", results)
    else:
        save_file(outputs_of(torch.export.load(archive).module(), load_file(given)), results)
    return load_file(results)


def outputs_of(model: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that `model` returns, named by their place among all its outputs."""
    with torch.no_grad():
        leaves = pytree.tree_leaves(model(**inputs))
    return {f"out.{place}": leaf.contiguous() for place, leaf in enumerate(leaves) if isinstance(leaf, Tensor)}


@every_model
def test_inference(entry: Entry, tmp_path: Path) -> None:
    model, inputs = entry.build().eval(), entry.batch().inputs
    archive = tmp_path / "model.pt2"
    export(model, inputs, archive)
    torch.testing.assert_close(run(archive, inputs), outputs_of(model, inputs))


# With another backend, which shows that tests are sound, `torch.export.load` runs archives, and looks at no checksum.
@pytest.mark.skipif(BACKEND != "torchtpu", reason="needs tputc; torch.export.load does not look")
@pytest.mark.parametrize("view", [False, True], ids=["whole", "part"])
def test_a_damaged_weight_is_refused(view: bool, tmp_path: Path) -> None:
    model = nn.Linear(8, 4)
    if view:  # of a storage that holds more
        model.weight = nn.Parameter(torch.randn(4, 16)[:, 4:12])
    archive = tmp_path / "model.pt2"
    export(model, {"input": torch.ones(2, 8)}, archive)
    assert "out.0: f32[2, 4]" in tputc("run", archive, "--random", "0")
    weight = model.weight.detach().contiguous().numpy().tobytes()[:16]  # the first elements
    damaged = bytearray(archive.read_bytes())
    damaged[damaged.index(weight) + 5] ^= 1
    archive.write_bytes(damaged)
    done = subprocess.run([TPUTC, "run", archive, "--random", "0"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and not done.stdout
    assert "the bytes of `weight` are not those that were written" in done.stderr


# Another backend, which these tests can be pointed at, has no CLI to give values to.
@pytest.mark.skipif(BACKEND != "torchtpu", reason="needs tputc")
def test_parameters_that_are_given_take_the_place_of_the_archives(tmp_path: Path) -> None:
    model, x, archive = nn.Linear(8, 4), torch.randn(2, 8), tmp_path / "model.pt2"
    export(model, {"input": x}, archive)
    other = {"input": x, "weight": torch.randn(4, 8)}
    wanted = {"out.0": nn.functional.linear(x, other["weight"], model.bias).detach()}
    torch.testing.assert_close(run(archive, other), wanted)
    for wrong, says in (
        ({"wieght": other["weight"]}, "no input `wieght`: the nearest are `weight`"),
        ({"p_weight": other["weight"]}, "no input `p_weight`: the nearest are `weight`"),
        ({"weight": torch.randn(4, 7)}, "weight"),
        ({"weight": torch.randn(4, 8).double()}, "weight"),
    ):
        save_file({"input": x} | wrong, tmp_path / "in.safetensors")
        command = [TPUTC, "run", archive, "--inputs", tmp_path / "in.safetensors"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "") and says in done.stderr


# Another backend, which these tests can be pointed at, has no CLI to give values to.
@pytest.mark.skipif(BACKEND != "torchtpu", reason="needs tputc")
def test_a_value_for_what_export_fixed_is_refused(tmp_path: Path) -> None:
    class Scaled(nn.Module):
        def forward(self, x: Tensor, times: int) -> Tensor:
            return x * times

    x, archive = torch.randn(2, 8), tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Scaled(), (x, 3)), archive)
    torch.testing.assert_close(run(archive, {"x": x}), {"out.0": x * 3})
    save_file({"x": x, "times": torch.tensor(4)}, tmp_path / "in.safetensors")
    command = [TPUTC, "run", archive, "--inputs", tmp_path / "in.safetensors"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "input `times` takes no value: it is fixed to 3" in done.stderr


@every_model
@pytest.mark.skipif(BACKEND != "torchtpu", reason="needs tputc")
def test_lower(entry: Entry, tmp_path: Path) -> None:
    """StableHLO text, the same bytes each time."""
    archive = tmp_path / "model.pt2"
    export(entry.build().eval(), entry.batch().inputs, archive)
    text = tputc("lower", archive)
    assert "module" in text
    assert "stablehlo." in text
    assert text == tputc("lower", archive)


@pytest.mark.parametrize("name", ["cnn", "resnet50"])
def test_training_mode(name: str, tmp_path: Path) -> None:
    """A raw export is not functional: batch norm writes its statistics, activations work in place."""
    entry = ZOO[name]
    inputs = entry.batch().inputs
    archive = tmp_path / "model.pt2"
    export(entry.build(), inputs, archive)
    torch.testing.assert_close(run(archive, inputs), outputs_of(entry.build(), inputs))


@pytest.mark.parametrize("rows", [2, 6, 9])
def test_dynamic_batch(rows: int, tmp_path: Path) -> None:
    """The inputs decide a symbolic size."""
    entry = ZOO["mlp"]
    model, inputs = entry.build().eval(), entry.batch().inputs
    archive = tmp_path / "model.pt2"
    export(model, inputs, archive, dynamic_shapes={"x": {0: torch.export.Dim("rows", min=2, max=64)}})
    resized = {"x": torch.randn(rows, inputs["x"].shape[1])}
    torch.testing.assert_close(run(archive, resized), outputs_of(model, resized))


class Stale(nn.Module):
    """Writes to what it has taken a part of in a graph within its graph."""

    def forward(self, x: Tensor, i: int) -> Tensor:
        with torch.no_grad():
            part = x[i : i + 3]
        x.add_(1)
        return part * 2 + x[i]


# Another backend, which these tests can be pointed at, has no CLI to give a size to.
@pytest.mark.skipif(BACKEND != "torchtpu", reason="needs tputc, which is told `i`")
def test_a_part_sees_what_is_written_around_its_graph(tmp_path: Path) -> None:
    archive, results = tmp_path / "model.pt2", tmp_path / "out.safetensors"
    program = torch.export.export(Stale(), (torch.ones(9, 4), 3), dynamic_shapes=(None, torch.export.Dim.DYNAMIC))
    torch.export.save(program, archive)
    *_, i = program.graph.find_nodes(op="placeholder")
    x = torch.randn(9, 4)
    save_file({"x": x}, tmp_path / "in.safetensors")
    tputc("run", archive, "--dim", f"{i.meta['val']}=5", "--inputs", tmp_path / "in.safetensors", "-o", results)
    torch.testing.assert_close(load_file(results)["out.0"], Stale()(x.clone(), 5))


class Solver(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.linalg.inv(x), torch.linalg.solve(x, y)


def test_checks_of_values_are_left_out(tmp_path: Path) -> None:
    """Decomposed, `inv` and `solve` check what they got: `torch.export` threads an effect token through them."""
    inputs = {"x": torch.eye(3) * 2 + torch.ones(3, 3), "y": torch.arange(6.0).reshape(3, 2)}
    program = torch.export.export(Solver(), (), inputs).run_decompositions()
    assert any(
        spec.kind is torch.export.graph_signature.InputKind.TOKEN for spec in program.graph_signature.input_specs
    )
    archive = tmp_path / "model.pt2"
    torch.export.save(program, archive)
    torch.testing.assert_close(run(archive, inputs), outputs_of(Solver(), inputs))


WHOLE = {
    "rfft": lambda x: torch.fft.irfft(torch.fft.rfft(x, norm="ortho") * 2, n=4, norm="ortho"),
    "stft": lambda x: torch.stft(x.flatten(), 8, window=torch.hann_window(8), return_complex=True).abs(),
    "inv": torch.linalg.inv,
    "slogdet": lambda x: torch.linalg.slogdet(x).logabsdet,
    "matrix_norm": lambda x: torch.linalg.matrix_norm(x, "nuc"),
    "quantile": lambda x: torch.quantile(x, 0.3, dim=1),
    "triplet": lambda x: nn.functional.triplet_margin_loss(x, x + 1, x * 2),
    "trapezoid": lambda x: torch.trapezoid(x, dx=0.5),
}


class Whole(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        return WHOLE[self.name](x)


@pytest.mark.parametrize("name", WHOLE)
def test_ops_that_an_export_keeps_whole(name: str, tmp_path: Path) -> None:
    inputs = {"x": torch.eye(4) * 3 + torch.arange(16.0).reshape(4, 4) / 8}
    archive = tmp_path / "model.pt2"
    export(Whole(name), inputs, archive)
    torch.testing.assert_close(run(archive, inputs), outputs_of(Whole(name), inputs))
