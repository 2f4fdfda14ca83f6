"""Fields of texts that share most words or letters: misspelt names, and towns with their sights."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.first.rated_fields import Cells, drawn, listed

LETTERS = "abcdefghijklmnopqrstuvwxyz"
_BEGINNINGS = listed(
    "ami beta carbo dexa eno flu gaba halo indo keto levo metro napro oxa pre rami"
)
_MIDDLES = listed("cil dro fen lox mide nol pram quin ride sone tri vast zol")
_ENDINGS = listed("amide azole cillin dine estat formin idone mycin olol oxin prazole sartan")


def misspelt(word: str, draw: random.Random, errors: int) -> str:
    """Return a word with letters left out, doubled, swapped or mistyped."""
    letters = list(word)
    for _ in range(errors):
        at = draw.randrange(len(letters) - 1)
        kind = draw.randrange(4)
        if kind == 0:
            del letters[at]
        elif kind == 1:
            letters.insert(at, letters[at])
        elif kind == 2:
            letters[at], letters[at + 1] = letters[at + 1], letters[at]
        else:
            letters[at] = draw.choice(LETTERS)
    return "".join(letters)


def drug_name(draw: random.Random) -> Cells:
    """A name of a drug by its letters, and how somebody has typed it with four errors."""
    name = draw.choice(_BEGINNINGS) + draw.choice(_MIDDLES) + draw.choice(_ENDINGS)
    return " ".join(name), " ".join(misspelt(name, draw, 4))


def drug_names(count: int, *, held_out: bool = False) -> dict[str, list[Any]]:
    """Typed names and right names."""
    table = drawn(("right", "typed"), drug_name, count, held_out)
    return {"typed": table["typed"], "right": table["right"]}


_TOWNS = listed(
    "arden belmora castrel dunwick elsburg fenholt garrow halden ivory_bay jarrow kestwick lorne "
    "marbury norvale ostrava penrith quillon rosmar stanholm torvik ulmen varna westray yarmouth"
)
_SIGHTS = listed("tower bridge abbey theatre harbour market fountain library mill observatory")
_ASKED = {
    "when was it built": "its first stone was laid in {number}",
    "who designed it": "the plans are by the architect {person}",
    "how high is it": "it measures {number} feet from the ground to its top",
    "what does it cost to enter": "a ticket is sold for {number} coins at the gate",
    "who owns it": "it belongs to the family of {person}",
}
_PERSONS = listed("adler brandt corelli dumas ekwall ferrer grimaldi holst ivanov jansen keller")
_ASIDES = (
    "visitors come by train", "the square is paved with slate", "winters are mild there",
    "a fair is held each june", "the river was moved long ago", "its bells are rung at noon",
)  # fmt: skip


def sight(draw: random.Random) -> Cells:
    """A question about a sight of a town, and a passage of three sentences that answers it."""
    town, building = draw.choice(_TOWNS).replace("_", " "), draw.choice(_SIGHTS)
    asked, answer = draw.choice(list(_ASKED.items()))
    filled = answer.format(number=draw.randint(20, 90), person=draw.choice(_PERSONS))
    aside, extras = draw.sample(_ASIDES, 2)
    return (
        f"the {building} of {town} : {asked} ?",
        f"{aside} . {town} is known for its {building} ; {filled} . {extras} .",
    )


def sights(count: int, *, held_out: bool = False) -> dict[str, list[Any]]:
    return drawn(("question", "passage"), sight, count, held_out)
