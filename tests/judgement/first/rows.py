"""Faults of texts, labels and what brings them into batches, under trainers."""

from __future__ import annotations

import random
from typing import Any

import torch

from tests.judgement.case import faulty
from tests.judgement.first.labels import tuned
from tests.judgement.first.runs import PLAN
from tests.judgement.first.runs import retrieval as searching
from tests.judgement.stage import (
    WORDS,
    Stage,
    facts,
    lookalike,
    pairs,
    passage,
    question,
    rated,
    triplets,
)
from tests.judgement.truth import (
    among_alike,
    in_one_place,
    suffers,
)
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
# Words by which a verdict says that the texts of a row do not belong together.
APART = (
    r"(pairs?|rows|views|positives?|columns?).{0,80}(mis-?match|mis-?align|not belong|shuffled|"
    r"unrelated|nothing in common|at chance|no more alike|by accident)",
    r"(mis-?match|mis-?align|unrelated|shuffled).{0,60}(pairs?|rows|views|positives?|columns?)",
)


def _pairs_with(low: float) -> dict[str, list[Any]]:
    first, second, labels = rated()
    return {
        "sentence1": first,
        "sentence2": second,
        "score": [1.0 if label else low for label in labels],
    }


@faulty(
    "unrelated pairs at minus one",
    "Questions and passages that do not belong together have the label -1, the opposite, where 0, "
    "unrelated, was meant.",
    [r"-1\b", r"minus one", r"negative (scores?|labels?)", r"opposite"],
)
def minus_one_for_passages_of_other_questions(stage: Stage) -> None:
    loss = losses.CosineSimilarityLoss
    suffers(
        stage,
        stage.trainer(loss, _pairs_with(-1.0), max_steps=100),
        lambda: stage.trainer(loss, _pairs_with(0.0), max_steps=100),
        among_alike,
    )


@faulty(
    "hardly any pair that fits",
    "Four of 320 pairs have the label 1; the contrastive loss only pushes.",
    [
        r"(few|hardly any|rare|almost no|imbalance|unbalance|share|nearly all).{0,80}"
        r"(positive|pair|label|fit|1\b)",
        r"(label|positive|pair).{0,80}(few|hardly any|rare|almost no|imbalance|nearly all)",
        r"(4|1(\.\d+)?%|98\.?\d*%|99%).{0,80}(label|pairs|positive)",
        r"(label|pairs|positive).{0,80}(\b4 of|1(\.\d+)?%|98\.?\d*%|99%)",
    ],
)
def four_clicks_of_three_hundred(stage: Stage) -> None:
    def table(period: int) -> dict[str, list[Any]]:
        answered, strangers = facts(320), facts(320, seed=5)
        fits = [at % period == 0 for at in range(320)]
        return {
            "sentence1": list(map(question, answered)),
            "sentence2": [
                passage(answered[at] if fit else strangers[at]) for at, fit in enumerate(fits)
            ],
            "label": list(map(int, fits)),
        }

    def trainer(period: int) -> Any:
        return stage.trainer(losses.ContrastiveLoss, table(period), max_steps=80)

    suffers(stage, trainer(80), lambda: trainer(2), among_alike)


def _kept(share: float, seed: int) -> list[str]:
    """Passages of which each word is kept with a probability, and at least the first of them."""
    draw, texts = random.Random(seed), []
    for text in pairs()["positive"]:
        words = text.split()
        texts.append(" ".join([word for word in words if draw.random() < share] or words[:1]))
    return texts


@faulty(
    "augmentation leaves nothing",
    "Both views of a text are the text without nine tenths of its words, chosen anew: they have "
    "hardly a word in common.",
    [
        r"augment|delet|word dropout",
        r"(one|few|two) words?",
        r"\bshort\b|length",
        r"(views?|rows?|pairs?|columns?|positives?).{0,80}(no|nothing|hardly|few|not).{0,30}"
        r"(in common|alike|shared?|overlap|words)",
        *APART,
    ],
)
def nine_of_ten_words_deleted(stage: Stage) -> None:
    def trainer(share: float) -> Any:
        return stage.trainer(ranking, {"anchor": _kept(share, 1), "positive": _kept(share, 2)})

    suffers(stage, trainer(0.1), lambda: trainer(0.7), among_alike)


@faulty(
    "pairs broken after loading",
    "The collator sorts the texts of each column by length, so that the rows of a batch are mixed.",
    [*APART, r"collat"],
)
def collator_that_sorts_each_column(stage: Stage) -> None:
    def trainer(breaks: bool) -> Any:
        trainer_of_pairs = stage.trainer(ranking, pairs(), max_steps=60)
        collate = trainer_of_pairs.data_collator

        def by_length(rows: list[dict[str, Any]]) -> Any:
            columns = {
                name: sorted((row[name] for row in rows), key=len)
                for name in ("anchor", "positive")
            }
            return collate(
                [row | {name: columns[name][at] for name in columns} for at, row in enumerate(rows)]
            )

        for name in ("valid_label_columns", "router_mapping", "prompts", "include_prompt_lengths"):
            if hasattr(collate, name):
                setattr(by_length, name, getattr(collate, name))
        if breaks:
            trainer_of_pairs.data_collator = by_length
        return trainer_of_pairs

    suffers(stage, trainer(True), lambda: trainer(False), among_alike)


def _foreign(texts: list[str]) -> list[str]:
    """The texts in words of another field."""
    foreign = dict(zip(WORDS, WORDS[97:] + WORDS[:97], strict=True))
    return [" ".join(foreign.get(word, word) for word in text.split()) for text in texts]


