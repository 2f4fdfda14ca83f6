"""Faults of loops that people write themselves with PyTorch, and such a loop."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import gradlab
from tests.judgement.case import faulty
from tests.judgement.stage import Stage, pairs, rated, scored
from tests.judgement.truth import among_alike, correlation, falls_short
from tests.tiny_models import make_bert

RATE, BATCH, STEPS = 5e-4, 16, 60
TEMPERATURE = 0.05


def embed(model: Any, texts: Sequence[str]) -> torch.Tensor:
    """Return the embeddings (N, D) of texts, with gradient."""
    tokens = model.tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
    return model(dict(tokens))["sentence_embedding"]


def shuffled(table: Mapping[str, Sequence[Any]], seed: int = 0) -> Iterator[list[list[Any]]]:
    """Yield the columns of one batch after another, in a new order with each pass."""
    columns, draw = list(table.values()), random.Random(seed)
    while True:
        order = draw.sample(range(len(columns[0])), len(columns[0]))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            yield [[column[at] for at in order[start : start + BATCH]] for column in columns]


def infonce(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """InfoNCE as most people write it."""
    logits = F.normalize(anchors, dim=-1) @ F.normalize(positives, dim=-1).T / TEMPERATURE
    return F.cross_entropy(logits, torch.arange(len(anchors)))


@dataclass
class Loop:
    """A loop of training: a criterion of embeddings, batches, and what a step makes of both.

    Attributes:
        criterion: the loss, a function of embeddings.
        table: columns of texts and labels.
        step: returns the loss of ``(model, criterion, columns of the batch)``; None: the criterion
            of the embeddings of both columns.
        optimizer: makes the optimizer of a model; None: AdamW.
        batches: makes the batches from the table.
        update: moves the weights by the loss; None: as usual.
        steps: steps of training.
        views: where the views are among the arguments of the criterion, if it has others.
    """

    criterion: Any = infonce
    table: Mapping[str, Sequence[Any]] | None = None
    step: Callable[[Any, Any, list[list[Any]]], torch.Tensor] | None = None
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None
    batches: Callable[[Mapping[str, Sequence[Any]]], Iterator[list[list[Any]]]] = shuffled
    update: Callable[[torch.optim.Optimizer, torch.Tensor], None] | None = None
    steps: int = STEPS
    views: Any = None

    def train(self, stage: Stage, model: Any, folder: str = "") -> None:
        """Train an encoder; with a ``folder``, under watch."""
        criterion = self.criterion
        if folder:
            criterion = gradlab.watch(
                criterion,
                views=self.views,
                every=2,
                output=stage.folder / folder,
                total_steps=self.steps,
            )
        weights = [*model.parameters()]
        if isinstance(self.criterion, nn.Module):
            weights += self.criterion.parameters()
        optimizer = (
            torch.optim.AdamW(weights, lr=RATE)
            if self.optimizer is None
            else self.optimizer(weights)
        )
        batches = self.batches(pairs() if self.table is None else self.table)
        torch.manual_seed(1)
        model.train()
        for _, columns in zip(range(self.steps), batches, strict=False):
            value = (self.step or both_columns)(model, criterion, columns)
            optimizer.zero_grad()
            (self.update or _update)(optimizer, value)
        if folder:
            criterion.finish()
        model.eval()


def trained_by_gradlab(stage: Stage, **settings: object) -> Any:
    """Train with `gradlab.train` on passages, two views of each, and return the encoder."""
    file, folder = stage.folder / "passages.txt", stage.folder / "run"
    folder = folder.with_name(f"run-{len(list(stage.folder.glob('run-*')))}")
    file.write_text("\n".join(pairs(400)["positive"]), encoding="utf-8")
    plan: dict[str, Any] = {
        "max_steps": 40, "batch_size": 32, "learning_rate": 5e-4, "diagnostics_every": 2,
        "threads": 1, "pooler": "mean", "device": "cpu", "max_length": 64,
    }  # fmt: skip
    bert = make_bert(stage.folder / "bert")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        gradlab.train(model=str(bert), train_file=str(file), output=str(folder), **plan | settings)
    return stage.model(bert=folder / "encoder")


def both_columns(model: Any, criterion: Any, columns: list[list[Any]]) -> torch.Tensor:
    """Return the loss of the embeddings of two columns; further columns are numbers."""
    first, second, *numbers = columns
    return criterion(
        embed(model, first), embed(model, second), *(torch.tensor(column) for column in numbers)
    )


def _update(optimizer: torch.optim.Optimizer, value: torch.Tensor) -> None:
    value.backward()
    optimizer.step()


def loses(
    stage: Stage,
    loop: Loop,
    mended: Loop,
    score: Callable[[Any], float] = among_alike,
    *,
    share: float | None = 0.6,
) -> None:
    """Play a faulty loop under watch beside its mended counterpart."""
    scores = []
    for variant, folder in ((loop, "loop"), (mended, "")):
        model = stage.model()
        before = score(model)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            variant.train(stage, model, folder)
        scores.append((before, score(model)))
    stage.run(stage.folder / "loop")
    falls_short(stage, *scores, share=share)


class Learned(nn.Module):
    """InfoNCE whose temperature is learned, by its logarithm or as it is."""

    def __init__(self, *, logarithm: bool = True) -> None:
        super().__init__()
        self.logarithm = logarithm
        temperature = torch.tensor(TEMPERATURE)
        self.temperature = nn.Parameter(temperature.log() if logarithm else temperature)

    def forward(self, anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        temperature = self.temperature.exp() if self.logarithm else self.temperature
        cosines = F.normalize(anchors, dim=-1) @ F.normalize(positives, dim=-1).T
        return F.cross_entropy(cosines / temperature, torch.arange(len(anchors)))


def own_rate(rate: float) -> Callable[[Any], torch.optim.Optimizer]:
    """An optimizer whose last weight, the temperature, has a rate of its own."""
    return lambda weights: torch.optim.AdamW(
        [{"params": weights[:-1]}, {"params": weights[-1:], "lr": rate}], lr=RATE
    )


@faulty(
    "learned temperature runs away",
    "The temperature is learned as it is, without a bound, at a rate as large as itself: it leaves "
    "the range of use within a few steps.",
    [r"temperature", r"\bscale\b", r"τ"],
)
def temperature_learned_without_a_bound(stage: Stage) -> None:
    loses(
        stage,
        Loop(Learned(logarithm=False), optimizer=own_rate(0.05)),
        Loop(Learned(), optimizer=own_rate(RATE)),
        share=None,
    )


def hinge(
    choose: Callable[[torch.Tensor], torch.Tensor], margin: float = 0.3
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A margin loss against the negative whose cosine ``choose`` takes of each row."""

    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        cosines = F.normalize(anchors, dim=-1) @ F.normalize(positives, dim=-1).T
        return F.relu(margin - cosines.diag() + choose(cosines)).mean()

    return loss


