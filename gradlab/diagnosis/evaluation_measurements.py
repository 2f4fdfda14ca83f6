"""Measures what evaluation asks, and which prompts go where, for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.evaluation_verdicts`, or None where there is nothing to measure.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from gradlab.data.words import plain, signed, word_overlap, words_of
from gradlab.diagnosis.data_measurements import word_ranks
from gradlab.diagnosis.evaluators import (
    EVALUATED,
    EVERY_TEXT,
    PAIRED,
    are_of_libraries,
    evaluated_texts,
    evaluators_of,
    gold_of,
    ids_of,
    relevant_documents,
)
from gradlab.diagnosis.foretold_measurements import foretold_gold
from gradlab.diagnosis.label_agreement_measurements import rank_correlation
from gradlab.diagnosis.observation import NAME_OF_SET, Observation
from gradlab.inspection.texts import prompt_of
from gradlab.monitor.library_losses import COSINES, DOTS

PROMPT = re.compile(r"[\w\s,.'-]+:")
OF_THE_MODEL = "of the model"  # in place of prompts that the model itself holds
ROWS_OF_PROMPT = 32  # fewest texts whose common beginning is a prompt
COMPARED = 512  # pairs of an evaluator whose words are compared with their scores
Numbers = dict[str, Any]


def evaluator(observation: Observation) -> Numbers | None:
    """Return the prompts of training and evaluation, and the shares of texts and rows in both."""
    evaluators, held_out = evaluators_of(observation), list(_held_out(observation))
    if not evaluators and not held_out:
        return None
    prompts = [prompt for prompt in _prompts(getattr(observation.args, "prompts", None)) if prompt]
    model = observation.trainer.model
    evaluated = [prompt for inner in evaluators for prompt in _prompts_of(inner, model)]
    used = list(evaluated)
    if getattr(model, "default_prompt_name", None) or any(
        (getattr(model, "prompts", None) or {}).values()
    ):
        evaluated.append(OF_THE_MODEL)
    texts = [
        text for inner in evaluators for name in EVALUATED for text in evaluated_texts(inner, name)
    ]
    trained = [
        row for table in observation.tables.values()
        for row in zip(*(map(signed, column) for column in table.values()), strict=True)
    ]  # fmt: skip
    rows = {tuple(sorted(row)) for row in trained}
    written = [] if prompts else _written(observation)
    in_texts = any(
        text.startswith(prompt) for prompt in written for inner in evaluators
        for name in EVERY_TEXT for text in evaluated_texts(inner, name)
    )  # fmt: skip
    evaluated += [OF_THE_MODEL] * in_texts
    return {
        "prompt": (prompts or written)[0]
        if (prompts or (written and texts)) and evaluators
        else "",
        "has_prompt": any(evaluated),
        "other_prompt": "" if prompts or in_texts else _missing_prompt(used, observation),
        "texts": len(texts),
        "in_training": sum(_in_training(evaluators, trained)) / max(1, len(texts)),
        "rows": len(held_out),
        "rows_in_training": sum(_row(row) in rows for row in held_out) / max(1, len(held_out)),
    }


def gold(observation: Observation) -> Numbers | None:
    """Return how many different answers evaluators expect, and whether words agree with them."""
    answers: list[Numbers] = []
    for inner in evaluators_of(observation):
        name = str(getattr(inner, "name", "") or type(inner).__name__)
        cells = gold_of(inner)
        if cells:
            first, second = (
                evaluated_texts(inner, "sentences1"),
                evaluated_texts(inner, "sentences2"),
            )
            correlation, low, high = 0.0, 0.0, 0.0
            if len(first) == len(second) == len(cells):
                overlap = word_overlap([first[:COMPARED], second[:COMPARED]])
                words = [overlap(0, row, 1, row) for row in range(len(first[:COMPARED]))]
                correlation = rank_correlation([float(c) for c in cells[:COMPARED]], words)
                low, high = (float(torch.tensor(words).quantile(q)) for q in (0.1, 0.9))
            numbers = {"count": len(cells), "distinct": len(set(map(float, cells)))}
            answers.append({
                "name": name, "kind": "scores", **numbers, "words": correlation, "low": low,
                "high": high,
            })  # fmt: skip
        elif triplets := _triplets(inner):
            answers.append({
                "name": name, "kind": "triplets", "count": len(triplets),
                "distinct": len({row[0] for row in triplets}), **_preferred(triplets),
                **foretold_gold(observation.tables.values(), ((), (), ()), triplets[:COMPARED]),
            })  # fmt: skip
        elif translations := evaluated_texts(inner, "target_sentences"):
            sources = evaluated_texts(inner, "source_sentences")
            answers.append({
                "name": name, "kind": "translations", "count": len(translations),
                "distinct": len(set(translations)),
                **_translated(sources[:COMPARED], translations[:COMPARED]),
                "told": _told_in_training(observation),
            })  # fmt: skip
        corpus, relevant = ids_of(inner, "corpus"), relevant_documents(inner)
        if corpus is not None and relevant is not None:
            numbers = {"count": len(relevant), "distinct": len(corpus)}
            queries = ids_of(inner, "queries") or ()
            answers.append({
                "name": name, "kind": "documents", **numbers,
                "queries": sum(bool(relevant.get(key)) for key in queries),
                **_missing_keys(relevant, corpus),
                **_relevance(inner, relevant), "right": _right_share(relevant, corpus),
            })  # fmt: skip
        texts = [text for attribute in EVERY_TEXT for text in evaluated_texts(inner, attribute)]
        first, second = (evaluated_texts(inner, f"sentences{place}") for place in (1, 2))
        for answer in answers[len(answers) - 1 :] if texts else ():
            answer["blank"] = sum(not text.strip() for text in texts) / len(texts)
            equal = sum(map(str.__eq__, first, second)) / max(1, len(first))
            answer["equal"] = equal if answer["kind"] == "scores" else 0.0
    return {"answers": answers} if answers else None


def held_rows(observation: Observation) -> Numbers | None:
    """Return the rows and columns of an eval_dataset, beside the columns of training."""
    rows: Any = getattr(observation.trainer, "eval_dataset", None)
    trained = list(observation.table_of(""))
    if not hasattr(rows, "column_names") or not hasattr(rows, "__len__") or not trained:
        return None
    return {
        "rows": len(rows), "columns": [c for c in rows.column_names if c in trained],
        "trained": trained,
    }  # fmt: skip


def use(observation: Observation) -> Numbers | None:
    """Return how training and evaluation compare embeddings, and with how many dimensions."""
    evaluators, model = evaluators_of(observation), observation.trainer.model
    batch = observation.batches[0]
    trained = comparison_of(batch.loss)
    compared = [str(getattr(name, "value", name)) for e in evaluators for name in (
        getattr(e, "main_similarity", None) or getattr(e, "main_score_function", None),
    ) if name]  # fmt: skip
    if not compared and getattr(model, "_similarity_fn_name", None):
        compared = [str(getattr(model._similarity_fn_name, "value", model._similarity_fn_name))]
    dims = [getattr(holder, "truncate_dim", None) for holder in [model, *evaluators]]
    cut = [size for size in dims if isinstance(size, int)]
    widths = getattr(batch.loss, "matryoshka_dims", None)
    if not batch.embedded or not (evaluators or cut or compared):
        return None
    lengths = torch.cat([rows.double().norm(dim=1) for rows in batch.embedded])
    module = model.modules() if isinstance(model, nn.Module) else []
    full = [getattr(m, "embedding_dimension", None) or getattr(m, "word_embedding_dimension", None)
            for m in module]  # fmt: skip
    sizes = [size for size in full if isinstance(size, int)]
    return {
        "trained": trained,
        "compared": compared[0] if compared else "",
        "unit": bool(((lengths - 1).abs() < 1e-2).all()),
        "cut": min(cut) if cut else 0,
        "width": max([*sizes, batch.embedded[0].shape[1]]),
        "widths": sorted(map(int, widths)) if widths else [],
    }


def comparison_of(loss: Any) -> str:
    """Return how a loss compares embeddings, ``cosine`` or ``dot``; empty if that is unknown."""
    inner = getattr(loss, "loss", None)
    function = getattr(loss, "similarity_fct", getattr(inner, "similarity_fct", None))
    name = getattr(function, "__name__", type(function).__name__)
    if name in DOTS:
        return "dot"
    return "cosine" if name in COSINES or name == "CosineSimilarity" else ""


def best(observation: Observation) -> Numbers | None:
    """Return how the best checkpoint is chosen; None if none is."""
    args = observation.args
    metric, greater = args.metric_for_best_model, args.greater_is_better
    if not args.load_best_model_at_end or metric is None or greater is None:
        return None
    # The trainer computes a loss only for an eval_dataset, and other metrics only by an evaluator;
    # one of the user's own may compute any.
    has_rows = getattr(observation.trainer, "eval_dataset", None) is not None
    has_rows |= not are_of_libraries(observation)
    measure = str(metric)
    for name in (getattr(inner, "name", "") for inner in evaluators_of(observation)):
        measure = measure.replace(f"{name}_", "", 1) if name else measure
    return {
        "metric": str(metric), "greater": bool(greater), "measure": measure,
        "computed": has_rows or str(metric) not in ("loss", "eval_loss"),
    }  # fmt: skip


def prompts(observation: Observation) -> Numbers | None:
    """Return the prompts of training by their names, and the columns in their order."""
    prompts_by_name = getattr(observation.args, "prompts", None)
    if not prompts_by_name:
        return None
    columns = list(dict.fromkeys(name for table in observation.tables.values() for name in table))
    by_name: dict[str, str] = {}
    for name, prompt in prompts_by_name.items() if isinstance(prompts_by_name, Mapping) else ():
        by_name |= {str(k): str(p) for k, p in prompt.items()} if isinstance(prompt, Mapping) else {
            str(name): str(prompt)
        }  # fmt: skip
    outer = [str(name) for name in prompts_by_name] if isinstance(prompts_by_name, Mapping) else []
    sets = [name for name in observation.tables if name]
    whole = prompts_by_name if isinstance(prompts_by_name, str) else ""
    twice = [
        name for table in observation.tables.values() for name, cells in table.items()
        if (prompt := by_name.get(name, whole))
        and sum(text.startswith(prompt.strip()) for text in cells) > len(cells) / 2
    ]  # fmt: skip
    return {"prompts": by_name, "outer": outer, "columns": columns, "sets": sets, "twice": twice}


def _prompts_of(evaluator: Any, model: Any) -> list[str]:
    """Return the prompts that an evaluator has, or that it takes from the model."""
    settings = {name: setting for name, setting in vars(evaluator).items() if "prompt" in name}
    held = getattr(model, "prompts", None) or {}
    named = [
        held.get(str(setting), "") if name.endswith("prompt_name") else setting
        for name, setting in settings.items()
    ]
    prompts = [prompt for setting in named for prompt in _prompts(setting)]
    if any(setting is not None for setting in settings.values()):
        return prompts
    if evaluated_texts(evaluator, "queries") and hasattr(evaluator, "corpus"):
        documents = [name for name in ("document", "passage", "corpus") if name in held][:1]
        return prompts + [held[name] for name in ["query", *documents] if held.get(name)]
    return prompts + _prompts(held.get(getattr(model, "default_prompt_name", None)))


def _missing_prompt(evaluated: list[str], observation: Observation) -> str:
    """Return a prompt of an evaluator that the texts of training do not have; else empty."""
    texts = [text for table in observation.tables.values() for column in table.values()
             for text in column[:COMPARED]]  # fmt: skip
    return next(
        (prompt for prompt in evaluated
         if prompt.strip() and not any(text.startswith(prompt) for text in texts)), "",
    )  # fmt: skip


def _in_training(evaluators: Sequence[Any], rows: Sequence[tuple[str, ...]]) -> list[bool]:
    """Return for each evaluated text whether it stands in rows of training, of `signed` texts.

    Texts that are compared in pairs do if both stand in one row: where texts are few, they come
    again with other partners.
    """
    trained = {text for row in rows for text in row}
    together = {frozenset(pair) for row in rows for pair in itertools.combinations(row, 2)}
    in_training = []
    for inner in evaluators:
        pairs = [evaluated_texts(inner, name) for name in PAIRED]
        if together and pairs[0] and len(pairs[0]) == len(pairs[1]):
            in_training += [
                frozenset(map(signed, pair)) in together for pair in zip(*pairs, strict=True)
            ]
        else:
            texts = [text for name in EVALUATED for text in evaluated_texts(inner, name)]
            in_training += [signed(text) in trained for text in texts]
    return in_training


def _row(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts of a row in any order, as `signed` texts."""
    return tuple(sorted(map(signed, texts)))


