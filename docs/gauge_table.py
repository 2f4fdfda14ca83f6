"""Table of docs/mathematics.md: where the declared dissipation and the relative push differ.

``python docs/gauge_table.py`` prints it; ``--write`` puts it on the page.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import gradlab
from gradlab.gradient.verification import BATCHES
from gradlab.losses.registry import get_loss, loss_names

PAGE = Path(__file__).with_name("mathematics.md")
BEGIN, END = "<!-- table: docs/gauge_table.py -->\n", "<!-- end of table -->"
SENTENCES, DIMENSIONS = 32, 64
KINDS = ("paired", "anisotropic", "clustered")
# Beside the registered losses: a temperature at which cosines are too bounded to close the gate.
FURTHER = ("infonce(temperature=1)", "symmetric(infonce)")


def rows() -> list[tuple[str, list[tuple[float, float]]]]:
    """Return mean declared dissipation and mean relative push by batch, for losses that differ."""
    differing = []
    for text in (*loss_names(), *FURTHER):
        loss, means, largest = get_loss(text), [], 0.0
        for kind in KINDS:
            views = BATCHES[kind](np.random.default_rng(0), SENTENCES, DIMENSIONS)
            components = gradlab.components(loss, *views)
            declared, relative = components.gate, components.relative_push
            largest = max(largest, float(np.nanmax(np.abs(declared - relative))))
            means.append((float(np.mean(declared)), float(np.nanmean(relative))))
        if largest > 0.01:
            differing.append((text, means))
    return differing


def table() -> str:
    """Return the table as Markdown."""
    head = "| loss | " + " | ".join(f"{kind}: declared, relative" for kind in KINDS) + " |"
    lines = [head, "|---|" + "--:|" * len(KINDS)]
    for text, means in rows():
        cells = " | ".join(f"{declared:.3g}, {relative:.3g}" for declared, relative in means)
        lines.append(f"| `{text}` | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table, or also write it."""
    text = table()
    print(text)
    if "--write" in sys.argv:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        after = rest[rest.index(END) :]
        PAGE.write_text(before + BEGIN + text + after, encoding="utf-8")


if __name__ == "__main__":
    main()
