"""Faults of training: the loss's weights, temperatures, margins, schedules, scores, precision."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

import gradlab
from tests.judgement.case import DOCTOR, REPORT, faulty
from tests.judgement.stage import STEPS, Stage, facts, lookalike, pairs, passage, scored, triplets
from tests.sentence_training import evaluation, losses

ranking = losses.MultipleNegativesRankingLoss
HEAD = (
    r"classifier", r"loss's (own )?(weight|parameter|head)", r"head of the loss",
    r"(weight|parameter)s? of the loss", r"lacks .*loss",
)  # fmt: skip
SCALED = (
    r"accumulat", r"multiplied", r"\d times (as|the|what|larger)",
    r"(recorded|logged)\b.*\bloss.*(differ|times)",
)  # fmt: skip
MARGIN = (r"margin",)
RATE = (r"warm.?up", r"learning rate (is|was|stays|stayed) (at )?(0|zero)\b", r"schedule")
FROZEN = (r"frozen", r"requires_grad", r"optimi[sz]er", r"not trained")
TEMPERATURE = (r"temperature", r"\bscale\b", r"\btau\b")


def _softmax(model: object) -> object:
    return losses.SoftmaxLoss(model, 32, 3)


def _inference() -> dict[str, list]:
    rows = facts(160)
    seconds = [(passage(fact, 0), lookalike(fact), passage(fact[::-1]))[at % 3]
               for at, fact in enumerate(rows)]  # fmt: skip
    return {"premise": list(map(passage, rows)), "hypothesis": seconds,
            "label": [at % 3 for at in range(160)]}  # fmt: skip


@faulty("loss head not trained", "The classifier of SoftmaxLoss is not in the optimizer.", HEAD)
def classifier_not_in_the_optimizer(stage: Stage) -> None:
    model = stage.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    stage.play(stage.trainer(_softmax, _inference(), model, optimizers=(optimizer, None)))


@faulty("loss head not trained", "The classifier of SoftmaxLoss is frozen.", (*HEAD, r"frozen"))
def classifier_frozen(stage: Stage) -> None:
    def loss(model: object) -> object:
        criterion = _softmax(model)
        criterion.classifier.requires_grad_(False)
        return criterion

    stage.play(stage.trainer(loss, _inference()))


class _Views(nn.Module):
    """An encoder for a plain Trainer, whose forward takes any arguments."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.body, self.scale = nn.Sequential(nn.Linear(24, 32), nn.Dropout(0.1)), scale

    def forward(
        self, x: torch.Tensor, labels: torch.Tensor | None = None, **kwargs: object
    ) -> dict:
        first, second = (F.normalize(self.body(rows), dim=1) for rows in x.unbind(1))
        value = F.cross_entropy(first @ second.T / 0.05, torch.arange(len(first)))
        return {"loss": self.scale * value, "z1": first, "z2": second}


def _plain_trainer(stage: Stage, model: nn.Module, **arguments: object) -> object:
    from transformers import Trainer, TrainingArguments

    torch.manual_seed(0)
    signal, noise = torch.randn(640, 1, 8), torch.randn(640, 2, 16)
    signals = signal + 0.3 * torch.randn(640, 2, 8)
    views = torch.cat([signals, 0.8 * noise], dim=2)  # (N, 2, 24), of which 8 dimensions matter
    settings = {
        "output_dir": str(stage.folder / "run"), "max_steps": 100, "report_to": "none",
        "per_device_train_batch_size": 16, "learning_rate": 9e-4, "max_grad_norm": 0.0,
        "save_strategy": "no", "remove_unused_columns": False, "use_cpu": True,
        "disable_tqdm": True, "logging_steps": 2, "lr_scheduler_type": "constant",
    }  # fmt: skip
    return Trainer(
        model=model,
        args=TrainingArguments(**{**settings, **arguments}),
        train_dataset=[{"x": row, "labels": 0} for row in views],
    )


@faulty("gradient scaled", "forward(**kwargs) makes the trainer leave out the division by the "
        "accumulation, so that loss and gradient are 8 times as large.", SCALED)  # fmt: skip
def accumulation_multiplies_the_gradient(stage: Stage) -> None:
    trainer = _plain_trainer(stage, _Views(), gradient_accumulation_steps=8)
    stage.play(trainer, views=("z1", "z2"), loss="infonce(temperature=0.05)", every=5)


