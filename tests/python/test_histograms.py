"""``torch.histc`` on the device: what is counted, and where numbers at the edges of bins belong."""

from __future__ import annotations

import pytest
import torch


def test_histograms_of_integers() -> None:
    """As on CUDA; Hugging Face's mixtures of experts ask every device but the CPU for them."""
    x = torch.tensor([0, 3, 1, 3, 7, -1, 2])
    for bins, least, most in ((4, 0, 3), (3, 0, 5), (5, 0, 0)):
        ours, theirs = torch.histc(x.to("tpu"), bins, least, most), torch.histc(x.double(), bins, least, most)
        assert ours.dtype == x.dtype and torch.equal(ours.cpu(), theirs.long())


@pytest.mark.parametrize("compiling", [False, True])
def test_histograms_of_numbers_at_the_edges_of_bins(compiling: bool) -> None:
    x = torch.tensor([-3 + 6 * k / 100 for k in range(101)] + [float("inf"), float("nan")])
    histc = torch.compile(torch.histc, backend="torchtpu") if compiling else torch.histc
    for bins, least, most in ((100, -3, 3), (7, -2.1, 2.1), (33, -1, 0.3)):
        assert torch.equal(histc(x.to("tpu"), bins, least, most).cpu(), torch.histc(x, bins, least, most))
