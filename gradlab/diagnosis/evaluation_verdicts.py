"""Does evaluation ask of what is trained, do prompts fit, and how far can the run move?

Arguments are measured by the functions of the same names in
`gradlab.diagnosis.evaluation_measurements`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gradlab.diagnosis.agreement_verdicts import REVERSED
from gradlab.diagnosis.data_verdicts import is_above_chance
from gradlab.errors import counted
from gradlab.numbers import percent
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Verdict

# Share of evaluated texts that stand in the training data and is worth a remark.
MANY_TRAINED = 0.1


def evaluator(
    prompt: str, has_prompt: bool, texts: int, in_training: float,
    rows: int = 0, rows_in_training: float = 0.0, other_prompt: str = "",
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether evaluation asks of what was trained, on texts that were not.

    Args:
        prompt: a prompt of training; empty without any.
        has_prompt: whether the evaluator or the model has a prompt.
        texts: texts that the evaluator compares or looks for.
        in_training: share of them that stand in the training data.
        rows: held-out rows whose loss is evaluated.
        rows_in_training: share of them that are rows of the training data.
        other_prompt: a prompt of the evaluator that training has nowhere; empty without any.
    """
    subject, evidence = "evaluation", {"texts": texts, "in training": in_training}
    if prompt and not has_prompt:
        finding = f"Training puts the prompt {prompt!r} before texts, and the evaluator none."
        change = "Give the evaluator the prompts of training, or set model.prompts."
        name = "evaluator without prompt"
        yield Verdict(subject, WATCH, finding, change, name, "score-does-not-rise", evidence)
    elif other_prompt:
        finding = f"The evaluator puts the prompt {other_prompt!r} before texts, and training none."
        change = "Give the training arguments the same prompts, or leave it out of the evaluator."
        name = "prompt not trained"
        yield Verdict(subject, WATCH, finding, change, name, "score-does-not-rise", evidence)
    elif in_training > MANY_TRAINED:
        finding = f"{percent(in_training)} of {texts:,} evaluated texts are in the training data."
        change = "Evaluate on texts that are not trained on, or leave those rows out."
        name = "evaluated in training"
        yield Verdict(subject, WATCH, finding, change, name, "score-does-not-rise", evidence)
    elif rows_in_training > MANY_TRAINED:
        finding = (
            f"{percent(rows_in_training)} of {rows:,} held-out rows are rows of the training data: "
            "the held-out loss is that of what is trained on."
        )
        change = "Split the data: train_dataset.train_test_split(test_size=0.1)."
        name = "evaluated in training"
        yield Verdict(subject, WATCH, finding, change, name, "score-does-not-rise", evidence)
    elif texts:
        finding = f"{percent(in_training)} of {texts:,} evaluated texts are in the training data."
        yield Verdict(subject, GOOD, finding, name="evaluation apart", evidence=evidence)


def held_rows(rows: int, columns: Sequence[str], trained: Sequence[str]) -> Iterator[Verdict]:
    """Judge whether an eval_dataset has rows, and its columns in the order of training.

    Args:
        rows: its rows.
        columns: its columns of texts that training has as well, in their order.
        trained: columns of texts of training, in their order.
    """
    if not rows:
        finding = "The eval_dataset is empty: it has 0 rows, and nothing is evaluated."
        change = "Check the split or select() that made it."
        yield Verdict("evaluation", BAD, finding, change, "nothing to evaluate",
                      "score-does-not-rise")  # fmt: skip
    elif set(columns) == set(trained) and list(columns) != list(trained):
        finding = (
            f"The columns of the eval_dataset are {', '.join(columns)}, those of training "
            f"{', '.join(trained)}: a loss takes columns by their order, not by their names."
        )
        change = "Order them alike: eval_dataset.select_columns(train_dataset.column_names)."
        yield Verdict("evaluation", WATCH, finding, change, "columns evaluated in another order",
                      "score-does-not-rise")  # fmt: skip