def _held_out(observation: Observation) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the texts of the data sets whose loss is evaluated."""
    held: Any = getattr(observation.trainer, "eval_dataset", None)
    for rows in held.values() if isinstance(held, Mapping) else [held]:
        if hasattr(rows, "column_names") and hasattr(rows, "__len__"):
            columns = [
                list(cells) for name, cells in rows[: observation.most_rows].items()
                if name != NAME_OF_SET and cells and all(isinstance(cell, str) for cell in cells)
            ]  # fmt: skip
            yield from zip(*columns, strict=True)


def _prompts(setting: Any) -> list[str]:
    """Return the texts of prompts by column, by data set, or for everything."""
    if isinstance(setting, Mapping):
        return [prompt for inner in setting.values() for prompt in _prompts(inner)]
    return [setting] if isinstance(setting, str) else []


def _written(observation: Observation) -> list[str]:
    """Return prompts, such as ``query:``, with which all texts of a column of training begin.

    A beginning with other signs than words, such as that of all functions of a language, is none.
    """
    columns = [column for table in observation.tables.values() for column in table.values()]
    return [
        prompt for column in columns if len(column) >= ROWS_OF_PROMPT
        if (prompt := prompt_of(column)).endswith(":") and PROMPT.fullmatch(prompt)
    ]  # fmt: skip


def _triplets(evaluator: Any) -> list[tuple[str, ...]]:
    """Return an evaluator's anchors or queries, each with a positive and a negative."""
    samples = getattr(evaluator, "samples", None)
    if isinstance(samples, list) and samples and isinstance(samples[0], Mapping):
        rows = [(sample.get("query"), *(
            (sample.get(name) or [None])[0] if isinstance(sample.get(name), list) else None
            for name in ("positive", "negative")
        )) for sample in samples]  # fmt: skip
        return [row for row in rows if all(isinstance(text, str) for text in row)]
    columns = [evaluated_texts(evaluator, name) for name in ("anchors", "positives", "negatives")]
    return list(zip(*columns, strict=False)) if len({*map(len, columns)}) == 1 else []


