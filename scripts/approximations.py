"""Prints crates/ir/src/ops/special/tables.rs: `python scripts/approximations.py > FILE` (needs mpmath; a minute)."""

from collections.abc import Callable

import mpmath as mp
from mpmath import mpf

mp.mp.dps = 60
NODES = 160
# Small beside what a double can hold of 1.
LEAST = mpf("3e-17")
# Stands for 0 where a function goes to infinity in between: it changes nothing that a double holds.
NEARLY_ZERO = mpf("1e-30")

Function = Callable[[mpf], mpf]


def series(f: Function) -> list[mpf]:
    """Chebyshev coefficients of `f` on -1..1."""
    points = [mp.pi * (k + mpf(1) / 2) / NODES for k in range(NODES)]
    values = [f(mp.cos(p)) for p in points]
    terms = [mp.fsum(v * mp.cos(j * p) for v, p in zip(values, points, strict=True)) * 2 / NODES for j in range(60)]
    terms[0] /= 2
    least = LEAST / 3 * max(abs(t) for t in terms)
    while abs(terms[-1]) < least:
        terms.pop()
    return terms


def ratio(f: Function) -> tuple[list[mpf], list[mpf]]:
    """Coefficients, lowest degree first, of the least two polynomials whose quotient is `f` on 0..1."""
    for degree in range(3, 12):
        over, under = ratio_of_degree(f, degree)
        points = [mpf(k) / 50 + NEARLY_ZERO for k in range(51)]
        if all(abs(mp.polyval(over[::-1], u) / mp.polyval(under[::-1], u) / f(u) - 1) < LEAST for u in points):
            return over, under
    raise ValueError("no such quotient is close")


def ratio_of_degree(f: Function, degree: int) -> tuple[list[mpf], list[mpf]]:
    """The quotient that equals `f` in as many Chebyshev nodes as it has coefficients."""
    size = 2 * degree + 1
    rows, values = mp.matrix(size), mp.matrix(size, 1)
    for i in range(size):
        u = (1 + mp.cos(mp.pi * (i + mpf(1) / 2) / size)) / 2
        values[i] = f(u)
        for j in range(degree + 1):
            rows[i, j] = u**j
        for j in range(1, degree + 1):
            rows[i, degree + j] = -values[i] * u**j
    solved = list(mp.lu_solve(rows, values))
    return solved[: degree + 1], [mpf(1), *solved[degree + 1 :]]


def i0e(x: mpf) -> mpf:
    return mp.exp(-x) * mp.besseli(0, x)


def erfcx(t: mpf) -> mpf:
    x = mpf(15) / 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def ndtri_tail(t: mpf) -> mpf:
    """`s - x` for the `x` with `ndtr(-x) = exp(-s^2 / 2)`; `t` runs over `log s`."""
    low, high = mp.log(mp.sqrt(2 * mp.log(4))), mp.log(39)
    s = mp.exp((low + high) / 2 + (high - low) / 2 * t)
    x = mp.sqrt(max(mpf("0.01"), s * s - 2 * mp.log(s * mp.sqrt(2 * mp.pi))))
    for _ in range(30):  # Newton on log ndtr(-x)
        below = mp.erfc(x / mp.sqrt(2)) / 2
        x += (mp.log(below) + s * s / 2) * below * mp.sqrt(2 * mp.pi) * mp.exp(x * x / 2)
    return s - x


def near_zero(f: Function) -> Function:
    """`f` of x in 0..5 over `2 (x / 5)^2 - 1`."""
    return lambda t: f(5 * mp.sqrt((1 + t) / 2))


def wave(order: int, part: int) -> Function:
    """What the cosine and the sine are multiplied with in a Bessel function far from 0, over `(5 / x)^2`."""

    def value(u: mpf) -> mpf:
        x = 5 / mp.sqrt(u)
        size, phase = mp.sqrt(mp.pi * x / 2), x - mp.pi / 4 - order * mp.pi / 2
        j, y = size * mp.besselj(order, x), size * mp.bessely(order, x)
        cos, sin = mp.cos(phase), mp.sin(phase)
        return j * cos + y * sin if part == 0 else (y * cos - j * sin) * x / 5

    return value


