"""Tables that went wrong before training: joins, files, exports, columns and forgotten filters."""

from __future__ import annotations

import random

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.first.beside import UNRELATED
from tests.judgement.first.fault_subjects import (
    BANK,
    FLATS,
    JOBS,
    MATCHES,
    MUSEUM,
    PARTS,
    REVIEWS,
    SWIFT,
    reader,
    rolled,
    sought_of,
)
from tests.judgement.first.fields import HELPDESK, SHOP
from tests.judgement.first.good_fields import SONGS
from tests.judgement.first.loop_materials import ranking
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers

SAME_TEXT = (
    r"(?i)(duplicat|repeat|identical|same (text|passage|positive|answer|cell)|occurs? .{0,20}times|"
    r"distinct|unique|false negatives?|few different)",
)


@faulty(
    "join on a key that is not unique",
    "The queries were merged with the products by buyer group, which many products share: nearly "
    "every positive is another product of the same group.",
    [*UNRELATED, r"(?i)false (positives?|pairs?)|positives? .{0,40}(little|less|few).{0,30}common"],
    tools=(DOCTOR, REPORT, INSPECT),
)
def merged_on_a_shared_key(stage: Stage) -> None:
    """`pd.merge(queries, products, on="group")` where the product id was meant."""
    table, draw = SHOP.table(160), random.Random(1)
    groups: dict[str, list[str]] = {}
    for text in table["product"]:
        groups.setdefault(text.split()[0], []).append(text)
    joined = [draw.choice(groups[text.split()[0]]) for text in table["product"]]
    merged = table | {"product": joined}
    stage.inspect(merged, reader(stage, SHOP))
    suffers(
        stage,
        stage.trainer(ranking, merged, reader(stage, SHOP), **SWIFT),
        lambda: stage.trainer(ranking, table, reader(stage, SHOP), **SWIFT),
        sought_of(SHOP),
    )


@faulty(
    "line lost in one of two parallel files",
    "An empty line of the second file was skipped near its beginning, so that from there on each "
    "text stands beside the next one's partner.",
    UNRELATED,
)
def line_missing_from_one_file(stage: Stage) -> None:
    """`[line for line in file if line.strip()]` on one of two files that belong line to line."""
    table = MATCHES.table(180)
    reports = list(table["report"])
    del reports[9]
    shifted = {"headline": table["headline"][:-1], "report": reports}
    suffers(
        stage,
        stage.trainer(ranking, shifted, reader(stage, MATCHES), **SWIFT),
        lambda: stage.trainer(ranking, table, reader(stage, MATCHES), **SWIFT),
        sought_of(MATCHES),
    )


@faulty(
    "one column sorted alone",
    "The labels of the museum's objects were sorted alphabetically before they were put beside the "
    "questions, whose order was kept.",
    [*UNRELATED, r"(?i)sort"],
)
def column_sorted_by_itself(stage: Stage) -> None:
    """`table["card"] = sorted(table["card"])`, or sort_values and reset_index of one Series."""
    table = MUSEUM.table(160)
    suffers(
        stage,
        stage.trainer(
            ranking, table | {"card": sorted(table["card"])}, reader(stage, MUSEUM), **SWIFT
        ),
        lambda: stage.trainer(ranking, table, reader(stage, MUSEUM), **SWIFT),
        sought_of(MUSEUM),
    )


@faulty(
    "id as the first column",
    "The export's column of ids comes first and is taken for the anchors: the question is the "
    "positive of its number, and the answer the hard negative.",
    [
        r"(?i)\bids?\b|identifier|(numbers?|digits?|codes?|keys?).{0,40}(no|not|instead).{0,20}text",
        r"(?i)(column|anchor)s?.{0,80}(order|swap|wrong|not (a )?(text|sentence)|short|one word)",
        r"(?i)negatives?.{0,80}(closer|more (alike|similar)|higher|positives?)",
        r"(?i)unknown|\[?UNK\]?",
        *UNRELATED,
    ],
)
def ticket_numbers_taken_for_anchors(stage: Stage) -> None:
    """Columns count by their order, and nobody dropped "id"."""
    table = HELPDESK.table(160)
    numbers = [str(row * 37 % 1000 + 1000) for row in range(160)]
    suffers(
        stage,
        stage.trainer(
            ranking, {"id": numbers} | table, reader(stage, HELPDESK, extra=numbers), **SWIFT
        ),
        lambda: stage.trainer(ranking, table, reader(stage, HELPDESK), **SWIFT),
        sought_of(HELPDESK),
    )


@faulty(
    "negative column before the positive one",
    "The columns stand as query, negative, positive, and the loss goes by their order: the hard "
    "negative is drawn near and the true partner pushed away.",
    [
        r"(?i)negatives?.{0,100}(closer|more (alike|similar)|higher|nearer|better|more words)",
        r"(?i)(column|negative|positive)s?.{0,80}(order|swap|exchang|revers|mixed up)",
        r"(?i)positives?.{0,80}(farther|further|less (alike|similar)|lower|worse)",
    ],
)
def hard_negatives_in_second_place(stage: Stage) -> None:
    """Columns in alphabetical order: anchor, negative, positive."""
    table = JOBS.table(160)
    negatives = rolled(table["advert"], 40)
    wrong = {"anchor": table["resume"], "negative": negatives, "positive": table["advert"]}
    right = {name: wrong[name] for name in ("anchor", "positive", "negative")}
    suffers(
        stage,
        stage.trainer(ranking, wrong, reader(stage, JOBS), **SWIFT),
        lambda: stage.trainer(ranking, right, reader(stage, JOBS), **SWIFT),
        sought_of(JOBS),
    )


