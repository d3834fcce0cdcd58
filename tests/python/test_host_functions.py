"""Functions that the host computes for programs on the CPU plugin, beside PyTorch's own; size decides where."""

import itertools
import math

import pytest
import torch
import torchtpu
from torch.testing import assert_close

MANY, FEW = 5003, 100  # the former fills no vector
SPECIALS = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    1.0,
    -1.0,
    1e-30,
    -1e-30,
    1e30,
    3e4,
    math.pi,
    -math.pi / 2,
    0.5,
    2.0,
]

ONE = {
    "acos": torch.acos,
    "asin": torch.asin,
    "atan": torch.atan,
    "atanh": torch.atanh,
    "cos": torch.cos,
    "erf": torch.erf,
    "lgamma": torch.lgamma,
    "log1p": torch.log1p,
    "softplus": torch.nn.functional.softplus,
    "sin": torch.sin,
    "tan": torch.tan,
    "power 1.7": lambda x: x.abs() ** 1.7,
    "power of 1.3": lambda x: 1.3**x,
    "remainder of 0.7": lambda x: torch.remainder(x, 0.7),
}
TWO = {
    "atan2": torch.atan2,
    "pow": lambda x, y: torch.pow(x.abs(), y),
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "logaddexp": torch.logaddexp,
}
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def numbers(count, dtype, seed):
    made = torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2
    made[: len(SPECIALS)] = torch.tensor(SPECIALS, dtype=torch.float64).roll(seed)
    return made.to(dtype)


def check(function, *operands):
    expected = function(*operands)
    given = [x.to("tpu") for x in operands]
    assert_close(function(*given).cpu(), expected, equal_nan=True)
    assert_close(torch.compile(function, backend="torchtpu")(*operands), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ONE)
def test_functions_of_one(name, dtype):
    torch._dynamo.reset()
    for count in (MANY, FEW):
        check(ONE[name], numbers(count, dtype, 1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two(name, dtype):
    torch._dynamo.reset()
    for count in (MANY, FEW):
        check(TWO[name], numbers(count, dtype, 1), numbers(count, dtype, 4))


def test_every_special_value_meets_every_other():
    pairs = torch.tensor(list(itertools.product(SPECIALS, repeat=2)), dtype=torch.float32)
    x, y = pairs.repeat(20, 1).unbind(1)
    assert x.numel() > 4096
    for function in (torch.atan2, torch.fmod, torch.pow):
        check(function, x, y)


def test_large_angles():
    x = torch.logspace(0, 38, 5000, dtype=torch.float64).float() * torch.tensor([1.0, -1.0]).repeat(2500)
    for function in (torch.sin, torch.cos):
        check(function, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_numbers_at_both_ends_of_the_range(dtype):
    """What is below the normal numbers counts, also on the way: 1 / 1e38 is such a number."""
    info = torch.finfo(dtype)
    ends = [info.max, info.max / 5, info.tiny, info.tiny / 8, info.smallest_normal * 3]
    x, y = torch.tensor(list(itertools.product(ends, repeat=2)), dtype=dtype).repeat(200, 1).unbind(1)
    for function in (torch.atan2, torch.pow):
        check(function, x, y)
    for function in (torch.lgamma, torch.sin, torch.log1p):
        check(function, x)


def test_remainders_are_exact():
    """Of any two numbers, by the definition of C's fmod; PyTorch's own are NaN where the quotient overflows."""
    generator = torch.Generator().manual_seed(0)
    exponents = torch.randint(-126, 127, (2, 20000), generator=generator)
    x, y = torch.ldexp(torch.rand(2, 20000, generator=generator) + 0.5, exponents).unbind(0)
    expected = torch.tensor([math.fmod(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)])
    assert torch.equal(torch.fmod(x.to("tpu"), y.to("tpu")).cpu(), expected)


def test_operands_that_lie_otherwise():
    x, y = numbers(90 * 80, torch.float32, 2).view(90, 80).abs(), numbers(80 * 90, torch.float32, 3).view(80, 90)
    check(lambda x, y: torch.atan2(x, y.t()), x, y)
    check(lambda x, y: torch.atan2(x[:1], y.t()), x, y)
    check(lambda x, y: torch.fmod(x[::2], y.t()[::2]), x, y)
    check(lambda x: torch.atan2(x.flatten()[20], x), x)
    check(lambda x: torch.sin(x.flatten()[20].expand(70, 70)), x)
    check(lambda x: torch.atan2(x.flatten()[20].expand(70, 70), x.flatten()[21].expand(70, 70)), x)


def test_a_net_of_sines_trains():
    def steps(device, compiled):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.Linear(64, 64), torch.nn.Linear(64, 1)).to(device)
        points, wanted = torch.rand(128, 2).to(device), torch.rand(128, 1).to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

        def loss(points, wanted):
            hidden = torch.sin(3 * net[0](points))
            return (net[2](torch.sin(3 * net[1](hidden))) - wanted).square().mean()

        run = torch.compile(loss, backend="torchtpu") if compiled else loss
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            losses.append(run(points, wanted))
            losses[-1].backward()
            optimizer.step()
        return torch.stack(losses).detach().cpu()

    expected = steps("cpu", compiled=False)
    assert_close(steps("cpu", compiled=True), expected)
    for mode in ("strict", "fused"):
        with torchtpu.eager_mode(mode):
            assert_close(steps("tpu", compiled=False), expected)
