"""Faults of texts, columns and labels, inspected or under trainers."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.first.reported_encoders import LONGER, ranking
from tests.judgement.stage import (
    FILLERS,
    PEOPLE,
    PLACES,
    TOPICS,
    Stage,
    facts,
    lookalike,
    pairs,
    passage,
    question,
    triplets,
)
from tests.judgement.truth import among_alike, falls_short, retrieval, suffers
from tests.sentence_training import losses
from tests.tiny_models import WORDS

ANYWHERE = (INSPECT, DOCTOR, REPORT)
REPEATED = (
    r"repeat|duplicate|\bcop(y|ies)\b|same text|identical|distinct|occurs?|more than once|"
    r"share a text|equal texts"
)
TOKENS = r"token|sub-?word|piece|split|vocabular|\bUNK\b|single (letters|characters)|unknown"


def misleads(
    stage: Stage,
    table: Mapping[str, Sequence[Any]],
    mended: Mapping[str, Sequence[Any]],
    score: Callable[[Any], float] = among_alike,
    *,
    loss: Any = ranking,
    share: float | None = 0.6,
    **settings: Any,
) -> None:
    """Inspect columns of texts, and train by them and by mended ones without a watch."""
    stage.inspect(table)
    scores = []
    for columns in (table, mended):
        trainer = stage.trainer(loss, columns, logging_strategy="no", **settings)
        before = score(trainer.model)
        with contextlib.redirect_stdout(io.StringIO()):
            trainer.train()
        scores.append((before, score(trainer.model)))
    falls_short(stage, *scores, share=share)


@faulty(
    "words run together",
    "The passages have lost their spaces, as texts taken from PDF files do: the tokenizer reads "
    "one long word.",
    [
        TOKENS,
        r"spaces?\b|run together|one (long )?word|whitespace",
        r"(no|few|hardly any) words? in common|words?.{0,40}(shared|overlap|in common)",
        r"(pairs?|columns?|positives?).{0,80}(nothing in common|unrelated|at chance|no more alike)",
    ],
    tools=(INSPECT,),
    never=[LONGER],
)
def passages_without_spaces(stage: Stage) -> None:
    """Common with texts taken from PDF files: the words of a line run together."""
    table = pairs()
    joined = table | {"positive": [text.replace(" ", "") for text in table["positive"]]}
    misleads(stage, joined, table, share=None)


@faulty(
    "escaped characters",
    "The passages were written as JSON twice: each character is an escape of six, and few of them "
    "fit into the length.",
    [
        TOKENS,
        r"escap|unicode|encod|character|digits|numbers",
        r"truncat|cut off|too long|longer than|max_seq_length|same (beginning|start)",
        r"(no|few|hardly any) words? in common|words?.{0,40}(shared|overlap|in common)",
        r"(pairs?|columns?|positives?).{0,80}(nothing in common|unrelated|at chance|no more alike)",
    ],
    tools=(INSPECT,),
    never=[LONGER],
)
def passages_as_escapes(stage: Stage) -> None:
    """Common: `json.dumps` with `ensure_ascii` on texts that are dumped again."""
    table = pairs()
    escaped = ["".join(f"\\u{ord(sign):04x}" for sign in text) for text in table["positive"]]
    misleads(stage, table | {"positive": escaped}, table)


@faulty(
    "names of fields instead of their texts",
    "The corpus holds a dictionary for each passage, and going through it yields its keys: all "
    "positives are `title` or `text`.",
    [REPEATED, r"field|\bkeys?\b|few (texts|values)|all the same|constant|one word|very short"],
    tools=ANYWHERE,
    never=[LONGER],
)
def keys_of_dictionaries_as_positives(stage: Stage) -> None:
    """Common with corpora in the form of BEIR: {id: {"title": ..., "text": ...}}."""
    table = pairs()
    keys = [("title", "text")[at % 2] for at in range(160)]
    suffers(
        stage,
        stage.trainer(ranking, table | {"positive": keys}),
        lambda: stage.trainer(ranking, table),
        among_alike,
    )


@faulty(
    "anonymised words",
    "Names of things, places and people are replaced by one sign each: what tells texts apart is "
    "gone, and many are equal.",
    [
        REPEATED,
        r"anonymi|placeholder|redact|mask|few (different )?(words|tokens)|same (words|tokens)",
    ],
    tools=(INSPECT,),
    never=[LONGER],
)
def names_replaced_by_signs(stage: Stage) -> None:
    """Common where data are made anonymous before they leave a company."""
    table = pairs()

    def anonymised(text: str) -> str:
        kinds = ((TOPICS, "topic"), (PLACES, "place"), (PEOPLE, "person"), (FILLERS, "word"))
        signs = {word: f"[{sign}]" for words, sign in kinds for word in words}
        return " ".join(signs.get(word, word) for word in text.split())

    misleads(stage, {name: [*map(anonymised, texts)] for name, texts in table.items()}, table)


@faulty(
    "questions that would fit any passage",
    "Four of five questions were written by a language model without regard to the passage: three "
    "general questions stand in most rows.",
    [REPEATED, r"general|generic|unspecific|same (question|anchor)|few (questions|anchors)"],
    tools=ANYWHERE,
    never=[LONGER],
)
def three_general_questions(stage: Stage) -> None:
    """https://github.com/vibrantlabsai/ragas/issues/1000: questions by a language model."""
    table, draw = pairs(), random.Random(2)
    general = ["ka gera muna ?", "ka bora ti ?", "ka sulo vane ra ?"]
    anchors = [draw.choice(general) if at % 5 else text for at, text in enumerate(table["anchor"])]
    misleads(stage, table | {"anchor": anchors}, table)


