"""Sound set-ups of trainers by their data, temperatures and encoders."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.reported_encoders import (
    decoder,
    graded,
    ranking,
    static,
    tuned,
)
from tests.judgement.stage import (
    WORDS,
    Stage,
    facts,
    pairs,
    triplets,
)
from tests.judgement.truth import alike, among_alike, learns, retrieval
from tests.sentence_training import losses
from tests.tiny_models import make_bert


@sound("data")
def triplets_from_a_stream(stage: Stage) -> None:
    from datasets import Features, IterableDataset, Value

    table = triplets(640)
    features = Features({name: Value("string") for name in table})

    def rows() -> Iterator[dict[str, str]]:
        for cells in zip(*table.values(), strict=True):
            yield dict(zip(table, cells, strict=True))

    plain = stage.trainer(ranking, table)
    stream: Any = IterableDataset.from_generator(rows, features=features).shuffle(
        seed=1, buffer_size=200
    )
    learns(
        stage,
        type(plain)(
            model=plain.model, args=plain.args, train_dataset=stream, loss=ranking(plain.model)
        ),
        among_alike,
    )


@sound("data")
def two_data_sets_with_a_loss_each(stage: Stage) -> None:
    """Pairs for a ranking, and graded pairs for CoSENT."""
    from datasets import Dataset, DatasetDict

    plain = stage.trainer(ranking, pairs(), multi_dataset_batch_sampler="round_robin", max_steps=80)
    rows: Any = DatasetDict(
        {"answers": Dataset.from_dict(pairs()), "grades": Dataset.from_dict(graded())}
    )
    model = plain.model
    learns(
        stage,
        type(plain)(
            model=model,
            args=plain.args,
            train_dataset=rows,
            loss={"answers": ranking(model), "grades": losses.CoSENTLoss(model)},
        ),
        among_alike,
    )


@sound("data")
def keywords_of_two_words(stage: Stage) -> None:
    """Both sides are very short: a thing and a place, in another order."""
    made = facts(200)
    table = {
        "query": [f"{topic} {place}" for _, topic, place, *_ in made],
        "title": [f"{place} {near} {topic}" for _, topic, place, near, *_ in made],
    }
    learns(stage, stage.trainer(ranking, table, max_steps=60), among_alike)


@sound("data")
def letters_of_another_alphabet(stage: Stage) -> None:
    """Cyrillic texts, and a vocabulary made for them."""
    folder = make_bert(stage.folder / "cyrillic")
    file = folder / "tokenizer.json"
    file.write_text(_cyrillic(file.read_text(encoding="utf-8"), quoted=True), encoding="utf-8")
    columns = [{name: [_cyrillic(text) for text in cells] for name, cells in table.items()}
               for table in (pairs(), alike())]  # fmt: skip
    model = stage.model(bert=folder)
    learns(stage, stage.trainer(ranking, columns[0], model), lambda m: retrieval(m, columns[1]))


def _cyrillic(text: str, *, quoted: bool = False) -> str:
    """The made-up words of a text, or of a vocabulary, in Cyrillic letters."""
    import re

    letters = str.maketrans("abdefgiklmnoprstuvz", "абдефгиклмнопрстувз")
    known = set(WORDS)
    pattern = r'(?<=")(##)?[a-z]+(?=":)' if quoted else r"[a-z]+"
    return re.sub(
        pattern,
        lambda match: (
            match[0].translate(letters)
            if not quoted or match[0] in known or match[0].startswith("##")
            else match[0]
        ),
        text,
    )


@sound("data")
def the_same_text_in_both_columns(stage: Stage) -> None:
    """Unsupervised SimCSE: dropout makes the two views differ."""
    texts = [text for column in pairs(200).values() for text in column]
    random.Random(0).shuffle(texts)
    learns(
        stage,
        stage.trainer(ranking, {"first": texts, "second": texts}, learning_rate=1e-3, max_steps=80),
        among_alike,
    )


@sound("temperature")
def scale_of_a_hundred(stage: Stage) -> None:
    """The temperature 0.01 of E5 and others."""
    learns(stage, stage.trainer(lambda model: ranking(model, scale=100.0), pairs()), among_alike)


@sound("temperature")
def dot_products_with_a_scale_of_one(stage: Stage) -> None:
    from sentence_transformers.util import dot_score

    def loss(model: Any) -> Any:
        return ranking(model, scale=1.0, similarity_fct=dot_score)

    learns(stage, stage.trainer(loss, pairs(), max_steps=60), among_alike)


@sound("precision")
def products_in_bfloat16(stage: Stage) -> None:
    """Mixed precision, in which the weights stay float32."""
    learns(stage, stage.trainer(ranking, pairs(), bf16=True), among_alike)


@sound("encoder")
def closing_token_of_a_decoder(stage: Stage) -> None:
    """The last token is always the same and sees the whole text; padding is on the left."""
    learns(
        stage,
        stage.trainer(
            ranking, pairs(), decoder(stage, side="left"), learning_rate=3e-3, max_steps=80
        ),
        among_alike,
    )


@sound("encoder")
def largest_value_of_each_dimension(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, pairs(), stage.model("max"), max_steps=60), among_alike)


@sound("encoder")
def static_embeddings_at_a_high_rate(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, pairs(), static(stage), learning_rate=0.1), among_alike)


@sound("encoder")
def smaller_vectors_by_a_last_layer(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense

    body, pooling = stage.model()
    torch.manual_seed(2)
    model = SentenceTransformer(modules=[body, pooling, Dense(32, 24)], device="cpu")
    learns(stage, stage.trainer(ranking, pairs(), model), among_alike)


@sound("loss")
def guided_by_a_tuned_encoder(stage: Stage) -> None:
    """GIST leaves out negatives that a guide finds nearer than the positive."""
    guide = tuned(stage, 40)
    learns(
        stage,
        stage.trainer(lambda model: losses.GISTEmbedLoss(model, guide), pairs(), stage.model()),
        among_alike,
    )
