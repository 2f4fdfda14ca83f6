"""A trial of the training mode: do dropout and noise leave a text nearer to itself than to others?

Nothing is trained, and the caller restores random numbers.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

FEWEST_TEXTS = 6  # different texts of a batch among which a text is sought


def training_mode(trainer: Any, columns: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the cosines of two passes in training mode: of the same texts, and of different ones.

    ``same`` and ``different`` are means, ``itself`` is the share of texts that have their own
    embedding nearest among those of the second pass, ``apart`` the mean cosine of different texts
    in evaluation mode, and ``alpha`` that of the trainer's NEFTune. Of texts whose embeddings are
    equal in evaluation mode, one is taken. None for models that are not of sentence-transformers,
    and for fewer than six texts.
    """
    model = trainer.model
    if not columns or not hasattr(model, "encode"):
        return None
    passes = list[Tensor]()
    try:
        with torch.no_grad(), trainer.compute_loss_context_manager(), _neftune(trainer) as alpha:
            for training in (False, True, True):
                model.train(training)
                rows = model(dict(columns[0]))["sentence_embedding"]
                passes.append(nn.functional.normalize(rows.double(), dim=1))
    except Exception:  # a model that embeds tokens in another way
        return None
    finally:
        model.train()
    calm, first, second = passes
    distinct = _distinct(calm)
    if len(distinct) < FEWEST_TEXTS:
        return None
    calm, first, second = (rows[distinct] for rows in passes)
    cosines, apart = first @ second.T, ~torch.eye(len(calm), dtype=torch.bool, device=calm.device)
    nearest = cosines.argmax(1) == torch.arange(len(cosines), device=cosines.device)
    numbers = {
        "same": float(cosines.diagonal().mean()),
        "different": float(cosines[apart].mean()),
        "itself": float(nearest.double().mean()),
        "texts": len(distinct),
        "apart": float((calm @ calm.T)[apart].mean()),
        "alpha": alpha,
    }
    return numbers if bool(cosines.isfinite().all()) else None


@contextlib.contextmanager
def _neftune(trainer: Any) -> Iterator[float]:
    """Add the noise of ``neftune_noise_alpha``, which the trainer adds as training begins."""
    alpha = float(getattr(trainer.args, "neftune_noise_alpha", None) or 0.0)
    bodies = [m for m in trainer.model.modules() if hasattr(m, "get_input_embeddings")]

    def add(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        size = alpha / math.sqrt(output.shape[1] * output.shape[2])
        return output + size * (2 * torch.rand_like(output) - 1) if module.training else output

    with contextlib.ExitStack() as hooks:
        if alpha and bodies:
            hooks.enter_context(bodies[0].get_input_embeddings().register_forward_hook(add))
        yield alpha


def _distinct(rows: Tensor) -> list[int]:
    """Return the places of unit rows that are not equal to an earlier one."""
    places = list[int]()
    for place, row in enumerate(rows):
        if not places or float((rows[places] @ row).max()) < 1 - 1e-9:
            places.append(place)
    return places
