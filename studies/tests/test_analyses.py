"""The analyses of queues, lengths and edits, each against a loop over its definition."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.stats import rankdata, spearmanr

from gradlab import GradlabError
from gradlab.encoder import Encoder
from gradlab.evaluate import ScoredPairs
from gradlab.train import Queue, decay, get_augmentation
from studies.analyses import edited_similarities, length_bias, spectrum, traceable_distance
from studies.analyses.encoders import LONGEST, embed_ids
from studies.analyses.runs import branch_distance, branch_distances, measured_distances
from tests.tiny_models import make_bert, make_sentences


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return Encoder.load(make_bert(tmp_path_factory.mktemp("bert")))


def rows(count, seed, dimension=12):
    return np.random.default_rng(seed).standard_normal((count, dimension))


@pytest.mark.parametrize(
    ("eta", "k"), [("0.5", 0), ("0.75", 3), ("0.85", 20), ("0.995", 50), ("0", 4)]
)
def test_finite_step_form_against_its_sum_in_exact_fractions(eta, k):
    momentum = Fraction(eta)
    exact = sum((1 - momentum) * momentum**i * (i + 1) for i in range(k + 1))
    # The difference of two terms near (1 - η)^-1 and k + 1 in size.
    tolerance = 4 * np.finfo(float).eps * float(1 / (1 - momentum) + k + 1)
    assert abs(float(branch_distance(float(momentum), k)) - float(exact)) <= tolerance


def test_finite_step_form_goes_to_its_limit():
    distances = branch_distance(0.85, np.array([5, 50, 500]))
    assert np.all(np.diff(distances) > 0)
    assert distances[-1] == pytest.approx(1 / 0.15, rel=1e-14)
    assert traceable_distance(0.85, 512, 64) == pytest.approx(14.67, abs=0.005)  # the paper's best
    assert traceable_distance(0, 160, 64) == 3.5


def average(decays):
    """Weights of the online weights of each step, newest first, in the average."""
    weights = [1.0]
    for momentum in decays:
        weights = [1 - momentum, *(momentum * weight for weight in weights)]
    return weights


def test_distance_of_the_average_against_its_weights():
    decays = [decay(0.75, 0.95, "cosine", step, 40) for step in range(40)]
    distances = branch_distances(decays)
    for updates in (0, 1, 7, 40):
        weights = average(decays[:updates])
        assert math.fsum(weights) == pytest.approx(1)
        expected = math.fsum(weight * (place + 1) for place, weight in enumerate(weights))
        assert distances[updates] == pytest.approx(expected, rel=1e-13)
    constant = branch_distances([0.85] * 9)
    assert constant[9] == pytest.approx(float(branch_distance(0.85, 8)) + 10 * 0.85**9, rel=1e-14)


def test_measured_distance_of_a_real_queue():
    """A queue of 20 rows fed with 6 a step: the mean distance of each row is known.

    The weights that made a row are a weighted sum of those of the steps before it.
    """
    queue = Queue(20, 3, initial=5)
    decays = [decay(0.5, 0.9, "linear", step, 30) for step in range(30)]
    steps: list[int] = []  # the step of each row, newest first, as a plain list
    for step in range(30):
        negatives, ages = queue.negatives()
        distances = measured_distances(ages.numpy(), step, decays)
        expected = [
            step
            - row_step
            + math.fsum(w * (place + 1) for place, w in enumerate(average(decays[:row_step])))
            for row_step in steps
        ]
        # Random vectors stand behind the others for as long as there is room.
        random = min(5, 20 - len(steps))
        assert len(negatives) == len(steps) + random
        np.testing.assert_allclose(distances[: len(steps)], expected, rtol=1e-13)
        assert np.isnan(distances[len(steps) :]).all()
        queue.enqueue(torch.randn(6, 3))
        steps = ([step] * 6 + steps)[:20]
    assert np.isnan(distances).sum() == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: traceable_distance(1.0, 512, 64), "below 1"),
        (lambda: traceable_distance(0.5, 512, 0), "sizes must not be negative"),
        (lambda: branch_distance(0.5, -1), "k must not be negative"),
        (lambda: measured_distances([3], 2, [0.5] * 9), "3 steps old in step 2"),
    ],
)
def test_distances_out_of_range(call, message):
    with pytest.raises(GradlabError, match=message):
        call()


def lengthy_pairs(count, seed):
    generator = np.random.default_rng(seed)
    first, second = make_sentences(count, seed, 12), make_sentences(count, seed + 1, 40)
    return ScoredPairs("set", first, second, generator.uniform(0, 5, count).tolist())


def angle(sentence):
    """Its length in words, and a trifle that keeps pairs from being equally similar."""
    return (len(sentence.split()) + sum(map(ord, sentence)) % 997 / 1e5) / 40


def by_length(sentences):
    """An encoder that knows little but the length."""
    angles = np.array([angle(sentence) for sentence in sentences])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_length_bias_against_a_loop():
    sets = {"a": [lengthy_pairs(120, 1)], "b": [lengthy_pairs(80, 5), lengthy_pairs(40, 9)]}
    bias = length_bias(by_length, sets)
    for place, name in enumerate(sets):
        near, far = [], []
        for pairs in sets[name]:
            for first, second, gold in zip(pairs.first, pairs.second, pairs.gold, strict=True):
                gap = abs(len(first.split()) - len(second.split()))
                (near if gap <= 3 else far).append((math.cos(angle(first) - angle(second)), gold))
        for side, members in (("near", near), ("far", far)):
            expected = spearmanr(*zip(*members, strict=True)).statistic
            assert bias.correlations[side][place] == pytest.approx(expected, abs=1e-12)
            assert bias.correlations[f"{side}_pairs"][place] == len(members)
    assert bias.correlations["set"].tolist() == ["a", "b", "all"]
    assert bias.curve["pairs"].sum() == 240
    assert bias.curve["difference"].max() == LONGEST
    np.testing.assert_allclose(
        bias.curve["cosine"][:-1], np.cos(bias.curve["difference"][:-1] / 40), atol=3e-4
    )
    assert bias.slope < -0.01  # nothing but bias
    chance = length_bias(lambda s: np.random.default_rng(len(s)).standard_normal((len(s), 4)), sets)
    assert abs(chance.slope) < -bias.slope / 3


def test_excess_is_rank_by_cosine_less_rank_by_gold():
    pairs = lengthy_pairs(60, 3)
    bias = length_bias(by_length, {"a": [pairs]})
    sentences = list(zip(pairs.first, pairs.second, strict=True))
    gaps = [abs(len(a.split()) - len(b.split())) for a, b in sentences]
    cosines = [math.cos(angle(a) - angle(b)) for a, b in sentences]
    excess = (rankdata(cosines) - rankdata(pairs.gold)) / 60
    for value, mean in zip(bias.curve["difference"], bias.curve["excess"], strict=True):
        excesses = [e for e, gap in zip(excess, gaps, strict=True) if min(gap, LONGEST) == value]
        assert mean == pytest.approx(np.mean(excesses), abs=1e-11)
    # Ranks cancel over the pairs of a set.
    assert (bias.curve["excess"] * bias.curve["pairs"]).sum() == pytest.approx(0, abs=1e-10)


def test_embedding_ids_is_embedding_sentences(encoder):
    sentences = make_sentences(40, 3)
    ids = [np.array(encoder.tokenizer(sentence)["input_ids"]) for sentence in sentences]
    np.testing.assert_allclose(embed_ids(encoder, ids, 7), encoder.encode(sentences), atol=2e-6)


def test_edits_against_a_loop(encoder):
    sentences = make_sentences(12, 3)
    edits = ["subword_repetition", "random_deletion(rate=0.5)"]
    table = edited_similarities(encoder, sentences, edits, draws=3)
    for place, edit in enumerate(table["edit"]):
        augmentation, generator = get_augmentation(edit), np.random.default_rng(0)
        similar, lengths = [], []
        for _ in range(3):
            for sentence in sentences:
                ids = np.array(encoder.tokenizer(sentence)["input_ids"])
                view = augmentation.ids(ids, generator)
                with torch.no_grad():
                    first, second = (
                        encoder(torch.tensor(tokens)[None], torch.ones(1, len(tokens)))[0].double()
                        for tokens in (ids, view)
                    )
                similar.append(float(torch.nn.functional.cosine_similarity(first, second, dim=0)))
                lengths.append(len(view) - len(ids))
        assert table["similarity"][place] == pytest.approx(np.mean(similar), abs=1e-6)
        assert table["deviation"][place] == pytest.approx(np.std(similar, ddof=1), abs=1e-6)
        assert table["length"][place] == pytest.approx(np.mean(lengths))
    with pytest.raises(GradlabError, match="changes embeddings"):
        edited_similarities(encoder, sentences, ["token_cutoff"])
    with pytest.raises(GradlabError, match="no sentence"):
        edited_similarities(encoder, [])


def test_spectrum_against_eigenvalues():
    vectors = rows(30, 0) + 2
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for centre in (False, True):
        moved = unit - unit.mean(0) if centre else unit
        eigenvalues = np.linalg.eigvalsh(moved.T @ moved)[::-1]
        table = spectrum(vectors, centre=centre)
        np.testing.assert_allclose(table["value"], np.sqrt(eigenvalues), rtol=1e-10)
        np.testing.assert_allclose(
            table["cumulative"], np.cumsum(eigenvalues) / eigenvalues.sum(), rtol=1e-10
        )
        assert table["relative"][0] == 1
        assert table["rank"].tolist() == list(range(1, 13))
    assert (spectrum(vectors)["value"] ** 2).sum() == pytest.approx(30)  # unit rows
