"""A first-in, first-out queue of negatives from earlier steps.

See MoCo; ESimCSE, section 3.2; MoCoSE, section 3.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from gradlab.errors import GradlabError
from gradlab.train.outputs import CountingComponent, Output

# Age of a random vector, which no model made.
RANDOM = -1


class Queue(CountingComponent):
    """Embeddings of earlier batches, newest first, each with its age.

    Position 0 is the newest row; the rows of a batch keep their order, and the last of them is the
    newest. The age of a row is the number of steps between the step that made it and the step that
    uses it; rows of the previous step have age 1. All of it is in the state dictionary.

    Attributes:
        rows: (size, D) unit rows; unfilled rows are zero.
        ages: (size,) in steps; :data:`RANDOM` for random initial vectors.
        sentences: (size,) rows of the training file, -1 for random vectors; None if not stored.
    """

    counter = "_filled"
    rows: Tensor
    ages: Tensor
    sentences: Tensor | None

    def __init__(
        self,
        size: int,
        dimension: int,
        *,
        initial: int = 0,
        positions: str | None = None,
        numbered: bool = False,
    ) -> None:
        """Start with ``initial`` random unit vectors, drawn from torch's generator.

        Args:
            size: largest number of rows.
            dimension: D.
            initial: number of random vectors at the beginning.
            positions: positions used as negatives, see :func:`parse_positions`; None for all.
            numbered: whether to store the sentences that the rows embed.

        Raises:
            GradlabError: ``initial`` exceeds ``size``, or the queue lacks some ``positions``.
        """
        super().__init__()
        if initial > size:
            raise GradlabError(f"a queue of {size} cannot begin with {initial} random vectors")
        self.size = size
        self._used = torch.tensor(
            range(size) if positions is None else parse_positions(positions, size)
        )
        self.register_buffer("rows", torch.zeros(size, dimension))
        if initial:
            self.rows[:initial] = nn.functional.normalize(torch.randn(initial, dimension))
        self.register_buffer("ages", torch.full((size,), RANDOM))
        self.register_buffer("sentences", torch.full((size,), -1) if numbered else None)
        self._filled = initial
        self._pending: list[tuple[Tensor, Tensor | None]] = []

    def __len__(self) -> int:
        return self._filled

    def negatives(self) -> tuple[Tensor, Tensor]:
        """Return copies of the rows used as negatives (M, D) and their ages (M,), newest first."""
        used = self._places()
        return self.rows[used], self.ages[used]

    def _places(self) -> Tensor:
        return self._used[self._used < self._filled].to(self.rows.device)

    def behind(
        self, extra: Tensor | None, anchors: Tensor, context: dict[str, Any]
    ) -> tuple[Tensor | None, Tensor, dict[str, Any]]:
        """Return ``extra`` (M, D) with the queue's negatives behind, their ages, and the context.

        Numbers of the queue's sentences are appended to "sentences" in the context, if it has them.
        """
        queued, ages = self.negatives()
        if not len(queued):
            return extra, ages, context
        queued = queued.to(anchors.dtype)
        if "sentences" in context:
            unknown = ages.new_full((0 if extra is None else len(extra),), -1)
            numbers = (
                torch.full_like(ages, -1)
                if self.sentences is None
                else self.sentences[self._places()]
            )
            known = context["sentences"][: len(anchors)]
            context = {**context, "sentences": torch.cat([known, unknown, numbers])}
        return queued if extra is None else torch.cat([extra, queued]), ages, context

    def after_batch(self, output: Output) -> None:
        """Store the keys of the batch and the numbers of their sentences until the step ends."""
        if output.keys is not None:
            numbers = output.context.get("sentences", torch.full_like(output.keys[:, 0], -1).long())
            self._pending.append((output.keys, numbers[: len(output.keys)]))

    def after_step(self) -> None:
        """Enqueue the keys of all batches of the step."""
        if self._pending:
            keys, numbers = zip(*self._pending, strict=True)
            self.enqueue(torch.cat(keys), torch.cat(numbers))
            self._pending.clear()

    def statistics(self, output: Output) -> dict[str, float]:
        """Return number, mean age, largest age and random share of the queue's negatives."""
        if output.negative_ages is None:
            return {}
        ages = output.negative_ages
        made, nan = ages[ages != RANDOM].double(), float("nan")
        return {
            "queue_negatives": float(len(ages)),
            "queue_age_mean": float(made.mean()) if len(made) else nan,
            "queue_age_max": float(made.max()) if len(made) else nan,
            "queue_random_share": 1 - len(made) / len(ages) if len(ages) else nan,
        }

    @torch.no_grad()
    def enqueue(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Enqueue the rows (N, D) of a step, scaled to unit length; all other rows age by one step.

        The oldest rows are dropped if there is no room, and of more rows than fit, the last ones
        are kept. ``sentences`` (N,) are numbers of their sentences, for a queue that stores them.
        """
        new = nn.functional.normalize(rows.detach()).flip(0)[: self.size].to(self.rows.dtype)
        kept = self.size - len(new)
        older = torch.where(self.ages == RANDOM, self.ages, self.ages + 1)
        # In place, because DistributedDataParallel keeps references to the first buffers.
        self.rows.copy_(torch.cat([new, self.rows[:kept]]))
        self.ages.copy_(torch.cat([torch.ones_like(self.ages[: len(new)]), older[:kept]]))
        if self.sentences is not None:
            numbers = self.ages.new_full((len(rows),), -1) if sentences is None else sentences
            self.sentences.copy_(torch.cat([numbers.flip(0)[: self.size], self.sentences[:kept]]))
        self._filled = min(self.size, self._filled + len(rows))


def parse_positions(text: str, size: int) -> tuple[int, ...]:
    """Return positions in half-open slices, ascending: ``"0:2,5:7"`` -> ``(0, 1, 5, 6)``.

    Raises:
        GradlabError: the text has another form, or a slice is empty or exceeds ``size``.
    """
    found: set[int] = set()
    for part in text.split(","):
        low, colon, high = part.strip().partition(":")
        if not (colon and low.isdecimal() and high.isdecimal()):
            raise GradlabError(
                f"positions are slices such as 0:256 or 0:256,768:1024, not {text!r}"
            )
        if not int(low) < int(high) <= size:
            raise GradlabError(f"the slice {part.strip()} selects nothing from a queue of {size}")
        found.update(range(int(low), int(high)))
    return tuple(sorted(found))
