"""Steps of benches/steps.py on PyTorch/XLA, in a process and a Python environment of its own.

    PYTHON benches/xla_worker.py SET NAME xla-lazy|xla-eager

Prints a line when it is ready, then takes a step for each line it reads and prints the seconds that took, with the
wait for the device. Needs torch and torch_xla; benches/fused.py starts it.
"""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch_xla
import torch_xla.core.xla_model as xm
from steps import SETS


def main() -> None:
    chosen, name, variant = sys.argv[1:]
    torch_xla.experimental.eager_mode(variant == "xla-eager")
    step = SETS[chosen][name](variant)
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        result = step()  # held, or there would be nothing to compute
        torch_xla.sync()
        xm.wait_device_ops()
        seconds = time.perf_counter() - start
        del result
        print(seconds, flush=True)


if __name__ == "__main__":
    main()
