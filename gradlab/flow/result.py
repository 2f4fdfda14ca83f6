"""`Flow`: where a loss has led, as curves, embeddings and words."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.arrays import Float, Int
from gradlab.drawable import Drawable
from gradlab.errors import counted
from gradlab.files import versions
from gradlab.flow.curves import CURVES, STOPPED
from gradlab.flow.known_minima import Reference
from gradlab.losses.base import Loss
from gradlab.settings import call_text

if TYPE_CHECKING:
    from pandas import DataFrame

ENDS = ("at rest", "stopped learning", "still moving")
CLOSE = 1e-8  # relative difference below which two losses count as equal


@dataclasses.dataclass(frozen=True, repr=False)
class Flow(Drawable):
    """A flow of embeddings, from a batch to where the loss leads; see `gradlab.flow`.

    Attributes:
        loss: the loss.
        embeddings: embeddings at the end, float64, by kind: ``"anchors"`` (n, d), …
        curves: by name, one number per record; `gradlab.flow.curves.CURVES` describes them.
        end: ``"at rest"`` (forces balance), ``"stopped learning"`` (nothing pushes any more) or
            ``"still moving"``.
        jump: whether embeddings rest where the gradient jumps and does not vanish.
        descent: whether directions of descent remain at rest; None if this was not judged.
        reference: arrangement with the lowest known loss, or None.
        path: states at the records, for the animation; only the first and last of large batches.
        groups: group of each sentence, or None.
        settings: arguments of the flow.
    """

    loss: Loss
    embeddings: Mapping[str, Float[np.ndarray, ...]]
    curves: Mapping[str, np.ndarray]
    end: str
    jump: bool
    descent: bool | None
    reference: Reference | None
    path: Sequence[np.ndarray]
    groups: Int[np.ndarray, "n"] | None
    settings: Mapping[str, Any]

    artist = "gradlab.flow.picture:draw_flow"
    shown = (
        *("loss", "anchors", "positives", "groups", "settings", "curves", "path", "end", "words"),
        *("reference", "descent", "jump", "last", "embeddings", "manifest", "to_frame", "plot"),
    )

    @property
    def anchors(self) -> Float[np.ndarray, "n d"]:
        """Anchors at the end."""
        return self.embeddings["anchors"]

    @property
    def positives(self) -> Float[np.ndarray, "n d"]:
        """Positives at the end."""
        return self.embeddings["positives"]

    @property
    def last(self) -> dict[str, float]:
        """The last number of each curve."""
        return {name: float(curve[-1]) for name, curve in self.curves.items()}

    @property
    def words(self) -> str:
        """How the flow ended, in sentences."""
        sentences = [self._end_words()]
        if self.descent is not None:
            sentences.append(
                "Directions of descent remain: this is a saddle, which noise would leave."
                if self.descent
                else "No direction of descent was found."
            )
        if self.reference is not None:
            sentences.append(self._compared(self.reference))
        return " ".join(sentences)

    def __repr__(self) -> str:
        return f"{self.headline()}\n{_cosine_words(self)}\n{self.words}"

    def headline(self) -> str:
        """Return the loss, the size of the batch and how the flow ended."""
        count, dim = self.anchors.shape
        kind = f"batches of {size}" if (size := self.settings["batch_size"]) else "all at once"
        batch = f"{counted(count, 'sentence')} in {dim} dimensions, {kind}"
        end = f"{self.end} at t = {self.last['time']:.3g}"
        steps = counted(int(self.last["steps"]), "step")
        return f"Flow of {call_text(self.loss)}, {batch}: {end} after {steps}"

    def columns(self) -> dict[str, Any]:
        """Return all curves."""
        return dict(self.curves)

    def brief(self) -> DataFrame:
        """Return the first and the last record."""
        frame = self.to_frame()
        return frame.iloc[[0, -1]].set_axis(["start", "end"]).T

    def manifest(self) -> dict[str, Any]:
        """Return the loss, all settings, the end and the versions, for JSON."""
        reference = None if self.reference is None else dataclasses.asdict(self.reference)
        return {
            "loss": call_text(self.loss),
            "settings": dict(self.settings),
            "results": {
                "end": self.end,
                "words": self.words,
                "last": self.last,
                "descent": self.descent,
                "reference": reference,
            },
            "versions": versions("numpy", "torch"),
        }

    def _end_words(self) -> str:
        if self.end == "stopped learning":
            return (
                f"Stopped learning: no anchor's relative push exceeds {STOPPED:g}, "
                "so the loss leaves the embeddings where they are."
            )
        if self.jump:
            return (
                "At rest where the gradient jumps and does not vanish: "
                "embeddings only go back and forth by tiny angles."
            )
        if self.end == "at rest":
            return "At rest: the forces on every embedding balance."
        if self.settings["batch_size"] is not None:
            return "Still moving, as batches differ in their forces."
        angle = math.degrees(self.last["speed"] * self.last["time"] * math.log(2))
        return f"Still moving: by up to {min(angle, 180):.2g}° while time doubles."

    def _compared(self, reference: Reference) -> str:
        """Compare the loss at the end with the lowest known."""
        gap = self.last["value"] - reference.value
        scale = max(abs(reference.value), abs(self.last["value"]), 1e-300)
        cosines = f"cosines {reference.positives:.4f} and {reference.different:.4f}"
        if abs(gap) <= CLOSE * scale:
            return f"Its loss is that of {reference.name} ({cosines}), the lowest known."
        words = f"{abs(gap):.2g} {'above' if gap > 0 else 'below'}"
        lowest = ", the lowest known" if gap > 0 else ""
        return f"Its loss is {words} that of {reference.name} ({cosines}){lowest}."


class Flows(list[Flow], Drawable):
    """Flows of several losses from the same batch; `plot` draws them beside each other."""

    artist = "gradlab.flow.picture:draw_flows"

    def columns(self) -> dict[str, Any]:
        """Return all records of all losses."""
        names = [call_text(flow.loss) for flow in self for _ in flow.curves["time"]]
        curves = {name: np.concatenate([flow.curves[name] for flow in self]) for name in CURVES}
        return {"loss": names, **curves}

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self))


def _cosine_words(flow: Flow) -> str:
    """Return the cosines at the start and at the end, one line each."""
    names = {
        "positive_cosine": "positives",
        "same_group_cosine": "same group",
        "different_cosine": "different",
    }
    lines = []
    for name, label in names.items():
        curve = flow.curves[name]
        if not math.isnan(curve[-1]):
            lines.append(f"  cosine, {label:<11} {curve[0]:7.4f} -> {curve[-1]:7.4f}")
    return "\n".join(lines)
