"""What a user's mistakes look like on device "tpu", how debug mode finds them, and what is counted."""

from __future__ import annotations

import asyncio
import inspect
import io
import math
import os
import re
import subprocess
import sys
import threading
import traceback
import unittest.mock
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchtpu
from torch import Tensor, nn
from torchtpu import device as tpu
from torchtpu.backend import Options

HERE = re.escape(__file__)


def error(call: Callable[..., Any], device: str) -> Exception:
    with pytest.raises(Exception) as caught:
        call(device)
    return caught.value


# --- numbers that PyTorch refuses, after others that it does not ----------------------------------------------------

NUMBERS: dict[str, tuple[Callable[[Tensor, Any], Any], Any, Any]] = {
    "softshrink": (F.softshrink, 0.5, -1.0),
    "normal_": (lambda x, n: x.normal_(0, n), 0.5, -1.0),
    "uniform_": (lambda x, n: x.uniform_(-1.5, n), 0.5, -2.0),
    "exponential_": (lambda x, n: x.exponential_(n), 0.5, -1.0),
    "geometric_": (lambda x, n: x.geometric_(n), 0.5, 2.0),
    "bernoulli_": (lambda x, n: x.bernoulli_(n), 0.6, 2.0),
    "cauchy_": (lambda x, n: x.cauchy_(0, n), 0.5, -1.0),
    "log_normal_": (lambda x, n: x.log_normal_(0, n), 0.5, -1.0),
    "native_dropout": (lambda x, n: torch.native_dropout(x, n, True), 0.3, 2.0),
    "huber_loss": (lambda x, n: F.huber_loss(x, x + 1, delta=n), 0.5, -1.0),
    "smooth_l1_loss": (lambda x, n: F.smooth_l1_loss(x, x + 1, beta=n), 0.5, -1.0),
    "integer power": (lambda x, n: x.int() ** n, 4, -1),
    "fill_": (lambda x, n: x.to(torch.uint8).fill_(n), 3, 300),
    "masked_fill": (lambda x, n: x.to(torch.int8).masked_fill(x > 0, n), 3, -129),
    "full": (lambda x, n: torch.full((2,), n, dtype=torch.int32, device=x.device), 3, 2**40),
    "add": (lambda x, n: torch.add(x.half(), x.half(), alpha=n), 0.5, 1e5),
    "sub": (lambda x, n: torch.sub(x.to(torch.int8), x.to(torch.int8), alpha=n), 3, 300),
    "clamp": (lambda x, n: x.clamp(max=n), 0.5, 1e300),
    "clamp_min": (lambda x, n: x.bfloat16().clamp_min(n), 0.5, 3.4e38),
    "hardtanh": (lambda x, n: F.hardtanh(x, -1, n), 0.5, 1e300),
    "threshold": (lambda x, n: F.threshold(x.half(), 1, n), 0.5, 1e5),
    "hardshrink": (lambda x, n: F.hardshrink(x.half(), n), 0.5, 1e5),
    "leaky_relu": (F.leaky_relu, 0.5, 1e300),
    "elu": (F.elu, 0.5, 1e300),
    "softplus": (F.softplus, 0.5, 1e300),
    "index_fill": (lambda x, n: x.index_fill(0, torch.tensor([1], device=x.device), n), 0.5, 1e300),
    "scatter": (lambda x, n: x.scatter(0, torch.tensor([1], device=x.device), n), 0.5, 1e300),
    "full, f16": (lambda x, n: torch.full((2,), n, dtype=torch.float16, device=x.device), 3.0, 1e6),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_refused_however_often_the_op_ran_with_others(name: str) -> None:
    call, good, bad = NUMBERS[name]

    def refusal(device: str) -> str:
        x = torch.linspace(0, 2, 6).to(device)
        for share in (1, 0.75, 0.5):
            call(x.clone(), good * share if isinstance(good, float) else good + int(4 * share))
        return str(error(lambda _: call(x.clone(), bad), device))

    assert refusal("tpu") == refusal("cpu")


def test_a_power_is_computed_as_its_exponent_asks() -> None:
    x = torch.linspace(-3, 3, 101)
    for exponent in (2.5, 2.0, 3, 4, 0.5, 2, -1.0, 0.0, 1.5, -2):
        torch.testing.assert_close((x.to("tpu") ** exponent).cpu(), x**exponent, equal_nan=True)
    assert torch.equal((x.to("tpu") ** 2.0).cpu(), x * x), "as a product, which the general formula rounds otherwise"


# --- in PyTorch's words -----------------------------------------------------------------------------------------------


def ones(device: str, *sizes: int, **kwargs: Any) -> Tensor:
    return torch.ones(*sizes, device=device, **kwargs)


def leaf(device: str) -> Tensor:
    return ones(device, 2, requires_grad=True)


def places(device: str, *values: int) -> Tensor:
    return torch.tensor(values, device=device)


def twice(y: Tensor) -> None:
    y.backward()
    y.backward()


# With the same words, class and traceback as on the CPU.
MISTAKES: dict[str, Callable[[str], Any]] = {
    "add": lambda d: ones(d, 2, 3) + ones(d, 4),
    "add_": lambda d: ones(d, 3).add_(ones(d, 2, 3)),
    "matmul": lambda d: ones(d, 2, 3) @ ones(d, 2, 3),
    "mm": lambda d: torch.mm(ones(d, 2, 3), ones(d, 2, 3)),
    "mm dims": lambda d: torch.mm(ones(d, 2, 3, 1), ones(d, 2, 3)),
    "bmm": lambda d: torch.bmm(ones(d, 2, 3, 4), ones(d, 2, 3, 4)),
    "mv": lambda d: ones(d, 2, 3) @ ones(d, 4),
    "dot": lambda d: torch.dot(ones(d, 3), ones(d, 4)),
    "addmm": lambda d: torch.addmm(ones(d, 5), ones(d, 2, 3), ones(d, 3, 4)),
    "linear": lambda d: nn.Linear(3, 2).to(d)(ones(d, 2, 4)),
    "linear 3d": lambda d: nn.Linear(3, 2).to(d)(ones(d, 2, 2, 4)),
    "linear dtype": lambda d: nn.Linear(3, 2).to(d)(ones(d, 2, 3, dtype=torch.float64)),
    "linear half": lambda d: nn.Linear(3, 2).to(d)(ones(d, 2, 3, dtype=torch.bfloat16)),
    "matmul dtype": lambda d: ones(d, 2, 2) @ ones(d, 2, 2, dtype=torch.float64),
    "bmm dtype": lambda d: torch.bmm(ones(d, 2, 2, 2), ones(d, 2, 2, 2, dtype=torch.long)),
    "conv dtype": lambda d: nn.Conv2d(3, 2, 3).to(d)(ones(d, 1, 3, 8, 8, dtype=torch.float64)),
    "cat": lambda d: torch.cat([ones(d, 2, 3), ones(d, 3, 2)]),
    "cat dims": lambda d: torch.cat([ones(d, 2, 3), ones(d, 3)]),
    "cat dim": lambda d: torch.cat([ones(d, 2, 3), ones(d, 3, 3)], 2),
    "stack": lambda d: torch.stack([ones(d, 2, 3), ones(d, 3, 2)]),
    "view": lambda d: ones(d, 6).view(4),
    "view stride": lambda d: ones(d, 2, 3).t().view(6),
    "reshape": lambda d: ones(d, 6).reshape(4, -1),
    "expand": lambda d: ones(d, 2, 3).expand(4, 3),
    "transpose": lambda d: ones(d, 2, 3).transpose(0, 2),
    "permute": lambda d: ones(d, 2, 3).permute(0, 0),
    "squeeze": lambda d: ones(d, 2, 3).squeeze(5),
    "sum dim": lambda d: ones(d, 2, 3).sum(2),
    "softmax dim": lambda d: ones(d, 2, 3).softmax(2),
    "argmax empty": lambda d: ones(d, 0).argmax(),
    "max empty": lambda d: ones(d, 0).max(),
    "conv channels": lambda d: nn.Conv2d(3, 2, 3).to(d)(ones(d, 1, 4, 8, 8)),
    "conv small": lambda d: nn.Conv2d(3, 2, 9).to(d)(ones(d, 1, 3, 4, 4)),
    "conv dims": lambda d: nn.Conv2d(3, 2, 3).to(d)(ones(d, 3)),
    "max_pool": lambda d: F.max_pool2d(ones(d, 1, 1, 2, 2), 5),
    "targets": lambda d: F.cross_entropy(ones(d, 2, 3), places(d, 0, 0, 0)),
    "targets dtype": lambda d: F.cross_entropy(ones(d, 2, 3), torch.zeros(2, dtype=torch.int32, device=d)),
    "nll dims": lambda d: F.nll_loss(ones(d, 2, 3), ones(d, 2, 3)),
    "bce": lambda d: F.binary_cross_entropy(ones(d, 2), ones(d, 3)),
    "bce logits": lambda d: F.binary_cross_entropy_with_logits(ones(d, 2), ones(d, 3)),
    "layer_norm": lambda d: nn.LayerNorm(4).to(d)(ones(d, 2, 3)),
    "batch_norm": lambda d: nn.BatchNorm1d(3).to(d)(ones(d, 1, 3)),
    "batch_norm n": lambda d: nn.BatchNorm1d(4).to(d)(ones(d, 2, 3)),
    "embedding dtype": lambda d: nn.Embedding(3, 2).to(d)(ones(d, 2)),
    "index dtype": lambda d: ones(d, 3)[ones(d, 2)],
    "mask shape": lambda d: ones(d, 3)[ones(d, 2, dtype=torch.bool)],
    "index shapes": lambda d: ones(d, 3, 3)[places(d, 0, 0), places(d, 0, 0, 0)],
    "indices": lambda d: ones(d, 3)[0, 0],
    "select": lambda d: ones(d, 2)[5],
    "setitem": lambda d: ones(d, 3).__setitem__(slice(0, 2), ones(d, 3)),
    "gather dtype": lambda d: ones(d, 3).gather(0, ones(d, 2)),
    "gather dims": lambda d: ones(d, 3).gather(0, torch.zeros(2, 2, dtype=torch.long, device=d)),
    "index_select": lambda d: ones(d, 3).index_select(0, torch.zeros(2, 2, dtype=torch.long, device=d)),
    "scatter dtype": lambda d: ones(d, 3).scatter(0, places(d, 0, 0), ones(d, 2, dtype=torch.float64)),
    "where": lambda d: torch.where(ones(d, 2, dtype=torch.bool), ones(d, 3), ones(d, 3)),
    "where cond": lambda d: torch.where(ones(d, 2), ones(d, 2), ones(d, 2)),
    "item": lambda d: ones(d, 2, 3).item(),
    "truth": lambda d: bool(ones(d, 2)),
    "inplace type": lambda d: ones(d, 2, dtype=torch.long).add_(1.5),
    "inplace div": lambda d: ones(d, 2, dtype=torch.long).div_(2),
    "leaf": lambda d: leaf(d).add_(1),
    "leaf fill": lambda d: leaf(d).zero_(),
    "leaf view": lambda d: leaf(d)[:1].zero_(),
    "backward twice": lambda d: twice(leaf(d).exp().sum()),
    "backward vector": lambda d: leaf(d).exp().backward(),
    "no grad": lambda d: ones(d, 2).sum().backward(),
    "int grad": lambda d: ones(d, 2, dtype=torch.long).requires_grad_(),
    "grad shape": lambda d: leaf(d).exp().backward(ones(d, 3)),
    "expanded write": lambda d: ones(d, 1).expand(3).add_(1),
    "einsum": lambda d: torch.einsum("ij,jk->ik", ones(d, 2, 3), ones(d, 2, 3)),
    "sdpa": lambda d: F.scaled_dot_product_attention(ones(d, 1, 2, 3), ones(d, 1, 2, 4), ones(d, 1, 2, 4)),
    "load_state_dict": lambda d: nn.Linear(3, 2).to(d).load_state_dict(nn.Linear(4, 2).to(d).state_dict()),
    "split": lambda d: ones(d, 5).split([2, 2]),
    "topk": lambda d: ones(d, 2).topk(5),
    "cholesky": lambda d: torch.linalg.cholesky(-torch.eye(2, device=d)),
    "inv": lambda d: torch.linalg.inv(ones(d, 2, 2)),
    "inv shape": lambda d: torch.linalg.inv(ones(d, 2, 3)),
    "repeat": lambda d: ones(d, 2, 3).repeat(2),
    "unfold": lambda d: ones(d, 2).unfold(0, 3, 1),
    "set dtype": lambda d: ones(d, 3).view(torch.float64),
    "multinomial": lambda d: torch.multinomial(ones(d, 2), 5),
    "randint": lambda d: torch.randint(5, 5, (2,), device=d),
    "group_norm": lambda d: nn.GroupNorm(2, 4).to(d)(ones(d, 2, 3, 2)),
    "lstm": lambda d: nn.LSTM(3, 2).to(d)(ones(d, 2, 2, 4)),
    "mha": lambda d: nn.MultiheadAttention(4, 2).to(d)(ones(d, 2, 2, 6), ones(d, 2, 2, 6), ones(d, 2, 2, 6)),
    "cross two": lambda d: torch.cross(ones(d, 2, 2), ones(d, 2, 2), dim=1),
    "fold": lambda d: ones(d, 2, 3).flatten(1, 0),
    "masked_fill": lambda d: ones(d, 2).masked_fill(ones(d, 2), 1),
    "clamp none": lambda d: ones(d, 2).clamp(),
    "softmax of integers": lambda d: ones(d, 2, dtype=torch.long).softmax(0),
    "difference of masks": lambda d: ones(d, 2, dtype=torch.bool) - ones(d, 2, dtype=torch.bool),
    "mean of integers": lambda d: ones(d, 2, dtype=torch.long).mean(),
    "product of masks": lambda d: ones(d, 2, 2, dtype=torch.bool) @ ones(d, 2, 2, dtype=torch.bool),
    "amax of nothing": lambda d: ones(d, 0, 2).amax(0),
    "median of nothing": lambda d: ones(d, 0, 2).median(0),
}

# Theirs, where PyTorch's CPU has other words.
OTHER_WORDS: dict[str, tuple[Callable[[str], Any], str]] = {
    "bits of floats": (
        lambda d: ones(d, 2) & ones(d, 2),
        """NotImplementedError: "bitwise_and" not implemented for 'Float'""",
    ),
    "out": (
        lambda d: torch.add(ones(d, 2), ones(d, 2), out=ones(d, 2, dtype=torch.long)),
        "RuntimeError: Attempting to cast from torch.float32 to out tensor with dtype torch.int64, but this can't be "
        "cast because it is not safe!",
    ),
    "steps of ranges": (
        lambda d: torch.arange(0, 5, -1, device=d),
        "RuntimeError: upper bound and lower bound inconsistent with step sign",
    ),
    "numpy": (
        lambda d: ones(d, 2).numpy(),
        "TypeError: can't convert tpu:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
        "memory first.",
    ),
    "two devices": (
        lambda d: ones(d, 2) + torch.ones(2),
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, tpu:0 and cpu!",
    ),
    "a batch left on the host": (
        lambda d: nn.Linear(3, 2).to(d)(torch.ones(2, 3)),
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, tpu:0 and cpu!",
    ),
    "another of the devices": (
        lambda d: ones(d, 2) @ ones("tpu:1", 2),
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, tpu:0 and tpu:1!",
    ),
    "no such device": (lambda d: ones("tpu:77", 2), "RuntimeError: there is no device tpu:77; there are 4"),
    "an accelerator that is not there": (
        lambda d: torch.load(_saved_on("cuda:0")),
        "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If "
        "you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map "
        "your storages to the CPU.",
    ),
}


def _saved_on(device: str) -> io.BytesIO:
    """A checkpoint that says it was saved on `device`."""
    file = io.BytesIO()
    with unittest.mock.patch("torch.serialization.location_tag", lambda storage: device):
        torch.save(torch.ones(2), file)
    file.seek(0)
    return file


def rendered(error: Exception) -> str:
    """What the interpreter prints, with the user's line in this file."""
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("mode", ["strict", "debug"])
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_read_as_on_the_cpu(name: str, mode: str) -> None:
    with torchtpu.eager_mode(mode):
        ours, theirs = (rendered(error(MISTAKES[name], device)) for device in ("tpu", "cpu"))
    assert ours == theirs
    assert re.search(rf'File "{HERE}", line \d+, in <lambda>', ours)


@pytest.mark.parametrize("name", OTHER_WORDS)
def test_mistakes_with_words_of_their_own(name: str) -> None:
    call, expected = OTHER_WORDS[name]
    ours = rendered(error(call, "tpu"))
    assert ours.splitlines()[-1] == expected
    assert re.search(rf'File "{HERE}", line \d+, in <lambda>', ours)


def test_out_of_memory_names_the_holders() -> None:
    keep = torch.ones(1 << 20, device="tpu")
    line = keep.numel() and sys._getframe().f_lineno - 1
    for elements in (1 << 38, 1 << 42):  # more than there is, and more than there are addresses for
        with pytest.raises(torch.OutOfMemoryError) as caught:
            torch.ones(elements, dtype=torch.int8, device="tpu")
        assert re.search(rf"largest holders.*\n.*4194304 bytes in 1 tensors.*{HERE}:{line}", str(caught.value))
    assert (keep + 1)[0].item() == 2, "the process goes on"


# --- errors that come later -------------------------------------------------------------------------------------------


def too_large() -> Tensor:
    """A quarter of a terabyte, which the plugin refuses when it gets there."""
    column = torch.ones(1 << 18, 1, device="tpu")
    return column + column.t()


WAITS: dict[str, Callable[[Tensor], Any]] = {
    "synchronize": lambda y: torch.tpu.synchronize(),
    "item": lambda y: y[0, 0].item(),
    "cpu": lambda y: y[:1].cpu(),
    "event": lambda y: torch.tpu.current_stream().synchronize(),
}


@pytest.mark.parametrize("wait", WAITS)
def test_failures_come_with_the_op_and_the_line_that_issued_it(wait: str) -> None:
    torch.tpu.synchronize()
    x = torch.arange(4.0, device="tpu")
    with pytest.raises(torch.OutOfMemoryError) as caught:
        WAITS[wait](too_large())
    line = too_large.__code__.co_firstlineno + 3
    assert re.search(rf"in aten::add\.Tensor, called at {HERE}:{line}\)", str(caught.value))
    assert "c10::" not in str(caught.value)
    torch.tpu.synchronize()
    assert (x + 1).tolist() == [1, 2, 3, 4], "the process goes on"


OTHER_LAYOUTS: dict[str, Callable[[], Any]] = {
    "to_sparse": lambda: rows("tpu").to_sparse(),
    "to_sparse_csr": lambda: rows("tpu").to_sparse_csr(),
    "sparse_coo_tensor": lambda: torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), device="tpu"),
    "moved": lambda: rows("cpu").to_sparse().to("tpu"),
    "used": lambda: rows("cpu").to_sparse_csr().to("tpu") @ rows("tpu").T,
    "embedding": lambda: F.embedding(places("tpu", 0, 1), rows("tpu").requires_grad_(), sparse=True).sum().backward(),
    "nested": lambda: torch.nested.nested_tensor([rows("tpu")]),
    "nested and trained": lambda: torch.nested.nested_tensor([rows("tpu")], requires_grad=True),
    "nested of what is trained": lambda: torch.nested.as_nested_tensor([rows("tpu").requires_grad_()]),
    "nested and moved": lambda: torch.nested.nested_tensor([rows("cpu")]).to("tpu"),
    "nested, trained and moved": lambda: torch.nested.nested_tensor([rows("cpu")], requires_grad=True).to("tpu"),
    "nested of padded rows": lambda: torch._nested_tensor_from_mask(rows("tpu")[None], rows("tpu")[None, :, 0] > -1),
    "quantize_per_tensor": lambda: torch.quantize_per_tensor(rows("tpu"), 0.1, 0, torch.qint8),
}


