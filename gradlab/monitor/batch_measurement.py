"""`Probe` measures a loss's batches: components if they can be found, embeddings, signs of faults.

A `Snapshot` is what the loss was given; `BatchSigns` compares its rows with the batches before.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from gradlab.arrays import unit_rows
from gradlab.batch.batch import Batch
from gradlab.batch.check import check_batch
from gradlab.decomposition.two_view_losses import name_of
from gradlab.errors import GradlabError, first_line
from gradlab.gradient.statistics import (
    batch_statistics,
    distributions,
    effective_rank,
    embedding_statistics,
    first_components,
    mean_cosine,
    measured_anchors,
    neighbours_in_turn,
    opposed_pairs,
    repeated_rows,
)
from gradlab.losses.base import Loss
from gradlab.losses.components import Components
from gradlab.losses.registry import is_of_gradlab
from gradlab.monitor.code_components import MOST_DECOMPOSED, copy_of, first_sentences, trial_of
from gradlab.monitor.formula_trials import Values, departure, has_value
from gradlab.monitor.library_losses import recognise
from gradlab.monitor.loss_parameters import LossParameters
from gradlab.monitor.metrics import DIAGNOSTICS, HISTOGRAM, Measurement, histogram_rows
from gradlab.monitor.setting_advice import LossInUse, settings_of
from gradlab.quantities import of_code
from gradlab.seeds import random_state_kept
from gradlab.settings import call_text
from gradlab.settings.module import LossModule

# Limits on the sentences that are measured and on the similarities that are held for them, so that
# the cost of a record is bounded for batches of any size.
MOST_ANCHORS, MOST_SIMILARITIES = 1024, 1 << 22
# Largest batch for which one thread is faster, all the more if other processes need the cores.
ONE_THREAD_UP_TO = 256
# Tolerated relative error of a loss or gradient in single and in half precision: rounding errors
# amplified by 1/τ.
ROUNDING, HALF_ROUNDING = 1e-3, 5e-2

# Rows that are compared; share of rows that are nearest to themselves in the batch before, of
# farther rows than a neighbour, and of pairs in opposite directions, from which on they are noted.
MOST_ROWS, SAME, NEIGHBOURS, OPPOSITE = 64, 0.9, 0.7, 0.05
# Names of the numbers that are recorded where a sign is seen.
REPEATED, ALTERNATING, OPPOSED = "repeated_rows", "alternating_rows", "opposed_pairs"
ANCHOR_DRIFT, STALE_DRIFT = "anchor_drift", "constant_drift"
WITHOUT_GRADIENT = "rows_without_gradient"
SIGNS = (REPEATED, ALTERNATING, OPPOSED, ANCHOR_DRIFT, STALE_DRIFT, WITHOUT_GRADIENT)

# What Python says of a loss that is called with two views only, and what the note says then.
CALL_ERRORS = ("required positional argument", "multiple values for")
MORE_ARGUMENTS = "it takes more arguments than two views, and gradlab cannot vary the others"

# (anchors, positives, components) -> numbers by name. Rows are unit (N, D); components may be None.
Statistics = Sequence[Callable[[Any, Any, Any], dict[str, float]]]


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The embeddings that a loss was computed from, of any length and dtype, on any device."""

    anchors: Tensor  # (N, D)
    positives: Tensor | None  # (N, D); None if the batch has a single view
    extra_negatives: Tensor | None = None  # (M, D)
    in_batch_negatives: bool = True
    # whether the loss was given labels: rows of the two columns need not be pairs then
    labels: bool = False
    # the loss computed from them: a scalar, or values to be averaged
    value: Tensor | float | None = None
    half: bool = False  # whether the loss was computed in half precision
    # Other arguments of the loss, such as owners of extra negatives, as
    # `gradlab.batch.check.check_batch` takes them.
    context: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # (N, D), the anchors as the encoder returns them, before any head
    encoded: Tensor | None = None
    column_count: int = 2  # number of columns of sentences that the loss was given
    # share of comparisons in the right order, as `library_losses.share_in_order` returns it
    order: float | None = None
    # the loss with its learned settings at that step; None for the initial ones
    learned_loss: Loss | None = None
    one_sided: bool = False  # of a copy: see `is_one_sided`
    # Whether the loss has a gradient, and none of the embeddings that it was given.
    detached: bool = False
    # What is known of the labels of a loop's rows, by the names of `gradlab.monitor.label_trials`.
    label_trials: Mapping[str, float] = dataclasses.field(default_factory=dict)
    # Numbers of a loop's labels beside those before, as of `gradlab.monitor.label_signs`.
    label_signs: Mapping[str, float] = dataclasses.field(default_factory=dict)
    # Columns beside the two views, where a loop's loss is given columns of their shape and no more.
    further_columns: int = 0
    # Embeddings of each view as the loss was given them, with their graph.
    sources: Sequence[Tensor] = ()

    @property
    def is_on_gpu(self) -> bool:
        """Whether its embeddings are on a device that computes while the host goes on."""
        return self.anchors.device.type == "cuda"

    @property
    def loss_value(self) -> float | None:
        return float(self.value.detach().mean()) if isinstance(self.value, Tensor) else self.value

    @property
    def low_precision(self) -> bool:
        return self.half or torch.finfo(self.anchors.dtype).bits < 32

    @property
    def fits(self) -> bool:
        """Whether each anchor has a positive."""
        return self.positives is not None and self.positives.shape == self.anchors.shape

    @property
    def is_one_sided(self) -> bool:
        """Whether anchors have a gradient and positives have none; a copy is as its original."""
        positives = self.positives
        is_fixed = positives is not None and not positives.requires_grad
        return self.one_sided or (self.anchors.requires_grad and is_fixed)

    def copy(self) -> Snapshot:
        """Return a detached copy, which can be measured after training has gone on."""
        values = vars(self) | {"one_sided": self.is_one_sided, "sources": ()}
        return Snapshot(**tree_map_only(Tensor, lambda rows: rows.detach().clone(), values))

    def share_not_finite(self) -> float:
        """Return the share of sentences with an embedding that is NaN or infinite."""
        finite = torch.isfinite(self.anchors).all(dim=1)
        if self.positives is not None and self.fits:
            finite &= torch.isfinite(self.positives).all(dim=1)
        return 1 - float(finite.double().mean())

    def pairs(self, most: int) -> list[Tensor]:
        """Return the first rows of both views as float64 unit rows on the CPU.

        Nothing of a batch that is not finite or whose rows are no pairs.
        """
        if self.positives is None or not self.fits or self.share_not_finite():
            return []
        rows = in_double([self.anchors[:most], self.positives[:most]], torch.device("cpu"))
        return [nn.functional.normalize(view, dim=1) for view in rows]

    def alone(self) -> Snapshot:
        """Return a snapshot without positives that do not fit, extra negatives and context."""
        positives = self.positives if self.fits else None
        return Snapshot(
            self.anchors, positives, half=self.half, encoded=self.encoded, order=self.order,
            label_trials=self.label_trials,
        )  # fmt: skip

    def views(self, *, on_cpu: bool = False) -> Batch:
        """Return the batch as float64 unit rows (on the CPU if need be); one view stands for both.

        Raises:
            GradlabError: embeddings that are not finite or are zero.
        """
        device = self.anchors.device
        device = torch.device("cpu") if on_cpu or device.type == "mps" else device
        positives = self.anchors if self.positives is None else self.positives
        embeddings = [self.anchors, positives, self.extra_negatives]
        rows, context = in_double((embeddings, self.context), device)
        with warnings.catch_warnings():  # a class with a single row in the batch is expected here
            warnings.filterwarnings("ignore", message=".*have no positive")
            return check_batch(
                *rows, normalize=True, in_batch_negatives=self.in_batch_negatives, **context
            )


