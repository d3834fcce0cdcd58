"""Tensors of device "tpu" in files, in copies, in other processes and in other threads."""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchtpu
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def saved(value: Any, path: Path) -> Path:
    torch.save(value, path)
    return path


@pytest.mark.parametrize(
    ("location", "device"),
    [
        (None, "tpu:1"),
        ("cpu", "cpu"),
        ("tpu", "tpu:0"),
        ("tpu:2", "tpu:2"),
        (torch.device("tpu", 2), "tpu:2"),
        ({"tpu:1": "tpu:0"}, "tpu:0"),
        ({"tpu:1": "cpu"}, "cpu"),
        (lambda storage, location: storage, "cpu"),
        (lambda storage, location: storage.tpu(2), "tpu:2"),
        (lambda storage, location: None, "tpu:1"),
    ],
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_loading_to_a_place(tmp_path: Path, location: Any, device: str, weights_only: bool) -> None:
    base = torch.arange(12.0, device="tpu:1")
    path = saved({"whole": base, "view": base.reshape(3, 4).t()[1:3]}, tmp_path / "f.pt")
    loaded = torch.load(path, map_location=location, weights_only=weights_only)
    assert loaded["whole"].device == loaded["view"].device == torch.device(device)
    assert torch.equal(loaded["view"].cpu(), torch.arange(12.0).reshape(3, 4).t()[1:3])
    loaded["whole"][1] = -1
    assert loaded["view"][0, 0].item() == -1, "views of one storage stay so"


@pytest.mark.parametrize("location", [None, "cpu", "tpu"])
def test_loading_mapped_files(tmp_path: Path, location: str | None) -> None:
    path = saved(torch.arange(5.0, device="tpu"), tmp_path / "f.pt")
    assert torch.load(path, map_location=location, mmap=True).tolist() == [0, 1, 2, 3, 4]


def test_a_cpu_checkpoint_goes_to_the_device(tmp_path: Path) -> None:
    path = saved(nn.Linear(2, 2).state_dict(), tmp_path / "f.pt")
    with torch.device("tpu"):
        model = nn.Linear(2, 2)
    model.load_state_dict(torch.load(path, map_location="tpu"))
    assert torch.equal(model.weight.cpu(), torch.load(path)["weight"])


def test_safetensors(tmp_path: Path) -> None:
    x, path = torch.arange(6.0, device="tpu").reshape(2, 3), tmp_path / "f.safetensors"
    save_file({"x": x}, path)
    assert load_file(path)["x"].tolist() == x.tolist()
    on_device = load_file(path, device=0)["x"]  # safetensors takes no names of devices that it does not know
    assert on_device.device == torch.device("tpu", 0) and torch.equal(on_device, x)
    with pytest.raises(SafetensorError, match="device tpu is invalid"):
        load_file(path, device="tpu")
    model = nn.Linear(2, 2).to("tpu")
    save_model(model, str(path))
    again = nn.Linear(2, 2).to("tpu")
    load_model(again, path)
    assert torch.equal(model.weight, again.weight)


def test_other_libraries_get_copies_on_the_host() -> None:
    x = torch.arange(6.0, device="tpu")
    for export in (x.__dlpack__, lambda: x.__dlpack__(max_version=(1, 0)), lambda: np.from_dlpack(x)):
        with pytest.raises(BufferError, match=r"on tpu:0 has no memory that another library can read.*Tensor.cpu\(\)"):
            export()
    assert np.from_dlpack(x[2:], device="cpu").tolist() == [2, 3, 4, 5]
    with pytest.raises(ValueError, match="without copying"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    assert torch.from_dlpack(x.cpu()).tolist() == x.tolist()
    elsewhere = torch.ones(2, device="tpu:1")
    assert torch.from_dlpack(torch.utils.dlpack.to_dlpack(elsewhere)).device == elsewhere.device
    with pytest.raises(RuntimeError, match="does not belong to the device"):
        torch.from_dlpack(torch.utils.dlpack.to_dlpack(x[2:])).tolist()


def test_copies_and_pickles() -> None:
    x = torch.arange(4.0, device="tpu")
    pair = (x, x.view(2, 2))
    for made in (copy.deepcopy(pair), pickle.loads(pickle.dumps(pair))):
        assert made[0].device == x.device and made[1].tolist() == [[0, 1], [2, 3]]
    made = copy.deepcopy(pair)
    made[0][0] = 9
    assert made[1][0, 0].item() == 9 and x[0].item() == 0, "copies of views of one storage share another"
    parameter = pickle.loads(pickle.dumps(nn.Parameter(x)))
    assert isinstance(parameter, nn.Parameter) and parameter.requires_grad
    buffer = io.BytesIO()
    torch.save(x, buffer, _use_new_zipfile_serialization=False)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer), x)


def test_masks_of_copies_and_over_copies() -> None:
    x, mask = torch.arange(3.0, device="tpu"), torch.tensor([True, False, True], device="tpu")
    assert copy.deepcopy(x)[mask].tolist() == x[copy.deepcopy(mask)].tolist() == [0, 2]


# --- processes --------------------------------------------------------------------------------------------------------


def _double(x: bytes, connection: Any) -> None:
    connection.send(pickle.dumps(pickle.loads(x) * 2))


def test_tensors_travel_to_spawned_processes() -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_double, args=(pickle.dumps(torch.arange(3.0, device="tpu")), there))
    process.start()
    result = pickle.loads(here.recv())
    process.join()
    assert result.is_tpu and result.tolist() == [0, 2, 4]


def in_fork(body: str) -> str:
    """What a process prints that uses the device, forks, and does `body` in the child."""
    script = f"""
import os, sys, torch
x = torch.ones(2, device="tpu")
if (pid := os.fork()) == 0:
    try:
        {body}
    except RuntimeError as error:
        print(error)
    del x
    sys.stdout.flush()
    os._exit(0)
os.waitpid(pid, 0)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=os.environ)
    return run.stdout


@pytest.mark.parametrize("body", ["x + 1", "torch.ones(2).to('tpu')", "print(x)", "torch.tpu.synchronize()"])
def test_a_fork_may_not_use_the_device(body: str) -> None:
    assert "use the 'spawn' start method" in in_fork(body)


def test_a_fork_may_compute_on_the_cpu() -> None:
    assert in_fork("torch.manual_seed(0); print(torch.ones(2).sum().item())") == "2.0\n"


def test_batches_from_worker_processes() -> None:
    torch.ones(1, device="tpu")  # the workers are forks of a process that uses the device
    data = TensorDataset(torch.arange(8.0))
    batches = [x.to("tpu", non_blocking=True).sum().item() for (x,) in DataLoader(data, batch_size=4, num_workers=2)]
    assert batches == [6.0, 22.0]


@pytest.mark.parametrize(
    "value", [lambda: torch.ones(2, device="tpu"), lambda: nn.Linear(2, 2).to("tpu")], ids=["tensor", "module"]
)
def test_tensors_are_not_sent_to_other_processes(value: Callable[[], Any]) -> None:
    with pytest.raises(
        torchtpu.Error, match=r"a tensor on tpu:0 cannot be sent to another process; send Tensor.cpu\(\)"
    ):
        ForkingPickler.dumps(value())
    ForkingPickler.dumps(value().cpu())