@faulty("gradient scaled", "The trainer multiplies the loss by 100 outside the loss.", SCALED)
def loss_multiplied_outside(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformerTrainer

    class Multiplied(SentenceTransformerTrainer):
        def compute_loss(self, *args: object, **kwargs: object) -> object:
            value = super().compute_loss(*args, **kwargs)
            return (100 * value[0], value[1]) if isinstance(value, tuple) else 100 * value

    stage.play(stage.trainer(ranking, pairs(), kind=Multiplied))


@faulty(
    "margin out of range", "A margin of 5 between unit vectors, which are at most 2 apart.", MARGIN
)
def triplet_margin_beyond_unit_vectors(stage: Stage) -> None:
    model = stage.model(normalize=True)
    stage.play(
        stage.trainer(lambda m: losses.TripletLoss(m, triplet_margin=5.0), triplets(), model)
    )


@faulty(
    "margin out of range", "A margin of 3 between cosine distances, which are at most 2.", MARGIN
)
def contrastive_margin_beyond_cosines(stage: Stage) -> None:
    rows, unrelated = facts(160), facts(160, seed=5)
    seconds = [passage(rows[at] if at % 2 else unrelated[at]) for at in range(160)]
    table = {"a": pairs()["anchor"], "b": seconds, "label": [at % 2 for at in range(160)]}
    stage.play(stage.trainer(lambda m: losses.ContrastiveLoss(m, margin=3.0), table))


@faulty("margin out of range", "A negative margin, which every triplet satisfies.",
        (*MARGIN, r"loss is (exactly )?0"))  # fmt: skip
def margin_that_is_always_met(stage: Stage) -> None:
    cosine = losses.TripletDistanceMetric.COSINE
    stage.play(
        stage.trainer(lambda m: losses.TripletLoss(m, cosine, triplet_margin=-1.5), triplets())
    )


@faulty("warm-up too long", "The warm-up is longer than the run.", RATE)
def warm_up_longer_than_the_run(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(), warmup_steps=5000))


@faulty("warm-up too long", "The schedule holds the learning rate at 0 for 1000 steps.", RATE)
def rate_of_zero_by_a_schedule(stage: Stage) -> None:
    model = stage.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: float(step >= 1000))
    stage.play(stage.trainer(ranking, pairs(), model, optimizers=(optimizer, schedule)))


@faulty("weights do not move", "All weights are frozen but those of a layer behind the pooling.",
        (*FROZEN, r"no gradient"))  # fmt: skip
def everything_frozen_but_a_norm(stage: Stage) -> None:
    model = stage.model()
    model.requires_grad_(False)
    model[0].auto_model.encoder.layer[0].attention.output.LayerNorm.bias.requires_grad_(True)
    stage.play(stage.trainer(ranking, pairs(), model))


@faulty(
    "weights do not move", "The optimizer has the weights of another copy of the model.", FROZEN
)
def optimizer_of_another_model(stage: Stage) -> None:
    copied_model = stage.model()
    optimizer = torch.optim.AdamW(copied_model.parameters(), lr=5e-4)
    stage.play(stage.trainer(ranking, pairs(), optimizers=(optimizer, None)))


@faulty(
    "weights do not move",
    "The loop's optimizer has weights of another layer.",
    FROZEN,
    tools=(REPORT,),
)
def loop_with_the_wrong_optimizer(stage: Stage) -> None:
    _loop(stage, "infonce", held=nn.Linear(2, 2))


@faulty("weights do not move", "The embeddings are detached before the loss.",
        (r"detach", r"no gradient", r"reaches no"))  # fmt: skip
def embeddings_detached(stage: Stage) -> None:
    class Detached(ranking):
        def forward(self, features: object, labels: object = None) -> object:
            rows = [
                self.model(column)["sentence_embedding"].detach().requires_grad_()
                for column in features
            ]
            return self.compute_loss_from_embeddings(rows, labels)

    stage.play(stage.trainer(Detached, pairs()), fails=True)


