"""Sound set-ups and runs: losses, data and schedules, also odd ones."""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F

import gradlab
from tests.judgement.case import sound
from tests.judgement.first import gathers
from tests.judgement.first.encoders import lora, make_decoder, uneven_pairs
from tests.judgement.first.training import PLAN, _inference, _loop, _plain_trainer, _sts, _Views
from tests.judgement.stage import Stage, classes, facts, pairs, passage, rated, scored, triplets
from tests.sentence_training import losses
from tests.tiny_models import make_bert

ranking = losses.MultipleNegativesRankingLoss
# What is true of an encoder of two layers that is random at the start.
SMALL = {r"^(inspect: )?Train a little before you choose a temperature": "the encoder is untuned"}


@sound("pairs")
def pairs_with_a_ranking_loss(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs()))


@sound("pairs")
def pairs_with_scores_that_rise(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(), evaluator=_sts(), eval_on_start=True, **PLAN))


@sound("hard negatives")
def triplets_with_a_ranking_loss(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, triplets()))


@sound("cached")
def cached_ranking_loss(stage: Stage) -> None:
    loss = losses.CachedMultipleNegativesRankingLoss
    stage.play(stage.trainer(lambda model: loss(model, mini_batch_size=5), triplets()))


@sound("scores")
def cosent_on_scores(stage: Stage) -> None:
    stage.play(
        stage.trainer(losses.CoSENTLoss, scored(), evaluator=_sts(), eval_on_start=True, **PLAN)
    )


@sound("scores")
def cosine_similarity_loss(stage: Stage) -> None:
    stage.play(stage.trainer(losses.CosineSimilarityLoss, scored()))


@sound("scores")
def angle_loss(stage: Stage) -> None:
    stage.play(stage.trainer(losses.AnglELoss, scored()))


@sound("triplets")
def triplets_by_cosine(stage: Stage) -> None:
    cosine = losses.TripletDistanceMetric.COSINE
    stage.play(
        stage.trainer(lambda m: losses.TripletLoss(m, cosine, triplet_margin=0.3), triplets())
    )


@sound("triplets")
def triplets_by_euclidean_distance(stage: Stage) -> None:
    stage.play(stage.trainer(losses.TripletLoss, triplets()))


@sound("label loss")
def batch_hard_triplets_grouped_by_label(stage: Stage) -> None:
    trainer = stage.trainer(losses.BatchHardTripletLoss, classes(), batch_sampler="group_by_label")
    stage.play(trainer)


@sound("label loss")
def batch_all_triplets_grouped_by_label(stage: Stage) -> None:
    trainer = stage.trainer(losses.BatchAllTripletLoss, classes(), batch_sampler="group_by_label")
    stage.play(trainer)


@sound("label loss")
def softmax_classifier(stage: Stage) -> None:
    stage.play(stage.trainer(lambda m: losses.SoftmaxLoss(m, 32, 3), _inference()))


def _labelled() -> dict[str, list]:
    return dict(zip(("a", "b", "label"), rated(), strict=True))


@sound("label loss")
def contrastive_loss(stage: Stage) -> None:
    stage.play(stage.trainer(losses.ContrastiveLoss, _labelled()))


@sound("label loss")
def online_contrastive_loss(stage: Stage) -> None:
    stage.play(stage.trainer(losses.OnlineContrastiveLoss, _labelled()))


@sound("matryoshka")
def matryoshka_of_a_ranking_loss(stage: Stage) -> None:
    stage.play(stage.trainer(lambda m: losses.MatryoshkaLoss(m, ranking(m), [32, 16, 8]), pairs()))


@sound("distillation")
def distillation_of_scores(stage: Stage) -> None:
    from sentence_transformers.util import pairwise_cos_sim

    draw = random.Random(0)
    table = triplets() | {
        "label": [[draw.uniform(0.7, 0.9), draw.uniform(0.1, 0.5)] for _ in range(160)]
    }
    loss = losses.DistillKLDivLoss
    stage.play(stage.trainer(lambda m: loss(m, similarity_fct=pairwise_cos_sim), table))


@sound("distillation")
def distillation_of_margins(stage: Stage) -> None:
    from sentence_transformers.util import pairwise_cos_sim

    draw = random.Random(0)
    table = triplets() | {"label": [draw.uniform(0.1, 0.6) for _ in range(160)]}
    stage.play(stage.trainer(lambda m: losses.MarginMSELoss(m, pairwise_cos_sim), table))


@sound("distillation")
def distillation_of_embeddings(stage: Stage) -> None:
    texts = pairs()["positive"]
    teacher = stage.model(bert=make_bert(stage.folder / "teacher", seed=3, dropout=0.0))
    rows = teacher.encode(texts).round(5).tolist()
    table = {"text": texts, "label": rows}
    stage.play(stage.trainer(losses.MSELoss, table, learning_rate=9e-4))


@sound("distillation")
def guided_ranking_loss(stage: Stage) -> None:
    guide = stage.model(dropout=0.0)
    stage.play(stage.trainer(lambda m: losses.GISTEmbedLoss(m, guide), pairs()))


@sound("adapters")
def low_rank_adapters(stage: Stage) -> None:
    model = stage.model()
    lora(model)
    stage.play(stage.trainer(ranking, pairs(), model, learning_rate=4e-3, max_steps=80))


@sound("batches")
def small_batches(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, triplets(), per_device_train_batch_size=8))


