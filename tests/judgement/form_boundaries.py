"""Measurements on either side of the limits of forms, pairings and the structure of labels."""

from __future__ import annotations

from typing import Any

SPELT = {"column": "a", "share": 0.8, "word": "lake", "pieces": 4}
FORMS = {"rows": 160, "kinds": {}, "length": ["a", 0.05, 40], "filler": ["a", "the", 0.05, 1.0]}
RATINGS = {
    "loss": "CoSENTLoss", "rows": 160, "halves": [0.8, 0.7],
    "corners": [0.0, 0.05, 0.0, 0.05], "label": 0.0, "share": 0.1, "spread": 0.3,
    "correlation": 0.7, "equal": 0, "label_of_equal": 1.0,
}  # fmt: skip
AVERAGED = RATINGS | {"groups": 40, "averaged": 0.95, "levels": 30, "column": "a"}
COSINES = RATINGS | {"loss": "CosineSimilarityLoss"}
TWO = RATINGS | {"apart": 0.85, "low_with_many": 0.0, "high_with_few": 0.0}
REWORDED = TWO | {"low_with_many": 0.2, "high_with_few": 0.1}
CLASSES = {
    "rows": 160, "classes": 3, "chances": [0.001, 0.001, 0.001], "order": 0.9, "low": 0.05,
    "high": 0.5,
}  # fmt: skip
BY_CHANCE = CLASSES | {"chances": [0.5, 0.5, 0.5]}
MARGINS = {"rows": 101, "difference": 0.6, "alone": 0.6, "spread": 0.1}
OF_OTHERS = MARGINS | {"difference": 0.1, "alone": 0.1, "after": 0.6}
TWINS = {"rows": 160, "classes": 20, "nearest": 0.9, "example": [3, 5]}
MIXED = {
    "rows": 160, "classes": 20, "mixed": 0, "share": 0.0, "unmixed": 160, "alike": 0.9, "same": 0.8,
    "chance": 0.1, "nearest": 0.3, "rank": 0.54,
}  # fmt: skip
GENERAL = MIXED | {"mixed": 3, "share": 0.8, "unmixed": 32}
SELDOM = MIXED | {"same": 0.15}
TARGETS = {"rows": 160, "equal": 0.0, "example": ["a b", "c d"], "cosine": 0.3, "rank": 20.0}
PLACED = TARGETS | {"rows": 280, "near": 0.6, "far": 0.05, "spread": 0.9}
CONTAINED = {"rows": 100, "in_anchor": 0.0, "marked": 0.0, "mark": ""}
BY_CHANCE_ALONE = {
    "rows": 160, "told": 0.5, "strangers": 0.5, "matched": 0.05, "between": 0.4, "recurring": 3.0,
    "sorted_column": 0,
}  # fmt: skip
TOLD = BY_CHANCE_ALONE | {"told": 0.98, "matched": 0.9, "between": 0.04}
STRAYS = {"rows": 160, "median": 0.3}
EXCHANGED = {"rows": 160, "words": 0.95, "embedded": 32, "embeddings": 0.75, "column": "c"}
EDITED = EXCHANGED | {"repetition": 0.6, "own_rank": 0.95}
COPIES = {"rows": 32, "share": 0.0, "in_data": 0.0, "meant": 16, "size": 16}
SEAMS = {"column": "a", "prompt": "query", "share": 1.0, "example": "querywhat is"}
CONFLICTS = {"rows": 200, "share": 1.0, "example": ["what is", "that is"], "sets": 1}
HEAD = {"weights": 2, "missed": 0, "name": "", "layer": "", "rate": None}


def _form(kind: str, share: float) -> dict[str, Any]:
    return FORMS | {"kinds": {kind: ["a", share, "text"]}}


