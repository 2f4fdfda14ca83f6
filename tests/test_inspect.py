"""Inspection of a corpus, each number against the definition in plain loops."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from importlib import resources

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner

pytest.importorskip("rensa")

import gradlab
from gradlab.batch import unit_rows as unit
from gradlab.batch.check import check_batch
from gradlab.cli.commands import cli
from gradlab.errors import GradlabError
from gradlab.gradient.components_and_autograd import autograd_split
from gradlab.inspection.candidate_pairs import LOOSER, _count
from gradlab.inspection.equal_texts import Groups
from gradlab.inspection.gradient_share import (
    PushTotals,
    measure,
    measure_pairs_together,
    share_of_candidates,
)
from gradlab.inspection.same_meaning import slot_words, state_other_facts
from gradlab.inspection.texts import Texts, prompt_of
from gradlab.inspection.vectors import NEIGHBOURS, Vectors, nearest_pairs
from gradlab.inspection.word_index import WordIndex
from tests.node import run_script
from tests.tiny_models import WORDS, make_sentences

HOSTILE = "<img src=x onerror=alert(1)></script><b>bold</b> & more"


def corpus(count: int, seed: int = 0, length: int = 12) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.sample(WORDS, length)).capitalize() + "." for _ in range(count)]


def planted() -> tuple[list[str], dict[str, list[tuple[int, int]]]]:
    """120 sentences, then copies, shuffled ones, others with another word or another number."""
    texts = corpus(120)
    texts[:5] = [f"{text[:-1]} 17 {place}." for place, text in enumerate(texts[:5])]
    generator, pairs = random.Random(1), {"copy": [], "shuffled": [], "replaced": [], "number": []}
    for row in range(10, 15):
        pairs["copy"].append((row, len(texts)))
        texts.append(texts[row].upper().replace(" ", "  ") + "!")
        words = texts[row + 10][:-1].split()
        pairs["shuffled"].append((row + 10, len(texts)))
        texts.append(" ".join(generator.sample(words, len(words))))
        words = texts[row + 20][:-1].split()
        # Another word each time: one that keeps changing would be a template's.
        words[3] = next(word for word in WORDS[row:] if word not in words)
        pairs["replaced"].append((row + 20, len(texts)))
        texts.append(" ".join(words))
        pairs["number"].append((row - 10, len(texts)))
        texts.append(texts[row - 10].replace("17", "18"))
    return texts, pairs


# Words.


def test_overlap_is_the_weighted_jaccard_index():
    texts, pairs = planted()
    index = WordIndex.build(texts, len(texts))
    assert [len(set(index.group[[a, b]])) for a, b in pairs["copy"]] == [1] * 5
    sets = [set(re.findall(r"\w+", text.casefold())) for text in texts]
    weight = {w: math.log(len(texts) / sum(w in s for s in sets)) for w in set.union(*sets)}
    for a, b in [*pairs["shuffled"], *pairs["replaced"], (40, 41), (50, 60)]:
        shared_weight, total_weight = (
            sum(weight[w] for w in words) for words in (sets[a] & sets[b], sets[a] | sets[b])
        )
        (share,) = index.overlap(index.group[[[a, b]]])
        assert share == pytest.approx(shared_weight / total_weight, rel=1e-12)
    assert np.isnan(index.overlap(index.group[np.array(pairs["number"])])).all()


def test_minhash_misses_no_near_duplicate_that_loops_find():
    texts, _ = planted()
    index = WordIndex.build(texts, len(texts))
    close_pairs = {tuple(pair) for pair in index.close.tolist()}
    groups = range(len(index.first))
    pairs = np.array(list(itertools.combinations(groups, 2)))
    expected = set(map(tuple, pairs[index.overlap(pairs) >= 0.8].tolist()))
    assert len(expected) == 10
    assert expected <= close_pairs  # each is missed with a probability of 3%, at this seed none


def test_templates_state_other_facts():
    """Names that differ on both sides and what templates vary do; spellings, other words do not."""
    towns = [
        f"{first}{last}" for first in ("Ame", "Bru", "Cor", "Dal") for last in ("ton", "vik", "sk")
    ]
    places = [
        f"It lies approximately {{}} of {town} and {{}} of the old harbour." for town in towns
    ]
    sides = [("north", "north-east"), ("south", "east"), ("west", "south"), ("east", "south-west")]
    templates = []
    for number, place in enumerate(places):
        direction, opposite = sides[number % 4], sides[(number + 1 + number // 4) % 4]
        templates += [place.format(*direction), place.format(*opposite)]
    same = [
        *("He met the Rector of a small school.", "He met a rector of the small school."),
        *("The colour of clay is nearly red.", "The color of clay is nearly red."),
        *("Any colour of wool will do here.", "Any color of wool will do here."),
        *("What colour of glass is the best?", "What color of glass is the best?"),
        *("Researchers found a very old bone.", "Scientists found a very old bone."),
    ]
    names = ["She was a painter who lived in Rome.", "She was a painter who lived in Ghent."]
    fillers = [
        "There a rector is chosen by researchers and scientists.",
        "No rector has researchers or scientists.",
    ]
    texts = [*templates, *same, *names, *fillers]
    pairs = np.arange(len(texts) - 2).reshape(-1, 2)
    index = WordIndex.build(texts, len(texts))
    slots = slot_words(pairs, texts)
    assert slots == {"north", "north-east", "south", "east", "west", "south-west"}
    differs = state_other_facts(pairs, index, slots)
    assert differs.tolist() == [True] * len(places) + [False] * 5 + [True]


@pytest.mark.parametrize("seed", range(12))
def test_counts_of_rows_and_places_are_those_of_loops(seed, monkeypatch):
    """Two hard negatives are never pushed apart; what is in several pairs counts once in all."""
    generator = np.random.default_rng(seed)
    monkeypatch.setattr("gradlab.inspection.candidate_pairs._AT_ONCE", [1, 7, 1 << 22][seed % 3])
    count, columns = generator.integers(2, 9), generator.integers(1, 5)
    groups = Groups.of(generator.integers(0, generator.integers(2, 12), size=count * columns))
    group_pairs = [*itertools.combinations_with_replacement(range(len(groups.first)), 2)]
    pairs = generator.permutation(group_pairs)[: generator.integers(1, len(group_pairs) + 1)]
    rows, places, in_all = _count(groups, pairs, count)
    row_pairs, places_of_all = [set() for _ in pairs], set()
    for i, j in itertools.permutations(range(count), 2):
        for column, partner_column in itertools.product(range(columns), repeat=2):
            texts = groups.group.reshape(columns, count)[[column, partner_column], [i, j]].tolist()
            matching_places = [
                place for place, pair in enumerate(pairs) if sorted(texts) == pair.tolist()
            ]
            if matching_places and min(column, partner_column) < 2:
                row_pairs[matching_places[0]].add(frozenset((i, j)))
                hard = (i, j, partner_column) if partner_column > 1 else (j, i, column)
                places_of_all.add(hard if hard[2] > 1 else frozenset((i, j)))
    assert rows.tolist() == [len(shared_rows) for shared_rows in row_pairs]
    assert in_all == len(set().union(*row_pairs))
    assert places.sum() == len(places_of_all)


# Neighbours.


def test_neighbours_are_those_of_exhaustive_search():
    generator = np.random.default_rng(0)
    rows = (generator.normal(size=(600, 40)) + 5).astype(np.float32)
    rows[300:320] = rows[:20] + 0.05 * generator.normal(size=(20, 40))
    neighbours, _, _ = nearest_pairs(Vectors([rows]), np.arange(600), 10_000)
    units = unit(rows.astype(np.float64))
    centred = unit(units - units.mean(0))
    cosines = centred @ centred.T
    np.fill_diagonal(cosines, -2)
    exact = {
        tuple(sorted((i, int(j)))) for i in range(600) for j in np.argsort(-cosines[i])[:NEIGHBOURS]
    }
    first, second = neighbours[["first", "second"]].to_numpy().T
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    assert len(exact & pairs) >= 0.97 * len(exact)
    planted = {(i, 300 + i) for i in range(20)}
    assert set(zip(first[:20], second[:20], strict=True)) == planted
    assert neighbours["cosine"].to_numpy() == pytest.approx(
        (units[first] * units[second]).sum(1), abs=1e-5
    )
    assert neighbours["centred"].to_numpy() == pytest.approx(cosines[first, second], abs=1e-4)
    fewer, _, _ = nearest_pairs(Vectors([rows]), np.arange(600), 20)
    assert set(zip(fewer["first"], fewer["second"], strict=True)) == planted


def test_all_copies_of_an_embedding_are_found():
    """However many of one, by loops over rows; of anchors, positives and two hard negatives."""
    generator, count = np.random.default_rng(0), 60
    same = np.arange(4 * count).reshape(4, count)  # which embedding each text has
    for number in range(3):
        same.ravel()[generator.permutation(same.size)[: 25 + 10 * number]] = number
    rows = generator.normal(size=(same.size, 24))[same]
    embeddings = {"anchors": rows[0], "positives": rows[1], "hard_negatives": [rows[2], rows[3]]}
    inspection = gradlab.find_false_negatives(embeddings=embeddings, batch_size=16, batches=4)
    pairs, triples, of_rows = set(), set(), 0
    for i, j in itertools.product(range(count), range(count)):
        row_copies, partner_copies, hard = set(same[:2, i]), set(same[:2, j]), same[2:, j]
        if i < j and row_copies & partner_copies:
            pairs.add((i, j))
        triples |= {(i, j, column) for column in (1, 2) if hard[column - 1] in row_copies}
        of_rows += i < j and bool(row_copies & set(same[:, j]) or partner_copies & set(same[:, i]))
    assert set(map(tuple, inspection.candidates.to_mask()[0].tolist())) == pairs
    assert set(map(tuple, inspection.candidates.to_mask()[1].tolist())) == triples
    assert set(map(tuple, inspection.candidates.false_negatives.tolist())) == {
        (i, c) for i, j, c in triples if i == j
    }
    assert inspection.numbers["candidate_row_pairs"] == of_rows
    places = inspection.candidates.lines["places"].sum()
    assert places == len(pairs) + sum(i != j for i, j, _ in triples)


@pytest.mark.parametrize("dimensions", [8, 64, 768])
def test_copies_of_another_length_are_found(dimensions):
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(60, dimensions))
    rows[:30] = rows[0] * generator.uniform(0.5, 2, size=(30, 1))
    inspection = gradlab.find_false_negatives(embeddings=rows, batch_size=16, batches=1)
    assert inspection.numbers["candidate_row_pairs"] == 30 * 29 // 2
    assert (inspection.candidates.to_mask()[0] < 30).all()


def test_rows_that_repeat_with_their_positives_count_once():
    """In the share of the push, too, which is that of the pairs in a batch of all rows."""
    views = np.random.default_rng(0).normal(size=(2, 48, 16))
    views[:, 8:16] = views[:, :8]
    embeddings = dict(zip(("anchors", "positives"), views, strict=True))
    numbers = gradlab.find_false_negatives(embeddings=embeddings, batch_size=48, batches=1).numbers
    assert (numbers["candidate_lines"], numbers["candidate_row_pairs"]) == (16, 8)
    components = gradlab.components("infonce", *views, normalize=True)
    push = components.gradient_dissipation[:, None] * components.weight
    copies = sum(push[i, 8 + i] + push[8 + i, i] for i in range(8))
    assert numbers["candidate_share_of_push"] == pytest.approx(copies / push.sum(), rel=1e-5)


def test_an_encoder_that_has_collapsed_says_nothing_of_what_is_near():
    sentences = [*make_sentences(40), *make_sentences(3)]
    inspection = gradlab.find_false_negatives(
        sentences=sentences, embeddings=np.full((43, 7), 0.3), batch_size=8
    )
    rows = inspection.table("candidates")[["first_row", "second_row"]].to_numpy().tolist()
    assert rows == [[row, 40 + row] for row in range(3)]
    assert not inspection.candidates.near.centred.any()


def test_an_equal_share_is_that_of_all_negatives():
    rows = np.random.default_rng(0).normal(size=(4, 32, 8))
    embeddings = {"anchors": rows[0], "positives": rows[1], "hard_negatives": [*rows[2:]]}
    loss = "infonce(temperature=1e6)"  # which tells no negatives apart
    inspection = gradlab.find_false_negatives(embeddings=embeddings, batch_size=8, loss=loss)
    equal = inspection.numbers["pair_share_on_average"]
    assert equal == pytest.approx(inspection.numbers["temperatures"][1]["hardest_share"], rel=1e-4)
    assert inspection.table("hard-negatives")["share"].to_numpy() == pytest.approx(equal, rel=1e-4)


# Push.


def naive_push(loss, views):
    """GD W of every pair by loops over the declared components."""
    components = loss.components_of(views)
    n = len(views.anchors)
    push = np.zeros((n, n + (0 if views.extra_negatives is None else len(views.extra_negatives))))
    for i, j in itertools.product(range(n), range(push.shape[1])):
        push[i, j] = max(components.gradient_dissipation[i] * components.weight[i, j], 0)
    return push


def batches_of(generator, count, size, columns=2, dim=12):
    rows = unit(generator.normal(size=(columns, count, dim)))
    rows[1] = unit(rows[0] + 0.3 * rows[1])
    for _ in range(4):
        drawn_rows = generator.permutation(count)[:size]
        extra = rows[2, drawn_rows] if columns > 2 else None
        yield drawn_rows, check_batch(rows[0, drawn_rows], rows[1, drawn_rows], extra)


@pytest.mark.parametrize("name", ["infonce", "mpt", "siglip", "mhe", "barlow_twins"])
def test_totals_are_sums_over_batches(name):
    loss, count = gradlab.get_loss(name), 20
    totals = PushTotals(count)
    received, sent, squared, times_met = np.zeros((4, count))
    pairs = []
    for rows, views in batches_of(np.random.default_rng(3), count, 8):
        push = naive_push(loss, views)
        totals.add(rows, measure(loss, views))
        times_met[rows] += 1
        for i, j in itertools.product(range(8), range(8)):
            received[rows[j]] += push[i, j]
            squared[rows[j]] += push[i, j] ** 2
            sent[rows[i]] += push[i, j]
            if push[i, j] > 0:
                pairs.append((push[i, j], rows[i], rows[j]))
    largest = max(1.0, received.max())
    assert totals.received == pytest.approx(received, abs=1e-12 * largest)
    assert totals.sent == pytest.approx(sent, abs=1e-12 * largest)
    assert totals.by_angle.sum() == pytest.approx(received.sum(), rel=1e-12)
    assert np.array_equal(totals.times_met, times_met)
    hub = received > 0
    assert totals.pushers[hub] == pytest.approx(received[hub] ** 2 / squared[hub], rel=1e-9)
    best = {}
    for push, i, j in pairs:
        best[i, j] = max(push, best.get((i, j), 0))
    top = totals.strongest.head(5)
    assert top["push"].to_numpy() == pytest.approx(
        sorted(best.values(), reverse=True)[:5], rel=1e-12
    )


def test_push_of_a_pair_is_autograds_derivative():
    _, views = next(batches_of(np.random.default_rng(0), 20, 8, columns=3))
    torch_views = check_batch(
        *(
            torch.from_numpy(rows)
            for rows in (views.anchors, views.positives, views.extra_negatives)
        )
    )
    derivative, pull = autograd_split("infonce", torch_views.positive, torch_views.other_view)
    measured = measure(gradlab.get_loss("infonce"), views)
    expected = np.nan_to_num(derivative.numpy())
    assert measured.push == pytest.approx(expected, abs=1e-12 * max(1, expected.max()))
    assert measured.pull == pytest.approx(pull.numpy(), abs=1e-12 * max(1, expected.max()))


def test_push_above_a_cosine():
    rows = np.random.default_rng(0).normal(size=(64, 6))
    inspection = gradlab.inspect(embeddings=rows, batch_size=64, batches=1)
    units = unit(rows)
    push = naive_push(gradlab.get_loss("infonce"), check_batch(units, units))
    cosine = units @ units.T
    np.fill_diagonal(cosine, -1)
    # Of cosines of float32 rows, over the temperature.
    rounding = 4 * np.finfo(np.float32).eps / 0.05
    for level in (0.2, 0.5, 0.8):
        low, high = (
            push[cosine > math.cos(math.acos(level) + step)].sum() for step in (-0.002, 0.002)
        )
        assert low <= inspection.push_above(level) * push.sum() * (1 + rounding)
        assert inspection.push_above(level) * push.sum() <= high * (1 + rounding)


def test_share_of_candidates_is_the_share_in_random_batches():
    """The estimate from made meetings against all batches that there are."""
    generator = np.random.default_rng(5)
    count, size = 9, 4
    anchors, positives = unit(generator.normal(size=(2, count, 6)))
    positives = unit(anchors + 0.5 * positives)
    pairs = np.array([(0, 4), (1, 5)])
    anchors[pairs[:, 1]], positives[pairs[:, 1]] = anchors[pairs[:, 0]], positives[pairs[:, 0]]
    loss = gradlab.get_loss("infonce", temperature=0.2)

    def look(rows):
        return measure(loss, check_batch(anchors[rows], positives[rows]))

    totals, of_pairs, of_all = PushTotals(count), 0.0, 0.0
    for chosen in itertools.combinations(range(count), size):
        rows = np.array(chosen)
        batch = look(rows)
        totals.add(rows, batch)
        met = (np.abs(rows[:, None] - rows) == 4) & (np.minimum(rows[:, None], rows) < 2)
        of_pairs += batch.push[met].sum()
        of_all += batch.push.sum()
    truth = of_pairs / of_all
    lines = pd.DataFrame(np.tile(pairs, (100, 1)), columns=["first", "second"])
    lines = lines.join(measure_pairs_together(lines, count, size, generator, look)).assign(
        places=1 / 100
    )
    share, error = share_of_candidates(lines, totals, size)
    assert abs(share - truth) < 5 * error
    assert error < 0.05 * truth  # and so it is no test of nothing


# The whole.


def test_planted_pairs_are_found_and_reported(bert, tmp_path):
    texts, pairs = planted()
    inspection = gradlab.inspect(bert, texts, batch_size=16, batches=4)
    table = inspection.table("candidates")
    lines = {tuple(sorted(pair)) for pair in table[["first_row", "second_row"]].to_numpy().tolist()}
    for kind in ("copy", "shuffled", "replaced"):
        assert {tuple(pair) for pair in pairs[kind]} <= lines
    assert not {tuple(pair) for pair in pairs["number"]} & lines
    assert set(table["kind"]) >= {"duplicate", "near_duplicate"}
    assert table["push_when_met"].notna().all()
    assert inspection.numbers["duplicates"] == 5
    repeated = gradlab.inspect(bert, texts, batch_size=16, batches=4)
    for name in ("candidates", "pairs", "sentences", "neighbours"):
        assert inspection.table(name).equals(repeated.table(name)), name
    written = inspection.write(tmp_path / "out")
    assert {path.name for path in written} >= {"candidates.csv", "mask.txt", "inspect.html"}
    rows, *masked = (tmp_path / "out/mask.txt").read_text().splitlines()
    assert rows == f"# rows: {len(texts)}"
    masked = [tuple(map(int, line.split(","))) for line in masked]
    assert set(masked) == lines
    assert all(first < second for first, second in masked)


@pytest.mark.parametrize("alike", [0.0, 20.0])
def test_words_and_embedding_together_find_what_neither_does_alone(alike):
    """Also where all embeddings are alike, as those of an encoder that was never tuned."""
    texts = corpus(600, length=12)
    rows = np.random.default_rng(0).normal(size=(600, 32))
    for row, word in enumerate(
        ["one", "other", "few", "more", "many", "most", "such", "same", "own", "only"]
    ):
        texts[100 + row] = " ".join([*texts[row][:-1].split()[:-1], f"{word}s."])
        if row < 5:  # the other five have the words alone
            rows[100 + row] = rows[row] + 0.02
    rows[200:205] = rows[20:25] + 0.02  # these the embedding alone
    rows += alike
    index = WordIndex.build(texts, len(texts))
    shares = index.overlap(np.array([[row, 100 + row] for row in range(10)]))
    assert all(0.7 < share < 0.9 for share in shares)
    overlap = max(shares) + 0.01
    assert min(shares) > overlap - LOOSER
    inspection = gradlab.inspect(sentences=texts, embeddings=rows, batches=1, overlap=overlap)
    table = inspection.table("candidates")
    assert {*zip(table["first_row"], table["second_row"], table["kind"], strict=True)} == {
        (row, 100 + row, "neighbour") for row in range(5)
    }
    centred = unit(unit(rows) - unit(rows).mean(0))
    cosines = (centred @ centred.T)[np.triu_indices(600, 1)]
    # Of 200,000 draws among 179,700 pairs.
    low, high = np.quantile(cosines, [1 - 3e-4, 1 - 3e-5])
    assert low <= inspection.numbers["neighbours_from"] <= high


def test_html_in_sentences_stays_text(bert, tmp_path):
    texts = [*corpus(20), HOSTILE, HOSTILE]
    gradlab.inspect(bert, texts, batch_size=8, batches=2).write(tmp_path)
    page = (tmp_path / "inspect.html").read_text()
    assert "<img" not in page
    assert "<b>bold" not in page
    assert page.count("</script>") == 2  # the page's own
    data = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL
    ).group(1)
    page_data = json.loads(data)
    assert page_data[0]["rows"][0][1] == ["row 20", HOSTILE]
    assert page_data[0]["rows"][0][2] == ["row 21", HOSTILE]
    assert "http" not in page.replace("http-equiv", "")


NOISE = np.random.default_rng(0).normal(size=(20, 16))
BAD = [
    ({"sentences": ["one"]}, "at least two"),
    ({"sentences": ["a", "b"], "hard_negatives": ["c", "d"]}, "hard negatives need positives"),
    (
        {"embeddings": {"anchors": np.ones((2, 3)), "positives": np.ones((2, 4))}},
        "all of one shape",
    ),
    ({"embeddings": np.eye(3) * np.array([1, 0, 1])[:, None]}, "zero or not finite"),
    ({"embeddings": np.ones((9, 1)) * np.linspace(-0.7, 0.9, 5)}, "all 9 embeddings are equal"),
    ({"embeddings": 1 + 1e-8 * NOISE}, "all 20 embeddings are equal"),
    ({"embeddings": 1 + 1e-6 * NOISE}, "all 20 embeddings are equal"),
    (
        {"embeddings": np.linspace(0.1, 3, 9)[:, None] * np.linspace(-0.7, 0.9, 5)},
        "all 9 embeddings are equal",
    ),
    ({"embeddings": np.eye(3), "cosine": 2.0}, "cosine must lie"),
    ({}, "give a model, or embeddings"),
    ({"model": object(), "sentences": ["a", "b"]}, "embeddings=model.encode"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_input(options, message):
    with pytest.raises(GradlabError, match=message):
        gradlab.inspect(**options)


# The command.


def run(*arguments, command="inspect"):
    return CliRunner().invoke(cli, [command, *map(str, arguments)])


def test_the_command_reads_files_and_arrays(bert, tmp_path):
    file = tmp_path / "triples.tsv"
    anchors, positives, negatives = corpus(20, 1), corpus(20, 2), corpus(20, 3)
    lines = [
        "q\ta\tn",
        *("\t".join(row) for row in zip(anchors, positives, negatives, strict=True)),
    ]
    file.write_text("\n".join([*lines, lines[1]]) + "\n", encoding="utf-8")
    columns = ["--column", "q", "--positive-column", "a", "--negative-columns", "n"]
    output = tmp_path / "out"
    command_line = ["--model", bert, "--train-file", file, *columns]
    command_line += ["--batch-size", 10, "--output", output]
    result = run(*command_line)
    assert result.exit_code == 0, result.output
    assert (output / "mask.txt").read_text() == "# rows: 21\n0,20\n"
    assert (output / "hard-negatives.csv").is_file()
    assert "exists and was not made with these settings" in str(
        run(*command_line, "--seed", 1).exception
    )
    assert run(*command_line).exit_code == 0
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32))
    command_line = ["--embeddings", tmp_path / "rows.npy", "--loss", "mpt"]
    command_line += ["--output", tmp_path / "arrays"]
    assert run(*command_line).exit_code == 0
    assert not (tmp_path / "arrays/mask.txt").exists()


def test_texts_that_the_model_reads_in_part_are_counted(bert):
    """Two texts differ only behind the cut; two others are short."""
    beginnings = corpus(20, length=12)
    texts = [*beginnings, beginnings[0][:-1] + " melo.", "One."]
    inspection = gradlab.inspect(bert, texts, batch_size=8, batches=2, max_length=8)
    numbers = inspection.numbers
    assert (numbers["cut"], numbers["alike_when_cut"], numbers["max_length"]) == (21, 1, 8)
    assert numbers["cut_share"] == pytest.approx(21 / 22)
    by_name = {verdict.name: verdict.finding for verdict in inspection.advice}
    assert "95% of the texts (21) are longer than 8 tokens" in by_name["texts cut"]
    assert (
        "1 text begins as an earlier one does and differs only behind the 8 tokens"
        in by_name["texts alike when cut"]
    )
    whole = gradlab.inspect(bert, texts, batch_size=8, batches=2)
    assert whole.numbers["cut"] == 0
    assert whole.numbers["max_length"] == 64


def test_sortable_columns_say_how_they_are_sorted():
    source = (resources.files("gradlab.inspection") / "templates" / "inspect.js").read_text("utf-8")
    heading = re.search(r"^function heading.*?^}", source, re.DOTALL | re.MULTILINE)[0]
    script = """
        const state = { column: 1, descending: true };
        const element = (name, text, attributes) => ({ attributes, append() {},
          addEventListener() {} });
        const list = { headings: ["a", "b", "c"], text: [true, false, false] };
        const sorts = () => list.headings.map((_, i) => heading(list, i).attributes["aria-sort"]);
        const before = sorts();
        state.descending = false;
        console.log(JSON.stringify([before, sorts()]));
    """
    assert json.loads(run_script(heading + script)) == [
        ["none", "descending", "none"],
        ["none", "ascending", "none"],
    ]


def test_texts_that_differ_only_in_the_prompt_of_their_column_are_counted():
    texts = corpus(20)
    anchors = [f"query: {text}" for text in texts]
    positives = [f"passage: {text}" for text in [*texts[:3], *corpus(17, 1)]]
    vectors = np.random.default_rng(0).normal(size=(40, 6))
    inspection = gradlab.inspect(None, anchors, positives=positives, embeddings=vectors, batches=2)
    assert inspection.texts.prompts == {"sentence": "query:", "positive": "passage:"}
    assert inspection.numbers["alike_behind_prompts"] == 3
    (prompts,) = (v for v in inspection.advice if v.name == "texts alike behind prompts")
    assert "“passage:”, “query:”). Behind that, 3 texts repeat another one" in prompts.finding
    plain = gradlab.inspect(None, texts, embeddings=vectors[:20], batches=2)
    assert plain.numbers["alike_behind_prompts"] == 0
    assert plain.texts.prompts == {}
    assert prompt_of(["a b"] * 9) == ""
    assert prompt_of(["a bc", "a bd"]) == ""
    # A text with the prompt of one column stands in another one, which has none.
    table = Texts(anchors, [anchors[0], *corpus(19, 1)])
    assert (table.prompts, table.alike_behind_prompts) == ({"sentence": "query:"}, 0)


def test_a_loss_given_as_code_has_a_share_of_its_gradient_alive(tmp_path):
    """That of the loss by name, not the total push, which carries 1/N and 1/τ."""
    rows = np.random.default_rng(0).normal(size=(2, 24, 16))
    embeddings = dict(
        zip(("anchors", "positives"), (unit(rows[0]), unit(rows.sum(0))), strict=True)
    )

    def code(anchors, positives):
        return torch.nn.functional.cross_entropy(
            anchors @ positives.T / 0.05, torch.arange(len(anchors))
        )

    by_name, by_code = (
        gradlab.find_false_negatives(embeddings=embeddings, batch_size=12, loss=loss)
        for loss in ("infonce", code)
    )
    for number in ("gradient_dissipation", "closed", "hardest_share"):
        assert by_code.numbers[number] == pytest.approx(by_name.numbers[number], rel=1e-6)
    by_code.write(tmp_path)
    record = json.loads((tmp_path / "inspect.json").read_text(encoding="utf-8"))
    assert record["format"] == 2
    assert 0 < record["results"]["gradient_dissipation"] < 1
    assert "dissipation" not in record["results"]


def test_a_sentence_transformer_embeds_the_texts_itself(tmp_path):
    pytest.importorskip("sentence_transformers")
    from tests.judgement.stage import Stage, pairs

    model, table = Stage(tmp_path).model(), pairs(40)
    own = {"positives": table["positive"], "batch_size": 8, "progress": False}
    inspection = gradlab.inspect(model, table["anchor"], **own)
    rows = np.concatenate(
        [model.encode(texts, show_progress_bar=False) for texts in table.values()]
    )
    embedded = gradlab.inspect(None, table["anchor"], embeddings=rows, **own)
    assert repr(inspection.numbers) == repr(embedded.numbers)
