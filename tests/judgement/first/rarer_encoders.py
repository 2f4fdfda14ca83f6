"""Trainers of the rarer kinds: static tables, two routes, recurrent bodies, guides, adapters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, encoder, tokenizer_of
from tests.judgement.first.loop_subjects import (
    HOTELS,
    PLANTS,
    Worded,
    labelled,
    near_texts,
    neighbours,
    reader,
    seeking,
    texts_of,
)
from tests.judgement.first.memories_and_teachers import ROUTES
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, reciprocal_rank
from tests.sentence_training import losses

RELICS = Worded(
    {
        "ware": "vase/amphora coin/denarius sword/gladius mask/theatre lamp/terracotta "
        "statue/marble scroll/papyrus ring/signet",
        "fate": "buried/grave sunken/wreck broken/fragments burnt/ashes stolen/recovered "
        "restored/conserved",
        "people": "romans/latin greeks/hellenic persians/achaemenid celts/iron egyptians/nile "
        "vikings/norse phoenicians/tyre",
        "where": "island/coast temple/sanctuary market/forum villa/estate well/cistern",
    },
    {
        "visitor": "which {fate} {ware} of the {people} came from a {where} ? | was the {ware} "
        "of the {people} {fate} in the {where} ?",
        "card": "{ware} , {people} , {fate} , found near a {where} by the river survey | "
        "{people} {ware} . excavated at the {where} , {fate} ; on loan",
    },
)
MATCHES = Worded(
    {
        "sport": "football/goal tennis/serve boxing/round rowing/oars cycling/peloton "
        "fencing/foil handball/throw curling/stone",
        "event": "injury/hurt comeback/turnaround record/fastest protest/appeal draw/tie "
        "upset/outsider",
        "stage": "final/trophy qualifier/group opener/first derby/rivals semifinal/four",
        "weather": "rain/wet heat/sun wind/gusts fog/mist snow/white indoors/roof",
    },
    {
        "headline": "{event} in {sport} {stage} despite {weather} | {weather} and an {event} mark "
        "the {sport} {stage}",
        "story": "it was {weather} all day as the {stage} in {sport} went on and ended with a "
        "{event} that fans will recall | the {sport} crowd at the {stage} saw a {event} , "
        "{weather} or not",
    },
)
USUAL = {"learning_rate": 2e-3, "max_steps": 60, "per_device_train_batch_size": 24}


def ranking(model: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model)


@sound("static table of words in nested widths")
def static_words_in_nested_widths(stage: Stage) -> None:
    """A static embedding from nothing, at the high rate that such tables need."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    torch.manual_seed(7)
    table = StaticEmbedding(tokenizer_of(texts_of(RELICS)), embedding_dim=64)
    model = SentenceTransformer(modules=[table], device="cpu")
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(model, ranking(model), [64, 32, 16]),
        RELICS.table(240), model, **USUAL | {"learning_rate": 0.1},
    )  # fmt: skip
    learns(stage, trainer, seeking(RELICS))


@sound("light route for questions, transformer for documents")
def light_route_for_questions(stage: Stage) -> None:
    """A router with a static table for questions and a transformer for answers."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Router, StaticEmbedding

    torch.manual_seed(7)
    static = StaticEmbedding(tokenizer_of(texts_of(PLANTS)), embedding_dim=48)
    router = Router.for_query_document(
        query_modules=[static], document_modules=[body(stage, texts_of(PLANTS)), Pooling(48)]
    )
    model = SentenceTransformer(modules=[router], device="cpu")
    trainer = stage.trainer(
        ranking, PLANTS.table(240), model, router_mapping={"cry": "query", "reply": "document"},
        learning_rate_mapping={r"sub_modules\.query.*": 0.05}, **USUAL | {"max_steps": 80},
    )  # fmt: skip

    def score(model: Any) -> float:
        cries, replies = PLANTS.table(50, 11).values()
        first = model.encode_query(cries, show_progress_bar=False)
        return reciprocal_rank(first, model.encode_document(replies, show_progress_bar=False))

    learns(stage, trainer, score)


@sound("recurrent network over word vectors that are learned")
def recurrent_network_over_word_vectors(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import LSTM, Pooling, WordEmbeddings
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

    words = list(dict.fromkeys(texts_of(MATCHES)))
    torch.manual_seed(7)
    vectors = torch.randn(len(words), 32).numpy()
    table = WordEmbeddings(WhitespaceTokenizer(words, stop_words=[]), vectors, True)
    modules = [table, LSTM(32, 24, bidirectional=True), Pooling(48, pooling_mode="max")]
    model = SentenceTransformer(modules=modules, device="cpu")
    trainer = stage.trainer(ranking, MATCHES.table(240), model, **USUAL | {"learning_rate": 5e-3})
    learns(stage, trainer, seeking(MATCHES))


@sound("soft margin on the hardest of each label, batches grouped by label")
def soft_margin_on_batches_by_label(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, labelled(RELICS, 192), reader(stage, RELICS),
        batch_sampler="group_by_label", **USUAL | {"per_device_train_batch_size": 32},
    )  # fmt: skip
    learns(stage, trainer, neighbours(labelled(RELICS, 60, 11)))


@sound("large cached batches with a guide that leaves out near texts")
def cached_batches_with_a_guide(stage: Stage) -> None:
    options = {"name": "guide", "seed": 8, "dropout": 0.0}
    guide = warmed(reader(stage, HOTELS, **options), HOTELS.table(216, 2), 50)
    trainer = stage.trainer(
        lambda model: losses.CachedGISTEmbedLoss(
            model, guide, temperature=0.05, mini_batch_size=16, margin=0.05
        ),
        HOTELS.table(240), reader(stage, HOTELS),
        **USUAL | {"per_device_train_batch_size": 48, "max_steps": 40},
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, seeking(HOTELS))


class RankedApart(nn.Module):
    """Ranking and global orthogonality of the same embeddings, as the library's page shows."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.ranking = losses.MultipleNegativesRankingLoss(model)
        self.apart = losses.GlobalOrthogonalRegularizationLoss(model)

    def forward(self, sentence_features: Any, labels: Tensor | None = None) -> dict[str, Tensor]:
        rows = [self.model(column)["sentence_embedding"] for column in sentence_features]
        return {
            "ranking": self.ranking.compute_loss_from_embeddings(rows, labels),
            **self.apart.compute_loss_from_embeddings(rows, labels),
        }


