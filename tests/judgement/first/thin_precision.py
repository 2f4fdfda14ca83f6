"""Few bits, scaled gradients and adapters, by which updates are lost."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import Tensor, nn

from tests.judgement.case import faulty
from tests.judgement.first.catalogue import (
    Setting,
    draws,
    embed,
    info_nce,
    on_shelf,
    sales,
    slips,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers
from tests.tiny_models import make_bert

ranking = losses.MultipleNegativesRankingLoss
STILL = (
    r"(weights?|encoder|embeddings?|parameters?|adapters?|lora|nothing).{0,80}(not|never|hardly|"
    r"barely|nothing|no) .{0,12}(chang|mov|train|updat|learn|gradient)",
    r"(not|never|hardly|barely) (chang|mov|train|updat|reach)",
    r"no gradient|gradients?.{0,60}(zero|none|missing|lost|vanish|small|not reach)",
    r"requires_grad|frozen|freez|trainable",
)
RATE = r"(learning )?rates?.{0,80}(small|low|tiny|raise|higher|too)"


@faulty(
    "an adapter at a rate for whole encoders",
    "LoRA's weights are trained at 2e-5, a rate for all weights of a large encoder: they hardly "
    "move.",
    (*STILL, RATE),
)
def adapter_at_the_rate_of_full_training(stage: Stage) -> None:
    """An adapter was added to a script, and its rate left."""
    from peft import LoraConfig, TaskType

    def trainer(rate: float) -> Any:
        model = stage.model()
        model.add_adapter(
            LoraConfig(
                task_type=TaskType.FEATURE_EXTRACTION,
                target_modules=["query", "key", "value", "dense"],
                r=8,
                lora_alpha=16,
            )
        )
        return stage.trainer(ranking, sales(), model, learning_rate=rate, max_steps=80)

    suffers(stage, trainer(2e-5), lambda: trainer(1e-2), on_shelf)


class Binary(nn.Module):
    """Signs of the embedding; with ``soft`` their tanh in training."""

    def __init__(self, soft: bool) -> None:
        super().__init__()
        self.soft = soft

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        rows = features["sentence_embedding"]
        soft = torch.tanh(2 * rows)
        features["sentence_embedding"] = soft if self.soft and self.training else rows.sign()
        return features

    def save(self, *_: Any, **__: Any) -> None:
        """Nothing to save."""


@faulty(
    "signs without a gradient",
    "The embedding is turned into signs in training too, and the gradient of sign() is 0.",
    (*STILL, r"sign\(|round|quanti|binar|discrete"),
)
def binary_embeddings_trained_through_sign(stage: Stage) -> None:
    """A module for binary embeddings stands at the end of the encoder from the start."""

    def trainer(soft: bool) -> Any:
        torch.manual_seed(7)
        body = Transformer(str(make_bert(stage.folder / "bert")))
        model = SentenceTransformer(modules=[body, Pooling(32), Binary(soft)], device="cpu")
        return stage.trainer(ranking, sales(), model, learning_rate=1e-3, max_steps=60)

    suffers(stage, trainer(False), lambda: trainer(True), on_shelf)


@faulty(
    "clipping under a scaler",
    "The gradients of a loss times 65,536 are clipped to norm 1 and then divided by 65,536.",
    (*STILL, r"clip|unscale|scaler|scaled|norm", RATE),
)
def clipping_before_unscaling(stage: Stage) -> None:
    """The loop calls clip_grad_norm_ on scaled gradients; scaler.unscale_ is missing."""

    def setting(unscales: bool) -> Setting:
        model = stage.model()
        draw = draws(sales())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3)

        def update(criterion: Any, step: int) -> None:
            optimizer.zero_grad()
            scale = 65536.0
            (scale * criterion(*(embed(model, texts) for texts in draw()))).backward()
            if not unscales:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for row in model.parameters():
                if row.grad is not None:
                    row.grad /= scale
            if unscales:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

        return model, info_nce, update

    slips(stage, lambda: setting(False), lambda: setting(True))