@pytest.mark.parametrize("name", OTHER_LAYOUTS)
@pytest.mark.filterwarnings("error:.*runs on the host")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_other_layouts_are_refused_in_words_that_help(name: str) -> None:
    message = r'aten::\w+: there are no (sparse|quantised|nested) tensors .*on "tpu"; keep this on the CPU, or .* it .*'
    with pytest.raises(NotImplementedError, match=message) as caught:
        OTHER_LAYOUTS[name]()
    assert "dispatcher" not in str(caught.value)


# --- debug mode -------------------------------------------------------------------------------------------------------


def rows(device: str) -> torch.Tensor:
    return torch.arange(6.0, device=device).reshape(2, 3)


OUT_OF_RANGE: dict[str, Callable[[str], Any]] = {
    "index": lambda d: rows(d)[places(d, 0, 7)],
    "negative": lambda d: rows(d)[places(d, 0, -3)],
    "index_put_": lambda d: rows(d).index_put_((places(d, 0, 7),), torch.tensor(1.0, device=d)),
    "gather": lambda d: rows(d).gather(0, torch.full((2, 3), 9, device=d)),
    "scatter": lambda d: rows(d).scatter(0, torch.full((2, 3), 9, device=d), 1.0),
    "index_select": lambda d: rows(d).index_select(0, places(d, 0, 7)),
    "index_add": lambda d: rows(d).index_add(0, places(d, 0, 7), rows(d)),
    "take": lambda d: rows(d).take(places(d, 0, 99)),
    "embedding": lambda d: F.embedding(places(d, 0, 7), rows(d)),
    "nll_loss": lambda d: F.nll_loss(rows(d), places(d, 0, 7)),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_debug_mode_refuses_places_out_of_range(name: str) -> None:
    with torchtpu.eager_mode("debug"):
        ours, theirs = error(OUT_OF_RANGE[name], "tpu"), error(OUT_OF_RANGE[name], "cpu")
        assert (type(ours), str(ours)) == (type(theirs), str(theirs))
        x = rows("tpu")
        assert x[places("tpu", 0, 1)].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert x.index_put_((places("tpu", 0, 1),), torch.tensor(1.0, device="tpu")).sum().item() == 6


REFUSED: dict[str, Callable[[str], Any]] = {
    "multinomial": lambda d: torch.multinomial(torch.tensor([math.nan, 1.0], device=d), 1),
    "multinomial of nothing": lambda d: torch.multinomial(torch.zeros(3, device=d), 1),
    "_assert_async": lambda d: torch._assert_async(torch.tensor(False, device=d), "not so"),
    "bernoulli_": lambda d: torch.empty(2, device=d).bernoulli_(torch.tensor([0.5, 2.0], device=d)),
    "binary_cross_entropy": lambda d: F.binary_cross_entropy(rows(d), rows(d)),
    "floor_divide": lambda d: places(d, 1, 2) // places(d, 0, 1),
    "remainder_": lambda d: places(d, 1, 2).remainder_(places(d, 0, 1)),
    "masked_scatter": lambda d: rows(d).masked_scatter(rows(d) > 0, torch.ones(2, device=d)),
    "eigh": lambda d: torch.linalg.eigh(torch.full((3, 3), math.nan, device=d)),
    "eig": lambda d: torch.linalg.eig(torch.full((2, 3, 3), math.inf, device=d)),
    "svd": lambda d: torch.linalg.svd(torch.full((2, 3), math.nan, device=d)),
    "pinv": lambda d: torch.linalg.pinv(torch.full((2, 3), math.nan, device=d)),
    "sorter": lambda d: torch.searchsorted(rows(d)[0], rows(d), sorter=places(d, 0, 9, 1)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_debug_mode_refuses_the_values_that_the_cpu_refuses(name: str) -> None:
    state = torch.get_rng_state()
    with torchtpu.eager_mode("debug"):
        ours = error(REFUSED[name], "tpu")
    assert torch.equal(torch.get_rng_state(), state), "the CPU's generator was drawn from"
    theirs = error(REFUSED[name], "cpu")
    assert (type(ours), str(ours)) == (type(theirs), str(theirs))


def test_nan_is_refused_where_it_arises() -> None:
    x = torch.tensor([1.0, -1.0], device="tpu")
    with torchtpu.eager_mode("debug", check_nan=True):
        line = sys._getframe().f_lineno + 2
        with pytest.raises(RuntimeError) as caught:
            x.sqrt()
        assert (x + 1).tolist() == [2, 0]
    message = str(caught.value)
    assert "NaN in 1 places, and no input does" in message and "aten::sqrt.default" in message
    assert f"{__file__}:{line}" in message
    assert "from -1 to 1" in message
    with torchtpu.eager_mode("debug"):
        assert x.sqrt().isnan().tolist() == [False, True]
    with pytest.raises(torchtpu.Error, match="check_nan"):
        torchtpu.eager_mode("strict", check_nan=True)


def in_debug() -> bool:
    return isinstance(_result(lambda: OUT_OF_RANGE["index"]("tpu")), IndexError)


def _result(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as caught:
        return caught


def test_modes_are_of_a_thread() -> None:
    seen: list[bool] = []
    with torchtpu.eager_mode("debug"):
        thread = threading.Thread(target=lambda: seen.append(in_debug()))
        thread.start()
        thread.join()
        with torchtpu.eager_mode("strict"):
            seen.append(in_debug())
        seen.append(in_debug())
    seen.append(in_debug())
    assert seen == [False, False, True, False]


def test_a_mode_is_set_for_good_or_decorates() -> None:
    @torchtpu.eager_mode("debug")
    def debugged() -> bool:
        return in_debug()

    torchtpu.eager_mode("strict")
    assert debugged() and not in_debug()
    torchtpu.eager_mode("debug")
    assert in_debug()
    torchtpu.eager_mode("strict")


def held_mode() -> int:
    return tpu._shim().mode()


@pytest.fixture
def fused_for_good() -> Iterator[int]:
    before = held_mode()
    torchtpu.eager_mode("fused")
    yield held_mode()
    tpu._shim().set_mode(before, False)


def test_a_decorated_function_leaves_the_mode_alone(fused_for_good: int) -> None:
    @torchtpu.eager_mode("debug")
    def careful(deeper: bool = False) -> tuple[int, ...]:
        return (held_mode(), *(careful() if deeper else ()))

    assert held_mode() == fused_for_good, "decorating is no use of the mode"
    debug = careful()
    assert debug != (fused_for_good,) and held_mode() == fused_for_good
    torchtpu.eager_mode("strict")
    strict = held_mode()
    assert careful(deeper=True) == debug * 2 and held_mode() == strict != fused_for_good
    with pytest.raises(TypeError):
        careful(deeper=True, wider=True)
    assert held_mode() == strict


def test_a_decorated_function_leaves_the_modes_of_other_threads_alone(fused_for_good: int) -> None:
    careful = torchtpu.eager_mode("debug")(held_mode)
    context = torchtpu.eager_mode("debug")
    seen: list[int] = []

    def work() -> None:
        seen.append(held_mode())
        seen.append(careful())
        seen.append(held_mode())
        with context:
            seen.append(held_mode())
        seen.append(held_mode())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    own, debug = seen[:2]
    assert seen == [own, debug, own, debug, own] and own not in (debug, fused_for_good)


def test_a_context_can_be_entered_again(fused_for_good: int) -> None:
    context = torchtpu.eager_mode("debug")
    debug = held_mode()
    with context:
        assert held_mode() == debug
    assert held_mode() == fused_for_good, "the first one undoes what the constructor did"
    torchtpu.eager_mode("strict")
    strict = held_mode()
    with context, torchtpu.eager_mode("strict"), context:
        assert held_mode() == debug
    assert held_mode() == strict
    with context:
        with torchtpu.eager_mode("strict"):
            with context:
                assert held_mode() == debug
            assert held_mode() == strict
        assert held_mode() == debug
    assert held_mode() == strict


def test_generators_and_coroutines_have_a_mode_of_their_own(fused_for_good: int) -> None:
    @torchtpu.eager_mode("debug")
    def numbers() -> Iterator[int]:
        yield held_mode()
        yield held_mode()

    @torchtpu.eager_mode("debug")
    async def seen(turns: int) -> set[int]:
        modes = set[int]()
        for _ in range(turns):
            modes.add(held_mode())
            await asyncio.sleep(0)
        return modes

    async def outside() -> set[int]:
        modes = set[int]()
        for _ in range(4):
            modes.add(held_mode())
            await asyncio.sleep(0)
        return modes

    async def together() -> list[set[int]]:
        return await asyncio.gather(seen(3), outside(), seen(2))

    debug = torchtpu.eager_mode("debug")(held_mode)()
    for mode in numbers():
        assert mode == debug and held_mode() == fused_for_good
    assert asyncio.run(together()) == [{debug}, {fused_for_good}, {debug}]
    assert inspect.iscoroutinefunction(seen) and seen.__name__ == "seen"


def test_backward_passes_follow_the_mode_of_the_thread() -> None:
    x = torch.tensor([0.0], device="tpu", requires_grad=True)
    with torchtpu.eager_mode("debug", check_nan=True), pytest.raises(RuntimeError, match="holds NaN"):
        (x.sqrt() * 0).backward()


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=settings)


def test_the_environment_sets_the_mode_of_all_threads() -> None:
    script = "import torch; torch.ones(2, device='tpu')[torch.tensor([5], device='tpu')]; print('ran')"
    assert "IndexError: index 5 is out of bounds" in run(script, TORCHTPU_EAGER_MODE="debug").stderr
    assert run(script, TORCHTPU_EAGER_MODE="strict").stdout == "ran\n"
    assert "there is no eager mode 'lazy'" in run(script, TORCHTPU_EAGER_MODE="lazy").stderr


def test_cpp_traces_are_shown_when_asked_for() -> None:
    script = "import torch; torch.ones(2, device='tpu') + torch.ones(3, device='tpu')"
    assert "c10::" not in run(script).stderr
    assert "c10::" in run(script, TORCH_SHOW_CPP_STACKTRACES="1").stderr


# --- counts -----------------------------------------------------------------------------------------------------------


@torch.library.custom_op("hosted::cube", mutates_args=(), device_types="cpu")
def cube(x: torch.Tensor) -> torch.Tensor:
    return x**3


def unlowered(x: torch.Tensor) -> torch.Tensor:
    return cube(x)


def test_ops_on_the_host_are_counted_warned_of_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.eye(2, device="tpu")
    with pytest.warns(UserWarning, match="runs on the host: it has no lowering"):
        unlowered(x)
    unlowered(x)
    here = f"{__file__}:{unlowered.__code__.co_firstlineno + 1}"
    counts = {op: lines[here] for op, lines in torchtpu.stats()["fallbacks"].items() if here in lines}
    assert [(times, "cube" in op) for op, times in counts.items()] == [(2, True)]
    assert any("cube" in op and place == here for op, place in tpu.fallbacks())
    monkeypatch.setenv("TORCHTPU_FALLBACK", "error")
    with pytest.raises(torchtpu.UnsupportedOp, match="TORCHTPU_FALLBACK=error forbids the host"):
        unlowered(x)
    monkeypatch.setenv("TORCHTPU_FALLBACK", "never")
    wrong = "TORCHTPU_FALLBACK is 'never'; it must be one of 'cpu', 'error'"
    with pytest.raises(torchtpu.Error, match=wrong):
        unlowered(x)
    with pytest.raises(torchtpu.Error, match=wrong):
        Options()


def test_eager_ops_are_counted_by_line() -> None:
    x = torch.ones(3, 7, device="tpu")
    before = torchtpu.stats()["eager"]
    for _ in range(5):
        x = torch.atan2(x, x)
    line = sys._getframe().f_lineno - 1
    now = torchtpu.stats()["eager"]
    counts = now["ops"]["aten::atan2.default"][f"{__file__}:{line}"]
    assert counts["calls"] == 5 and counts["traced"] <= 1
    assert now["executions"] - before["executions"] == 5
    assert now["cache_hits"] - before["cache_hits"] == 5 - counts["traced"]
