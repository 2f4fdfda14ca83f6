"""Faults of losses, optimizers, schedules, adapters, evaluators and processes, under trainers."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tests.judgement.case import AUDIT, faulty
from tests.judgement.first.runs import PLAN
from tests.judgement.first.runs import retrieval as searching
from tests.judgement.stage import Stage, pairs, rated
from tests.judgement.truth import among_alike, suffers
from tests.sentence_training import evaluation, losses

ranking = losses.MultipleNegativesRankingLoss
# Words by which a verdict says that training moves the weights too little.
STILL = (
    r"weights?.{0,80}(hardly|do not|did not|have not|barely|not) (mov|chang)",
    r"(nothing|little|hardly anything) (has )?(chang|mov|learn)",
    r"(rate|steps?).{0,60}too (small|low)",
)


class Bound(nn.Module):
    """A ranking loss and a penalty on the distance of the weights from where they began."""

    def __init__(self, model: Any, weight: float) -> None:
        super().__init__()
        self.model, self.inner, self.weight = model, ranking(model), weight
        self._start = [row.detach().clone() for row in model.parameters()]

    def forward(self, features: Any, labels: torch.Tensor) -> torch.Tensor:
        moved = sum(
            (row - start).square().sum()
            for row, start in zip(self.model.parameters(), self._start, strict=True)
        )
        return self.inner(features, labels) + self.weight * moved


@faulty(
    "penalty outweighs the loss",
    "A penalty of 1,000 times the squared distance from the first weights holds them still.",
    [
        r"penalt|regulari[sz]|auxiliary|other term|further term|added|L2",
        *STILL,
    ],
)
def penalty_that_keeps_the_weights(stage: Stage) -> None:
    def trainer(weight: float) -> Any:
        return stage.trainer(lambda model: Bound(model, weight), pairs(), max_steps=60)

    suffers(stage, trainer(1000.0), lambda: trainer(1e-4), among_alike)


@faulty(
    "loss of another encoder",
    "The loss was made with an encoder that was then loaded anew; the trainer gets the new one.",
    [
        r"(another|other|different|not the same|second) (model|encoder)",
        r"loss.{0,60}(model|encoder).{0,60}(another|other|different|not the)",
        *STILL,
    ],
)
def loss_made_before_the_encoder_was_loaded_again(stage: Stage) -> None:
    old = stage.model()

    def trainer(own: bool) -> Any:
        return stage.trainer(lambda model: ranking(model if own else old), pairs(), max_steps=60)

    suffers(stage, trainer(False), lambda: trainer(True), among_alike)


class Chunked(nn.Module):
    """A ranking loss of each two rows of a batch, to save memory."""

    def __init__(self, model: Any, rows: int) -> None:
        super().__init__()
        self.model, self.rows = model, rows

    def forward(self, features: Any, labels: torch.Tensor) -> torch.Tensor:
        first, second = (
            F.normalize(self.model(feature)["sentence_embedding"], dim=-1) for feature in features
        )
        values = [
            F.cross_entropy(20 * anchors @ positives.T, torch.arange(len(anchors)))
            for anchors, positives in zip(
                first.split(self.rows), second.split(self.rows), strict=True
            )
        ]
        return torch.stack(values).mean()


@faulty(
    "batch cut into chunks by the loss",
    "The loss is computed of two rows at a time, so that each anchor has one negative, of a batch "
    "of 16.",
    [
        r"chunk|split|micro.?batch",
        r"(few|one|1|only) (other )?(negative|candidate)",
        r"(negative|candidate)s?.{0,60}(few|only|\b1\b|\b2\b|too small)",
        r"batch.{0,60}(small|of 2|of two)",
    ],
)
def ranking_of_two_rows_at_a_time(stage: Stage) -> None:
    def trainer(rows: int) -> Any:
        return stage.trainer(lambda model: Chunked(model, rows), pairs())

    suffers(stage, trainer(2), lambda: trainer(16), among_alike, share=0.85)


@faulty(
    "schedule returns a rate",
    "The function of LambdaLR returns a rate, where a factor of the rate is wanted: "
    "5e-4 times 5e-4.",
    [
        r"LambdaLR|lambda|factor|multipl",
        r"(learning )?rate.{0,80}(too (small|low)|tiny|far below|2\.5e-0?7|never)",
        *STILL,
    ],
)
def lambda_that_returns_the_rate(stage: Stage) -> None:
    def trainer(unit: float) -> Any:
        model = stage.model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: unit * max(0.1, 1 - step / 60)
        )
        return stage.trainer(
            ranking, pairs(), model, optimizers=(optimizer, schedule), max_steps=60
        )

    suffers(stage, trainer(5e-4), lambda: trainer(1.0), among_alike)


@faulty(
    "plateau of the wrong sign",
    "The rate is divided by ten whenever the metric has not fallen, but it is a score, which "
    "rises.",
    [
        r"plateau",
        r"\bmode\b|greater|wrong (sign|direction)|higher is better|rises",
        r"(learning )?rate.{0,100}(fell|falls|fallen|drop|divided|tenth|almost 0|nearly 0|vanish|"
        r"too (small|low|early|soon|fast))",
    ],
)
def plateau_of_a_score_that_rises(stage: Stage) -> None:
    def trainer(mode: str) -> Any:
        return stage.trainer(
            ranking,
            pairs(),
            evaluator=searching(pairs(60, seed=3)),
            lr_scheduler_type="reduce_lr_on_plateau",
            lr_scheduler_kwargs={"mode": mode, "patience": 0, "factor": 0.1},
            metric_for_best_model="eval_made-up_cosine_ndcg@10",
            warmup_steps=0,
            eval_strategy="steps",
            eval_steps=4,
            max_steps=60,
        )

    suffers(stage, trainer("min"), lambda: trainer("max"), among_alike)


def averaging(decay: float) -> Any:
    """A callback that puts a moving average of the weights into the model at the end."""
    from transformers import TrainerCallback

    class Averaging(TrainerCallback):
        rows: list[torch.Tensor] | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
            self.rows = [row.detach().clone() for row in objects["model"].parameters()]

        def on_step_end(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
            for row, weight in zip(self.rows or (), objects["model"].parameters(), strict=True):
                row.lerp_(weight.detach(), 1 - decay)

        def on_train_end(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
            for row, weight in zip(self.rows or (), objects["model"].parameters(), strict=True):
                weight.data.copy_(row)

    return Averaging()


@faulty(
    "average of weights lags behind",
    "What is kept is a moving average of the weights with a decay of 0.9999, after 60 steps still "
    "the encoder of the start.",
    [r"average|\bEMA\b|decay of 0\.9999|smoothed weights", *STILL],
)
def average_with_four_nines(stage: Stage) -> None:
    def trainer(decay: float) -> Any:
        return stage.trainer(ranking, pairs(), callbacks=[averaging(decay)], max_steps=60)

    suffers(stage, trainer(0.9999), lambda: trainer(0.8), among_alike)


class Squares(nn.Module):
    """Squared differences between cosines and scores, whose shapes are those that are set."""

    def __init__(self, model: Any, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.model, self.shape = model, shape

    def forward(self, features: Any, labels: torch.Tensor) -> torch.Tensor:
        first, second = (self.model(feature)["sentence_embedding"] for feature in features)
        return (F.cosine_similarity(first, second) - labels.reshape(self.shape)).square().mean()


@faulty(
    "broadcast over the batch",
    "Cosines of shape (N,) less labels of shape (N, 1) make an (N, N): each cosine is drawn to the "
    "mean of all labels.",
    [
        r"broadcast|shape|\(N, ?1\)|\(N, ?N\)",
        r"(mean|average) (of all |of the )?(scores|labels)",
        r"(scores?|labels?).{0,60}(no|not|hardly|without|unrelated|ignored)",
        r"(cosines?|similarit\w+|pairs?).{0,60}"
        r"(do not follow|unrelated|no (order|relation)|not (related|in the order))",
    ],
)
def labels_as_a_column_in_a_module(stage: Stage) -> None:
    first, second, labels = rated()
    table = {"sentence1": first, "sentence2": second, "score": list(map(float, labels))}

    def trainer(shape: tuple[int, ...]) -> Any:
        return stage.trainer(lambda model: Squares(model, shape), table, max_steps=100)

    suffers(stage, trainer((-1, 1)), lambda: trainer((-1,)), among_alike)


@faulty(
    "two evaluators of one name",
    "Both evaluators are called the same, so that the metrics of the second replace those of the "
    "first, and only one of them is seen.",
    [
        r"(same|one|equal) names?",
        r"overwrit|replace",
        r"names?.{0,60}(twice|both|same|alike|clash)",
    ],
)
def metrics_of_two_evaluators_under_one_name(stage: Stage) -> None:
    evaluators = [searching(pairs(60, seed=3)), searching(pairs(90, seed=4))]
    evaluator = evaluation.SequentialEvaluator(evaluators)
    stage.play(stage.trainer(ranking, pairs(), evaluator=evaluator, **PLAN))
    model = stage.model()
    keys = [set(search(model)) for search in evaluators]
    assert keys[0] == keys[1] == set(evaluator(model)) - {"sequential_score"}


def _ranked(first: torch.Tensor, candidates: torch.Tensor, place: int) -> torch.Tensor:
    labels = torch.arange(len(first)) + place * len(first)
    return F.cross_entropy(20 * first @ candidates.T, labels)


def plain_rows_of_others(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Own positives are normalised, and those of other processes are not."""
    from torch.distributed.nn.functional import all_gather

    first, second = F.normalize(anchors, dim=-1), F.normalize(positives, dim=-1)
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return _ranked(first, second, 0)
    rows = list(all_gather(positives))
    rows[dist.get_rank()] = second
    return _ranked(first, torch.cat(rows), dist.get_rank())


