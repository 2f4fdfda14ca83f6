"""Faults of the data: labels, columns, texts, tokens and batches."""

from __future__ import annotations

import random

from torch.utils.data import SequentialSampler

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.stage import (
    Stage,
    classes,
    facts,
    lookalike,
    pairs,
    passage,
    question,
    rated,
    scored,
    triplets,
)
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
LABELS = (
    r"(label|score)s?\b.*\b(range|between|outside|beyond|divide|scale)",
    r"\b0 (to|and|\.\.) 1\b",
)
IGNORED = (
    r"(ignore|not use|not read|unused|disregard)\w*\b.*\b(label|score)",
    r"(label|score)s?\b.*\b(ignore|not use|not read|unused|disregard)",
)
ROLES = (
    r"(order|role|part|name)s?\b.*\bcolumn",
    r"column\w*\b.*\b(order|role|by name|by place)",
    r"anchor\w* (=|is|comes|column)",
)  # fmt: skip
EMPTY = (r"\b(empty|blank|placeholder)\b", r"\bno text", r"n/a", r"give a text")
REPEATED = (r"repeat", r"\bsame text", r"duplicate", r"\bcop(y|ies)\b", r"share a text")
CUT = (r"truncat", r"cut off", r"max_seq_length", r"same (beginning|tokens|start)")
UNKNOWN = (r"\bUNK\b", r"unknown", r"vocabular")
CLASSES = (
    r"(class|label)\w*\b.*\b(batch|alone|group|two rows)", r"batch\w*\b.*\b(class|label)",
    r"group_by_label",
)  # fmt: skip
SORTED = (
    r"\bsorted (rows|order)", r"not shuffled", r"rows? (are|come|stand) in (sorted )?order",
    r"sequential", r"neighbou?ring rows",
)  # fmt: skip


@faulty("score range", "The scores go from 0 to 5, and cosines to 1.", LABELS)
def cosine_loss_with_scores_to_five(stage: Stage) -> None:
    stage.play(stage.trainer(losses.CosineSimilarityLoss, scored(most=5.0)))


@faulty("score range", "The scores are percentages, and cosines go to 1.", LABELS)
def cosine_loss_with_percentages(stage: Stage) -> None:
    stage.play(stage.trainer(losses.CosineSimilarityLoss, scored(most=100.0, seed=1)))


def _half_unrelated() -> dict[str, list]:
    rows = facts(160)
    return dict(zip(("sentence1", "sentence2", "label"), rated(rows[7:] + rows[:7]), strict=True))


@faulty("ignored labels", "The ranking loss takes rows with label 0 for positives.", IGNORED)
def ranking_of_pairs_with_labels(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, _half_unrelated()))


@faulty(
    "ignored labels", "The cached ranking loss takes rows with a low score for positives.", IGNORED
)
def cached_ranking_of_scored_pairs(stage: Stage) -> None:
    loss = losses.CachedMultipleNegativesRankingLoss
    stage.play(stage.trainer(lambda model: loss(model, mini_batch_size=8), scored(seed=3)))


@faulty(
    "column order", "The column positive comes before anchor, and columns count by place.", ROLES
)
def positive_before_anchor(stage: Stage) -> None:
    table = pairs()
    stage.play(stage.trainer(ranking, {name: table[name] for name in ("positive", "anchor")}))


@faulty("column order", "The anchor comes last: the loss takes the positive for it.", ROLES)
def anchor_after_its_negative(stage: Stage) -> None:
    table = triplets()
    columns = {name: table[name] for name in ("positive", "negative", "anchor")}
    stage.play(stage.trainer(ranking, columns))


@faulty("identifier column", "The first column holds identifiers, taken for anchors.",
        (r"\b(id|ids|identifier|key)s?\b", *ROLES))  # fmt: skip
def identifiers_in_the_first_column(stage: Stage) -> None:
    table = pairs()
    stage.play(stage.trainer(ranking, {"id": [f"{at:05d}" for at in range(160)], **table}))


@faulty("empty texts", "Every hard negative is the empty text.", EMPTY, tools=(DOCTOR, INSPECT))
def empty_hard_negatives(stage: Stage) -> None:
    table = pairs() | {"negative": [""] * 160}
    stage.play(stage.trainer(ranking, table))
    stage.inspect(table)


@faulty("empty texts", "The hard negatives are placeholders for missing ones.", (*EMPTY, *REPEATED),
        tools=(DOCTOR, INSPECT))  # fmt: skip
def placeholders_as_hard_negatives(stage: Stage) -> None:
    table = pairs() | {"negative": ["none" if at % 2 else "n/a" for at in range(160)]}
    stage.play(stage.trainer(ranking, table))
    stage.inspect(table)


@faulty("empty texts", "A quarter of the positives is blank.", EMPTY)
def blank_positives(stage: Stage) -> None:
    table = pairs()
    table["positive"] = [" " if at % 4 == 0 else text for at, text in enumerate(table["positive"])]
    stage.play(stage.trainer(ranking, table))


BEGINNING = (
    "bafa bara balo be bi bo bu da de di do du fa fe fi fo fu ga ge gi go gu ka ke ki ko ku "
)


@faulty(
    "truncated alike", "All passages have one beginning, which alone remains after truncation.", CUT
)
def passages_with_one_beginning(stage: Stage) -> None:
    table = pairs()
    table["positive"] = [BEGINNING + text for text in table["positive"]]
    stage.play(stage.trainer(ranking, table, stage.model(length=24)))


