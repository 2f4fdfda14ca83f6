"""Mined hard negatives against a search by loops, and what they do to the gradient."""

from __future__ import annotations

import csv
import shlex

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("sentence_transformers")
pytest.importorskip("rensa")

import gradlab
from gradlab.batch import unit_rows as unit
from gradlab.cli.commands import cli
from gradlab.errors import GradlabError
from gradlab.integrations.mining import mine
from tests.sentence_training import columns_of
from tests.tiny_models import make_sentences

COUNT = 30


class WordSums:
    """An encoder: the sum of a random vector a word, so that texts sharing words are similar."""

    def encode(self, texts):
        return np.stack([sum(map(self.of_word, text.casefold().split())) for text in texts])

    def of_word(self, word):
        return np.random.default_rng(list(word.encode())).normal(size=16)


@pytest.fixture(scope="module")
def world():
    """An encoder, anchors, positives, and the cosines of anchors to positives and a corpus.

    Two texts of the corpus are false negatives.
    """
    encoder = WordSums()
    anchors, positives = columns_of(COUNT).values()
    corpus = [*make_sentences(20, seed=7), anchors[3].upper(), positives[4] + "!"]
    texts = [*positives, *corpus]
    mean = unit(encoder.encode(list(dict.fromkeys([*anchors, *texts])))).mean(axis=0)
    rows, candidates = (
        unit(unit(encoder.encode(texts_of_rows)) - mean) for texts_of_rows in (anchors, texts)
    )
    return encoder, anchors, positives, corpus, texts, rows @ candidates.T


def by_loops(cosine, texts, share, count):
    """For each anchor the nearest texts that are at most so similar; None if there are too few."""
    negatives_of_rows = []
    for row in range(COUNT):
        limit = np.inf if share is None else cosine[row, row] - (1 - share) * abs(cosine[row, row])
        order = [
            place
            for place in np.argsort(-cosine[row])
            if texts[place] != texts[row] and cosine[row, place] <= limit
        ]
        negatives_of_rows.append(
            [texts[place] for place in order[:count]] if len(order) >= count else None
        )
    return negatives_of_rows


@pytest.mark.parametrize(("share", "count"), [(0.95, 1), (0.9, 2), (None, 1)])
def test_mined_negatives_are_those_of_a_search_by_loops(world, share, count):
    encoder, anchors, positives, corpus, texts, cosine = world
    mined = mine(encoder, anchors, positives, corpus=corpus, share=share, negatives=count)
    expected = [
        (anchors[row], positives[row], *negatives)
        for row, negatives in enumerate(by_loops(cosine, texts, share, count))
        if negatives is not None
    ]
    choice = next(option for option in mined.choices if option.share == share)
    assert sorted(choice.rows) == sorted(expected)
    assert [option.share for option in mined.choices] == [0.8, 0.9, 0.95, 1.0, None]
    assert len(mined.rows) == len(choice.rows) - choice.false
    if share is None:
        assert choice.false >= 1


def test_the_share_of_the_push_is_the_gradients(world):
    encoder, anchors, positives, corpus, _, _ = world
    datasets = pytest.importorskip("datasets")
    # as somebody may have done, who wants to see none afterwards either
    datasets.disable_progress_bars()
    mined = mine(encoder, anchors, positives, corpus=corpus, share=None, batch_size=64)
    assert datasets.are_progress_bars_disabled()
    datasets.enable_progress_bars()
    choice = mined.choices[-1]
    a, p, n = (unit(encoder.encode(column)) for column in zip(*choice.rows, strict=True))
    components = gradlab.components("infonce", a, p, n)
    push = components.gradient_dissipation[:, None] * components.weight
    assert choice.push == pytest.approx(push[:, len(a) :].sum() / push.sum(), rel=1e-4)


