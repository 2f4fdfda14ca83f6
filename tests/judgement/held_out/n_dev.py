"""Development sets and evaluators that choose the wrong checkpoint or end training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.judgement.case import faulty
from tests.judgement.first.bodies import encoder
from tests.judgement.first.reported_encoders import searching
from tests.judgement.held_out import n_fields as fields
from tests.judgement.held_out.n_fields import Field, rated, vocabulary
from tests.judgement.held_out.n_labels import duplicates
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers
from tests.sentence_training import evaluation, losses

BEST = {
    "eval_strategy": "steps", "eval_steps": 4, "save_strategy": "steps", "save_steps": 4,
    "save_total_limit": 2, "load_best_model_at_end": True, "learning_rate": 2e-3,
}  # fmt: skip
DEV = (
    r"evaluat\w*.{0,100}(wrong|mis|shuffl|shift|not fit|disagree|contradict|chance|fall|drop|"
    r"worse|opposite|invert|revers|negative|unrelated)",
    r"(dev|eval|gold|relevant|development)\w*.{0,100}(wrong|mis|shuffl|shift|invert|revers|"
    r"unrelated|chance|label|opposite)",
    r"(metric|best|checkpoint).{0,100}(first|earl|worst|wrong|before|step 10)",
    r"scores? (falls?|drops?|sinks?|worsens?).{0,80}(loss|while|although)",
)


def chosen(
    stage: Stage, field: Field, evaluator: Callable[[bool], Any], *,
    table: Any = None, loss: Any = None, faulty_settings: Any = None, mended_settings: Any = None,
    callbacks: bool = False, width: int = 48,
) -> None:  # fmt: skip
    """Play a run that keeps the checkpoint that the faulty evaluator prefers, and the mended."""
    from transformers import EarlyStoppingCallback

    table = field.table(160) if table is None else table
    words = vocabulary(field, table)

    def trainer(slip: bool) -> Any:
        settings = {**BEST, **((faulty_settings if slip else mended_settings) or {})}
        settings["output_dir"] = str(stage.folder / f"chosen-{slip}")
        stops = [EarlyStoppingCallback(early_stopping_patience=1)] if callbacks else []
        return stage.trainer(
            loss or fields.ranking, table, encoder(stage, words, width=width),
            evaluator=evaluator(slip), callbacks=stops, **settings,
        )  # fmt: skip

    suffers(stage, trainer(True), lambda: trainer(False), field.sought)


@faulty(
    "the worst checkpoint taken for the best",
    "greater_is_better is False for a score that should rise, so that the checkpoint with the "
    "lowest score is loaded at the end.",
    [r"greater_is_better|greater.is.better|lowest|smallest|minimi[sz]|direction of",
     *DEV, r"(higher|larger|greater) .{0,40}better"],
)  # fmt: skip
def lowest_recall_taken_for_the_best(stage: Stage) -> None:
    """Common: greater_is_better=False kept from a run that went by the loss."""
    field = fields.CHESS
    metric = {"metric_for_best_model": "dev_cosine_mrr@10"}
    chosen(stage, field, lambda slip: searching(first_two(field, 30, 21), "dev"),
           faulty_settings={**metric, "greater_is_better": False},
           mended_settings={**metric, "greater_is_better": True})  # fmt: skip


def first_two(field: Field, count: int, seed: int) -> dict[str, list[str]]:
    """Two columns of rows that are not in training."""
    return dict(list(field.table(count, seed=seed).items())[:2])


@faulty(
    "gold scores of the development set turned round",
    "The development set holds distances as gold scores: the best checkpoint by it is the one "
    "that has learned least.",
    [*DEV, r"(negative|anti)\w* correlat|correlat\w*.{0,60}(negative|below|-0|fall|drop)"],
)
def development_set_of_distances(stage: Stage) -> None:
    """A development set from another source, which has dissimilarities."""
    field = fields.JOBS
    table = rated(field, 90)
    names = list(table)

    def evaluator(slip: bool) -> Any:
        gold = [1 - score if slip else score for score in table["score"]]
        return evaluation.EmbeddingSimilarityEvaluator(
            table[names[0]], table[names[1]], gold, name="dev"
        )

    metric = {"metric_for_best_model": "dev_spearman_cosine", "greater_is_better": True}
    chosen(stage, field, evaluator, faulty_settings=metric, mended_settings=metric)


@faulty(
    "a development set that is solved at once",
    "The development set has two passages only and is solved from the first evaluation on: early "
    "stopping ends training at once.",
    [
        r"satur|ceiling|solved|perfect|too (easy|small|few|tiny)|(1\.0+|100 ?%)|maxim",
        r"(small|tiny|few|only \d+|only two|two|\b2\b).{0,60}(quer|passage|text|document|corpus|"
        r"development|dev|evaluat)",
        r"early.?stopp|stopp?e?(d|s|ing)?.{0,30}(early|too soon|after|at step)|patience",
        r"(score|evaluat\w*|metric).{0,60}(constant|not (move|change|rise|improve)|same|flat)",
    ],
)
def two_passages_to_stop_early_by(stage: Stage) -> None:
    """Common: a toy development set with EarlyStoppingCallback."""
    field = fields.GARDEN
    metric = {"metric_for_best_model": "dev_cosine_recall@3", "greater_is_better": True}
    chosen(stage, field, lambda slip: searching(first_two(field, 2 if slip else 40, 21), "dev"),
           callbacks=True, faulty_settings=metric,
           mended_settings={**metric, "metric_for_best_model": "dev_cosine_mrr@10"})  # fmt: skip


@faulty(
    "labels without an effect on a development set of positives",
    "The gold labels of the development set mark strangers as duplicates; the accuracy by which "
    "the checkpoint is chosen is best before anything was learned.",
    DEV,
)
def strangers_marked_as_duplicates_in_development(stage: Stage) -> None:
    """A development set whose 0 and 1 have the meaning of another table's."""
    field = fields.PHRASES
    table, pairs = duplicates(field, 80), duplicates(field, 240)
    names = list(table)

    def evaluator(slip: bool) -> Any:
        labels = [1 - label if slip else label for label in table["label"]]
        return evaluation.BinaryClassificationEvaluator(
            table[names[0]], table[names[1]], labels, name="dev"
        )

    metric = {"metric_for_best_model": "dev_cosine_ap", "greater_is_better": True,
              "per_device_train_batch_size": 32, "max_steps": 60,
              "eval_steps": 12, "save_steps": 12, "learning_rate": 3e-3}  # fmt: skip
    chosen(stage, field, evaluator, table=pairs, loss=losses.OnlineContrastiveLoss,
           faulty_settings=metric, mended_settings=metric)  # fmt: skip
