"""Runs all of PyTorch's module and optimizer databases on the device beside the CPU.

    python tests/python/sweep_device_suites.py [WORD ...]

Only the cases whose names hold one of the words are run, if there are any. It fails if less than 97% are right.
"""

from __future__ import annotations

import sys
import time

import suites

WANTED = 0.97


def main() -> int:
    words = sys.argv[1:]
    chosen = [case for case in suites.cases() if not words or any(word in case.name for word in words)]
    right = sum(verdict(case) for case in chosen)
    print(f"{right} of {len(chosen)} right ({right / max(len(chosen), 1):.1%}; {WANTED:.0%} wanted)")
    return int(right < WANTED * len(chosen))


def verdict(case: suites.Case) -> bool:
    start = time.perf_counter()
    try:
        case.run()
    except Exception as error:
        reason = " | ".join(str(error).splitlines())[:300]
        print(f"{case.name}: {type(error).__name__}: {reason}", flush=True)
        return False
    print(f"{case.name}: right, {time.perf_counter() - start:.1f} s", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
