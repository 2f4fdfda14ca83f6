"""Numbers for people: rounded, with round marks on axes."""

from __future__ import annotations

import math
from collections.abc import Sequence


def short(value: float, digits: int = 3) -> str:
    """A few significant digits, with an exponent only below a thousandth: ``0.0412``, ``1.3e−5``, ``12 500``."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 999.5 and digits <= 3:
        text = f"{value:,.0f}".replace(",", "\u202f")
    elif size >= 1e-3:
        text = f"{value:.{digits}g}"
    else:
        mantissa, exponent = f"{value:.{digits - 2}e}".split("e")
        text = f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    return text.replace("-", "−")


def score(value: float) -> str:
    """A score with three decimals, so that scores stand below each other; what is not a share of one, as :func:`short`."""
    return f"{value:.3f}".replace("-", "−") if abs(value) <= 1 else short(value)


def percent(share: float) -> str:
    """``0.0213`` -> ``2.1%``; two digits below ten per cent."""
    if math.isnan(share):
        return "–"
    per_cent = 100 * share
    return f"{per_cent:.1f}%" if 0 < per_cent < 9.95 else f"{per_cent:.0f}%"


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers in [low, high], at most ``most`` + 1 of them."""
    if not high > low:
        return [low]
    raw = (high - low) / most
    base = 10.0 ** math.floor(math.log10(raw))
    step = next(base * factor for factor in (1, 2, 2.5, 5, 10) if base * factor >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [step * i for i in range(first, last + 1)]


def labels(marks: Sequence[float]) -> list[str]:
    """Texts of an axis's marks, with as many digits as it takes to tell them apart."""
    for digits in range(3, 12):
        texts = [short(mark, digits) for mark in marks]
        if len(set(texts)) == len(texts):
            break
    return texts


def decades(low: float, high: float) -> list[float]:
    """Powers of ten in [low, high], a few of them."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    stride = max(1, math.ceil((last - first) / 4))
    return [10.0**exponent for exponent in range(first, last + 1, stride)]
