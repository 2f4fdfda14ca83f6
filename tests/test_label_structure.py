"""Measurements of tables, classes, targets and translations against definitions of their own."""

from __future__ import annotations

import math
import random
import types

import numpy as np
import pytest
from datasets import Dataset
from sentence_transformers.sentence_transformer.evaluation import TranslationEvaluator
from torch import nn

from gradlab.diagnosis.evaluation_measurements import gold
from gradlab.diagnosis.label_agreement_measurements import met
from gradlab.diagnosis.label_structure_measurements import mixed_classes, ratings, targets
from gradlab.diagnosis.observation import Observation
from gradlab.diagnosis.shortcut_measurements import contained

WORDS = [
    first + second for first in "bdgklmnprst" for second in ("ane", "elu", "iro", "oma", "upi")
]


def measured(check, table, loss=None, **of_trainer):
    """Return what a check measures of a data set, for a loss of this class."""
    trainer = types.SimpleNamespace(
        train_dataset=Dataset.from_dict(table), model=nn.Linear(2, 2), **of_trainer
    )
    observation = Observation(trainer, "", [], {}, [], [], {}, {}, {})
    if check is gold:
        return gold(observation)
    batch = types.SimpleNamespace(loss=loss or type("Loss", (nn.Module,), {})(), labelled=False)
    return check(observation, "", [batch])


def texts(count, seed=0, length=6):
    draw = random.Random(seed)
    return [" ".join(draw.sample(WORDS, length)) for _ in range(count)]


def common(first, second, everything):
    """Return the share of common words of two texts, rare ones more."""
    holders = [set(text.split()) for text in everything]

    def size(words):
        return sum(math.log(1 + len(holders) / sum(word in held for held in holders))
                   for word in words)  # fmt: skip

    first, second = set(first.split()), set(second.split())
    return round(size(first & second) / size(first | second), 9)


def test_anchors_that_stand_in_a_longer_positive():
    positives = [*texts(30, length=8), "one two three", "one two three four", "Elf, twelve! ten"]
    anchors = [" ".join(text.split()[2:5]) for text in positives[:10]]
    anchors += [" ".join(text.split()[:5:2]) for text in positives[10:20]]  # no run of words
    anchors += [" ".join(text.split()[3:5]) for text in positives[20:30]]  # two words
    anchors += ["one two three", "Two, three four?", "even twelve ten"]  # equal, a run, none
    numbers = measured(contained, {"anchor": anchors, "positive": positives})
    assert numbers["cut"] == pytest.approx(11 / 33)
    table = {"anchor": positives, "positive": anchors}
    assert measured(contained, table)["cut"] == 0


@pytest.mark.parametrize("seed", range(3))
def test_classes_of_texts_that_are_no_more_alike_than_others(seed):
    draw = random.Random(seed)
    stems = texts(12, seed)
    sentences, labels = [], []
    for row in range(72):
        stem = row % 12
        sentences.append(" ".join([*stems[stem].split()[:4], *draw.sample(WORDS, 3)]))
        labels.append(stem if stem < 6 else draw.choice([6, 7]))
    numbers = measured(mixed_classes, {"text": sentences, "label": labels})
    ranks, same, chance, nearest = {}, [], [], []
    for row, text in enumerate(sentences):
        shares = {at: common(text, other, sentences) for at, other in enumerate(sentences)
                  if at != row}  # fmt: skip
        own = [at for at in shares if labels[at] == labels[row]]
        far = [shares[at] for at in shares if labels[at] != labels[row]]
        of_row = [sum((size < shares[at]) + (size == shares[at]) / 2 for size in far) / len(far)
                  for at in own]  # fmt: skip
        ranks.setdefault(labels[row], []).append(sum(of_row) / len(of_row))
        first = [at for at in shares if shares[at] == max(shares.values())]
        same.append(sum(at in own for at in first) / len(first))
        chance.append(len(own) / len(shares))
        nearest.append(max(shares.values()) - sum(shares.values()) / len(shares))
    mixed = [label for label, of_class in ranks.items()
             if len(of_class) >= 8 and np.mean(of_class) < 0.52]  # fmt: skip
    unmixed = [rank for label in ranks if label not in mixed for rank in ranks[label]]
    assert numbers == pytest.approx({
        "rows": 72, "classes": 8, "mixed": len(mixed), "unmixed": len(unmixed),
        "share": sum(labels.count(label) for label in mixed) / 72, "alike": np.mean(unmixed),
        "same": np.mean(same), "chance": np.mean(chance), "nearest": np.mean(nearest),
        "rank": np.mean([rank for of_class in ranks.values() for rank in of_class]),
    })  # fmt: skip


