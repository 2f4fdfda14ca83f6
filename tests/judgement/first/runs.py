"""Faults of training: optimisers, schedules, resumed runs, evaluation, losses of one's own."""

from __future__ import annotations

import contextlib
import copy
import io
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import gradlab
from tests.judgement.case import REPORT, faulty
from tests.judgement.first.training import HEAD, _inference
from tests.judgement.stage import INTERVAL, STEPS, Stage, facts, pairs, passage, scored
from tests.sentence_training import evaluation, losses
from tests.tiny_models import WORDS

ranking = losses.MultipleNegativesRankingLoss
PLAN = {"eval_strategy": "steps", "eval_steps": 8, "eval_on_start": True}
STILL = (r"\bSGD\b", r"rate .{0,40}(low|small)", r"(raise|higher|low).{0,40}rate")
SCHEDULE = (
    r"schedul", r"rate .{0,60}\b(0|zero)\b", r"\b(0|zero) .{0,20}learning rate", r"decay",
)  # fmt: skip
OVERLAP = (
    r"overlap", r"also in", r"leak", r"same (texts|rows|pairs|data)", r"trained on",
    r"stands? in both", r"(evaluat|held.out).{0,100}train(ing|ed)",
)  # fmt: skip
FLAT = (
    r"(score|metric|evaluat|ndcg|accuracy|spearman|correlation).{0,80}(NaN|not a number|undefined|"
    r"constant|perfect|already|no room|cannot|never change|\b1(\.0+)?\b(?![.\d]))",
    r"(gold|score|label)s? .{0,40}(same|equal|constant)",
)  # fmt: skip
SOUND = (r"scores? .{0,20}looks? (sound|good)",)
METRIC = (r"\bdot\b", r"not normali[sz]ed")


def similarity(**options: Any) -> Any:
    """An evaluator of scored pairs."""
    gold = scored(80, seed=4)
    return evaluation.EmbeddingSimilarityEvaluator(
        gold["sentence1"], gold["sentence2"], gold["score"], name="made-up", **options
    )


def retrieval(table: dict[str, list[str]], **options: Any) -> Any:
    """An evaluator that searches positives by their anchors."""
    corpus = {f"d{at}": text for at, text in enumerate(table["positive"])}
    queries = {f"q{at}": text for at, text in enumerate(table["anchor"])}
    relevant = {f"q{at}": {f"d{at}"} for at in range(len(queries))}
    return evaluation.InformationRetrievalEvaluator(
        queries, corpus, relevant, name="made-up", **options
    )


@faulty("rate of another optimizer", "SGD at AdamW's learning rate of 2e-5: nothing moves.", STILL)
def sgd_at_the_rate_of_adam(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(), optim="sgd", learning_rate=2e-5))


@faulty("rate of another optimizer", "Gradients are clipped at a norm of 1e-4 before plain SGD.",
        (r"clip", r"max_grad_norm"))  # fmt: skip
def clipped_to_nothing_before_sgd(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(), optim="sgd", learning_rate=0.05, max_grad_norm=1e-4))


@faulty("schedule ends early", "The schedule counts micro-batches: the rate is 0 after a quarter "
        "of the run.", SCHEDULE)  # fmt: skip
def schedule_of_micro_batches(stage: Stage) -> None:
    model = stage.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: max(0.0, 1 - 4 * step / STEPS)
    )
    stage.play(stage.trainer(ranking, pairs(), model, optimizers=(optimizer, schedule)))


@faulty("schedule ends early", "Restarts were wanted, and a decay by 0.3 with each step was set.",
        SCHEDULE)  # fmt: skip
def exponential_decay_of_each_step(stage: Stage) -> None:
    model = stage.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.3)
    stage.play(stage.trainer(ranking, pairs(), model, optimizers=(optimizer, schedule)))


def resumed(stage: Stage, loss: Any, table: Any, steps: tuple[int, int], **arguments: Any) -> None:
    """Train for ``steps[0]``, then resume to ``steps[1]`` with a fresh model and a fresh loss."""
    plan = {"save_strategy": "steps", "save_steps": steps[0], **arguments}
    first, second = (stage.trainer(loss, table, max_steps=until, **plan) for until in steps)
    stage.doctor(second)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        gradlab.watch(first, every=INTERVAL)
        first.train()
        gradlab.watch(second, every=INTERVAL)
        second.train(resume_from_checkpoint=True)
    stage.run(stage.folder / "run" / "gradlab")