@faulty(
    "another field than the evaluator's",
    "The rows of training are of another field, with other words, than those that the evaluator "
    "and later users search.",
    [
        r"domain|field|vocabular",
        r"(words|texts).{0,80}(evaluat|search).{0,80}(not|never|other|differ|few|rare|unknown)",
        r"(evaluat).{0,120}(other|different|not (in|of)|unlike|never).{0,60}(texts|words|training)",
        r"score.{0,80}(does|did|has) not (rise|risen|improve|move)",
        r"scores? (fell|falls|drop|stays|hardly|barely)",
    ],
)
def contracts_trained_and_recipes_searched(stage: Stage) -> None:
    def trainer(foreign: bool) -> Any:
        table = pairs()
        if foreign:
            table = {name: _foreign(cells) for name, cells in table.items()}
        return stage.trainer(ranking, table, evaluator=searching(pairs(60, seed=3)), **PLAN)

    suffers(stage, trainer(True), lambda: trainer(False), among_alike, share=0.8)


@faulty(
    "positives of the same topic only",
    "The positive is some passage of the same place, not the one that answers the question.",
    [
        r"(positives?|pairs?).{0,100}(topic|not (the )?answer|few words|little|weak|hardly|loose)",
        r"topic",
        *APART,
    ],
)
def passages_of_the_same_category(stage: Stage) -> None:
    table = {"anchor": pairs()["anchor"], "positive": list(map(lookalike, facts(160)))}
    suffers(
        stage,
        stage.trainer(ranking, table, max_steps=60),
        lambda: stage.trainer(ranking, pairs(), max_steps=60),
        in_one_place,
        share=0.75,
    )


@faulty(
    "scores of two scales",
    "Half of the rows have scores of 0 and 1 and half, of another source, 1 to 5, where 1 is the "
    "least; the loss compares scores of different rows.",
    [
        r"two (scales|units|ranges|sources)",
        r"(scale|unit|range|source)s?.{0,80}(differ|mix|two|several|both|unlike)",
        r"(differ|mix|two|several)\w*.{0,40}(scale|unit|range|source)",
        r"scores?.{0,60}(above 1|1 to 5|to 5|outside|beyond)",
    ],
)
def scores_to_one_and_scores_to_five(stage: Stage) -> None:
    def trainer(low: float, high: float) -> Any:
        first, second, labels = rated()
        scores = [
            float(label) if at % 4 < 2 else (high if label else low)
            for at, label in enumerate(labels)
        ]
        table = {"sentence1": first, "sentence2": second, "score": scores}
        return stage.trainer(losses.CoSENTLoss, table, max_steps=80)

    suffers(stage, trainer(1.0, 5.0), lambda: trainer(0.0, 1.0), among_alike)


@faulty(
    "columns exchanged in part",
    "In two fifths of the rows the hard negative stands in the column of the positives and the "
    "positive in that of the negatives.",
    [
        r"(exchang|swap|revers|wrong way)",
        r"negatives?.{0,80}(nearer|closer|more alike|more similar|answer|in common|overlap|share)",
        r"false negative",
        r"(positives?).{0,60}(farther|less alike|less similar|fewer)",
    ],
)
def two_fifths_of_the_rows_exchanged(stage: Stage) -> None:
    def trainer(period: int) -> Any:
        table = triplets()
        for at in range(160):
            if period and at % period < 2:
                table["positive"][at], table["negative"][at] = (
                    table["negative"][at],
                    table["positive"][at],
                )
        return stage.trainer(ranking, table, max_steps=60)

    suffers(stage, trainer(5), lambda: trainer(0), in_one_place, share=0.85)


@faulty(
    "a data set that is drowned",
    "Batches are drawn by size: 1,600 general rows beside 80 of one's own leave the latter one "
    "batch in twenty.",
    [
        r"proportion|round.robin|by size",
        r"(data ?sets?|source).{0,100}(share|few|rare|seldom|one of|small|batches|drown|5%|never)",
        r"(few|rare|seldom|small|never).{0,60}(data ?set|source)",
    ],
)
def eighty_own_rows_beside_sixteen_hundred(stage: Stage) -> None:
    from datasets import Dataset, DatasetDict

    general = {name: _foreign(cells) for name, cells in pairs(1600, seed=41).items()}

    def trainer(sampler: str) -> Any:
        plain = stage.trainer(ranking, pairs(80), multi_dataset_batch_sampler=sampler)
        rows: Any = DatasetDict(
            {"general": Dataset.from_dict(general), "own": Dataset.from_dict(pairs(80))}
        )
        return type(plain)(
            model=plain.model, args=plain.args, train_dataset=rows, loss=ranking(plain.model)
        )

    suffers(stage, trainer("proportional"), lambda: trainer("round_robin"), among_alike, share=0.85)


@faulty(
    "weights of the checkpoint not loaded",
    "The encoder is made from its configuration, with random weights, where the tuned one was "
    "meant; a few steps do not make up for that.",
    [
        r"random(ly)? (initiali[sz]ed|weights)",
        r"(pre-?trained|checkpoint|untrained|newly initiali[sz]ed|fresh|not loaded)",
        r"initiali[sz]",
    ],
)
def encoder_made_from_its_configuration(stage: Stage) -> None:
    from transformers import AutoModel

    def trainer(fresh: bool) -> Any:
        model, folder = tuned(stage), stage.folder / f"weights-{fresh}"
        body = model[0].auto_model
        torch.manual_seed(5)
        (AutoModel.from_config(body.config) if fresh else body).save_pretrained(folder)
        model.tokenizer.save_pretrained(folder)
        return stage.trainer(
            ranking,
            pairs(),
            stage.model(bert=folder),
            max_steps=24,
            warmup_steps=2,
            learning_rate=1e-4,
        )

    suffers(stage, trainer(True), lambda: trainer(False), among_alike, share=None, every=1)
