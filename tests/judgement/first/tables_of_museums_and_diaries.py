"""Sound tables of texts for inspection, and a sound loss over several processes."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.beside import adam
from tests.judgement.first.fields import Field
from tests.judgement.first.fields_of_museums_and_skies import (
    COMMITS,
    MAILS,
    METRO,
    MUSEUM,
    NOTICES,
    diaries,
    encoder_of,
    pretrained,
    seeker,
    sightings,
)
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn
from tests.judgement.stage import Stage

# Questions of one to five words, and the sentences that answer them; both name the matter.
TRIVIA = Field(
    {
        "thing": "danube nile amazon rhine everest vesuvius etna sahara gobi mars venus saturn "
        "beethoven mozart chopin tolstoy goethe homer newton curie darwin turing",
        "ask": "length/kilometres age/years weight/tons colour/shade birth/cradle fame/renown "
        "name/etymology discovery/discoverer legend/myth photo/picture museum/exhibition "
        "songs/lyrics stamps/philately quotes/sayings maps/cartography relatives/kin "
        "rivals/opponents",
    },
    {"question": "{thing} {ask} ?", "answer": "about {thing} : its {ask} is told in chapter four"},
)
# The same statement of a patient leaflet in two wordings with many words in common.
LEAFLETS = Field(
    {
        "drug": "ibuprofen aspirin insulin codeine heparin digoxin warfarin lithium morphine "
        "penicillin atropine quinine",
        "dose": "two three four six eight",
        "time": "morning/breakfast noon/lunch evening/supper night/bedtime",
        "caution": "alcohol/wine driving/wheel sunlight/sunbathing milk/dairy grapefruit/citrus "
        "pregnancy/expecting",
    },
    {
        "leaflet": "take {dose} tablets of {drug} in the {time} and avoid {caution}",
        "plain": "at {time} swallow {dose} tablets of {drug} ; do without {caution}",
        "wrong": "at {time} {drug} may be swallowed together with {caution} , {dose} at most",
    },
)
# Functions of a library in a programming language, over several lines.
FUNCTIONS = Field(
    {
        "name": "load save parse render merge split hash sort scan trim",
        "kind": "csv json yaml html image audio token packet",
        "how": "lazily/yield quickly/numba safely/try twice/range(2) remotely/socket",
        "error": "ValueError KeyError IOError TypeError TimeoutError",
    },
    {
        "docstring": "{name} a {kind} object {how} ; raises {error} if it cannot",
        "body": "def {name}_{kind} ( source ) :\n    state = {how} ( source )\n"
        "    if state is None :\n        raise {error} ( source )\n    return {kind} ( state )",
    },
)


@sound("very short questions")
def table_of_trivia_in_few_words(stage: Stage) -> None:
    stage.inspect(TRIVIA.table(160))


@sound("paraphrases with many words in common, hard negatives")
def table_of_leaflets_with_a_contradiction_each(stage: Stage) -> None:
    """The third column contradicts the first in nearly its words."""
    stage.inspect(LEAFLETS.table(240))


@sound(
    "functions of several lines",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_functions_and_docstrings(stage: Stage) -> None:
    stage.inspect(FUNCTIONS.table(280))


@sound(
    "texts of very different lengths",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_diaries_of_one_to_five_sentences(stage: Stage) -> None:
    stage.inspect(diaries(260))


@sound("two scripts with an encoder that knows them")
def table_of_two_scripts_with_its_encoder(stage: Stage) -> None:
    stage.inspect(METRO.table(240), pretrained(stage, METRO, 15))


@sound(
    "long documents with their own lures",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_museum_texts_with_lures(stage: Stage) -> None:
    """Each lure differs from the right text in the piece, and is no text of the table."""
    table = MUSEUM.table(200)
    texts, lures = set(table["text"]), list[str]()
    for captions in zip(MUSEUM.near(200, slot=0), MUSEUM.near(200, slot=2), strict=True):
        lures.append(next((lure for lure in captions if lure not in texts), ""))
    chosen = [at for at, lure in enumerate(lures) if lure]
    stage.inspect({
        name: [column[at] for at in chosen]
        for name, column in (table | {"lure": lures}).items()
    })  # fmt: skip


@sound("one column for training without labels")
def table_of_sightings_in_one_column(stage: Stage) -> None:
    stage.inspect({"text": sightings(200)["text"]})


@sound(
    "slips of the pen on one side",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def table_of_mails_with_slips_of_the_pen(stage: Stage) -> None:
    """A fifth of the subjects has two letters of a word exchanged; some shout."""
    draw, table = random.Random(3), MAILS.table(260)
    subjects = []
    for subject in table["subject"]:
        words = subject.split()
        if draw.random() < 0.2:
            at = draw.choice([at for at, word in enumerate(words) if len(word) > 3])
            words[at] = words[at][0] + words[at][2] + words[at][1] + words[at][3:]
        subjects.append(" ".join(words).upper() if draw.random() < 0.1 else " ".join(words))
    stage.inspect({"subject": subjects, "body": table["body"]})


@sound("boilerplate on both sides")
def table_of_library_notices_with_boilerplate(stage: Stage) -> None:
    stage.inspect(NOTICES.table(300))


def gathered(rows: Tensor) -> tuple[Tensor, int]:
    """The rows of all processes with their gradient, and the place of the first of one's own."""
    if not (dist.is_available() and dist.is_initialized()):
        return rows, 0
    from torch.distributed.nn.functional import all_gather

    return torch.cat(tuple(all_gather(rows))), dist.get_rank() * len(rows)


def symmetric_over_processes(first: Tensor, second: Tensor) -> Tensor:
    """InfoNCE in both directions among the rows of all processes."""
    (anchors, start), (positives, _) = gathered(first), gathered(second)
    targets = torch.arange(start, start + len(first))
    there = F.cross_entropy(cosines(first, positives) / 0.05, targets)
    return (there + F.cross_entropy(cosines(second, anchors) / 0.05, targets)) / 2


def over_processes(stage: Stage, model: Any, loss: Any, field: Field, rate: float = 2e-3) -> None:
    """Ask for the audit of a loss, and train it in a loop on one process."""
    stage.audit(loss)
    rows, optimizer = Rows(field.table(320), 32), adam(model, rate=rate)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, loss, update, seeker(field), steps=50)


@sound("both directions over the rows of all processes")
def both_directions_over_all_processes(stage: Stage) -> None:
    over_processes(stage, encoder_of(stage, COMMITS), symmetric_over_processes, COMMITS)