@faulty(
    "preamble of a language model before each question",
    "Each question begins with the same polite sentence of the model that wrote it, which fills "
    "the length: the question itself is cut off.",
    [
        REPEATED,
        r"truncat|cut off|cut short|too long|max_seq_length|length",
        r"(same|one|common) (beginning|start|words|tokens|prefix)|preamble|prefix",
        r"begin (alike|with)",
    ],
    tools=ANYWHERE,
    never=[LONGER],
)
def questions_behind_a_preamble(stage: Stage) -> None:
    """https://github.com/vibrantlabsai/ragas/issues/1000: 'Here is a question that can be ...'."""
    table = pairs()
    preamble = " ".join(random.Random(4).sample(FILLERS, 20))
    anchors = [f"{preamble} : {text}" for text in table["anchor"]]
    suffers(
        stage,
        stage.trainer(ranking, table | {"anchor": anchors}, stage.model(length=24)),
        lambda: stage.trainer(ranking, table, stage.model(length=24)),
        among_alike,
    )


@faulty(
    "other answers of a question as its hard negatives",
    "A question with two right passages became two rows, in each of which the other right passage "
    "is the hard negative.",
    [
        r"false negative",
        r"negatives?.{0,100}(positive|right|true|relevant|answer)",
        r"positives?.{0,60}(as|also|among|stand|serve|occur|are|is).{0,40}negative",
        r"negatives?.{0,60}(too|as|more|no less) (similar|alike|close)",
        REPEATED,
    ],
    tools=ANYWHERE,
    never=[LONGER],
)
def second_answer_as_hard_negative(stage: Stage) -> None:
    """https://github.com/FlagOpen/FlagEmbedding/issues/194: several positives of a question."""
    table: dict[str, list[str]] = {"anchor": [], "positive": [], "negative": []}
    mended = {name: list[str]() for name in table}
    for fact in facts(120):
        answers = [passage(fact), passage(fact, fillers=3)]
        for at in range(2):
            for columns in (table, mended):
                columns["anchor"].append(question(fact))
                columns["positive"].append(answers[at])
            table["negative"].append(answers[1 - at])
            mended["negative"].append(lookalike(fact))
    distance = losses.TripletDistanceMetric.COSINE
    misleads(
        stage,
        table,
        mended,
        loss=lambda model: losses.TripletLoss(model, distance, 0.3),
        learning_rate=1e-3,
    )


@faulty(
    "a single negative for all rows",
    "One and the same text is the negative of every triplet: once it lies apart, nothing is left "
    "to learn.",
    [
        r"negatives?.{0,80}(same|single|one|constant|repeat|identical|equal|cop|distinct|easy)",
        r"(same|single|one|constant) (text|negative)",
        REPEATED,
        r"(loss|triplets?|margin).{0,60}(zero|satisfied|met|nothing)",
    ],
    tools=ANYWHERE,
    never=[LONGER],
)
def one_text_as_every_negative(stage: Stage) -> None:
    """Common in first triplets: a sentence about the weather for every row."""
    table = triplets()
    single = table | {"negative": ["bora leku niran dolo ."] * 160}

    def loss(model: Any) -> Any:
        return losses.TripletLoss(model, losses.TripletDistanceMetric.COSINE, 0.3)

    suffers(
        stage,
        stage.trainer(loss, single, learning_rate=1e-3),
        lambda: stage.trainer(loss, table, learning_rate=1e-3),
        among_alike,
    )


def paraphrase(fact: tuple[str, ...]) -> str:
    verb, topic, place, near, *_ = fact
    return f"ti {near} {place} {topic} {verb} lo ?"


