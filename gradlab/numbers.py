"""Rounding and formatting of numbers for reports."""

from __future__ import annotations

import math


def short(value: float, digits: int = 3) -> str:
    """Format significant digits; exponent only below 0.001: ``0.0412``, ``1.3e−5``, ``12 500``."""
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
    """Format a score with three decimals, for alignment; values beyond 1 as :func:`short` does."""
    return f"{value:.3f}".replace("-", "−") if abs(value) <= 1 else short(value)


def percent(share: float) -> str:
    """Format a share in per cent, with one decimal below ten: ``0.0213`` becomes ``2.1%``."""
    if math.isnan(share):
        return "–"
    per_cent = 100 * share
    return f"{per_cent:.1f}%" if 0 < per_cent < 9.95 else f"{per_cent:.0f}%"


def percent_exactly(share: float) -> str:
    """Format a share like `percent`, with more digits between 0.001% and 0.1%."""
    if math.isnan(share) or share == 0 or share >= 1e-3:
        return percent(share)
    return f"{100 * share:.2g}%" if share >= 1e-5 else "less than 0.001%"
