"""Precision and adapters: rounding, half precision and low-rank updates."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.scenes import across, bilingual, by_hand, infonce, loop_suffers
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
PLAN = {"learning_rate": 4e-3, "max_steps": 80}
STILL = (
    r"(no|without|zero) gradient",
    r"gradient.{0,60}(zero|\b0\b|none)",
    r"(not|never|hardly|barely|n.t) (move|change|learn|train|fall)",
    r"stands? still",
    r"no progress",
    r"(hardly|barely) .{0,30}(move|change)",
)
ADAPTER = (r"adapter", r"\blora\b", r"low.rank", r"alpha", r"trainable", r"fr(ee|o)ze", *STILL)


def adapted(stage: Stage, alpha: float = 16.0) -> Any:
    """An encoder with low-rank adapters of rank 8."""
    from peft import LoraConfig, TaskType

    model = stage.model()
    model.add_adapter(
        LoraConfig(
            task_type=TaskType.FEATURE_EXTRACTION,
            r=8,
            lora_alpha=alpha,
            lora_dropout=0.0,
            target_modules=["query", "key", "value", "dense"],
        )
    )
    return model


@faulty(
    "adapter's factor nearly zero",
    "The alpha of the adapter is 1e-4 with a rank of 8: what it learns hardly reaches the encoder.",
    (*ADAPTER, r"scal(e|ing)", r"factor"),
)
def adapter_with_a_tiny_alpha(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(ranking, pairs(), adapted(stage, 1e-4), **PLAN),
        lambda: stage.trainer(ranking, pairs(), adapted(stage, 16.0), **PLAN),
    )


class Rounded(nn.Module):
    """Embeddings rounded to bytes, with or without the gradient of the unrounded ones."""

    def __init__(self, *, straight: bool) -> None:
        super().__init__()
        self.straight = straight

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        rows = F.normalize(features["sentence_embedding"], dim=1)
        rounded = torch.round(rows * 127) / 127
        if self.straight:
            rounded = rows + (rounded - rows).detach()
        features["sentence_embedding"] = rounded
        return features


@faulty(
    "rounding without a straight-through gradient",
    "Embeddings are rounded to bytes before the loss; the rounding has no gradient.",
    (*STILL, r"round", r"quanti[sz]", r"straight.through", r"\bint8\b", r"detach"),
)
def embeddings_rounded_before_the_loss(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer

    def model(*, straight: bool) -> Any:
        modules = [*stage.model(), Rounded(straight=straight)]
        return SentenceTransformer(modules=modules, device="cpu")

    plan = {"learning_rate": 2e-3, "max_steps": 80}
    suffers(
        stage,
        stage.trainer(ranking, bilingual(640), model(straight=False), **plan),
        lambda: stage.trainer(ranking, bilingual(640), model(straight=True), **plan),
        across,
    )


def half_softmax(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """InfoNCE by exponentials in half precision, which end at 65504."""
    cosines = F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
    powers = torch.exp((cosines / 0.05).half())
    return -torch.log(powers.diagonal() / powers.sum(dim=1)).float().mean()


@faulty(
    "softmax by hand overflows in half precision",
    "The loss takes exponentials of 20 in half precision, which overflow and leave NaN.",
    (
        r"\bnan\b",
        r"\binf(inite|inity)?\b",
        r"finite",
        r"overflow",
        r"half",
        r"fp16",
        r"float16",
        r"precision",
    ),
    tools=(REPORT,),
)
def exponentials_in_half_precision(stage: Stage) -> None:
    def loop(criterion: Any) -> tuple[float, float]:
        return by_hand(stage.model(), criterion, steps=60)

    loop_suffers(stage, loop, loop, half_softmax, infonce, steps=60)
