"""Calls whose sizes never come again, which are evaluated instead of compiled (docs/decisions/0028)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAD = """
import torch, torchtpu
import torch.nn.functional as F
torch.manual_seed(0)

def counts():
    stats = torchtpu.stats()
    return stats["compiles"] + stats["disk_hits"], stats["eager"]["interpreted"]
"""


def run(script: str, **environment: str) -> str:
    """What `script` prints, in a process whose calls are evaluated where their sizes are data."""
    chosen = {"TORCHTPU_INTERPRET": "1", "TORCHTPU_CACHE_DIR": "", **environment}
    command = [sys.executable, "-W", "error", "-c", HEAD + script]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **chosen})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


OPS = """
def ops(x, w, places):
    keep, rows, zeros = x.sum(1) > 0, x[places], torch.zeros_like(x)
    yield from (keep, rows, x[keep], x @ w, (x @ w).softmax(-1), x.mean(0), x.var(0), x.cumsum(0), x.sort(0)[0])
    yield from (zeros.index_add_(0, places, rows), torch.cat([x, rows]), x.amax(1), x.argmax(0), x.t() + 1)
    yield from (x.exp().log1p(), x.to(torch.bfloat16) * 3, x.double().sqrt(), (places * 7) % 5, x.bool().any(1))
    yield from (torch.where(x > 0, x, -x), x.flip(0), x.roll(1, 0), x.unique(), torch.layer_norm(x, x.shape[1:]))
    # Of these, even how many tensors and ops there are hangs on the sizes.
    image = x[None, None, 3:]
    yield from (torch.stack(x.unbind()), torch.cat(x.split(3)), x[3:].logcumsumexp(0), F.adaptive_avg_pool2d(image, 3))
    yield from (F.interpolate(image, size=(4, 5), mode=mode) for mode in ("bilinear", "bicubic", "area", "nearest"))

def both(n):
    x, w, places = torch.randn(n, 6), torch.randn(6, 5), torch.randint(0, n, (2 * n,))
    x[0, 0], x[1, 1], x[2, 2] = float("nan"), float("inf"), -0.0
    on_cpu = list(ops(x, w, places))
    on_device = [y.cpu() for y in ops(x.to("tpu"), w.to("tpu"), places.to("tpu"))]
    torch.testing.assert_close(on_device, on_cpu, equal_nan=True)
"""


@pytest.mark.parametrize("mode", ["strict", "fused", "debug"])
def test_sizes_that_never_come_again_compile_nothing(mode: str) -> None:
    script = f"""{OPS}
torchtpu.eager_mode({mode!r})
for n in range(10, 18):
    both(n)
compiled, interpreted = counts()
for n in range(18, 24):
    both(n)
    torch.tpu.synchronize()
later, more = counts()
print(later - compiled, more - interpreted)
"""
    compiled, interpreted = map(int, run(script).split())
    assert interpreted > 6 * 20
    assert compiled == 0


def test_a_model_whose_sizes_stay_has_all_its_programs() -> None:
    script = """
widths = [3, *range(5, 25)]
model = torch.nn.Sequential(*(torch.nn.Linear(i, o) for i, o in zip(widths, widths[1:]))).to("tpu")
optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=False)
for step in range(4):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 3).to("tpu")).relu().sum()
    loss.backward()
    optimizer.step()
    loss.item()
    print(*counts(), end=";")
"""
    steps = [tuple(map(int, step.split())) for step in run(script).split(";") if step]
    assert all(interpreted == 0 for _, interpreted in steps)
    assert steps[1][0] == steps[3][0]


def test_a_form_that_comes_again_gets_its_program() -> None:
    script = """
def double(n):
    return (torch.ones(n, 600).to("tpu") * 2).cpu()

for n in range(10, 18):
    double(n)
compiled, interpreted = counts()
for _ in range(1000):
    assert double(20).eq(2).all()
later, more = counts()
print(later - compiled, more - interpreted)
"""
    compiled, interpreted = map(int, run(script).split())
    assert compiled == 1
    assert 10 < interpreted < 990


@pytest.mark.parametrize(
    "before, environment",
    [("", {"TORCHTPU_INTERPRET": "0"}), ("torch.use_deterministic_algorithms(True)", {})],
)
def test_where_nothing_is_interpreted(before: str, environment: dict[str, str]) -> None:
    script = f"""{before}
for n in range(10, 20):
    (torch.ones(n).to("tpu") * 2).cpu()
print(*counts())
"""
    compiled, interpreted = map(int, run(script, **environment).split())
    assert compiled >= 10  # deterministic algorithms fill what is empty first
    assert interpreted == 0


def test_a_seed_gives_the_same_numbers() -> None:
    script = """
def drawn(n):
    torch.tpu.manual_seed(n)
    x = torch.ones(n, 3).to("tpu")
    draws = [torch.nn.functional.dropout(x, 0.4), torch.randn(n, device="tpu"), torch.rand(n, device="tpu"),
             torch.randint(0, 100, (n,), device="tpu"), torch.empty(n, device="tpu").bernoulli_(0.3)]
    return [d.tolist() for d in draws]

everything = [drawn(n) for n in range(20, 32)]
import hashlib
print(hashlib.sha256(repr(everything).encode()).hexdigest(), counts()[1] > 0)
"""
    with_programs, evaluated = run(script, TORCHTPU_INTERPRET="0").split(), run(script).split()
    assert with_programs[0] == evaluated[0]
    assert (with_programs[1], evaluated[1]) == ("False", "True")


def test_a_choice_that_there_is_not() -> None:
    script = """
try:
    torch.ones(3).to("tpu")
except Exception as error:
    print(error)
"""
    said = run(script, TORCHTPU_INTERPRET="perhaps")
    assert 'TORCHTPU_INTERPRET must be `0`, `1` or `always`, not "perhaps"' in said
