"""A queue of negatives from earlier steps (MoCo; ESimCSE, section 3.2; MoCoSE, section 3)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradlab.errors import GradlabError
from gradlab.train.objective_parts import CountingComponent, Output

# Age of a random vector, which no model made.
RANDOM = -1


class Queue(CountingComponent):
    """Embeddings of earlier batches, newest first, each with its age.

    The last row of a batch is the newest, at position 0. The age of a row is the number of steps
    since it was made; rows of the previous step have age 1. All of it is in the state dictionary.

    Attributes:
        rows: (size, D) unit rows; unfilled rows are zero.
        ages: (size,) in steps; :data:`RANDOM` for random initial vectors.
        sentences: (size,) rows of the training file, -1 for random vectors; None if not stored.
    """

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
            initial: number of random vectors at the beginning, at most ``size``.
            positions: positions used as negatives, see :func:`parse_positions`; None for all.
            numbered: whether to store the sentences that the rows embed.

        Raises:
            GradlabError: the queue lacks some ``positions``.
        """
        super().__init__()
        self.size = size
        self._used = torch.tensor(
            range(size) if positions is None else parse_positions(positions, size)
        )
        self.register_buffer("rows", torch.zeros(size, dimension))
        if initial:
            self.rows[:initial] = nn.functional.normalize(torch.randn(initial, dimension))
        self.register_buffer("ages", torch.full((size,), RANDOM))
        self.register_buffer("sentences", torch.full((size,), -1) if numbered else None)
        self.count = initial  # of filled rows
        self._pending: list[tuple[Tensor, Tensor | None]] = []

    def __len__(self) -> int:
        return self.count

    def negatives(self) -> tuple[Tensor, Tensor]:
        """Return copies of the rows used as negatives (M, D) and their ages (M,), newest first."""
        return self.contents()[:2]

    def contents(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return :meth:`negatives`, and the numbers of their sentences, -1 if not known."""
        used = self._used[self._used < self.count].to(self.rows.device)
        ages = self.ages[used]
        unknown = torch.full_like(ages, -1)
        return self.rows[used], ages, unknown if self.sentences is None else self.sentences[used]

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
        encoded, nan = ages[ages != RANDOM].double(), float("nan")
        return {
            "queue_negatives": float(len(ages)),
            "queue_age_mean": float(encoded.mean()),  # NaN without any
            "queue_age_max": float(encoded.max()) if len(encoded) else nan,
            "queue_random_share": 1 - len(encoded) / len(ages) if len(ages) else nan,
        }

    @torch.no_grad()
    def enqueue(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Enqueue the rows (N, D) of a step, scaled to unit length; all other rows age by one step.

        The oldest rows are dropped if there is no room. ``sentences`` (N,) are the numbers of the
        rows' sentences, for a queue that stores them.
        """
        new = nn.functional.normalize(rows.detach()).to(self.rows.dtype)
        self.ages.add_(self.ages != RANDOM)
        _push(self.rows, new)
        _push(self.ages, torch.ones_like(self.ages[:1]).expand(len(new)))
        if self.sentences is not None:
            unknown = self.ages.new_full((len(rows),), -1)
            _push(self.sentences, unknown if sentences is None else sentences)
        self.count = min(self.size, self.count + len(rows))


def parse_positions(text: str, size: int) -> tuple[int, ...]:
    """Return positions in half-open slices, ascending: ``"0:2,5:7"`` -> ``(0, 1, 5, 6)``.

    Raises:
        GradlabError: the text has another form, or a slice is empty or exceeds ``size``.
    """
    positions: set[int] = set()
    for piece in text.split(","):
        low, colon, high = piece.strip().partition(":")
        if not (colon and low.isdecimal() and high.isdecimal() and int(low) < int(high) <= size):
            raise GradlabError(
                f"positions are slices below {size} such as 0:256 or 0:256,768:1024, not {text!r}"
            )
        positions.update(range(int(low), int(high)))
    return tuple(sorted(positions))


def _push(buffer: Tensor, new: Tensor) -> None:
    """Put entries before those of a buffer, the last one first; what has no room is dropped."""
    # In place, because DistributedDataParallel keeps references to the first buffers.
    buffer.copy_(torch.cat([new.flip(0), buffer])[: len(buffer)])
