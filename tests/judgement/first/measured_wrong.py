"""Evaluations that choose or show the wrong thing."""

from __future__ import annotations

import random
from typing import Any

from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import (
    EmbeddingSimilarityEvaluator,
    InformationRetrievalEvaluator,
    TripletEvaluator,
)

from tests.judgement.case import faulty
from tests.judgement.first.catalogue import (
    contested,
    offer,
    on_shelf,
    products,
    rivalled,
    sales,
    search,
    shelf,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import keep, suffers, truth

ranking = losses.MultipleNegativesRankingLoss
EVALUATED = {"eval_strategy": "steps", "eval_steps": 10, "learning_rate": 1e-3, "max_steps": 40}


def _searched(table: dict[str, list[str]], *, first: int = 0, name: str = "dev") -> Any:
    """An evaluator of searches in offers; documents are numbered from ``first`` in the answers."""
    queries = {str(at): text for at, text in enumerate(table["query"])}
    corpus = {str(at): text for at, text in enumerate(table["offer"])}
    answers = {str(at): {str(at + first)} for at in range(len(queries))}
    return InformationRetrievalEvaluator(queries, corpus, answers, name=name, batch_size=64)


def _shown(stage: Stage, trainer: Any, evaluator_score: Any, key: str, least: float) -> None:
    """Play a set-up whose evaluator shows a number away from the score on the shelf."""
    start = on_shelf(trainer.model), evaluator_score(trainer.model)[key]
    stage.play(trainer)
    if trainer.state.global_step:
        after = on_shelf(trainer.model), evaluator_score(trainer.model)[key]
        keep(stage, before=start[0], after=after[0], shown_before=start[1], shown_after=after[1])
        numbers = stage.frozen.get("truth", {}) and truth(stage)
        assert not numbers or abs(after[0] - after[1]) >= least, numbers


@faulty(
    "the worst checkpoint restored as the best",
    "greater_is_better=False stands with a metric of which more is better: training ends with the "
    "weights of the worst evaluation.",
    (
        r"greater_is_better|metric_for_best|best (model|checkpoint)|load_best|worst|lowest|first "
        r"(checkpoint|evaluation)",
        r"(checkpoint|weights|model).{0,80}(restored|loaded|reset|earlier|worse|return)",
    ),
)
def worst_checkpoint_restored_as_the_best(stage: Stage) -> None:
    """The setting was taken over from a run that watched its loss."""

    def trainer(greater: bool) -> Any:
        return stage.trainer(
            ranking,
            sales(),
            evaluator=_searched(shelf()),
            save_strategy="steps",
            save_steps=10,
            load_best_model_at_end=True,
            metric_for_best_model="eval_dev_cosine_mrr@10",
            greater_is_better=greater,
            **EVALUATED,
        )

    suffers(stage, trainer(False), lambda: trainer(True), on_shelf)


@faulty(
    "a corpus of four documents",
    "The evaluator searches in four offers, among which the untrained encoder finds all: it cannot "
    "show any progress.",
    (
        r"corpus|documents?.{0,40}(few|small|only|four|4\b)|(few|small|only|four|4\b).{0,40}"
        r"(document|candidate|quer|text)",
        r"(score|evaluat|mrr|ndcg)\w*.{0,80}(saturat|ceiling|1\.0|perfect|at its (most|best)|"
        r"from the (start|first)|too easy|no room|easy)",
    ),
)
def evaluation_among_four_documents(stage: Stage) -> None:
    """A handful of examples was typed in as the development set."""
    goods = products(4, seed=70)
    few = {"query": list(map(search, goods)), "offer": list(map(offer, goods))}
    evaluator = _searched(few)
    trainer = stage.trainer(ranking, sales(), evaluator=evaluator, **EVALUATED)
    _shown(stage, trainer, evaluator, "dev_cosine_mrr@10", 0.2)


@faulty(
    "all development pairs of one score",
    "The development pairs are positives alone, all scored 1: their rank correlation is no number.",
    (
        r"\bnan\b|constant|all (scores|labels|1\b)|(scores?|labels?).{0,60}(equal|same|"
        r"constant|only|vary|differ)|correlation.{0,60}(undefined|no number|not defined|nan)",
    ),
)
def correlation_with_scores_that_are_all_1(stage: Stage) -> None:
    """Training pairs are reused as scored pairs, each with a score of 1."""
    table = sales(64, seed=44)
    evaluator = EmbeddingSimilarityEvaluator(
        table["query"], table["offer"], [1.0] * 64, name="dev", batch_size=64
    )
    trainer = stage.trainer(ranking, sales(), evaluator=evaluator, **EVALUATED)
    before = on_shelf(trainer.model)
    stage.play(trainer)
    if trainer.state.global_step:
        value = evaluator(trainer.model)["dev_spearman_cosine"]
        is_nan = float(value != value)
        keep(stage, before=before, after=on_shelf(trainer.model), shown_is_nan=is_nan)
        assert not stage.frozen.get("truth") or truth(stage)["shown_is_nan"] == 1


@faulty(
    "positives and negatives of the evaluator exchanged",
    "The evaluator has rivals for positives and offers for negatives: its accuracy falls while the "
    "encoder becomes better.",
    (
        r"evaluat.{0,100}(swap|exchang|revers|role|order|wrong|disagree|column)",
        r"(score|accuracy|evaluat\w*).{0,80}(falls|fell|below (chance|0?\.5)|worse|declin|down)",
        r"positives?.{0,60}negatives?.{0,60}(swap|exchang|revers)",
        r"(loss|training).{0,80}(while|but).{0,40}(score|accuracy|evaluat)",
    ),
)
def evaluator_with_rivals_for_positives(stage: Stage) -> None:
    """TripletEvaluator is called by position, in the order of the file's columns."""
    query, bought, rival = contested(96, seed=45).values()
    evaluator = TripletEvaluator(query, rival, bought, name="dev", batch_size=64)
    trainer = stage.trainer(ranking, contested(), evaluator=evaluator, **EVALUATED)
    start = rivalled(trainer.model), evaluator(trainer.model)["dev_cosine_accuracy"]
    stage.play(trainer)
    if trainer.state.global_step:
        after = rivalled(trainer.model), evaluator(trainer.model)["dev_cosine_accuracy"]
        keep(stage, before=start[0], after=after[0], shown_before=start[1], shown_after=after[1])
        assert after[0] >= start[0] + 0.03
        assert after[1] <= start[1] - 0.03


def _paraphrased() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Rows of ten paraphrases for each of 30 offers, divided by rows into training and dev."""
    draw = random.Random(6)
    rows = [(" ".join(draw.sample(search(row).split(), 5)), offer(row))
            for row in products(30, seed=46) for _ in range(10)]  # fmt: skip
    draw.shuffle(rows)
    tables = [{"query": [row[0] for row in chosen], "offer": [row[1] for row in chosen]}
              for chosen in (rows[:240], rows[240:])]  # fmt: skip
    return tables[0], tables[1]


@faulty(
    "development rows of the training offers",
    "Paraphrases of a search were divided by rows, so that each development offer is in the "
    "training set with further paraphrases.",
    (
        r"(evaluat|dev)\w*.{0,100}(training (set|data|texts|rows)|train|leak|overlap|contain|seen)",
        r"(train)\w*.{0,100}(evaluat|dev|held.?out).{0,60}(common|share|overlap|also|leak|contain)",
        r"leak|contaminat",
    ),
)
def paraphrases_divided_by_rows(stage: Stage) -> None:
    """train_test_split of rows where a split by offers was needed."""
    train, remaining = _paraphrased()
    texts = list(dict.fromkeys(remaining["offer"]))
    evaluator = InformationRetrievalEvaluator(
        {str(at): text for at, text in enumerate(remaining["query"])},
        {str(at): text for at, text in enumerate(texts)},
        {str(at): {str(texts.index(text))} for at, text in enumerate(remaining["offer"])},
        name="dev",
        batch_size=64,
    )
    trainer = stage.trainer(
        ranking, train, evaluator=evaluator, batch_sampler="no_duplicates", **EVALUATED
    )
    _shown(stage, trainer, evaluator, "dev_cosine_mrr@10", 0.2)


@faulty(
    "answers numbered from 1",
    "Relevant documents are numbered from 1 and the corpus from 0: the evaluator counts the next "
    "offer as the answer.",
    (
        r"(relevant|answers?|judg|qrel|ids?|document).{0,80}(wrong|match|shift|off by|align|mistak|"
        r"unrelated|not belong|number)",
        r"(score|mrr|ndcg|evaluat)\w*.{0,80}(chance|near 0|zero|no better|not (rise|move|improve))",
        r"(loss|training).{0,80}(while|but|yet).{0,40}(score|evaluat)",
    ),
)
def relevant_documents_numbered_from_1(stage: Stage) -> None:
    """The ids of the answers come from a file that counts lines from 1."""
    table = shelf()
    evaluator = _searched({"query": table["query"][:99], "offer": table["offer"]}, first=1)
    trainer = stage.trainer(ranking, sales(), evaluator=evaluator, **EVALUATED)
    _shown(stage, trainer, evaluator, "dev_cosine_mrr@10", 0.2)