def _loop(stage: Stage, loss: object, *, held: nn.Module | None = None, **options: object) -> None:
    """A linear encoder learns to tell vectors apart by two noisy views of each."""
    settings = {"noise": 0.5, "rate": 0.003, "steps": 80, "hard": False, "same": False,
                "wrong": None, "batch": 64, **options}  # fmt: skip
    torch.manual_seed(0)
    sentences = torch.randn(32, 64).repeat_interleave(32, dim=0) + torch.randn(1024, 64) + 1.0
    encoder = nn.Linear(64, 32)
    if settings["wrong"] == "dead":
        with torch.no_grad():
            encoder.weight.mul_(1e-3)
            encoder.bias.fill_(1.0)
    function = gradlab.get_loss(loss) if isinstance(loss, str) else loss
    call = (lambda a, p: function(a, p, normalize=True)) if isinstance(loss, str) else function
    criterion = gradlab.watch(
        call, loss=loss if isinstance(loss, str) else None, output=stage.folder / "loop",
        total_steps=settings["steps"], every=4,
    )  # fmt: skip
    count, steps = settings["batch"], iter(range(settings["steps"]))

    def step() -> torch.Tensor:
        number = next(steps)
        chosen = sentences[torch.randperm(1024)[:count]]
        first = chosen + settings["noise"] * torch.randn(count, 64)
        second = first if settings["same"] else chosen + settings["noise"] * torch.randn(count, 64)
        rows = encoder(first)
        if settings["wrong"] == "overflow" and number >= 40:
            rows = rows * float("inf")
        value = criterion(rows, encoder(second))
        return -value if settings["wrong"] == "ascent" else value

    optimizer = torch.optim.Adam((held or encoder).parameters(), lr=settings["rate"])
    stage.loop(criterion, optimizer, step, steps=settings["steps"])


@faulty(
    "numbers",
    "The embeddings overflow from step 40 on.",
    (r"NaN", r"infinite", r"not finite"),
    tools=(REPORT,),
)
def overflow_in_the_middle(stage: Stage) -> None:
    def infonce(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        cosines = F.normalize(anchors, dim=1) @ F.normalize(positives, dim=1).T
        return F.cross_entropy(cosines / 0.05, torch.arange(len(anchors)))

    _loop(stage, infonce, wrong="overflow")


@faulty(
    "numbers",
    "The weights are float16, in which gradients vanish and sums overflow.",
    (r"float16", r"fp16"),
)
def weights_in_half_precision(stage: Stage) -> None:
    model = stage.model().half()
    stage.play(stage.trainer(ranking, pairs(), model), fails=True)


@faulty(
    "numbers", "The weights are bfloat16, and steps are rounded away.", (r"bfloat16", r"rounded")
)
def weights_in_brain_floats(stage: Stage) -> None:
    model = stage.model().bfloat16()
    stage.play(stage.trainer(ranking, pairs(), model, learning_rate=2e-5), fails=True)


@faulty("learning rate", "A learning rate of 0.05 ruins the encoder.",
        (r"ruins", r"lower the learning rate"))  # fmt: skip
def learning_rate_far_too_high(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(), learning_rate=0.05, warmup_steps=0))


@faulty("learning rate", "At a learning rate of 1e-9 nothing moves.",
        (r"no weight changes", r"higher learning rate", r"learning rate is above 0"))  # fmt: skip
def learning_rate_far_too_low(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(), learning_rate=1e-9))


@faulty(
    "temperature",
    "The scale is 1: all negatives weigh alike.",
    TEMPERATURE,
    never=(r"lower (the )?temperature .*collapse",),
)
def scale_of_one(stage: Stage) -> None:
    stage.play(stage.trainer(lambda model: ranking(model, scale=1.0), pairs()))


@faulty(
    "temperature",
    "The temperature, 0.05, was given as the scale.",
    TEMPERATURE,
    never=(r"train longer",),
)
def temperature_given_as_scale(stage: Stage) -> None:
    stage.play(stage.trainer(lambda model: ranking(model, scale=0.05), pairs()))


@faulty("temperature", "The scale is 2000: the hardest negative has all the weight.", TEMPERATURE)
def scale_of_two_thousand(stage: Stage) -> None:
    stage.play(stage.trainer(lambda model: ranking(model, scale=2000.0), pairs()))


@faulty("temperature", "Dot products of long embeddings are multiplied by a scale for cosines.",
        (*TEMPERATURE, r"normali[sz]e"))  # fmt: skip
def dot_products_times_a_scale_for_cosines(stage: Stage) -> None:
    from sentence_transformers.util import dot_score

    stage.play(stage.trainer(lambda model: ranking(model, similarity_fct=dot_score), pairs()))


@faulty("temperature", "In a loop, the temperature is 0.001.", (*TEMPERATURE,), tools=(REPORT,))
def loop_at_a_low_temperature(stage: Stage) -> None:
    _loop(stage, "infonce(temperature=0.001)", noise=0.2)


@faulty(
    "temperature",
    "In a loop, the temperature is 2.",
    TEMPERATURE,
    tools=(REPORT,),
    never=(r"train longer",),
)
def loop_at_a_high_temperature(stage: Stage) -> None:
    _loop(stage, "infonce(temperature=2)")


@faulty(
    "push outweighs pull", "The ratio of the loss is fixed at 0.1.", (r"ratio",), tools=(REPORT,)
)
def ratio_of_a_tenth(stage: Stage) -> None:
    _loop(stage, "baseline(static_ratio=0.1)")