def _translated(sources: Sequence[str], translations: Sequence[str]) -> Numbers:
    """Return how often words prefer a text's translation to others, and how much they vary.

    ``shared`` is the share of the sources' words that translations hold: few, where words tell
    nothing. All are 0 or at chance for sources that are known by their embeddings only.
    """
    if len(sources) != len(translations) or len(set(translations)) < 2:
        return {"rank": 0.5, "nearest": 0.0, "shared": 0.0}
    overlap, rows = word_overlap([sources, translations]), range(len(sources))
    ranks, nearest = list[float](), list[float]()
    for row in rows:
        own = overlap(0, row, 1, row)
        far = [overlap(0, row, 1, at) for at in rows if translations[at] != translations[row]]
        ranks.append(sum((size < own) + (size == own) / 2 for size in far) / len(far))
        nearest.append(max(far) - sum(far) / len(far))
    vocabulary = {word for text in translations for word in words_of(text)}
    words = [word for text in sources for word in words_of(text)]
    return {
        "rank": sum(ranks) / len(ranks), "nearest": sum(nearest) / len(nearest),
        "shared": sum(word in vocabulary for word in words) / max(1, len(words)),
    }  # fmt: skip


def _told_in_training(observation: Observation) -> float:
    """Return how often words prefer the second text of a row of training to others; 0 without."""
    tables = [[column[:COMPARED] for column in table.values()][:2]
              for table in observation.tables.values()]  # fmt: skip
    ranks = [list(word_ranks(columns)) for columns in tables if len(columns) == 2]
    return max((sum(of_table) / len(of_table) for of_table in ranks if of_table), default=0.0)


