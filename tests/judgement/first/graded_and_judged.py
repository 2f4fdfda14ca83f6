"""Sound set-ups: pairs with grades, pairs that belong together or not, statements, stars."""

from __future__ import annotations

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.everyday_subjects import ADDRESSES
from tests.judgement.first.expert_subjects import CAPTIONS, FORUM
from tests.judgement.first.loose_subjects import (
    review_pairs,
    reviews,
    statements,
    ticket_pairs,
    tickets,
)
from tests.judgement.first.subject_kit import neighbours, schooled
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns
from tests.sentence_training import evaluation, losses, modules


@sound("graded pairs, ranks of cosines")
def captions_graded_by_ranks_of_cosines(stage: Stage) -> None:
    """Captions with grades of likeness: CoSENT orders the cosines of a batch by the grades."""
    trainer = stage.trainer(
        losses.CoSENTLoss, CAPTIONS.graded(480), encoder(stage, CAPTIONS.words(), spread=0.05),
        max_steps=200, per_device_train_batch_size=32, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, CAPTIONS.ordered(100), least=0.1)


@sound("graded pairs, angles")
def captions_graded_by_angles(stage: Stage) -> None:
    """AnglE on a pre-trained body: the usual second stage, at a lower rate."""
    model = encoder(stage, CAPTIONS.words(), spread=0.05)
    schooled(stage, model, CAPTIONS.pairs(160, seed=6), steps=25)
    trainer = stage.trainer(
        losses.AnglELoss, CAPTIONS.graded(480), model, max_steps=300,
        per_device_train_batch_size=16, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, CAPTIONS.ordered(100), least=0.1)


@sound("grades from 0 to 5 brought to 0 to 1, best checkpoint kept")
def captions_regressed_keeping_the_best(stage: Stage) -> None:
    """Grades of zero to five are divided by five; the best of the evaluated states is kept."""
    table, judged = CAPTIONS.graded(480, most=5.0), CAPTIONS.graded(60, held_out=True, seed=3)
    table["score"] = [grade / 5 for grade in table["score"]]
    evaluator = evaluation.EmbeddingSimilarityEvaluator(
        judged["sentence1"], judged["sentence2"], judged["score"], name="captions"
    )
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, table, encoder(stage, CAPTIONS.words(), spread=0.05),
        evaluator=evaluator, eval_strategy="steps", eval_steps=50, save_strategy="steps",
        save_steps=50, save_total_limit=2, load_best_model_at_end=True,
        metric_for_best_model="eval_captions_spearman_cosine", max_steps=250, learning_rate=1e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, CAPTIONS.ordered(100), least=0.1)


@sound("belonging or not, contrastive")
def addresses_matched_by_contrastive_loss(stage: Stage) -> None:
    """Entries of one address and of two, half and half, with the library's usual margin."""
    trainer = stage.trainer(
        losses.ContrastiveLoss, ADDRESSES.judged(480),
        encoder(stage, ADDRESSES.words(), spread=0.05), max_steps=300,
        per_device_train_batch_size=32, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, ADDRESSES.sought(60), least=0.1)


@sound("belonging or not, hard pairs of a batch only")
def forum_duplicates_by_online_contrastive(stage: Stage) -> None:
    """Questions of a forum: duplicates or not; each batch of 64 learns from its hard pairs."""
    held_out = FORUM.judged(40, held_out=True)
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, FORUM.judged(230),
        encoder(stage, FORUM.words(), spread=0.05), max_steps=200,
        per_device_train_batch_size=64, learning_rate=1e-3,
        evaluator=evaluation.BinaryClassificationEvaluator(*held_out.values(), name="forum"),
        eval_strategy="steps", eval_steps=100,
    )  # fmt: skip
    learns(stage, trainer, FORUM.sought(30), least=0.1)


@sound("belonging or not, pairs of one category")
def tickets_paired_by_category(stage: Stage) -> None:
    """Pairs of tickets of one category or of two, regressed to one and nought as in SetFit."""
    table = ticket_pairs(400)
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, {**table, "label": list(map(float, table["label"]))},
        encoder(stage, words_of([table]), spread=0.05), max_steps=200, learning_rate=1e-3,
        per_device_train_batch_size=16,
    )  # fmt: skip
    learns(stage, trainer, neighbours(tickets(100, held_out=True)), least=0.1)


@sound("statements in three classes by a head, dropped afterwards")
def statements_by_a_softmax_head(stage: Stage) -> None:
    """As the first SBERT: three classes from both embeddings and their difference."""
    table = statements(600)
    trainer = stage.trainer(
        lambda model: losses.SoftmaxLoss(model, embedding_dimension=48, num_labels=3),
        table, encoder(stage, words_of([table]), spread=0.05), max_steps=350,
        learning_rate=2e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    held_out = statements(90, held_out=True, grades=(2, 1, 0))
    learns(stage, trainer, lambda model: correlation(model, held_out), least=0.1)


@sound("stars of reviews as grades of pairs")
def reviews_ordered_by_their_stars(stage: Stage) -> None:
    """Two reviews are the more alike the nearer their stars; normalised, maximum pooling."""
    table = review_pairs(300)
    model = encoder(stage, words_of([table]), modules.Normalize(), pooling="max", spread=0.05)
    trainer = stage.trainer(
        losses.CoSENTLoss, table, model, max_steps=150, learning_rate=1e-3,
        per_device_train_batch_size=32, lr_scheduler_type="constant_with_warmup",
    )  # fmt: skip
    held_out = review_pairs(80, held_out=True)
    learns(stage, trainer, lambda model: correlation(model, held_out), least=0.1)


@sound("stars of reviews as classes, soft margin")
def reviews_of_one_star_by_triplets(stage: Stage) -> None:
    """Stars are classes here: the hardest triplets of batches of 32, soft margin."""
    table = reviews(400)
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, table,
        encoder(stage, words_of([table]), spread=0.05), max_steps=120, learning_rate=1e-3,
        per_device_train_batch_size=32, batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, neighbours(reviews(100, held_out=True)), least=0.1)
