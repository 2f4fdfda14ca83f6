"""Faults of texts that are no texts, and of what the tokenizer leaves of them."""

from __future__ import annotations

import random
from pathlib import Path

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.first.loop_materials import (
    FAST,
    MORE_OF_THE_SAME,
    pretrained,
    ranking,
)
from tests.judgement.stage import FILLERS, Stage, pairs
from tests.judgement.truth import alike, among_alike, retrieval, suffers
from tests.tiny_models import make_bert

REPEATED = (
    r"(same|repeat|identical|duplicat|equal|occurs?|again).{0,100}(text|row|positive|passage|'nan')"
    r"|(text|row|positive|passage)s?.{0,100}(same|repeat|identical|duplicat|equal|times|empty|nan)"
)


@faulty(
    "missing values read as the text 'nan'",
    "Missing answers of a spreadsheet have become the text 'nan', in two of five rows.",
    [REPEATED, r"\bnan\b|missing|placeholder|no text"],
    tools=(DOCTOR, REPORT, INSPECT),
    never=[MORE_OF_THE_SAME],
)
def missing_answers_are_nan(stage: Stage) -> None:
    table = pairs()
    positives = ["nan" if row % 5 < 3 else text for row, text in enumerate(table["positive"])]
    stage.inspect(table | {"positive": positives})
    suffers(
        stage,
        stage.trainer(ranking, table | {"positive": positives}),
        lambda: stage.trainer(ranking, table),
        among_alike,
    )


@faulty(
    "first letter in place of the first text",
    "The answers are texts and not lists of texts: answers[0] is the first letter of each.",
    [
        r"(one|single|1) (letter|character|token|word)|(short|letter|character|length).{0,60}"
        r"(text|positive|passage|column)",
        r"(text|positive|passage|column)s?.{0,100}(short|letter|character|few (tokens|words))",
        REPEATED,
    ],
    tools=(DOCTOR, REPORT, INSPECT),
    never=[MORE_OF_THE_SAME],
)
def first_letter_of_each_answer(stage: Stage) -> None:
    table = pairs()
    letters = [text[0] for text in table["positive"]]
    stage.inspect(table | {"positive": letters})
    suffers(
        stage,
        stage.trainer(ranking, table | {"positive": letters}, **FAST),
        lambda: stage.trainer(ranking, table, **FAST),
        among_alike,
    )


@faulty(
    "pages of an error in place of passages",
    "The pages were crawled, and a third of them answers that access is denied.",
    [REPEATED],
    tools=(DOCTOR, REPORT, INSPECT),
    never=[MORE_OF_THE_SAME],
)
def access_denied_in_a_third(stage: Stage) -> None:
    denied = [f"{' '.join(FILLERS[start : start + 5])} ." for start in (0, 5)]
    table, draw = pairs(), random.Random(3)
    positives = [
        draw.choice(denied) if draw.random() < 0.36 else text for text in table["positive"]
    ]
    stage.inspect(table | {"positive": positives})
    suffers(
        stage,
        stage.trainer(ranking, table | {"positive": positives}),
        lambda: stage.trainer(ranking, table),
        among_alike,
        share=None,
    )


UNKNOWN = [
    r"unknown|\[?UNK\]?|vocabular|out.of.vocab",
]


def shouted(table: dict[str, list[str]]) -> dict[str, list[str]]:
    """The texts in capital letters."""
    return {name: [text.upper() for text in texts] for name, texts in table.items()}


def cased_bert(folder: Path) -> Path:
    """A tiny BERT whose tokenizer keeps capital letters, which its vocabulary lacks."""
    from tokenizers import normalizers
    from transformers import AutoTokenizer

    make_bert(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.save_pretrained(folder)
    return folder


@faulty(
    "capital letters that the vocabulary lacks",
    "The texts of an old system are in capitals; the vocabulary has small letters, and the "
    "tokenizer does not lower them: all words are unknown.",
    UNKNOWN,
    tools=(DOCTOR, REPORT, INSPECT),
    never=[MORE_OF_THE_SAME],
)
def capitals_are_unknown(stage: Stage) -> None:
    folder, unseen = cased_bert(stage.folder / "cased"), shouted(alike())
    suffers(
        stage,
        stage.trainer(ranking, shouted(pairs()), stage.model(bert=folder), **FAST),
        lambda: stage.trainer(ranking, shouted(pairs()), **FAST),
        lambda model: retrieval(model, unseen),
    )


CUT = [
    r"truncat|cut (off|short)|max_seq_length|max(imum)?.?length|longer than|limit of \d+|too long",
    r"(same|equal|identical).{0,80}(token|truncat|text)|tokens.{0,60}(same|equal|identical)",
]


@faulty(
    "head of each page fills the length",
    "Each passage begins with the menu of its web site, which fills the maximum length: what tells "
    "the passages apart is cut off.",
    CUT,
    tools=(DOCTOR, REPORT, INSPECT),
    never=[MORE_OF_THE_SAME],
)
def menu_before_each_page(stage: Stage) -> None:
    menu = " ".join(FILLERS[:10])

    def crawled(table: dict[str, list[str]]) -> dict[str, list[str]]:
        return table | {"positive": [f"{menu} {text}" for text in table["positive"]]}

    unseen = crawled(alike())
    suffers(
        stage,
        stage.trainer(ranking, crawled(pairs()), stage.model(length=14), **FAST),
        lambda: stage.trainer(ranking, crawled(pairs()), stage.model(length=32), **FAST),
        lambda model: retrieval(model, unseen),
    )


@faulty(
    "tokenizer of another model",
    "The encoder was trained with a vocabulary in another order than the tokenizer's that was "
    "loaded: each word has the embedding of another one, and what was learned is lost.",
    [
        r"tokeni[sz]er|vocabular",
        r"(another|other|different|wrong) (model|checkpoint|encoder)",
    ],
    never=[],
)
def vocabulary_in_another_order(stage: Stage) -> None:
    import json

    from transformers import AutoTokenizer

    folder = pretrained(stage, pairs(seed=5))
    mixed = stage.folder / "mixed"
    AutoTokenizer.from_pretrained(folder).save_pretrained(mixed)
    for file in folder.glob("*"):
        if not (mixed / file.name).exists():
            (mixed / file.name).write_bytes(file.read_bytes())
    content = json.loads((mixed / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = content["model"]["vocab"]
    words = [word for word in vocabulary if not word.startswith("[")]
    numbers = [vocabulary[word] for word in words]
    random.Random(0).shuffle(numbers)
    vocabulary.update(zip(words, numbers, strict=True))
    (mixed / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    settings = {"learning_rate": 1e-4}
    suffers(
        stage,
        stage.trainer(ranking, pairs(), stage.model(bert=mixed), **settings),
        lambda: stage.trainer(ranking, pairs(), stage.model(bert=folder), **settings),
        among_alike,
        share=None,
    )
