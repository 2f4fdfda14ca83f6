"""Texts that preparation, tokenisation or prompts have spoiled."""

from __future__ import annotations

import json
import random
import re
from functools import partial
from typing import Any

from tests.judgement.case import faulty
from tests.judgement.held_out import n_fields as fields
from tests.judgement.held_out.n_fields import harms, strict
from tests.judgement.stage import Stage

UNKNOWN = (
    r"\bunk(nown)?\b|\[UNK\]|vocabulary|out.of.vocab|tokeni[sz]er|encoding|script|alphabet|accent",
    r"(same|identical|equal|indistinguishable|duplicate).{0,40}(tokens?|texts?|input|embedding)",
    r"(texts?|tokens?|inputs?|embeddings?).{0,60}(same|identical|indistinguishable|collide)",
)
CUT = (
    r"truncat|cut (off|short|at|away)|max_seq_length|max_length|too long|"
    r"(length|token)s?.{0,30}limit",
    r"(longer|exceed|beyond|over).{0,40}(token|length|limit)",
    r"(same|identical|common|shared).{0,60}(beginning|start|prefix|header|boilerplate|prompt|token)",
    r"(text|passage|positive|view|input|embedding)s?.{0,60}(identical|the same|indistinguishable)",
)
EMPTY = (
    r"\b(empty|blank|missing|none|nan|null|placeholder)\b",
    r"(duplicat|identical|repeat|same).{0,60}(text|positive|passage|view|row|column)s?",
    r"(text|positive|passage|view|row|column)s?.{0,60}(duplicat|identical|repeat|same|empty)",
    r"false negative",
)


@faulty(
    "tokenizer without the script of the texts",
    "The tokenizer knows no Cyrillic words: all words of the Russian texts become [UNK].",
    UNKNOWN,
)
def russian_for_an_english_vocabulary(stage: Stage) -> None:
    """Everyday: an English encoder fine-tuned on another script."""
    field = fields.NOVOSTI
    table = field.table(160)

    english = ["the news of today from our town : a minister has opened a museum , we hear ."]
    harms(stage, field, table, table, faulty_words=english)


@faulty(
    "capitals for a tokenizer of small letters",
    "The texts are in capitals, and the tokenizer, which does not lower-case, knows small letters "
    "only.",
    (*UNKNOWN, r"(upper|lower|case|capital)"),
)
def shouted_titles_not_lower_cased(stage: Stage) -> None:
    """Common with uncased vocabularies behind a tokenizer with do_lower_case=False."""
    from tokenizers import normalizers

    field = fields.CHESS
    table = field.table(160)
    capitals = {name: [text.upper() for text in texts] for name, texts in table.items()}
    lower_case = {name: list(texts) for name, texts in table.items()}

    def keeps_case(model: Any) -> None:
        model.tokenizer.backend_tokenizer.normalizer = normalizers.NFC()

    harms(stage, field, capitals, lower_case, adjust_model=keeps_case, width=32,
          texts=[text for texts in lower_case.values() for text in texts])  # fmt: skip


@faulty(
    "over-cleaned texts",
    "A cleaning regular expression removes all but a to z: from Japanese texts nothing but "
    "spaces stay.",
    [*EMPTY, *UNKNOWN, r"clean|strip|remov|punctuation|short|length|nothing (is )?left|no tokens"],
)
def letters_beyond_ascii_stripped(stage: Stage) -> None:
    """Everyday: `re.sub("[^a-z ]", "", text)` on texts that are not English."""
    field = fields.KANJI
    table = field.table(160)
    stripped = {name: [re.sub(r"[^a-z ]", "", text) for text in texts]
                for name, texts in table.items()}  # fmt: skip
    harms(stage, field, stripped, table)


@faulty(
    "records serialised with escapes",
    "Texts are json.dumps of their record: letters beyond ASCII become \\u escapes, which the "
    "tokenizer does not know, so that all rows read the same.",
    [*UNKNOWN, r"json|escape|\\u|serial|boilerplate|markup|brace|common (token|word|prefix)"],
)
def russian_records_as_escaped_json(stage: Stage) -> None:
    """Common in pipelines that keep whole records as one string."""
    field = fields.NOVOSTI
    table = field.table(160)
    dumped = {name: [json.dumps({"body": text}) for text in texts] for name, texts in table.items()}
    harms(stage, field, dumped, table, layers=1, texts=['{"body": "}'],
          settings={"per_device_train_batch_size": 8})  # fmt: skip


