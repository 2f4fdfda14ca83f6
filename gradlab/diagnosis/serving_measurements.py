"""Measures whether what is trained is what is saved, evaluated and used, for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.serving_verdicts`, or None where there is nothing to measure.
"""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gradlab.data.words import plain, words_of
from gradlab.diagnosis.evaluation_measurements import comparison_of
from gradlab.diagnosis.evaluators import EVALUATED, EVERY_TEXT, evaluated_texts, evaluators_of
from gradlab.diagnosis.observation import Observation, ObservedBatch
from gradlab.diagnosis.word_tables import frozen_table
from gradlab.encoder.adapters import FILE as ADAPTER
from gradlab.seeds import random_state_kept

# Weights of a model that is saved and loaded for a trial; texts that are embedded by both.
MOST_WEIGHTS, SAVED_TEXTS = 500_000_000, 8
READ_TEXTS = 2000  # texts whose words are counted
# Rows of a table of tokens whose distance from the mean row is the usual one, and the share of it
# within which a row is the mean, from which transformers draws the rows of added tokens.
SAMPLED_ROWS, MEAN_ROW = 1000, 0.01
MODULES = "modules.json"  # file that lists the modules of a saved model of sentence-transformers
# Letters that a stemmer takes from the end of a word at most, and leaves at least.
MOST_ENDING, LEAST_BEGINNING = 4, 2
Numbers = dict[str, Any]


def held(observation: Observation) -> Numbers | None:
    """Return whether a loss holds another encoder than the trainer's, or the same one as guide."""
    trainer = observation.trainer
    losses = getattr(trainer, "loss", None)
    of_data = list(losses.values()) if isinstance(losses, dict) else [losses]
    modules = [inner for loss in of_data if isinstance(loss, nn.Module) for inner in _losses(loss)]
    if not modules:
        return None
    own = {id(model) for model in (trainer.model, trainer.model_wrapped)}
    weights = {id(weight) for weight in trainer.model.parameters()}
    encoders = [(loss, vars(loss)["_modules"].get("model")) for loss in modules]
    # A loss that holds the trained encoder under another name calls its teacher its model.
    foreign = [
        type(loss).__name__ for loss, encoder in encoders
        if hasattr(encoder, "encode")
        and weights.isdisjoint(id(weight) for weight in loss.parameters())
    ]  # fmt: skip
    teachers = [
        name for loss in modules for name in ("guide", "teacher")
        if id(getattr(loss, name, None)) in own
    ]  # fmt: skip
    return {"foreign": foreign[0] if foreign else "", "own_teacher": (teachers or [""])[0]}


def saved(observation: Observation) -> Numbers | None:
    """Return the lowest cosine of embeddings before and after a model is saved and loaded.

    ``adapter`` says whether an adapter is saved without the weights below it. None for other models
    than those of sentence-transformers, for large ones, and where modules of one's own cannot be
    loaded.
    """
    model = observation.trainer.model
    size = sum(weight.numel() for weight in getattr(model, "parameters", list)())
    cells = [cell for table in observation.tables.values() for column in table.values()
             for cell in column[:SAVED_TEXTS]]  # fmt: skip
    texts = sorted({text for text in cells if text.strip()}, key=len)[-SAVED_TEXTS:]
    if not hasattr(model, "encode") or not 0 < size <= MOST_WEIGHTS or not texts:
        return None
    options = {"convert_to_tensor": True, "show_progress_bar": False}
    with (
        contextlib.suppress(Exception),
        random_state_kept(),
        tempfile.TemporaryDirectory() as folder,
    ):
        modes = [(module, module.training) for module in model.modules()]
        try:
            model.save_pretrained(folder, create_model_card=False)
            adapter = any(Path(folder).rglob(ADAPTER))
            loaded = type(model)(folder, device="cpu", local_files_only=True)
            first, second = (
                encoder.encode(texts, **options).double().cpu() for encoder in (model, loaded)
            )
        finally:
            for module, mode in modes:
                module.training = mode
        cosines = nn.functional.cosine_similarity(first, second)
        lengths = second.norm(dim=1) / first.norm(dim=1)
        names = sorted(getattr(model, "prompts", None) or {})
        return {
            "cosine": float(cosines.min()),
            "length": float(lengths.mean()),
            "half": any(w.dtype != torch.float32 for w in model.parameters()),
            "prompts_kept": names == sorted(getattr(loaded, "prompts", None) or {}),
            "adapter": adapter,
        }
    return None