def test_classes_of_a_classifier_need_not_be_alike():
    table = {"text": texts(40), "label": [0, 1] * 20}
    assert measured(mixed_classes, table)["rows"] == 40
    assert measured(mixed_classes, table, nn.Linear(2, 2)) is None
    assert measured(mixed_classes, table | {"label": [1] * 40}) is None


def by_distance(sentences, rows):
    """Correlate common words and cosines of all pairs of rows, near and far apart."""
    centred = rows - rows.mean(axis=0)
    count, pairs_by_reach = len(rows), {"near": [], "far": []}
    for first in range(count):
        for second in range(first + 1, count):
            reach = "near" if second - first <= count / 16 else "far"
            if reach == "near" or second - first > count / 2:
                product = centred[first] @ centred[second]
                sizes = np.linalg.norm(centred[first]) * np.linalg.norm(centred[second])
                words = common(sentences[first], sentences[second], sentences)
                pairs_by_reach[reach].append((words, product / sizes))
    near, far = (np.array(pairs).T for pairs in pairs_by_reach.values())
    return {
        "near": pytest.approx(np.corrcoef(*near)[0, 1]),
        "far": pytest.approx(np.corrcoef(*far)[0, 1]),
        "spread": pytest.approx(far[0].std() / near[0].std()),
    }


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_targets_of_several_spaces(parts):
    class MSELoss(nn.Module):
        pass

    draw, sentences = np.random.default_rng(1), texts(240)
    rows = np.concatenate([
        [sum(vectors[WORDS.index(word)] for word in text.split()) for text in chunk]
        for chunk in np.array_split(np.array(sentences), parts)
        for vectors in [draw.normal(size=(len(WORDS), 24))]
    ])  # fmt: skip
    numbers = measured(targets, {"text": sentences, "label": rows.tolist()}, MSELoss())
    assert {name: numbers[name] for name in ("near", "far", "spread")} == by_distance(
        sentences, rows
    )
    assert (numbers["far"] > 0.9 * numbers["near"]) == (parts == 1)


def test_targets_that_other_texts_have_too():
    class MSELoss(nn.Module):
        pass

    rows = np.random.default_rng(0).normal(size=(40, 12))
    sentences = texts(40)
    rows[7], rows[9], rows[20] = rows[3], rows[3] + 1e-6, 0.0
    rows[11:15] = rows[3]
    rows[26] = rows[25]  # a text and its translation
    sentences[9] = " ".join(reversed(sentences[3].split()))  # a mean of word vectors is the same
    table = {"text": sentences, "label": rows.tolist()}
    numbers = measured(targets, table, MSELoss())
    units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    cosines = [units[a] @ units[b] for a in range(40) for b in range(40) if a != b]
    values = np.linalg.svd(units, compute_uv=False)
    shares = values / values.sum()
    assert numbers == {
        "rows": 40, "equal": pytest.approx(7 / 40), "example": [sentences[3], sentences[7]],
        "cosine": pytest.approx(np.mean(cosines)),
        "rank": pytest.approx(np.exp(-(shares * np.log(shares)).sum())),
        **by_distance(sentences, rows),
    }  # fmt: skip
    # Translations of one text rightly have the same target.
    originals = [*sentences]
    for row in (7, 9, *range(11, 15)):
        originals[row] = originals[3]
    translated = {"text": sentences, "original": originals, "label": rows.tolist()}
    assert measured(targets, translated, MSELoss())["equal"] == 0
    assert measured(targets, table) is None
    assert measured(targets, table | {"label": [0.5] * 40}, MSELoss()) is None
    zeros = measured(targets, table | {"label": np.zeros((40, 12)).tolist()}, MSELoss())
    assert zeros["equal"] == 1