def _preferred(triplets: Sequence[tuple[str, ...]]) -> Numbers:
    """Return shares of triplets whose negative has more words of the anchor, or is the positive."""
    few = triplets[:COMPARED]
    overlap = word_overlap(list(zip(*few, strict=True)))
    margins = [overlap(0, row, 1, row) - overlap(0, row, 2, row) for row in range(len(few))]
    same = [signed(positive) == signed(negative) for _, positive, negative in few]
    exchanged = [
        (m < 0) + (m == 0) / 2 for m, equal in zip(margins, same, strict=True) if not equal
    ]
    return {
        "exchanged": sum(exchanged) / max(1, len(exchanged)), "same": sum(same) / max(1, len(few)),
    }  # fmt: skip


def _right_share(relevant: Mapping[Any, Any], corpus: Iterable[Any]) -> float:
    """Return the mean share of the corpus that is right for a query."""
    counts = [len(documents) for documents in relevant.values()]
    return sum(counts) / max(1, len(counts)) / max(1, len(list(corpus)))


def _missing_keys(relevant: Mapping[Any, Any], corpus: Iterable[Any]) -> Numbers:
    """Return the share of right documents whose key the corpus lacks, and types of keys.

    The types are those of a right document and of the corpus where their keys are equal as texts.
    """
    keys, texts = set(corpus), {str(key): key for key in corpus}
    due = [document for documents in relevant.values() for document in documents]
    lost = [document for document in due if document not in keys]
    mistyped = next((key for key in lost if str(key) in texts), None)
    types = (
        [] if mistyped is None else [type(key).__name__ for key in (mistyped, texts[str(mistyped)])]
    )
    return {"missing": len(lost) / max(1, len(due)), "types": types}


