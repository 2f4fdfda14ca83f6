"""Texts that lost or gained words on their way to the encoder: cleaning, cutting, prompts, ids."""

from __future__ import annotations

import random
import re
from typing import Any

from tests.judgement.case import faulty
from tests.judgement.first.fault_subjects import (
    BANK,
    MUSEUM,
    PARTS,
    PLANTS,
    SWIFT,
    reader,
    sought_of,
)
from tests.judgement.first.fields import CLINIC, PAPERS, Field
from tests.judgement.first.good_fields import CONTRACTS, LETTERS
from tests.judgement.first.loop_materials import ranking
from tests.judgement.stage import Stage
from tests.judgement.truth import retrieval, suffers
from tests.sentence_training import losses

TWINS = (
    r"(?i)(duplicat|repeat|identical|same (text|passage|positive|anchor|cell)|false negatives?|"
    r"distinct|unique|cannot be told apart|read alike)",
)
CUT = (
    r"(?i)(truncat|cut (off|short|away)|longer than|exceed|max_seq_length|maximum length|too long|"
    r"token limit|length limit)",
)
GREEK = Field(
    {
        "ware": "ψωμί/bread τυρί/cheese κρασί/wine λάδι/oil μέλι/honey ψάρι/fish κρέας/meat "
        "αλάτι/salt",
        "town": "αθήνα/athens πάτρα/patras βόλος/volos χανιά/chania ρόδος/rhodes κέρκυρα/corfu "
        "λάρισα/larissa",
        "day": "δευτέρα/monday τρίτη/tuesday πέμπτη/thursday σάββατο/saturday κυριακή/sunday "
        "σήμερα/today αύριο/tomorrow",
    },
    {"greek": "θέλω {ware} από {town} την {day}", "english": "i want {ware} from {town} {day}"},
)


@faulty(
    "letters of another script removed",
    "The cleaning keeps Latin letters only, and nothing is left of the Greek texts.",
    [
        r"(?i)empty|no (words|letters|tokens|text|content)|blank|only special tokens",
        *TWINS,
    ],
)
def cleaning_that_keeps_latin_letters(stage: Stage) -> None:
    """`re.sub(r"[^a-zA-Z ]", "", text)` on texts of another script."""
    table = GREEK.table(160)
    cleaned = [re.sub(r"[^a-zA-Z ]", "", text).strip() for text in table["greek"]]
    suffers(
        stage,
        stage.trainer(ranking, table | {"greek": cleaned}, reader(stage, GREEK), **SWIFT),
        lambda: stage.trainer(ranking, table, reader(stage, GREEK), **SWIFT),
        sought_of(GREEK),
    )


@faulty(
    "numbers removed that tell rows apart",
    "The cleaning drops all words with digits, by which the spare parts differ: many rows of a "
    "batch read alike, and each counts as a negative of the others.",
    TWINS,
)
def model_numbers_cleaned_away(stage: Stage) -> None:
    """`re.sub(r"\\w*\\d\\w*", "", text)` on a catalogue."""

    def without_numbers(text: str) -> str:
        return " ".join(re.sub(r"\w*\d\w*", "", text).split())

    table = PARTS.table(160)
    cleaned = {name: list(map(without_numbers, cells)) for name, cells in table.items()}
    settings = {"max_steps": 60, **SWIFT}
    suffers(
        stage,
        stage.trainer(ranking, cleaned, reader(stage, PARTS), **settings),
        lambda: stage.trainer(ranking, table, reader(stage, PARTS), **settings),
        sought_of(PARTS),
    )


@faulty(
    "clauses longer than the encoder reads",
    "The encoder reads 12 tokens, and the clauses begin with a preamble of the same 20 words.",
    [*CUT, *TWINS],
)
def clauses_cut_within_their_preamble(stage: Stage) -> None:
    """A maximum length for tweets kept for contracts."""
    table = CONTRACTS.table(160)
    settings = {"max_steps": 40, "learning_rate": 2e-3}
    suffers(
        stage,
        stage.trainer(ranking, table, reader(stage, CONTRACTS, length=12), **settings),
        lambda: stage.trainer(ranking, table, reader(stage, CONTRACTS, length=90), **settings),
        sought_of(CONTRACTS),
    )


_INSTRUCTION = (
    "instruct : given the words of somebody who asks us , retrieve the passages of our store that "
    "serve them best ; query :"
)


@faulty(
    "instruction that fills the whole length",
    "The instruction put before each query is longer than the encoder reads: every query is cut to "
    "the instruction.",
    [*CUT, r"(?i)prompt|instruction|prefix", *TWINS],
)
def instruction_longer_than_the_limit(stage: Stage) -> None:
    """Prompts of an instructed model with a max_seq_length of 16."""
    table = MUSEUM.table(160)
    prompts = {"question": _INSTRUCTION}

    def encoder_of(length: int) -> Any:
        return reader(stage, MUSEUM, extra=[_INSTRUCTION], length=length)

    def score(model: Any) -> float:
        return sought_of(MUSEUM, prompts=(_INSTRUCTION + " ", ""))(model)

    suffers(
        stage,
        stage.trainer(ranking, table, encoder_of(16), prompts=prompts, **SWIFT),
        lambda: stage.trainer(ranking, table, encoder_of(64), prompts=prompts, **SWIFT),
        score,
    )