def _hardest(cosines: torch.Tensor) -> torch.Tensor:
    return cosines.masked_fill(torch.eye(len(cosines), dtype=torch.bool), -2).amax(1)


@faulty(
    "the positive is mined as its own negative",
    "The hardest negative is sought in the whole matrix of cosines, the diagonal with it: once the "
    "positive is the nearest, the loss compares it with itself and has no gradient.",
    [
        r"diagonal",
        r"(own|its|the) positive.{0,60}(as|among|is|in).{0,40}negative",
        r"negative.{0,60}is.{0,30}(own|the) positive",
        r"(no|zero|without( a)?|vanish\w*) gradient",
        r"gradient.{0,40}(zero|vanish|is 0)",
        r"loss.{0,60}(margin|constant|does not (change|fall|move))",
    ],
)
def hardest_of_all_cosines(stage: Stage) -> None:
    loses(stage, Loop(hinge(lambda cosines: cosines.amax(1))), Loop(hinge(_hardest)), share=0.75)


@faulty(
    "easiest negatives mined",
    "The negative with the lowest cosine is taken, where the highest was meant.",
    [
        r"eas(y|iest)",
        r"(farthest|least similar|lowest)",
        r"negatives?.{0,60}(too easy|far away|far enough)",
        r"margin.{0,60}(met|satisfied|kept)",
        r"(sentences?|anchors?|triplets?).{0,40}(stopped|no longer learn|satisfied|closed)",
    ],
)
def lowest_cosine_as_the_hardest_negative(stage: Stage) -> None:
    loses(stage, Loop(hinge(lambda cosines: cosines.amin(1))), Loop(hinge(_hardest)))


@faulty(
    "views reshaped in the wrong order",
    "Texts alternate in the batch (a1, b1, a2, b2 ...), and the embeddings are reshaped to "
    "(2, N, D) where (N, 2, D) was meant: the two views belong to different rows.",
    [
        r"reshap|\bview\(|interleav|alternat",
        r"(pairs?|rows|views|positives?).{0,80}(mis-?match|mis-?align|not belong|mixed|shuffled|"
        r"unrelated|nothing in common|chance|no more alike|wrong)",
        r"(mis-?match|mis-?align|unrelated|shuffled).{0,60}(pairs?|rows|views|positives?)",
    ],
)
def alternating_texts_cut_in_the_middle(stage: Stage) -> None:
    def step(turned: bool) -> Callable[..., torch.Tensor]:
        def loss_of(model: Any, criterion: Any, columns: list[list[Any]]) -> torch.Tensor:
            texts = [text for row in zip(*columns, strict=True) for text in row]
            rows = embed(model, texts)
            views = rows.view(2, BATCH, -1) if turned else rows.view(BATCH, 2, -1).transpose(0, 1)
            return criterion(views[0], views[1])

        return loss_of

    loses(stage, Loop(step=step(turned=True)), Loop(step=step(turned=False)))


