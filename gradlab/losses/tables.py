"""Text entries of losses, and tables of their components in Markdown and LaTeX."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from gradlab.losses.base import Loss
from gradlab.settings.declaration import plain_text

COLUMNS = {"gradient_dissipation": "Gradient dissipation", "weight": "Weight", "ratio": "Ratio"}


def text_entry(cls: type[Loss] | Loss) -> str:
    """Return name, paper, formula and settings (class defaults or loss values) for a terminal."""
    lines = [
        ", ".join(filter(None, [f"{cls.name}: {cls.title}", cls.paper])),
        f"  L = {cls.formula}",
    ]
    for field in dataclasses.fields(cls):
        value = getattr(cls, field.name, field.default)
        text, unit = field.metadata.get("text", ""), field.metadata.get("unit", "")
        setting_text = f"{value:.12g}" if isinstance(value, float) else plain_text(value)
        degrees = f" ({math.degrees(float(setting_text)):g}°)" if unit == "radians" else ""
        lines.append(
            f"  {field.name} = {setting_text}{f' {unit}' if unit else ''}{degrees}: {text}"
        )
    for name, preset in cls.presets.items():
        settings = ", ".join(f"{key}={value}" for key, value in preset.hyperparameters.items())
        lines.append(f"  preset={name}: {settings}; {preset.source}")
    return "\n".join(lines)


def markdown_table(classes: Sequence[type[Loss]]) -> str:
    """Return the components as a Markdown table with TeX formulas."""
    rows = ["| Loss | " + " | ".join(COLUMNS.values()) + " |", "|---|---|---|---|"]
    for cls in classes:
        rows.append(f"| {cls.title} | " + " | ".join(_cells(cls, _in_markdown)) + " |")
    return "\n".join(rows)


def latex_table(classes: Sequence[type[Loss]]) -> str:
    """Return a LaTeX tabular; it needs amsmath, booktabs and a font with ``\\mathbb{1}``."""
    rows = [
        r"\begin{tabular}{llll}",
        r"\toprule",
        "Loss & " + " & ".join(COLUMNS.values()) + r" \\",
        r"\midrule",
    ]
    for cls in classes:
        title = cls.title.replace("&", r"\&").replace("ν", r"$\nu$")
        rows.append(f"{title} & " + " & ".join(_cells(cls, str)) + r" \\")
    return "\n".join([*rows, r"\bottomrule", r"\end{tabular}"])


def _cells(cls: type[Loss], converter: Callable[[str], str]) -> list[str]:
    """Return the formulas of a loss between dollar signs; a dash for a part without one."""
    return [f"${converter(cls.latex[key])}$" if key in cls.latex else "–" for key in COLUMNS]


def _in_markdown(formula: str) -> str:
    """Replace bars, which would end the cell, and escaped punctuation, which Markdown unescapes."""
    words = {
        r"\|": r"\Vert ",
        "|": r"\vert ",
        r"\{": r"\lbrace ",
        r"\}": r"\rbrace ",
        r"\,": r"\thinspace ",
    }
    for symbol, word in words.items():
        formula = formula.replace(symbol, word)
    return formula.strip()  # a $ after a space does not end a formula
