"""Settings that every Python test runs under."""

import gc
import os
import warnings
from collections.abc import Iterator

import pytest
import torch

# Some tests use several devices, of which there are no more than processors otherwise.
os.environ.setdefault("TORCHTPU_CPU_DEVICES", "4")
# What is tested are programs, however many sizes of an op come.
os.environ.setdefault("TORCHTPU_INTERPRET", "0")


def pytest_collection_finish() -> None:
    """PyTorch's modules and 15,000 tests need no walk each time garbage is collected."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    """No compiled code, and no change to PyTorch's global generator, outlives a test."""
    torch._dynamo.reset()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        yield
    torch._dynamo.reset()


@pytest.fixture
def deterministic() -> Iterator[None]:
    """A region's fourth occurrence waits for its program."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