@faulty(
    "rows of other processes not normalised",
    "What other processes send are the rows before they are divided by their lengths.",
    [r"normali[sz]", r"length|norm\b|scale", r"(rows|negatives) of other processes"],
    tools=(AUDIT,),
)
def lengths_left_on_gathered_rows(stage: Stage) -> None:
    stage.audit(plain_rows_of_others, uneven=False)


def rows_of_the_first(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Each process takes the rows of the first one, beside its own, for those of all others."""
    first, second = F.normalize(anchors, dim=-1), F.normalize(positives, dim=-1)
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return _ranked(first, second, 0)
    sent = second.detach().clone()
    dist.broadcast(sent, src=0)
    rows = [sent if at != dist.get_rank() else second for at in range(dist.get_world_size())]
    return _ranked(first, torch.cat(rows), dist.get_rank())


@faulty(
    "broadcast instead of a gather",
    "The first process's rows are sent to all, where each needs the rows of all: the first one "
    "has its own rows twice, and nobody sees those of the second.",
    [
        r"broadcast",
        r"(first process|process 0|rank 0)",
        r"(rows|negatives).{0,80}(missing|not (gathered|seen|reach)|other processes|twice|copies)",
        r"gather",
    ],
    tools=(AUDIT,),
)
def rows_of_the_first_process_for_all(stage: Stage) -> None:
    stage.audit(rows_of_the_first, uneven=False)
