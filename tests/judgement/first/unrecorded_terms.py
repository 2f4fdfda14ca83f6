"""What is optimised is not what is recorded: terms beside the loss, and factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformerTrainer

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.hand_loops import batches, compare, embed, fit, infonce
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
BESIDE = (
    r"(other|another|further|extra|second|more) (term|loss|gradient|part|source)s?",
    r"(term|penalty|regulari[sz]\w*|weight decay)",
    r"(outside|beside|apart from|not of) the .*loss",
    r"(not|isn't|other than) (the|what) .{0,40}(recorded|watched|seen|optimi[sz]ed)",
    r"(actual|real|applied|whole|total) (loss|gradient|update|step)",
    r"gradient.{0,100}(differ|agree|direction|explain|elsewhere|oppos|other|larger|account)",
    r"collapse", r"(loss).{0,60}(rise|rose|not fall|does not|grow|up)",
    r"(all|every) (texts?|embeddings?|cosines?).{0,60}(same|alike|equal|one|close)",
    r"(weights|parameters|model|encoder).{0,60}(hardly|barely|little|not) (mov|chang)",
    r"back to", r"stands? still", r"(does|do|did) not (move|change|learn)",
)  # fmt: skip
SHRUNK = (
    r"scal(e|ed|ing)", r"divid", r"accumulat",
    r"(rate|step|update)s?.{0,60}(low|small|tiny|little)",
    r"(gradient|norm)\w*.{0,60}(small|low|tiny|little|fraction|factor|less|clip)", r"clip",
    r"(weights|parameters|encoder|embeddings).{0,60}(hardly|barely|little|not) (mov|chang)",
    r"(raise|higher|larger|increase).{0,40}rate", r"hardly (move|change|learn)", r"factor",
    r"(does|do|did) not (move|change|learn)", r"(too )?slow",
)  # fmt: skip


@faulty(
    "alignment term that outweighs the watched loss",
    "The loop adds a hundred times the squared distance of all embeddings from the batch's mean to "
    "the recorded loss: they shrink to a point.",
    BESIDE,
    tools=(REPORT,),
    never=(r"(larger|bigger|raise the) batch",),
)
def spread_punished_beside_the_loss(stage: Stage) -> None:
    def spread(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        rows = F.normalize(torch.cat([first, second]), dim=1)
        return 100 * (rows - rows.mean(0)).square().sum(1).mean()

    def training(model: Any, watch: Callable[[Any], Any], is_faulty: bool) -> None:
        rows = batches(pairs(), 50)
        fit(model, watch(infonce), rows=rows, extra=spread if is_faulty else None)

    compare(stage, training, among_alike, steps=50)


@faulty(
    "penalty for leaving the old weights",
    "The trainer's compute_loss adds 1000 times the squared distance to the weights before "
    "training, meant against forgetting: the encoder stays where it was.",
    BESIDE,
)
def penalty_for_leaving_the_old_weights(stage: Stage) -> None:
    class Anchored(SentenceTransformerTrainer):
        """A trainer with a penalty that its loss does not know of."""

        old: Any = None

        def compute_loss(self, model: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
            value = super().compute_loss(model, inputs, *arguments, **options)
            weights = list(self.model.parameters())
            if self.old is None:
                self.old = [weight.detach().clone() for weight in weights]
            far = sum(
                (weight - old).square().sum() for weight, old in zip(weights, self.old, strict=True)
            )
            return value + 1000 * far

    suffers(
        stage,
        stage.trainer(ranking, pairs(), kind=Anchored),
        lambda: stage.trainer(ranking, pairs()),
        among_alike,
    )


@faulty(
    "loss divided for an accumulation that is none",
    "Each loss is divided by 32 accumulation steps, and SGD steps after each batch all the same: "
    "the gradient is a thirty-second part.",
    SHRUNK,
    tools=(REPORT,),
)
def loss_divided_and_stepped_each_time(stage: Stage) -> None:
    def training(model: Any, watch: Callable[[Any], Any], is_faulty: bool) -> None:
        criterion, divisor = watch(infonce), 32 if is_faulty else 1
        model.train()
        descent = torch.optim.SGD(model.parameters(), lr=0.004)
        for first, second in batches(pairs(), 50):
            loss = criterion(embed(model, first), embed(model, second)) / divisor
            loss.backward()
            descent.step()
            descent.zero_grad()
        model.eval()

    compare(stage, training, among_alike, steps=50)