def test_the_command_writes_rows_that_inspect_reads(world, bert, tmp_path):
    _, anchors, positives, corpus, _, _ = world
    with (tmp_path / "pairs.csv").open("w", encoding="latin-1", newline="") as file:
        csv.writer(file).writerows([["q", "a"], *zip(anchors, positives, strict=True)])
    (tmp_path / "more.txt").write_text("\n".join(corpus), encoding="latin-1")
    files = ["--train-file", tmp_path / "pairs.csv", "--column", "q", "--positive-column", "a"]
    files += ["--corpus", tmp_path / "more.txt", "--output", tmp_path / "mined rows.csv"]
    asked = ["--max-length", "16", "--loss", "arccon"]
    asked += ["--set", "margin=0.2", "--set", "temperature=0.1"]
    arguments = ["mine", "--model", bert, *files, "--encoding", "latin-1"]
    arguments += ["--share", 1, "--negatives", 2, *asked]
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exit_code == 0, result.output + str(result.exception)
    with (tmp_path / "mined rows.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["q", "a", "negative_1", "negative_2"]
    assert all(len(set(row[1:])) == 3 for row in rows)
    second_run = CliRunner().invoke(cli, list(map(str, arguments)))
    assert "exists; pass --overwrite" in str(second_run.exception)
    _, *words = shlex.split(result.output.splitlines()[-1])
    assert words[-len(asked) :] == asked
    inspected = CliRunner().invoke(
        cli, [*words, "--batches", "1", "--output", str(tmp_path / "inspect")]
    )
    assert inspected.exit_code == 0, inspected.output + str(inspected.exception)


@pytest.mark.parametrize("setting", [{"pooler": "mean"}, {"max_length": 8}, {"device": "cpu"}])
def test_settings_of_loading_need_a_model_that_is_loaded(world, setting):
    encoder, anchors, positives, *_ = world
    with pytest.raises(GradlabError, match=f"{next(iter(setting))}=.* is loaded already"):
        mine(encoder, anchors, positives, **setting)


class Longer:
    """A cross-encoder to which texts are the more similar to any anchor the longer they are."""

    def __init__(self):
        self.pairs = []

    def predict(self, pairs, show_progress_bar):
        self.pairs += pairs
        return [-1 / len(text) for _, text in pairs]


@pytest.mark.parametrize("count", [1, 2])
def test_a_judge_must_agree(world, count):
    encoder, anchors, positives, corpus, texts, cosine = world
    judge = Longer()
    mined = mine(encoder, anchors, positives, corpus=corpus, negatives=count, judge=judge)
    assert len(set(judge.pairs)) == len(judge.pairs)  # each pair is scored once
    of_texts = -1 / np.array([len(text) for text in texts])
    expected = []
    for row in range(COUNT):
        # Of a negative score, more is less.
        within = of_texts <= of_texts[row] - 0.1 * abs(of_texts[row])
        limit = cosine[row, row] - 0.1 * abs(cosine[row, row])
        near = [at for at in np.argsort(-cosine[row]) if cosine[row, at] <= limit]
        near = [at for at in near if texts[at] != texts[row]][:20]
        chosen = [texts[at] for at in near if within[at]][:count]
        if len(chosen) == count:
            expected.append((anchors[row], positives[row], *chosen))
    choice = next(option for option in mined.choices if option.share == 0.9)
    assert sorted(choice.rows) == sorted(expected)
    assert 0 < len(expected) < COUNT
    alone = mine(encoder, anchors, positives, corpus=corpus, negatives=count)
    without = next(option for option in alone.choices if option.share == 0.9)
    assert without.refused is None
    assert choice.refused == len(set(without.rows) - set(expected)) > 0
    # A model that judges itself refuses nothing.
    itself = mine(encoder, anchors, positives, corpus=corpus, negatives=count, judge=encoder)
    assert [option.refused for option in itself.choices] == [0] * 5


def test_the_command_takes_a_cross_encoder_as_judge(world, bert, tmp_path):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    _, anchors, positives, *_ = world
    cross = tmp_path / "cross"
    AutoModelForSequenceClassification.from_pretrained(bert, num_labels=1).save_pretrained(cross)
    AutoTokenizer.from_pretrained(bert).save_pretrained(cross)
    with (tmp_path / "pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["query", "answer"], *zip(anchors, positives, strict=True)])
    arguments = ["mine", "--model", bert, "--train-file", tmp_path / "pairs.csv", "--share", 1]
    arguments += ["--judge", cross, "--output", tmp_path / "mined.csv"]
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exit_code == 0, result.output + str(result.exception)
    assert "refused by judge" in result.output
    assert "0 does not mean that there are none" in result.output
