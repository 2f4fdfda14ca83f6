"""Every loss of gradlab as a loss of sentence-transformers.

Each is made by `loss`, or by a class named after it: ``ArcConLoss(model, temperature=0.05)``.
Supported versions are those of `gradlab.monitor.library_versions`; importing this module checks
them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gradlab.arrays import at_least_single
from gradlab.errors import GradlabError, check_whole, listed
from gradlab.gradient.learnable import LearnableLoss
from gradlab.integrations.token_rows import sentence_chunks
from gradlab.losses.base import Loss
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.embedding_distillation import EmbeddingDistillation
from gradlab.losses.mask import check_rows, hard_negative_numbers
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import combinator_names, get_loss, loss_class, loss_names, taught_names
from gradlab.monitor.library_versions import require
from gradlab.scale import BlockwiseLoss
from gradlab.scale.gradient_cache import GradientCache, deferred
from gradlab.scale.processes import several_processes
from gradlab.settings.declaration import plain_text
from gradlab.settings.module import learned_settings, refuse_learned

require("sentence-transformers", "transformers", "torch")


def loss(
    model: nn.Module,
    name: str | Loss = "infonce",
    *,
    blockwise: bool = False,
    block_size: int | None = None,
    chunk_size: int | None = None,
    gather_across_devices: bool = False,
    hard_negatives: str = "shared",
    preset: str | None = None,
    **hyperparameters: Any,
) -> EmbeddingLoss:
    """Make a loss for sentence-transformers' trainer.

    Datasets have the columns of ``MultipleNegativesRankingLoss``: anchor, positive and any number
    of hard negatives. A dataset of one column is encoded twice, for two views by dropout (SimCSE).

    A column ``label`` is for the losses that look at it; others ignore it. It holds the class of
    each row for ``supcon``, ``sincere``, ``mil_nce`` and ``triplet``; the similarity of the pair
    for ``cosent``; a teacher's scores of the positive and of each hard negative for ``kl`` and
    ``margin_mse``, with ``hard_negatives="own"``; and the row in the inspected file for
    ``mask(by=pairs)``, see `gradlab.inspect`.

    Args:
        model: the ``SentenceTransformer`` to train.
        name: one of `gradlab.loss_names`, a text such as ``"mpt(margin=0.3)"``, or a loss object,
            such as `gradlab.recombine` makes.
        blockwise: True never holds all similarities of a batch, for batches of many thousands;
            values and gradients stay the same.
        block_size: anchors per block with ``blockwise``; None chooses.
        chunk_size: sentences encoded at a time, without keeping activations of the others (gradient
            cache, as in the library's ``Cached...`` losses); None encodes whole columns. With
            ``blockwise``, only the memory for embeddings grows with the batch.
        gather_across_devices: True makes sentences of all processes negatives, as in
            ``MultipleNegativesRankingLoss``. With ``blockwise`` each process computes the
            similarities of its own sentences only (see `gradlab.blockwise`).
        hard_negatives: ``"shared"`` makes them negatives of every anchor, as
            ``MultipleNegativesRankingLoss`` does; ``"own"`` of the anchor in their row only.
        preset: other published settings, see `gradlab.get_loss`.
        **hyperparameters: settings of the loss, such as ``temperature=0.05``; angles in radians.

    Raises:
        GradlabError: an unknown loss, preset or hyper-parameter; a loss that cannot be computed
            blockwise, is given as code, or needs what a dataset does not hold, such as a guide.

    Example:
        >>> from gradlab.integrations.sentence_transformers import loss
        >>> criterion = loss(model, "arccon", temperature=0.05)  # doctest: +SKIP
        >>> trainer = SentenceTransformerTrainer(  # doctest: +SKIP
        ...     model=model, train_dataset=dataset, loss=criterion
        ... )
    """
    definition = get_loss(name, preset=preset, **hyperparameters)
    if not definition.closed_form:
        raise GradlabError(
            f"{definition.name} is given as code; register it as a loss of gradlab to train with "
            "it here (gradlab.losses.register)"
        )
    return _class(definition.name)(
        model,
        definition=definition,
        blockwise=blockwise,
        block_size=block_size,
        chunk_size=chunk_size,
        gather_across_devices=gather_across_devices,
        hard_negatives=hard_negatives,
    )


class EmbeddingLoss(nn.Module):
    """A gradlab loss on columns of a batch of sentences; base class of ``ArcConLoss`` and others.

    Attributes:
        model: the ``SentenceTransformer`` to train.
        definition: the gradlab loss.
        criterion: the function of embeddings: the definition, its blockwise form, or the module
            that learns its hyper-parameters.
        chunk_size, gather_across_devices, hard_negatives: as given to `loss`.
    """

    loss_name: ClassVar[str]
    definition: Loss
    criterion: Callable[..., Tensor]

    def __init__(
        self,
        model: nn.Module,
        *,
        blockwise: bool = False,
        block_size: int | None = None,
        chunk_size: int | None = None,
        gather_across_devices: bool = False,
        hard_negatives: str = "shared",
        preset: str | None = None,
        definition: Loss | None = None,
        **hyperparameters: Any,
    ) -> None:
        """See `loss`; a loss object as ``definition`` replaces preset and hyper-parameters."""
        super().__init__()
        if definition is None:
            definition = get_loss(self.loss_name, preset=preset, **hyperparameters)
        if hard_negatives not in ("shared", "own"):
            raise GradlabError(f"hard_negatives must be 'shared' or 'own', not {hard_negatives!r}")
        if hard_negatives == "own" and "own_negatives" not in definition.looks_at:
            raise GradlabError(
                f"{definition.name} compares whole views; own hard negatives are for losses of "
                "pairs, such as infonce"
            )
        self._label = _meaning_of_label(definition, hard_negatives)
        if block_size is not None and not blockwise:
            raise GradlabError("block_size belongs to blockwise=True")
        if chunk_size is not None:
            check_whole("chunk_size", chunk_size, 1)
        self.model, self.definition, self.criterion = model, definition, definition
        self.chunk_size, self.hard_negatives = chunk_size, hard_negatives
        self.gather_across_devices = gather_across_devices
        self._first_batch = True
        self._ring: BlockwiseLoss | None = None
        if blockwise:
            refuse_learned(definition, "blockwise")
            self.criterion = BlockwiseLoss(definition, block_size)
            # DistributedDataParallel divides gradients by the number of processes
            if gather_across_devices:
                self._ring = BlockwiseLoss(definition, block_size, group="world", average=True)
        elif learned_settings(definition):
            self.criterion = LearnableLoss(definition)

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None
    ) -> Tensor:
        """Return the loss of tokenised sentences, passed by the trainer as one dict per column."""
        columns = [dict(features) for features in sentence_features]
        if self.chunk_size is not None:
            return self._cached(columns * 2 if len(columns) == 1 else columns, labels)
        if len(columns) == 1:
            rows = [self.model(dict(columns[0]))["sentence_embedding"] for _ in range(2)]
        else:
            rows = _embed(self.model, columns)
        return self.compute_loss_from_embeddings(rows, labels)

    @property
    def uses_gradient_cache(self) -> bool:
        """Whether the backward pass repeats the encoding; for library losses that wrap this one."""
        return self.chunk_size is not None

    def __getattr__(self, name: str) -> Any:
        if name == "calculate_loss":  # MatryoshkaLoss asks losses with a gradient cache for it
            raise AttributeError(
                "with chunk_size this loss takes no MatryoshkaLoss; give it the prefixes itself: "
                f"loss(model, 'per_prefix({self.definition}, dims=64+128)', "
                f"chunk_size={self.chunk_size})"
            )
        return super().__getattr__(name)

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> Tensor:
        """Return the loss of embedded columns, (N, D): anchors, positives and any hard negatives.

        Rows may have any length. Half precision is converted to float32, also under autocast. A
        single sentence without hard negatives has nothing to be compared with; its loss is 0.

        Raises:
            GradlabError: fewer than two columns; see also `gradlab.Loss`.
        """
        if len(embeddings) < 2:
            raise GradlabError(
                f"the loss needs at least two columns of embeddings, not {len(embeddings)}"
            )
        anchors, positives, *hard = map(at_least_single, embeddings)
        shared, own = ([], hard) if self.hard_negatives == "own" else (hard, [])
        criterion, together = self.criterion, self.gather_across_devices and several_processes()
        if together and self._ring is not None:
            criterion = self._ring
        elif together:
            anchors, positives, shared, own = self._gather(anchors, positives, shared, own)
            if labels is not None and self._label:
                labels = torch.cat(_all_gather(labels))
        if criterion is not self._ring and not (shared or own) and len(anchors) == 1:
            return (anchors * 0).sum()
        negatives = torch.cat(shared) if shared else None
        context = self.told_by(labels) | ({"own_negatives": torch.stack(own, dim=1)} if own else {})
        if shared and self.definition.is_combinator:
            # A column of hard negatives holds one for each anchor.
            anchor = torch.arange(len(anchors), device=anchors.device)
            context["owners"] = anchor.repeat(len(shared))
        if self._label == "sentences":
            if labels is None:
                raise GradlabError(
                    "mask(by=pairs) needs the rows of the file that its pairs name: give the "
                    "dataset a column 'label' with them"
                )
            rows = _whole_numbers(labels, "rows of the file that was inspected")
            check_rows(self.definition, rows, self._first_batch)
            self._first_batch = False
            columns = [hard_negative_numbers(rows, 1 + column) for column in range(len(hard))]
            # Own negatives are numbered row by row.
            numbers = torch.stack(columns, dim=1) if own else columns
            context["sentences"] = torch.cat([rows, *numbers])
        return criterion(anchors, positives, negatives, normalize=True, **context)

    def told_by(self, labels: Tensor | None) -> dict[str, Any]:
        """Return loss arguments that labels, (N,) or (N, candidates), stand for; empty if none.

        Raises:
            GradlabError: a loss with a teacher but no labels, or classes other than whole numbers.
        """
        if labels is None and self._label == "teacher":
            raise GradlabError(
                f"{self.definition.name} learns from a teacher: give the dataset a column 'label' "
                "with its scores of the positive and of each hard negative"
            )
        if labels is None or self._label in ("", "sentences"):
            return {}
        if self._label == "teacher":
            return {"teacher": labels, "in_batch_negatives": False}
        if self._label == "scores":
            return {"scores": labels.reshape(-1)}
        return {"labels": _whole_numbers(labels, "classes")}

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings, by name of the argument of the class."""
        values = {
            field.name: getattr(self.definition, field.name)
            for field in dataclasses.fields(self.definition)
        }
        # Losses become texts, since a part of a recombined loss is an object of a class of its own.
        fields = {
            name: plain_text(value) if isinstance(value, Loss | str | tuple) else value
            for name, value in values.items()
        }
        return {
            **fields,
            "blockwise": isinstance(self.criterion, BlockwiseLoss),
            "block_size": getattr(self.criterion, "block_size", None),
            "chunk_size": self.chunk_size,
            "gather_across_devices": self.gather_across_devices,
            "hard_negatives": self.hard_negatives,
        }

    @property
    def citation(self) -> str:
        """BibTeX of the paper that introduced the loss."""
        return citation(self.definition)

    def extra_repr(self) -> str:
        """Return the text of the loss."""
        return repr(self.definition)

    def _cached(self, columns: list[dict[str, Tensor]], labels: Tensor | None) -> Tensor:
        """Return the loss of columns that are encoded in chunks of sentences of similar length."""
        assert self.chunk_size is not None
        chunks = [sentence_chunks(column, self.chunk_size) for column in columns]
        cache = GradientCache(columns[0]["attention_mask"].device)
        rows = [cache.encode(self._encode, pieces, order)[0] for pieces, order in chunks]
        value = self.compute_loss_from_embeddings(rows, labels)
        if not torch.is_grad_enabled():
            return value
        # The last chunk averages gradients over processes.
        return deferred(value, cache, getattr(self.model, "no_sync", None))

    def _encode(self, features: dict[str, Tensor]) -> tuple[Tensor]:
        return (self.model(dict(features))["sentence_embedding"],)

    def _gather(
        self, anchors: Tensor, positives: Tensor, shared: list[Tensor], own: list[Tensor]
    ) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
        """Return rows for this process's loss, with sentences of all processes as negatives.

        With a loss of pairs, a process computes its own anchors against all candidates. With a loss
        of the whole batch, every process computes all of it. In both cases, gradients averaged over
        processes are those of the whole batch.
        """
        rank = torch.distributed.get_rank()
        everyone = _all_gather(positives)
        negatives = [torch.cat(_all_gather(rows)) for rows in shared]
        if not isinstance(self.definition, PairLoss):
            own = [torch.cat(_all_gather(rows)) for rows in own]
            return torch.cat(_all_gather(anchors)), torch.cat(everyone), negatives, own
        gathered_elsewhere = [rows for owner, rows in enumerate(everyone) if owner != rank]
        return anchors, everyone[rank], [*gathered_elsewhere, *negatives], own


# What a loss looks at that a column 'label' may hold, in words.
_LABELS = {"scores": "similarities", "teacher": "a teacher's scores", "sentences": "rows of a file"}


def citation(loss: Loss) -> str:
    """Return BibTeX of the paper of a loss, or an entry with its title and paper if it has none."""
    # An entry is of the class that names the paper: a user's loss may derive from a published one.
    paper_class = next((cls for cls in type(loss).__mro__ if "paper" in vars(cls)), type(loss))
    fields = f"    title = {{{loss.title}}},\n    note = {{{loss.paper}}},\n"
    return vars(paper_class).get("bibtex") or f"\n@misc{{{loss.name},\n{fields}}}\n"


def __getattr__(name: str) -> Any:
    names_by_class = {} if name.startswith("_") else _class_names()
    if name not in names_by_class:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _class(names_by_class[name])


def __dir__() -> list[str]:
    return ["EmbeddingLoss", "loss", *_class_names()]


def _meaning_of_label(loss: Loss, hard_negatives: str) -> str:
    """Return what 'label' holds: ``"classes"``, ``"scores"``, ``"teacher"``, ``"sentences"`` or ''.

    Raises:
        GradlabError: a loss that needs what the trainer of sentence-transformers does not pass.
    """
    if lacking := loss.looks_at & {"guide", "mask"}:
        name = min(lacking)
        instead = {
            "guide": "use its GISTEmbedLoss or gradlab train --guide",
            "mask": "use mask(by=pairs)",
        }
        raise GradlabError(
            f"{loss} needs {name}=, which sentence-transformers does not pass; {instead[name]}"
        )
    meanings = {context: words for context, words in _LABELS.items() if context in loss.looks_at}
    if any(
        isinstance(base, CandidateLoss) and "teacher" not in base.looks_at for base in loss.bases
    ):
        meanings["classes"] = "classes"
    if len(meanings) > 1:
        meaning_list = listed(sorted(meanings.values()))
        raise GradlabError(
            f"{loss} asks the column 'label' for {meaning_list}; it can hold one of them"
        )
    meaning = min(meanings, default="")
    if meaning != "teacher":
        return meaning
    if loss.is_combinator or loss.has(EmbeddingDistillation):
        raise GradlabError(
            f"{loss} learns from a teacher's embeddings, which sentence-transformers does not "
            "pass; use gradlab train --teacher"
        )
    if hard_negatives != "own":
        raise GradlabError(
            f"{loss.name} learns from a teacher's scores of the positive and of each row's hard "
            "negatives: give hard_negatives='own'"
        )
    return meaning


def _whole_numbers(labels: Tensor, meaning: str) -> Tensor:
    classes = labels.reshape(-1).long()
    if (classes != labels.reshape(-1)).any():
        raise GradlabError(f"the column 'label' must hold whole numbers: {meaning}")
    return classes


@functools.cache
def _class(name: str) -> type[EmbeddingLoss]:
    """Return the class of a registered loss, such as ``ArcConLoss``; model cards show its name."""
    definition = loss_class(name)
    about = f"{definition.title} as a loss of sentence-transformers; see `loss`."
    members = {"__doc__": about, "__module__": __name__, "loss_name": name}
    return type(f"{definition.__name__}Loss", (EmbeddingLoss,), members)


def _class_names() -> dict[str, str]:
    names = [*loss_names(), *taught_names(), *combinator_names()]
    return {f"{loss_class(name).__name__}Loss": name for name in names}


def _embed(model: nn.Module, columns: list[dict[str, Tensor]]) -> list[Tensor]:
    """Return the embeddings of each column, in as many forward passes as the library's losses."""
    try:
        from sentence_transformers.base.losses.merged_forward import embed_columns
    except ImportError:  # one pass per column before 6.0
        return [model(features)["sentence_embedding"] for features in columns]
    return embed_columns(model, columns)


def _all_gather(rows: Tensor) -> list[Tensor]:
    """Return the rows of every process by rank, with gradients flowing back to each."""
    import torch.distributed.nn.functional

    return list(torch.distributed.nn.functional.all_gather(rows.contiguous()))
