"""Mail between processes: the hardest negatives that rows have elsewhere, and the gradients of these on their way home."""

from __future__ import annotations

import torch
from torch import Tensor

from gradlab.large_batch.products import slices
from gradlab.large_batch.shared.keys import Family, Letter, Nearest, Session, Side
from gradlab.large_batch.similarity import CLOSE_PAIRS, PAIRS, consecutive, count_of


def fetch_nearest(session: Session, family: Family, best: Tensor, part: Tensor, column: Tensor) -> Nearest:
    """With the vectors in these columns of all processes; where all are here, they are not copied."""
    rows, known = session.rows[family.rows], best.isfinite()
    everyone = bool(known.all())
    if everyone and session.ring.count == len(family.parts) == 1:
        letters = [Letter(at, 0, column[at], 0) for at in slices(len(column), CLOSE_PAIRS)]
        return Nearest(best, part, column, session.rows[family.parts[0].columns], [letters], gathered=False)
    vectors = torch.empty_like(rows) if everyone else rows.clone()
    mail = []
    for place, one in enumerate(family.parts):
        mail.append(_letters(session, family.rows, one.columns, (part == place) & known, column))
        others = session.rows[one.columns]
        memory = others.new_empty(2, longest(mail[-1]), others.shape[1])
        for letter in mail[-1]:
            if letter.owner == session.ring.rank and isinstance(letter.order, slice):
                torch.index_select(others, 0, letter.given, out=vectors[letter.order])
                continue
            given = memory[0, : len(letter.given)]
            torch.index_select(others, 0, letter.given, out=given)
            coming = memory[1, : count_of(letter.order)]
            vectors[letter.order] = session.ring.swap(given, letter.asker, coming, letter.owner)
    return Nearest(best, part, column, vectors, mail)


def _letters(session: Session, side: Side, columns: Side, chosen: Tensor, column: Tensor) -> list[Letter]:
    """What the chosen rows of ``side`` want of ``columns``, process by process, `PAIRS` rows at a time (`CLOSE_PAIRS` on one process).

    Everyone knows what all want, so that nothing else is agreed upon: a process waits for letters in the order of its
    distance from who has the rows, and there is one that all have written to it.
    """
    ring = session.ring
    wanted = ring.gather(torch.where(chosen, column, -1), session.sizes(side))
    letters = []
    for step in range(ring.count):
        owner, asker = (ring.rank + step) % ring.count, (ring.rank - step) % ring.count
        order, _ = _wanted_of(session, wanted[session.share(side)], columns, owner)
        first = session.start(side, asker)
        _, given = _wanted_of(session, wanted[first : first + session.sizes(side)[asker]], columns, ring.rank)
        for at in slices(max(len(order), len(given)), PAIRS if ring.count > 1 else CLOSE_PAIRS):
            letters.append(Letter(consecutive(order[at]), owner, given[at], asker))
    return letters


def _wanted_of(session: Session, numbers: Tensor, columns: Side, owner: int) -> tuple[Tensor, Tensor]:
    """Which of some rows want a row of a process, and which of its rows, (m,) each; ``numbers`` are among the rows of all."""
    here = numbers - session.start(columns, owner)
    order = ((here >= 0) & (here < session.sizes(columns)[owner])).nonzero()[:, 0]
    return order, here[order]


def bring_home(session: Session, letter: Letter, gradient: Tensor, home: Tensor, memory: Tensor) -> None:
    """Add gradients, (m, D), of rows that others have to those at home; ``memory`` has room for what comes."""
    coming = memory[: len(letter.given)]
    home.index_add_(0, letter.given, session.ring.swap(gradient, letter.owner, coming, letter.asker))


def longest(letters: list[Letter]) -> int:
    """The most rows that one of these letters asks for or gives."""
    return max((count_of(rows) for letter in letters for rows in (letter.order, letter.given)), default=0)
