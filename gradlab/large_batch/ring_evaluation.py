"""A pair loss whose anchors and negatives are spread over processes, evaluated without any of them holding all.

Each process has its own anchors, and all columns pass by in tiles. Lap one finishes what the loss takes from the negatives
of a row: log-sum-exps, which combine with their running maximum, and the hardest negative, which is kept. From these
follow the values. Lap two makes the cosines again, weighs them by the finished summaries, and adds the products with
the weights: those for the anchors stay, those for the columns travel with the columns until they are home. A one-hot
weight needs no cosines in lap two.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from gradlab.errors import GradlabError
from gradlab.geometry.similarity import Negatives, PairSimilarity
from gradlab.geometry.views import Views
from gradlab.large_batch.evaluation import Evaluation
from gradlab.large_batch.products import default_block_size, slices, write_cosines
from gradlab.large_batch.ring import GRADIENTS, Ring
from gradlab.large_batch.similarity import RowPairs
from gradlab.large_batch.terms import pair_terms
from gradlab.large_batch.weighing import scaled_weight
from gradlab.losses.base import Loss, PairLoss

# Columns of one tile: with the rows of a block they bound the memory of the products, whatever a share is.
TILE = 8192
# Below every cosine, rounding included; a row whose columns are all masked has the maximum -inf, which is no shift.
BELOW = -2.0


@dataclasses.dataclass(frozen=True)
class _Asked:
    """What a loss takes from the negatives of a row.

    Attributes:
        temperatures: of its log-sum-exps and softmaxes.
        hardest: whether it takes the hardest negative.
    """

    temperatures: tuple[float, ...]
    hardest: bool


class _Asking(Negatives):
    """Negatives of three made-up anchors that note what is asked of them."""

    def __init__(self, rows: Tensor) -> None:
        whole = Negatives.from_vectors(rows, rows, slice(0, None))
        self.__dict__.update(cosine=whole.cosine, measure=whole.measure, temperatures={}, took_hardest=False)

    def log_sum_exp(self, temperature: float) -> Tensor:
        self.__dict__["temperatures"][temperature] = True
        return super().log_sum_exp(temperature)

    def softmax(self, temperature: float) -> Tensor:
        self.__dict__["temperatures"][temperature] = True
        return super().softmax(temperature)

    @property
    def hardest_index(self) -> Tensor:  # type: ignore[override]  # a field there, computed when asked for here
        self.__dict__["took_hardest"] = True
        return self.cosine.argmax(-1)


def asked_by(loss: PairLoss) -> _Asked:
    """What a loss asks of the negatives.

    Raises:
        GradlabError: a loss that draws random numbers.
    """
    generator = torch.Generator().manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(3, 4, generator=generator, dtype=torch.float64), dim=-1)
    asking, positive = _Asking(rows), PairSimilarity.from_vectors(rows, rows.roll(1, 0))
    before = torch.get_rng_state()
    loss.value(positive, asking)
    loss.weight(asking)
    loss.dissipation(positive, loss.summary(asking))
    if not torch.equal(before, torch.get_rng_state()):
        raise GradlabError(f"{loss.name} draws random numbers, which processes cannot share")
    asked = _Asked(tuple(asking.__dict__["temperatures"]), asking.__dict__["took_hardest"])
    _check_tiles(loss, rows, positive, asked)
    return asked


def _check_tiles(loss: PairLoss, rows: Tensor, positive: PairSimilarity, asked: _Asked) -> None:
    """Raise `GradlabError` unless a loss knows its value and the weights of a tile from finished summaries."""
    whole = Negatives.from_vectors(rows, rows, slice(0, None))
    summaries = {temperature: whole.log_sum_exp(temperature) for temperature in asked.temperatures}
    index, hardest = whole.hardest_index, RowPairs(rows, rows[whole.hardest_index])
    if not (loss.surrogate or loss.one_hot_weight):
        loss.value(positive, _Tile(None, summaries, hardest, None))
    parts = []
    for columns in (slice(0, 2), slice(2, 3)):
        inside = (index >= columns.start) & (index < columns.stop)
        place = torch.where(inside, index - columns.start, -1)
        parts.append(loss.weight(_Tile(whole.cosine[:, columns], summaries, hardest, place)))
    if not torch.allclose(torch.cat(parts, 1), loss.weight(whole), rtol=1e-9, atol=1e-12):
        raise GradlabError(
            f"{loss.name} needs all cosines of a row at once for its weights, which no process of a group holds"
        )


def check_ring(loss: Loss) -> None:
    """Raise `GradlabError` unless a loss can be evaluated with its batch spread over processes."""
    for term in pair_terms(loss):
        asked_by(term.loss)


class _Tile(Negatives):
    """Some columns of some anchors, which know the finished summaries of whole rows."""

    def __init__(
        self,
        cosine: Tensor | None,
        summaries: dict[float, Tensor],
        hardest: RowPairs | None,
        index: Tensor | None,
    ) -> None:
        # Set past the frozen dataclass, whose fields are computed here.
        self.__dict__.update(given=cosine, summaries=summaries, nearest=hardest, index=index, softmaxes={})

    @property
    def cosine(self) -> Tensor:  # type: ignore[override]  # likewise
        """(B, k).

        Raises:
            GradlabError: all columns are asked for at once.
        """
        given: Tensor | None = self.__dict__["given"]
        if given is None:
            raise GradlabError(
                "this loss needs all cosines of a row at once, which no process of a group holds; it needs a value made "
                "of log_sum_exp and hardest"
            )
        return given

    @property
    def hardest(self) -> PairSimilarity:  # type: ignore[override]  # likewise
        """Of the whole row, (B,)."""
        found: PairSimilarity = self.__dict__["nearest"]
        return found

    @property
    def hardest_index(self) -> Tensor:  # type: ignore[override]  # likewise
        """Its column in this tile, (B,); negative where it is in another."""
        found: Tensor = self.__dict__["index"]
        return found

    def log_sum_exp(self, temperature: float) -> Tensor:
        """Of the whole row, (B,)."""
        found: Tensor = self.__dict__["summaries"][temperature]
        return found

    def softmax(self, temperature: float) -> Tensor:
        """These columns of the softmax over the whole row, (B, k)."""
        made: dict[float, Tensor] = self.__dict__["softmaxes"]
        if temperature not in made:
            shift = self.log_sum_exp(temperature)[:, None]
            made[temperature] = torch.div(self.cosine, temperature).sub_(shift).exp_()
        return made[temperature]


class RingEvaluation(Evaluation):
    """A pair loss on rows of which this process has a share."""

    loss: PairLoss

    def __init__(
        self,
        loss: PairLoss,
        views: Views,
        block_size: int | None,
        ring: Ring,
        anchors: list[int],
        extra: list[int],
    ) -> None:
        """As `Evaluation`.

        Args:
            loss: the loss.
            views: this process's rows and extra negatives.
            block_size: anchors in a block.
            ring: the processes.
            anchors, extra: anchors and extra negatives that each process has.
        """
        super().__init__(loss, views, block_size)
        self.ring, self.asked, self.everyone = ring, asked_by(loss), sum(anchors)
        sizes = [more + own * views.in_batch_negatives for own, more in zip(anchors, extra, strict=True)]
        self.sizes = sizes
        parts = [self.views.positives] if views.in_batch_negatives else []
        if self.views.extra_negatives is not None:
            parts.append(self.views.extra_negatives)
        empty = self.views.anchors[:0]
        self.columns = torch.cat(parts).contiguous() if parts else empty
        widest = max(1, min(TILE, max(sizes)))
        rows = self.views.anchors.shape[0]
        self.rows = list(slices(rows, min(rows, block_size or default_block_size(widest, empty.device))))
        self.memory = empty.new_empty(self.rows[0].stop, widest)

    def values(self) -> Tensor:
        """``L_i`` of this process's anchors, (n,)."""
        return self._run(None, (False, False, False))[0]

    def differentiate(
        self, scale: Tensor, wanted: tuple[bool, bool, bool]
    ) -> tuple[Tensor, list[Tensor | None]]:
        """The values, and the derivatives of ``Σ scale_i L_i`` over all processes by this process's rows."""
        values, gradients = self._run(scale, wanted)
        found = [part for part in gradients if part is not None]
        # On all processes or none, so that none waits for one that has stopped.
        flag = values.new_tensor([0.0 if all(bool(part.sum().isfinite()) for part in found) else 1.0])
        if float(self.ring.total(flag)):
            for part in found:
                self.check_gradient(part)
            raise GradlabError(f"the gradient of {self.loss.name} is not finite on another process's rows")
        return values, gradients

    @property
    def count(self) -> int:
        """The anchors of all processes."""
        return self.everyone

    def reduced(self, values: Tensor, reduction: str) -> Tensor:
        """The mean or sum over the anchors of all processes."""
        total = self.ring.total(values.sum())
        return total / self.everyone if reduction == "mean" else total

    def _run(
        self, scale: Tensor | None, wanted: tuple[bool, bool, bool]
    ) -> tuple[Tensor, list[Tensor | None]]:
        anchors, positives = self.views.anchors, self.views.positives
        with torch.no_grad(), torch.autocast(anchors.device.type, enabled=False):
            self._first_lap()
            values = anchors.new_zeros(anchors.shape[0])
            gradients = None if scale is None else _Gradients(anchors, positives, self.columns, self.asked)
            dense = not self.loss.one_hot_weight
            if not (dense and self.loss.surrogate):
                for rows in self.rows:
                    self._finish(rows, values, scale, gradients)
            if dense and (self.loss.surrogate or gradients is not None):
                self._second_lap(values, scale, gradients)
            elif gradients is not None:
                self._send_home(gradients)
        self._check(values)
        if gradients is None:
            return values, [None, None, None]
        return values, self._split(gradients, wanted)

    def _first_lap(self) -> None:
        anchors = self.views.anchors
        count = anchors.shape[0]
        self.summaries = {t: anchors.new_full((count,), -torch.inf) for t in self.asked.temperatures}
        if self.asked.hardest:
            self.best = anchors.new_full((count,), -torch.inf)
            self.where = torch.zeros(
                2, count, dtype=torch.int64, device=anchors.device
            )  # process, its column
            self.nearest = torch.zeros_like(anchors)
        for owner, columns in self.ring.lap(self.columns, self.sizes):
            for tile in slices(columns.shape[0], TILE):
                for rows in self.rows:
                    cosine = self._cosines(owner, columns, tile, rows)
                    top = cosine.amax(-1)
                    if self.asked.hardest:
                        self._keep_hardest(owner, columns, tile, rows, cosine, top)
                    for place, (temperature, finished) in enumerate(self.summaries.items()):
                        last = place == len(self.summaries) - 1
                        shift = top.clamp_min(BELOW)
                        energy = torch.sub(cosine, shift[:, None], out=cosine if last else None)
                        sums = energy.div_(temperature).exp_().sum(-1)
                        found = sums.log_().add_(shift, alpha=1 / temperature)
                        finished[rows] = torch.logaddexp(finished[rows], found)

    def _cosines(self, owner: int, columns: Tensor, tile: slice, rows: slice) -> Tensor:
        """Of a block of anchors to a tile of columns, (B, k), in memory that the next ones overwrite."""
        cosine = self.memory[: rows.stop - rows.start, : tile.stop - tile.start]
        write_cosines(self.views.anchors[rows], columns[tile], cosine)
        if owner == self.ring.rank and self.views.in_batch_negatives:
            first, last = max(rows.start, tile.start), min(rows.stop, tile.stop)
            if first < last:
                own = cosine[first - rows.start : last - rows.start, first - tile.start : last - tile.start]
                own.diagonal().fill_(-torch.inf)
        return cosine

    def _keep_hardest(
        self, owner: int, columns: Tensor, tile: slice, rows: slice, cosine: Tensor, top: Tensor
    ) -> None:
        """Of equally hard ones the first counts, in the order of the processes."""
        index = cosine.argmax(-1)
        best, where = self.best[rows], self.where[:, rows]
        better = (top > best) | ((top == best) & (owner < where[0]) & top.isfinite())
        best[better] = top[better]
        where[0, better] = owner
        where[1, better] = index[better] + tile.start
        self.nearest[rows][better] = columns[tile][index[better]]

    def _summary_of(self, rows: slice) -> dict[float, Tensor]:
        return {temperature: found[rows] for temperature, found in self.summaries.items()}

    def _hardest_of(self, rows: slice) -> RowPairs | None:
        return RowPairs(self.views.anchors[rows], self.nearest[rows]) if self.asked.hardest else None

    def _finish(
        self, rows: slice, values: Tensor, scale: Tensor | None, gradients: _Gradients | None
    ) -> None:
        """The values of a block, from the finished summaries, and what they say of its positives and hardest negatives."""
        positive = RowPairs(self.views.anchors[rows], self.views.positives[rows])
        hardest, cosine, index = self._hardest_of(rows), None, None
        one_hot = self.loss.one_hot_weight
        if one_hot:  # no other column counts
            cosine, index = self.best[rows][:, None], torch.zeros_like(self.where[0, rows])
        negatives = _Tile(cosine, self._summary_of(rows), hardest, index)
        with torch.enable_grad():
            value = self.loss.value(positive, negatives)
        values[rows] = value.detach()
        if scale is None or gradients is None:
            return
        by_positive, by_hardest = _measured(value, scale[rows], positive, hardest)
        positive.chain(by_positive, gradients.anchors[rows], gradients.positives[rows])
        if hardest is None:
            return
        if self.loss.surrogate:  # one-hot
            factor = self._factor(positive, negatives, scale[rows]) * self.loss.weight(negatives)[:, 0]
            gradients.anchors[rows].addcmul_(hardest.second, factor[:, None])
            gradients.hardest[rows] += factor[:, None] * self.views.anchors[rows]
        elif one_hot:
            hardest.chain(by_hardest, gradients.anchors[rows], gradients.hardest[rows])
        elif by_hardest:  # the cosine's part is in the weight
            radial = hardest.radial(by_hardest)[:, None]
            gradients.anchors[rows].addcmul_(self.views.anchors[rows], radial)
            gradients.hardest[rows].addcmul_(hardest.second, radial)

    def _factor(self, positive: RowPairs, negatives: _Tile, scale: Tensor) -> Tensor:
        return self.loss.dissipation(positive, self.loss.summary(negatives)) * scale

    def _second_lap(self, values: Tensor, scale: Tensor | None, gradients: _Gradients | None) -> None:
        moving = gradients is not None and not self.loss.negatives_are_fixed
        coming: Tensor | None = None
        sent: list[Any] = []
        for step, (owner, columns) in enumerate(self.ring.lap(self.columns, self.sizes)):
            works: list[Any] = []
            if moving and step:  # what the processes behind have added for these columns
                coming = torch.empty_like(columns)
                works = self.ring.pass_on(None, coming, GRADIENTS)
            found = torch.zeros_like(columns) if moving else None
            for tile in slices(columns.shape[0], TILE):
                for rows in self.rows:
                    self._weigh(owner, columns, tile, rows, values, scale, gradients, found)
            if found is not None and gradients is not None:
                gradients.add_hardest(found, owner, self)
                self.ring.finish(works)
                if step and coming is not None:
                    found += coming
                self.ring.finish(sent)
                sent, kept = self._hand_on(found), found  # kept until it is sent
        if moving and gradients is not None:
            self._take_home(gradients, kept, sent)

    def _hand_on(self, found: Tensor) -> list[Any]:
        """Sends what was found for some columns to the process before; with one process there is none."""
        return self.ring.pass_on(found, None, GRADIENTS) if self.ring.count > 1 else []

    def _take_home(self, gradients: _Gradients, last: Tensor, sent: list[Any]) -> None:
        """The gradient of the own columns, to which every process has added."""
        if self.ring.count == 1:
            gradients.columns += last
            return
        home = torch.empty_like(gradients.columns)
        self.ring.finish(self.ring.pass_on(None, home, GRADIENTS))
        self.ring.finish(sent)
        gradients.columns += home

    def _send_home(self, gradients: _Gradients) -> None:
        """Gradients of hardest negatives go round once, without products."""
        if self.loss.negatives_are_fixed:
            return
        sent: list[Any] = []
        found = self.columns
        for step in range(self.ring.count):
            owner = (self.ring.rank + step) % self.ring.count
            coming = self.columns.new_empty(self.sizes[owner], self.columns.shape[1])
            if step:
                self.ring.finish(self.ring.pass_on(None, coming, GRADIENTS))
            else:
                coming.zero_()
            self.ring.finish(sent)
            found = coming
            gradients.add_hardest(found, owner, self)
            sent = self._hand_on(found)
        self._take_home(gradients, found, sent)

    def _weigh(
        self,
        owner: int,
        columns: Tensor,
        tile: slice,
        rows: slice,
        values: Tensor,
        scale: Tensor | None,
        gradients: _Gradients | None,
        found: Tensor | None,
    ) -> None:
        """One tile of one block: what its weights add to the values of a surrogate, and to the gradients."""
        cosine = self._cosines(owner, columns, tile, rows)
        anchors = self.views.anchors[rows]
        positive = RowPairs(anchors, self.views.positives[rows])
        index = None
        if self.asked.hardest:
            process, column = self.where[:, rows]
            inside = (process == owner) & (column >= tile.start) & (column < tile.stop)
            index = torch.where(inside, column - tile.start, -1)
        negatives = _Tile(cosine, self._summary_of(rows), self._hardest_of(rows), index)
        if self.loss.surrogate:  # linear in the weights, so that tiles add up
            with torch.enable_grad():
                value = self.loss.value(positive, negatives)
            values[rows] += value.detach()
            if scale is not None and gradients is not None:
                by_positive, _ = _measured(value, scale[rows], positive, None)
                positive.chain(by_positive, gradients.anchors[rows], gradients.positives[rows])
        if scale is None or gradients is None:
            return
        weight, number = scaled_weight(self.loss, negatives)
        factor = (self._factor(positive, negatives, scale[rows]) * number)[:, None]
        derivative = torch.mul(weight, factor, out=cosine)
        gradients.anchors[rows].addmm_(derivative, columns[tile])
        if found is not None:
            found[tile].addmm_(derivative.T, anchors)

    def _check(self, values: Tensor) -> None:
        """Raise `GradlabError` on all processes unless the values of all are finite."""
        if not bool(self.ring.total(values.sum()).isfinite()):
            self.check_values(values)
            raise GradlabError(f"{self.loss.name} is not finite on another process's rows")

    def _split(self, gradients: _Gradients, wanted: tuple[bool, bool, bool]) -> list[Tensor | None]:
        count = self.views.positives.shape[0] if self.views.in_batch_negatives else 0
        if count:
            gradients.positives += gradients.columns[:count]
        every = (gradients.anchors, gradients.positives, gradients.columns[count:])
        return [part if want else None for part, want in zip(every, wanted, strict=True)]


