"""Do prompts stand by themselves and rows agree, and do all queries have an answer?

Arguments are measured by the functions of the same names in
`gradlab.diagnosis.answer_measurements`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gradlab.diagnosis.data_verdicts import is_above_chance
from gradlab.diagnosis.foretold_verdicts import RIGHT_FOR_ANOTHER, gold_foretold
from gradlab.numbers import percent
from gradlab.verdict import BAD, WATCH, Verdict

SYMPTOM = "score-does-not-rise"
ROLES = ("queries", "documents")


def roles(trained: Sequence[str], evaluated: Sequence[str], name: str) -> Iterator[Verdict]:
    """Judge whether each role has the prompt in evaluation that it has in training.

    Args:
        trained: prompts of queries and of documents in training; empty for none.
        evaluated: the same of an evaluator.
        name: name of the evaluator.
    """
    taught, asked = ([prompt.strip().lower() for prompt in row] for row in (trained, evaluated))
    if not any(taught) or not any(asked) or taught == asked:
        return
    change = "Give the evaluator the prompts of training: query_prompt and corpus_prompt."
    if asked == taught[::-1]:
        finding = (
            f"The evaluator {name!r} puts the prompt {evaluated[0]!r} before queries and "
            f"{evaluated[1]!r} before documents, and training the other way round: the prompts are "
            "exchanged."
        )
    else:
        place = int(taught[0] == asked[0])
        if taught[place] == asked[place]:
            return
        finding = (
            f"The evaluator {name!r} puts {_named(evaluated[place])} before {ROLES[place]}, and "
            f"training {_named(trained[place])}."
        )
    yield Verdict("evaluation", WATCH, finding, change, "prompts of the evaluator", SYMPTOM)


# Mean share of the other documents that have fewer words of a query than its answer.
OF_ITS_QUERY = 0.8
# Share of queries without a right document, and of gold scores that are the same one, from which
# on an evaluator says little; fewest gold scores; share of queries that are repeated.
MANY_EMPTY, MOST_THE_SAME, ENOUGH_GOLD, MANY_REPEATED = 0.1, 0.95, 20, 0.5


def unanswered(answers: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    """Judge whether queries have answers, and gold scores and queries differ.

    Args:
        answers: for each evaluator its ``name``; ``empty``, the share of queries without a right
            document; ``gold``, its gold scores, of which the share ``commonest`` are the same;
            ``repeated``, the share of queries that stand there before; and ``ranks``, the mean
            share of documents with fewer common words than the right one, the one before it and
            the one after it, over ``ranked`` queries.
    """
    for answer in answers:
        yield from _shifted(answer)
        yield from gold_foretold(answer)
        yield from _reaches_all(answer)
        name, change = answer["name"], ""
        if MANY_EMPTY < answer["empty"] < 1:
            finding = (
                f"{percent(answer['empty'])} of the queries of {name!r} have no right document in "
                "relevant_docs: they are left out, and the score is that of the others."
            )
            change = "Name the right documents of all queries; look at how ids were joined."
        elif answer["gold"] >= ENOUGH_GOLD and MOST_THE_SAME < answer["commonest"] < 1:
            finding = (
                f"{percent(answer['commonest'])} of {answer['gold']:,} gold scores or labels of "
                f"{name!r} are the same: its score hangs on the few others."
            )
            change = "Evaluate on pairs of which some belong together and as many do not."
        elif answer["repeated"] > MANY_REPEATED:
            finding = (
                f"{percent(answer['repeated'])} of the queries of {name!r} repeat another one word "
                "by word."
            )
            change = "Look at the column of the queries that the evaluator was given."
        if change:
            evidence = {key: float(answer[key]) for key in ("empty", "commonest", "repeated")}
            yield Verdict("evaluation", WATCH, finding, change, "answers missing", SYMPTOM,
                          evidence)  # fmt: skip


# Share of a column's texts from which on a lost first word is worth a remark. The faulty table had
# 1.0, and no sound one that was played reached the limit.
MANY_JOINED = 0.25


def seams(column: str, prompt: str, share: float, example: str) -> Iterator[Verdict]:
    """Judge whether a prompt runs into the first word of the texts behind it.

    Args:
        column: the column of the texts.
        prompt: its prompt in training.
        share: share of the texts whose first word has other tokens behind the prompt.
        example: the beginning of one of them behind its prompt.
    """
    if share < MANY_JOINED:
        return
    finding = (
        f"The prompt {prompt!r} of column {column!r} ends in a word without a blank, and in "
        f"{percent(share)} of the texts it runs into their first word, as in {example!r}: the "
        "tokenizer reads one word in place of the two, and the first word of the text is lost."
    )
    change = f"End the prompt with a blank or a colon and a blank: {prompt + ': '!r}."
    yield Verdict("prompts", WATCH, finding, change, "prompt runs into text", SYMPTOM,
                  {"share": share})  # fmt: skip


# Shares of rows that contradict others, for a remark and for a fault: two faulty tables had 1.0,
# and no sound one that was played reached the first. Fewest such rows.
MANY_CONTRARY, MOST_CONTRARY, ENOUGH_CONTRARY = 0.1, 0.5, 8


def conflicts(
    rows: int, share: float, example: Sequence[str], sets: int, foreign: float = 0.0
) -> Iterator[Verdict]:
    """Judge whether rows agree on which text is right for an anchor.

    Args:
        rows: rows with negatives.
        share: share of them with a negative that another row has for the anchor's positive.
        example: anchor and such a text.
        sets: number of data sets.
        foreign: share of them of which only another data set says so, whose task may be another.
    """
    if share < MANY_CONTRARY or share * rows < ENOUGH_CONTRARY:
        return
    anchor, text = (text[:60] for text in example)
    finding = (
        f"In {percent(share)} of {rows:,} rows with negatives, the negative of an anchor is its "
        f"positive in another row{' or data set' if sets > 1 else ''}, as {text!r} for {anchor!r}: "
        "what one row draws together, the other pushes apart."
    )
    change = (
        "Decide for each anchor and text whether they belong together, and leave out rows that say "
        "otherwise; mine negatives among texts that are nowhere positives of the anchor."
    )
    grade = BAD if share - foreign >= MOST_CONTRARY else WATCH
    yield Verdict("hard negatives", grade, finding, change, "rows contrary", "false-negatives",
                  {"share": share})  # fmt: skip


def _shifted(answer: Mapping[str, Any]) -> Iterator[Verdict]:
    """Judge whether words fit the documents beside the right ones, and not the right ones."""
    own, *neighbours = answer.get("ranks", [0.0, 0.0])
    rank, count = max(neighbours), answer.get("ranked", 0)
    if rank < OF_ITS_QUERY or is_above_chance(own, count):
        return
    before = rank == neighbours[0]
    if answer.get("right_beside", (1.0, 1.0))[not before] < RIGHT_FOR_ANOTHER:
        return  # hard negatives, each beside the right document
    finding = (
        f"The documents {'before' if before else 'after'} the right ones of {answer['name']!r} "
        f"have more words in common with their queries than {percent(rank)} of the others, and the "
        f"right ones than {percent(own)}: the ids of relevant documents are shifted by one against "
        "the corpus, as where one is numbered from 0 and the other from 1."
    )
    change = "Number documents and relevant_docs from the same number, or join them by their ids."
    yield Verdict("evaluation", BAD, finding, change, "answers shifted", SYMPTOM, {"rank": rank})


def _reaches_all(answer: Mapping[str, Any]) -> Iterator[Verdict]:
    """Judge whether a right document is looked for among as many places as there are documents."""
    documents, places = answer.get("documents", 0), answer.get("places", 0)
    if not documents or places < documents:
        return
    measure = f"{answer['measure']}@{places:,}"
    finding = (
        f"{measure} of {answer['name']!r} looks for the right document among {places:,} places, "
        f"and its corpus has {documents:,} documents: it is 1 whatever is trained."
    )
    change = f"Take fewer places, such as {answer['measure']}@{max(1, documents // 50)}, or NDCG."
    # Another measure of the evaluator may be the one that is looked at.
    grade = BAD if answer.get("chosen", True) else WATCH
    yield Verdict("evaluation", grade, finding, change, "few documents", SYMPTOM,
                  {"places": float(places), "documents": float(documents)})  # fmt: skip


def _named(prompt: str) -> str:
    return f"the prompt {prompt!r}" if prompt else "no prompt"
