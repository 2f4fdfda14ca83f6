"""Does evaluation happen, does it ask of what is trained, and do prompts fit?

Arguments are measured by the functions of the same names in
`gradlab.diagnosis.evaluation_measurements`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gradlab.data.label_verdicts import TELLS
from gradlab.diagnosis.data_verdicts import is_above_chance
from gradlab.diagnosis.foretold_verdicts import are_edited
from gradlab.diagnosis.label_agreement_verdicts import REVERSED
from gradlab.diagnosis.plan_verdicts import role_of
from gradlab.errors import counted
from gradlab.numbers import percent
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Grade, Verdict

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
        change = "Set prompts in the training arguments as well, or none in evaluator and model."
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


# Share of an evaluator's right documents that its corpus may lack, and of its texts that may be
# empty; share of its pairs whose texts may be equal.
MANY_MISSING, MOST_EQUAL = 0.05, 0.5
# Documents of a corpus that is no more than what a measure looks at; share of it that may be right
# for a query.
FEW_DOCUMENTS, MOST_RIGHT = 10, 0.5
# Share of triplets whose negative has more words of the anchor, of exchanged columns.
MOST_EXCHANGED = 0.7
# Share of queries that may be their own right document, or a document that is not right.
MANY_ITSELF = 0.2
# Pairs or queries below which a score is mostly chance. Fewest that show that gold has nothing to
# do with words, standard errors within which that is so, and the ranges of the shares of common
# words, of documents and of rated pairs, that would show it otherwise. Share of words in common of
# texts that are nothing to each other.
HANDFUL, ENOUGH_GOLD, NO_RELATION, NOTHING_COMMON, WIDE_RANGE, WIDE = 20, 48, 2.0, 0.05, 0.1, 0.25
# Share of the sources' words that translations hold, and rank of rows of training by words, where
# these tell: it is .5 where training is of two languages.
ONE_LANGUAGE, TOLD_IN_TRAINING = 0.5, 0.75


def gold(answers: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    """Judge whether evaluators can tell encoders apart.

    Args:
        answers: for each evaluator its ``name``; ``kind``, ``"scores"`` or ``"documents"``;
            ``count``, pairs or queries; ``distinct``, different scores or documents of the corpus;
            ``words``, the rank correlation of scores with common words; and ``missing``, the share
            of right documents that the corpus lacks. Others: ``"triplets"``, ``"translations"``.
    """
    yield from _handfuls(answers)
    for answer in answers:
        verdict = _without_answers(answer) or _of_documents(answer) or _against_words(answer)
        if verdict is not None:
            yield verdict


def use(
    trained: str, compared: str, unit: bool, cut: int, width: int, widths: Sequence[int]
) -> Iterator[Verdict]:
    """Judge whether embeddings are compared in evaluation as they are in training.

    Args:
        trained: ``"cosine"`` or ``"dot"``, by which the loss compares; empty if unknown.
        compared: the same of the evaluator, or of the model's similarity.
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
            f"Training compares by {words[trained]}, evaluation or use by {words[compared]}, and "
            "the embeddings are not normalised: their lengths count in one of the two only."
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


# Words from which on a prompt is an instruction.
INSTRUCTION = 3


