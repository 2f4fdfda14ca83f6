"""Sound tables that are inspected, and losses that are right on several processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first import fields_of_flats_and_threads as fields
from tests.judgement.first.fields import Field
from tests.judgement.first.fields_of_flats_and_threads import held_out, of, two, with_negatives
from tests.judgement.first.irregular_threads import baskets, chats, dates, of_texts, threads
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn, warmed
from tests.judgement.first.unlabelled_threads import mixed
from tests.judgement.stage import Stage


@sound("table of short dates")
def table_of_dates_in_words_and_digits(stage: Stage) -> None:
    columns = dates(240, seed=2)
    columns["words"] = [text.replace(" , ", " ") for text in columns["words"]]
    columns["digits"] = [text.replace(" - ", " ") for text in columns["digits"]]
    stage.inspect(columns)


@sound("table of mails in which little answers")
def table_of_mails_with_asides(stage: Stage) -> None:
    columns = threads(300, seed=2)
    stage.inspect(columns, warmed(of_texts(stage, threads), threads(300), steps=25))


@sound("table of translations with near misses")
def table_of_russian_with_near_misses(stage: Stage) -> None:
    field = fields.RUSSIAN
    model = warmed(of(stage, field), field.table(240, seed=4), steps=30)
    stage.inspect(with_negatives(field, 220, slot=1), model)


@sound("table of one column")
def table_of_bird_notes_without_labels(stage: Stage) -> None:
    field = fields.SIGHTINGS
    stage.inspect({"text": mixed(field, 320)}, of(stage, field))


@sound("table of long adverts with negatives")
def table_of_adverts_with_another_extra(stage: Stage) -> None:
    field = fields.FLATS
    model = warmed(of(stage, field), field.table(240, seed=4), steps=30)
    stage.inspect(with_negatives(field, 200, slot=2), model)


@sound("table of noisy messages")
def table_of_noisy_messages_and_notes(stage: Stage) -> None:
    stage.inspect(chats(260, seed=2), warmed(of_texts(stage, chats), chats(260), steps=25))


@sound("table of lists of mixed lengths")
def table_of_lists_and_shelves(stage: Stage) -> None:
    stage.inspect(baskets(200, seed=2), warmed(of_texts(stage, baskets), baskets(300), steps=25))


@sound("table of short posts")
def table_of_posts_and_keywords(stage: Stage) -> None:
    columns = two(fields.TAGS.table(180))
    columns["tags"] = [text.replace("#", "") for text in columns["tags"]]
    stage.inspect(columns)


def _gathered(rows: Tensor) -> Tensor:
    """Rows of all processes, through which their gradient returns."""
    from torch.distributed.nn.functional import all_gather

    several = dist.is_initialized() and dist.get_world_size() > 1
    return torch.cat(all_gather(rows.contiguous())) if several else rows


def own_queries_against_all(first: Tensor, second: Tensor) -> Tensor:
    """The mean over the queries of a process, whose right answers stand at its own place."""
    rank = dist.get_rank() if dist.is_initialized() else 0
    labels = torch.arange(len(first)) + rank * len(first)
    return F.cross_entropy(cosines(first, _gathered(second)) / 0.05, labels)


def whole_matrix_on_every_process(first: Tensor, second: Tensor) -> Tensor:
    """The mean over the queries of all processes, computed on all of them."""
    logits = cosines(_gathered(first), _gathered(second)) / 0.05
    return F.cross_entropy(logits, torch.arange(len(logits)))


def _trained(stage: Stage, field: Field, loss: Callable[..., Tensor]) -> None:
    model = of(stage, field)
    rows = Rows(two(field.table(320)), 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, loss, update, held_out(field))


@sound("queries of a process among the answers of all")
def queries_of_a_process_among_all_answers(stage: Stage) -> None:
    stage.audit(own_queries_against_all)
    _trained(stage, fields.SPARES, own_queries_against_all)


@sound("matrix of all rows on every process")
def matrix_of_all_rows_on_every_process(stage: Stage) -> None:
    stage.audit(whole_matrix_on_every_process)
    _trained(stage, fields.JAPANESE, whole_matrix_on_every_process)