@faulty(
    "third column taken for hard negatives",
    "The third column holds the answers, and the second another wording of the question: answers "
    "are pushed away as hard negatives.",
    [
        r"(third|last|answer|\bcolumn).{0,100}(negative|role|part|order|played)",
        r"negatives?.{0,80}(answer|column|no negatives|belong|positive|as similar|too similar|"
        r"in common|false)",
        r"order.{0,40}columns?|columns?.{0,60}order",
        r"false negative",
    ],
    tools=ANYWHERE,
    never=[LONGER],
)
def answers_behind_a_second_wording(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/2791: columns by place."""
    asked = facts(160)
    table = {
        "question": [*map(question, asked)],
        "paraphrase": [*map(paraphrase, asked)],
        "answer": [*map(passage, asked)],
    }
    suffers(
        stage,
        stage.trainer(ranking, table),
        lambda: stage.trainer(ranking, {name: table[name] for name in ("question", "answer")}),
        among_alike,
    )


def translated(text: str, shift: int) -> str:
    """Another language: each word is another one of the vocabulary."""
    places = {word: at for at, word in enumerate(WORDS)}
    return " ".join(
        WORDS[(places[word] + shift) % len(WORDS)] if word in places else word
        for word in text.split()
    )


@faulty(
    "third column taken for hard negatives",
    "Rows hold a sentence in three languages: the third is taken for hard negatives and pushed "
    "away from the first.",
    [
        r"(third|last|french|\bcolumn).{0,100}(negative|role|part|order|played)",
        r"negatives?.{0,80}(column|no negatives|belong|positive|as similar|too similar|false|"
        r"translat)",
        r"order.{0,40}columns?|columns?.{0,60}order",
        r"false negative",
    ],
    tools=ANYWHERE,
    never=[LONGER],
)
def third_language_pushed_away(stage: Stage) -> None:
    """Common with parallel corpora: every further column is one of negatives."""

    def parallel(count: int, seed: int) -> dict[str, list[str]]:
        texts = [question(fact) for fact in facts(count, seed)]
        return {
            "english": texts,
            "german": [translated(text, 17) for text in texts],
            "french": [translated(text, 101) for text in texts],
        }

    table, unseen = parallel(160, 0), parallel(100, 11)
    mended = {
        "english": table["english"] * 2,
        "translation": table["german"] + table["french"],
    }
    settings = {"learning_rate": 2e-3, "max_steps": 60}
    suffers(
        stage,
        stage.trainer(ranking, table, **settings),
        lambda: stage.trainer(ranking, mended, **settings),
        lambda model: retrieval(model, {"en": unseen["english"], "fr": unseen["french"]}),
    )


@faulty(
    "beginnings cut off",
    "The tokenizer truncates on the left: of passages longer than the length only the end is left, "
    "and what the questions ask for stands at the beginning.",
    [
        r"truncat|cut off|cut short|max_seq_length|too long|longer than|length",
        r"beginning|\bleft\b",
    ],
    never=[LONGER],
)
def truncation_on_the_left(stage: Stage) -> None:
    """Common with tokenizers of chat models, whose truncation_side is left."""
    asked = facts(160)
    table = {
        "anchor": [*map(question, asked)],
        "positive": [passage(fact, fillers=16) for fact in asked],
    }
    unseen = facts(100, 11)
    searched = {
        "anchor": [*map(question, unseen)],
        "positive": [passage(fact, fillers=16) for fact in unseen],
    }

    def model(side: str) -> Any:
        encoder = stage.model(length=12)
        encoder.tokenizer.truncation_side = side
        return encoder

    suffers(
        stage,
        stage.trainer(ranking, table, model("left")),
        lambda: stage.trainer(ranking, table, model("right")),
        lambda encoder: retrieval(encoder, searched),
    )


@faulty(
    "rows of a file run into one cell",
    "A quotation mark that was not closed lets each cell of passages begin with those of earlier "
    "rows: the own passage comes last and is cut off.",
    [
        r"truncat|cut off|cut short|max_seq_length|too long|longer than|length",
        REPEATED,
        r"(pairs?|columns?|positives?).{0,80}(nothing in common|unrelated|at chance|no more alike)",
        r"other rows|several rows|overlap|in common|neighbou?r",
    ],
    tools=(INSPECT,),
    never=[LONGER],
)
def passages_behind_those_of_earlier_rows(stage: Stage) -> None:
    """Common with CSV files whose quotation marks are not escaped."""
    table = pairs()
    cells = table["positive"]
    running = [" ".join(cells[(at + place) % 160] for place in range(-7, 1)) for at in range(160)]
    misleads(stage, table | {"positive": running}, table)


@faulty(
    "links instead of the pages behind them",
    "The column of positives holds the addresses of the pages and not their texts.",
    [
        TOKENS,
        r"\burls?\b|link|address|https?|no text|not (a )?text|digits|numbers|slash",
        r"(no|few|hardly any) words? in common|words?.{0,40}(shared|overlap|in common)",
        r"(pairs?|columns?|positives?).{0,80}(nothing in common|unrelated|at chance|no more alike)",
        r"(same|one|common) (beginning|start|words|tokens|prefix)|begin (alike|with)",
    ],
    tools=(INSPECT,),
    never=[LONGER],
)
def addresses_as_positives(stage: Stage) -> None:
    """Common with crawled data, whose tables have a column for the address of each page."""
    table, draw = pairs(), random.Random(5)
    links = [f"https://www.example.org/p/{draw.randrange(10**9)}" for _ in range(160)]
    misleads(stage, table | {"positive": links}, table)
