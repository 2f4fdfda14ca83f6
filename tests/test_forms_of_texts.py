"""Texts whose form is that of their field, beside texts that were shortened, masked or joined."""

import random
import types

import pytest

from gradlab.data.partner_verdicts import partners
from gradlab.data.words import blanks, is_spaced_wrongly, shares_of_identifiers
from gradlab.diagnosis import form_measurements, shortcut_measurements
from gradlab.diagnosis.shortened_texts import at_the_longest, with_ellipsis

WORDS = "pool view bed staff bar quiet loud cheap near beach lovely breakfast garden".split()  # noqa: SIM905


def sentences(count: int = 60, fewest: int = 4, most: int = 9) -> list[str]:
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(fewest, most))) for _ in range(count)]


def kinds(**columns: list[str]) -> dict[str, list[object]]:
    """Return what `forms` measures of the kinds of texts."""
    observation = types.SimpleNamespace(table_of=lambda _: columns)
    return form_measurements.forms(observation, "", [])["kinds"]  # type: ignore[arg-type,index]


def test_an_ellipsis_shortens_where_texts_have_one_length() -> None:
    texts = sentences()
    assert with_ellipsis([f"{text}..." for text in texts]) == (0.0, "")
    assert with_ellipsis([text[:14] + "..." for text in texts])[0] == 1.0
    assert with_ellipsis([f"{' '.join(text.split()[:4])} …" for text in texts])[0] == 1.0
    assert with_ellipsis([*texts[:30], *(f"{text} [truncated]" for text in texts[30:])])[0] == 0.5
    # A few that are as long as each other are no limit, as many others are longer.
    assert with_ellipsis([*texts, "a bar near...", "a bed near..."]) == (0.0, "")


def test_a_length_cuts_words() -> None:
    texts = sentences(fewest=8, most=9)
    assert at_the_longest([text[:30] for text in texts])[0] > 0.9
    codes = [f"{word} of {other} 10{number}" for number, word in enumerate(WORDS[:6], 10)
             for other in WORDS]  # fmt: skip
    same_length = [text.ljust(24, "0") for text in codes]
    assert at_the_longest(same_length)[0] == 0.0


def test_placeholders_are_many_where_words_are_gone() -> None:
    notes = [f"[NAME] came on [DATE] with {text} and went home" for text in sentences()]
    assert blanks(notes) == (0.0, "")
    assert blanks([f"[place] [topic] {text.split()[0]}" for text in sentences()])[0] == 1.0
    assert blanks([f"query: [OPS] {text.split()[0]}" for text in sentences()]) == (0.0, "")
    assert blanks(["a [[bed]] in [[town]]", "***HOT SALE*** bed"]) == (0.0, "")


def test_addresses_of_words_that_texts_hold_are_texts() -> None:
    texts = sentences()
    addresses = [f"https://a.org/{text.replace(' ', '-')}" for text in texts]
    assert shares_of_identifiers({"text": texts + addresses})["text"] == 0.0
    numbered = [f"https://a.org/doc/{number}" for number in range(60)]
    assert shares_of_identifiers({"text": texts + numbered})["text"] == 0.5


def test_numbers_that_words_foretell_are_texts() -> None:
    names = "one two three four five six seven eight nine".split()  # noqa: SIM905
    drawn = [(a, b, c) for a in range(9) for b in range(9) for c in (0, 4)]
    random.Random(0).shuffle(drawn)
    sums = [f"{a + 1} + 1{b} + 2{c}" for a, b, c in drawn]
    spelt = [f"{names[a]} and ten {names[b]} and twenty {names[c]}" for a, b, c in drawn]
    assert "identifier" in kinds(spelt=spelt, sums=sums[1:] + sums[:1])
    words = [f"{names[a]} first{names[b]} second{names[c]}" for a, b, c in drawn]
    assert "identifier" not in kinds(spelt=words, sums=sums)


