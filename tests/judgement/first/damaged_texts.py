"""Faults of texts: spelled, cut or preprocessed so that training does not see what use sees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.judgement.case import INSPECT, faulty
from tests.judgement.first.materials import (
    ANYWHERE,
    CUT,
    LONGER,
    TOKENS,
    UNRELATED,
    inspected,
    mistaught,
    ranking,
)
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import alike, among_alike, retrieval, suffers
from tests.sentence_training import evaluation
from tests.tiny_models import make_bert


def with_column(
    change: Callable[[str], str], column: str = "positive", table: Any = None
) -> dict[str, list[str]]:
    table = pairs() if table is None else table
    return table | {column: [*map(change, table[column])]}


@faulty(
    "texts cut at the first comma",
    "The file was split at commas, and of each passage only what stands before the first is left.",
    [UNRELATED, CUT, r"short|few words|cut|one word|fragment"],
    tools=ANYWHERE,
    never=[LONGER],
)
def passages_before_the_first_comma(stage: Stage) -> None:
    """Common with CSV files that are split at each comma, quoted or not."""
    table = pairs()
    mistaught(stage, with_column(lambda text: " ".join(text.split()[:2])), table)


def hyphenated(text: str) -> str:
    """Each longer word is broken, as at the end of a line."""
    return " ".join(
        f"{word[: len(word) // 2]}- {word[len(word) // 2 :]}" if len(word) > 3 else word
        for word in text.split()
    )


@faulty(
    "words broken at line ends",
    "Passages come from a PDF file, and words are hyphenated where lines end: the tokenizer reads "
    "other pieces than in the questions.",
    [TOKENS, UNRELATED, r"hyphen|broken|line (end|break)"],
    tools=(INSPECT,),
    never=[LONGER],
)
def passages_with_hyphens(stage: Stage) -> None:
    """Common with texts of PDF files: words broken at the end of a line stay broken."""
    inspected(stage, with_column(hyphenated), pairs(), share=None, max_steps=40)


def misread(text: str) -> str:
    """UTF-8 read as Latin-1: each a, e and o had an accent."""
    return "".join({"a": "Ã¡", "e": "Ã©", "o": "Ã³"}.get(letter, letter) for letter in text)


@faulty(
    "letters read in a wrong encoding",
    "The passages were read as Latin-1 though they are UTF-8: each accented letter is two others.",
    [TOKENS, UNRELATED, r"encod|accent|utf|latin|mojibake"],
    tools=(INSPECT,),
    never=[LONGER],
)
def passages_in_latin_1(stage: Stage) -> None:
    """Common: `open(path, encoding="latin-1")` on a file in UTF-8."""
    inspected(stage, with_column(misread), pairs(), share=None)


def cased(stage: Stage) -> Path:
    """An encoder with a vocabulary in lower case whose tokenizer does not lower the case."""
    from tokenizers import normalizers
    from transformers import AutoTokenizer

    folder = make_bert(stage.folder / "cased")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.save_pretrained(folder)
    return folder


@faulty(
    "capital letters unknown to the vocabulary",
    "The vocabulary holds words in lower case, and the tokenizer was loaded with do_lower_case "
    "off: each word with a capital letter is unknown.",
    [TOKENS, r"lower.?cas|capital|upper.?case|\bcased\b"],
    tools=ANYWHERE,
    never=[LONGER],
)
def lower_casing_turned_off(stage: Stage) -> None:
    """https://github.com/kaushaltrivedi/fast-bert/issues/161: do_lower_case=False."""
    table = with_column(str.title)
    unseen = with_column(str.title, table=alike())
    stage.inspect(table, str(cased(stage)))
    suffers(
        stage,
        stage.trainer(ranking, table, stage.model(bert=cased(stage))),
        lambda: stage.trainer(ranking, table),
        lambda model: retrieval(model, unseen),
    )


def stemmed(text: str) -> str:
    """Words without their ending, as a stemmer of another language leaves them."""
    return " ".join(word[:-1] if len(word) > 2 else word for word in text.split())


def searching(table: dict[str, list[str]], **options: Any) -> Any:
    """An evaluator that searches the second column's texts by the first's."""
    names = [str(at) for at in range(len(table["anchor"]))]
    return evaluation.InformationRetrievalEvaluator(
        dict(zip(names, table["anchor"], strict=True)),
        {f"d{name}": text for name, text in zip(names, table["positive"], strict=True)},
        {name: {f"d{name}"} for name in names},
        name="search",
        **options,
    )


EVALUATED = {"eval_strategy": "steps", "eval_steps": 10}


@faulty(
    "training texts stemmed, used texts not",
    "Texts of training were stemmed as for a search by words; those of the evaluator, and of use, "
    "are not.",
    [
        TOKENS,
        r"stem|lemma|preprocess|(evaluator|evaluat).{0,120}(other|differ|unlike|words|training)",
    ],
    never=[LONGER],
)
def stemmed_for_training_only(stage: Stage) -> None:
    """https://www.newmind.ai/journal/60 recommends stemming and lemmatising before training."""
    table, unseen = pairs(), alike()
    cut = {name: [*map(stemmed, texts)] for name, texts in table.items()}
    suffers(
        stage,
        stage.trainer(ranking, cut, evaluator=searching(unseen), **EVALUATED),
        lambda: stage.trainer(ranking, table),
        among_alike,
        share=None,
    )


@faulty(
    "stop words removed from one side",
    "Function words and common words were removed from the questions of training, and with them "
    "most of what they ask for.",
    [UNRELATED, CUT, r"short|few words|one word|stop.?words"],
    tools=ANYWHERE,
    never=[LONGER],
)
def questions_of_rare_words_only(stage: Stage) -> None:
    """https://www.newmind.ai/journal/60: stop words removed before training."""
    table = pairs()
    counts: dict[str, int] = {}
    for text in table["anchor"]:
        for word in text.split():
            counts[word] = counts.get(word, 0) + 1

    def rare(text: str) -> str:
        words = sorted(text.split(), key=counts.__getitem__)
        return words[0]

    mistaught(stage, with_column(rare, "anchor"), table)
