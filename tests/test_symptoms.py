"""The page of symptoms and `gradlab explain` say the same, and find what people write."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gradlab import diagnosis
from gradlab.diagnosis.symptoms import find_symptom, page, symptoms
from gradlab.errors import GradlabError

PAGE = Path(__file__).resolve().parents[1] / "docs" / "symptoms.md"


def test_the_page_is_made_from_the_data():
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("the loss falls, the score does not", "score-does-not-rise"),
        ("all cosines are above .9", "cosines-above-0-9"),
        ("two GPUs are worse than one", "several-gpus-worse"),
        ("my lora has no effect", "weights-do-not-move"),
    ],
)
def test_what_people_write_finds_its_symptom(words, name):
    assert find_symptom(words).name == name


@pytest.mark.parametrize("words", ["where can I buy a bicycle", "export to ONNX", "zzz"])
def test_words_that_fit_nothing_get_no_confident_answer(words):
    with pytest.raises(GradlabError, match=r"fits .* well; nearest: "):
        find_symptom(words)


def test_what_the_doctor_finds_leads_to_a_symptom():
    folder = Path(diagnosis.__file__).parent
    code = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    named = set(re.findall(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"', code))
    assert len(named & symptoms().keys()) > 8
    # Words with hyphens in that code that are no symptoms.
    assert named - symptoms().keys() <= {"sentence-transformers"}


def test_the_page_is_of_all_symptoms(shell):
    assert "leave the symptom and --json out" in shell("explain", "--markdown", "loss-zero")[2]
    assert "leave the symptom and --json out" in shell("explain", "--markdown", "--json")[2]


def test_explaining_loads_neither_torch_nor_numpy():
    code = (
        "import sys; from gradlab.diagnosis import symptoms; symptoms.symptoms(); "
        "print('torch' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "False"