@faulty("truncated alike", "Half of the texts are equal after truncation.", CUT)
def half_of_the_texts_with_one_beginning(stage: Stage) -> None:
    table = {
        name: [BEGINNING * (at % 2) + text for at, text in enumerate(texts)]
        for name, texts in pairs().items()
    }
    stage.play(stage.trainer(ranking, table, stage.model(length=20)))


def _in_other_letters(text: str) -> str:
    return text.translate(str.maketrans("abdefgiklmnoprstuvz", "абдефгиклмнопрстувз"))


@faulty("unknown vocabulary", "The tokenizer does not know the script of the texts.", UNKNOWN)
def texts_in_an_unknown_script(stage: Stage) -> None:
    table = {name: list(map(_in_other_letters, texts)) for name, texts in pairs().items()}
    stage.play(stage.trainer(ranking, table))


@faulty("unknown vocabulary", "The tokenizer does not know the script of the positives.", UNKNOWN)
def positives_in_an_unknown_script(stage: Stage) -> None:
    table = pairs()
    table["positive"] = list(map(_in_other_letters, table["positive"]))
    stage.play(stage.trainer(ranking, table))


@faulty("no two of a class", "Of 80 classes of two, a batch holds hardly two rows of any.", CLASSES)
def batch_hard_triplets_of_rare_classes(stage: Stage) -> None:
    stage.play(stage.trainer(losses.BatchHardTripletLoss, classes(of_each=2)))


@faulty("no two of a class", "Of 80 classes of two, a batch holds hardly two rows of any.", CLASSES)
def batch_semi_hard_triplets_of_rare_classes(stage: Stage) -> None:
    stage.play(stage.trainer(losses.BatchSemiHardTripletLoss, classes(of_each=2, seed=1)))


@faulty("no two of a class", "Every row has a class of its own.", CLASSES)
def batch_all_triplets_of_single_rows(stage: Stage) -> None:
    table = pairs()
    rows = {"text": table["positive"], "label": list(range(160))}
    stage.play(stage.trainer(losses.BatchAllTripletLoss, rows))


def _in_order(trainer: object) -> object:
    trainer._get_train_sampler = lambda *_: SequentialSampler(trainer.train_dataset)
    trainer.get_batch_sampler = lambda dataset, batch_size, drop_last, **_: [
        list(range(start, start + batch_size))
        for start in range(0, len(dataset) - batch_size + 1, batch_size)
    ]
    return trainer


@faulty(
    "sorted rows", "Rows are sorted by place and not shuffled: a batch has neighbours only.", SORTED
)
def rows_in_sorted_order(stage: Stage) -> None:
    rows = sorted(facts(160), key=lambda fact: fact[2:4])
    table = {"anchor": list(map(question, rows)), "positive": list(map(passage, rows))}
    stage.play(_in_order(stage.trainer(ranking, table)))


@faulty("sorted rows", "Versions of one question stand side by side and are not shuffled.",
        (*SORTED, *REPEATED), tools=(DOCTOR, REPORT, INSPECT))  # fmt: skip
def versions_side_by_side(stage: Stage) -> None:
    rows = [(*fact[:4], fact[4], str(number)) for fact in facts(20) for number in range(8)]
    table = {"anchor": list(map(question, rows)), "positive": list(map(passage, rows))}
    stage.play(_in_order(stage.trainer(ranking, table)))


@faulty("unrelated rows", "The positives were shuffled without their anchors.",
        (r"belong together", r"shuffled", r"unrelated"))  # fmt: skip
def shuffled_positives(stage: Stage) -> None:
    table = pairs()
    random.Random(1).shuffle(table["positive"])
    stage.play(stage.trainer(ranking, table))


@faulty(
    "repeated texts", "Each row occurs four times, so that texts are their own negatives.", REPEATED
)
def rows_four_times(stage: Stage) -> None:
    # Versions of a passage to one question, else a row would be a copy as a whole.
    rows = [fact for fact in facts(40) for _ in range(4)]
    table = {
        "anchor": list(map(question, rows)),
        "positive": [passage((*fact[:5], str(at))) for at, fact in enumerate(rows)],
    }
    stage.play(stage.trainer(ranking, table))


@faulty("false hard negatives", "Every other hard negative says what the positive says.",
        (r"hard negative\w*.*(say|positive|false)", r"false negative"),
        tools=(DOCTOR, INSPECT))  # fmt: skip
def every_other_hard_negative_is_false(stage: Stage) -> None:
    rows = facts(160)
    negatives = [
        " ".join(reversed(passage(fact).split())) if at % 2 else lookalike(fact)
        for at, fact in enumerate(rows)
    ]
    table = pairs() | {"negative": negatives}
    stage.doctor(stage.trainer(ranking, table))
    stage.inspect(table)


@faulty("false hard negatives", "The columns of positives and negatives are exchanged.",
        (r"exchanged", r"nearer to their anchor"))  # fmt: skip
def positives_and_negatives_exchanged(stage: Stage) -> None:
    table = triplets()
    unrelated = facts(160, seed=9)
    columns = {"anchor": table["anchor"], "positive": list(map(passage, unrelated)),
               "negative": table["positive"]}  # fmt: skip
    stage.play(stage.trainer(ranking, columns))