def in_double(structure: Any, device: torch.device) -> Any:
    """Return a nested structure's tensors detached, on ``device``, floating point in float64."""

    def change(rows: Tensor) -> Tensor:
        rows = rows.detach().to(device)
        return rows.double() if rows.is_floating_point() else rows

    return tree_map_only(Tensor, change, structure)


class Probe:
    """Measures batches of one loss by the best available method.

    Attributes:
        loss: the gradlab loss with the same formula, or None.
        method: ``"closed form"``, ``"decomposition"`` (of gradients) or ``"embeddings only"``.
        note: one sentence on why no better method is available; may be empty.
        first_batch_size: number of sentences in the first batch; 0 before it.
        trial: values of a loss without a closed form on known batches; see
            `gradlab.monitor.formula_trials.values_on_known_batches`.
        arguments: names of what a loss given as code gets beside embeddings.
        departure: the mistake by which a named loss has the value that was trained in every batch;
            empty for none.
        loss_parameters: the parameters of a loss that is a module; None for any other.
    """

    def __init__(
        self, loss: Any, *, encoders: Callable[[], Sequence[nn.Module]] = tuple, named: bool = False
    ) -> None:
        """Take a loss, loss function or loss name, without calling it; None for an unknown loss.

        Args:
            encoders: returns modules inside the loss whose parameters are not its own.
            named: True if the user named the loss. It is then measured even if the trained loss has
                another value, for instance because of further terms, and a note says so.
        """
        self._trained_loss, self._encoders, self._named = loss, encoders, named
        self.first_batch_size, self.note = 0, ""
        self.trial: Values = {}
        self.arguments: frozenset[str] = frozenset()
        self._departures: list[str] = []
        is_module = isinstance(loss, nn.Module)
        self.loss_parameters = LossParameters(loss, encoders) if is_module else None
        self._signs = BatchSigns()
        self._find_closed_form(column_count=2)
        if loss is None:
            self._give_up("the loss is not known; name it with loss=")

    def _find_closed_form(self, column_count: int) -> None:
        loss = self._trained_loss
        recognised = "" if loss is None else recognise(loss, column_count)
        self.loss = recognised if isinstance(recognised, Loss) else None
        self._why = recognised if isinstance(recognised, str) else ""
        self.method = "decomposition" if self.loss is None else "closed form"
        # gradlab's own formulas draw no random numbers.
        self._may_use_random_numbers = self.loss is None or not is_of_gradlab(self.loss)

    @property
    def departure(self) -> str:
        return self._departures[0] if len(set(self._departures)) == 1 else ""

    @property
    def in_use(self) -> LossInUse:
        """The loss with the settings that its user can change."""
        own = {} if isinstance(self._trained_loss, str | Loss) else settings_of(self._trained_loss)
        return LossInUse(self.loss, own, self.arguments)

    def loss_text(self) -> str:
        if self.loss is not None:
            return call_text(self.loss)
        return "unknown" if self._trained_loss is None else name_of(self._trained_loss)

    def loss_with_learned_settings(self) -> Loss | None:
        """Return the loss with its learned settings so far; None if it is unknown or has none."""
        # Of a loss for sentence-transformers.
        module = getattr(self._trained_loss, "criterion", self._trained_loss)
        return module.current if self.loss is not None and isinstance(module, LossModule) else None

    def begin(self) -> None:
        """Forget the batches before, with which `signs` compares, as a new recording begins."""
        self._signs = BatchSigns()

    def signs(self, snapshot: Snapshot) -> dict[str, float]:
        """Return the signs of `BatchSigns` in a batch, beside those before it."""
        pairs = snapshot.pairs(MOST_ROWS)
        return self._signs.of(pairs, snapshot.is_one_sided) if pairs else {}

    def measure(self, snapshot: Snapshot, statistics_functions: Statistics = ()) -> Measurement:
        """Measure a batch of at least two sentences, and leave out what cannot be measured.

        ``statistics_functions`` adds statistics of two views to those of
        `gradlab.gradient.statistics.batch_statistics`. Of embeddings that are not finite, only
        their share is measured. Random generators are left unchanged.

        Raises:
            GradlabError: anchors or positives that are zero.
        """
        if share := snapshot.share_not_finite():
            return {DIAGNOSTICS: {"not_finite": share}}
        if not self.first_batch_size and self._trained_loss is not None:
            self._find_closed_form(snapshot.column_count)
        thread_count, device_type = torch.get_num_threads(), snapshot.anchors.device.type
        random_state = random_state_kept() if self._may_use_random_numbers else nullcontext()
        try:
            if len(snapshot.anchors) <= ONE_THREAD_UP_TO:
                torch.set_num_threads(1)
            with random_state, torch.autocast(device_type, enabled=False):
                return self._measure_finite(snapshot, statistics_functions)
        finally:
            torch.set_num_threads(thread_count)

    def _measure_finite(self, snapshot: Snapshot, statistics_functions: Statistics) -> Measurement:
        self.first_batch_size = self.first_batch_size or len(snapshot.anchors)
        self.arguments |= {name for name, value in snapshot.context.items() if value is not None}
        try:
            views = snapshot.views()
        except GradlabError as error:
            self._give_up(first_line(error))
            snapshot = snapshot.alone()
            views = snapshot.views()
        if snapshot.positives is not None and (
            not snapshot.labels or (self.loss is not None and not self._why)
        ):
            measurement = self._two_views(snapshot, views, statistics_functions)
        else:
            why = "it has labels, so that its columns are not two views of the same sentences"
            if snapshot.positives is None:
                why = "it sees one view of each sentence, so that there are no positives"
            self._give_up(self._why or why)
            measurement = {DIAGNOSTICS: embedding_statistics(views.anchors[:MOST_ANCHORS])}
        self.trial |= snapshot.label_trials
        if snapshot.order is not None:
            measurement[DIAGNOSTICS]["order"] = snapshot.order
        return measurement

    def _two_views(
        self, snapshot: Snapshot, views: Batch, statistics_functions: Statistics
    ) -> Measurement:
        gradient = self._gradient(snapshot, views)
        count = MOST_ANCHORS if gradient is None else len(gradient.gradient_dissipation)
        anchors, positives = views.anchors[:count], views.positives[:count]
        values = batch_statistics(anchors, positives, gradient)
        for statistics_of in statistics_functions:
            values |= statistics_of(anchors, positives, gradient)
        if snapshot.encoded is not None:
            encoded = unit_rows(in_double(snapshot.encoded[:MOST_ANCHORS], anchors.device))
            cosine, rank = mean_cosine(encoded), effective_rank(encoded)
            values |= {"encoder_cosine": cosine, "encoder_rank": rank}
        histograms = distributions(anchors, positives, gradient)
        if gradient is not None and self.loss is None:
            values = {n: v for n, v in values.items() if n != "gradient_dissipation"}
            values, histograms = of_code(values), of_code(histograms)
        return {DIAGNOSTICS: values, HISTOGRAM: histogram_rows(histograms)}

    def _gradient(self, snapshot: Snapshot, views: Batch) -> Components | None:
        """Return the components; None if the loss has none, or not the value that was trained."""
        if self.method == "embeddings only":
            return None
        try:
            if self.loss is None:
                return self._decomposition(snapshot, views)
            return self._closed_form(snapshot.learned_loss or self.loss, snapshot, views)
        except GradlabError as error:
            is_call = any(words in str(error) for words in CALL_ERRORS)
            self._give_up(MORE_ARGUMENTS if is_call else first_line(error))
        except Exception as error:
            if self.loss is not None:
                raise
            self._give_up(f"it raised {type(error).__name__}: {first_line(error)}")
        return None

    def _closed_form(self, loss: Loss, snapshot: Snapshot, views: Batch) -> Components | None:
        if not self._was_trained(snapshot, views, lambda batch: loss.value_of(batch).mean()):
            return None
        extra = views.extra_negatives
        count = len(views.anchors)
        candidates = count + (0 if extra is None else len(extra))
        most = min(MOST_ANCHORS, max(2, MOST_SIMILARITIES // candidates))
        if count > most and measured_anchors(loss, views, most).count < count:
            self.note = self.note or (
                f"Components are those of the first {most} sentences of a batch, compared with "
                "each other only."
            )
        return first_components(loss, views, most)

    def _decomposition(self, snapshot: Snapshot, views: Batch) -> Components | None:
        code = copy_of(self._trained_loss, self._encoders())
        views = snapshot.views(on_cpu=True) if views.anchors.device.type != "cpu" else views
        if not self.trial and (snapshot.further_columns or views.extra_negatives is None):
            self.trial = trial_of(code, snapshot.anchors, snapshot.further_columns)
            self.trial |= {"one_sided": float(snapshot.is_one_sided)} if self.trial else {}
        if not self._was_trained(snapshot, views, code.value_of):
            return None
        if views.count > MOST_DECOMPOSED:
            self.note = (
                f"Components are those of the loss on the first {MOST_DECOMPOSED} sentences "
                "of a batch."
            )
            views = first_sentences(views)
        if self._why and not self.note:
            self.note = f"Components are found from the gradients of the loss: {self._why}."
        return code.recorded_components(views)

    def _was_trained(self, snapshot: Snapshot, views: Batch, value: Callable[[Batch], Any]) -> bool:
        """Return whether the loss has the trained value, up to rounding.

        A named loss that differs passes with a note.
        """
        trained, anchors = snapshot.loss_value, snapshot.anchors
        if trained is None or not math.isfinite(trained) or len(anchors) > MOST_ANCHORS:
            return True
        most = HALF_ROUNDING if snapshot.low_precision else ROUNDING
        computed, is_trained = has_value(value, views, trained, most)
        if is_trained:
            return True
        difference = (
            f"on the captured embeddings, divided by their lengths, it is {computed:.4g}, but the "
            f"loss that was trained is {trained:.4g}"
        )
        if self._named:
            rows = views.anchors, views.positives
            self._departures.append(departure(self.loss, *rows, trained))
            name = self.loss or "the named loss"
            self.note = self.note or f"Components are those of {name} alone: {difference}."
        else:
            self._not_recorded(
                f"{difference} (it may depend on the lengths of the embeddings, on labels, or on "
                "sentences of other devices)"
            )
        return self._named

    def _give_up(self, why: str) -> None:
        self.method = "embeddings only"
        self._not_recorded(why)

    def _not_recorded(self, why: str) -> None:
        self.note = self.note or f"The components of the loss are not recorded: {why}."


class BatchSigns:
    """Compares each recorded batch of one loss with those before."""

    def __init__(self) -> None:
        self._before: Tensor | None = None
        self._means: list[Tensor] | None = None

    def of(self, views: Sequence[Tensor], is_one_sided: bool = False) -> dict[str, float]:
        """Return numbers of the signs that the unit rows of two views show; none of sound ones.

        They are the share of rows that are nearest to themselves in the record before; the share of
        other rows that are farther than the neighbour of the same view in turn; the share of pairs
        in opposite directions; and, where one view has no gradient, how far the mean of each has
        moved.
        """
        numbers = {
            REPEATED: (repeated_rows(self._before, *views), SAME),
            ALTERNATING: (neighbours_in_turn(*views), NEIGHBOURS),
            OPPOSED: (opposed_pairs(*views), OPPOSITE),
        }
        self._before = views[0]
        signs = {name: share for name, (share, least) in numbers.items() if share >= least}
        means = [view.mean(0) for view in views]
        if is_one_sided:
            self._means = self._means or means
            drift = [float((new - old).norm()) for new, old in zip(means, self._means, strict=True)]
            signs |= dict(zip((ANCHOR_DRIFT, STALE_DRIFT), drift, strict=True))
        return signs
