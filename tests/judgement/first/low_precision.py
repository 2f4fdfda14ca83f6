"""Precision and adapters: rounding without a gradient, half-precision overflow, frozen adapters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.hand_loops import batches, compare, fit, infonce
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, suffers
from tests.sentence_training import losses

ROUNDED = (
    r"round", r"quanti[sz]", r"(no|zero|without|vanish\w*) .{0,20}gradient", r"straight.through",
    r"gradient.{0,80}(zero|\b0\b|none|no\b|nothing|vanish)", r"detach", r"integer|int8",
    r"(does|do|did) not (move|change|learn|train)", r"unchanged", r"stands? still",
    r"(weights|parameters|encoder|embeddings).{0,80}(hardly|never|not) ",
)  # fmt: skip
OVERFLOW = (
    r"\bnan\b", r"NaN", r"infinit|\binf\b", r"not finite|non.?finite", r"overflow", r"half",
    r"float16|fp16", r"precision", r"logsumexp|log_softmax|cross_entropy",
)  # fmt: skip
ADAPTER = (
    r"adapter|lora|peft", r"frozen|freez", r"requires_grad|require grad|requires grad",
    r"inference", r"(no|nothing|zero|without).{0,30}(trainable|gradient|weight|parameter|train)",
    r"trainable", r"gradient.{0,60}(none|no\b|zero)", r"grad_fn",
)  # fmt: skip


@faulty(
    "rounded embeddings without a straight-through gradient",
    "Embeddings are rounded to steps of an eighth before the loss, to train for int8; the rounding "
    "has the gradient 0 and nothing reaches the encoder.",
    ROUNDED,
    tools=(REPORT,),
    never=(r"(larger|bigger|raise the) batch",),
)
def rounding_before_the_loss(stage: Stage) -> None:
    def training(model: Any, watch: Callable[[Any], Any], is_faulty: bool) -> None:
        criterion = watch(infonce)

        def rounded(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            eighths = ((8 * rows).round() / 8 for rows in (first, second))
            if is_faulty:
                return criterion(*eighths)
            return criterion(*(
                rows + (steps - rows).detach()
                for rows, steps in zip((first, second), eighths, strict=True)
            ))  # fmt: skip

        fit(model, rounded, rows=batches(pairs(), 50))

    compare(stage, training, among_alike, steps=50)


def _exponentials(first: torch.Tensor, second: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """Contrastive loss by exponentials, as papers write it."""
    cosines = F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
    powers = (cosines.to(kind) / 0.05).exp()
    return -(powers.diag() / powers.sum(1)).log().float().mean()


@faulty(
    "exponential that overflows in half precision",
    "The loss takes exp(cosine / 0.05) in half precision, which ends at 65504: the exponentials "
    "become infinite and the loss no number.",
    OVERFLOW,
    tools=(REPORT,),
)
def exponential_in_half_precision(stage: Stage) -> None:
    def training(model: Any, watch: Callable[[Any], Any], is_faulty: bool) -> None:
        kind = torch.float16 if is_faulty else torch.float32
        criterion = watch(lambda first, second: _exponentials(first, second, kind))
        fit(model, criterion, rows=batches(pairs(), 50))

    compare(stage, training, among_alike, steps=50)


@faulty(
    "adapter loaded for inference",
    "The adapter was loaded with inference_mode=True, which freezes it like the encoder below: no "
    "weight is left to train.",
    ADAPTER,
)
def adapter_loaded_for_inference(stage: Stage) -> None:
    from peft import LoraConfig

    def of(is_for_inference: bool) -> Any:
        model = stage.model()
        model.add_adapter(
            LoraConfig(r=16, lora_alpha=64, target_modules=["query", "key", "value", "dense"])
        )
        if is_for_inference:
            model.requires_grad_(False)
        return stage.trainer(
            losses.MultipleNegativesRankingLoss, pairs(), model, learning_rate=5e-3
        )

    suffers(stage, of(True), lambda: of(False), fails=True)