# Share of an evaluator's right documents that its corpus may lack.
MANY_MISSING = 0.05
# Share of triplets whose negative has more words of the anchor, of exchanged columns.
MOST_EXCHANGED = 0.7
# Share of queries that may be their own right document, or a document that is not right.
MANY_ITSELF = 0.2
# Pairs or queries below which a score is mostly chance. Fewest that show that gold has nothing to
# do with words, standard errors within which that is so, and the range of the shares of common
# words that would show it otherwise. Share of words that texts have in common which are nothing to
# each other.
HANDFUL, ENOUGH_GOLD, NO_RELATION, WIDE_RANGE, NOTHING_COMMON = 20, 48, 2.0, 0.1, 0.05


def gold(answers: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    """Judge whether evaluators can tell encoders apart.

    Args:
        answers: for each evaluator its ``name``; ``kind``, ``"scores"`` or ``"documents"``;
            ``count``, pairs or queries; ``distinct``, different scores or documents of the corpus;
            ``words``, the rank correlation of scores with common words; and ``missing``, the share
            of right documents that the corpus lacks.
    """
    subject, symptom = "evaluation", "score-does-not-rise"
    yield from _handfuls(answers)
    for answer in answers:
        name, count, distinct = answer["name"], answer["count"], answer["distinct"]
        evidence = {"distinct": float(distinct)}
        if distinct < 2 and answer["kind"] == "scores":
            finding = f"All {count:,} gold scores of {name!r} are equal: no score can be computed."
            change = "Give the evaluator pairs with different gold scores."
            yield Verdict(subject, BAD, finding, change, "gold equal", symptom, evidence)
        elif distinct < 2:
            finding = (
                f"The corpus of {name!r} holds a single document: each of {count:,} queries finds "
                "it, and the score is always 1."
            )
            change = "Give the evaluator a corpus with documents that are wrong answers."
            yield Verdict(subject, BAD, finding, change, "gold equal", symptom, evidence)
        elif answer.get("queries") == 0:
            finding = (
                f"None of the queries of {name!r} has a right document: the ids of queries and of "
                "relevant_docs do not match, and evaluation ends with an error."
            )
            change = "Give the same ids, of the same type, in queries and in relevant_docs."
            yield Verdict(subject, BAD, finding, change, "gold missing", symptom)
        elif answer.get("missing", 0.0) > MANY_MISSING:
            finding = (
                f"The corpus of {name!r} lacks {percent(answer['missing'])} of the right documents."
            )
            change = "Check the ids of relevant_docs against those of the corpus."
            if types := answer.get("types"):
                finding += (
                    f" Their ids are of type {types[0]}, and those of the corpus of type "
                    f"{types[1]}: equal as texts, they never match, and the score is 0."
                )
                change = "Give all ids as strings: str(id), in relevant_docs and in the corpus."
            yield Verdict(subject, BAD, finding, change, "gold missing", symptom,
                          {"missing": answer["missing"]})  # fmt: skip
        elif answer.get("itself", 0.0) > MANY_ITSELF:
            finding = (
                f"For {percent(answer['itself'])} of the queries of {name!r}, the right document "
                "is the query itself, word by word: any encoder finds it."
            )
            change = "Take the queries out of the corpus, and name the documents that answer them."
            yield Verdict(subject, WATCH, finding, change, "gold is the query", symptom,
                          {"itself": answer["itself"]})  # fmt: skip
        elif answer.get("beside", 0.0) > MANY_ITSELF:
            finding = (
                f"The corpus of {name!r} holds {percent(answer['beside'])} of the queries "
                "themselves, word by word, as documents that are no right answer: each query "
                "finds itself first, which lowers the score of a good encoder."
            )
            change = "Take the texts of the queries out of the corpus."
            yield Verdict(subject, WATCH, finding, change, "queries in the corpus", symptom,
                          {"beside": answer["beside"]})  # fmt: skip
        elif answer.get("exchanged", 0.0) > MOST_EXCHANGED:
            finding = (
                f"In {percent(answer['exchanged'])} of the triplets of {name!r}, the negative has "
                "more words of the anchor than the positive: they seem to be exchanged."
            )
            change = "Check the order of the evaluator's columns: anchors, positives, negatives."
            yield Verdict(subject, WATCH, finding, change, "gold reversed", symptom,
                          {"exchanged": answer["exchanged"]})  # fmt: skip
        elif answer.get("words", 0.0) < REVERSED:
            finding = (
                f"The gold scores of {name!r} fall where pairs have more words in common: their "
                f"rank correlation is {answer['words']:.2f}. They may be distances."
            )
            change = "Give a higher gold score to pairs that are more alike."
            yield Verdict(subject, WATCH, finding, change, "gold reversed", symptom,
                          {"words": answer["words"]})  # fmt: skip
        elif count >= ENOUGH_GOLD and (unrelated := _is_unrelated(answer)):
            finding = f"What {name!r} takes for right has no relation to the texts: {unrelated}."
            change = "Check that scores or relevant documents belong to these texts: ids, order."
            yield Verdict(subject, WATCH, finding, change, "gold unrelated", symptom)


def use(
    trained: str, compared: str, unit: bool, cut: int, width: int, widths: Sequence[int]
) -> Iterator[Verdict]:
    """Judge whether embeddings are compared in evaluation as they are in training.

    Args:
        trained: ``"cosine"`` or ``"dot"``, by which the loss compares; empty if unknown.
        compared: the same of the evaluator.
        unit: whether embeddings have the length 1.
        cut: dimensions that are left in use; 0 for all.
        width: dimensions of the embeddings.
        widths: dimensions that a Matryoshka loss trains.
    """
    subject, symptom = "evaluation", "score-does-not-rise"
    by_dots = {trained, compared} == {"cosine", "dot"} and not unit
    if by_dots:
        words = {"cosine": "cosines", "dot": "dot products"}
        finding = (
            f"Training compares by {words[trained]}, evaluation by {words[compared]}, and the "
            "embeddings are not normalised: their lengths count in one of the two only."
        )
        change = "Compare alike in both, or add models.Normalize() to the encoder."
        yield Verdict(subject, WATCH, finding, change, "compared otherwise", symptom)
    if 0 < cut < width and cut not in widths:
        finding = (
            f"Embeddings are cut to {cut} of {width} dimensions (truncate_dim), which the loss "
            "does not train."
        )
        change = f"Train with MatryoshkaLoss and {cut} among its matryoshka_dims, or use all."
        yield Verdict(subject, WATCH, finding, change, "cut dimensions", symptom,
                      {"cut": float(cut)})  # fmt: skip


# Words of measures of which a higher one is better, and of which a lower one is.
HIGHER = (
    "spearman",
    "pearson",
    "ndcg",
    "mrr",
    "map",
    "accuracy",
    "recall",
    "precision",
    "f1",
    "ap",
)
LOWER = ("loss", "mse", "distance")


def best(metric: str, greater: bool, computed: bool = True) -> Iterator[Verdict]:
    """Judge whether the best checkpoint is chosen by the right sign of a measure that there is."""
    if not computed:
        finding = (
            f"The best checkpoint is chosen by {metric}, which is never computed: there is no "
            "eval_dataset."
        )
        change = "Give an eval_dataset, or choose by a metric of the evaluator."
        yield Verdict("best checkpoint", BAD, finding, change, "best is unknown",
                      "score-does-not-rise")  # fmt: skip
        return
    better = sign_of(metric)
    if (better > 0 and not greater) or (better < 0 and greater):
        finding = (
            f"The best checkpoint is the one with the {'highest' if greater else 'lowest'} "
            f"{metric}, of which a {'lower' if greater else 'higher'} one is better."
        )
        change = f"Set greater_is_better={not greater}."
        yield Verdict("best checkpoint", BAD, finding, change, "best is worst", "score-falls")


def sign_of(metric: str) -> int:
    """Return 1 for a metric of which a higher value is better, -1 for a lower, 0 if unknown."""
    words = metric.lower().replace("@", "_").replace("-", "_").split("_")
    if any(word in LOWER for word in words):
        return -1
    return int(any(word in HIGHER for word in words))


# Words by which a prompt or the name of a column says which role it plays.
ROLE_WORDS = {
    "a query": ("query", "question", "anchor", "search_query"),
    "a document": ("passage", "document", "doc", "answer", "positive", "negative", "context"),
}


def prompts(
    prompts: Mapping[str, str], outer: Sequence[str], columns: Sequence[str], sets: Sequence[str]
) -> Iterator[Verdict]:
    """Judge whether prompts reach columns, and the right ones.

    Args:
        prompts: prompt by the name of a column or data set.
        outer: names of the outermost level.
        columns: names of the columns of texts, in their order.
        sets: names of the data sets.
    """
    subject, symptom = "prompts", "score-does-not-rise"
    names = set(columns) | set(sets)
    lost = [name for name in dict.fromkeys([*outer, *prompts]) if name not in names]
    if columns and lost:
        finding = (
            f"There are prompts for {', '.join(map(repr, lost))}, but the columns are "
            f"{', '.join(map(repr, columns))}: these prompts are never used."
        )
        change = "Name the columns of the data in prompts={...}, or rename the columns."
        yield Verdict(subject, BAD, finding, change, "prompts unused", symptom)
        return
    wrong = [
        (name, prompt, role_of(prompt)) for name, prompt in prompts.items()
        if role_of(name) and role_of(prompt) and role_of(name) != role_of(prompt)
    ]  # fmt: skip
    if wrong:
        name, prompt, role = wrong[0]
        finding = f"The prompt of column {name!r} is {prompt!r}, which is for {role}."
        change = "Give each column its own prompt: those of queries and documents are exchanged."
        grade = BAD if len(wrong) > 1 else WATCH
        yield Verdict(subject, grade, finding, change, "prompts exchanged", symptom)
    elif prompts:
        finding = f"Prompts are put before the texts of {', '.join(map(repr, prompts))}."
        yield Verdict(subject, GOOD, finding, name="prompts used")


def role_of(text: str) -> str:
    """Return the role that a text names; empty if it names none or both."""
    words = set(text.lower().replace("_", " ").replace(":", " ").split()) | {text.lower().strip()}
    roles = [role for role, names in ROLE_WORDS.items() if words.intersection(names)]
    return roles[0] if len(roles) == 1 else ""


# Batches of rows below which a data set is small; passes over it that teach it by heart.
FEW_BATCHES, MANY_PASSES = 4, 20


def passes(rows: int, batch: int, passes: float) -> Iterator[Verdict]:
    """Judge how often the run sees each row of a small data set.

    Args:
        rows: rows of the data.
        batch: rows of a batch.
        passes: how often the planned run sees each row.
    """
    if rows <= FEW_BATCHES * batch and passes > MANY_PASSES:
        finding = (
            f"The data hold {rows:,} rows, of which the run sees each {passes:.0f} times, in "
            "nearly the same batches."
        )
        change = (
            "Check that no rows were left out, as by select(range(...)) for debugging. Otherwise "
            "train for fewer epochs."
        )
        yield Verdict("amount of data", WATCH, finding, change, "few rows", "score-falls",
                      {"rows": float(rows), "passes": passes})  # fmt: skip


# Movement of the weights, relative to their size, that a plan should reach; rate for adapters.
REACHED, RATE_OF_ADAPTERS = 3e-4, 5e-5
# The same for static embeddings, whose rows move only in steps whose texts have their tokens: sound
# runs reach .3 and more.
REACHED_BY_STATIC = 0.03
# Factor of an adapter (lora_alpha over its rank) that is far above usual ones, and is bad.
STRONG, FAR_TOO_STRONG = 16.0, 100.0


def reach(
    optimizer: str, rate: float, steps: int, norm: float, clip: float, moved: float,
    adapter: float | None, scaling: float = 0.0, static: bool = False,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether the planned steps can move the weights.

    Args:
        optimizer: kind of the optimizer.
        rate: learning rate.
        steps: planned steps.
        norm: norm of the gradient.
        clip: norm to which gradients are clipped; 0 for none.
        moved: largest movement of the weights over the run, relative to their size.
        adapter: the same of the weights that low-rank adapters change; None without adapters.
        scaling: factor of the adapters; 0 without adapters.
        static: whether the encoder has one vector for each token and no layers.
    """
    subject, symptom, plain = "reach of the run", "weights-do-not-move", optimizer.lower() == "sgd"
    evidence = {"moved": moved, "rate": rate, "norm": norm}
    if scaling > STRONG:
        finding = (
            f"The adapters are multiplied by {scaling:g} (lora_alpha over the rank): each step "
            "moves the weights that many times as far."
        )
        change = "Set lora_alpha to half to twice the rank."
        yield Verdict("adapters", BAD if scaling > FAR_TOO_STRONG else WATCH, finding, change,
                      "adapter too strong", "score-falls", {"scaling": scaling})  # fmt: skip
    if adapter is not None and (adapter < REACHED or rate < RATE_OF_ADAPTERS):
        finding = (
            f"The adapters are trained at a learning rate of {rate:g}, and over "
            f"{counted(steps, 'step')} can change the weights by {adapter:.1g} of their size "
            "at most."
        )
        change = (
            "Raise the learning rate: adapters are trained at 1e-4 to 1e-3. Check lora_alpha: half "
            "to twice the rank is usual."
        )
        yield Verdict(subject, WATCH, finding, change, "adapter hardly moves", symptom,
                      evidence | {"adapter": adapter})  # fmt: skip
    elif moved < (REACHED_BY_STATIC if static else REACHED):
        finding = (
            f"Over {counted(steps, 'step')}, {optimizer} at a learning rate of {rate:g} can move "
            f"the weights by {moved:.1g} of their size at most."
        )
        if plain and 0 < clip < norm:
            finding += f" Gradients of norm {norm:.3g} are clipped to max_grad_norm={clip:g}."
        change = "Raise the learning rate."
        if static:
            finding += " The learning rate is too low for static embeddings, without layers."
            change = "Raise the learning rate: static embeddings are trained at 0.01 to 0.2."
        elif plain:
            change = "Use AdamW, or raise the learning rate of SGD to 0.01 or more"
            change += ", and max_grad_norm to 1." if clip < 1 else "."
        yield Verdict(subject, WATCH, finding, change, "plan hardly moves", symptom, evidence)


def unmeasured(failures: Mapping[str, str]) -> Iterator[Verdict]:
    """Name checks that could not be measured; ``failures`` are errors by the name of the check."""
    for name, error in failures.items():
        finding = f"The check {name!r} could not be measured: {error}."
        yield Verdict("checks", NOT_JUDGED, finding, name="check failed")


def _handfuls(answers: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    """Judge whether evaluators have enough pairs or queries."""
    nouns = {"scores": "pairs", "documents": "queries", "triplets": "triplets"}
    for answer in answers:
        if answer["count"] < HANDFUL and answer["distinct"] > 1:
            finding = (
                f"{answer['name']!r} has {answer['count']} {nouns[answer['kind']]}: a score of so "
                "few is mostly chance."
            )
            change = "Evaluate on some hundred."
            yield Verdict("evaluation", WATCH, finding, change, "small evaluation",
                          "score-does-not-rise", {"count": float(answer["count"])})  # fmt: skip


def _is_unrelated(answer: Mapping[str, Any]) -> str:
    """Return in what gold answers have no relation to words; empty if they have, or may have."""
    telling = answer.get("nearest", 0.0) > WIDE_RANGE and answer["kind"] == "documents"
    if telling and not is_above_chance(answer["rank"], answer["count"]):
        return (
            f"a query's right document has more words in common with it than "
            f"{answer['rank']:.0%} of the others, and chance gives 50%"
        )
    wide = answer.get("high", 0.0) - answer.get("low", 0.0) > WIDE_RANGE
    wide = wide and (answer["distinct"] > 2 or answer["low"] < NOTHING_COMMON)
    if wide and abs(answer["words"]) * math.sqrt(answer["count"]) < NO_RELATION:
        return f"their rank correlation with common words is {answer['words']:.2f}"
    return ""
