"""What compiles on device "tpu", and what must not: numbers, positions and steps are arguments of programs."""

from __future__ import annotations

import copy
import os
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchtpu
from counting import programs
from torch import Tensor, nn
from torch.optim import lr_scheduler


def check_that_numbers_compile_nothing(call: Callable[[int], Any]) -> None:
    """`call` may compile for its first few numbers, some of which decide a shortcut of PyTorch's, and then no more."""
    for i in range(3):
        call(i)
    before = programs()
    for i in range(3, 9):
        call(i)
    assert programs() == before


# --- numbers ----------------------------------------------------------------------------------------------------------

X = torch.linspace(0.5, 2, 12).reshape(3, 4)
WHOLE = torch.arange(1, 13).reshape(3, 4)

# Each is called with the tensors above, on the device or on the CPU, and a number that changes. It keeps clear of
# defaults, and of 0 where the default is 1: they have programs of their own.
NUMBERS: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "arithmetic": lambda x, n, i: (x * (0.1 * i) + i - 0.5 * i) / (i + 1.5),
    "alpha": lambda x, n, i: torch.add(x, x, alpha=i + 2).sub(x, alpha=0.3 * i + 2),
    "value": lambda x, n, i: torch.addcmul(x, x, x, value=0.3 * i + 2).addcdiv(x, x, value=i + 2),
    "beta": lambda x, n, i: torch.addmm(x, x, x.new_ones(4, 4), beta=i + 2, alpha=0.1 * i + 2),
    "in place": lambda x, n, i: x.clone().add_(i).mul_(0.1 * i).fill_(i),
    "whole numbers": lambda x, n, i: (n + i) * (i + 2) // (i + 1) % (i + 3),
    "bits": lambda x, n, i: (n << (i % 7)) >> (i % 5) | i & 3 ^ i,
    "comparisons": lambda x, n, i: (x > 0.1 * i) & (n != i) | (x <= i),
    "power": lambda x, n, i: x ** (i + 0.25),
    "whole power": lambda x, n, i: n ** (i + 4),
    "power of a number": lambda x, n, i: torch.pow(i + 1.5, x),
    "clamp": lambda x, n, i: x.clamp(0.1 * i, 0.2 * i + 1).clamp(min=0.3 * i).clamp(max=i),
    "where": lambda x, n, i: torch.where(x > 1, x, i + 0.5),
    "masked_fill": lambda x, n, i: x.masked_fill(x > 1, -i - 0.5),
    "full": lambda x, n, i: torch.full_like(x, i + 0.5) + torch.full((3, 4), float(i), device=x.device),
    "lerp": lambda x, n, i: torch.lerp(x, x * 2, 0.1 * i),
    "activations": lambda x, n, i: F.leaky_relu(F.elu(-x, 0.1 * i + 1.5), 0.01 * i) + F.softplus(x, i + 2, 20 + i),
    "thresholds": lambda x, n, i: F.threshold(F.hardtanh(x, -0.1 * i - 2, 1 + 0.1 * i), 0.1 * i + 0.1, i + 2.0),
    "layer_norm": lambda x, n, i: F.layer_norm(x, (4,), eps=1e-5 * (i + 2)),
    "batch_norm": lambda x, n, i: F.batch_norm(x, x[0] * 0, x[0] + 1, training=True, momentum=0.01 * i + 0.02),
    "losses": lambda x, n, i: F.huber_loss(x, x * 2, delta=0.1 * i + 2) + F.smooth_l1_loss(x, x * 2, beta=0.1 * i + 2),
    "arange": lambda x, n, i: (
        torch.arange(i, i + 5, device=x.device) + torch.arange(0, 5 * (i + 2), i + 2, device=x.device)
    ),
    "arange of floats": lambda x, n, i: torch.arange(0.5 * i, 0.5 * i + 5, device=x.device),
    "linspace": lambda x, n, i: torch.linspace(-i, 2 * i, 5, device=x.device),
    "a number beside a tensor": lambda x, n, i: torch.tensor(0.5 * i, device=x.device) * x,
    "nan_to_num": lambda x, n, i: torch.nan_to_num(x / 0 * 0, nan=i + 0.5),
    "histogram": lambda x, n, i: torch.histc(x, 4, 0.25 * i, 6.5 + i),
    "element": lambda x, n, i: x[i % 3] + n[:, i % 4].sum() + x[-1 - i % 3, i % 4],
    "slice": lambda x, n, i: x.flatten()[i : i + 3] + n.flatten()[-i - 3 : 12 - i],
    "narrow": lambda x, n, i: x.flatten().narrow(0, i, 3) + x.select(1, i % 4),
    "write to an element": lambda x, n, i: x.clone().flatten().index_fill(0, n[0, :1] * 0 + i % 12, i),
    "write to a slice": lambda x, n, i: _written(x.flatten().clone(), i),
}


