"""Texts that are cut: shorter within a run, and what the texts of a row lose by it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gradlab.diagnosis.truncation import lost_words
from gradlab.monitor.weights_watch import LENGTH_LEFT, WeightsWatch
from tests.judgement.first.loop_materials import features_of
from tests.judgement.stage import Stage
from tests.tiny_models import WORDS

TEXTS = ["ka ne", "ka ne ro", "ka ne ro mi", "ka ne ro mi so ta", "ka ne ro mi so ta lu ve"]


@pytest.mark.parametrize("limit", [4, 5, 6, 7, 8, 9, 20, 32])
def test_length_is_recorded_where_most_texts_are_cut(tmp_path, limit):
    model = Stage(tmp_path).model(length=16)
    counts = [len(model.tokenizer(text)["input_ids"]) for text in TEXTS]
    most = sum(count >= limit for count in counts) > len(TEXTS) / 2
    watch = WeightsWatch(lambda: [model])
    model.max_seq_length = limit
    embeddings = model(features_of(model, {"text": TEXTS})[0])["sentence_embedding"]
    numbers = watch.record(embeddings.sum(), [embeddings], [], lambda _: None)
    watch.end()
    assert numbers.get(LENGTH_LEFT) == (limit / 16 if most and limit < 16 else None)


def test_encoders_without_a_limit_have_no_length():
    watch = WeightsWatch(lambda: [])
    assert LENGTH_LEFT not in watch.record(1.0, [], [], lambda _: None)


@pytest.mark.parametrize(("limit", "loses"), [(11, True), (12, False)])
def test_a_text_that_is_its_own_view_loses_nothing_if_half_of_it_is_kept(tmp_path, limit, loses):
    texts = [" ".join(WORDS[at : at + 20]) for at in (0, 20, 40)]
    model = Stage(tmp_path).model(length=limit)
    features = features_of(model, {"first": texts, "second": texts})
    observation: Any = SimpleNamespace(
        trainer=SimpleNamespace(model=model),
        batches=[SimpleNamespace(dataset="", columns=features)],
        table_of=lambda _: {"first": texts, "second": texts},
    )
    lost = lost_words(observation, limit)
    assert lost is not None
    assert (lost > 0) == loses
