"""Autograd, its helpers and module utilities over tensors of device "tpu", beside the CPU."""

from __future__ import annotations

import copy
import functools
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchtpu
from counting import programs
from torch import Tensor, nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.nn.utils import parametrizations
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.checkpoint import checkpoint


def same(ours: Tensor, theirs: Tensor) -> None:
    assert ours.is_tpu
    torch.testing.assert_close(ours.cpu(), theirs)


def test_a_process_may_end_right_behind_a_backward_pass() -> None:
    # What the pass's thread lets go of last is Python's: it waits for the interpreter's lock, which this thread keeps.
    script = """
import sys, torch
y = torch.randn(4, device="tpu", requires_grad=True) * 2
torch.autograd.set_multithreading_enabled(True)  # or there is no such thread
sys.setswitchinterval(1000)
y.backward(torch.ones_like(y))
"""
    for _ in range(2):  # It is a race: lost one time in two.
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
        assert run.returncode == 0, run.stderr


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoints_draw_the_same_numbers_again(use_reentrant: bool) -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 8)).to("tpu")
    x = torch.randn(4, 8, device="tpu", requires_grad=True)

    def gradients(run: Callable[[], Tensor]) -> list[Tensor]:
        torch.manual_seed(1)
        return list(torch.autograd.grad(run().sum(), x) if not use_reentrant else _backward(run(), x))

    kept = gradients(lambda: net(x))
    again = gradients(lambda: checkpoint(net, x, use_reentrant=use_reentrant))
    assert all(torch.equal(a, b) for a, b in zip(kept, again, strict=True))


def _backward(y: Tensor, x: Tensor) -> list[Tensor]:
    x.grad = None
    y.sum().backward()
    assert x.grad is not None
    return [x.grad]


# Lengths of guesses and of targets: all of it, none of it, a target that does not fit, and one without labels.
RAGGED = [([7, 5, 6], [4, 2, 0]), ([7, 0, 1], [4, 0, 2]), ([7, 2, 3], [3, 2, 1])]


@pytest.mark.parametrize("zero_infinity", [True, False])
@pytest.mark.parametrize("lengths", RAGGED)
def test_ctc_of_ragged_sequences(lengths: tuple[list[int], list[int]], zero_infinity: bool) -> None:
    padded = torch.tensor([[1, 2, 2, 4], [3, 3, 0, 0], [1, 1, 1, 1]])
    joined = torch.cat([row[:n] for row, n in zip(padded, lengths[1], strict=True)])
    guesses = torch.randn(7, 3, 5).log_softmax(-1)

    def losses(device: str, targets: Tensor) -> list[Tensor]:
        x = guesses.to(device).requires_grad_()
        loss = F.ctc_loss(x, targets.to(device), *lengths, reduction="none", zero_infinity=zero_infinity)
        return [loss.detach(), *torch.autograd.grad(loss.sum(), x)]

    for targets in (padded, joined):
        for ours, theirs in zip(losses("tpu", targets), losses("cpu", targets), strict=True):
            torch.testing.assert_close(ours.cpu(), theirs, equal_nan=True)


def test_ctc_of_other_lengths_compiles_nothing() -> None:
    guesses, targets = torch.randn(7, 2, 5).log_softmax(-1).to("tpu"), torch.ones(2, 3, dtype=torch.long, device="tpu")
    F.ctc_loss(guesses, targets, [7, 5], [3, 2])
    before = programs()
    F.ctc_loss(guesses, targets, [6, 7], [1, 3])
    assert programs() == before


def test_lengths_of_ctc_may_lie_on_the_cpu_where_it_is_transformed() -> None:
    guesses, targets = torch.randn(7, 2, 5).log_softmax(-1), torch.tensor([[1, 2, 2], [3, 1, 4]])
    lengths = torch.tensor([7, 5]), torch.tensor([3, 2])

    def gradient(device: str) -> Tensor:
        # The mean divides by lengths as they lie, on CUDA too.
        loss = functools.partial(F.ctc_loss, reduction="sum")
        return torch.func.grad(loss)(guesses.to(device), targets.to(device), *lengths)

    torch.testing.assert_close(gradient("tpu").cpu(), gradient("cpu"))


