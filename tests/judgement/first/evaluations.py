"""Faults of evaluation: the score that chooses a checkpoint says something else than is thought."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tests.judgement.case import faulty
from tests.judgement.first.loop_materials import (
    FAST,
    MORE_OF_THE_SAME,
    cosent,
    ranking,
)
from tests.judgement.stage import FILLERS, Stage, pairs, rated
from tests.judgement.truth import alike, among_alike, keep, retrieval, suffers, truth
from tests.sentence_training import evaluation

BEST_IS_KEPT = {
    "eval_strategy": "steps",
    "eval_steps": 5,
    "save_strategy": "steps",
    "save_steps": 5,
    "load_best_model_at_end": True,
    "save_total_limit": 2,
}


def search(table: Mapping[str, Sequence[str]], **options: Any) -> Any:
    """An evaluator that seeks the second column's texts by the first's."""
    questions, passages = table.values()
    return evaluation.InformationRetrievalEvaluator(
        {str(row): text for row, text in enumerate(questions)},
        {str(row): text for row, text in enumerate(passages)},
        {str(row): {str(row)} for row in range(len(questions))},
        name="search",
        **options,
    )


@faulty(
    "best checkpoint by a metric the wrong way round",
    "The best checkpoint is chosen by nDCG with greater_is_better=False: the worst one is loaded "
    "at the end.",
    [
        r"greater_is_better|metric_for_best|best (model|checkpoint)",
        r"(worst|lowest|smallest|first).{0,60}(checkpoint|model|score)",
    ],
    never=[MORE_OF_THE_SAME],
)
def checkpoint_of_the_lowest_score(stage: Stage) -> None:
    def trainer(greater: bool) -> Any:
        return stage.trainer(
            ranking, pairs(), evaluator=search(alike(seed=12)), greater_is_better=greater,
            metric_for_best_model="search_cosine_ndcg@10", **BEST_IS_KEPT, **FAST,
        )  # fmt: skip

    suffers(stage, trainer(greater=False), lambda: trainer(greater=True), among_alike, share=None)


ALWAYS = [
    r"(score|metric|evaluat|ndcg|accuracy|recall|mrr).{0,120}(same|constant|never|not (move|change|"
    r"rise)|always|stays?|\b0\b|zero|\b1\b|perfect|saturat|ceiling|from the (start|first|begin))",
    r"(corpus|document|relevant|candidate).{0,100}(small|few|only|missing|not in|no)",
]


@faulty(
    "relevant documents by other ids than the corpus",
    "The corpus has the ids '0', '1' and so on, the relevant documents 'doc0', 'doc1': the score "
    "is 0 at each evaluation, and the first checkpoint counts as the best.",
    [*ALWAYS, r"\bids?\b"],
    never=[MORE_OF_THE_SAME],
)
def relevant_ids_are_not_in_the_corpus(stage: Stage) -> None:
    questions, passages = alike(seed=12).values()

    def trainer(prefix: str) -> Any:
        evaluator = evaluation.InformationRetrievalEvaluator(
            {str(row): text for row, text in enumerate(questions)},
            {str(row): text for row, text in enumerate(passages)},
            {str(row): {f"{prefix}{row}"} for row in range(100)},
            name="search",
        )
        return stage.trainer(
            ranking, pairs(), evaluator=evaluator, greater_is_better=True,
            metric_for_best_model="search_cosine_ndcg@10", **BEST_IS_KEPT, **FAST,
        )  # fmt: skip

    suffers(stage, trainer("doc"), lambda: trainer(""), among_alike, share=None)


@faulty(
    "correlation with scores that are all equal",
    "The evaluation has only pairs that fit, with the score 1: a correlation with them is not a "
    "number.",
    [
        r"\bnan\b|not a number|undefined|not finite|constant|(all|same|equal).{0,40}scores?",
        r"(score|label)s?.{0,80}(all|same|equal|constant|one value)",
    ],
    never=[MORE_OF_THE_SAME],
)
def correlation_with_a_constant(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/1303: Spearman is nan.

    Training is as it should be, and the encoder gains; only the evaluation cannot show it.
    """
    first, second, marks = rated()
    table = {"sentence1": first, "sentence2": second, "score": [float(mark) for mark in marks]}
    questions, passages = pairs(60, seed=12).values()
    evaluator = evaluation.EmbeddingSimilarityEvaluator(questions, passages, [1.0] * 60, name="sts")
    trainer = stage.trainer(
        cosent, table, evaluator=evaluator, eval_strategy="steps", eval_steps=10, **FAST
    )
    stage.play(trainer)
    if trainer.state.global_step:
        shown = evaluator(trainer.model)["sts_spearman_cosine"]
        keep(stage, is_a_number=float(math.isfinite(shown)), after=retrieval(trainer.model))
        assert truth(stage)["is_a_number"] == 0, truth(stage)


@faulty(
    "evaluated and used with a prompt that training lacks",
    "The encoder is asked with an instruction before each question, as the evaluator and the "
    "service do; the training texts have none.",
    [r"prompt|instruction|prefix"],
    never=[MORE_OF_THE_SAME],
)
def prompt_in_use_and_not_in_training(stage: Stage) -> None:
    instruction = f"{' '.join(FILLERS[30:42])} : "

    def asked(model: Any) -> float:
        return retrieval(model, alike(), prompts=(instruction, ""))

    def trainer(**settings: Any) -> Any:
        return stage.trainer(
            ranking, pairs(), evaluator=search(alike(seed=12), query_prompt=instruction),
            eval_strategy="steps", eval_steps=10, **settings, **FAST,
        )  # fmt: skip

    suffers(
        stage,
        trainer(),
        lambda: trainer(prompts={"anchor": instruction}),
        asked,
        share=None,
    )


@faulty(
    "evaluated on the rows of training",
    "The evaluator was built from the training set: its score says how well the rows were "
    "memorised.",
    [
        r"(evaluat|validation|test|dev).{0,120}(training|train set|same|also|overlap|leak|contain)",
        r"(training|train).{0,120}(evaluat|validation|test|leak)",
    ],
    never=[],
)
def rows_of_training_in_the_evaluator(stage: Stage) -> None:
    """Training is as it should be: in place of a mended run, both scores are compared."""
    table = {name: texts[:48] for name, texts in pairs().items()}
    trainer = stage.trainer(
        ranking, table, evaluator=search(table), eval_strategy="steps", eval_steps=20,
        max_steps=60, **FAST,
    )  # fmt: skip
    stage.play(trainer)
    if trainer.state.global_step:
        keep(stage, shown=retrieval(trainer.model, table), unseen=retrieval(trainer.model, alike()))
        assert truth(stage)["shown"] >= truth(stage)["unseen"] + 0.03, truth(stage)
