"""Distillation of a teacher's embeddings."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.canonical_split import canonical
from gradlab.losses.components import Components
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("embedding_distillation", cites="reimers2020making")
class EmbeddingDistillation(Loss):
    """Distance of each anchor to a teacher's embedding: ``1 - cos``, or the squared distance.

    The squared distance is twice ``1 - cos``. Pass ``teacher=``, a tuple of a teacher's embeddings
    of the batch with the same dimension. There is no push. The pull goes to the teacher's row
    (``components(...).target``), not to the positive. It is 1 (2 for ``mse``) at any distance.
    ``symmetric(embedding_distillation)`` is the mean over both views. For a learned projection,
    pass the projected embeddings; the components then refer to these.
    """

    distance: str = setting(
        "cosine", "cosine (1 - cos θ), or mse (the squared distance)", choices=("cosine", "mse")
    )

    looks_at = frozenset({"teacher", "own_negatives"})  # and ignores own negatives
    moves_positives = "nothing"
    title = "Embedding distillation"
    settings_source = (
        "mse is the sum over dimensions of unit vectors; "
        "libraries that take the mean over them divide it by D."
    )
    formula = "1 - cos(h_i, t_i)"
    not_simulated = "a teacher's embeddings do not depend on the student's angles"

    def is_scalar(self, batch: Batch) -> bool:
        return False

    def value_of(self, batch: Batch) -> Float[Array, "*n"]:
        """Return ``1 - cos(h_i, t_i)``, or twice that for ``mse``, (n,)."""
        return self._pull * batch.pair(batch.anchors, self._teacher(batch)).one_minus_cosine

    def components_of(self, batch: Batch) -> Components:
        target = self._teacher(batch)
        pull = array_namespace(target).full_like(target[:, 0], self._pull)
        return canonical({}, pull, batch, target=target)

    @property
    def _pull(self) -> float:
        return 1.0 if self.distance == "cosine" else 2.0

    def _teacher(self, batch: Batch) -> Float[Array, "n d"]:
        if batch.teacher is None:
            raise GradlabError(
                f"{self.name} needs teacher=, a tuple of a teacher's embeddings of the batch"
            )
        rows, d = batch.teacher.anchors, batch.anchors.shape[1]
        if rows.shape[1] != d:
            raise GradlabError(
                f"the teacher's embeddings have {rows.shape[1]} dimensions and the batch's {d}; "
                "project one of them to the other's"
            )
        return rows