@faulty(
    "cells cut at the first comma",
    "The export was split at commas without regard to quotes, so that of each passage only the "
    "opening words are left, and most of the positives are alike.",
    [
        *SAME_TEXT,
        r"(?i)(short|cut|truncat)\w*",
        r"(?i)few words|one or two words|constant",
    ],
)
def passages_split_at_commas(stage: Stage) -> None:
    """`line.split(",")` on a file with quoted cells."""
    table = REVIEWS.table(160)
    cut = table | {"body": [text.split(" am ")[0] for text in table["body"]]}
    suffers(
        stage,
        stage.trainer(ranking, cut, reader(stage, REVIEWS), **SWIFT),
        lambda: stage.trainer(ranking, table, reader(stage, REVIEWS), **SWIFT),
        sought_of(REVIEWS),
    )


@faulty(
    "missing cells turned into the text nan",
    "Two thirds of the second column were missing, and str() has made the word nan of them.",
    [*SAME_TEXT, r"(?i)\bnan\b|missing|empty|null"],
    tools=(DOCTOR, REPORT, INSPECT),
)
def missing_answers_become_words(stage: Stage) -> None:
    """`df["tags"].astype(str)` before dropna()."""
    table, draw = SONGS.table(160), random.Random(3)
    filled = ["nan" if draw.random() < 0.67 else text for text in table["tags"]]
    model = reader(stage, SONGS, extra=["nan"])
    stage.inspect(table | {"tags": filled}, reader(stage, SONGS, extra=["nan"]))
    selected = [row for row, text in enumerate(filled) if text != "nan"]
    dropped = {name: [cells[row] for row in selected] for name, cells in table.items()}
    suffers(
        stage,
        stage.trainer(ranking, table | {"tags": filled}, model, max_steps=25, **SWIFT),
        lambda: stage.trainer(
            ranking, dropped, reader(stage, SONGS, extra=["nan"]), max_steps=25, **SWIFT
        ),
        sought_of(SONGS),
    )


@faulty(
    "few rows left in from debugging",
    "A slice of the first eight rows, meant for a trial, was left in: training sees only them, "
    "again and again.",
    [
        r"(?i)(only|just|few|small|tiny|\b8\b|eight).{0,40}(rows?|pairs?|examples?|texts)",
        r"(?i)\d+ epochs|many epochs|memori[sz]|overfit|by heart|again and again|repeat",
    ],
)
def slice_of_eight_rows_left_in(stage: Stage) -> None:
    """`train_dataset.select(range(8))`."""
    table = PARTS.table(160)
    suffers(
        stage,
        stage.trainer(
            ranking, {name: cells[:8] for name, cells in table.items()}, reader(stage, PARTS),
            **SWIFT,
        ),
        lambda: stage.trainer(ranking, table, reader(stage, PARTS), **SWIFT),
        sought_of(PARTS),
    )  # fmt: skip


@faulty(
    "positive column of another level",
    "The column chosen as the positive holds the category, of which there are three, and not the "
    "listing: in a batch most other rows have the same positive.",
    SAME_TEXT,
)
def category_column_as_positive(stage: Stage) -> None:
    """Picked "price_class" where "listing" was meant."""
    table = FLATS.table(160)
    groups = [text.split()[0] for text in table["wish"]]
    suffers(
        stage,
        stage.trainer(
            ranking, {"wish": table["wish"], "category": groups}, reader(stage, FLATS), **SWIFT
        ),
        lambda: stage.trainer(ranking, table, reader(stage, FLATS), **SWIFT),
        sought_of(FLATS),
    )


@faulty(
    "rows of an exploded table in order",
    "Each utterance stands eight times in a row with the same article, and the sampler goes in "
    "order: of the other rows in a batch many are the same pair and count as negatives.",
    [*SAME_TEXT, r"(?i)(in order|sequential|not shuffled|sorted|neighbou?ring rows)"],
)
def exploded_rows_without_shuffling(stage: Stage) -> None:
    """`df.explode("clicks")`, and a sequential sampler."""
    from sentence_transformers import SentenceTransformerTrainer
    from torch.utils.data import BatchSampler, SequentialSampler

    class InOrder(SentenceTransformerTrainer):
        """A trainer that takes the rows as they come."""

        def get_batch_sampler(self, dataset: object, batch_size: int, **_: object) -> BatchSampler:
            return BatchSampler(SequentialSampler(dataset), batch_size, drop_last=True)

    table = BANK.table(80)
    repeated = {name: [cell for cell in cells for _ in range(8)] for name, cells in table.items()}
    settings = {"max_steps": 30, **SWIFT}
    suffers(
        stage,
        stage.trainer(ranking, repeated, reader(stage, BANK), kind=InOrder, **settings),
        lambda: stage.trainer(ranking, table, reader(stage, BANK), **settings),
        sought_of(BANK),
    )
