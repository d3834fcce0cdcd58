"""Prints the Chebyshev coefficients in crates/ir/src/ops/special.rs: `python scripts/chebyshev.py` (needs mpmath)."""

from collections.abc import Callable

import mpmath as mp

mp.mp.dps = 50
NODES = 160


def series(f: Callable[[mp.mpf], mp.mpf]) -> list[mp.mpf]:
    """Coefficients of `f` on -1..1, down to what a double can hold."""
    points = [mp.pi * (k + mp.mpf(1) / 2) / NODES for k in range(NODES)]
    values = [f(mp.cos(p)) for p in points]
    terms = [mp.fsum(v * mp.cos(j * p) for v, p in zip(values, points, strict=True)) * 2 / NODES for j in range(60)]
    terms[0] /= 2
    least = 1e-17 * max(abs(t) for t in terms)
    while abs(terms[-1]) < least:
        terms.pop()
    return terms


def i0e(x: mp.mpf) -> mp.mpf:
    return mp.exp(-x) * mp.besseli(0, x)


def erfcx(t: mp.mpf) -> mp.mpf:
    x = mp.mpf(15) / 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def ndtri_tail(t: mp.mpf) -> mp.mpf:
    """`s - x` for the `x` with `ndtr(-x) = exp(-s^2 / 2)`; `t` runs over `log s`."""
    low, high = mp.log(mp.sqrt(2 * mp.log(4))), mp.log(39)
    s = mp.exp((low + high) / 2 + (high - low) / 2 * t)
    x = mp.sqrt(max(mp.mpf("0.01"), s * s - 2 * mp.log(s * mp.sqrt(2 * mp.pi))))
    for _ in range(30):  # Newton on log ndtr(-x)
        below = mp.erfc(x / mp.sqrt(2)) / 2
        x += (mp.log(below) + s * s / 2) * below * mp.sqrt(2 * mp.pi) * mp.exp(x * x / 2)
    return s - x


SERIES = {
    "I0E_NEAR": lambda t: i0e(4 * (t + 1)),
    "I0E_FAR": lambda t: mp.sqrt(16 / (t + 1)) * i0e(16 / (t + 1)),
    "ERFCX": erfcx,
    "NDTRI_TAIL": ndtri_tail,
}

if __name__ == "__main__":
    for name, f in SERIES.items():
        terms = series(f)
        print(f"const {name}: [f64; {len(terms)}] = [")
        for term in terms:
            print(f"    {float(term)!r},")
        print("];")
