"""Sound set-ups: loops of one's own on grades, labels, classes, teachers and many negatives."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.fields_of_offices_and_ports import (
    BENCH,
    CHESS,
    COMMITS,
    FORMS,
    GENES,
    KOREAN,
    MAILS,
    QUERIES,
    SKIES,
    classed,
    neighbours,
    reader,
    varied,
)
from tests.judgement.first.labels_by_loss import answered, graded_score, tuned
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn, warmed
from tests.judgement.stage import Stage


def adam(model: Any, rate: float = 2e-3) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), lr=rate)


def grading_update(model: Any, rows: Any, optimizer: Any) -> Any:
    """The step of a loop over pairs with a number each."""

    def update(criterion: Any, step: int) -> None:
        first, second, grades = rows()
        embeddings = embed(model, first), embed(model, second)
        stepped(optimizer, criterion(*embeddings, torch.tensor(grades, dtype=torch.float)))

    return update


@sound("graded pairs by the order of their cosines")
def chess_games_ordered_by_grade(stage: Stage) -> None:
    def ordered(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        near = 20 * F.cosine_similarity(first, second)
        gaps = (near[:, None] - near[None])[grades[:, None] < grades[None]]
        return torch.cat([gaps.new_zeros(1), gaps]).logsumexp(0)

    model = tuned(stage, CHESS)
    update = grading_update(model, Rows(CHESS.graded(400), 32), adam(model))
    turn(stage, model, ordered, update, graded_score(CHESS), steps=60)


@sound("graded pairs by the correlation in a batch")
def gene_findings_by_correlation(stage: Stage) -> None:
    def uncorrelated(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        near = F.cosine_similarity(first, second)
        return 1 - F.cosine_similarity(near - near.mean(), grades - grades.mean(), dim=0)

    model = tuned(stage, GENES)
    update = grading_update(model, Rows(GENES.graded(400), 32), adam(model))
    turn(stage, model, uncorrelated, update, graded_score(GENES), steps=60)


@sound("binary labels by a logistic loss of the cosine")
def database_answers_by_logistic_loss(stage: Stage) -> None:
    model = tuned(stage, QUERIES, steps=4)
    line = torch.nn.Parameter(torch.tensor([10.0, -5.0]))
    optimizer = torch.optim.AdamW([
        {"params": model.parameters(), "lr": 2e-3},
        {"params": [line], "lr": 2e-2, "weight_decay": 0.0},
    ])  # fmt: skip

    def logistic(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        logits = line[0] * F.cosine_similarity(first, second) + line[1]
        return F.binary_cross_entropy_with_logits(logits, labels)

    update = grading_update(model, Rows(answered(QUERIES, 480), 32), optimizer)
    turn(stage, model, logistic, update, QUERIES.sought, steps=110)


@sound("learned proxies of classes")
def mails_by_proxies_of_their_teams(stage: Stage) -> None:
    model = reader(stage, MAILS, layers=1)
    torch.manual_seed(5)
    proxies = torch.nn.Parameter(torch.randn(7, 48))
    optimizer = torch.optim.AdamW([
        {"params": model.parameters(), "lr": 1e-3}, {"params": [proxies], "lr": 1e-2},
    ])  # fmt: skip
    rows = Rows(classed(MAILS, 1, 320), 28)

    def nearest_proxy(embeddings: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(10 * cosines(embeddings, proxies), labels)

    def update(criterion: Any, step: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    turn(stage, model, nearest_proxy, update, neighbours(MAILS, 1), steps=50)


@sound("supervised contrast within classes")
def court_forms_by_supervised_contrast(stage: Stage) -> None:
    def contrast(embeddings: Tensor, labels: Tensor) -> Tensor:
        itself = torch.eye(len(labels), dtype=torch.bool)
        logits = (cosines(embeddings, embeddings) / 0.1).masked_fill(itself, float("-inf"))
        shares = logits.log_softmax(1).masked_fill(itself, 0.0)
        positive = (labels[:, None] == labels) & ~itself
        rows = positive.any(1)
        return -((shares * positive).sum(1)[rows] / positive.sum(1)[rows]).mean()

    model = reader(stage, FORMS)
    rows, optimizer = Rows(classed(FORMS, 2, 320), 32), adam(model, 1e-3)

    def update(criterion: Any, step: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    turn(stage, model, contrast, update, neighbours(FORMS, 2), steps=50)


@sound("ranking of a teacher among the passages of a batch")
def weather_reports_by_a_teachers_ranking(stage: Stage) -> None:
    teacher = warmed(reader(stage, SKIES, name="teacher"), SKIES.table(300, seed=4), 60)
    student = reader(stage, SKIES, layers=1, seed=9)
    rows, optimizer = Rows(SKIES.table(320), 24), adam(student, 3e-3)

    def divergence(first: Tensor, second: Tensor, target: Tensor) -> Tensor:
        logits = cosines(first, second) / 0.05
        return F.kl_div(logits.log_softmax(1), target, reduction="batchmean")

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            near = cosines(*(embed(teacher, column) for column in columns))
        embeddings = (embed(student, column) for column in columns)
        stepped(optimizer, criterion(*embeddings, (near / 0.05).softmax(1)))

    turn(stage, student, divergence, update, SKIES.sought, steps=70)


@sound("three hard negatives for each question")
def bench_questions_with_three_near_protocols(stage: Stage) -> None:
    table = BENCH.table(320)
    table |= {f"near_{at}": varied(BENCH, 320, turn=at) for at in range(3)}
    model = reader(stage, BENCH)
    rows, optimizer = Rows(table, 12), adam(model)

    def ranked(first: Tensor, *candidates: Tensor) -> Tensor:
        return F.cross_entropy(
            cosines(first, torch.cat(candidates)) / 0.05, torch.arange(len(first))
        )

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, ranked, update, BENCH.sought, steps=60)


@sound("bfloat16 under autocast")
def korean_sentences_under_autocast(stage: Stage) -> None:
    model = reader(stage, KOREAN)
    rows, optimizer = Rows(KOREAN.table(320), 24), adam(model)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            embeddings = [embed(model, column) for column in rows()]
        stepped(optimizer, criterion(*(rows_of_column.float() for rows_of_column in embeddings)))

    turn(stage, model, infonce, update, KOREAN.sought, steps=60)


def gathered_in_two_directions(first: Tensor, second: Tensor) -> Tensor:
    """Symmetric InfoNCE of a process's rows among those of all, gathered with their gradient."""
    import torch.distributed as distributed
    from torch.distributed.nn.functional import all_gather

    rank, candidates = 0, [first, second]
    if distributed.is_initialized() and distributed.get_world_size() > 1:
        rank = distributed.get_rank()
        candidates = [torch.cat(all_gather(rows)) for rows in (first, second)]
    target = torch.arange(len(first)) + rank * len(first)
    logits = [cosines(first, candidates[1]) / 0.05, cosines(second, candidates[0]) / 0.05]
    return (F.cross_entropy(logits[0], target) + F.cross_entropy(logits[1], target)) / 2


@sound("rows of all processes in two directions")
def commits_among_the_rows_of_all_processes(stage: Stage) -> None:
    stage.audit(gathered_in_two_directions)
    model = reader(stage, COMMITS, width=64, layers=1)
    rows, optimizer = Rows(COMMITS.table(320), 24), adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, gathered_in_two_directions, update, COMMITS.sought, steps=60)
