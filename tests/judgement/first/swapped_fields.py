"""Columns of which the loss takes each for something else than it holds."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import faulty
from tests.judgement.first.catalogue import (
    CHAT,
    Setting,
    contested,
    info_nce,
    offer,
    on_shelf,
    plain,
    products,
    rivalled,
    sales,
    slips,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers

ranking = losses.MultipleNegativesRankingLoss
ROLES = (
    r"column|order of|role|which (plays|is)|swap|exchang",
    r"negatives?.{0,80}(closer|nearer|more alike|higher|more (words|like)|better|share|fit|answer)",
    r"positives?.{0,80}(farther|less alike|lower|fewer words|further|worse|unlike)",
)


@faulty(
    "answers of a preference table in their order there",
    "Columns are question, rejected, chosen: the rejected answer is trained as the positive.",
    ROLES,
)
def preference_pairs_with_rejected_first(stage: Stage) -> None:
    """A table of preferences is loaded with its columns as they come."""
    query, chosen, rejected = contested().values()
    wrong = {"question": query, "rejected": rejected, "chosen": chosen}
    right = {"question": query, "chosen": chosen, "rejected": rejected}
    suffers(
        stage,
        stage.trainer(ranking, wrong, learning_rate=1e-3),
        lambda: stage.trainer(ranking, right, learning_rate=1e-3),
        rivalled,
    )


@faulty(
    "a category as the positive",
    "Columns are title, category, description: a category of eight is trained as the positive and "
    "the description as the negative.",
    (
        *ROLES,
        r"(repeat|duplicat|different|distinct|unique|only \d+|few|often).{0,60}",
        r"false negative",
    ),
)
def category_between_title_and_description(stage: Stage) -> None:
    """The export of a shop has its category column between the two texts."""
    query, bought = sales().values()
    category = [f"{CHAT[at % 8]} {CHAT[at % 8 + 20]}" for at in range(len(query))]
    table = {"title": query, "category": category, "description": bought}
    suffers(
        stage,
        stage.trainer(ranking, table, learning_rate=1e-3),
        lambda: stage.trainer(ranking, {"title": query, "text": bought}, learning_rate=1e-3),
        on_shelf,
    )


@faulty(
    "a second relevant text as the negative",
    "The third column is a further text of the right product and is trained as a hard negative.",
    (
        *ROLES,
        r"false negative|negatives?.{0,60}(relevant|positive|right|correct|copies|near)",
        r"(too|very) (hard|similar|close)|overlap",
    ),
)
def further_relevant_text_as_hard_negative(stage: Stage) -> None:
    """Mined negatives were the nearest texts, among them the second offer of the product."""
    goods = products(192)
    pairs = sales()
    answers = [offer((*row[:4], str(int(row[4]) + 1))) for row in goods]
    table = pairs | {"mined": answers}
    settings = {"learning_rate": 1e-3, "max_steps": 60}
    suffers(
        stage,
        stage.trainer(ranking, table, **settings),
        lambda: stage.trainer(ranking, pairs, **settings),
        on_shelf,
        share=0.8,
    )


@faulty(
    "columns sorted by length apart from each other",
    "Queries and offers were each sorted by their length, so that rows no longer belong together.",
    (
        r"(pair|row|positive|column)s?.{0,80}(chance|shuffl|not belong|unrelated|match|mixed|align|"
        r"random|no more|wrong)",
        r"chance|guess",
    ),
)
def queries_and_offers_sorted_apart(stage: Stage) -> None:
    """Sorting for fewer pads is done on each list by itself."""

    def setting(apart: bool) -> Setting:
        table: dict[str, list[Any]] = dict(sales(chat=3))
        if apart:
            table = {name: sorted(texts, key=len) for name, texts in table.items()}
        model = stage.model()
        return model, info_nce, plain(model, table)

    slips(stage, lambda: setting(True), lambda: setting(False))


@faulty(
    "context repeated in both columns, answer in a third",
    "The loss is of question and context title; each title serves two dozen questions, and the "
    "text that answers is not among the columns that the trainer selects.",
    (
        *ROLES,
        r"(repeat|duplicat|several|many) .{0,60}(text|row|positive|quer)",
        r"(text|positive|document)s?.{0,60}(repeat|duplicat|again|distinct|different|unique|times)",
        r"false negative",
    ),
)
def titles_selected_for_the_texts(stage: Stage) -> None:
    """`select_columns` names the title of the page where the paragraph was meant."""
    query, bought = sales().values()
    titles = [f"{CHAT[at % 8 + 3]} {CHAT[at % 8 + 30]} {CHAT[at % 8 + 9]}" for at in range(192)]
    suffers(
        stage,
        stage.trainer(ranking, {"question": query, "title": titles}, learning_rate=1e-3),
        lambda: stage.trainer(ranking, {"question": query, "text": bought}, learning_rate=1e-3),
        on_shelf,
    )
