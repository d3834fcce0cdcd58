"""What results of a compiled function share memory with: what eager's do, and nothing else.

Each program is called, its results are changed in place one after the other, and all of them compared with eager's.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

Program = Callable[[Tensor], Any]


def caches(x: Tensor) -> Any:
    keys, values = x.new_zeros(x.shape[0], 4), x.new_zeros(x.shape[0], 4)
    keys[:, :3] = x
    values[:, :3] = x
    return keys, values


def broken(x: Tensor) -> Any:
    y = x * 2
    part = y[1:]
    torch._dynamo.graph_break()
    part.add_(100)
    return y


def masked(x: Tensor) -> Any:
    y = x * 2
    earlier = y.clone()
    y[y[0, 0] > 0] = 1
    return earlier


def written_out(x: Tensor) -> Any:
    y = x * 2
    torch.add(x[:, :1], 0.5, out=y[:, 2:])
    return y


def numbers(x: Tensor) -> Any:
    y = torch.complex(x, x)
    return y, torch.view_as_real(y)


PROGRAMS: dict[str, Program] = {
    "equal constants": lambda x: (torch.zeros(2, device=x.device), torch.zeros(2, device=x.device)),
    "equal values": lambda x: (x * 2, x * 2),
    "a clone": lambda x: ((v := x * 2), v.clone()),
    "the same twice": lambda x: ((v := x * 2), v),
    "caches": caches,
    "conjugates": lambda x: ((v := torch.complex(x, x * 2)), v.conj(), v.t().conj()),
    "parts of a conjugate": lambda x: [(v := torch.complex(x, x * 2).conj()).real, v.imag],
    "a negative": lambda x: ((v := x * 2), torch._neg_view(v)[0]),
    "numbers of a transpose": lambda x: [(v := torch.view_as_real(torch.complex(x.t(), x.t()))), v[..., 0]],
    "the bits of a transpose": lambda x: ((v := (x.t() * 2).t()).view(torch.int32), v),
    "a part of one of several results": lambda x: ((v := torch.layer_norm(x, [x.shape[1]])), v[0]),
    "a part of what is sorted": lambda x: [(v := x.sort()[0]), v[1:]],
    "a part": lambda x: ((v := x * 2), v[:, 1:]),
    "a transpose": lambda x: ((v := x * 2), v.t()),
    "a part of a transpose": lambda x: ((v := x * 2).t()[1:], v),
    "another shape": lambda x: ((v := x * 2), v.reshape(-1)),
    "two views": lambda x: ((v := x * 2)[0], v[:, 1]),
    "chunks": lambda x: [(v := x * 2), *v.chunk(3, 1)],
    "chunks alone": lambda x: (x * 2).chunk(3, 1),
    "views of two": lambda x: ((v := x * 2), v[0], (w := x * 2), w[0]),
    "a view of an input": lambda x: (x[0], x * 2),
    "real parts": numbers,
    "a break": broken,
    "a mask": masked,
    "out": written_out,
}


def changed(program: Program, x: Tensor) -> list[Tensor]:
    """All results, after each was changed in place; the input comes last."""
    results = program(x)
    results = [results] if isinstance(results, Tensor) else list(results)
    for step, result in enumerate([*results, x]):
        with torch.no_grad():
            result.mul_(2).add_(step + 1)
    return [result.detach().cpu() for result in (*results, x)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_share_memory_as_eager_ones_do(name: str, device: str, dynamic: bool) -> None:
    program = PROGRAMS[name]
    torch._dynamo.reset()
    compiled = torch.compile(program, backend="torchtpu", dynamic=dynamic)
    for rows in (2, 3) if dynamic else (2,):
        x = torch.arange(3.0 * rows).reshape(rows, 3) + 1
        expected = changed(program, x.clone())
        for ours, theirs in zip(changed(compiled, x.clone().to(device)), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_results_of_training_that_share_memory() -> None:
    x = torch.ones(2, 3, requires_grad=True)

    def program(x: Tensor) -> Any:
        y = x * 2
        counts = (x.detach() * 3).to(torch.int64)
        return y.sum(), counts, counts[0], torch.zeros(2), torch.zeros(2)

    loss, counts, row, a, b = torch.compile(program, backend="torchtpu")(x)
    row.add_(5)
    a.add_(1)
    loss.backward()
    assert counts.tolist() == [[8, 8, 8], [3, 3, 3]] and b.tolist() == [0, 0]
    assert torch.equal(x.grad, torch.full((2, 3), 2.0))


def test_a_temporary_is_not_kept_for_parts_that_share_nothing_with_it() -> None:
    compiled = torch.compile(lambda x: ((x * 2)[0], (x * 3)[0]), backend="torchtpu")
    with torch.no_grad():
        first, second = compiled(torch.ones(2, 3))
    assert first.untyped_storage().nbytes() == second.untyped_storage().nbytes() == 12


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_results_see_inputs_that_begin_anywhere_in_their_storage(device: str) -> None:
    def parts(x: Tensor, n: int) -> list[Tensor]:
        return [x[n:], x[:, 1:].t(), x[n:, 1], x[n:].view(torch.int32)]

    compiled = torch.compile(parts, backend="torchtpu", dynamic=True)
    for rows, begin, n in ((5, 0, 1), (6, 2, 1), (7, 2, 2), (7, 1, 3)):
        ours, theirs = (torch.arange(4.0 * rows).reshape(rows, 4).to(place) for place in (device, "cpu"))
        got, want = compiled(ours[begin:, 1:], n), parts(theirs[begin:, 1:], n)
        for mine, other in zip(got, want, strict=True):
            assert torch.equal(mine.cpu(), other) and mine.storage_offset() == other.storage_offset()
            mine += 1
            other += 1
        assert torch.equal(ours.cpu(), theirs)


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_a_view_by_numbers_that_change_of_what_lies_before_the_input_is_refused(device: str) -> None:
    compiled = torch.compile(lambda x, n: x.as_strided((1,), (1,), n), backend="torchtpu", dynamic=True)
    x = torch.arange(8.0).to(device)[4:]
    assert compiled(x, 5).cpu() == 5
    with pytest.raises(NotImplementedError, match="begins before its input; pass dynamic=False"):
        compiled(x, 3)


def outs_that_grow(x: Tensor) -> Any:
    y, order = torch.empty(0, device=x.device), torch.empty(0, dtype=torch.int64, device=x.device)
    torch.add(x, 1, out=y)
    torch.sort(x, 1, out=(y, order))
    return y, order


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_results_can_be_resized(device: str) -> None:
    x = torch.randn(3, 4).to(device)
    compiled = torch.compile(lambda x: x * 2, backend="torchtpu")
    y = compiled(x).resize_(5, 4)
    torch.testing.assert_close(y[:3], x * 2)
    torch.testing.assert_close(torch.compile(outs_that_grow, backend="torchtpu")(x), outs_that_grow(x))


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_detached_parts_share_memory_and_have_no_gradient(device: str) -> None:
    def program(x: Tensor) -> Any:
        y = x * 2
        return y, y.view(-1), y.view(-1).detach()

    x = torch.ones(2, 3, device=device, requires_grad=True)
    y, line, detached = torch.compile(program, backend="torchtpu")(x)
    assert (y.requires_grad, line.requires_grad, detached.requires_grad) == (True, True, False)
    detached.zero_()
    assert y.sum().item() == line.sum().item() == 0
    (y.sum() + line.sum()).backward()
    assert x.grad.sum().item() == 24
    _, row = torch.compile(lambda x: ((y := x * 2), y[0].detach()), backend="torchtpu")(x)
    assert not row.requires_grad


def test_what_the_gradient_needs_is_not_changed_unseen() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    compiled = torch.compile(lambda x: ((y := x.exp()).sum(), y[0].detach(), y[1].detach()), backend="torchtpu")
    loss, row, _ = compiled(x)
    row.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def jagged(v: Tensor) -> Tensor:
    return torch.nested.nested_tensor_from_jagged(v, torch.tensor([0, 2, 5], device=v.device))


JAGGED: dict[str, Program] = {
    "transposed": lambda v: jagged(v).transpose(1, 2),
    "one dimension more": lambda v: jagged(v).unsqueeze(-1),
    "two views": lambda v: ((n := jagged(v)).transpose(1, 2), n.transpose(2, 3)),
    "the input itself": jagged,
    "of a part of the input": lambda v: jagged(v[:5]).transpose(1, 2),
    "beside a view that is no subclass": lambda v: (v + 1, jagged(v).transpose(1, 2), v.transpose(0, 1)),
    "computed": lambda v: (jagged(v) * 2).transpose(1, 2),
}


@pytest.mark.parametrize("dynamic", [False, True, None])
@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("name", JAGGED)
def test_views_inside_a_subclass_see_the_input(name: str, device: str, dynamic: bool | None) -> None:
    numbers = torch.arange(1.0, 141.0, device=device)
    lying = (
        lambda x: x[:40].reshape(5, 2, 4),
        lambda x: x[8:48].reshape(5, 2, 4),
        lambda x: x[3:123].reshape(5, 8, 3).transpose(1, 2),
    )
    compiled = torch.compile(JAGGED[name], backend="torchtpu", dynamic=dynamic)
    for of in lying:
        given, expected = numbers.clone(), numbers.clone()
        pairs = zip(values(compiled(of(given))), values(JAGGED[name](of(expected))), strict=True)
        for ours, theirs in pairs:
            torch.testing.assert_close(ours, theirs, check_stride=True)
            assert ours.storage_offset() == theirs.storage_offset()
            ours.add_(100), theirs.add_(100)
        torch.testing.assert_close(given, expected)


def values(results: Any) -> list[Tensor]:
    results = results if isinstance(results, tuple) else (results,)
    return [result.values() if result.is_nested else result for result in results]


def test_compiled_attention_of_sequences_of_any_length() -> None:
    def attention(q: Tensor) -> Tensor:
        n = torch.nested.nested_tensor_from_jagged(q, torch.tensor([0, 3, 8, 10])).transpose(1, 2)
        return torch.nn.functional.scaled_dot_product_attention(n, n, n).transpose(1, 2).values()

    q = torch.randn(10, 2, 8, requires_grad=True)
    # What fresh memory holds must not be the right numbers.
    del [torch.full((n,), -7.0) for n in range(1, 200) for _ in range(20)][:]
    ours, expected = torch.compile(attention, backend="torchtpu")(q), attention(q)
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(*(torch.autograd.grad(y.square().sum(), q) for y in (ours, expected)))


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_data_that_is_set_is_the_values_memory(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is computed, is a result, or is given; nothing runs on the host for it."""
    monkeypatch.setenv("TORCHTPU_FALLBACK", "error")

    def program(computed: Tensor, result: Tensor, given: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        computed.data = computed.data - 0.1 * x
        result.data = step = result * x
        given.data = x
        return (computed * 2).sum() + given.sum(), step

    def run(f: Callable[..., tuple[Tensor, Tensor]]) -> list[Any]:
        tensors = [torch.nn.Parameter(torch.arange(4.0).to(device)), *torch.ones(2, 4).to(device)]
        seen: list[Any] = []
        for _ in range(3):
            x = torch.full((4,), 3.0).to(device)
            loss, step = f(*tensors, x)
            loss.backward()
            shared = [tensors[1].data_ptr() == step.data_ptr(), tensors[2].data_ptr() == x.data_ptr()]
            x.add_(1)
            step.sub_(1)
            seen += [shared, loss.detach(), tensors[0].grad.clone(), *(t.detach().clone() for t in tensors)]
        return seen

    torch.testing.assert_close(run(torch.compile(program, backend="torchtpu")), run(program))
