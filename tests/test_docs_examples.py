"""The examples of README and pages run as printed, offline.

They run one after the other, on tiny stand-ins of what they name.

A comment `<!-- example: parsed, REASON -->` before a block of commands says that its options are
checked and it is not run; `<!-- example: fragment -->` before Python that it is a piece of the
reader's own program.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
import shlex
import shutil
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pandas
import pytest
import torch

from gradlab.cli.commands import cli
from gradlab.train import train
from tests.processes import fork_audits
from tests.senteval_folder import make_retrieval, make_senteval
from tests.tiny_models import make_bert, make_roberta, make_sentences
from tests.train_helpers import small_config

pytest.importorskip("sentence_transformers")
torch.set_num_threads(1)
ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    if re.search(r"^```(python|sh)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
)
BLOCK = re.compile(
    r"(?:^<!-- example: (?P<mark>[^>]*?) -->\n\n?)?"
    r"^```(?P<kind>python|sh|toml)\n(?P<text>.*?)^```$",
    flags=re.MULTILINE | re.DOTALL,
)
# Finished runs that a page names.
RUNS = {
    "docs/evaluation.md": ("runs/arccon", "runs/simcse"),
    "docs/analyses.md": ("runs/simcse", "runs/mocose", "runs/esimcse"),
    "docs/watch.md": ("out-1", "out-2", "out-3"),
}
# What installs, and what belongs to other programs.
FOREIGN_PROGRAMS = re.compile(
    r"\.|accelerate|bash|createdb|git|pip|pre-commit|python3?|sphinx-build|torchrun"
)


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """A folder with all that the pages name."""
    folder = tmp_path_factory.mktemp("world")
    make_bert(folder / "bert-base-uncased")
    make_roberta(folder / "roberta-base")
    make_senteval(folder / "SentEval" / "data" / "downstream")
    # With duplicates, for `gradlab inspect`.
    sentences = [*make_sentences(190), *make_sentences(10)]
    for name in ("wiki1m_for_simcse.txt", "sentences.txt"):
        (folder / name).write_text("\n".join(sentences), encoding="utf-8")
    columns = {
        "question": sentences,
        "answer": make_sentences(200, seed=1),
        "wrong": make_sentences(200, seed=2),
    }
    pandas.DataFrame(columns).to_csv(folder / "pairs.csv", index=False)
    scored = {"sentence1": columns["question"], "sentence2": columns["answer"]}
    ratings = [place % 6 for place in range(len(columns["question"]))]
    pandas.DataFrame({**scored, "rating": ratings}).to_csv(folder / "scored.csv", index=False)
    pandas.DataFrame({"text": sentences}).to_csv(folder / "sentences.csv", index=False)
    views = np.random.default_rng(0).normal(size=(2, 64, 16))
    views /= np.linalg.norm(views, axis=2, keepdims=True)
    np.savez(folder / "views.npz", anchors=views[0], positives=views[1])
    for task in ("scifact", "nfcorpus"):
        make_retrieval(folder / "beir" / task, sentences)
    (folder / "my_losses.py").write_text(
        "import torch\n\ndef my_loss(anchors, positives):\n"
        "    return torch.nn.functional.cross_entropy("
        "anchors @ positives.T / 0.05, torch.arange(len(anchors)))\n"
        "loss = my_loss\n"
    )
    (folder / "my_module.py").write_text(
        "def my_paraphrase(sentence, generator):\n    return sentence\n"
    )
    shutil.copytree(ROOT / "studies" / "sweeps", folder / "studies" / "sweeps")
    return folder


@pytest.fixture
def _registries(monkeypatch) -> None:
    """What an example registers is forgotten after its page."""
    for module in ("gradlab.losses.registry", "gradlab.train.augment.registry"):
        registry = importlib.import_module(module)._registry
        registry.names()
        monkeypatch.setattr(registry, "classes", dict(registry.classes))


@pytest.fixture(scope="module")
def run(world, tmp_path_factory) -> Path:
    """The folder of a finished run with a queue and a momentum branch."""
    folder = tmp_path_factory.mktemp("runs")
    settings = {
        "model": str(world / "bert-base-uncased"),
        "train_file": str(world / "sentences.txt"),
        "max_steps": 3,
    }
    settings |= {"eval_every": 1, "diagnostics_every": 1, "queue_size": 32, "momentum": 0.9}
    train(
        small_config(
            "", folder, eval_data=str(world / "SentEval" / "data" / "downstream"), **settings
        )
    )
    return folder / "run"


@pytest.fixture
def _quick(monkeypatch) -> None:
    """Audits are forked, heat maps of the explorer have few cells, batches of curves are small."""
    fork_audits(monkeypatch)
    sizes = {"explorer.heatmap_data.ROWS": 5, "explorer.heatmap_data.COLUMNS": 6,
             "atlas.entries.SENTENCES": 16, "atlas.entries.BATCHES_OF_A_CURVE": 2,
             "atlas.entries.BATCHES_OF_A_PICTURE": 2, "atlas.models.SENTENCES": 8}  # fmt: skip
    for name, size in sizes.items():
        monkeypatch.setattr(f"gradlab.{name}", size)


@pytest.mark.usefixtures("_registries", "_quick")
@pytest.mark.parametrize("page", PAGES)
def test_examples_run_as_printed(page, world, request, tmp_path, monkeypatch):
    place = tmp_path / "here"
    shutil.copytree(world, place)
    for name in RUNS.get(page, ()):
        shutil.copytree(request.getfixturevalue("run"), place / name)
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))
    names: dict[str, object] = {}
    values: dict[str, list[str]] = {}  # of the shell's variables
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in BLOCK.finditer(text):  # the file of a sweep, shown below the command that takes it
        if block["kind"] == "toml":
            name = tomllib.loads(block["text"])["name"]
            (place / f"{name}.toml").write_text(block["text"], encoding="utf-8")
    with warnings.catch_warnings():
        # An encoder as tiny as this one may well show a known failure.
        warnings.simplefilter("ignore")
        for block in BLOCK.finditer(text):
            where = f"{page}, line {text.count(chr(10), 0, block.start('text')) + 1}"
            mark = block["mark"] or ""
            if block["kind"] == "sh":
                for line in commands(block["text"], values):
                    run_command(line, where, parsed=mark.startswith("parsed"))
            elif block["kind"] == "toml":
                continue
            elif ">>>" in block["text"]:
                check_session(block["text"], names, where)
            elif mark == "fragment":
                compile(block["text"], where, "exec")
            else:
                exec(compile(block["text"], where, "exec"), names)
            torch.set_num_threads(1)


def commands(block: str, values: dict[str, list[str]]) -> Iterator[list[str]]:
    """Commands of a block, without comments; assignments to variables are kept in ``values``."""
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if len(words) == 1 and "=" in words[0]:
            name, _, value = words[0].partition("=")
            values[f"${name}"] = shlex.split(value)
        elif words:
            yield [argument for word in words for argument in values.get(word, [word])]


def run_command(words: list[str], where: str, parsed: bool) -> None:
    """Run a command of gradlab or of a study in this process, or check its options alone."""
    program: click.Command = cli
    if words[:2] == ["python", "-m"] and words[2].split(".")[0] == "studies":
        program = importlib.import_module(f"{words[2]}.__main__").command
        words = ["gradlab", *words[3:]]
    elif FOREIGN_PROGRAMS.fullmatch(words[0]):
        if "gradlab" not in words:
            return
        # python -m gradlab, and its launchers
        words, parsed = words[words.index("gradlab") :], True
    assert words[0] == "gradlab", f"{where}: {words[0]}"
    if not parsed:
        with contextlib.redirect_stdout(io.StringIO()):
            program(words[1:], standalone_mode=False)
        return
    command = program
    context, remaining = program.make_context("gradlab", words[1:]), words[1:]
    while isinstance(command, click.Group):
        name, subcommand, remaining = command.resolve_command(context, remaining)
        assert subcommand is not None
        command, context = (
            subcommand,
            subcommand.make_context(name, list(remaining), parent=context),
        )


def check_session(block: str, names: dict[str, object], where: str) -> None:
    """Compare an interactive session with what it prints."""
    runner = doctest.DocTestRunner(verbose=False)
    words: list[str] = []
    test = doctest.DocTestParser().get_doctest(block, names, where, where, 0)
    runner.run(test, out=words.append, clear_globs=False)
    names.update(test.globs)
    assert not runner.failures, "".join(words)
