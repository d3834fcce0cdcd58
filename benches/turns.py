"""Taking turns: what benchmarks that time several ways of doing a thing in one run share."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

RESAMPLES = 2000
REST = 0.03  # seconds


def until_rested(step: Callable[[], Any]) -> int:
    """Steps, not timed, until the threads of whoever had the last turn rest; how many they were.

    OpenMP's threads spin for some 15 ms after a call, longer than small models take, and caches hold the other's data.
    """
    rested = time.perf_counter() + REST
    steps = 0
    while time.perf_counter() < rested:
        step()
        steps += 1
    return steps


def ratio(times: Sequence[float], reference: Sequence[float]) -> tuple[float, float, float]:
    """The ratio of medians and its 95% bootstrap interval. Rounds are resampled whole, because they were shared."""
    return geometric_mean([(times, reference)])


def geometric_mean(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> tuple[float, float, float]:
    """The geometric mean of several such ratios, and its interval."""
    if not all(times and reference for times, reference in pairs):
        return (math.nan,) * 3
    pick = random.Random(0)
    logs = [0.0] * RESAMPLES
    for times, reference in pairs:
        for i in range(RESAMPLES):
            rounds = pick.choices(range(len(times)), k=len(times))
            logs[i] += _log_ratio([times[r] for r in rounds], [reference[r] for r in rounds])
    logs.sort()
    middle = sum(_log_ratio(times, reference) for times, reference in pairs)
    bounds = (middle, logs[int(0.025 * RESAMPLES)], logs[int(0.975 * RESAMPLES)])
    middle, low, high = (math.exp(value / len(pairs)) for value in bounds)
    return middle, low, high


def _log_ratio(times: Sequence[float], reference: Sequence[float]) -> float:
    return math.log(statistics.median(times) / statistics.median(reference))
