"""What the sound set-ups share: bodies, evaluators, scores and trainers of mixtures."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tests.judgement.first.bodies import encoder, tokenizer_of, words_of
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import turn, warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns, retrieval, truth

LEAST = 0.05


def tune(
    stage: Stage, table: Mapping[str, Sequence[Any]], loss: Callable[[Any], Any], model: Any,
    score: Callable[[Any], float], **settings: Any,
) -> None:  # fmt: skip
    """Train with the trainer, and hold the score to rise clearly."""
    learns(stage, stage.trainer(loss, table, model, **settings), score, least=LEAST)


def looped(
    stage: Stage, model: Any, loss: Callable[..., Any], update: Callable[[Any, int], None],
    score: Callable[[Any], float], *, steps: int = 50,
) -> None:  # fmt: skip
    """Train with a loop of one's own, and hold the score to rise clearly."""
    turn(stage, model, loss, update, score, steps=steps)
    assert truth(stage)["after"] >= truth(stage)["before"] + LEAST, truth(stage)


def two(table: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Return the first two columns."""
    return dict(list(table.items())[:2])


def near_triplets(field: Field, count: int, *slots: int, seed: int = 0) -> dict[str, list[str]]:
    """Pairs with a hard negative for each slot: a text that differs in this slot."""
    negatives = {f"negative_{slot}": field.near(count, seed, slot=slot) for slot in slots}
    return two(field.table(count, seed)) | negatives


def matched(field: Field, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs with a label: 1 where they tell of the same, 0 where one slot or all differ."""
    table, draw = field.table(count, seed), random.Random(seed)
    (first_name, first), (second_name, second) = two(table).items()
    near = field.near(count, seed, slot=1)
    second, labels = list(second), [draw.randint(0, 1) for _ in second]
    for at, label in enumerate(labels):
        if not label:
            second[at] = table[second_name][at - count // 2] if at % 4 else near[at]
    return {first_name: first, second_name: second, "label": labels}


def of_classes(field: Field, count: int, seed: int = 0, *, slot: int = 0) -> dict[str, list[Any]]:
    """Texts of both columns with the number of the entry in a slot as their class."""
    rows, entries = field.draws(count, seed), list(field.slots.values())[slot].split()
    texts = [field.texts([row], at % 2)[0] for at, row in enumerate(rows)]
    return {"text": texts, "label": [entries.index(row[slot]) for row in rows]}


def neighbours(model: Any, table: Mapping[str, Sequence[Any]]) -> float:
    """Return the share of texts whose nearest neighbour by cosine is of the same class."""
    texts, labels = table["text"], np.array(table["label"])
    rows = model.encode(list(texts), show_progress_bar=False)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, -2)
    return float((labels[cosines.argmax(1)] == labels).mean())


def graded_score(field: Field, **options: Any) -> Callable[[Any], float]:
    """A score: the rank correlation with the grades of pairs that are not in training."""
    table = field.graded(50, seed=11, **options)
    return lambda model: correlation(model, table)


def weighed_score(field: Field, weights: Sequence[float], **options: Any) -> Callable[[Any], float]:
    """A score: the rank correlation with the grades of `weighed` pairs that are not in training."""
    table = weighed(field, 50, weights, seed=11, **options)
    return lambda model: correlation(model, table)


def search(table: Mapping[str, Sequence[str]], name: str = "dev", **options: Any) -> Any:
    """An evaluator of retrieval among the second column's texts."""
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    queries, documents = two(table).values()
    return InformationRetrievalEvaluator(
        {f"q{at}": text for at, text in enumerate(queries)},
        {f"d{at}": text for at, text in enumerate(documents)},
        {f"q{at}": {f"d{at}"} for at in range(len(queries))},
        name=name, mrr_at_k=[10], ndcg_at_k=[10], accuracy_at_k=[1, 5],
        precision_recall_at_k=[5], map_at_k=[10], write_csv=False, **options,
    )  # fmt: skip


def network(
    stage: Stage, texts: Iterable[str], kind: str, *, width: int = 48, layers: int = 2,
    length: int | None = None, spread: float = 0.05, **options: Any,
) -> Any:  # fmt: skip
    """A transformer module of a kind of `transformers`, of random weights."""
    import transformers
    from sentence_transformers.sentence_transformer.modules import Transformer

    causal = kind in ("Qwen3", "Mistral", "Llama")
    tokenizer = tokenizer_of(
        texts, ends="eos" if causal else "bert", side="left" if causal else "right"
    )
    folder = stage.folder / kind
    tokenizer.save_pretrained(folder)
    sizes = {
        "vocab_size": len(tokenizer), "hidden_size": width, "num_hidden_layers": layers,
        "num_attention_heads": 4, "intermediate_size": 2 * width, "pad_token_id": 0,
        "max_position_embeddings": 128, "initializer_range": spread, "bos_token_id": 2,
        "eos_token_id": 3, **options,
    }  # fmt: skip
    torch.manual_seed(5)
    config = getattr(transformers, f"{kind}Config")(**sizes)
    getattr(transformers, f"{kind}Model")(config).save_pretrained(folder)
    return Transformer(str(folder), **({"max_seq_length": length} if length else {}))


def assembled(*modules: Any, **options: Any) -> Any:
    """An encoder of modules."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(modules=list(modules), device="cpu", **options)


def pooled(body: Any, pooling: Any = "mean", width: int = 48, *behind: Any) -> Any:
    """An encoder of a body and a pooling."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    return assembled(body, Pooling(width, pooling_mode=pooling), *behind)


def mixture(
    stage: Stage, tables: Mapping[str, Mapping[str, Sequence[Any]]], losses: Mapping[str, Any],
    model: Any, **settings: Any,
) -> Any:  # fmt: skip
    """A trainer of several data sets, each with its loss."""
    from datasets import Dataset, DatasetDict
    from sentence_transformers import SentenceTransformerTrainer

    sets = DatasetDict({name: Dataset.from_dict(dict(table)) for name, table in tables.items()})

    def trainer(**options: Any) -> Any:
        options |= {"train_dataset": sets, "loss": dict(losses)}
        return SentenceTransformerTrainer(**options)

    first = next(iter(losses.values()))
    return stage.trainer(
        lambda _: first, tables[next(iter(tables))], model, kind=trainer, **settings
    )


def sought(table: Mapping[str, Sequence[Any]], **options: Any) -> Callable[[Any], float]:
    """A score: the reciprocal rank of the second column's texts, sought by the first's."""
    return lambda model: retrieval(model, two(table), **options)


def answered(table: Mapping[str, Sequence[Any]]) -> Callable[[Any], float]:
    """A score: the reciprocal rank of a row's second text among the different second texts."""
    first, second = two(table).values()
    documents = sorted(set(second))

    def score(model: Any) -> float:
        queries, rows = (model.encode(list(texts), show_progress_bar=False)
                         for texts in (first, documents))  # fmt: skip
        queries, rows = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (queries, rows))
        cosines = queries @ rows.T
        own = cosines[np.arange(len(first)), [documents.index(text) for text in second]]
        return float((1 / np.maximum((cosines >= own[:, None]).sum(1), 1)).mean())

    return score