TRANSFORMS: dict[str, Callable[[Tensor], Any]] = {
    "grad": grad(lambda x: (x.sin() * x).sum()),
    "jacrev": jacrev(torch.sin),
    "jacfwd": jacfwd(torch.sin),
    "hessian": hessian(lambda x: (x.sin() * x).sum()),
    "vmap": vmap(lambda x: x * 2 + x.sum()),
    "vmap of grad": vmap(grad(lambda x: x**2)),
    "jvp": lambda x: jvp(torch.tanh, (x,), (x,))[1],
    "vjp": lambda x: vjp(torch.tanh, x)[1](x)[0],
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_function_transforms(name: str) -> None:
    x = torch.linspace(-1, 1, 3)
    same(TRANSFORMS[name](x.to("tpu")), TRANSFORMS[name](x))


def test_gradients_per_sample() -> None:
    model = nn.Linear(3, 2)
    x = torch.arange(12.0).reshape(4, 3)

    def gradients(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
        loss = grad(lambda p, x: functional_call(model, p, (x,)).square().sum())
        return vmap(loss, in_dims=(None, 0))(dict(model.named_parameters()), x)

    theirs = gradients(model, x)
    ours = gradients(copy.deepcopy(model).to("tpu"), x.to("tpu"))
    for name, value in theirs.items():
        same(ours[name].detach(), value.detach())


CHECKED: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...]]]] = {
    "tanh": (torch.tanh, [(3,)]),
    "mm": (torch.mm, [(2, 3), (3, 2)]),
    "softmax": (lambda x: x.softmax(-1), [(2, 3)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (3,), w, b), [(2, 3), (3,), (3,)]),
}


@pytest.mark.parametrize("name", CHECKED)
def test_gradients_against_differences(name: str) -> None:
    fn, shapes = CHECKED[name]
    args = [torch.randn(s, dtype=torch.float64).to("tpu").requires_grad_() for s in shapes]
    assert torch.autograd.gradcheck(fn, args)
    assert torch.autograd.gradgradcheck(fn, args)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return 2 * ctx.saved_tensors[0] * gradients[0]


def test_functions_of_ones_own_and_double_backward() -> None:
    x = torch.arange(3.0, device="tpu", requires_grad=True)
    (first,) = torch.autograd.grad(Square.apply(x).sum(), x)
    assert first.tolist() == [0, 2, 4]
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [0, 6, 12]


def test_hooks_run_in_order() -> None:
    model, log = nn.Linear(2, 2).to("tpu"), []
    model.register_forward_pre_hook(lambda *_: log.append("before"))
    model.register_forward_hook(lambda *_: log.append("after"))
    model.register_full_backward_hook(lambda *_: log.append("backward"))
    model.weight.register_post_accumulate_grad_hook(lambda _: log.append("gradient"))
    x = torch.ones(3, 2, device="tpu", requires_grad=True)
    x.register_hook(lambda g: g * 0 + 5)
    y = model(x)
    y.retain_grad()
    y.sum().backward()
    assert log == ["before", "after", "gradient", "backward"]
    assert x.grad.unique().tolist() == [5] and y.grad.unique().tolist() == [1]


def test_graphs_are_kept_and_given_up_as_on_the_cpu() -> None:
    x = torch.ones(2, device="tpu", requires_grad=True)
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    torch.testing.assert_close(x.grad.cpu(), 2 * torch.ones(2).exp())
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with torch.autograd.detect_anomaly(check_nan=True), pytest.raises(RuntimeError, match="returned nan values"):
        (x - x).sqrt().mul(0).sum().backward()
    with torch.autograd.graph.save_on_cpu():
        y = (x**2).sum()
    assert torch.autograd.grad(y, x)[0].tolist() == [2, 2]


def test_inference_mode_and_no_grad() -> None:
    x = torch.ones(2, device="tpu", requires_grad=True)
    with torch.inference_mode():
        y = x * 2
        y[0] = 7
        assert y.is_inference() and y.tolist() == [7, 2]
    with torch.no_grad():
        assert not (x * 2).requires_grad


def test_data_and_gradients_are_replaced() -> None:
    x = torch.ones(2, device="tpu", requires_grad=True)
    x.data = torch.zeros(3, device="tpu")
    assert x.tolist() == [0, 0, 0]
    x.grad = torch.ones(3, device="tpu")
    x.grad.zero_()
    with pytest.raises(RuntimeError, match="gradient with device type 'cpu' to a tensor with device type 'tpu'"):
        x.grad = torch.ones(3)


# --- complex numbers --------------------------------------------------------------------------------------------------


def test_views_of_complex_numbers() -> None:
    c = torch.complex(torch.arange(6.0), -torch.arange(6.0)).reshape(3, 2)
    for fn in (
        lambda x: x.conj() * 2,
        lambda x: x.conj().imag + 0,
        lambda x: x.mH.resolve_conj(),
        lambda x: x.conj() @ x.mT,
    ):
        same(fn(c.to("tpu")), fn(c))
    ours = c.to("tpu")
    ours.imag.fill_(2)
    torch.view_as_real(ours)[..., 0].mul_(3)
    torch.view_as_complex(torch.view_as_real(ours))[0, 0] = 9j
    c.imag.fill_(2)
    c.real.mul_(3)
    c[0, 0] = 9j
    same(ours, c)
    ours.conj().copy_(ours)
    same(ours, c.conj().resolve_conj())


