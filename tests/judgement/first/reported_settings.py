"""Faults of units, schedules, evaluation, precision and what a trainer optimises."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from tests.judgement.case import faulty
from tests.judgement.first.reported_encoders import (
    EVALUATED,
    LONGER,
    STILL,
    adapted,
    ranking,
    searching,
    static,
    tuned,
)
from tests.judgement.stage import Stage, pairs, triplets
from tests.judgement.truth import alike, among_alike, keep, suffers, truth
from tests.sentence_training import evaluation, losses

WEIGHTS = "the loss's own weights"
RECORDED = "what is optimised is not what is recorded"
UNITS = "units and margins"
SCHEDULES = "schedules"
EVALUATION = "evaluation"
PRECISION = "precision"
ADAPTERS = "rate of adapters"


@faulty(
    UNITS,
    "The triplet loss has cosine distances, at most 2, and the margin 5 that is meant for "
    "Euclidean distances of long vectors: no triplet is ever done.",
    [
        r"margin",
        r"cosine distance",
    ],
    never=[LONGER],
)
def margin_of_five_for_cosines(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/1183."""
    from sentence_transformers.sentence_transformer.losses import TripletDistanceMetric

    def trainer(margin: float) -> Any:
        return stage.trainer(
            lambda model: losses.TripletLoss(model, TripletDistanceMetric.COSINE, margin),
            triplets(),
            max_steps=100,
            learning_rate=2e-3,
        )

    suffers(stage, trainer(5.0), lambda: trainer(0.2), among_alike, share=0.85)