@pytest.mark.parametrize(
    "text", ["query: M E G I L N Q H E L H U M", "b ih g b er d r ah n z b ay", "K AE T s IH t s"]
)
def test_signs_of_sounds_and_sequences_are_no_letters_apart(text: str) -> None:
    assert not is_spaced_wrongly(text)


def test_names_that_their_row_explains_are_not_joined() -> None:
    texts = sentences(fewest=4, most=4)
    joined = [text.replace(" ", "_") for text in texts]
    assert kinds(name=joined, text=["x"] * 60)["joined"][1] == 1.0
    assert "joined" not in kinds(name=joined, text=[f"it has a {text}" for text in texts])
    assert "joined" not in kinds(text=["4-amino-5-butylpyridine", "2001-03-21"])


def test_a_record_is_not_wrapped() -> None:
    assert shortcut_measurements._mark_of('{"q": "desk chair", "near": "boston"}') == ""
    assert shortcut_measurements._mark_of('{"text": "a desk chair in boston", "id": "7"}') != ""


def test_a_question_at_the_beginning_of_its_answer_is_no_copy() -> None:
    assert not shortcut_measurements._is_cut(["how", "is", "it"], ["how", "is", "it", "fine"])
    assert shortcut_measurements._is_cut(["how", "is", "it"], ["well", "how", "is", "it"])
    assert not shortcut_measurements._is_cut(["555", "12", "9"], ["1", "555", "12", "9"])


def test_words_of_one_row_tell_no_partners() -> None:
    numbers = {"rows": 160, "told": 0.75, "strangers": 0.3, "matched": 0.3, "between": 0.2,
               "sorted_column": 0}  # fmt: skip
    assert partners(**numbers, recurring=3.0) is not None
    assert partners(**numbers, recurring=0.3) is None


def test_numbers_of_tokens_on_both_sides_are_no_texts() -> None:
    questions = [f"101 {2000 + row} {2100 + row} 2054 {2200 + row} 1029 102" for row in range(40)]
    passages = [f"101 {2000 + row} {2100 + row} {2200 + row} 1012 2003 102" for row in range(40)]
    dates = {"day": [f"2024-03-{row:02}" for row in range(1, 29)],
             "written": [f"{row:02}/03/2024" for row in range(1, 29)]}  # fmt: skip
    shares = shares_of_identifiers({"anchor": questions, "positive": passages})
    assert min(shares.values()) > 0.9
    assert max(shares_of_identifiers(dates).values()) == 0.0


def test_numbers_that_words_foretell_are_texts_and_numbers_of_tokens_are_not() -> None:
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    draw = random.Random(0)
    drawn = [[draw.randrange(10) for _ in range(3)] for _ in range(200)]
    sums = {
        "figures": [f"{first} + {second} - {third}" for first, second, third in drawn],
        "words": [" plus ".join(names[number] for number in row) for row in drawn],
    }
    assert shares_of_identifiers(sums) == {"figures": 0.0, "words": 0.0}
    long = [[draw.randrange(10) for _ in range(9)] for _ in range(200)]
    tokens = {
        "text": [" ".join(names[number] for number in row) for row in long],
        "numbers": [" ".join(str(number + 1000) for number in row) for row in long],
    }
    assert shares_of_identifiers(tokens) == {"text": 0.0, "numbers": 1.0}


def test_a_word_that_is_repeated_at_the_ends_of_all_texts_is_of_a_template() -> None:
    draw = random.Random(0)
    names = [f"{letter}{end}" for letter in "bcdfgh" for end in ("an", "el", "or")]
    cheers = [" ".join([*draw.sample(names, draw.randint(3, 6)), "go go go"]) for _ in range(60)]
    masked = [
        " ".join("word" if draw.random() < 0.5 else draw.choice(names) for _ in range(7))
        for _ in range(60)
    ]
    assert form_measurements._filler(cheers)[3] == 1.0
    assert form_measurements._filler(masked)[3] < 0.5