@faulty(
    "missing texts as the word nan",
    "Missing answers were turned into the string 'nan' by astype(str): most rows have the same "
    "positive.",
    EMPTY,
)
def nan_strings_for_missing_answers(stage: Stage) -> None:
    """Everyday with tables that come through pandas."""
    field = fields.BANK
    table = field.table(200)
    draw = random.Random(2)
    holes = [draw.random() < 0.85 for _ in range(200)]
    spoiled = table | {"reply": [
        "nan" if hole else text for text, hole in zip(table["reply"], holes, strict=True)
    ]}  # fmt: skip
    sound = {name: [text for text, hole in zip(texts, holes, strict=True) if not hole]
             for name, texts in table.items()}  # fmt: skip
    harms(stage, field, spoiled, sound, texts=["nan"], score=partial(strict, field))


@faulty(
    "a header that fills the maximum length",
    "Every record begins with the same header, and the maximum length ends within it: all "
    "passages are cut to the same tokens.",
    CUT,
)
def catalogue_header_up_to_the_limit(stage: Stage) -> None:
    """Everyday: boilerplate at the top of each document and a short max_seq_length."""
    field = fields.FOSSILS
    table = field.table(160)

    def short(model: Any) -> None:
        model.max_seq_length = 9

    harms(stage, field, table, table, adjust_model=short)


@faulty(
    "texts cut on the wrong side",
    "The tokenizer truncates on the left, and what tells the adverts apart stands at the start.",
    [*CUT, r"truncation_side|left|wrong (side|end)"],
)
def adverts_truncated_on_the_left(stage: Stage) -> None:
    """A tokenizer of a chat model, whose truncation_side is left."""
    field = fields.JOBS
    ending = " we offer tea and fruit . send your papers by post or come to our office at noon ."
    table = field.table(160)
    longer = {"wish": table["wish"], "advert": [text + ending for text in table["advert"]]}

    def left(model: Any) -> None:
        model.tokenizer.truncation_side = "left"

    def score(model: Any) -> float:
        from tests.judgement.truth import retrieval

        held_out = field.table(40, seed=11)
        held_out["advert"] = [text + ending for text in held_out["advert"]]
        return retrieval(model, held_out)

    harms(stage, field, longer, longer, adjust_model=left, length=17, score=score)


@faulty(
    "an instruction longer than the maximum length",
    "The prompt put before each text in training alone fills the maximum length, so that nothing "
    "of the texts stays.",
    [*CUT, r"prompt|instruction"],
)
def instruction_fills_the_window(stage: Stage) -> None:
    """Common with long instructions and max_seq_length left at a small number."""
    field = fields.BAHN
    table = field.table(160)
    prompt = "instruct : given a question of a traveller find the notice that answers it . query : "
    harms(stage, field, table, table, texts=[prompt], length=16,
          faulty_settings={"prompts": prompt})  # fmt: skip


@faulty(
    "prompts in training but not in use",
    "Training puts a long prompt before all texts, but the model keeps no prompts, and encodes "
    "without them in use.",
    [r"prompt|instruction|prefix"],
)
def prompts_known_to_training_only(stage: Stage) -> None:
    """Everyday: prompts= of the training arguments without prompts of the model."""
    field = fields.GARDEN
    table = field.table(160)
    prompts = {
        "ask": "Represent this question for a search of advice from gardeners today : " * 3,
        "advice": "Represent this passage for retrieval by hobby gardeners online : " * 3,
    }
    harms(stage, field, table, table, texts=list(prompts.values()), pooling="max",
          faulty_settings={"prompts": prompts}, score=partial(strict, field))  # fmt: skip


@faulty(
    "only the first chunk of a document as positive",
    "Documents were split into chunks and the first was taken as positive, which is the same "
    "foreword in all; the answers stand in later chunks.",
    [*CUT, *EMPTY, r"chunk|few(er)? distinct|unique|foreword|header|boilerplate"],
)
def forewords_as_positive_chunks(stage: Stage) -> None:
    """Common where long documents are split before pairs are made."""
    field = fields.FOSSILS
    table = field.table(160)
    chunks = table | {"record": [" ".join(text.split()[:14]).split(" from ")[0]
                                 for text in table["record"]]}  # fmt: skip
    harms(stage, field, chunks, table, pooling="max", settings={"learning_rate": 3e-3})