def k_far(order: int) -> Function:
    return lambda u: mp.exp(2 / u) * mp.sqrt(2 / u) * mp.besselk(order, 2 / u)


def airy_phase(x: mpf) -> mpf:
    return 2 * x * mp.sqrt(x) / 3


def airy_far(u: mpf) -> mpf:
    phase = airy_phase(mpf(2)) / u
    x = (phase * 3 / 2) ** (mpf(2) / 3)
    return mp.exp(phase) * mp.root(x, 4) * mp.airyai(x)


def airy_wave(part: int) -> Function:
    def value(u: mpf) -> mpf:
        phase = airy_phase(mpf(4)) / mp.sqrt(u)
        x = (phase * 3 / 2) ** (mpf(2) / 3)
        cos, sin = mp.cos(phase + mp.pi / 4), mp.sin(phase + mp.pi / 4)
        a, b = mp.root(x, 4) * mp.airyai(-x), mp.root(x, 4) * mp.airybi(-x)
        return a * sin + b * cos if part == 0 else (b * sin - a * cos) * phase

    return value


def stirling() -> list[mpf]:
    """What `log(gamma(a) sqrt(a / (2 pi)) e^a / a^a)` is asymptotic to, times `a`, in powers of `1 / a^2`."""
    return [mp.bernoulli(2 * k) / (2 * k * (2 * k - 1)) for k in range(1, 8)]


# Terms of the power series below; each division by eta costs two.
TERMS = 24


def uniform() -> list[list[mpf]]:
    """DLMF 8.12: power series in eta, one a power of `1 / a`.

    `eta^2 / 2 = m - log(1 + m)` gives `m` as a series; `c[0] = 1 / m - 1 / eta` and
    `c[k] = c[k - 1]' / eta + (-1)^k g[k] / m`, where `g` are the coefficients of Stirling's series of gamma.
    """
    m = [mpf(0), mpf(1)]  # From m m' = eta (1 + m).
    for n in range(2, TERMS):
        known = mp.fsum(m[i] * m[n - i + 1] * (n - i + 1) for i in range(2, n))
        m.append((m[n - 1] - known) / (n + 1))
    inverse = [mpf(1)]  # Of m / eta.
    for n in range(1, TERMS - 1):
        inverse.append(-mp.fsum(m[i + 1] * inverse[n - i] for i in range(1, n + 1)))
    logs, g = stirling(), [mpf(1)]
    powers = [logs[n // 2] if n % 2 == 0 else mpf(0) for n in range(8)]
    for n in range(1, 5):
        g.append(mp.fsum((i + 1) * powers[i] * g[n - 1 - i] for i in range(n)) / n)
    rows = [inverse[1:]]
    for k in range(1, 4):
        last, sign = rows[-1], (-1) ** k
        pole = last[1] + sign * g[k] * inverse[0]
        assert abs(pole) < LEAST, f"c[{k}] has a pole"
        pairs = zip([n * last[n] for n in range(2, len(last))], inverse[1:], strict=False)
        rows.append([slope + sign * g[k] * i for slope, i in pairs])
    return [row[:length] for row, length in zip(rows, (12, 8, 5, 2), strict=True)]


SERIES: dict[str, tuple[str, Function]] = {
    "AIRY_NEAR": ("`Ai(x)` for x in -4..2, over `(x + 1) / 3`.", lambda t: mp.airyai(3 * t - 1)),
    "ERFCX": ("`(1 + 2x) exp(x^2) erfc(x)` for positive x, over `(x - 3.75) / (x + 3.75)`.", erfcx),
    "I0E_NEAR": ("`exp(-x) I0(x)` for x in 0..8, over `x / 4 - 1`.", lambda t: i0e(4 * (t + 1))),
    "I0E_FAR": (
        "`sqrt(x) exp(-x) I0(x)` for x from 8 on, over `16 / x - 1`.",
        lambda t: mp.sqrt(16 / (t + 1)) * i0e(16 / (t + 1)),
    ),
    "J0_NEAR": ("`J0(x)` for x in 0..5, over `2 (x / 5)^2 - 1`.", near_zero(lambda x: mp.besselj(0, x))),
    "J1_NEAR": ("`J1(x) / x` for x in 0..5, over `2 (x / 5)^2 - 1`.", near_zero(lambda x: mp.besselj(1, x) / x)),
    "K0_NEAR": (
        "`K0(x) + log(x / 2) I0(x)` for x in 0..2, over `x^2 / 2 - 1`.",
        lambda t: (lambda x: mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x))(mp.sqrt(2 * (1 + t))),
    ),
    "K1_NEAR": (
        "`(K1(x) - log(x / 2) I1(x)) x` for x in 0..2, over `x^2 / 2 - 1`.",
        lambda t: (lambda x: (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x)) * x)(mp.sqrt(2 * (1 + t))),
    ),
    "NDTRI_TAIL": (
        "`s - x` for the x below whose opposite a normal number falls with probability `exp(-s^2 / 2)`, over `log s`.",
        ndtri_tail,
    ),
    "Y0_NEAR": (
        "`Y0(x) - 2 / pi log(x) J0(x)` for x in 0..5, over `2 (x / 5)^2 - 1`.",
        near_zero(lambda x: mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)),
    ),
    "Y1_NEAR": (
        "`(Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x` for x in 0..5, over `2 (x / 5)^2 - 1`.",
        near_zero(lambda x: (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x),
    ),
}

