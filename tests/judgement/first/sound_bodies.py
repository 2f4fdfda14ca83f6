"""Sound trainings of several encoders: heads, poolings, decoders, adapters, two towers."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.encoders import make_decoder
from tests.judgement.first.sound_texts import (
    asked,
    learned,
    made,
    searched,
    sought,
    titled,
)
from tests.judgement.stage import Stage, pairs, triplets
from tests.sentence_training import losses, modules
from tests.tiny_models import make_roberta

ranking = losses.MultipleNegativesRankingLoss


def assembled(*layers: Any) -> Any:
    """An encoder of the modules."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(modules=list(layers), device="cpu")


@sound("adapters")
def adapters_on_queries_and_values(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = stage.model()
    model.add_adapter(
        LoraConfig(
            TaskType.FEATURE_EXTRACTION,
            r=16,
            lora_alpha=32,
            lora_dropout=0.05,
            target_modules=["query", "value"],
        )
    )
    trainer = stage.trainer(ranking, pairs(), model, learning_rate=1e-2, max_steps=100)
    learned(stage, trainer)


@sound("weights")
def word_embeddings_kept_as_they_are(stage: Stage) -> None:
    model = stage.model()
    model[0].auto_model.embeddings.requires_grad_(False)
    trainer = stage.trainer(ranking, pairs(320), model, learning_rate=1e-3, max_steps=100)
    learned(stage, trainer)


@sound("encoder")
def head_of_sixteen_dimensions(stage: Stage) -> None:
    body = stage.model()
    head = modules.Dense(32, 16, activation_function=torch.nn.Identity())
    trainer = stage.trainer(
        ranking, made(asked), assembled(body[0], body[1], head), learning_rate=1e-3
    )
    learned(stage, trainer, sought(asked))


@sound("encoder")
def head_with_tanh_after_the_first_token(stage: Stage) -> None:
    body = stage.model("cls", dropout=0.0)
    trainer = stage.trainer(
        ranking,
        pairs(480),
        assembled(body[0], body[1], modules.Dense(32, 32)),
        learning_rate=1e-3,
        max_steps=120,
    )
    learned(stage, trainer)


@sound("encoder")
def largest_entry_of_each_dimension(stage: Stage) -> None:
    trainer = stage.trainer(ranking, pairs(), stage.model("max"), learning_rate=1e-3)
    learned(stage, trainer)


@sound("encoder")
def later_tokens_weigh_more(stage: Stage) -> None:
    learned(stage, stage.trainer(ranking, triplets(), stage.model("weightedmean")))


@sound("encoder")
def decoder_with_its_last_token(stage: Stage) -> None:
    model = stage.model("lasttoken", bert=make_decoder(stage.folder))
    model.tokenizer.padding_side = "left"
    trainer = stage.trainer(ranking, pairs(480), model, learning_rate=1e-3, max_steps=120)
    learned(stage, trainer)


@sound("encoder")
def bytes_instead_of_words(stage: Stage) -> None:
    model = stage.model(bert=make_roberta(stage.folder / "roberta"), normalize=True)
    trainer = stage.trainer(ranking, pairs(240), model, learning_rate=1e-3, max_steps=60)
    learned(stage, trainer)


@sound("encoder")
def queries_and_documents_with_heads_of_their_own(stage: Stage) -> None:
    """Both texts share the body; a query then passes one head and a document the other."""
    body = stage.model()
    heads = {
        name: [modules.Dense(32, 32, activation_function=torch.nn.Identity())]
        for name in ("query", "document")
    }
    for (head,) in heads.values():
        torch.nn.init.eye_(head.linear.weight)
        torch.nn.init.zeros_(head.linear.bias)
    router = modules.Router.for_query_document(heads["query"], heads["document"])
    trainer = stage.trainer(
        ranking,
        made(searched),
        assembled(body[0], body[1], router),
        router_mapping={"query": "query", "document": "document"},
    )
    learned(stage, trainer, routed)


def routed(model: Any) -> float:
    """How well documents are found by queries, each by its own head."""
    from tests.judgement.first.sound_texts import close
    from tests.judgement.truth import reciprocal_rank

    table = searched(close())
    return reciprocal_rank(
        model.encode_query(table["query"], show_progress_bar=False),
        model.encode_document(table["document"], show_progress_bar=False),
    )


@sound("encoder")
def texts_cut_after_twelve_tokens(stage: Stage) -> None:
    """Abstracts are cut on purpose: their first words say what their titles say."""
    table = made(lambda rows: swapped(titled(rows)))
    trainer = stage.trainer(ranking, table, stage.model(length=12))
    learned(stage, trainer, sought(lambda rows: swapped(titled(rows))))


def swapped(table: dict[str, list[str]]) -> dict[str, list[str]]:
    """Abstracts that begin with what matters."""
    ends = [text.split(" . ") for text in table["abstract"]]
    return table | {"abstract": [" . ".join(reversed(halves)) for halves in ends]}
