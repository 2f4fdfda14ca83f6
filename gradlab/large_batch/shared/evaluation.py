"""A loss on a batch that processes share, evaluated without any of them holding all; or on one, where the loss is not one of pairs.

A loss takes from the similarities of a row nothing but summaries: log-sum-exps, sums, the hardest negative. Lap by lap the
columns pass by, and the summaries that the loss asks for are finished; from these follow its value, and its derivatives by
them. In a last lap the cosines are made again, and the products with their derivatives are added up: those for the rows
that stay here, those for the columns on their way home. A product that two directions of a loss need is made for both. A few summaries
come with their derivatives (`one_lap`). A small batch on one process needs no laps: its cosines are one tile, which is held until all
is known, and what the loss asks for is made at once.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from gradlab.errors import GradlabError
from gradlab.geometry.views import Views
from gradlab.large_batch.evaluation import LossEvaluation
from gradlab.large_batch.shared.communicator import Communicator
from gradlab.large_batch.shared.keys import Side
from gradlab.large_batch.shared.laps import Gradients, first_laps, fit_one_tile, second_laps
from gradlab.large_batch.shared.mail import bring_home, longest
from gradlab.large_batch.shared.one_lap import OfAll
from gradlab.large_batch.shared.session import Session, Use
from gradlab.large_batch.shared.stats import Hardest
from gradlab.large_batch.shared.views import SharedViews
from gradlab.large_batch.similarity import LongPairs, count_of
from gradlab.losses.base import Loss


class SharedEvaluation(LossEvaluation):
    """A loss on rows of which this process has a share."""

    def __init__(
        self,
        loss: Loss,
        views: Views,
        block_size: int | None,
        ring: Communicator,
        anchors: list[int],
        extra: list[int],
    ) -> None:
        """As `LossEvaluation`.

        Args:
            loss: the loss.
            views: this process's rows, and what they were given with.
            block_size: anchors in a block.
            ring: the processes.
            anchors, extra: anchors and extra negatives that each process has.
        """
        super().__init__(loss, views, block_size)
        self.given, self.ring, self.anchors, self.extra = views, ring, anchors, extra

    @property
    def count(self) -> int:
        """The anchors of all processes."""
        return sum(self.anchors)

    def reduced(self, values: Tensor, reduction: str) -> Tensor:
        """The mean or sum over the anchors of all processes."""
        if reduction == "none" or values.ndim == 0:
            return super().reduced(values, reduction)
        total = self.ring.total(values.sum())
        return total / self.count if reduction == "mean" else total

    def values(self) -> Tensor:
        """``L_i`` of this process's anchors, (n,), or the scalar of the batch."""
        with torch.no_grad(), torch.autocast(self.views.anchors.device.type, enabled=False):
            session, value = self._evaluate(self._leaves((False, False, False)))
            session.close()
            return value.detach()

    def differentiate(
        self, scale: Tensor, wanted: tuple[bool, bool, bool]
    ) -> tuple[Tensor, list[Tensor | None]]:
        """The values, and the derivatives of ``Σ scale_i L_i`` over all processes by this process's rows."""
        leaves = self._leaves(wanted)
        rows = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
        with torch.enable_grad(), torch.autocast(scale.device.type, enabled=False):
            session, value = self._evaluate(leaves)
            upstream = scale if value.ndim else torch.full_like(value, 1 / self.ring.count)
            gradients = iter(self._gradients(session, value, upstream, rows))
            session.close()
        found = [None if leaf is None or not leaf.requires_grad else next(gradients) for leaf in leaves]
        self._check_gradients([part for part in found if part is not None])
        if self.views.extra_negatives is None:
            found[2] = None
        return value.detach(), [part if want else None for part, want in zip(found, wanted, strict=True)]

    def _leaves(self, wanted: tuple[bool, bool, bool]) -> list[Tensor | None]:
        """Rows, of which those of several processes all want a gradient, as those of others may depend on it."""
        extra = self.views.extra_negatives
        if extra is None and any(self.extra):
            extra = self.views.anchors[:0]
        rows = (self.views.anchors, self.views.positives, extra)
        return [
            None if part is None else part.detach().contiguous().requires_grad_(want or self.ring.count > 1)
            for part, want in zip(rows, wanted, strict=True)
        ]

    def _evaluate(self, leaves: list[Tensor | None]) -> tuple[Session, Tensor]:
        anchors, positives, extra = leaves
        assert anchors is not None
        assert positives is not None
        one_tile = (
            self.ring.count == 1 and self.block_size is None and fit_one_tile(self.anchors[0] + self.extra[0])
        )
        session = Session(self.ring, self.anchors, self.extra, anchors.device, one_tile)
        views = self._views(session, anchors, positives, extra)
        value = session.evaluate(
            lambda: self.loss.value_of(dataclasses.replace(views)),  # which remember nothing of a round
            anchors.detach(),
            lambda session, asked: first_laps(session, asked, self.block_size),
        )
        self._check(value.detach())
        return session, value

    def _views(
        self, session: Session, anchors: Tensor, positives: Tensor, extra: Tensor | None
    ) -> SharedViews:
        given, ring = self.given, self.ring
        session.mask = given.mask
        if given.sentences is not None:
            n, m = len(anchors), 0 if extra is None else len(extra)
            more = given.sentences[n:]
            more = more if len(more) == m else given.sentences.new_full((m,), -1)
            session.numbers = (
                ring.gather(given.sentences[:n].contiguous(), self.anchors),
                ring.gather(more.contiguous(), self.extra),
            )
        if extra is not None and given.owners is not None:
            first = session.start(session.sentences, ring.rank)
            session.owners = ring.gather(
                torch.where(given.owners < 0, given.owners, given.owners + first), self.extra
            )
        if given.guide is not None:
            rows = {"ga": given.guide.anchors, "gb": given.guide.positives, "ge": given.guide.extra_negatives}
            for role, part in rows.items():
                if part is None and any(self.extra):
                    part = given.guide.anchors[:0]
                if part is not None:
                    session.rows[Side(role, False, part.shape[1])] = part.detach().contiguous()
        fields = {field.name: getattr(given, field.name) for field in dataclasses.fields(Views)}
        fields |= {"anchors": anchors, "positives": positives, "extra_negatives": extra}
        return SharedViews(**fields, session=session)

    def _gradients(
        self, session: Session, value: Tensor, upstream: Tensor, rows: list[Tensor]
    ) -> list[Tensor]:
        if not value.requires_grad:
            return [torch.zeros_like(part) for part in rows]
        leaves = [
            list(use.leaf.leaves.values()) if isinstance(use.stat, Hardest) else [use.leaf]
            for use in session.uses
        ]
        leaves += [list(pairs.leaves.values()) for pairs in session.pairs.values()]
        flat = [leaf for some in leaves for leaf in some]
        found = iter(
            torch.autograd.grad(value, flat, upstream, allow_unused=True, retain_graph=True) if flat else ()
        )
        derivatives = [[next(found) for _ in some] for some in leaves]
        gradients = Gradients()
        with torch.no_grad():
            used = list(zip(session.uses, derivatives, strict=False))
            hardest = [one for one in used if isinstance(one[0].stat, Hardest)]
            sums = [
                (use, by[0]) for use, by in used if not isinstance(use.stat, Hardest) and by[0] is not None
            ]
            second_laps(
                session,
                [(use, by) for use, by in sums if not isinstance(use.stat, OfAll)],
                self.block_size,
                gradients,
            )
            for use, upstream_by in sums:
                if isinstance(use.stat, OfAll):
                    _add_of_all(session, use, upstream_by, gradients)
            for pairs, by in zip(session.pairs.values(), derivatives[len(used) :], strict=True):
                if named := _named(pairs, by):
                    (first, begins), (second, begins_too) = (gradients.whole(end) for end in pairs.ends)
                    pairs.chain(named, first, second, (begins, begins_too))
            for use, by in hardest:
                _send_hardest(session, use, by, gradients)
            outputs, upstreams = [value], [upstream]
            for tensor, gradient in gradients.found.values():
                if not any(tensor is row for row in rows):  # the graph goes on from there to the rows
                    outputs.append(tensor)
                    upstreams.append(gradient)
            through = list(torch.autograd.grad(outputs, rows, upstreams, allow_unused=True))
            del outputs, upstreams
            for place, row in enumerate(rows):  # in place, as a sum would be one more share
                part = through[place]
                if id(row) in gradients.found:
                    own = gradients.found.pop(id(row))[1]
                    through[place] = own if part is None else own.add_(part)
        return [
            torch.zeros_like(row) if part is None else part for row, part in zip(rows, through, strict=True)
        ]

    def _check(self, values: Tensor) -> None:
        """Raise `GradlabError` on all processes unless the values of all are finite."""
        if self.ring.count == 1:
            self.check_values(values)
        elif not bool(self.ring.total(values.sum()).isfinite()):
            self.check_values(values)
            raise GradlabError(f"{self.loss.name} is not finite on another process's rows")

    def _check_gradients(self, found: list[Tensor]) -> None:
        """Raise `GradlabError` on all processes unless the gradients of all are finite."""
        flag = found[0].new_tensor([0.0 if all(bool(part.sum().isfinite()) for part in found) else 1.0])
        if float(self.ring.total(flag)):
            for part in found:
                self.check_gradient(part)
            raise GradlabError(f"the gradient of {self.loss.name} is not finite on another process's rows")