@faulty("resumed", "The checkpoint lacks the classifier of the loss, which begins anew: "
        "the loss jumps.", (*HEAD, r"checkpoint", r"resum", r"jump"))  # fmt: skip
def classifier_lost_on_resuming(stage: Stage) -> None:
    resumed(stage, lambda model: losses.SoftmaxLoss(model, 32, 3), _inference(), (200, 240),
            lr_scheduler_type="constant", logging_steps=2)  # fmt: skip


@faulty("resumed", "The resumed run is as long as the first one: nothing is left to train.",
        (r"resum", r"checkpoint", r"(no|0) steps?", r"max_steps",
         r"already.{0,40}(step|trained|reached)"))  # fmt: skip
def nothing_left_after_resuming(stage: Stage) -> None:
    resumed(stage, ranking, pairs(), (STEPS, STEPS))


@faulty("best model of the wrong sign", "The best checkpoint is that of the lowest correlation: "
        "greater_is_better=False.", (r"greater_is_better", r"best"))  # fmt: skip
def the_lowest_correlation_is_best(stage: Stage) -> None:
    stage.play(
        stage.trainer(ranking, pairs(), evaluator=similarity(), save_strategy="steps", save_steps=8,
                      load_best_model_at_end=True, greater_is_better=False,
                      metric_for_best_model="eval_made-up_spearman_cosine", **PLAN)
    )  # fmt: skip


@faulty("evaluated on what is trained", "Queries and documents of the evaluator are those of "
        "training.", OVERLAP)  # fmt: skip
def retrieval_of_the_training_pairs(stage: Stage) -> None:
    table = pairs()
    part = {name: texts[:60] for name, texts in table.items()}
    stage.play(stage.trainer(ranking, table, evaluator=retrieval(part), **PLAN))


@faulty("evaluated on what is trained", "The held-out rows are the training rows.", OVERLAP)
def held_out_loss_of_training_rows(stage: Stage) -> None:
    from datasets import Dataset

    table = pairs()
    stage.play(stage.trainer(ranking, table, eval_dataset=Dataset.from_dict(table), **PLAN))


@faulty("evaluator that cannot tell", "All gold scores are equal: there is no correlation.", FLAT,
        never=SOUND)  # fmt: skip
def gold_scores_that_are_equal(stage: Stage) -> None:
    gold = scored(80, seed=4)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(
        gold["sentence1"], gold["sentence2"], [1.0] * 80, name="made-up"
    )
    stage.play(stage.trainer(ranking, pairs(), evaluator=evaluator, **PLAN))


@faulty("evaluator that cannot tell", "The corpus holds a single document for all queries: the "
        "score is 1 whatever is trained.", FLAT, never=SOUND)  # fmt: skip
def corpus_of_one_document(stage: Stage) -> None:
    table = pairs(20, seed=3)
    queries = {f"q{at}": text for at, text in enumerate(table["anchor"])}
    evaluator = evaluation.InformationRetrievalEvaluator(
        queries, {"d": table["positive"][0]}, {name: {"d"} for name in queries}, name="made-up"
    )
    stage.play(stage.trainer(ranking, pairs(), evaluator=evaluator, **PLAN))


@faulty("another model evaluated", "The evaluator looks at a copy from before training: its score "
        "never changes.",
        (r"another model", r"same model", r"(score|evaluat).{0,60}(never|not|no) (chang|mov)",
         r"constant", r"exactly the same", r"identical"), never=SOUND)  # fmt: skip
def copy_from_before_training_evaluated(stage: Stage) -> None:
    model = stage.model()
    before = copy.deepcopy(model)

    class OfCopy(evaluation.EmbeddingSimilarityEvaluator):
        def __call__(self, model: Any, *args: Any, **options: Any) -> Any:
            return super().__call__(before, *args, **options)

    gold = scored(80, seed=4)
    evaluator = OfCopy(gold["sentence1"], gold["sentence2"], gold["score"], name="made-up")
    stage.play(stage.trainer(ranking, pairs(), model, evaluator=evaluator, **PLAN))


@faulty("evaluated otherwise than used", "Trained by cosines, evaluated by dot products of "
        "embeddings that are not normalised.", METRIC)  # fmt: skip
