"""Sound set-ups with the trainer: code, logs, short texts, doses, and less common losses."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import (
    RerankingEvaluator,
)

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields_of_daily_use import (
    DOSES,
    LOGLINES,
    SHORT,
    SNIPPETS,
    finds,
    finds_letters,
    notes,
    split,
    starter,
    ward_words,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


@sound("code below comments, with a reranking evaluator")
def comments_rank_the_code_below_them(stage: Stage) -> None:
    table, dev = split(SNIPPETS.table(360), 300)
    code = dev["code"]
    samples = [
        {"query": comment, "positive": [own], "negative": [*code[:at], *code[at + 1 :]][:20]}
        for at, (comment, own) in enumerate(zip(*dev.values(), strict=True))
    ]
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, starter(stage, SNIPPETS), learning_rate=1e-3,
        max_steps=80, per_device_train_batch_size=16, eval_strategy="steps", eval_steps=40,
        evaluator=RerankingEvaluator(samples, name="dev"),
    )  # fmt: skip
    learns(stage, trainer, finds(SNIPPETS))


@sound("log lines with hard negatives, cached and guided")
def log_lines_cached_and_guided(stage: Stage) -> None:
    table = LOGLINES.table(320) | {"negative": LOGLINES.near(320, slot=1)}
    guide = warmed(starter(stage, LOGLINES, name="guide", seed=9), table, steps=60)
    trainer = stage.trainer(
        lambda model: losses.CachedGISTEmbedLoss(model, guide, mini_batch_size=16), table,
        starter(stage, LOGLINES), learning_rate=2e-3, max_steps=40, per_device_train_batch_size=40,
    )  # fmt: skip
    learns(stage, trainer, finds(LOGLINES))


@sound("two words a text, symmetric and cached, distilled BERT, Adafactor")
def pairs_of_two_words_by_adafactor(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesSymmetricRankingLoss(
            model, scale=15.0, mini_batch_size=32
        ),
        SHORT.table(260), starter(stage, SHORT, kind="distilbert"), learning_rate=3e-3,
        optim="adafactor", max_steps=60, per_device_train_batch_size=64,
    )  # fmt: skip
    learns(stage, trainer, finds(SHORT))


def _nested(model: Any) -> Any:
    return losses.Matryoshka2dLoss(model, losses.MultipleNegativesRankingLoss(model), [48, 24, 12])


@sound("nested widths and layers, plateau after warm-up")
def doses_in_nested_widths_and_layers(stage: Stage) -> None:
    trainer = stage.trainer(
        _nested, DOSES.table(300), starter(stage, DOSES, layers=3), learning_rate=2e-3,
        max_steps=60, per_device_train_batch_size=20, lr_scheduler_type="constant_with_warmup",
    )  # fmt: skip
    learns(stage, trainer, finds(DOSES))


@sound("queries with several wishes, no duplicates in a batch")
def several_comments_for_each_line_of_code(stage: Stage) -> None:
    """Each line of code has its comment and a shorter one; both are pairs of the table."""
    comments, code = SNIPPETS.table(200).values()
    short = [comment.replace("# ", "").replace(" of all in the ", " ") for comment in comments]
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        {"comment": [*comments, *short], "code": [*code, *code]},
        starter(stage, SNIPPETS), batch_sampler="no_duplicates", learning_rate=2e-3, max_steps=70,
        per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, finds(SNIPPETS))


@sound("ranking and orthogonality of a batch")
def letters_spread_by_orthogonality(stage: Stage) -> None:
    class Spread(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.ranking = losses.MultipleNegativesRankingLoss(model)
            self.spread = losses.GlobalOrthogonalRegularizationLoss(model)

        def forward(self, sentence_features: Any, labels: Any = None) -> Any:
            features = list(sentence_features)
            spread = sum(self.spread([dict(f) for f in features], labels).values())
            return self.ranking(features, labels) + 0.1 * spread

    trainer = stage.trainer(
        Spread, notes(320), encoder(stage, ward_words()), learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, finds_letters)


@sound("rankings of a teacher over several candidates")
def doses_by_the_rankings_of_a_teacher(stage: Stage) -> None:
    """The teacher scores the own leaflet and two near ones; the student ranks as it does."""
    table = DOSES.table(360) | {f"negative_{slot}": DOSES.near(360, slot=slot) for slot in (0, 1)}
    teacher = warmed(starter(stage, DOSES, name="teacher", width=64, seed=8), table, steps=60)
    rows = [
        teacher.encode(texts, convert_to_tensor=True, normalize_embeddings=True,
                       show_progress_bar=False)
        for texts in table.values()
    ]  # fmt: skip
    scores = 10 * torch.stack([(rows[0] * row).sum(1) for row in rows[1:]], 1)

    def scaled(first: Any, second: Any) -> Any:
        from sentence_transformers.util import pairwise_cos_sim

        return 10 * pairwise_cos_sim(first, second)

    trainer = stage.trainer(
        lambda model: losses.DistillKLDivLoss(model, similarity_fct=scaled),
        table | {"label": scores.tolist()}, starter(stage, DOSES), learning_rate=2e-3,
        max_steps=110, per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, finds(DOSES))
