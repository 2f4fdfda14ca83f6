"""Further set-ups of faults that several threads report."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as functional

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.first.damaged_texts import cased, misread, with_column
from tests.judgement.first.materials import (
    ANYWHERE,
    CUT,
    LONGER,
    TOKENS,
    UNRELATED,
    inspected,
    mistaught,
    ranking,
)
from tests.judgement.first.modules_and_loops import (
    RATE,
    STILL,
    loop_scores,
    routed,
    sound_scores,
)
from tests.judgement.first.pair_labels import COLLIDE
from tests.judgement.stage import Stage, classes, pairs, triplets
from tests.judgement.truth import alike, among_alike, falls_short, retrieval, suffers
from tests.sentence_training import losses


@faulty(
    "new head at a transformer's rate",
    "The encoder is frozen below a new dense layer, which is trained at 2e-5: it hardly moves.",
    [RATE, STILL],
    tools=(DOCTOR, REPORT),
    never=[LONGER],
)
def dense_layer_at_two_e_5(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/680: only added layers train."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense

    def model() -> Any:
        base = stage.model()
        base.requires_grad_(False)
        torch.manual_seed(3)
        dense = Dense(32, 32, activation_function=torch.nn.Identity())
        return SentenceTransformer(modules=[*base, dense], device="cpu")

    suffers(
        stage,
        stage.trainer(ranking, pairs(), model(), learning_rate=2e-5),
        lambda: stage.trainer(ranking, pairs(), model(), learning_rate=1e-2),
        retrieval,
    )


@faulty(
    "random projection per role",
    "Questions and passages have an encoder each, which do not begin alike: what they have in "
    "common is to be learned from few pairs.",
    [
        r"two (encoders|models|towers)|route|module|asym|separate|role",
        r"(same|equal|one) text|equal texts|random|initiali[sz]|\bapart\b|share",
    ],
    never=[],
)
def encoder_for_each_role(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/1510: one encoder is better."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Router, Transformer

    from tests.tiny_models import make_bert

    def model() -> Any:
        towers = []
        for seed in (1, 2):
            folder = make_bert(stage.folder / f"tower-{seed}", seed=seed)
            towers.append([Transformer(str(folder)), Pooling(32, pooling_mode="mean")])
        router = Router.for_query_document(*towers)
        return SentenceTransformer(modules=[router], device="cpu")

    mapping = {"anchor": "query", "positive": "document"}
    suffers(
        stage,
        stage.trainer(ranking, pairs(), model(), router_mapping=mapping),
        lambda: stage.trainer(ranking, pairs()),
        routed,
        share=None,
    )


@faulty(
    "capital letters unknown to the vocabulary",
    "The questions of a form are in capitals, and the tokenizer does not make them small: they are "
    "rows of unknown tokens.",
    [TOKENS, r"lower.?cas|capital|upper.?case|\bcased\b"],
    tools=ANYWHERE,
    never=[LONGER],
)
def questions_in_capitals(stage: Stage) -> None:
    """https://github.com/kaushaltrivedi/fast-bert/issues/161: do_lower_case=False."""
    table = with_column(str.upper, "anchor")
    unseen = with_column(str.upper, "anchor", table=alike())
    stage.inspect(table, str(cased(stage)))
    suffers(
        stage,
        stage.trainer(ranking, table, stage.model(bert=cased(stage))),
        lambda: stage.trainer(ranking, table),
        lambda model: retrieval(model, unseen),
    )


@faulty(
    "accumulation leaves few updates",
    "Twenty batches are accumulated for an update where an epoch has twenty: two epochs are two "
    "updates.",
    [
        r"accumulat",
        r"(few|\d+|two) (updates|steps|optimi[sz]er)|too (few|short)|steps.{0,40}(few|short|only)",
    ],
    tools=(DOCTOR, REPORT),
    never=[],
)
def one_update_in_an_epoch(stage: Stage) -> None:
    """https://github.com/kamalkraj/e5-mistral-7b-instruct/issues/6: 512 batches accumulated."""
    settings = {
        "max_steps": -1,
        "num_train_epochs": 2,
        "warmup_steps": 0,
        "per_device_train_batch_size": 8,
    }
    suffers(
        stage,
        stage.trainer(ranking, triplets(), gradient_accumulation_steps=20, **settings),
        lambda: stage.trainer(ranking, triplets(), **settings),
        among_alike,
    )


@faulty(
    "texts cut at the first comma",
    "The questions were cut where a list of stop signs has one: two words are left of each.",
    [UNRELATED, CUT, r"short|few words|cut|one word|fragment"],
    tools=ANYWHERE,
    never=[LONGER],
)
def questions_of_two_words(stage: Stage) -> None:
    """Common with CSV files that are split at each comma, quoted or not."""
    table = with_column(lambda text: " ".join(text.split()[:2]), "anchor")
    mistaught(stage, table, pairs())


@faulty(
    "class numbers of several data sets begin at 0 each",
    "Eight files of two classes each were joined, and the class of a text is its number within its "
    "file.",
    COLLIDE,
    never=[LONGER],
)
def files_of_two_classes_joined(stage: Stage) -> None:
    """Common with `concatenate_datasets`: each data set numbers its classes from 0."""
    whole = classes(320, of_each=4)
    table = whole | {"label": [label % 2 for label in whole["label"]]}

    def loss(model: Any) -> Any:
        return losses.BatchAllTripletLoss(model, margin=1.0)

    settings = {"learning_rate": 1e-3, "batch_sampler": "group_by_label"}
    suffers(
        stage,
        stage.trainer(loss, table, **settings),
        lambda: stage.trainer(loss, whole, **settings),
        among_alike,
    )


@faulty(
    "embeddings from encode, which keeps no gradient",
    "The loop embeds by model.encode, makes tensors of its arrays, and asks for their gradient: no "
    "weight moves.",
    [r"encode|gradient|detach|no_grad|requires_grad|graph", STILL],
    tools=(REPORT,),
    never=[LONGER],
)
def loop_by_arrays_of_encode(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/255: encode in a larger model."""
    model, table, draw = stage.model(), triplets(), random.Random(0)

    def embeddings() -> tuple[torch.Tensor, ...]:
        rows = draw.sample(range(160), 16)
        columns = [[table[name][at] for at in rows] for name in ("anchor", "positive")]
        arrays = [model.encode(texts, show_progress_bar=False) for texts in columns]
        return tuple(torch.tensor(array, requires_grad=True) for array in arrays)

    scores = loop_scores(stage, model, hinge, embeddings)
    falls_short(stage, scores, sound_scores(stage))


def hinge(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Each positive is to be nearer by a margin than the other rows' positives."""
    cosines = functional.normalize(anchors, dim=1) @ functional.normalize(positives, dim=1).T
    short = functional.relu(0.3 + cosines - cosines.diag()[:, None])
    return (short.sum() - short.diag().sum()) / (len(short) * (len(short) - 1))


@faulty(
    "letters read in a wrong encoding",
    "The questions were typed with accents and read as Latin-1; the passages are plain.",
    [TOKENS, UNRELATED, r"encod|accent|utf|latin|mojibake"],
    tools=(INSPECT,),
    never=[LONGER],
)
def questions_in_latin_1(stage: Stage) -> None:
    """Common: `open(path, encoding="latin-1")` on a file in UTF-8."""
    inspected(stage, with_column(misread, "anchor"), pairs(), share=None)