def _named(pairs: LongPairs, derivatives: list[Any]) -> dict[str, Tensor]:
    """Derivatives by the leaves of pairs, of those that there are."""
    named = zip(pairs.leaves, derivatives, strict=True)
    return {name: one for name, one in named if one is not None}


def _add_of_all(session: Session, use: Use, upstream: Tensor, gradients: Gradients) -> None:
    """Add what the derivative by a log-sum-exp over all pairs means for the rows of either side, which is known."""
    found, factor = session.known(use.stat), session.ring.total(upstream.clone())
    ((first, second),) = use.rows
    within = found.by_rows if found.by_columns is None else found.by_columns
    if first is second:
        gradients.add(first, found.by_rows * (2 * factor))
        return
    for end, part in ((first, found.by_rows), (second, within)):
        if end.requires_grad:
            gradients.add(end, part * factor)


def _send_hardest(session: Session, use: Use, derivatives: list[Any], gradients: Gradients) -> None:
    """Add what derivatives by the measures of the hardest negatives mean for both rows of each pair, wherever they are."""
    if not (named := _named(use.leaf, derivatives)):
        return
    mail = session.nearest(use.stat.family).mail
    for (first, second), letters in zip(use.rows, mail, strict=True):
        everyone = sum(count_of(letter.order) for letter in letters) == len(first)
        if everyone and not second.requires_grad:
            own, new = gradients.whole(first)
            use.leaf.chain(named, own, None, (new, False))
            continue
        own, home = gradients.at(first), gradients.at(second)
        memory = second.new_empty(longest(letters), second.shape[1])
        steps = use.leaf.chained(named, [letter.order for letter in letters], own)
        for letter, by_second in zip(letters, steps, strict=True):
            if home is not None:
                bring_home(session, letter, by_second, home, memory)
