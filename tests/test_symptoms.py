"""The page of symptoms and `gradlab explain` say the same, and find what people write."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import gradlab
from docs.symptom_page import page
from gradlab import diagnosis
from gradlab.diagnosis.symptom_search import features
from gradlab.diagnosis.symptoms import find_symptom, phrases, symptoms
from gradlab.errors import GradlabError
from gradlab.monitor.setting_advice import LEARNING, levers

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


def test_a_symptom_that_fits_nearly_as_well_is_named(shell):
    status, output, _ = shell("explain", "the loss stays the same and the score too")
    assert status == 0
    assert output.startswith("Not sure: this fits best, and next ")
    status, output, _ = shell("explain", "loss", "is", "nan")
    assert status == 0
    assert output.startswith("My loss, or the gradient norm, becomes NaN")


@pytest.mark.parametrize(
    ("text", "notion"),
    [
        ("ndcg@10 0.52 0.49 0.44", "#score down"),
        ("spearman 0.812, loss 1.4; spearman 0.813, loss 0.3", "#score level"),
        ("{'loss': 0.2, 'epoch': 1.0} {'loss': 4.1, 'epoch': 2.0}", "#loss soars"),
        ("'the light is green' and 'the light is not green'", "#twice negated"),
    ],
)
def test_numbers_of_a_log_and_repeated_words_are_notions(text, notion):
    assert notion in features(text)[2]
    assert notion not in features("the loss is 0.2 at rate 1.5")[2]


@pytest.mark.parametrize("words", ["where can I buy a bicycle", "export to ONNX", "zzz"])
def test_words_that_fit_nothing_get_no_confident_answer(words):
    with pytest.raises(GradlabError, match=r"fits .* well; nearest: "):
        find_symptom(words)


def test_every_phrase_describes_symptoms_that_exist():
    named = {name for group in phrases().values() for names in group.values() for name in names}
    assert named == symptoms().keys()


def test_what_the_doctor_finds_leads_to_a_symptom():
    folder = Path(diagnosis.__file__).parent
    code = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    named = set(re.findall(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"', code))
    assert len(named & symptoms().keys()) > 8
    # Words with hyphens in that code that are no symptoms.
    assert named - symptoms().keys() <= {"sentence-transformers", "utf-8"}


def test_explaining_loads_neither_torch_nor_numpy():
    code = (
        "import sys; from gradlab.diagnosis import symptoms; symptoms.symptoms(); "
        "print('torch' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "False"


STOPPED = r"stopped learning|have stopped|near zero|alone|vanished|no (sentence|anchor) learns"
RAISES = r"(raise|higher|larger) (the )?(temperature|τ)"
LOWERS = r"(lower|smaller) (the )?(temperature|τ)"


def advice_on_stopped_anchors():
    """Sentences and rows of tables, of pages and tools, on anchors that learn nothing any more."""
    files = [PAGE.with_name(name) for name in ("which-loss.md", "temperature.md", "watch.md")]
    rooms = Path(gradlab.__file__).parent
    files += [PAGE, rooms / "diagnosis/symptoms.toml", rooms / "inspection/findings.py"]
    for file in files:
        # Texts of Python may go on in the next line.
        text = re.sub(r'"\s+f?"', "", file.read_text(encoding="utf-8"))
        for sentence in re.split(r"(?<=[.;])\s|\n", text):
            if re.search(STOPPED, sentence) and re.search(f"{RAISES}|{LOWERS}", sentence):
                yield file.name, sentence


def test_pages_and_tools_agree_on_the_temperature_of_anchors_that_have_stopped():
    """They say what the settings of InfoNCE say on batches in which all anchors have stopped."""
    ((name, _, raises),) = levers(gradlab.get_loss("infonce"), LEARNING, raises=True)
    assert (name, raises) == ("temperature", True)
    advice = list(advice_on_stopped_anchors())
    assert {file for file, _ in advice} >= {"which-loss.md", "symptoms.md", "findings.py"}
    for file, sentence in advice:
        assert re.search(RAISES, sentence), f"{file}: {sentence}"
        assert not re.search(LOWERS, sentence), f"{file}: {sentence}"


def commands_in_advice():
    """Commands with options or placeholders, in what doctor, report and explain print."""
    package = Path(diagnosis.__file__).parents[1]
    paths = [*package.glob("diagnosis/**/*"), *package.glob("monitor/**/*")]
    paths += [*package.glob("report/**/*"), *package.glob("inspection/findings.py")]
    for path in sorted(path for path in paths if path.suffix in (".py", ".toml", ".html", ".md")):
        # Texts of Python may go on in the next line.
        text = re.sub(r'"\s+f?"', "", path.read_text(encoding="utf-8"))
        for name, words in re.findall(r"gradlab ([a-z]+)((?: (?:--[a-z-]+|[A-Z]{2,}))+)", text):
            yield path.name, name, words.split()


def test_commands_in_advice_have_these_options():
    import click

    from gradlab.cli.commands import cli

    commands = list(commands_in_advice())
    assert len(commands) > 3
    for file, name, words in commands:
        context = click.Context(cli)
        command = cli.get_command(context, name)
        assert command is not None, (file, name)
        context = click.Context(command)
        parser = command.make_parser(context)
        if words[-1].startswith("--") and words[-1] != "--help":
            words = [*words, "VALUE"]  # the option is named without one
        _, remaining, _ = parser.parse_args(list(words))
        assert not [word for word in remaining if word != "VALUE"], (file, name, words)


def test_commands_in_advice_run_on_the_file_that_they_are_about(shell, bert, tmp_path, monkeypatch):
    """With a model, and a file in which a tenth of the texts repeat."""
    from tests.tiny_models import make_sentences

    monkeypatch.chdir(tmp_path)
    sentences = make_sentences(36)
    (tmp_path / "FILE.txt").write_text("\n".join([*sentences, *sentences[:4]]) + "\n")
    places = {"MODEL": str(bert), "FILE": "FILE.txt"}
    ran = set()
    for _, name, words in commands_in_advice():
        if not places.keys() & set(words) or (name, *words) in ran:
            continue
        status, _, error = shell(name, *(places.get(word, word) for word in words))
        assert status == 0, error
        if name == "inspect":
            page = (tmp_path / "inspect" / "inspect.html").read_text(encoding="utf-8")
            assert "Among 40 sentences, 4 texts repeat an earlier one" in page
            clean = ("--output", "clean", "--write-clean", "clean.txt")
            status, _, error = shell(name, *(places.get(w, w) for w in words), *clean)
            assert status == 0, error
            lines = (tmp_path / "clean.txt").read_text(encoding="utf-8").splitlines()
            assert lines == sentences
        ran.add((name, *words))
    assert {"inspect", "doctor"} == {name for name, *_ in ran}


def test_every_symptom_that_advice_names_is_explained(shell):
    package = Path(diagnosis.__file__).parents[1]
    code = "".join(
        path.read_text(encoding="utf-8")
        for path in [*package.glob("monitor/verdicts/*.py"), *package.glob("diagnosis/*.py")]
    )
    named = sorted(set(re.findall(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"', code)) & symptoms().keys())
    for name in named:
        assert find_symptom(name).name == name
    status, output, _ = shell("explain", named[0])
    assert status == 0
    assert "What to do" in output
