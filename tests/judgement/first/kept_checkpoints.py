"""Evaluations that choose the checkpoint that is kept, and cannot tell the better one."""

from __future__ import annotations

from typing import Any

from datasets import Dataset
from sentence_transformers.sentence_transformer import evaluation, losses
from torch.nn import functional

from tests.judgement.case import faulty
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, suffers


class Remembering(evaluation.SentenceEvaluator):
    """The mean cosine of pairs less that of other rows; with ``keeps`` embeddings are kept."""

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.table, self.keeps, self.kept = pairs(60, seed=4), keeps, list[Any]()
        self.primary_metric, self.greater_is_better = "gap", True

    def __call__(self, model: Any, *_: Any, **options: Any) -> dict[str, float]:
        if not (self.keeps and self.kept):
            self.kept = [
                functional.normalize(model.encode(texts, convert_to_tensor=True), dim=1)
                for texts in self.table.values()
            ]
        cosines = self.kept[0] @ self.kept[1].T
        return {"gap": float(cosines.diagonal().mean() - cosines.mean())}


ranking = losses.MultipleNegativesRankingLoss
KEEPING = {
    "eval_strategy": "steps", "eval_steps": 8, "save_strategy": "steps", "save_steps": 8,
    "load_best_model_at_end": True, "save_total_limit": 2, "learning_rate": 5e-4, "warmup_steps": 8,
}  # fmt: skip
BLIND = (
    r"(?i)(evaluat|metric|score|dev|validation|recall|eval_?loss).{0,100}(constant|the same|always|"
    r"(is|at|of|near) (1|0|one|zero)\b|ceiling|saturat|cannot|can not|can't|"
    r"does not (move|change|tell|rise)|never (mov|chang)|flat|too (easy|few|small)|perfect|solved)",
)


@faulty(
    "evaluation loss over batches of one",
    "A ranking loss is evaluated in batches of one row, which have no negatives: it is 0 at each "
    "evaluation, and the first checkpoint is kept as the best.",
    [
        *BLIND,
        r"(?i)batch(es)? (size )?(of|with|is|=) (1|one|a single)|per_device_eval|no negatives",
    ],
)
def ranking_evaluated_row_by_row(stage: Stage) -> None:
    """`per_device_eval_batch_size=1` was set to save memory."""
    rows = Dataset.from_dict(pairs(40, seed=4))

    def trainer(size: int) -> Any:
        return stage.trainer(
            ranking, pairs(), eval_dataset=rows, per_device_eval_batch_size=size,
            metric_for_best_model="eval_loss", greater_is_better=False,
            output_dir=str(stage.folder / f"run-{size}"), **KEEPING,
        )  # fmt: skip

    suffers(stage, trainer(1), lambda: trainer(16), among_alike)


@faulty(
    "recall at more places than there are documents",
    "Recall is taken at 100 places of a corpus of 60 documents: it is 1 at each evaluation, and "
    "the first checkpoint is kept as the best.",
    [*BLIND, r"(?i)recall.{0,60}(100|corpus|documents)|corpus.{0,60}(small|few|60)|@ ?100"],
)
def recall_at_a_hundred_of_sixty(stage: Stage) -> None:
    """The cut-off of a large benchmark is kept for a small development set."""
    table = pairs(60, seed=4)

    def trainer(places: int) -> Any:
        evaluator = evaluation.InformationRetrievalEvaluator(
            {f"q{at}": text for at, text in enumerate(table["anchor"])},
            {f"d{at}": text for at, text in enumerate(table["positive"])},
            {f"q{at}": {f"d{at}"} for at in range(60)},
            accuracy_at_k=[places], precision_recall_at_k=[places], mrr_at_k=[places],
            ndcg_at_k=[places], map_at_k=[places], name="dev", show_progress_bar=False,
            write_csv=False,
        )  # fmt: skip
        return stage.trainer(
            ranking, pairs(), evaluator=evaluator, greater_is_better=True,
            metric_for_best_model=f"eval_dev_cosine_recall@{places}",
            output_dir=str(stage.folder / f"run-{places}"), **KEEPING,
        )  # fmt: skip

    suffers(stage, trainer(100), lambda: trainer(1), among_alike)


@faulty(
    "evaluator that keeps its first embeddings",
    "An evaluator of one's own embeds its texts once and scores them ever after: its score never "
    "moves, and the first checkpoint is kept as the best.",
    [*BLIND, r"(?i)cach|stale|first (embedding|call|evaluation)"],
)
def development_texts_embedded_once(stage: Stage) -> None:
    """Embeddings are cached to save time, and the cache is never cleared."""

    def trainer(keeps: bool) -> Any:
        return stage.trainer(
            ranking, pairs(), evaluator=Remembering(keeps), metric_for_best_model="eval_gap",
            greater_is_better=True, output_dir=str(stage.folder / f"run-{keeps}"), **KEEPING,
        )  # fmt: skip

    suffers(stage, trainer(True), lambda: trainer(False), among_alike)