RATIOS: dict[str, tuple[str, Function]] = {
    "ATANH_TAIL": (
        "`(atanh(r) - r) / r^3` for r in -1/3..1/3, over `9 r^2`.",
        lambda u: (lambda r: (mp.atanh(r) - r) / r**3)(mp.sqrt(u) / 3),
    ),
    "AIRY_FAR": ("`exp(s) x^(1/4) Ai(x)` for x from 2 on and `s = 2 / 3 x^(3/2)`, over `s(2) / s`.", airy_far),
    "AIRY_SINE": (
        "What the sine of `s + pi / 4` is multiplied with in `x^(1/4) Ai(-x)` for x from 4 on, over `(s(4) / s)^2`.",
        airy_wave(0),
    ),
    "AIRY_COSINE": ("Likewise the cosine, times `-s`.", airy_wave(1)),
    "BESSEL_0_IN_PHASE": (
        "`p` in `J0(x) = sqrt(2 / (pi x)) (p cos(x - pi / 4) - q 5 / x sin(x - pi / 4))` from 5 on, over `(5 / x)^2`.",
        wave(0, 0),
    ),
    "BESSEL_0_BEHIND": ("`q` there.", wave(0, 1)),
    "BESSEL_1_IN_PHASE": ("Likewise `p` in `J1(x)`, with `3 pi / 4`.", wave(1, 0)),
    "BESSEL_1_BEHIND": ("`q` there.", wave(1, 1)),
    "K0_FAR": ("`sqrt(x) exp(x) K0(x)` for x from 2 on, over `2 / x`.", k_far(0)),
    "K1_FAR": ("`sqrt(x) exp(x) K1(x)` for x from 2 on, over `2 / x`.", k_far(1)),
}


def numbers(values: list[mpf], indent: str) -> str:
    return "".join(f"{indent}{float(v)!r},\n" for v in values)


if __name__ == "__main__":
    print("//! Coefficients. Printed by `scripts/approximations.py`.\n\nuse super::Ratio;\n")
    for name, (doc, f) in SERIES.items():
        terms = series(f)
        print(f"/// {doc}\npub(super) const {name}: [f64; {len(terms)}] = [\n{numbers(terms, '    ')}];")
    for name, (doc, f) in RATIOS.items():
        over, under = ratio(f)
        print(f"/// {doc}\npub(super) const {name}: Ratio = Ratio {{")
        print(f"    over: &[\n{numbers(over, ' ' * 8)}    ],\n    under: &[\n{numbers(under, ' ' * 8)}    ],\n}};")
    print("/// Of Stirling's series of `log gamma(a)`, times `a`, over `1 / a^2`.")
    print(f"pub(super) const STIRLING: &[f64] = &[\n{numbers(stirling(), '    ')}];")
    rows = "".join(f"    &[\n{numbers(row, ' ' * 8)}    ],\n" for row in uniform())
    print("/// Of the uniform series of incomplete gamma functions: powers of eta, for each power of `1 / a`.")
    print(f"pub(super) const UNIFORM: &[&[f64]] = &[\n{rows}];")