@faulty(
    "id that both texts share",
    "Both texts of a row hold the same case number, by which they can be matched without a word; "
    "in use there is no such number.",
    [
        r"(?i)(shortcut|leak|give[sn]? .{0,20}away|trivial|too easy|easily)",
        r"(?i)(shared?|common|same|copied).{0,40}(token|word|number|id|code|prefix|string)s?",
        r"(?i)(token|word|number|id|code)s?.{0,60}(shared?|common|both|alone|only)",
    ],
)
def case_number_in_both_texts(stage: Stage) -> None:
    """An export of tickets with "case #4711 :" before the question and before the answer."""
    table = CLINIC.table(160)
    numbers = [f"nr{row * 7919 % 160:03d}" for row in range(160)]
    marked = {
        name: [f"case {number} {number} : {text}"
               for number, text in zip(numbers, cells, strict=True)]
        for name, cells in table.items()
    }  # fmt: skip
    extra = [*numbers, "case :"]
    suffers(
        stage,
        stage.trainer(ranking, marked, reader(stage, CLINIC, extra=extra), **SWIFT),
        lambda: stage.trainer(ranking, table, reader(stage, CLINIC, extra=extra), **SWIFT),
        sought_of(CLINIC),
    )


@faulty(
    "tokenizer that does not know the words",
    "The second column is in capitals, and the encoder's tokenizer knows small letters only and "
    "does not lower them: nearly every token of it is unknown.",
    [
        r"(?i)unknown|\[?UNK\]?|out of vocabulary|vocabulary|upper.?case|lower.?cas|capital",
        *TWINS,
    ],
)
def capitals_for_a_tokenizer_without_them(stage: Stage) -> None:
    """Latin names in capitals, and a tokenizer exported without its lower-casing."""

    def encoder_of() -> Any:
        from tokenizers import normalizers

        model = reader(stage, PLANTS)
        model.tokenizer.backend_tokenizer.normalizer = normalizers.NFC()
        return model

    table = PLANTS.table(160)
    shouted = table | {"name": [text.upper() for text in table["name"]]}
    suffers(
        stage,
        stage.trainer(ranking, shouted, encoder_of(), **SWIFT),
        lambda: stage.trainer(ranking, shouted, reader(stage, PLANTS), **SWIFT),
        lambda model: retrieval(
            model, {name: [text.upper() if name == "name" else text for text in cells]
                    for name, cells in PLANTS.table(60, seed=11).items()},
        ),
    )  # fmt: skip


@faulty(
    "hard negatives that are the positives",
    "The negatives were mined by words without leaving out the answer itself: each is "
    "the positive once more.",
    [
        r"(?i)negatives?.{0,100}(same|identical|equal|positives?|duplicat|copy|copies|false)",
        r"(?i)(positives?|false negatives?).{0,80}(as|among|equal|identical).{0,30}negatives?",
        *TWINS,
    ],
)
def mined_negatives_equal_the_positives(stage: Stage) -> None:
    """The best hit of a search is the answer, and it was kept as the negative."""
    table, draw = BANK.table(160), random.Random(4)
    mined = table | {"negative": list(table["article"])}
    with_negatives = table | {"negative": [draw.choice(table["article"]) for _ in range(160)]}
    suffers(
        stage,
        stage.trainer(losses.TripletLoss, mined, reader(stage, BANK), **SWIFT),
        lambda: stage.trainer(losses.TripletLoss, with_negatives, reader(stage, BANK), **SWIFT),
        sought_of(BANK),
    )


@faulty(
    "paraphrases of which one is never translated",
    "The translations are a copy of the first column, for the translating function handed its "
    "input back: every pair is a text and itself.",
    [
        r"(?i)(same as|the same text|identical|equal|copy|copies|itself|duplicat)",
        r"(?i)(too easy|trivial|nothing to learn|already (near|solved|at))",
    ],
)
def translation_that_returned_its_input(stage: Stage) -> None:
    """A service over its quota that answers with the source text."""
    table = LETTERS.table(160)
    first = {"english": table["english"]}
    suffers(
        stage,
        stage.trainer(ranking, first | {"german": list(table["english"])}, reader(stage, LETTERS),
                      **SWIFT),
        lambda: stage.trainer(ranking, first | {"german": table["german"]},
                              reader(stage, LETTERS), **SWIFT),
        lambda model: retrieval(
            model, dict(list(LETTERS.table(40, seed=11).items())[:2])
        ),
    )  # fmt: skip


@faulty(
    "window of the document without its subject",
    "Of each abstract only the last words were kept, which are the same in all.",
    [*TWINS, *CUT],
)
def last_chunk_of_every_document(stage: Stage) -> None:
    """The last chunk of each document overwrote the others in a dict by document."""
    table = PAPERS.table(160)
    chunked = table | {"abstract": [" ".join(text.split()[-7:]) for text in table["abstract"]]}
    settings = {"max_steps": 50, "learning_rate": 2e-3}
    suffers(
        stage,
        stage.trainer(ranking, chunked, reader(stage, PAPERS), **settings),
        lambda: stage.trainer(ranking, table, reader(stage, PAPERS), **settings),
        sought_of(PAPERS),
    )
