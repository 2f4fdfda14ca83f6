"""Lengths that depend on the batch, answers that are off by one, no rate, few texts in a column."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers.util import dot_score
from torch import nn

from tests.judgement.case import DOCTOR, REPORT, faulty
from tests.judgement.first.batch_dependence import BATCH_WORDS
from tests.judgement.first.loop_materials import RATE, STILL, looped, ranking
from tests.judgement.stage import Stage, facts, pairs, passage, question
from tests.judgement.truth import keep, retrieval, suffers, truth
from tests.sentence_training import evaluation, features_of, losses

PLAN = {"learning_rate": 1e-3, "max_steps": 60}


class LargestOfBatch(nn.Module):
    """Embeddings divided by the largest number of their batch, so that its entries are below 1."""

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        rows = features["sentence_embedding"]
        features["sentence_embedding"] = rows / rows.abs().max()
        return features


@faulty(
    "lengths by the batch",
    "Embeddings are divided by the largest of their batch, and compared by dot products.",
    BATCH_WORDS,
    tools=(DOCTOR,),
)
def lengths_by_the_largest_of_the_batch(stage: Stage) -> None:
    """Two texts have other dot products in each batch; cosines stay as they are."""

    def dots(encoder: Any) -> Any:
        return losses.MultipleNegativesRankingLoss(encoder, scale=2.0, similarity_fct=dot_score)

    model = stage.model()
    model.append(LargestOfBatch())
    stage.doctor(stage.trainer(dots, pairs(), model, **PLAN))


@faulty(
    "answers that are off by one",
    "The header of the corpus file counts as its first document: each answer is the next one.",
    (r"shift|number(ed)? from|off by one|(after|before) the right",),
    tools=(DOCTOR,),
)
def answers_one_document_late(stage: Stage) -> None:
    made = facts(100, seed=11)
    queries = {str(at): question(fact) for at, fact in enumerate(made)}
    corpus = {"0": "id text", **{str(at + 1): passage(fact) for at, fact in enumerate(made)}}
    evaluator = evaluation.InformationRetrievalEvaluator(
        queries, corpus, {key: {key} for key in queries}, name="search", show_progress_bar=False
    )
    trainer = stage.trainer(ranking, pairs(), evaluator=evaluator, eval_strategy="steps",
                            eval_steps=20, **PLAN)  # fmt: skip
    start = retrieval(trainer.model), evaluator(trainer.model)["search_cosine_mrr@10"]
    stage.play(trainer)
    if trainer.state.global_step:
        shown = evaluator(trainer.model)["search_cosine_mrr@10"]
        keep(stage, before=start[0], after=retrieval(trainer.model), shown_before=start[1],
             shown_after=shown)  # fmt: skip
        assert truth(stage)["after"] >= truth(stage)["shown_after"] + 0.2


@faulty(
    "a rate of whole numbers",
    "The schedule divides whole numbers: (40 - step) // 40 is 0 from the first step on.",
    (RATE, STILL),
    tools=(REPORT,),
)
def rate_by_the_division_of_whole_numbers(stage: Stage) -> None:
    model = stage.model()
    table = pairs()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (39 - step) // 40)

    def update(criterion: Any, step: int) -> None:
        start = 16 * step % 160
        batch = {name: texts[start : start + 16] for name, texts in table.items()}
        views = [model(column)["sentence_embedding"] for column in features_of(model, batch)]
        optimizer.zero_grad()
        criterion(*views).backward()
        optimizer.step()
        schedule.step()

    looped(stage, model, info_nce, update, steps=39)


def info_nce(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of cosines at a temperature of 0.05."""
    cosines = nn.functional.normalize(first, dim=1) @ nn.functional.normalize(second, dim=1).T
    return nn.functional.cross_entropy(cosines / 0.05, torch.arange(len(first)))


@faulty(
    "sections for passages",
    "Each question stands beside the name of its section, of which there are nine.",
    (r"different texts|title|class|repeat",),
    tools=(DOCTOR,),
)
def sections_beside_questions(stage: Stage) -> None:
    table = pairs()
    sections = [f"{text.split()[0]} {text.split()[1]}" for text in table["positive"][:9]]
    names = [sections[at % 9] for at in range(len(table["anchor"]))]
    suffers(
        stage,
        stage.trainer(ranking, {"anchor": table["anchor"], "section": names}, **PLAN),
        lambda: stage.trainer(ranking, table, **PLAN),
    )
