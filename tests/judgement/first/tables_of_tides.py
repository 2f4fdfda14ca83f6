"""Sound tables of texts, and loops over the tables whose rows are of most uneven lengths."""

from __future__ import annotations

import random
from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.fields_of_tides_and_tickets import (
    CHEMISTRY,
    COMMITS,
    FILMS,
    HINDI,
    KANA,
    RUSSIAN,
    STARS,
    TIDES,
    fresh,
    mails,
)
from tests.judgement.first.turns import Rows, embed, infonce, stepped, turn, warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import losses, modules


def diaries(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Notes of one to three sightings of a telescope, and the night's entry about all of them."""
    draw, rows = random.Random(seed + 90), STARS.draws(900 if seed % 2 == 0 else 200, seed)
    logs, prose = STARS.texts(rows, 0), STARS.texts(rows, 1)
    table: dict[str, list[str]] = {"note": [], "entry": []}
    while len(table["note"]) < count:
        nights = [(logs.pop(), prose.pop()) for _ in range(draw.choice((1, 1, 2, 3)))]
        table["note"].append(" ; ".join(log for log, _ in nights))
        table["entry"].append(" ".join(sentence for _, sentence in reversed(nights)))
    return table


@sound("a table of compounds beside the encoder that will read it")
def catalogue_of_compounds_to_inspect(stage: Stage) -> None:
    stage.inspect(CHEMISTRY.table(300), fresh(stage, CHEMISTRY))


@sound("a table of plots, reviews and reviews of films at another place")
def film_reviews_with_hard_negatives_to_inspect(stage: Stage) -> None:
    stage.inspect(FILMS.table(240) | {"negative": FILMS.near(240, slot=1)})


@sound(
    "a table of subjects and mails",
    allowed={"only the beginnings|last token that": "The encoder reads 64 tokens of longer texts."},
)
def mails_about_stars_to_inspect(stage: Stage) -> None:
    stage.inspect(mails(STARS, 200))


@sound("a table of two scripts")
def russian_and_english_columns_to_inspect(stage: Stage) -> None:
    stage.inspect(RUSSIAN.table(260))


@sound("a table of commits with diffs of another unit")
def commits_and_diffs_of_another_unit_to_inspect(stage: Stage) -> None:
    stage.inspect(COMMITS.table(200) | {"negative": COMMITS.near(200, slot=1)})


@sound("a table of codes and numbers")
def tide_codes_and_their_words_to_inspect(stage: Stage) -> None:
    stage.inspect(TIDES.table(180))


@sound("one column of kana sentences")
def single_column_of_kana_to_inspect(stage: Stage) -> None:
    stage.inspect({"text": KANA.table(400)["kana"]})


@sound("notes and entries of one to three sentences, ranked by a trainer")
def diaries_of_several_sightings(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, diaries(400),
        fresh(stage, STARS, modules.Normalize(), width=64), learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, diaries(50, seed=11)))


@sound("batches of rows of like length")
def loop_over_diaries_sorted_by_length(stage: Stage) -> None:
    """Batches hold neighbours in length; their order is shuffled with each epoch."""
    notes, entries = diaries(400).values()
    order = sorted(range(len(notes)), key=lambda at: (len(notes[at].split()), notes[at][::-1]))
    batches = [order[at : at + 20] for at in range(0, len(order) - 19, 20)]
    draw, waiting = random.Random(3), list[list[int]]()
    model = fresh(stage, STARS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        if not waiting:
            waiting.extend(draw.sample(batches, len(batches)))
        places = waiting.pop()
        rows = [embed(model, [column[at] for at in places]) for column in (notes, entries)]
        stepped(optimizer, criterion(*rows))

    def score(encoder: Any) -> float:
        return retrieval(encoder, diaries(50, seed=11))

    turn(stage, model, infonce, update, score, steps=60)


@sound("a frozen table of words under trained layers")
def loop_with_frozen_words_of_hindi(stage: Stage) -> None:
    """Words from an earlier training stay as they are, the layers above are trained on."""
    model = warmed(fresh(stage, HINDI), HINDI.table(300, seed=4), 5)
    network = model[0].auto_model
    network.embeddings.word_embeddings.requires_grad_(False)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    draw, optimizer = Rows(HINDI.table(400), 24), torch.optim.AdamW(trained, lr=3e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in draw())))

    turn(stage, model, infonce, update, HINDI.sought, steps=80)