@sound("ranking with a penalty on likeness of unrelated texts")
def ranking_with_orthogonal_others(stage: Stage) -> None:
    trainer = stage.trainer(RankedApart, MATCHES.table(240), reader(stage, MATCHES), **USUAL)
    learns(stage, trainer, seeking(MATCHES))


@sound("ranking by every layer of the encoder")
def ranking_by_every_layer(stage: Stage) -> None:
    """Adaptive layers: the first layers alone make a usable encoder too."""
    trainer = stage.trainer(
        lambda model: losses.AdaptiveLayerLoss(model, ranking(model)),
        RELICS.table(240), reader(stage, RELICS, layers=3), **USUAL,
    )  # fmt: skip
    learns(stage, trainer, seeking(RELICS))


def near_told_apart(model: Any) -> float:
    """The share of held-out texts that are closer to their partner than to a near text."""
    columns = [*MATCHES.table(60, 11).values(), near_texts(MATCHES, 60, 11)]
    first, second, near = (
        model.encode(texts, normalize_embeddings=True, show_progress_bar=False) for texts in columns
    )
    return float(((first * second).sum(1) > (first * near).sum(1)).mean())


@sound("pairs that belong together and near pairs that do not, mined in the batch")
def pairs_and_near_pairs_mined(stage: Stage) -> None:
    """Online contrastive loss on pairs labelled 1 and 0."""
    headlines, stories = MATCHES.table(240).values()
    near = near_texts(MATCHES, 240)
    table = {
        "headline": headlines,
        "story": [(stories if at % 2 else near)[at] for at in range(240)],
        "label": [at % 2 for at in range(240)],
    }
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, table, reader(stage, MATCHES),
        **USUAL | {"max_steps": 100, "per_device_train_batch_size": 32},
    )  # fmt: skip
    learns(stage, trainer, near_told_apart)


@sound("student of fewer layers towards a teacher's embeddings")
def student_of_fewer_layers(stage: Stage) -> None:
    """Embeddings of a larger teacher as labels, of both columns, with a projection."""
    teacher = warmed(
        reader(stage, ROUTES, name="teacher", seed=8, width=64, layers=3), ROUTES.table(240), 60
    )
    texts = [text for column in ROUTES.table(200).values() for text in column]
    targets = teacher.encode(texts, normalize_embeddings=True, show_progress_bar=False).tolist()
    trainer = stage.trainer(
        lambda model: losses.EmbedDistillLoss(model, projection_dim=64),
        {"text": texts, "label": targets}, reader(stage, ROUTES, layers=1),
        **USUAL | {"learning_rate": 4e-3, "max_steps": 100, "per_device_train_batch_size": 32},
    )  # fmt: skip
    learns(stage, trainer, seeking(ROUTES))


@sound("large batches, each pair against its hardest other text")
def large_batches_with_a_margin(stage: Stage) -> None:
    """Mega-batch margin from an encoder that knows the field a little."""
    model = warmed(reader(stage, PLANTS), PLANTS.table(216, 2), 4)
    trainer = stage.trainer(
        lambda model: losses.MegaBatchMarginLoss(model, mini_batch_size=24), PLANTS.table(240),
        model,
        **USUAL | {"per_device_train_batch_size": 72, "max_steps": 45, "learning_rate": 1e-3},
    )  # fmt: skip
    learns(stage, trainer, seeking(PLANTS))


@sound("prefixes for both columns, ranked in both directions")
def prefixes_ranked_in_both_directions(stage: Stage) -> None:
    prompts = {"query": "query: ", "passage": "passage: "}
    model = encoder(stage, [*texts_of(HOTELS), *prompts.values()], prompts=prompts)
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(
            model, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"
        ),
        HOTELS.table(240), model, prompts={"wish": "query: ", "offer": "passage: "}, **USUAL,
    )  # fmt: skip
    learns(stage, trainer, lambda model: HOTELS.sought(model, 50, prompts=tuple(prompts.values())))


@sound(
    "adapters of the library over an encoder that was trained before",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def adapters_added_by_the_library(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = warmed(reader(stage, RELICS), RELICS.table(216, 2), 5)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=16, lora_alpha=32, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        ranking, RELICS.table(240), model, **USUAL | {"learning_rate": 4e-3, "max_steps": 70}
    )
    learns(stage, trainer, seeking(RELICS))