def _written(x: Tensor, i: int) -> Tensor:
    x[i] = 0.5 * i
    x[i : i + 1] = x[i + 1 : i + 2]
    x[-i - 2 : -i].mul_(i)
    return x


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_compile_nothing(name: str) -> None:
    x, n = X.to("tpu"), WHOLE.to("tpu")
    results: dict[int, Tensor] = {}
    check_that_numbers_compile_nothing(lambda i: results.update({i: NUMBERS[name](x, n, i + 1)}))
    for i, result in results.items():
        torch.testing.assert_close(result.cpu(), NUMBERS[name](X, WHOLE, i + 1), equal_nan=True)


RANDOM: dict[str, Callable[[Tensor, int], object]] = {
    "dropout": lambda x, i: F.dropout(x, 0.1 * i + 0.05).sum().backward(),
    "dropout of an inner layer": lambda x, i: nn.Dropout(0.1 * i + 0.05)(x * 2).sum().backward(),
    "attention": lambda x, i: F.scaled_dot_product_attention(*[x[None, None]] * 3, dropout_p=0.1 * i + 0.05),
    "normal": lambda x, i: x.detach().clone().normal_(i, i + 0.5),
    "uniform": lambda x, i: x.detach().clone().uniform_(-i, i + 1),
    "bernoulli": lambda x, i: x.detach().clone().bernoulli_(0.1 * i + 0.05),
    "places of a buffer": lambda x, i: torch.randint(0, 5 + i, (3,), device=x.device),
    "places up to": lambda x, i: torch.randint(5 + i, (3,), device=x.device),
    "like another": lambda x, i: torch.randint_like(x.detach(), -i, 5 + i),
    "random in place": lambda x, i: x.detach().clone().random_(i - 3, 5 * i + 5),
    "random up to": lambda x, i: x.detach().clone().random_(5 * i + 5),
}


@pytest.mark.parametrize("name", RANDOM)
def test_numbers_of_random_ops_compile_nothing(name: str) -> None:
    x = X.to("tpu").requires_grad_()
    check_that_numbers_compile_nothing(lambda i: RANDOM[name](x, i))


# --- training ---------------------------------------------------------------------------------------------------------

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
    "adam, one at a time": lambda p: torch.optim.Adam(p, lr=0.1, foreach=False, amsgrad=True, weight_decay=0.1),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.1),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.1),
}

SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "none": lambda o: None,
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 20),
    "warmup": lambda o: lr_scheduler.LinearLR(o, 0.1, total_iters=20),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=40),  # also changes the momentum
}


@pytest.mark.parametrize(
    ("optimizer", "scheduler"),
    [*((name, "cosine") for name in OPTIMIZERS), *(("adamw", name) for name in SCHEDULERS), ("sgd", "one cycle")],
)
def test_learning_rates_and_steps_compile_nothing(optimizer: str, scheduler: str) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1)).to("tpu")
    update = OPTIMIZERS[optimizer](model.parameters())
    schedule = SCHEDULERS[scheduler](update)
    x = torch.ones(2, 3, device="tpu")

    def step(i: int) -> None:
        update.zero_grad()
        model(x).square().sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0 / (i + 2))
        nn.utils.clip_grad_value_(model.parameters(), 1.0 / (i + 2))
        update.step()
        if schedule is not None:
            schedule.step()

    # Rectified Adam changes its rule after the fifth step.
    for i in range(8):
        step(i)
    before = programs()
    for i in range(8, 14):
        step(i)
    assert programs() == before


# --- lengths ----------------------------------------------------------------------------------------------------------

ALL = os.environ.get("TORCHTPU_TRAINING") == "all"  # as in `make test-all`
LENGTHS = range(5, 55) if ALL else range(5, 15)


