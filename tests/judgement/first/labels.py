"""Faults of labels, of teachers, and of what a loss makes of them."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import torch

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
    word_cosines,
)
from tests.sentence_training import evaluation, losses

ranking = losses.MultipleNegativesRankingLoss
REVERSED = (
    r"revers", r"invert", r"opposite", r"wrong way", r"swap", r"exchang",
    r"label.*\b(distance|dissimilar)", r"(higher|greater|larger) (score|label)s?.*(less|fewer)",
    r"(score|label)s? (fall|decrease|go down)\b.*(similar|overlap|common)", r"anti.?correlat",
    r"negative(ly)? correlat", r"contradict.*(label|score)", r"(label|score)s? contradict",
)  # fmt: skip
CONSTANT = (
    r"(score|label|value)s? (are|is) (all )?(the same|equal|constant|identical|1\b)",
    r"all .{0,30}(score|label)s? .{0,30}(same|equal|constant|identical|\b1\b)",
    r"(one|same|single|constant|identical|equal) (score|label|value)\b",
    r"only (one|positive|a single)", r"no (negative|pair)s?\b", r"(score|label)s? do not differ",
    r"(score|label)s? (do(es)?n.t|do(es)? not|never) vary",
)  # fmt: skip
SCHEME = (
    r"label.{0,80}\b(0 (and|or|to) 1|0/1|binary|two values|three|integers?)\b",
    r"label.{0,60}\b2\b", r"expects? (labels|0|1)", r"(outside|beyond|not in|out of) .{0,20}\b0\b",
    r"between 0 and 1", r"(only|exactly) (labels? of )?[01]\b",
)  # fmt: skip
ONE_CLASS = (
    r"(one|single|same) (class|label)", r"no (negative|other class|row of another)",
    r"only (one|a single) (class|label)", r"(class|label)(es|s)? .{0,40}(sorted|in order|shuffl)",
    r"(sorted|unshuffled) .{0,60}(class|label)", r"all .{0,20}of (one|the same) (class|label)",
)  # fmt: skip


def tuned(stage: Stage, steps: int = 60) -> Any:
    """An encoder that has been trained a little on other pairs of the same kind."""
    model = stage.model()
    with contextlib.redirect_stdout(io.StringIO()):
        stage.trainer(ranking, pairs(320, seed=8), model, max_steps=steps).train()
    return model


def inspect(stage: Stage, table: dict[str, Any], **options: Any) -> None:
    """Inspect texts with an encoder that has been trained a little."""
    folder, model = str(stage.folder / "tuned"), tuned(stage)
    model[0].auto_model.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    stage.inspect(table, folder, pooler="mean", **options)


def _judged_as_distances() -> dict[str, list[Any]]:
    table = scored()
    return table | {"score": [1 - score for score in table["score"]]}


@faulty("labels reversed", "ContrastiveLoss gets 1 for pairs that differ and 0 for like ones.",
        REVERSED)  # fmt: skip
def one_for_pairs_that_differ(stage: Stage) -> None:
    first, second, labels = rated()
    table = {"sentence1": first, "sentence2": second, "label": [1 - label for label in labels]}
    stage.play(stage.trainer(losses.ContrastiveLoss, table))


@faulty("labels reversed", "CosineSimilarityLoss gets distances as if they were similarities.",
        REVERSED)  # fmt: skip
def distances_for_a_cosine_loss(stage: Stage) -> None:
    stage.play(stage.trainer(losses.CosineSimilarityLoss, _judged_as_distances()))


@faulty("labels reversed", "CoSENT gets distances, while the evaluator has similarities.",
        (*REVERSED, r"label"))  # fmt: skip
def distances_for_cosent(stage: Stage) -> None:
    gold = scored(80, seed=4)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(
        gold["sentence1"], gold["sentence2"], gold["score"], name="made-up"
    )
    stage.play(
        stage.trainer(losses.CoSENTLoss, _judged_as_distances(), evaluator=evaluator,
                      eval_strategy="steps", eval_steps=8, eval_on_start=True)
    )  # fmt: skip


@faulty("constant labels", "All pairs have the score 1, so that CoSENT has no two to compare.",
        CONSTANT)  # fmt: skip
def cosent_on_one_score(stage: Stage) -> None:
    table = {**pairs(), "score": [1.0] * 160}
    stage.play(stage.trainer(losses.CoSENTLoss, table))


@faulty("constant labels", "ContrastiveLoss has pairs of label 1 only, which all come together.",
        CONSTANT)  # fmt: skip
def contrastive_loss_without_negatives(stage: Stage) -> None:
    stage.play(stage.trainer(losses.ContrastiveLoss, {**pairs(), "label": [1] * 160}))


@faulty("constant labels", "CosineSimilarityLoss has positives of score 1 only.", CONSTANT)
def cosine_loss_without_negatives(stage: Stage) -> None:
    stage.play(stage.trainer(losses.CosineSimilarityLoss, {**pairs(), "score": [1.0] * 160}))


@faulty("labels of another scheme", "ContrastiveLoss gets the three labels of inference; a 2 "
        "counts its distance negatively.", SCHEME)  # fmt: skip
def three_labels_for_a_contrastive_loss(stage: Stage) -> None:
    made = facts(160)
    table = {
        "premise": list(map(passage, made)),
        "hypothesis": [(lookalike(fact), question(fact), passage(fact[::-1]))[at % 3]
                       for at, fact in enumerate(made)],
        "label": [at % 3 for at in range(160)],
    }  # fmt: skip
    stage.play(stage.trainer(losses.ContrastiveLoss, table))


@faulty("labels of another scheme", "OnlineContrastiveLoss gets graded scores: it uses pairs of "
        "exactly 0 and 1 and forgets the others.", SCHEME)  # fmt: skip
def graded_scores_for_a_loss_of_two_labels(stage: Stage) -> None:
    stage.play(stage.trainer(losses.OnlineContrastiveLoss, scored()))


@faulty("batches of one class", "All rows have the same class: there is no negative.", ONE_CLASS)
def one_class_for_all_rows(stage: Stage) -> None:
    table = classes()
    stage.play(stage.trainer(losses.BatchHardTripletLoss, table | {"label": [0] * 160}))


@faulty("batches of one class", "Rows are sorted by class and not shuffled, so that a batch is of "
        "one class.", ONE_CLASS)  # fmt: skip
def sorted_classes_without_shuffling(stage: Stage) -> None:
    from torch.utils.data import BatchSampler, SequentialSampler

    table = classes(of_each=32)
    order = sorted(range(160), key=lambda at: table["label"][at])
    table = {name: [cells[at] for at in order] for name, cells in table.items()}
    trainer = stage.trainer(losses.BatchAllTripletLoss, table)
    trainer.get_batch_sampler = lambda dataset, batch_size, drop_last, **_: BatchSampler(
        SequentialSampler(dataset), batch_size, drop_last
    )
    stage.play(trainer)


UNITS = (
    r"\bunits?\b", r"teacher", r"normali[sz]e", r"dot product",
    r"(label|score|margin)s? .{0,80}(range|larger|smaller|beyond|cosine)",
)  # fmt: skip


def _teacher_scores(stage: Stage) -> tuple[dict[str, list[Any]], torch.Tensor]:
    """Triplets, and cosines of a teacher that knows which words two texts have in common."""
    table = triplets()
    return table, torch.tensor(word_cosines(table))


@faulty("teacher's units", "MarginMSE compares margins of dot products of several tens with a "
        "teacher's margins of cosines.", UNITS)  # fmt: skip
def dot_products_after_a_teacher_of_cosines(stage: Stage) -> None:
    table, scores = _teacher_scores(stage)
    margins = (scores[:, 0] - scores[:, 1]).tolist()
    stage.play(stage.trainer(losses.MarginMSELoss, {**table, "label": margins}))


@faulty("teacher's units", "A cross-encoder's logits, from -11 to 11, are learned as cosines.",
        UNITS)  # fmt: skip
def logits_of_a_teacher_for_cosines(stage: Stage) -> None:
    table, scores = _teacher_scores(stage)
    logits = (22 * (scores - scores.mean())).tolist()
    label = [one - other for one, other in logits]
    model = stage.model(normalize=True)
    stage.play(stage.trainer(losses.MarginMSELoss, {**table, "label": label}, model))


@faulty("teacher's order", "The teacher's scores have the negative first, the columns the "
        "positive.",
        (*REVERSED, r"(column|score|teacher)s?.{0,60}order",
         r"teacher.*(prefer|disagree|negative)"))  # fmt: skip
def teacher_scores_the_negative_first(stage: Stage) -> None:
    table, scores = _teacher_scores(stage)
    label = (10 * scores.flip(1)).tolist()
    model = stage.model(normalize=True)
    stage.play(stage.trainer(losses.DistillKLDivLoss, {**table, "label": label}, model))


@faulty(
    "teacher's order",
    "The teacher's margins are negative minus positive.",
    (*REVERSED, r"negative (margin|label)", r"(margin|label)s? .{0,40}negative"),
)
def margins_with_the_wrong_sign(stage: Stage) -> None:
    table, scores = _teacher_scores(stage)
    margins = (scores[:, 1] - scores[:, 0]).tolist()
    model = stage.model(normalize=True)
    stage.play(stage.trainer(losses.MarginMSELoss, {**table, "label": margins}, model))


@faulty("teacher's rows shuffled", "The teacher's embeddings belong to the texts in another order.",
        (r"shuffl", r"another order", r"unrelated", r"another (row|text|sentence)",
         r"not belong", r"chance"))  # fmt: skip
def embeddings_of_a_teacher_in_another_order(stage: Stage) -> None:
    texts = pairs()["positive"]
    torch.manual_seed(3)
    teacher = stage.model()
    targets = torch.tensor(teacher.encode(texts, show_progress_bar=False))
    order = torch.randperm(160, generator=torch.Generator().manual_seed(5))
    model = stage.model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    table = {"text": texts, "label": targets[order].tolist()}
    stage.play(stage.trainer(losses.MSELoss, table, model))


@faulty("guide masks all negatives", "GISTEmbedLoss has an absolute margin of 0.95, which masks "
        "nearly all negatives.",
        (r"mask", r"guide", r"margin", r"no negatives?", r"few negatives?"))  # fmt: skip
def guide_with_a_wide_absolute_margin(stage: Stage) -> None:
    guide = stage.model()
    stage.play(
        stage.trainer(lambda model: losses.GISTEmbedLoss(model, guide, margin=0.95), pairs())
    )


FEW = (
    r"duplicat", r"repeat", r"distinct", r"same text", r"false negative", r"different texts",
    r"stands? in \d+ rows", r"share a text",
)  # fmt: skip


@faulty("few distinct positives", "Texts are paired with the names of five classes, so that most "
        "negatives of a batch are the positive.", FEW,
        tools=(DOCTOR, REPORT, INSPECT), never=(r"(larger|bigger|raise the) batch",))  # fmt: skip
def class_names_as_positives(stage: Stage) -> None:
    made = facts(160)
    names = ["zu zo ze", "vu vo ve", "tu to te", "su so se", "ru ro re"]
    table = {"anchor": list(map(passage, made)), "positive": [names[at % 5] for at in range(160)]}
    stage.play(stage.trainer(ranking, table))
    inspect(stage, table)


@faulty("few distinct positives", "A hundred questions each are asked of two documents of a "
        "manual; the others have one.", FEW, tools=(DOCTOR, REPORT, INSPECT))  # fmt: skip
def two_documents_behind_most_questions(stage: Stage) -> None:
    table = pairs()
    table["positive"] = [
        text if at % 3 == 0 else table["positive"][at % 2]
        for at, text in enumerate(table["positive"])
    ]
    stage.play(stage.trainer(ranking, table))
    inspect(stage, table)