@sound("batches")
def accumulation_of_gradients(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(), gradient_accumulation_steps=2, max_steps=30))


@sound("batches")
def repeated_texts_kept_apart(stage: Stage) -> None:
    rows = [fact for fact in facts(40) for _ in range(4)]
    table = {
        "anchor": [f"{text} {at}" for at, text in enumerate(map(passage, rows))],
        "positive": list(map(passage, rows)),
    }
    stage.play(stage.trainer(ranking, table, batch_sampler="no_duplicates"))


@sound("weights")
def frozen_lower_layers(stage: Stage) -> None:
    model = stage.model()
    model[0].auto_model.embeddings.requires_grad_(False)
    model[0].auto_model.encoder.layer[0].requires_grad_(False)
    stage.play(stage.trainer(ranking, pairs(), model))


@sound("schedule")
def long_warm_up(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(), warmup_steps=20))


@sound("schedule")
def cosine_schedule_and_many_epochs(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(80), lr_scheduler_type="cosine", max_steps=60))


@sound("unsupervised")
def text_with_itself_by_dropout(stage: Stage) -> None:
    texts = pairs()["positive"]
    stage.play(stage.trainer(ranking, {"a": texts, "b": list(texts)}))


@sound("temperature")
def low_temperature_of_retrieval(stage: Stage) -> None:
    stage.play(stage.trainer(lambda m: ranking(m, scale=100.0), triplets()))


@sound("gradlab loss")
def both_directions_by_gradlab(stage: Stage) -> None:
    from gradlab.integrations.sentence_transformers import loss

    stage.play(stage.trainer(lambda m: loss(m, "symmetric", loss="infonce"), pairs()))


@sound("pooling")
def first_token_with_right_padding(stage: Stage) -> None:
    model = stage.model("cls", dropout=0.0)
    stage.play(stage.trainer(ranking, uneven_pairs(), model, learning_rate=9e-4, max_steps=100))


@sound("pooling")
def decoder_with_left_padding(stage: Stage) -> None:
    model = stage.model("lasttoken", bert=make_decoder(stage.folder))
    model.tokenizer.padding_side = "left"
    stage.play(stage.trainer(ranking, uneven_pairs(), model))


@sound("plain trainer")
def plain_trainer_with_two_views(stage: Stage) -> None:
    class Views(_Views):
        def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict:
            return super().forward(x, labels)

    trainer = _plain_trainer(stage, Views())
    stage.play(trainer, views=("z1", "z2"), loss="infonce(temperature=0.05)", every=5)


@sound("loop")
def loop_of_infonce(stage: Stage) -> None:
    _loop(stage, "infonce(temperature=0.1)")


@sound("loop")
def loop_of_siglip(stage: Stage) -> None:
    _loop(stage, "siglip", steps=120)


@sound("loop")
def loop_of_a_triplet_loss_of_ones_own(stage: Stage) -> None:
    def triplet(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        anchors, positives = (F.normalize(rows, dim=1) for rows in (anchors, positives))
        near = (anchors * positives).sum(dim=1)
        far = (anchors @ positives.T - 2 * torch.eye(len(anchors))).max(dim=1).values
        return F.relu(far - near + 0.3).mean()

    _loop(stage, triplet)


@sound("word embeddings")
def word_embeddings_at_a_high_rate(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    tokenizer = stage.model().tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    torch.manual_seed(7)
    model = SentenceTransformer(modules=[StaticEmbedding(backend, embedding_dim=32)], device="cpu")
    stage.play(stage.trainer(ranking, pairs(), model, learning_rate=0.05))


def _own_training(stage: Stage, **settings: object) -> None:
    from gradlab.train import TrainConfig, train

    file = stage.folder / "sentences.txt"
    file.write_text("\n".join(pairs(400)["positive"]), encoding="utf-8")
    plan = {
        "max_steps": 40, "batch_size": 32, "learning_rate": 5e-4, "device": "cpu",
        "diagnostics_every": 2, "threads": 1, "pooler": "mean", **settings,
    }  # fmt: skip
    train(TrainConfig(
        model=str(make_bert(stage.folder / "bert")), train_file=str(file),
        output=str(stage.folder / "run"), **plan,
    ))  # fmt: skip
    stage.run(stage.folder / "run")


@sound("gradlab train")
def own_training_by_dropout(stage: Stage) -> None:
    _own_training(stage)


@sound("gradlab train")
def own_training_with_a_queue(stage: Stage) -> None:
    _own_training(stage, queue_size=64, momentum=0.9, momentum_use="queue")


@sound("inspect", allowed=SMALL)
def inspection_of_pairs(stage: Stage) -> None:
    stage.inspect(pairs())


@sound("inspect", allowed=SMALL)
def inspection_of_triplets(stage: Stage) -> None:
    stage.inspect(triplets())


@sound("audit")
def gathered_with_gradient(stage: Stage) -> None:
    stage.audit(gathers.gathered_soundly, uneven=False)


@sound("verify")
def closed_form_of_infonce(stage: Stage) -> None:
    errors = gradlab.verify("infonce", batch_size=8, dim=16).errors()
    grade = "good" if all(right for *_, right in errors) else "bad"
    text = f"largest error {max(error for _, _, error, _, _ in errors):.1g}"
    stage.keep("verify", {"checks": [["infonce", grade, text]]})