class Block(nn.Module):
    """A small causal transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
        self.qkv, self.mlp = nn.Linear(8, 24), nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 11))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.cross_entropy(self.mlp(x).flatten(0, 1), tokens.flatten())


# `make test-all` also trains, which compiles three times as much.
@pytest.mark.parametrize("training", [False, True] if ALL else [False])
def test_lengths_compile_linearly(training: bool) -> None:
    """Ten lengths of a sequence, or fifty: each compiles as much as another, none does twice, and `stats` says so."""
    torch.manual_seed(0)
    theirs = Block()
    ours = copy.deepcopy(theirs).to("tpu")

    def run(length: int) -> int:
        """How much a pass over `length` compiles."""
        tokens = torch.arange(2 * length).reshape(2, length) % 11
        before = programs()
        with torch.set_grad_enabled(training):
            loss = ours(tokens.to("tpu"))
            if training:
                loss.backward()
        made = programs() - before
        torch.testing.assert_close(loss.detach().cpu(), theirs(tokens).detach())
        return made

    first = [run(length) for length in LENGTHS]
    half = len(first) // 2
    assert min(first) > 0 and max(first) <= 2 * min(first) and sum(first[half:]) <= 1.1 * sum(first[:half]), first
    assert [run(length) for length in LENGTHS] == [0] * len(LENGTHS)
    line = f"{__file__}:{Block.forward.__code__.co_firstlineno + 1}"
    count = torchtpu.stats()["eager"]["ops"]["aten::embedding.default"][line]
    assert count == {"calls": 2 * len(LENGTHS), "traced": len(LENGTHS), "sizes_read": 0} or training


# --- lists ------------------------------------------------------------------------------------------------------------


def _written_list(tensors: list[Tensor]) -> Tensor:
    torch._foreach_add_(tensors, 1.0)
    return tensors[0]


LISTS: dict[str, Callable[[list[Tensor]], Tensor]] = {
    "cat": torch.cat,
    "stack": torch.stack,
    "norms": lambda tensors: torch.stack(torch._foreach_norm(tensors)),
    "in place": _written_list,
}


@pytest.mark.parametrize("mode", ["strict", "fused"])
@pytest.mark.parametrize("name", LISTS)
def test_tensors_of_a_list_may_be_views_of_storages_of_all_kinds(name: str, mode: str) -> None:
    """As in a replay buffer: drawn from 16 tensors of which some are views, there are thousands of ways to draw 10."""
    with torchtpu.eager_mode(mode):
        on_device = [torch.full((6,), float(i)).to("tpu").view(2, 3) for i in range(8)]
        on_device += [torch.full((2, 3), float(i)).to("tpu") for i in range(8)]
        on_host = [t.cpu() for t in on_device]
        counts = []
        for i in range(30):
            chosen = random.Random(i).sample(range(16), 10)
            ours, theirs = (LISTS[name]([tensors[k] for k in chosen]) for tensors in (on_device, on_host))
            torch.testing.assert_close(ours.cpu(), theirs)
            counts.append(programs())
        torch.testing.assert_close([t.cpu() for t in on_device], on_host)
        # In fused mode a region may be compiled behind any call.
        assert mode == "fused" or counts[-1] == counts[15], counts


# --- masks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("form", ["whole", "transposed", "every second"])
def test_what_a_mask_picks_of_a_whole_tensor_needs_no_program_for_its_count(form: str, dtype: torch.dtype) -> None:
    views: dict[str, Callable[[Tensor], Tensor]] = {
        "whole": lambda x: x,
        "transposed": lambda x: x.t(),
        "every second": lambda x: x[:, ::2],
    }
    x = torch.arange(70).reshape(7, 10).to(dtype)
    ours, theirs = views[form](x.to("tpu")), views[form](x)
    places = torch.arange(theirs.numel()).reshape(theirs.shape)
    made = []
    for count in (3, 0, 1, 17, theirs.numel()):
        mask = places % 5 * 7 + places // 5 < count
        picked = ours[mask.to("tpu")]
        torch.testing.assert_close(picked.cpu(), theirs[mask])
        assert picked.stride() == theirs[mask].stride()
        made.append(programs())
    assert made[-1] == made[0], made


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "grid"])
def test_what_resized_images_are_is_not_asked_of_pytorch(mode: str) -> None:
    """Its meta kernels of these are decompositions in Python, which take up to 70 ms for each new size."""

    def resized(image: Tensor) -> Tensor:
        if mode == "grid":
            grid = torch.linspace(-1, 1, 40, device=image.device).view(1, 4, 5, 2)
            return F.grid_sample(image, grid, mode="bicubic", align_corners=False)
        return F.interpolate(image, size=(4, 5), mode=mode)

    files = set()
    image = torch.rand(1, 3, 6, random.Random(mode).randrange(50, 90))
    sys.setprofile(lambda frame, event, arg: files.add(frame.f_code.co_filename))
    try:
        got = resized(image.to("tpu"))
    finally:
        sys.setprofile(None)
    assert not [file for file in files if "_decomp" in file]
    torch.testing.assert_close(got, resized(image), check_device=False, check_stride=True)
    last = image.to(memory_format=torch.channels_last)
    torch.testing.assert_close(resized(last.to("tpu")), resized(last), check_device=False, check_stride=True)