# A loss that is far above guessing.
LOUD = {"values": {"alike": 2.0}, "value": 60.0, "longer": 1.0, "length": 1.0}
# Labels of texts whose words go together without being equal, and an evaluator's gold.
FORETOLD = {
    "rows": 145, "distinct": 3, "words": 0.0, "low": 0.1, "high": 0.1, "embedded": 32,
    "embeddings": 0.0, "foretold": 0.75, "fitting": 0.14,
}  # fmt: skip
FALLING = FORETOLD | {"rows": 257, "fitting": -0.4}
RATED = {
    "name": "a", "empty": 0.0, "gold": 48, "commonest": 0.3, "repeated": 0.0, "foretold": 0.75,
    "fitting": 0.1,
}  # fmt: skip
SOUGHT = RATED | {"gold": 0, "foretold": 0.5, "mutual": 18, "right": 0.06, "beside": 0.1}
REACHED = RATED | {
    "gold": 0, "foretold": 0.5, "documents": 100, "places": 100, "measure": "recall",
}  # fmt: skip
CONTRARY = RATED | {"gold": 0, "foretold": 0.5, "triplets": 48, "contrary": 0.85}
OF_FORETOLD: list[tuple[Any, ...]] = [
    ("relation", FORETOLD, "watch", "no relation to the texts"),
    ("relation", FORETOLD | {"fitting": 0.2}, ""),
    ("relation", FORETOLD | {"rows": 70}, ""),
    ("relation", FORETOLD | {"distinct": 1}, ""),
    ("relation", FORETOLD | {"words": 0.4}, ""),
    ("relation", FORETOLD | {"words": 0.2}, "watch"),
    ("relation", FORETOLD | {"foretold": 0.55}, ""),
    ("relation", FORETOLD | {"foretold": 0.95}, "watch"),
    ("relation", FORETOLD | {"foretold": 0.98}, ""),
    ("relation", FALLING, "bad", "the labels fall where texts belong together"),
    ("relation", FALLING | {"foretold": 0.98}, "bad"),
    ("relation", FALLING | {"fitting": -0.25}, ""),
    ("relation", FALLING | {"rows": 100, "fitting": -0.32}, ""),
]
OF_FORMS: list[tuple[Any, ...]] = [
    *OF_FORETOLD,
    ("forms", _form("object", 0.06), ""),
    ("forms", _form("object", 0.12), "watch", r"printed form \(repr\) of an object"),
    ("forms", _form("identifier", 0.12), "watch", "identifiers, numbers or links"),
    ("forms", _form("escape", 0.12), "watch", "escaped characters"),
    ("forms", _form("piece", 0.12), "watch", "pieces of a tokenizer"),
    ("forms", _form("ellipsis", 0.12), "watch", "end with an ellipsis"),
    ("forms", _form("blank", 0.12), "watch", "placeholders or masks"),
    ("forms", _form("lost", 0.12), "watch", "question marks within words"),
    ("forms", _form("joined", 0.2), ""),
    ("forms", _form("joined", 0.45), "watch", "joined by signs"),
    ("forms", _form("object", 0.12) | {"rows": 18}, ""),
    ("forms", _form("object", 0.12) | {"rows": 36}, "watch"),
    ("forms", FORMS | {"length": ["a", 0.18, 40]}, ""),
    ("forms", FORMS | {"length": ["a", 0.4, 40]}, "watch", "at most 40 characters"),
    ("forms", FORMS | {"filler": ["a", "xx", 0.15, 2.2]}, ""),
    ("forms", FORMS | {"filler": ["a", "xx", 0.3, 2.2]}, "watch", "seems to replace words"),
    ("forms", FORMS | {"filler": ["a", "xx", 0.3, 1.1]}, ""),
    ("forms", FORMS | {"filler": ["a", "The", 0.3, 2.2]}, ""),
    ("forms", FORMS | {"filler": ["a", "we", 0.3, 2.2]}, ""),
    ("forms", FORMS | {"filler": ["a", "200g", 0.5, 6.0]}, ""),
    ("forms", FORMS | {"filler": ["a", "い", 0.3, 2.2]}, ""),
    ("forms", FORMS | {"filler": ["a", "xx", 0.3, 2.2, 0.13]}, "watch", "seems to replace words"),
    ("forms", FORMS | {"filler": ["a", "xx", 0.3, 2.2, 0.3]}, ""),
    ("spelling", {"column": "a", "share": 0.6, "word": "lake", "pieces": 3}, ""),
    ("spelling", SPELT, "watch", "spells"),
    ("spelling", SPELT | {"whole": 0.07}, ""),
    ("spelling", SPELT | {"whole": 0.15}, "watch"),
    ("ratings", RATINGS, ""),
    ("ratings", RATINGS | {"halves": [0.7, -0.2]}, ""),
    ("ratings", RATINGS | {"halves": [0.7, -0.4]}, "watch", "In one half of the rows"),
    ("ratings", RATINGS | {"halves": [0.2, -0.4]}, ""),
    ("ratings", RATINGS | {"halves": [0.7, -0.4], "rows": 70}, ""),
    ("ratings", RATINGS | {"halves": [0.7, -0.4], "rows": 140}, "watch"),
    ("ratings", RATINGS | {"spread": 0.8}, ""),
    ("ratings", RATINGS | {"spread": 0.9}, "watch", "fill in for missing labels"),
    ("ratings", RATINGS | {"spread": 0.9, "correlation": 0.5}, ""),
    ("ratings", RATINGS | {"spread": 0.9, "offset": 0.6}, "watch"),
    ("ratings", RATINGS | {"spread": 0.9, "offset": 0.8}, ""),
    ("ratings", RATINGS | {"corners": [0.04, 0.0, 0.03, 0.0]}, ""),
    ("ratings", RATINGS | {"corners": [0.07, 0.0, 0.07, 0.0]}, "watch", "a part of the labels"),
    ("ratings", RATINGS | {"corners": [0.1, 0.05, 0.1, 0.05]}, "watch"),
    ("ratings", RATINGS | {"corners": [0.1, 0.05, 0.1, 0.05], "halves": [0.15, -0.1]}, ""),
    ("ratings", RATINGS | {"corners": [0.1, 0.05, 0.1, 0.05], "halves": [0.3, 0.2]}, "watch"),
    ("ratings", RATINGS | {"corners": [0.1, 0.1, 0.1, 0.1]}, ""),
    ("ratings", TWO | {"low_with_many": 0.06, "high_with_few": 0.06}, ""),
    ("ratings", TWO | {"low_with_many": 0.12, "high_with_few": 0.12}, "watch", "contradict that"),
    ("ratings", REWORDED | {"reworded": 0.7}, "watch"),
    ("ratings", REWORDED | {"reworded": 0.85}, ""),
    ("ratings", REWORDED | {"reworded": 0.9, "high_with_few": 0.06}, "watch"),
    ("ratings", TWO | {"low_with_many": 0.1}, ""),
    ("ratings", TWO | {"low_with_many": 0.2}, "watch"),
    ("ratings", TWO | {"low_with_many": 0.2, "share": 0.0}, ""),
    ("ratings", TWO | {"low_with_many": 0.2, "apart": 0.7}, ""),
    ("ratings", COSINES | {"equal": 4, "label_of_equal": 0.6}, ""),
    ("ratings", COSINES | {"equal": 9, "label_of_equal": 0.6}, "watch", "scaled too low"),
    ("ratings", COSINES | {"equal": 9, "label_of_equal": 0.8}, ""),
    ("ratings", AVERAGED, "watch", "40 texts of column 'a'"),
    ("ratings", AVERAGED | {"groups": 9}, ""),
    ("ratings", AVERAGED | {"groups": 18}, "watch"),
    ("ratings", AVERAGED | {"averaged": 0.7}, ""),
    ("ratings", AVERAGED | {"averaged": 0.85}, "watch"),
    ("ratings", AVERAGED | {"levels": 7}, ""),
    ("ratings", AVERAGED | {"levels": 14}, "watch"),
    ("pair_classes", CLASSES, ""),
    ("pair_classes", CLASSES | {"order": -0.9}, "watch", "in another order"),
    ("pair_classes", CLASSES | {"order": -0.9, "chances": [0.001, 0.007, 0.007]}, "watch"),
    ("pair_classes", CLASSES | {"order": -0.9, "chances": [0.001, 0.015, 0.015]}, ""),
    ("pair_classes", BY_CHANCE, "watch", "no relation to the texts.* words in common in each"),
    ("pair_classes", BY_CHANCE | {"foretold": True}, "watch", "as many words that go together"),
    ("pair_classes", BY_CHANCE | {"chances": [0.07, 0.5, 0.5]}, ""),
    ("pair_classes", BY_CHANCE | {"chances": [0.15, 0.5, 0.5]}, "watch"),
    ("pair_classes", BY_CHANCE | {"high": 0.15}, ""),
    ("pair_classes", BY_CHANCE | {"high": 0.25}, "watch"),
    ("teacher_margins", MARGINS, ""),
    ("teacher_margins", MARGINS | {"difference": 0.1, "alone": 0.1}, ""),
    ("teacher_margins", OF_OTHERS, "watch", "margin of the row after"),
    ("teacher_margins", OF_OTHERS | {"before": 0.7}, "watch", "margin of the row before"),
    ("teacher_margins", OF_OTHERS | {"difference": 0.2, "alone": 0.2}, "watch"),
    ("teacher_margins", OF_OTHERS | {"difference": 0.4, "alone": 0.4}, ""),
    ("teacher_margins", OF_OTHERS | {"after": 0.4}, ""),
    ("teacher_margins", OF_OTHERS | {"spread": 0.035}, ""),
    ("teacher_margins", OF_OTHERS | {"spread": 0.07}, "watch"),
    ("teacher_margins", MARGINS | {"alone": 0.75}, ""),
    ("teacher_margins", MARGINS | {"alone": 0.9}, "watch", "scores of the positive"),
    ("twin_classes", TWINS | {"share": 0.2}, ""),
    ("twin_classes", TWINS | {"share": 0.45}, "watch", "such as 3 and 5"),
    ("mixed_classes", MIXED, ""),
    ("mixed_classes", GENERAL, "watch", "in 3 of 20 classes"),
    ("mixed_classes", GENERAL | {"rows": 90}, ""),
    ("mixed_classes", GENERAL | {"rows": 100}, "watch"),
    ("mixed_classes", GENERAL | {"mixed": 1}, ""),
    ("mixed_classes", GENERAL | {"mixed": 2}, "watch"),
    ("mixed_classes", GENERAL | {"share": 0.4}, ""),
    ("mixed_classes", GENERAL | {"share": 0.6}, "watch"),
    ("mixed_classes", GENERAL | {"unmixed": 12}, ""),
    ("mixed_classes", GENERAL | {"unmixed": 20}, "watch"),
    ("mixed_classes", GENERAL | {"alike": 0.6}, ""),
    ("mixed_classes", GENERAL | {"alike": 0.75}, "watch"),
    ("mixed_classes", SELDOM, "watch", "nearly all have different classes"),
    ("mixed_classes", SELDOM | {"classes": 6}, ""),
    ("mixed_classes", SELDOM | {"classes": 10}, "watch"),
    ("mixed_classes", SELDOM | {"nearest": 0.2}, ""),
    ("mixed_classes", SELDOM | {"nearest": 0.28}, "watch"),
    ("mixed_classes", SELDOM | {"same": 0.25}, ""),
    ("mixed_classes", SELDOM | {"rank": 0.6}, ""),
    ("mixed_classes", SELDOM | {"same": 0.19}, "watch"),
    ("targets", PLACED, "watch", "coordinates of their own"),
    ("targets", PLACED | {"near": 0.08, "far": 0.0}, ""),
    ("targets", PLACED | {"near": 0.16, "far": 0.0}, "watch"),
    ("targets", PLACED | {"far": 0.28}, ""),
    ("targets", PLACED | {"far": 0.16}, "watch"),
    ("targets", PLACED | {"spread": 0.8}, "watch"),
    ("targets", PLACED | {"spread": 0.5}, ""),
    ("targets", PLACED | {"rows": 140}, ""),
    ("targets", TARGETS, ""),
    ("targets", TARGETS | {"equal": 0.15}, ""),
    ("targets", TARGETS | {"equal": 0.3}, "watch", "'a b' and 'c d'"),
    ("targets", TARGETS | {"equal": 0.3, "rows": 24}, ""),
    ("targets", TARGETS | {"equal": 0.3, "rows": 40}, "watch"),
    ("targets", TARGETS | {"cosine": 0.97}, ""),
    ("targets", TARGETS | {"cosine": 0.985, "rank": 4.0}, "watch", "nearly all the same"),
    ("contained", CONTAINED | {"cut": 0.86}, ""),
    (
        "contained",
        CONTAINED | {"same": 1.0, "names": ["english", "german"]},
        "watch",
        "their names say that they are different",
    ),
    ("contained", CONTAINED | {"same": 1.0, "names": ["Question", "answers"]}, "watch"),
    ("contained", CONTAINED | {"same": 1.0, "names": ["text", "copy"]}, ""),
    ("contained", CONTAINED | {"same": 1.0, "names": ["question1", "question2"]}, ""),
    ("contained", CONTAINED | {"same": 1.0, "names": ["question", "again"]}, ""),
    ("contained", CONTAINED | {"cut": 0.93}, "watch", "stands in its positive word by word"),
    ("strays", STRAYS | {"share": 0.06}, ""),
    ("strays", STRAYS | {"share": 0.12}, "watch", "misaligned"),
    ("strays", STRAYS | {"share": 0.3}, "watch"),
    (
        "strays",
        STRAYS | {"share": 0.0, "partners": BY_CHANCE_ALONE},
        "watch",
        "shifted or shuffled",
    ),
    ("strays", STRAYS | {"share": 0.0, "partners": BY_CHANCE_ALONE | {"told": 0.9}}, ""),
    ("strays", STRAYS | {"share": 0.4, "partners": TOLD | {"strangers": 0.07}}, ""),
    (
        "strays",
        STRAYS | {"share": 0.4, "partners": TOLD | {"strangers": 0.11}},
        "watch",
        "misaligned",
    ),
    ("strays", STRAYS | {"share": 0.3, "own_rank": 0.85}, "watch"),
    ("strays", STRAYS | {"share": 0.3, "own_rank": 0.93}, ""),
    ("strays", STRAYS | {"share": 0.3, "rows": 24}, ""),
    ("strays", STRAYS | {"share": 0.3, "median": 0.2}, ""),
    ("strays", STRAYS | {"share": 0.3, "median": 0.4}, "watch"),
    ("strays", STRAYS | {"share": 0.3, "rows": 48}, "watch"),
    (
        "exchanged",
        EXCHANGED | {"words": 0.2},
        "not judged",
        "80% of 160 rows the positive has more",
    ),
    ("exchanged", EXCHANGED | {"words": 0.2, "embeddings": 0.4}, ""),
    ("exchanged", EXCHANGED | {"words": 0.3}, ""),
    ("exchanged", EXCHANGED | {"column": "contradiction"}, "not judged", "contradictions"),
    ("exchanged", EDITED, "not judged", "belongs to the anchor nevertheless"),
    ("exchanged", EDITED | {"own_rank": 0.7}, "watch", "seem to be exchanged"),
    ("exchanged", EDITED | {"own_rank": 0.85}, "not judged"),
    ("exchanged", EDITED | {"repetition": 0.4}, "watch"),
    ("exchanged", EDITED | {"repetition": 0.97}, "watch"),
    ("exchanged", EDITED | {"repetition": 0.93}, "not judged"),
    ("exchanged", EDITED | {"repetition": 0.4, "column": "negative"}, "not judged"),
    ("exchanged", EDITED | {"repetition": 0.4, "column": "negative", "words": 0.7}, ""),
    ("exchanged", EXCHANGED | {"words": 0.7}, ""),
    ("exchanged", EXCHANGED | {"words": 0.85}, "watch", "seem to be exchanged"),
    ("exchanged", EXCHANGED | {"embeddings": 0.4}, ""),
    ("copies", COPIES, ""),
    ("copies", COPIES | {"share": 0.07}, ""),
    ("copies", COPIES | {"share": 0.14}, "watch", "repeats rows"),
    ("copies", COPIES | {"share": 0.14, "in_data": 0.14}, ""),
    ("copies", COPIES | {"size": 11}, ""),
    ("copies", COPIES | {"size": 8}, "watch", "leaves rows out"),
    ("stream", {"pairs": 12, "alike": 0.95}, ""),
    ("stream", {"pairs": 24, "alike": 0.95}, "watch", "The data are a stream"),
    ("stream", {"pairs": 24, "alike": 0.5}, ""),
    ("stream", {"pairs": 24, "alike": 0.7}, ""),
    ("stream", {"pairs": 24, "alike": 0.8}, "watch"),
    ("outweighed", {"share": 0.0045, "rows": 16}, "watch", "outweighs the comparison"),
    ("outweighed", {"share": 0.009, "rows": 16}, ""),
    ("outweighed", {"share": 0.0045, "rows": 32}, ""),
    ("outweighed", {"share": 0.7e-5, "rows": 16}, ""),
    ("outweighed", {"share": 1.4e-5, "rows": 16}, "watch"),
    ("shape", LOUD | {"pairing": 0.0045, "rows": 16}, ""),
    ("shape", LOUD | {"pairing": 0.009, "rows": 16}, "bad", "huge scale"),
    ("lengths_in_batches", {"column": "a", "share": 0.7, "tokens": 9.0}, ""),
    ("lengths_in_batches", {"column": "a", "share": 0.5, "tokens": 6.0}, "watch", "truncated"),
]
TRANSLATIONS = {
    "name": "a", "kind": "translations", "count": 60, "distinct": 60, "rank": 0.5, "nearest": 0.2,
    "shared": 0.8, "told": 0.9,
}  # fmt: skip
OF_HEADS: list[tuple[Any, ...]] = [
    ("seams", SEAMS | {"share": 0.2}, ""),
    ("seams", SEAMS | {"share": 0.3}, "watch", "runs into their first word"),
    ("conflicts", CONFLICTS | {"share": 0.07}, ""),
    ("conflicts", CONFLICTS | {"share": 0.14}, "watch", "positive in another row, as"),
    ("conflicts", CONFLICTS | {"share": 0.14, "rows": 40}, ""),
    ("conflicts", CONFLICTS | {"share": 0.14, "rows": 80}, "watch"),
    ("conflicts", CONFLICTS | {"share": 0.35}, "watch"),
    ("conflicts", CONFLICTS | {"share": 0.7, "sets": 2}, "bad", "another row or data set"),
    ("gold", {"answers": [TRANSLATIONS]}, "watch", "a translation has more words in common"),
    ("gold", {"answers": [TRANSLATIONS | {"rank": 0.8}]}, ""),
    ("gold", {"answers": [TRANSLATIONS | {"shared": 0.4}]}, ""),
    ("gold", {"answers": [TRANSLATIONS | {"shared": 0.6}]}, "watch"),
    ("gold", {"answers": [TRANSLATIONS | {"told": 0.7}]}, ""),
    ("gold", {"answers": [TRANSLATIONS | {"told": 0.8}]}, "watch"),
    ("gold", {"answers": [TRANSLATIONS | {"count": 12}]}, "watch", "12 translations"),
    ("flat", {"share": 0.002, "module": "Signs"}, "bad", "no gradient passes"),
    ("flat", {"share": -0.002, "module": "Signs"}, "bad"),
    ("flat", {"share": 0.0045, "module": "Signs"}, ""),
    ("unanswered", {"answers": [RATED]}, "watch", "gold scores have no relation"),
    ("unanswered", {"answers": [RATED | {"fitting": 0.4}]}, ""),
    ("unanswered", {"answers": [RATED | {"gold": 24, "commonest": 0.3}]}, ""),
    ("unanswered", {"answers": [RATED | {"commonest": 1}]}, ""),
    ("unanswered", {"answers": [RATED | {"foretold": 0.55}]}, ""),
    ("unanswered", {"answers": [RATED | {"fitting": -0.7}]}, "watch", "fall where texts belong"),
    ("unanswered", {"answers": [CONTRARY]}, "watch", "exchanged"),
    ("unanswered", {"answers": [REACHED]}, "bad", "recall@100 of 'a' .* it is 1 whatever"),
    ("unanswered", {"answers": [REACHED | {"documents": 101}]}, ""),
    ("unanswered", {"answers": [SOUGHT]}, "watch", "in another order"),
    ("unanswered", {"answers": [SOUGHT | {"mutual": 9}]}, ""),
    ("unanswered", {"answers": [SOUGHT | {"right": 0.12}]}, ""),
    ("unanswered", {"answers": [SOUGHT | {"beside": 0.5}]}, "watch", "in another order"),
    ("unanswered", {"answers": [SOUGHT | {"beside": 0.7}]}, "watch", "shifted by one"),
    (
        "unanswered",
        {"answers": [SOUGHT | {"beside": 0.7, "right": 0.15}]},
        "watch",
        "shifted by one",
    ),
    ("unanswered", {"answers": [SOUGHT | {"beside": 0.7, "right": 0.3}]}, ""),
    ("unanswered", {"answers": [CONTRARY | {"contrary": 0.7}]}, ""),
    ("unanswered", {"answers": [CONTRARY | {"repetition": 0.6, "own_rank": 0.7}]}, ""),
    ("unanswered", {"answers": [CONTRARY | {"repetition": 0.6, "own_rank": 0.5}]}, "watch"),
    ("unanswered", {"answers": [CONTRARY | {"triplets": 24}]}, ""),
    ("head", HEAD, ""),
    ("head", HEAD | {"rate": 1.4e-3}, ""),
    ("head", HEAD | {"rate": 0.7e-3}, "watch", "The learning rate of the loss's own weights"),
    ("head", HEAD | {"missed": 1, "name": "loss.w"}, "watch", "get no gradient"),
    ("head", HEAD | {"layer": "Linear"}, "bad", r"makes a layer \(Linear\)"),
]