def fresh(observation: Observation) -> Numbers | None:
    """Return the share of normalisation layers as they are made, and how far the plan can go.

    ``table`` are the numbers of a frozen table of word vectors; see
    `gradlab.diagnosis.word_tables`.
    """
    model = observation.trainer.model
    norms = [
        module for module in getattr(model, "modules", list)()
        if isinstance(module, nn.LayerNorm) and module.weight is not None
    ]  # fmt: skip
    plan = observation.trials.get("schedule")
    table = frozen_table(model)
    if not (norms and plan):
        none = {"share": 0.0, "layers": 0, "weights": 0, "rates": 0.0}
        return {**none, "table": table} if table else None
    begun = [
        bool((norm.weight == 1).all()) and (norm.bias is None or not bool(norm.bias.any()))
        for norm in norms
    ]
    return {
        "share": sum(begun) / len(begun),
        "layers": len(norms),
        "weights": sum(weight.numel() for weight in model.parameters()),
        "rates": float(observation.args.learning_rate) * plan["steps"] * plan.get("mean", 1.0),
        **({"table": table} if table else {}),
    }


def new_tokens(observation: Observation) -> Numbers | None:
    """Return the tokens whose row of a frozen table is still the mean row, as an added one begins.

    None where the rows of tokens are trained, or are unknown.
    """
    model = observation.trainer.model
    tables = [module.get_input_embeddings() for module in getattr(model, "modules", list)()
              if hasattr(module, "get_input_embeddings")]  # fmt: skip
    rows: Any = getattr(tables[0], "weight", None) if tables else None
    columns = [
        (column["input_ids"], column["attention_mask"])
        for batch in observation.batches for column in batch.columns
        if {"input_ids", "attention_mask"} <= set(column) and column["input_ids"].ndim == 2
    ]  # fmt: skip
    texts = [
        ids[mask.bool()].unique() for column in columns for ids, mask in zip(*column, strict=True)
    ]
    if not isinstance(rows, torch.Tensor) or rows.ndim != 2 or not texts:
        return None
    if any(weight.requires_grad for weight in tables[0].parameters()):
        return None
    mean = rows.detach().mean(0, dtype=torch.float32)
    distance = (rows[:: max(1, len(rows) // SAMPLED_ROWS)].float() - mean).norm(dim=1).median()
    tokens = torch.cat(texts).unique()
    near = tokens[(rows[tokens].float() - mean).norm(dim=1) < MEAN_ROW * distance]
    tokenizer: Any = getattr(model, "tokenizer", None)
    names_of = getattr(tokenizer, "convert_ids_to_tokens", lambda ids: [str(i) for i in ids])
    return {
        "tokens": len(near), "example": next(iter(names_of(near[:1].tolist())), ""),
        "share": sum(bool(torch.isin(ids, near).any()) for ids in texts) / len(texts),
    }  # fmt: skip


def vocabulary_size(observation: Observation) -> Numbers | None:
    """Return the tokens of a tokenizer, and the rows of the encoder's table for them."""
    model = observation.trainer.model
    tables = [module.get_input_embeddings() for module in getattr(model, "modules", list)()
              if hasattr(module, "get_input_embeddings")]  # fmt: skip
    rows: Any = getattr(tables[0], "weight", None) if tables else None
    tokenizer: Any = getattr(model, "tokenizer", None)
    if not isinstance(rows, torch.Tensor) or rows.ndim != 2 or not hasattr(tokenizer, "__len__"):
        return None
    return {"tokens": len(tokenizer), "rows": len(rows)}


def pipeline(observation: Observation) -> Numbers | None:
    """Return the modules with which an encoder was saved, and those with which it is used.

    None where the encoder comes from elsewhere than a folder of a saved model.
    """
    model = observation.trainer.model
    bodies = [module for module in getattr(model, "modules", list)() if hasattr(module, "config")]
    path = str(getattr(bodies[0].config, "_name_or_path", "")) if bodies else ""
    roots = [root for root in (Path(path), Path(path).parent) if path and (root / MODULES).exists()]
    if not roots:
        return None
    listed = json.loads((roots[0] / MODULES).read_text(encoding="utf-8"))
    kinds = [str(entry["type"]).rpartition(".")[2] for entry in listed]
    pooling = ""
    for entry in listed:
        file = roots[0] / str(entry["path"]) / "config.json"
        if str(entry["type"]).endswith("Pooling") and file.exists():
            settings = json.loads(file.read_text(encoding="utf-8"))
            pooling = _mode_of(settings)
    return {
        "stored": kinds, "used": [type(module).__name__ for module in model],
        "stored_pooling": pooling, "used_pooling": _pooling_of(model),
        "compared": comparison_of(observation.batches[0].loss),
    }  # fmt: skip


def names(observation: Observation) -> Numbers | None:
    """Return the names that several evaluators of one kind share."""
    counts = Counter(
        (type(inner).__name__, str(getattr(inner, "name", "") or ""), str(
            getattr(inner, "truncate_dim", None)
        )) for inner in evaluators_of(observation)
    )  # fmt: skip
    repeated = [(kind, name, times) for (kind, name, _), times in counts.items() if times > 1]
    if not counts:
        return None
    kind, name, times = repeated[0] if repeated else ("", "", 0)
    return {"kind": kind, "name": name, "times": times}


def plateau(observation: Observation) -> Numbers | None:
    """Return the mode of a schedule that waits for a plateau, and the metric that it follows."""
    args = observation.args
    kind = str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type))
    existing: Any = getattr(observation.trainer, "lr_scheduler", None)
    metric = str(args.metric_for_best_model or "loss")
    if type(existing).__name__ == "ReduceLROnPlateau":
        return {"mode": str(existing.mode), "metric": metric}
    if kind != "reduce_lr_on_plateau":
        return None
    return {"mode": str((args.lr_scheduler_kwargs or {}).get("mode", "min")), "metric": metric}


def proportions(observation: Observation) -> Numbers | None:
    """Return the share of batches that the smallest of several data sets gets."""
    sets = {name: len(draws["batches"]) for name, draws in observation.draws.items() if name}
    sizes = {
        name: len(next(iter(table.values()))) for name, table in observation.tables.items()
        if name and table
    }  # fmt: skip
    sampler = getattr(observation.args, "multi_dataset_batch_sampler", "")
    if len(sets) < 2 or sizes.keys() != sets.keys():
        return None
    in_turns = "round_robin" in str(getattr(sampler, "value", sampler)).lower()
    least = min(sizes, key=lambda name: sizes[name])
    return {
        "sets": len(sizes), "name": least, "rows": sizes[least], "in_turns": in_turns,
        "share": 1 / len(sizes) if in_turns else sizes[least] / sum(sizes.values()),
        "common": _common_with_others(observation.tables, least),
    }  # fmt: skip


def field(observation: Observation) -> Numbers | None:
    """Return how far the words of evaluated texts are those of training.

    ``common`` is the mass that the frequencies of words of evaluated texts have in common with the
    column of training that is nearest, and ``halves`` that of two halves of this column.
    ``words`` are different words of the evaluated texts.
    """
    texts = [
        text for inner in evaluators_of(observation) for name in EVALUATED
        for text in evaluated_texts(inner, name)
    ][:READ_TEXTS]  # fmt: skip
    columns = [column[:READ_TEXTS] for table in observation.tables.values()
               for column in table.values() if len(column) > 1]  # fmt: skip
    if not texts or not columns:
        return None
    evaluated = _frequencies(texts)
    common = [_common(evaluated, _frequencies(column)) for column in columns]
    nearest = columns[max(range(len(columns)), key=common.__getitem__)]
    halves = _common(_frequencies(nearest[::2]), _frequencies(nearest[1::2]))
    return {
        "texts": len(texts), "rows": len(nearest), "common": max(common), "halves": halves,
        "words": len(evaluated),
    }  # fmt: skip


def lengths(observation: Observation) -> Numbers | None:
    """Return the median number of words of the longest evaluated texts, and the most of training.

    Of several evaluators, the one with the shortest of these counts. The most are those that one in
    twenty texts of the longest column exceeds. No more words are counted than the model reads
    tokens.
    """
    limit = getattr(observation.trainer.model, "max_seq_length", None) or math.inf
    evaluated = []
    for inner in evaluators_of(observation):
        of_evaluator = [_counts_of_words(texts) for name in EVERY_TEXT
                        if (texts := evaluated_texts(inner, name))]  # fmt: skip
        evaluated += [max(of_evaluator, key=_middle)] if of_evaluator else []
    trained = [
        _counts_of_words(column) for table in observation.tables.values()
        for column in table.values()
    ]  # fmt: skip
    if not evaluated or not trained:
        return None
    longest = min(evaluated, key=_middle)
    most = max(counts[int(len(counts) * 0.95)] for counts in trained)
    return {
        "texts": len(longest), "rows": max(map(len, trained)), "trained": most,
        "evaluated": int(min(_middle(longest), limit)),
    }  # fmt: skip


def endings(observation: Observation) -> Numbers | None:
    """Return shares of words whose beginning alone stands in the texts of the other side.

    Sides are training and evaluation; such words are those that were stemmed on one side only.
    """
    evaluated = [
        text for inner in evaluators_of(observation) for name in EVERY_TEXT
        for text in evaluated_texts(inner, name)[:READ_TEXTS]
    ]  # fmt: skip
    trained = [text for table in observation.tables.values() for column in table.values()
               for text in column[:READ_TEXTS]]  # fmt: skip
    if not evaluated or not trained:
        return None
    counts = [Counter(word for text in texts for word in words_of(text) if word.isalpha())
              for texts in (evaluated, trained)]  # fmt: skip
    of_evaluation, of_training = counts
    shares = [_share_cut(*counts), _share_cut(*counts[::-1])]
    (share, word, beginning), (reverse, reverse_word, reverse_beginning) = shares
    in_training = share >= reverse
    return {
        "words": min(of_evaluation.total(), of_training.total()), "share": max(share, reverse),
        "in_training": in_training,
        "word": word if in_training else reverse_word,
        "beginning": beginning if in_training else reverse_beginning,
    }  # fmt: skip


def mixed(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the share of rows of batches whose texts stand in different rows of the data set."""
    tokenizer: Any = getattr(observation.trainer.model, "tokenizer", None)
    texts = [column for column in observation.table_of(dataset).values() if column][:2]
    if len(texts) < 2 or not hasattr(tokenizer, "decode"):
        return None
    places = [_places(column) for column in texts]
    rows, apart = 0, 0
    for batch in batches:
        tokenised = batch.columns[:2]
        places_of = [getattr(column.get("input_ids"), "ndim", 0) for column in tokenised]
        if places_of != [2, 2]:
            return None
        decoded = [
            [plain(tokenizer.decode(ids, skip_special_tokens=True)) for ids in column["input_ids"]]
            for column in tokenised
        ]
        for first, second in zip(*decoded, strict=False):
            pair = places[0].get(first), places[1].get(second)
            if None not in pair and -1 not in pair:
                rows, apart = rows + 1, apart + (pair[0] != pair[1])
    return {"rows": rows, "apart": apart / rows} if rows else None


def _counts_of_words(texts: Sequence[str]) -> list[int]:
    """Return the numbers of words of texts in rising order."""
    return sorted(len(words_of(text)) for text in texts[:READ_TEXTS])


def _share_cut(words: Counter[str], stems: Counter[str]) -> tuple[float, str, str]:
    """Return the share of words of which stems hold only the beginning, and the commonest."""
    cut = {
        word: beginning for word in words if word not in stems
        for end in range(1, MOST_ENDING + 1)
        if (beginning := word[: max(len(word) - end, LEAST_BEGINNING)]) != word
        and beginning in stems
    }  # fmt: skip
    commonest = max(cut, key=words.__getitem__, default="")
    share = sum(map(words.__getitem__, cut)) / max(1, words.total())
    return share, commonest, cut.get(commonest, "")


def _common_with_others(tables: Mapping[str, Mapping[str, Sequence[str]]], name: str) -> float:
    """Return how far a data set's words are those of the others.

    It is relative to as many texts of the others themselves.
    """
    texts = [text for column in tables[name].values() for text in column[:READ_TEXTS]]
    foreign = [text for set_name, table in tables.items() if set_name != name
              for column in table.values() for text in column[:READ_TEXTS]]  # fmt: skip
    drawn = set(range(0, len(foreign), max(1, len(foreign) // max(1, len(texts)))))
    sample, remainder = (
        [text for place, text in enumerate(foreign) if (place in drawn) == is_drawn]
        for is_drawn in (True, False)
    )
    own = _common(_frequencies(sample), _frequencies(remainder))
    return _common(_frequencies(texts), _frequencies(remainder)) / own if own else 0.0


def _losses(loss: nn.Module) -> Iterator[nn.Module]:
    """Yield a loss and the losses that it changes, as MatryoshkaLoss does."""
    yield loss
    inner = getattr(loss, "loss", None)
    if isinstance(inner, nn.Module):
        yield from _losses(inner)


def _mode_of(settings: Mapping[str, Any]) -> str:
    """Return the mode of a saved pooling, of a new or an old file of settings."""
    mode = settings.get("pooling_mode")
    if mode:
        return "+".join(mode) if isinstance(mode, list) else str(mode)
    old = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max", "lasttoken": "lasttoken"}
    return "+".join(new for name, new in old.items() if settings.get(f"pooling_mode_{name}"))


def _pooling_of(model: Any) -> str:
    modes = [module.pooling_mode for module in model if hasattr(module, "pooling_mode")]
    if not modes:
        return ""
    return str(modes[0]) if isinstance(modes[0], str) else "+".join(map(str, modes[0]))


def _frequencies(texts: Sequence[str]) -> dict[str, float]:
    counts = Counter(word for text in texts for word in words_of(text))
    return {word: count / counts.total() for word, count in counts.items()}


def _common(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    return sum(min(share, second.get(word, 0.0)) for word, share in first.items())


def _places(column: Sequence[str]) -> dict[str, int]:
    """Return the row of each text; -1 for a text of several rows."""
    places: dict[str, int] = {}
    for row, text in enumerate(map(plain, column)):
        places[text] = -1 if text in places else row
    return places


OF_TRAINER = (
    *(held, saved, fresh, new_tokens, vocabulary_size),
    *(pipeline, names, plateau, proportions, field, lengths, endings),
)
OF_LOSS = (mixed,)


def _middle(counts: Sequence[int]) -> int:
    return counts[len(counts) // 2]