@faulty(
    "push has no gradient",
    "The negatives are computed without gradient by the anchors' side as well: pairs are pulled "
    "together, and nothing pushes.",
    [
        r"no (push|negatives?)",
        r"(push|negatives?).{0,60}(no|without|zero|lack).{0,20}gradient",
        r"nothing.{0,20}push",
        r"detach",
        r"collaps",
        r"\bpull.{0,60}(outweigh|stronger|alone|only)",
    ],
)
def logarithm_of_the_sum_detached(stage: Stage) -> None:
    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        logits = F.normalize(anchors, dim=-1) @ F.normalize(positives, dim=-1).T / TEMPERATURE
        return (logits.detach().logsumexp(1) - logits.diag()).mean()

    loses(stage, Loop(loss), Loop())


@faulty(
    "rounded without a gradient",
    "The loss is computed from binary codes, the signs of the embeddings, whose derivative is 0.",
    [
        r"\bsigns?\b|binar|round|quanti[sz]|straight.through",
        r"(no|zero|without( a)?|vanish\w*) gradient",
        r"gradients?.{0,60}(zero|vanish|is 0|are 0|not reach)",
        r"weights?.{0,40}(do not move|did not move|have not moved|do not change|unchanged)",
    ],
)
def signs_of_the_embeddings(stage: Stage) -> None:
    def codes(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        return infonce(anchors.sign(), positives.sign())

    def smooth(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        return infonce((4 * anchors).tanh(), (4 * positives).tanh())

    loses(stage, Loop(codes), Loop(smooth))


@faulty(
    "the same batch at every step",
    "Each step makes a new iterator of a loader with a fixed seed, and takes its first batch.",
    [
        r"same (batch|rows|texts|sentences|pairs)",
        r"(batch|rows|texts|sentences|pairs).{0,40}(again|repeat|every step|each step|identical)",
        r"repeat",
        r"overfit|memori[sz]",
        r"(sees?|saw|trains? on) only",
    ],
)
def first_batch_of_a_new_iterator(stage: Stage) -> None:
    def first(table: Mapping[str, Sequence[Any]]) -> Iterator[list[list[Any]]]:
        while True:
            yield next(shuffled(table))

    loses(stage, Loop(batches=first), Loop())


@faulty(
    "documents embedded once before training",
    "The positives are embedded by the encoder as it was before training, and never again, while "
    "both sides are embedded by the trained one afterwards.",
    [
        r"(positives?|documents?|second (view|column)|keys?).{0,60}"
        r"(no|without|zero|lack|carry no|detach).{0,20}gradient",
        r"detach|stale|frozen|cached|precomputed|constant",
        r"(no|without( a)?) gradient.{0,60}(positives?|second|documents?)",
        r"(only|just) one (side|view|column|of the two)",
        r"one-sided",
    ],
)
def passages_from_an_index_made_beforehand(stage: Stage) -> None:
    index: dict[str, torch.Tensor] = {}

    def step(model: Any, criterion: Any, columns: list[list[Any]]) -> torch.Tensor:
        if not index:
            texts = pairs()["positive"]
            with torch.no_grad():
                index.update(zip(texts, embed(model.eval(), texts), strict=True))
            model.train()
        return criterion(
            embed(model, columns[0]), torch.stack([index[text] for text in columns[1]])
        )

    def quick(weights: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW(weights, lr=2e-3)

    loses(
        stage,
        Loop(step=step, optimizer=quick, steps=80),
        Loop(optimizer=quick, steps=80),
        share=0.85,
    )


@faulty(
    "clipped before the scaler divides",
    "Gradients are clipped while they are still multiplied by the scaler's 65,536, so that after "
    "its division hardly anything is left.",
    [
        r"clip",
        r"unscal|scaler|loss scal",
        r"gradients?.{0,60}(tiny|too small|far too small|vanish|almost zero)",
        r"weights?.{0,60}(hardly|do not|did not|have not|barely) mov",
        r"(rate|steps?).{0,40}too (small|low)",
    ],
)
def clipped_while_scaled(stage: Stage) -> None:
    def update(divided: bool) -> Callable[..., None]:
        scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)

        def move(optimizer: torch.optim.Optimizer, value: torch.Tensor) -> None:
            scaler.scale(value).backward()
            if divided:
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
            scaler.step(optimizer)
            scaler.update()

        return move

    def momentum(weights: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(weights, lr=0.1, momentum=0.9)

    loses(
        stage,
        Loop(optimizer=momentum, update=update(divided=False)),
        Loop(optimizer=momentum, update=update(divided=True)),
    )


@faulty(
    "pairs that differ have no term",
    "torch's CosineEmbeddingLoss wants 1 and -1. With 1 and 0, pairs that differ add nothing, and "
    "all texts are pulled together.",
    [
        r"-1|minus one",
        r"collaps",
        r"(labels?|targets?).{0,80}(0|zero).{0,60}(ignored|no (term|effect|gradient)|nothing)",
        r"no (push|negatives?)|nothing.{0,20}push",
        r"\bpull.{0,60}(outweigh|stronger|alone|only)",
    ],
)
def zeros_for_the_cosine_embedding_loss(stage: Stage) -> None:
    def loop(low: int) -> Loop:
        first, second, labels = rated()
        return Loop(
            lambda left, right, target: F.cosine_embedding_loss(left, right, target, margin=0.2),
            {"first": first, "second": second, "label": [label or low for label in labels]},
            views=lambda left, right, target: (left, right),
            steps=120,
        )

    loses(stage, loop(0), loop(-1))


@faulty(
    "push without a margin",
    "The loss of a pair that differs is its cosine, with no margin where it ends: pairs that "
    "merely do not belong together are driven to opposite directions.",
    [
        r"margin",
        r"-1\b|minus one|opposite|below (zero|0)|negative cosines?",
        r"push.{0,60}(outweigh|stronger|never (stop|end)|too (strong|far))",
    ],
)
def cosine_itself_as_the_loss_of_pairs_that_differ(stage: Stage) -> None:
    first, second, labels = rated()
    table = {"first": first, "second": second, "label": labels}

    def loop(least: float) -> Loop:
        def loss(left: torch.Tensor, right: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            cosines = F.cosine_similarity(left, right)
            return torch.where(target == 1, 1 - cosines, cosines.clamp(min=least)).mean()

        return Loop(loss, table, views=lambda left, right, target: (left, right), steps=120)

    loses(stage, loop(-1.0), loop(0.3), share=0.75)


@faulty(
    "broadcast over the batch",
    "Cosines of shape (N,) less scores of shape (N, 1) are (N, N): each cosine goes to "
    "the mean of all scores.",
    [
        r"broadcast|shape|\(N, ?1\)|\(N, ?N\)",
        r"(mean|average) (of all |of the )?(scores|labels)",
        r"(scores?|labels?).{0,60}(no|not|hardly|without|unrelated|ignored)",
        r"(cosines?|similarit\w+|pairs?).{0,60}"
        r"(do not follow|unrelated|no (order|relation)|not (related|in the order))",
    ],
)
def column_of_scores_less_row_of_cosines(stage: Stage) -> None:
    def loop(shape: tuple[int, ...]) -> Loop:
        return Loop(
            lambda left, right, scores: (
                (F.cosine_similarity(left, right) - scores.reshape(shape)).square().mean()
            ),
            scored(),
            views=lambda left, right, scores: (left, right),
            steps=120,
        )

    loses(stage, loop((-1, 1)), loop((-1,)), correlation)


@faulty(
    "label smoothing",
    "Nine tenths of the target are spread over the whole batch: the loss is content when the "
    "positive is hardly more likely than the others.",
    [
        r"smooth",
        r"(negatives?).{0,60}(pulled|as positives?)",
        r"(loss).{0,60}(floor|cannot fall|does not fall|stays)",
        r"target.{0,60}(spread|uniform)",
    ],
)
def smoothing_of_nine_tenths(stage: Stage) -> None:
    def loss(share: float) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        def smoothed(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
            logits = F.normalize(anchors, dim=-1) @ F.normalize(positives, dim=-1).T / TEMPERATURE
            return F.cross_entropy(logits, torch.arange(len(anchors)), label_smoothing=share)

        return smoothed

    loses(stage, Loop(loss(0.9)), Loop(loss(0.1)))


@faulty(
    "pairs broken after loading",
    "Questions and passages come from two loaders that each shuffle by themselves.",
    [
        r"(pairs?|rows|views|positives?|columns?).{0,80}(mis-?match|mis-?align|not belong|mixed|"
        r"shuffled|unrelated|nothing in common|chance|no more alike|wrong)",
        r"(mis-?match|mis-?align|unrelated|shuffled).{0,60}(pairs?|rows|views|positives?)",
        r"loaders?",
    ],
)
def two_loaders_that_shuffle_alone(stage: Stage) -> None:
    def apart(table: Mapping[str, Sequence[Any]]) -> Iterator[list[list[Any]]]:
        loaders = [
            shuffled({name: cells}, seed) for seed, (name, cells) in enumerate(table.items())
        ]
        while True:
            yield [next(loader)[0] for loader in loaders]

    loses(stage, Loop(batches=apart), Loop())