def test_translations_beside_their_sources():
    sources = texts(24, length=5)
    draw = random.Random(3)
    targets_of = [" ".join([*text.split()[:3], draw.choice(WORDS), "und"]) for text in sources]
    moved = targets_of[5:] + targets_of[:5]
    table = {"anchor": sources, "positive": targets_of}
    for column in (targets_of, moved):
        evaluator = TranslationEvaluator(sources, column, name="dev")
        (numbers,) = measured(gold, table, evaluator=evaluator)["answers"]
        shares = [[common(first, second, sources + column) for second in column]
                  for first in sources]  # fmt: skip
        far = [[*of_row[:row], *of_row[row + 1 :]] for row, of_row in enumerate(shares)]
        ranks = [sum((size < shares[row][row]) + (size == shares[row][row]) / 2 for size in others)
                 / len(others) for row, others in enumerate(far)]  # fmt: skip
        words = " ".join(sources).split()
        assert numbers == pytest.approx({
            "name": "dev", "kind": "translations", "count": 24, "distinct": 24,
            "rank": np.mean(ranks), "nearest": np.mean([max(o) - np.mean(o) for o in far]),
            "shared": sum(word in " ".join(column).split() for word in words) / len(words),
            "told": numbers["told"], "blank": 0.0, "equal": 0.0,
        })  # fmt: skip
        assert numbers["told"] > 0.95


def test_labels_that_are_those_of_a_text_and_not_of_a_pair():
    class CosineSimilarityLoss(nn.Module):
        pass

    draw = random.Random(1)
    firsts, labels = [text for text in texts(30) for _ in range(4)], []
    for group in range(30):
        values = [draw.random() for _ in range(4)]
        labels += [sum(values) / 4] * 4 if group < 24 else values
    seconds = texts(120, seed=5)
    seconds[0:3] = [seconds[3]] * 3  # one row four times is no group
    table = {"a": firsts, "b": seconds, "label": labels}
    for columns in (table, {"b": seconds, "a": firsts, "label": labels}):
        numbers = measured(ratings, columns, CosineSimilarityLoss())
        groups = {first: [row for row in range(120) if firsts[row] == first] for first in firsts}
        alone = [rows for rows in groups.values() if len({seconds[row] for row in rows}) > 1]
        equal = [rows for rows in alone if len({labels[row] for row in rows}) == 1]
        assert (numbers["groups"], numbers["column"]) == (len(alone), "a")
        assert numbers["averaged"] == pytest.approx(len(equal) / len(alone))
        assert numbers["levels"] == len({labels[rows[0]] for rows in equal}) == 23
    own = measured(ratings, table | {"label": [draw.random() for _ in labels]},
                   CosineSimilarityLoss())  # fmt: skip
    assert own["averaged"] == 0


@pytest.mark.parametrize(
    ("labels", "measured"), [([0, 1, 1, 0], None), ([0.0, 0.2, 0.9, 0.4], {"share": 0.0})]
)
def test_labels_of_two_values_are_not_an_encoders_own_scores(labels, measured):
    observation = types.SimpleNamespace(
        rows_of=lambda _: Dataset.from_dict({"label": labels}), most_rows=99
    )
    assert met(observation, "", [types.SimpleNamespace(met=0.0)]) == measured