LAZY_WRITES = {
    "copy": lambda c: c.conj().copy_(torch.tensor([[5j, 1], [6j, 2], [7, 8]], device=c.device)),
    "copy from the host": lambda c: c.conj().copy_(torch.tensor([[5j, 1], [6j, 2], [7, 8]])),
    "copy of itself": lambda c: c.conj().copy_(c),
    "in place": lambda c: c.conj().mul_(3 + 1j).add_(c),
    "an element": lambda c: c.conj()[1].__setitem__(0, 7j),
    "out": lambda c: torch.add(c.conj(), 1, out=c.conj()),
    "the negated part": lambda c: c.conj().imag.fill_(4).add_(1),
    "the negated part, from the host": lambda c: c.conj().imag.copy_(torch.ones(3, 2)),
    "a product": lambda c: torch.mm(c, torch.tensor([[0, 1j], [2, 1]], device=c.device), out=c.conj()),
    "a product added": lambda c: c.conj().addmm_(c, torch.tensor([[0, 1j], [2, 1]], device=c.device).mH),
    "conjugate": lambda c: c.conj().conj_physical_(),
    "an op on the host": lambda c: c.conj().cumprod_(0),
}


@pytest.mark.parametrize("write", LAZY_WRITES.values(), ids=LAZY_WRITES)
def test_writes_through_lazy_views(write: Callable[[Tensor], object]) -> None:
    theirs = torch.complex(torch.arange(6.0), -torch.arange(6.0)).reshape(3, 2)
    ours = theirs.to("tpu")
    write(ours), write(theirs)
    same(ours, theirs)


def test_views_of_complex_numbers_are_lazy_as_on_the_cpu() -> None:
    c = torch.tensor([1 + 2j, 3 - 1j], device="tpu")
    assert c.conj().is_conj()
    assert c.conj().imag.is_neg()
    assert c.conj().data_ptr() == c.data_ptr()


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_compiled_writes_through_lazy_views(device: str) -> None:
    def double(x: Tensor) -> Tensor:
        x.mul_(2 + 1j)
        return x - x.conj()

    theirs = torch.tensor([[1 + 2j, 3 - 1j], [0, 2j]])
    ours = theirs.clone().to(device)
    got, want = torch.compile(double, backend="torchtpu", fullgraph=True)(ours.mH), double(theirs.mH)
    torch.testing.assert_close(got.cpu(), want)
    torch.testing.assert_close(ours.cpu(), theirs)


# --- modules ----------------------------------------------------------------------------------------------------------


def test_lazy_and_meta_modules() -> None:
    lazy = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d()).to("tpu")
    assert lazy(torch.ones(3, 5, device="tpu")).shape == (3, 4)
    assert all(p.is_tpu for p in lazy.parameters())
    with torch.device("meta"):
        model = nn.Linear(2, 2)
    model.to_empty(device="tpu").reset_parameters()
    for to in (torch.float16, torch.float64, torch.bfloat16, torch.float32):
        assert model.to(to).weight.dtype == to
    model.load_state_dict({name: value.cpu() for name, value in model.state_dict().items()})
    model.load_state_dict(model.state_dict(), assign=True)
    assert model.weight.is_tpu


@pytest.mark.parametrize("wrap", [parametrizations.weight_norm, parametrizations.orthogonal])
def test_parametrizations(wrap: Callable[[nn.Module], nn.Module]) -> None:
    torch.manual_seed(0)
    theirs = wrap(nn.Linear(3, 3))
    ours = copy.deepcopy(theirs).to("tpu")
    x = torch.arange(6.0).reshape(2, 3)
    for model, at in ((theirs, x), (ours, x.to("tpu"))):
        model(at).square().sum().backward()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        same(a.grad, b.grad)


def test_clipping_and_vectors() -> None:
    theirs = nn.Linear(3, 2)
    ours = copy.deepcopy(theirs).to("tpu")
    for model, device in ((theirs, "cpu"), (ours, "tpu")):
        model(torch.ones(4, 3, device=device)).square().sum().backward()
        model.norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(model.parameters()) * 2, model.parameters())
    same(ours.norm, theirs.norm)
    same(ours.weight.grad, theirs.weight.grad)
    same(ours.weight.detach(), theirs.weight.detach())


def test_averaged_weights() -> None:
    theirs = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    ours = copy.deepcopy(theirs).to("tpu")
    states = []
    for model, device in ((theirs, "cpu"), (ours, "tpu")):
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        average.update_parameters(model)
        with torch.no_grad():
            model[0].weight.add_(1)
        average.update_parameters(model)
        update_bn([torch.arange(6.0, device=device).reshape(2, 3)], average)
        states.append(average.state_dict())
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name].cpu(), value)