def prompts(
    prompts: Mapping[str, str],
    outer: Sequence[str],
    columns: Sequence[str],
    sets: Sequence[str],
    twice: Sequence[str] = (),
) -> Iterator[Verdict]:
    """Judge whether prompts reach columns, and the right ones.

    Args:
        prompts: prompt by the name of a column or data set.
        outer: names of the outermost level.
        columns: names of the columns of texts, in their order.
        sets: names of the data sets.
        twice: columns whose texts begin with their prompt already.
    """
    subject, symptom = "prompts", "score-does-not-rise"
    names = set(columns) | set(sets)
    lost = [name for name in dict.fromkeys([*outer, *prompts]) if name not in names]
    # A name that stands for no column is of another script, if each column or data set has one.
    bare = [name for name in columns if not prompts.get(name)]
    everywhere = not bare or (bool(sets) and set(sets) <= set(outer))
    if columns and lost and any(map(prompts.get, lost)) and not everywhere:
        finding = (
            f"There are prompts for {', '.join(map(repr, lost))}, but the columns are "
            f"{', '.join(map(repr, columns))}: these prompts are never used."
        )
        change = "Name the columns of the data in prompts={...}, or rename the columns."
        grade = WATCH if len(bare) < len(columns) else BAD
        yield Verdict(subject, grade, finding, change, "prompts unused", symptom)
        return
    if twice:
        finding = (
            f"The texts of column {twice[0]!r} begin with their prompt already: training puts it "
            "before them twice."
        )
        change = "Leave the prompt out of prompts={...}, or out of the texts."
        yield Verdict(subject, WATCH, finding, change, "prompt twice", symptom)
        return
    # A label such as "query:" names the role of its text; "Find the answer" that of another one.
    # The first column asks, whatever its name: an answer may be given, and its question sought.
    by_place = dict(zip(columns, ["a query", *["a document"] * len(columns)], strict=False))
    are_by_place = [role_of(prompt) == by_place.get(name) for name, prompt in prompts.items()]
    wrong = [] if all(are_by_place) else [
        (name, prompt, role_of(prompt)) for name, prompt in prompts.items()
        if len(prompt.split()) < INSTRUCTION
        and role_of(name) and role_of(prompt) and role_of(name) != role_of(prompt)
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


def unmeasured(failures: Mapping[str, str]) -> Iterator[Verdict]:
    """Name checks that could not be measured; ``failures`` are errors by the name of the check."""
    for name, error in failures.items():
        finding = f"The check {name!r} could not be measured: {error}."
        yield Verdict("checks", NOT_JUDGED, finding, name="check failed")


def evaluations(attached: str, strategy: str, interval: int, steps: int) -> Iterator[Verdict]:
    """Judge whether evaluation happens at all.

    Args:
        attached: what the trainer could evaluate: an evaluator or an eval_dataset.
        strategy: ``eval_strategy`` of the trainer.
        interval: steps between evaluations; 0 for none or unknown.
        steps: planned steps; 0 if unknown.
    """
    if strategy == "no":
        finding = f"The trainer has {attached}, and eval_strategy is 'no': it is never evaluated."
        change = "Set eval_strategy='steps' and eval_steps, or 'epoch'."
    elif strategy == "steps" and 0 < steps < interval:
        finding = (
            f"The trainer has {attached}, and evaluates every {interval:,} steps (eval_steps), but "
            f"the run ends after {counted(steps, 'step')}: it is never evaluated."
        )
        change = f"Lower eval_steps to about {max(1, steps // 10)}."
    else:
        return
    yield Verdict("evaluation", WATCH, finding, change, "never evaluated", "score-does-not-rise")


def _handfuls(answers: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    """Judge whether evaluators have enough pairs or queries."""
    nouns = {"scores": "pairs", "documents": "queries"}
    for answer in answers:
        differ = answer["distinct"] > 1 or answer["kind"] == "triplets"
        if answer["count"] < HANDFUL and differ:
            noun = nouns.get(answer["kind"], answer["kind"])
            finding = f"{answer['name']!r} has {answer['count']} {noun}: a score of so few is "
            finding += "mostly chance."
            change = "Evaluate on some hundred."
            yield Verdict("evaluation", WATCH, finding, change, "small evaluation",
                          "score-does-not-rise", {"count": float(answer["count"])})  # fmt: skip


def _of_evaluation(
    finding: str, change: str, name: str, evidence: Mapping[str, float], grade: Grade = WATCH
) -> Verdict:
    return Verdict("evaluation", grade, finding, change, name, "score-does-not-rise", evidence)


def _without_answers(answer: Mapping[str, Any]) -> Verdict | None:
    """Judge whether an evaluator can compute a score that tells encoders apart."""
    name, count, distinct = answer["name"], answer["count"], answer["distinct"]
    if distinct < 2 and answer["kind"] != "triplets":  # which may have one anchor
        finding = (
            f"The corpus of {name!r} holds a single document: each of {count:,} queries finds it, "
            "and the score is always 1."
        )
        change = "Give the evaluator a corpus with documents that are wrong answers."
        if answer["kind"] == "scores":
            finding = f"All {count:,} gold scores of {name!r} are equal: no score can be computed."
            change = "Give the evaluator pairs with different gold scores."
        return _of_evaluation(finding, change, "gold equal", {"distinct": float(distinct)}, BAD)
    if answer.get("same", 0.0) > MOST_EQUAL:
        finding = (
            f"In {percent(answer['same'])} of the triplets of {name!r} the negative is the "
            "positive: no encoder can tell them apart."
        )
        change = "Give each anchor a negative of its own."
        return _of_evaluation(finding, change, "gold equal", {"same": answer["same"]}, BAD)
    blank, equal = answer.get("blank", 0.0), answer.get("equal", 0.0)
    if blank > MANY_MISSING or equal > MOST_EQUAL:
        finding = f"{percent(blank)} of the texts of {name!r} are empty."
        if equal > MOST_EQUAL:
            finding = (
                f"In {percent(equal)} of the pairs of {name!r} both texts are the same: their "
                "cosine is 1 whatever is trained."
            )
        change = "Look at the columns that the evaluator was given."
        evidence = {"blank": blank, "equal": equal}
        return _of_evaluation(finding, change, "evaluated texts missing", evidence, BAD)
    return None


def _of_documents(answer: Mapping[str, Any]) -> Verdict | None:
    """Judge whether ids match, and whether the corpus holds what leads astray."""
    name = answer["name"]
    if answer.get("queries") == 0:
        finding = (
            f"None of the queries of {name!r} has a right document: the ids of queries and of "
            "relevant_docs do not match, and evaluation ends with an error."
        )
        change = "Give the same ids, of the same type, in queries and in relevant_docs."
        return _of_evaluation(finding, change, "gold missing", {}, BAD)
    if answer.get("missing", 0.0) > MANY_MISSING:
        finding = (
            f"The corpus of {name!r} lacks {percent(answer['missing'])} of the right documents."
        )
        change = "Check the ids of relevant_docs against those of the corpus."
        if types := answer.get("types"):
            finding += (
                f" Their ids are of type {types[0]}, and those of the corpus of type {types[1]}: "
                "equal as texts, they never match, and the score is 0."
            )
            change = "Give all ids as strings: str(id), in relevant_docs and in the corpus."
        return _of_evaluation(finding, change, "gold missing", {"missing": answer["missing"]}, BAD)
    right, documents = answer.get("right", 0.0), answer["kind"] == "documents"
    few = answer["distinct"] <= FEW_DOCUMENTS < answer["count"]
    if documents and (right > MOST_RIGHT or few):
        finding = f"The corpus of {name!r} holds {counted(answer['distinct'], 'document')} for "
        finding += f"{answer['count']:,} queries"
        finding += f", of which {percent(right)} are right for each" if right > MOST_RIGHT else ""
        finding += ": nearly any ranking has a right one among the first 10, and scores are high."
        change = "Give the evaluator a corpus with many documents that are wrong answers."
        return _of_evaluation(finding, change, "few documents", {"right": right})
    return _of_queries(name, answer)


def _of_queries(name: str, answer: Mapping[str, Any]) -> Verdict | None:
    """Judge whether the corpus holds the queries themselves, or copies of their answers."""
    texts = {
        "itself": (
            f"For {percent(answer.get('itself', 0.0))} of the queries of {name!r}, the right "
            "document is the query itself, word by word: any encoder finds it.",
            "Take the queries out of the corpus, and name the documents that answer them.",
            "gold is the query",
        ),
        "beside": (
            f"The corpus of {name!r} holds {percent(answer.get('beside', 0.0))} of the queries "
            "themselves, word by word, as documents that are no right answer: each query finds "
            "itself first, which lowers the score of a good encoder.",
            "Take the texts of the queries out of the corpus.",
            "queries in the corpus",
        ),
        "copied": (
            f"For {percent(answer.get('copied', 0.0))} of the queries of {name!r}, the corpus "
            "holds the right document once more under another id, which counts as wrong.",
            "Leave out copies from the corpus, or name all of them in relevant_docs.",
            "copies in the corpus",
        ),
    }
    for sign, words in texts.items():
        if answer.get(sign, 0.0) > MANY_ITSELF:
            return _of_evaluation(*words, {sign: answer[sign]})
    return None


def _against_words(answer: Mapping[str, Any]) -> Verdict | None:
    """Judge whether words contradict what an evaluator takes for right, or have no relation."""
    name = answer["name"]
    contrary = 0.0 if are_edited(answer, TELLS) else answer.get("contrary", 1.0)
    if min(answer.get("exchanged", 0.0), contrary) > MOST_EXCHANGED:
        finding = (
            f"In {percent(answer['exchanged'])} of the triplets of {name!r}, the negative has more "
            "words of the anchor than the positive: they seem to be exchanged."
        )
        change = "Check the order of the evaluator's columns: anchors, positives, negatives."
        evidence = {"exchanged": answer["exchanged"]}
        return _of_evaluation(finding, change, "gold reversed", evidence)
    if answer.get("words", 0.0) < REVERSED:
        finding = (
            f"The gold scores of {name!r} fall where pairs have more words in common: their rank "
            f"correlation is {answer['words']:.2f}. They may be distances."
        )
        change = "Give a higher gold score to pairs that are more alike."
        return _of_evaluation(finding, change, "gold reversed", {"words": answer["words"]})
    if answer["count"] >= ENOUGH_GOLD and (unrelated := _is_unrelated(answer)):
        finding = f"What {name!r} takes for right has no relation to the texts: {unrelated}."
        change = "Check that scores or relevant documents belong to these texts: ids, order."
        return _of_evaluation(finding, change, "gold without common words", {})
    return None


def _is_unrelated(answer: Mapping[str, Any]) -> str:
    """Return in what gold answers have no relation to words; empty if they have, or may have."""
    common = {
        "documents": "a query's right document has more words in common with it",
        "translations": "a translation has more words in common with its source",
    }
    telling = answer.get("nearest", 0.0) > WIDE_RANGE and answer["kind"] in common
    telling = telling and answer.get("shared", 1.0) >= ONE_LANGUAGE
    telling = telling and answer.get("told", 1.0) >= TOLD_IN_TRAINING
    if telling and not is_above_chance(answer["rank"], answer["count"]):
        ranked = f"{answer['rank']:.0%} of the others, and chance gives 50%"
        return f"{common[answer['kind']]} than {ranked}"
    wide = answer.get("high", 0.0) - answer.get("low", 0.0) > WIDE
    wide = wide and (answer["distinct"] > 2 or answer["low"] < NOTHING_COMMON)
    if wide and abs(answer["words"]) * math.sqrt(answer["count"]) < NO_RELATION:
        return f"their rank correlation with common words is {answer['words']:.2f}"
    return ""