def cosines_trained_and_dot_products_evaluated(stage: Stage) -> None:
    model = stage.model()
    model.similarity_fn_name = "dot"
    evaluator = similarity(main_similarity="dot", similarity_fn_names=["dot"])
    stage.play(stage.trainer(ranking, pairs(), model, evaluator=evaluator, **PLAN))


@faulty("evaluated otherwise than used", "Evaluated and used with 4 of 32 dimensions, which no "
        "Matryoshka loss has trained.", (r"truncate_dim", r"dimension", r"matryoshka"))  # fmt: skip
def cut_dimensions_without_matryoshka(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer

    stage.model().save(str(stage.folder / "saved"))
    model = SentenceTransformer(str(stage.folder / "saved"), device="cpu", truncate_dim=4)
    evaluator = similarity(truncate_dim=4)
    stage.play(stage.trainer(ranking, pairs(), model, evaluator=evaluator, **PLAN))


def translations(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Texts with their translation, in which another word stands for each word."""
    other = dict(zip(WORDS, WORDS[130:] + WORDS[:130], strict=True))
    texts = pairs(count, seed)["positive"]
    foreign = [" ".join(other.get(word, word) for word in text.split()) for text in texts]
    return {"english": texts, "foreign": foreign}


@faulty("overfitted", "32 translations are learned by heart: the loss of held-out rows rises.",
        (r"held.out", r"overfit", r"epochs?", r"few (rows|pairs|texts)", r"eval.{0,20}loss",
         r"memori[sz]"), tools=(REPORT,))  # fmt: skip
def held_out_loss_that_rises(stage: Stage) -> None:
    from datasets import Dataset

    held = Dataset.from_dict(translations(64, seed=3))
    plan = PLAN | {"eval_steps": 15}
    stage.play(
        stage.trainer(ranking, translations(32), eval_dataset=held, learning_rate=3e-3,
                      max_steps=120, **plan)
    )  # fmt: skip


WRONG = (
    r"target", r"labels?\b", r"wrong positive", r"another (sentence|row|text)", r"diagonal",
    r"positive .{0,60}(not|another)",
)  # fmt: skip
SOFTMAX = (r"softmax", r"probabilit", r"logits")


class Views(nn.Module):
    """An encoder of two views for a plain Trainer; ``criterion`` makes the loss of them."""

    def __init__(self, criterion: Any, along: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(24, 32), nn.Dropout(0.1))
        self.criterion, self.along = criterion, along

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, Any]:
        first, second = (F.normalize(self.body(rows), dim=self.along) for rows in x.unbind(1))
        return {"loss": self.criterion(first, second), "z1": first, "z2": second}


def plain_trainer(stage: Stage, model: nn.Module, **arguments: Any) -> Any:
    """A Hugging Face trainer of pairs of vectors, of which a third of the dimensions matter."""
    from transformers import Trainer, TrainingArguments

    torch.manual_seed(0)
    signal = torch.randn(640, 1, 8) + 0.3 * torch.randn(640, 2, 8)
    views = torch.cat([signal, 0.8 * torch.randn(640, 2, 16)], dim=2)
    settings = {
        "output_dir": str(stage.folder / "run"), "max_steps": 100, "report_to": "none",
        "per_device_train_batch_size": 16, "learning_rate": 9e-4, "save_strategy": "no",
        "remove_unused_columns": False, "use_cpu": True, "disable_tqdm": True, "logging_steps": 5,
    }  # fmt: skip
    return Trainer(
        model=model,
        args=TrainingArguments(**{**settings, **arguments}),
        train_dataset=[{"x": row, "labels": 0} for row in views],
    )


def loop(
    stage: Stage,
    criterion: Any,
    optimizer: Any = torch.optim.SGD,
    *,
    rate: float = 0.2,
    clears: bool = True,
    steps: int = 100,
) -> None:
    """A loop by hand: a linear encoder, and two views of vectors that share a sixth of them."""
    torch.manual_seed(0)
    rows, encoder = torch.randn(512, 8), nn.Linear(48, 32)
    descent = optimizer(encoder.parameters(), lr=rate)
    watched = gradlab.watch(criterion, output=stage.folder / "loop", total_steps=steps, every=4)
    for _ in range(steps):
        chosen = rows[torch.randperm(512)[:32]]
        views = [torch.cat([chosen, 0.6 * torch.randn(32, 40)], dim=1) for _ in range(2)]
        first, second = map(encoder, views)
        value = watched(first, second)
        if clears:
            descent.zero_grad()
        value.backward()
        descent.step()
    watched.finish()
    stage.run(stage.folder / "loop")


def infonce(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """The ranking loss of cosines at a temperature of 0.1."""
    cosines = F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
    return F.cross_entropy(cosines / 0.1, torch.arange(len(first)))


@faulty("targets of one's own loss", "All targets are 0, as in a code with a queue: the first row "
        "counts as the positive of all.", WRONG)  # fmt: skip
def targets_of_zero(stage: Stage) -> None:
    def criterion(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(first @ second.T / 0.1, torch.zeros(len(first), dtype=torch.long))

    trainer = plain_trainer(stage, Views(criterion))
    stage.play(trainer, views=("z1", "z2"), loss="infonce(temperature=0.1)", every=5)


@faulty("targets of one's own loss", "Rows of both views are compared with all, themselves "
        "included: the own cosine of 1 is not masked.",
        (r"itself", r"themselves", r"diagonal", r"mask", r"own (cosine|similarity)", *WRONG),
        tools=(REPORT,))  # fmt: skip
def own_similarity_not_masked(stage: Stage) -> None:
    def criterion(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        rows = F.normalize(torch.cat([first, second]), dim=1)
        targets = torch.arange(len(rows)).roll(len(first))
        return F.cross_entropy(rows @ rows.T / 0.1, targets)

    loop(stage, criterion)


@faulty("softmax twice", "cross_entropy gets probabilities in place of logits.", SOFTMAX)
def probabilities_as_logits(stage: Stage) -> None:
    def criterion(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        shares = F.softmax(first @ second.T / 0.1, dim=1)
        return F.cross_entropy(shares, torch.arange(len(first)))

    trainer = plain_trainer(stage, Views(criterion))
    stage.play(trainer, views=("z1", "z2"), loss="infonce(temperature=0.1)", every=5)


@faulty("softmax twice", "cross_entropy gets probabilities in place of logits, in a loop.",
        SOFTMAX, tools=(REPORT,))  # fmt: skip
def probabilities_as_logits_in_a_loop(stage: Stage) -> None:
    def criterion(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        cosines = F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
        return F.cross_entropy(F.softmax(cosines / 0.1, dim=1), torch.arange(len(first)))

    loop(stage, criterion)


@faulty(
    "normalised along the batch",
    "normalize(dim=0): a dimension, not an embedding, has the length 1.",
    (r"normali[sz]", r"(unit|of) length", r"\bdim\b", r"depend", r"\balone\b"),
)
def normalised_along_the_batch(stage: Stage) -> None:
    def criterion(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(first @ second.T / 0.1, torch.arange(len(first)))

    trainer = plain_trainer(stage, Views(criterion, along=0))
    stage.play(trainer, views=("z1", "z2"), every=5)


@faulty(
    "exponentials overflow",
    "The softmax is written out; at a temperature of 0.01 exp overflows.",
    (r"NaN", r"infinite", r"not finite", r"overflow"),
    tools=(REPORT,),
)
def softmax_written_out(stage: Stage) -> None:
    def criterion(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        exponentials = (F.normalize(first, dim=1) @ F.normalize(second, dim=1).T / 0.01).exp()
        return -(exponentials.diagonal() / exponentials.sum(1)).log().mean()

    loop(stage, criterion)


@faulty("gradients never cleared", "zero_grad is missing: each step adds to all gradients before.",
        (r"zero_grad", r"clear", r"accumulat", r"(gradient|step)s? .{0,40}grow"),
        tools=(REPORT,))  # fmt: skip
def gradients_never_cleared(stage: Stage) -> None:
    loop(stage, infonce, torch.optim.Adam, rate=0.003, clears=False, steps=160)


@faulty("evaluator that cannot tell", "Negatives of the evaluator are of another kind of text, and "
        "all triplets are right before training.", FLAT)  # fmt: skip
def triplets_that_are_right_before_training(stage: Stage) -> None:
    made = facts(60, seed=3)
    evaluator = evaluation.TripletEvaluator(
        [passage(fact) for fact in made], [passage(fact, 1) for fact in made], ["?"] * 60,
        name="made-up",
    )  # fmt: skip
    stage.play(stage.trainer(ranking, pairs(), evaluator=evaluator, **PLAN))