def started(
    stage: Stage, table: Mapping[str, Sequence[Any]], field: Field, steps: int = 6, **options: Any
) -> Any:
    """An encoder for texts that was trained a little on pairs of their field, as a public one."""
    general = two(field.table(200, seed=2))
    options = {"width": 48, "spread": 0.05, **options}
    return warmed(encoder(stage, words_of([table, general]), **options), general, steps)


def told_apart(field: Field, count: int = 50) -> Callable[[Any], float]:
    """A score: how often a pair that matches has a higher cosine than one that differs."""
    first, second, labels = matched(field, count, seed=11).values()
    same = np.array(labels) == 1

    def score(model: Any) -> float:
        rows = [model.encode(texts, show_progress_bar=False) for texts in (first, second)]
        a, b = (row / np.linalg.norm(row, axis=1, keepdims=True) for row in rows)
        near = (a * b).sum(1)
        return float((near[same][:, None] > near[~same]).mean())

    return score


def weighed(
    field: Field, count: int, weights: Sequence[float], seed: int = 0, column: int = 0
) -> dict[str, list[Any]]:
    """Pairs of texts of one wording, graded by raters to whom some slots count more than others."""
    draw, first = random.Random(seed + 3000), field.draws(count, seed)
    lists = [entries.split() for entries in field.slots.values()]
    second, grades = [], []
    for row in first:
        agree = [draw.random() < 0.5 for _ in row]
        second.append(tuple(
            entry if same else draw.choice([e for e in entries if e != entry])
            for entry, same, entries in zip(row, agree, lists, strict=True)
        ))  # fmt: skip
        grades.append(round(float(np.dot(agree, weights)) / sum(weights), 3))
    return {
        "sentence1": field.texts(first, column),
        "sentence2": field.texts(second, column),
        "score": grades,
    }
