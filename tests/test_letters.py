"""Words of the scripts of the world, and what is measured of their texts."""

import pytest

from gradlab.data.letters import size_of, sounds_of
from gradlab.data.words import blanks, broken, is_spaced_wrongly, words_of
from gradlab.diagnosis import form_measurements, shortcut_measurements, shortened_texts
from gradlab.inspection.same_meaning import looks_like_a_positive
from gradlab.inspection.texts import normalize


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("བོད་ཡིག་གི།", ["བོད", "ཡིག", "གི"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
        ("မြန်မာ။", ["မြ", "န်", "မာ"]),
        ("ދިވެހި ބަސް", ["ދިވެހި", "ބަސް"]),
        ("ߒߞߏ ߞߊ߲", ["ߒߞߏ", "ߞߊ߲"]),
        ("⠓⠑⠇⠇⠕⠀⠺", ["⠓⠑⠇⠇⠕", "⠺"]),
        ("中文", ["中", "文"]),
        ("❤️ 👩\u200d💻 hi", ["hi"]),
    ],
)
def test_marks_are_of_their_word(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_sentences_that_differ_in_a_vowel_are_not_the_same() -> None:
    assert normalize("वह जाता है") != normalize("वह जाती है")
    assert normalize("ಇದು ಮನೆ.") == normalize("ಇದು ಮನೆ")


def test_texts_without_spaces_have_lost_none() -> None:
    assert not is_spaced_wrongly("ལྷ་ས་ནང་ཞོགས་པ་འབྲས་ག་པར་ཉོ་རྒྱུ་ཡོད་རེད།")
    assert not is_spaced_wrongly("ꦲꦶꦁꦪꦺꦴꦒꦾꦏꦂꦠꦲꦺꦱꦸꦏ꧀ꦠꦸꦏꦸꦧꦼꦫꦱ꧀꧉")
    assert is_spaced_wrongly("whereinthecitycanonebuyricetoday")


def test_a_conjunction_behind_a_hyphen_breaks_no_word() -> None:
    whole = ["Kauppa on auki."] * 20
    assert broken([*whole, *["Liha- ja kalatiski", "Kesä- ja talviaika"] * 5])[0] == 0
    share, word = broken([*whole, "infor- mation", "docu- ments", "num- bers", "let- ters"])
    assert (share, word) == (pytest.approx(4 / 24), "infor- mation")


def test_words_in_brackets_are_no_placeholders() -> None:
    assert blanks([f"[ka{a}{b}a]" for a in "lmnt" for b in "prst"])[0] == 0
    assert blanks(["Dear [name] we", "To [name] of", "On [date] met"] * 8)[0] == 1


def test_syllables_are_spelt_out() -> None:
    assert sounds_of("한국") == 6
    assert sounds_of("መጽሐፍ") == 8
    assert sounds_of("école") == 5
    assert size_of(words_of("你好 ok ดี")) == 6 + 6 + 10 + 3


def test_maltese_words_are_no_pieces() -> None:
    share = form_measurements.KINDS["piece"]
    assert share(["Ġorġ mar il-Belt.", "Ċertament li iva."])[0] == 0
    assert share(["Ġthe Ġcat Ġs at", "the ##re"])[0] == 1


def test_an_ellipsis_of_texts_of_all_lengths_cuts_none_off() -> None:
    share = form_measurements.KINDS["ellipsis"]
    said = ["Well…", "Perhaps we should go home now…", "No.", "It is late, and they will not come."]
    assert share(said * 8)[0] == 0
    cut = [f"The story of number {n} goes on and on..." for n in range(10, 26)]
    assert share([*cut, *["It ends here."] * 16])[0] == 0.5
    assert share(["A part of it [read more]", "All of it."])[0] == 0.5


def test_question_marks_in_scripts_without_spaces_are_no_lost_letters() -> None:
    share = form_measurements.KINDS["lost"]
    assert share(["你好吗?我很好", "ไปไหน?ไปตลาด"])[0] == 0
    assert share(["caf? and na?ve"])[0] == 1


def test_texts_end_with_the_marks_of_their_script() -> None:
    for text in ("नमस्ते।", "مرحبا؟", "ሰላም።", "Է։", "« Oui »", "བོད།", "End.", "so;"):
        assert shortened_texts._ends(text)
    for text in ("and then,", "half of it", "50%"):
        assert not shortened_texts._ends(text)


def test_an_opening_of_signs_is_as_long_as_one_of_words() -> None:
    assert shortcut_measurements._opening("สวัสดีครับ") == ()
    assert len(shortcut_measurements._opening("one two three four five six seven eight")) == 7


def test_a_negation_states_the_opposite() -> None:
    assert not looks_like_a_positive(
        "магазин не открыт утром рано", "когда открыт магазин", "магазин открыт утром рано"
    )