def adding(weight: float) -> Any:
    """A trainer that adds the distance of the two texts of a row to any loss."""
    from sentence_transformers import SentenceTransformerTrainer

    class Adding(SentenceTransformerTrainer):
        def compute_loss(self, model: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
            value = super().compute_loss(model, dict(inputs), *arguments, **options)
            features, _ = self.collect_features(dict(inputs))
            first, second = (model(dict(feature))["sentence_embedding"] for feature in features[:2])
            return value + weight * (1 - F.cosine_similarity(first, second)).mean()

    return Adding


@faulty(
    RECORDED,
    "`compute_loss` adds a hundred times the distance of the pairs to the loss: what is optimised "
    "is mostly a pull without a push.",
    [
        r"compute_loss",
        r"(added|further|another|additional|auxiliary|other|extra) (term|loss)",
        r"(optimi[sz]ed|trained|logged|trainer\w*).{0,80}(not|differ|other|than).{0,60}"
        r"(loss|recorded|watched)",
        r"(loss|value).{0,80}(differ|not the|other than|larger|more).{0,60}"
        r"(logged|trainer|optimi[sz]ed|recorded)",
        r"collaps",
    ],
    never=[LONGER],
)
def pull_added_in_compute_loss(stage: Stage) -> None:
    """Common: a `compute_loss` of one's own."""

    def trainer(weight: float) -> Any:
        return stage.trainer(ranking, pairs(), kind=adding(weight), max_steps=60)

    suffers(stage, trainer(100.0), lambda: trainer(0.0), among_alike)


@faulty(
    SCHEDULES,
    "Static embeddings are trained at the rate of transformers, 5e-5, and need a thousand times "
    "as much.",
    [r"(learning )?rate.{0,100}(low|small|higher|larger|raise|increase|tiny)", *STILL],
)
def static_embeddings_at_the_usual_rate(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/2982."""

    def trainer(rate: float) -> Any:
        return stage.trainer(ranking, pairs(), static(stage), learning_rate=rate)

    suffers(stage, trainer(5e-5), lambda: trainer(0.05), among_alike)


@faulty(
    SCHEDULES,
    "A transformer is trained at 0.2, a rate for static embeddings.",
    [
        r"(learning )?rate.{0,100}(high|large|lower|smaller|reduce|decrease|divid)",
        r"(lower|smaller|reduce|decrease).{0,40}(learning )?rate",
        r"collaps|diverg",
    ],
    never=[LONGER],
)
def rate_of_static_embeddings(stage: Stage) -> None:
    """https://github.com/omoindrot/tensorflow-triplet-loss/issues/25: too high a rate."""

    def trainer(rate: float) -> Any:
        return stage.trainer(ranking, pairs(), learning_rate=rate, lr_scheduler_type="cosine")

    suffers(stage, trainer(0.2), lambda: trainer(5e-4), among_alike)


@faulty(
    EVALUATION,
    "The best model is kept at the end, and `greater_is_better` is False for a score: the worst "
    "checkpoint is loaded.",
    [
        r"greater_is_better",
        r"worst",
        r"(best|lowest|smallest).{0,60}(checkpoint|model|score)",
        r"load_best_model",
        r"higher is better",
    ],
    never=[LONGER],
)
def worst_checkpoint_is_loaded(stage: Stage) -> None:
    """https://github.com/huggingface/transformers/pull/31142."""

    def trainer(greater: bool) -> Any:
        return stage.trainer(
            ranking,
            pairs(),
            evaluator=searching(alike(60, seed=3)),
            **EVALUATED,
            save_strategy="steps",
            save_steps=10,
            save_total_limit=2,
            load_best_model_at_end=True,
            metric_for_best_model="eval_search_cosine_mrr@10",
            greater_is_better=greater,
            learning_rate=1e-3,
        )

    suffers(stage, trainer(False), lambda: trainer(True), among_alike, share=0.75)


def _misjudged(stage: Stage, evaluator: Any, key: str, **options: Any) -> None:
    """Play a sound training, whose evaluator says the same before and after it."""
    model = stage.model()
    before, said_before = among_alike(model), evaluator(model)[key]
    trainer = stage.trainer(
        ranking, pairs(), model, evaluator=evaluator, **EVALUATED, max_steps=60, **options
    )
    stage.play(trainer)
    if not trainer.state.global_step:
        return
    after, said_after = among_alike(model), evaluator(model)[key]
    said = {} if math.isnan(said_before) else {"said_before": said_before, "said_after": said_after}
    keep(stage, before=before, after=after, **said)
    assert after >= before + 0.1, truth(stage)
    assert said_before == said_after or (math.isnan(said_before) and math.isnan(said_after))


@faulty(
    EVALUATION,
    "The evaluator's relevant passages are numbers, and the keys of its corpus are strings: no "
    "passage is ever found, and the score is 0.",
    [
        r"(ids?|keys?|numbers?|names?).{0,80}(match|corpus|string|differ|missing|not (in|among))",
        r"(relevant|corpus).{0,100}(ids?|keys?|not (in|among|found)|missing|none|no )",
        r"(score|metric).{0,60}(is|are|stays?|always|remains?).{0,20}(0|zero)",
    ],
)
def relevant_passages_by_other_keys(stage: Stage) -> None:
    """Common: numbers of passages are integers in one file and strings in the other."""
    first, second = pairs(60, seed=3).values()
    evaluator = evaluation.InformationRetrievalEvaluator(
        {str(at): text for at, text in enumerate(first)},
        {str(at): text for at, text in enumerate(second)},
        {str(at): {at} for at in range(60)},
        name="search",
    )
    _misjudged(stage, evaluator, "search_cosine_ndcg@10")


@faulty(
    EVALUATION,
    "The evaluator searches eight passages that have nothing in common, and its score is 1 before "
    "training has begun.",
    [
        r"(few|eight|\b8\b|small|only).{0,80}(passages?|texts?|documents?|queries|corpus|candidates)",
        r"(passages?|texts?|documents?|queries|corpus|candidates).{0,80}(few|only|\b8\b|small)",
        r"(score|metric|evaluat).{0,100}(ceiling|perfect|too easy|1(\.0+)? (from|before|at)|"
        r"already|cannot (rise|improve)|highest|best possible|full)",
        r"too easy|ceiling|saturat",
    ],
)
def eight_passages_to_search(stage: Stage) -> None:
    """Common: a handful of examples to test a script, left in."""
    evaluator = searching(pairs(8, seed=3))
    _misjudged(stage, evaluator, "search_cosine_ndcg@10")


@faulty(
    EVALUATION,
    "All pairs of the evaluator have the score 1, and a correlation with a constant is no number.",
    [
        r"\bnan\b|not a number|no number|undefined",
        r"(scores?|labels?|gold|pairs).{0,80}(constant|same|equal|identical|one value|all)",
        r"correlation",
    ],
)
def evaluator_with_one_score_for_all_pairs(stage: Stage) -> None:
    """Common: positives alone are held out for a correlation."""
    first, second = pairs(60, seed=3).values()
    evaluator = evaluation.EmbeddingSimilarityEvaluator(first, second, 60 * [1.0], name="alike")
    _misjudged(stage, evaluator, "alike_spearman_cosine")


@faulty(
    ADAPTERS,
    "Adapters are trained at 2e-5, a rate for all weights.",
    [r"(learning )?rate.{0,100}(low|small|higher|larger|raise|increase|tiny)", *STILL],
)
def adapters_at_the_rate_of_all_weights(stage: Stage) -> None:
    """Common; https://github.com/huggingface/peft/issues/793 has the same effect."""

    def trainer(rate: float) -> Any:
        model = adapted(stage.model())
        return stage.trainer(ranking, pairs(), model, learning_rate=rate, max_steps=60)

    suffers(stage, trainer(2e-5), lambda: trainer(1e-2), among_alike)


@faulty(
    PRECISION,
    "The weights are bfloat16 themselves, and steps of a usual rate are lost where they are added.",
    [
        r"bfloat16|bf16|half precision|16.?bit|float32|precision|round",
        *STILL,
    ],
    never=[LONGER],
)
def weights_in_bfloat16(stage: Stage) -> None:
    """https://github.com/tianweiy/CausVid/issues/19."""

    def trainer(kind: torch.dtype) -> Any:
        return stage.trainer(
            ranking,
            pairs(),
            tuned(stage, 20).to(kind),
            learning_rate=5e-5,
            lr_scheduler_type="constant",
            max_steps=170,
        )

    suffers(
        stage,
        trainer(torch.bfloat16),
        lambda: trainer(torch.float32),
        among_alike,
        share=0.75,
        every=10,
    )


@faulty(
    PRECISION,
    "The weights are float16 themselves: Adam divides by squares that are 0 there, and the first "
    "step leaves no number.",
    [
        r"\bnan\b|not a number|infinit|overflow|underflow|no numbers?|not finite",
        r"float16|fp16|half precision|16.?bit|precision",
    ],
    never=[LONGER],
)
def weights_in_float16(stage: Stage) -> None:
    """https://github.com/google/gemma_pytorch/issues/24."""

    def trainer(half: bool) -> Any:
        model = stage.model()
        return stage.trainer(ranking, pairs(), model.half() if half else model, max_steps=30)

    suffers(stage, trainer(True), lambda: trainer(False), among_alike, fails=True)
