"""Loops of one's own whose batches or targets come from data that are in disorder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.beside import IDLE, UNRELATED, Loop, adam, loops_beside
from tests.judgement.first.bodies import encoder
from tests.judgement.first.turns import Rows, embed, infonce, stepped
from tests.judgement.held_out import n_fields as fields
from tests.judgement.held_out.n_fields import Field, closeness, rated, strict, vocabulary
from tests.judgement.held_out.n_labels import SCALE
from tests.judgement.held_out.n_negatives import FALSE_NEGATIVE
from tests.judgement.stage import Stage

TOOLS = (REPORT,)
Draw = Callable[[], list[list[Any]]]


def looped_beside(
    stage: Stage, field: Field, faulty_rows: Draw, mended_rows: Draw, *,
    loss: Callable[..., Tensor] = infonce, score: Callable[[Any], float] | None = None,
    steps: int = 50, rate: float = 2e-3, **body: Any,
) -> None:  # fmt: skip
    """Play a loop over faulty batches, and train over the mended ones."""

    def build(slip: bool) -> Loop:
        model = encoder(stage, vocabulary(field), **body)
        optimizer, draw = adam(model, rate=rate), faulty_rows if slip else mended_rows

        def update(criterion: Any, step: int) -> None:
            columns = [torch.tensor(column) if isinstance(column[0], float)
                       else embed(model, column) for column in draw()]  # fmt: skip
            stepped(optimizer, criterion(*columns))

        return Loop(model, loss, update)

    loops_beside(stage, build, score or field.sought, steps=steps)


def two_columns(table: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    return dict(list(table.items())[:2])


@faulty(
    "two loaders that shuffle apart",
    "Anchors and positives come from two loaders, each of which shuffles for itself: the texts of "
    "a batch do not belong together.",
    UNRELATED,
    tools=TOOLS,
)
def questions_and_advice_from_two_loaders(stage: Stage) -> None:
    """Everyday: one DataLoader for each column, with shuffle=True."""
    field = fields.GARDEN
    table = two_columns(field.table(160))
    names = list(table)
    first = Rows({"text": table[names[0]]}, seed=1)
    second = Rows({"text": table[names[1]]}, seed=2)
    looped_beside(stage, field, lambda: [first()[0], second()[0]], Rows(table))


@faulty(
    "loader begun anew in each step",
    "next(iter(loader)) of an unshuffled loader stands within the loop, so that each step is on "
    "the same batch.",
    [
        r"same (batch|texts|rows|inputs?)|(batch|texts|rows|inputs?).{0,60}(same|identical|repeat|"
        r"again|never change|recur)",
        r"overfit|memori[sz]|repeat|few (texts|rows|examples)|duplicat",
        r"loss.{0,60}(to|near|at|almost|is) (zero|0\b)|(too easy|solved|nothing (left )?to learn)",
    ],
    tools=TOOLS,
)
def next_of_a_fresh_iterator_in_each_step(stage: Stage) -> None:
    """Everyday slip of beginners."""
    field = fields.CHESS
    table = two_columns(field.table(160))
    batch = [list(column[:6]) for column in table.values()]
    looped_beside(stage, field, lambda: batch, Rows(table, 6), steps=70,
                  score=lambda model: strict(field, model))  # fmt: skip


@faulty(
    "texts cut to their first words",
    "Preparation keeps the first two words of each passage, which are alike in all.",
    [
        r"(embedding|passage|positive|text|view|row|second)s?.{0,80}(same|identical|equal|alike|"
        r"duplicat|collaps|one point|indistinguishable)",
        r"(same|identical|equal|duplicat\w*|repeated) .{0,40}(embedding|passage|positive|text|row)",
        r"truncat|cut|short|collaps|cosines?.{0,60}(all|equal|same)",
        *IDLE,
    ],
    tools=TOOLS,
)
def replies_cut_to_their_greeting(stage: Stage) -> None:
    """`text.split()[:2]` left from an experiment."""
    field = fields.BANK
    table = two_columns(field.table(160))
    cut = table | {"reply": [" ".join(text.split()[:2]) for text in table["reply"]]}
    looped_beside(stage, field, Rows(cut), Rows(table), width=32)


def _gold(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    """Squared error of the cosines and scores."""
    return F.mse_loss(F.cosine_similarity(first, second), scores.float())


@faulty(
    "scores of a loop left at 0 to 5",
    "The squared error compares cosines with scores that reach 4.5, and pulls all pairs together.",
    (*SCALE, r"collaps|(all|every) (pairs?|cosines?|embeddings?).{0,60}(together|alike|one\b|\b1)",
     r"loss.{0,60}(floor|stay|high|large|cannot|never)"),
    tools=TOOLS,
)  # fmt: skip
def unscaled_gold_scores_in_a_loop(stage: Stage) -> None:
    """Everyday: scores of STS in a loop of one's own."""
    field = fields.JOBS
    table = rated(field)
    stars = table | {"score": [5 * score for score in table["score"]]}
    looped_beside(stage, field, Rows(stars, 32), Rows(table, 32), loss=_gold, steps=80,
                  score=closeness(field))  # fmt: skip


def _with_negatives(first: Tensor, second: Tensor, negatives: Tensor) -> Tensor:
    """A margin between the cosine of the positive and that of the hard negative."""
    near, far = F.cosine_similarity(first, second), F.cosine_similarity(first, negatives)
    return F.relu(far - near + 0.5).mean()


@faulty(
    "the positive embedded as the negative too",
    "The batch holds the positives twice, by a slip of the key, and no hard negatives: the margin "
    "can never be met and there is no gradient.",
    (*FALSE_NEGATIVE, *IDLE,
     r"(second|third|input|column|view)s?.{0,60}(same|identical|equal|copy)",
     r"(same|identical|equal) (embedding|text|input|view|row)s?|loss.{0,60}(constant|flat|"
     r"does not (move|fall|change)|not fall|margin)"),
    tools=TOOLS,
)  # fmt: skip
def positives_under_the_key_of_negatives(stage: Stage) -> None:
    """`batch["positive"]` written twice."""
    field = fields.MUSEUM
    table = fields.triplets(field)
    names = list(table)
    twice = table | {names[2]: table[names[1]]}
    looped_beside(stage, field, Rows(twice), Rows(table), loss=_with_negatives, dropout=0.0,
                  steps=60, score=lambda model: fields.among_near(field, model))  # fmt: skip