def test_what_a_meta_kernel_says_does_not_hang_on_derivatives() -> None:
    """Its errors print tensors, which PyTorch refuses below autograd while derivatives are taken forward."""
    for device in ("cpu", "tpu"):
        x, w = torch.tensor([0.5], device=device), torch.tensor([0.25], device=device)
        value, slope = torch.func.jvp(lambda t, w=w: t.clone().lerp_(2 * t, w), (x,), (torch.ones_like(x),))
        assert (value.item(), slope.item()) == (0.625, 1.25)


# --- threads ----------------------------------------------------------------------------------------------------------


def backward_thread() -> int:
    """In which thread the gradient of a tensor on the device is computed."""
    threads: list[int] = []
    x = torch.ones(2, device="tpu", requires_grad=True)
    y = x * 2
    y.register_hook(lambda _: threads.append(threading.get_ident()))
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2, 2]
    return threads[0]


def test_a_backward_pass_runs_where_it_is_called() -> None:
    found: dict[str, tuple[int, int]] = {}

    def note(name: str) -> None:
        found[name] = (threading.get_ident(), backward_thread())

    def under_inference_first() -> None:
        with torch.inference_mode():
            torch.ones(1, device="tpu")
        note("inference")

    note("main")
    for thread in (threading.Thread(target=note, args=("other",)), threading.Thread(target=under_inference_first)):
        thread.start()
        thread.join()
    assert found.keys() == {"main", "other", "inference"}
    assert all(caller == ran for caller, ran in found.values())
    with torch.autograd.set_multithreading_enabled(True):
        assert backward_thread() != threading.get_ident()
    assert backward_thread() == threading.get_ident()


def test_gated_units_are_differentiated_forwards_and_twice() -> None:
    def derivatives(device: str) -> list[Tensor]:
        x = torch.linspace(-2, 3, 12, device=device, dtype=torch.float64).view(3, 4)
        function = torch.nn.functional.glu
        along = torch.func.jvp(function, (x,), (x.cos(),))[1]
        curved = torch.func.hessian(lambda x: function(x).square().sum())(x)
        return [along.cpu(), curved.cpu()]

    before = torchtpu.stats()["fallbacks"]
    torch.testing.assert_close(derivatives("tpu"), derivatives("cpu"))
    assert torchtpu.stats()["fallbacks"] == before


def test_the_gradient_of_logit_at_its_ends() -> None:
    def gradient(device: str) -> Tensor:
        x = torch.tensor([-0.0, 0.0, 1.0, -0.1, 1.1, 0.3], device=device, requires_grad=True)
        (gradient,) = torch.autograd.grad(
            torch.logit(x), x, torch.tensor([1.0, -2.0, 3.0, 1.0, 1.0, 1.0], device=device)
        )
        return gradient.cpu()

    torch.testing.assert_close(gradient("tpu"), gradient("cpu"), equal_nan=True)


CELLS: dict[str, Callable[[], nn.Module]] = {
    "GRU": lambda: nn.GRU(3, 4, num_layers=2, batch_first=True),
    "GRUCell": lambda: nn.GRUCell(3, 4),
    "LSTM": lambda: nn.LSTM(3, 4, batch_first=True),
    "LSTMCell without biases": lambda: nn.LSTMCell(3, 4, bias=False),
}


@pytest.mark.parametrize("name", CELLS)
def test_recurrent_cells_are_differentiated_forwards_and_transformed(name: str) -> None:
    net = CELLS[name]().double()
    x = torch.linspace(-1, 2, 5 * 6 * 3, dtype=torch.float64).view(5, 6, 3)
    x = x[:, 0] if "Cell" in name else x

    def derivatives(device: str) -> list[Tensor]:
        on_device = x.to(device)
        weights = {key: value.detach().to(device) for key, value in net.named_parameters()}

        def loss(x: Tensor, weights: dict[str, Tensor]) -> Tensor:
            out = functional_call(net, weights, (x,))
            return (out if isinstance(out, Tensor) else out[0]).square().sum()

        along = jvp(lambda x: loss(x, weights), (on_device,), (on_device.cos(),))[1]
        curved = jvp(lambda x: grad(loss, argnums=1)(x, weights), (on_device,), (on_device.cos(),))[1]
        slope = grad(lambda x: loss(x[None], weights))
        # The CPU's own ops write in place, which a batch of calls cannot.
        each = vmap(slope)(on_device) if device == "tpu" else torch.stack([slope(row) for row in on_device])
        return [t.cpu() for t in (along, *curved.values(), each)]

    before = torchtpu.stats()["fallbacks"]
    torch.testing.assert_close(derivatives("tpu"), derivatives("cpu"))
    assert torchtpu.stats()["fallbacks"] == before