def _relevance(evaluator: Any, relevant: Mapping[Any, Any]) -> Numbers:
    """Return how often words prefer a query's right document to others, and how much they vary."""
    queries = dict(zip(
        getattr(evaluator, "queries_ids", []), getattr(evaluator, "queries", []), strict=False
    ))  # fmt: skip
    corpus = dict(zip(
        getattr(evaluator, "corpus_ids", []), getattr(evaluator, "corpus", []), strict=False
    ))  # fmt: skip
    pairs = [
        (query, corpus[next(iter(relevant[key]))]) for key, query in queries.items()
        if relevant.get(key) and next(iter(relevant[key])) in corpus
    ][:COMPARED]  # fmt: skip
    documents = list(corpus.values())[:COMPARED]
    if not pairs or len(documents) < 2:
        return {"rank": 0.5, "nearest": 0.0, "itself": 0.0, "beside": 0.0, "copied": 0.0}
    overlap = word_overlap([[query for query, _ in pairs], [text for _, text in pairs], documents])
    ranks, nearest = list[float](), list[float]()
    for row, (_, right) in enumerate(pairs):
        own = overlap(0, row, 1, row)
        far = [overlap(0, row, 2, at) for at, text in enumerate(documents) if text != right]
        ranks.append(sum((size < own) + (size == own) / 2 for size in far) / max(1, len(far)))
        nearest.append(max(far, default=0.0) - sum(far) / max(1, len(far)))
    itself = [plain(query) == plain(text) for query, text in pairs]
    texts = Counter(map(plain, corpus.values()))
    beside = [
        plain(query) in texts and not same for (query, _), same in zip(pairs, itself, strict=True)
    ]
    due = Counter(
        plain(corpus[key]) for key in {key for keys in relevant.values() for key in keys}
        if key in corpus
    )  # fmt: skip
    copied = sum(texts[plain(text)] > due[plain(text)] for _, text in pairs)
    return {
        "rank": sum(ranks) / len(ranks), "nearest": sum(nearest) / len(nearest),
        "itself": sum(itself) / len(pairs), "beside": sum(beside) / len(pairs),
        "copied": copied / len(pairs),
    }  # fmt: skip


OF_TRAINER = (evaluator, held_rows, gold, use, best, prompts)
