"""BibTeX of the papers that the losses come from, for model cards."""

from __future__ import annotations

from gradlab.losses.base import Loss


def citation(loss: Loss) -> str:
    """BibTeX of the paper that a loss comes from; of a loss that has no entry, what it names as its paper."""
    # An entry belongs to the class that names the paper: a loss of yours may derive from a published one.
    named = next((cls for cls in type(loss).__mro__ if "paper" in vars(cls)), type(loss))
    entry = vars(named).get("bibtex")
    return (
        entry or f"\n@misc{{{loss.name},\n    title = {{{loss.title}}},\n    note = {{{loss.paper}}},\n}}\n"
    )