class _Gradients:
    """Where derivatives add up.

    Attributes:
        anchors, positives: (n, D), of this process's rows in these roles.
        columns: (k, D), of its rows as negatives.
        hardest: (n, D), of the hardest negative of each anchor; whosever it is.
    """

    def __init__(self, anchors: Tensor, positives: Tensor, columns: Tensor, asked: _Asked) -> None:
        self.anchors, self.positives = torch.zeros_like(anchors), torch.zeros_like(positives)
        self.columns = torch.zeros_like(columns)
        self.hardest = torch.zeros_like(anchors) if asked.hardest else anchors[:0]

    def add_hardest(self, found: Tensor, owner: int, evaluation: RingEvaluation) -> None:
        """Add, to the gradient of a process's columns, what the hardest negatives among them receive."""
        if not len(self.hardest):
            return
        process, column = evaluation.where
        here = process == owner
        found.index_add_(0, column[here], self.hardest[here])


def _measured(
    value: Tensor, scale: Tensor, positive: RowPairs, hardest: RowPairs | None
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Derivatives of the scaled values by what they take from the positives, and from the hardest negatives."""
    both = [positive.leaves, {} if hardest is None else hardest.leaves]
    leaves = [leaf for leaves in both for leaf in leaves.values()]
    found: list[Tensor | None] = [None] * len(leaves)
    if value.requires_grad:
        found = list(torch.autograd.grad(value, leaves, scale, allow_unused=True))
    by_positive, by_hardest = (
        {name: part for name in leaves if (part := found.pop(0)) is not None} for leaves in both
    )
    return by_positive, by_hardest
