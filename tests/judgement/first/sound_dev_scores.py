"""Sound set-ups: evaluators of all sorts beside the training."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import evaluation, losses

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import (
    CLINIC,
    HELPDESK,
    KITCHEN,
    PAPERS,
    SCENES,
    SHOP,
    TRAVEL,
    Field,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns

ranking = losses.MultipleNegativesRankingLoss
EVERY = {"eval_strategy": "steps", "eval_steps": 10, "learning_rate": 2e-3, "max_steps": 40}


def unseen_pairs(field: Field, count: int = 40) -> list[list[str]]:
    """Two columns of rows that are not trained on."""
    return list(field.table(count, seed=21).values())[:2]


def evaluated(stage: Stage, field: Field, evaluator: Any, **arguments: Any) -> None:
    """Train pairs of a field by the ranking loss beside an evaluator."""
    table = field.table(180)
    model = encoder(stage, words_of([table]))
    trainer = stage.trainer(ranking, table, model, evaluator=evaluator, **{**EVERY, **arguments})
    learns(stage, trainer, field.sought)


@sound("search with several right documents")
def search_with_distractors(stage: Stage) -> None:
    """Search among right passages and as many distractors."""
    queries, passages = unseen_pairs(SHOP)
    corpus = {f"d{at}": text for at, text in enumerate([*passages, *SHOP.near(40, seed=21)])}
    evaluator = evaluation.InformationRetrievalEvaluator(
        {f"q{at}": text for at, text in enumerate(queries)}, corpus,
        {f"q{at}": {f"d{at}"} for at in range(40)}, name="shop",
        mrr_at_k=[10], ndcg_at_k=[10], accuracy_at_k=[1, 5], show_progress_bar=False,
    )  # fmt: skip
    evaluated(stage, SHOP, evaluator)


@sound("best checkpoint by triplets")
def best_checkpoint_by_triplets_of_papers(stage: Stage) -> None:
    """The checkpoint of the best accuracy of triplets is loaded at the end."""
    titles, abstracts = unseen_pairs(PAPERS)
    evaluator = evaluation.TripletEvaluator(
        titles, abstracts, PAPERS.near(40, seed=21), name="papers"
    )
    evaluated(
        stage, PAPERS, evaluator, save_strategy="steps", save_steps=10, save_total_limit=2,
        load_best_model_at_end=True, metric_for_best_model="eval_papers_cosine_accuracy",
    )  # fmt: skip


@sound("rank correlation of grades")
def rank_correlation_while_grades_are_learned(stage: Stage) -> None:
    """AnglE on graded pairs, with the correlation of unseen grades and a held-out loss."""
    from datasets import Dataset

    table, dev = SCENES.graded(180), SCENES.graded(50, seed=11)
    first, second, scores = dev.values()
    pairs = SCENES.table(180, seed=4)
    model = warmed(encoder(stage, words_of([table, pairs]), dropout=0.0), pairs, 4)
    trainer = stage.trainer(
        losses.AnglELoss, table, model, eval_dataset=Dataset.from_dict(dev), max_steps=80,
        evaluator=evaluation.EmbeddingSimilarityEvaluator(first, second, scores, name="dev"),
        eval_strategy="steps", eval_steps=10, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, lambda encoder_: correlation(encoder_, dev))


@sound("two classes of pairs")
def average_precision_of_duplicates(stage: Stage) -> None:
    """Unseen duplicates and near misses, three misses to a duplicate."""
    first, second = unseen_pairs(HELPDESK, 30)
    pairs = [*zip(first, second, strict=True)]
    for slot in range(3):
        pairs += zip(first, HELPDESK.near(30, seed=21, slot=slot), strict=True)
    evaluator = evaluation.BinaryClassificationEvaluator(
        [pair[0] for pair in pairs], [pair[1] for pair in pairs],
        [1] * 30 + [0] * 90, name="duplicates", show_progress_bar=False,
    )  # fmt: skip
    evaluated(stage, HELPDESK, evaluator)


@sound("paraphrases mined")
def paraphrases_mined_between_evaluations(stage: Stage) -> None:
    """Paraphrases are mined among the texts of both columns."""
    first, second = unseen_pairs(CLINIC)
    texts = {f"a{at}": text for at, text in enumerate(first)}
    texts |= {f"b{at}": text for at, text in enumerate(second)}
    evaluator = evaluation.ParaphraseMiningEvaluator(
        texts, [(f"a{at}", f"b{at}") for at in range(40)], name="mined", show_progress_bar=False
    )
    evaluated(stage, CLINIC, evaluator)


@sound("candidates ranked again")
def candidates_of_a_first_search_ranked_again(stage: Stage) -> None:
    """Each query has its passage and eight candidates of a first search."""
    queries, passages = unseen_pairs(KITCHEN)
    near = [KITCHEN.near(40, seed=21, slot=slot) for slot in range(3)]
    samples = [
        {"query": queries[at], "positive": [passages[at]],
         "negative": [*(texts[at] for texts in near), *(passages[(at + step) % 40]
                                                       for step in (3, 7, 11, 17, 23))]}
        for at in range(40)
    ]  # fmt: skip
    evaluator = evaluation.RerankingEvaluator(samples, name="again", show_progress_bar=False)
    evaluated(stage, KITCHEN, evaluator)


@sound("translations in both directions")
def translations_sought_and_averaged(stage: Stage) -> None:
    """Accuracy of translations in both directions, beside correlation, in a row of evaluators."""
    english, german = unseen_pairs(TRAVEL)
    graded = TRAVEL.graded(60, seed=21)
    evaluator = evaluation.SequentialEvaluator(
        [
            evaluation.TranslationEvaluator(english, german, name="en-de", show_progress_bar=False),
            evaluation.EmbeddingSimilarityEvaluator(*graded.values(), name="graded"),
        ],
        main_score_function=lambda scores: scores[0],
    )
    evaluated(stage, TRAVEL, evaluator, max_steps=50)


@sound("stopped early, with a held-out loss")
def stopped_when_a_held_out_loss_rests(stage: Stage) -> None:
    """Early stopping by the loss of held-out pairs, with batches without duplicates."""
    from datasets import Dataset
    from transformers import EarlyStoppingCallback

    table = SCENES.table(180)
    model = encoder(stage, words_of([table]))
    trainer = stage.trainer(
        ranking, table, model, eval_dataset=Dataset.from_dict(SCENES.table(50, seed=11)),
        callbacks=[EarlyStoppingCallback(early_stopping_patience=3)],
        save_strategy="steps", save_steps=10, load_best_model_at_end=True,
        metric_for_best_model="eval_loss", batch_sampler="no_duplicates",
        **(EVERY | {"max_steps": 80}),
    )  # fmt: skip
    learns(stage, trainer, SCENES.sought)
