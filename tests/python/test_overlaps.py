"""Writes to elements that share places, or lie where others are read: refused or done as PyTorch's kernels do."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
import torch
import torchtpu
from torch import Tensor

# Dynamo itself refuses `out=` and `copy_`.
EXPANDED: dict[str, Callable[[Tensor], object]] = {
    "in place": lambda x: x.expand(2, 3, 4).add_(1),
    "an operator": lambda x: operator.iadd(x[:, :1].expand(3, 4), x),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", EXPANDED)
def test_a_write_to_an_expanded_tensor_is_refused(name: str, dynamic: bool) -> None:
    message = "more than one element of the written-to tensor"
    with pytest.raises(RuntimeError, match=message):
        EXPANDED[name](torch.randn(3, 4))
    with pytest.raises(torchtpu.CompileError, match=message) as refused:
        torch.compile(EXPANDED[name], backend="torchtpu", dynamic=dynamic)(torch.randn(3, 4))
    assert refused.value.file == __file__


def test_an_expanded_tensor_can_be_read_and_changed_in_shape() -> None:
    def read(x: Tensor) -> Tensor:
        y = x.expand(2, 3, 4)
        return y.unsqueeze_(0) * 2 + x.add_(1)

    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(read, backend="torchtpu")(x.clone()), read(x.clone()))


# --- on the device ----------------------------------------------------------------------------------------------------

# `at`: [0, 1]; `mask`: the first element and the third. PyTorch warns of some, the device of what runs on the host.
SHARED: dict[str, Callable[[Tensor, Tensor, Tensor], object]] = {
    "a mask": lambda x, at, mask: x[:1].expand(3).masked_fill_(mask, 9.0),
    "an indexed mask": lambda x, at, mask: operator.setitem(x[:1].expand(3), mask, 9.0),
    "indices": lambda x, at, mask: x[:1].expand(3).index_fill_(0, at, 9.0),
    "zeros": lambda x, at, mask: x.unfold(0, 2, 1).zero_(),
    "one after the other": lambda x, at, mask: x.unfold(0, 2, 1).mul_(2),
    "the last one": lambda x, at, mask: x.unfold(0, 2, 1).copy_(torch.arange(10.0).view(5, 2)),
    "an out argument": lambda x, at, mask: torch.add(at[:, None] * 3, at, out=x.as_strided((2, 2), (1, 1))),
}


@pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors is deprecated", "ignore:.* runs on the host")
@pytest.mark.parametrize("name", SHARED)
def test_shared_places_are_written_as_on_the_cpu(name: str) -> None:
    x, at, mask = torch.arange(6.0), torch.tensor([0, 1]), torch.tensor([True, False, True])
    ours = x.to("tpu")
    SHARED[name](x, at, mask)
    SHARED[name](ours, at.to("tpu"), mask.to("tpu"))
    assert ours.tolist() == x.tolist()


def test_a_write_to_shared_places_is_told() -> None:
    with pytest.warns(
        UserWarning, match=r"aten::mul_.Tensor runs on the host: elements that it writes share their place"
    ):
        torch.arange(5.0, device="tpu").unfold(0, 2, 1).mul_(2)


# `at`: [0, 1].
MOVED: dict[str, Callable[[Tensor, Tensor], object]] = {
    "in place": lambda x, at: x[1:].add_(x[:-1]),
    "an out argument": lambda x, at: torch.mul(x[1:], 2, out=x[:-1]),
    "a copy": lambda x, at: x[1:].copy_(x[:-1]),
    "a slice": lambda x, at: operator.setitem(x, slice(1, None), x[:-1]),
    "another type": lambda x, at: x[1:].copy_(x.view(torch.int32)[:-1]),
    "indices": lambda x, at: x[1:].index_put_((at,), x[:2]),
    "a scatter": lambda x, at: x[1:].scatter_(0, at, x[:2]),
    "parts": lambda x, at: torch.cat([x[:2], x[:1]], out=x[1:4]),
}


@pytest.mark.parametrize("name", MOVED)
def test_a_write_over_what_is_read_elsewhere_is_refused(name: str) -> None:
    for device in ("cpu", "tpu", "tpu"):  # the second time, too
        x = torch.arange(6.0, device=device)
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to"):
            MOVED[name](x, torch.tensor([0, 1], device=device))
        assert x.tolist() == [0, 1, 2, 3, 4, 5]


# Elements read where they are written, or beside them; among them, where the CPU's kernels do not look.
APART: dict[str, Callable[[Tensor], object]] = {
    "itself": lambda x: x.add_(x),
    "the same places": lambda x: x[1:].add_(x[1:]),
    "halves": lambda x: x[:3].add_(x[3:]),
    "turns": lambda x: x[::2].add_(x[1::2]),
    "a shorter one": lambda x: x[1:].add_(x[0]),
}


@pytest.mark.parametrize("name", APART)
def test_a_write_beside_what_is_read_is_done(name: str) -> None:
    x = torch.arange(6.0)
    ours = x.to("tpu")
    APART[name](x)
    APART[name](ours)
    assert ours.tolist() == x.tolist()


def test_a_product_over_its_own_factor_is_that_of_what_was_there() -> None:
    x = torch.ones(4, 3, device="tpu")
    torch.mm(x[:3], x[:3], out=x[1:])  # which the CPU computes from what it has written so far
    assert x.tolist() == [[1.0] * 3, *[[3.0] * 3] * 3]