@faulty(
    "equal views",
    "Both views of a sentence are the same vector.",
    (r"identical", r"views? .*(same|equal)"),
    tools=(REPORT,),
)
def loop_with_one_view(stage: Stage) -> None:
    _loop(stage, "infonce", same=True)


@faulty(
    "equal views",
    "A text is its own positive, and the encoder has no dropout.",
    (r"dropout", r"identical"),
)
def text_with_itself_without_dropout(stage: Stage) -> None:
    texts = pairs()["positive"]
    stage.play(stage.trainer(ranking, {"a": texts, "b": list(texts)}, stage.model(dropout=0.0)))


@faulty(
    "one point",
    "The encoder gives all sentences one embedding, and does not learn.",
    (r"collapse", r"one point"),
    tools=(REPORT,),
)
def encoder_of_one_point(stage: Stage) -> None:
    _loop(stage, "infonce", wrong="dead", rate=0.0)


@faulty("maximised", "The loss is maximised.", (r"\bsign\b", r"maximi[sz]"), tools=(REPORT,))
def loss_maximised(stage: Stage) -> None:
    _loop(stage, "infonce", wrong="ascent")


def _sts(**options: object) -> object:
    table = scored(80, seed=4)
    return evaluation.EmbeddingSimilarityEvaluator(
        table["sentence1"], table["sentence2"], table["score"], name="made-up", **options
    )


PLAN = {"eval_strategy": "steps", "eval_steps": 8}


@faulty("score without baseline", "Training lowers the score, and no score before it is known.",
        (r"before training", r"baseline", r"eval_on_start", r"not judged"),
        tools=(REPORT,), never=(r"scores? .*look sound",))  # fmt: skip
def training_that_lowers_the_score(stage: Stage) -> None:
    plan = {**PLAN, "eval_steps": STEPS}  # the only score is that at the end
    stage.train(stage.trainer(ranking, pairs(), evaluator=_sts(), learning_rate=0.03, **plan))


@faulty(
    "score falls",
    "The score falls below its start.",
    (r"before training", r"has fallen", r"not improved"),
    tools=(REPORT,),
)
def score_below_its_start(stage: Stage) -> None:
    stage.train(
        stage.trainer(
            ranking, pairs(), evaluator=_sts(), eval_on_start=True, learning_rate=0.03, **PLAN
        )
    )


@faulty(
    "evaluator without prompt", "Training uses a prompt that the evaluator lacks.", (r"prompt",)
)
def evaluator_without_the_prompt(stage: Stage) -> None:
    table = pairs(60, seed=3)
    corpus = {str(at): text for at, text in enumerate(table["positive"])}
    queries = {str(at): text for at, text in enumerate(table["anchor"])}
    retrieval = evaluation.InformationRetrievalEvaluator(
        queries, corpus, {key: {key} for key in queries}, name="made-up"
    )
    stage.play(
        stage.trainer(ranking, pairs(), evaluator=retrieval, eval_on_start=True,
                      prompts={"anchor": "zu zo ze: ", "positive": "vu vo ve: "}, **PLAN)
    )  # fmt: skip


@faulty(
    "interrupted",
    "The run ends with an error in the middle.",
    (r"error", r"ended"),
    tools=(REPORT,),
)
def error_in_the_middle(stage: Stage) -> None:
    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        def on_step_end(self, args: object, state: object, control: object, **_: object) -> None:
            if state.global_step == STEPS // 2:
                raise RuntimeError("out of memory")

    stage.train(stage.trainer(ranking, pairs(), callbacks=[Stop()]), fails=True)


@faulty("batch of one", "A batch of one sentence has no negatives.", (r"batch",), tools=(DOCTOR,))
def batches_of_one(stage: Stage) -> None:
    stage.doctor(stage.trainer(ranking, pairs(), per_device_train_batch_size=1))


@faulty(
    "gradient cache",
    "The cache draws new dropout in its second pass.",
    (r"dropout", r"replayed"),
    tools=(DOCTOR,),
)
def cache_with_new_dropout(stage: Stage) -> None:
    class NotReplayed(losses.CachedMultipleNegativesRankingLoss):
        def embed_minibatch_iter(self, *args: object, **kwargs: object) -> object:
            if kwargs.get("with_grad"):
                kwargs["random_states"] = None
            return super().embed_minibatch_iter(*args, **kwargs)

    stage.doctor(stage.trainer(lambda model: NotReplayed(model, mini_batch_size=5), pairs()))
