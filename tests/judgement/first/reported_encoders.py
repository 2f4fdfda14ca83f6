"""Tiny encoders beside those of the stage, evaluators, and words that several cases share."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.judgement.stage import FILLERS, PLACES, TOPICS, VERBS, Stage, pairs, passage
from tests.judgement.truth import correlation, retrieval
from tests.sentence_training import evaluation, losses
from tests.tiny_models import SIZES, make_bert

ranking = losses.MultipleNegativesRankingLoss
# Settings of a trainer that asks its evaluator every tenth step.
EVALUATED = {"eval_strategy": "steps", "eval_steps": 10}
# Words by which a verdict says that training moves the weights too little, or not at all.
STILL = (
    r"weights?.{0,80}(hardly|do not|did not|have not|barely|never|not) (mov|chang)",
    r"(nothing|little|hardly anything).{0,20}(chang|mov|learn)",
    r"(rate|steps?).{0,60}too (small|low)",
)
# Words for a gradient that does not arrive.
NO_GRADIENT = (
    r"(no|zero|without( a)?|vanish\w*) gradient",
    r"gradients?.{0,60}(zero|vanish|is 0|are 0|not reach|missing|none)",
    r"detach",
)
# Words for texts of a row that do not belong together.
APART = (
    r"(pairs?|rows|views|positives?|columns?).{0,80}(mis-?match|mis-?align|not belong|shuffled|"
    r"unrelated|nothing in common|at chance|no more alike|by accident|no words?)",
    r"(mis-?match|mis-?align|unrelated|shuffled).{0,60}(pairs?|rows|views|positives?|columns?)",
)
# Advice that helps against none of the faults for which it is forbidden.
LONGER = r"train (it |the model )?(for )?(longer|more (steps|epochs))"


def searching(table: Mapping[str, Sequence[str]], name: str = "search", **options: Any) -> Any:
    """An evaluator that seeks each text of the second column by the first's."""
    first, second = table.values()
    return evaluation.InformationRetrievalEvaluator(
        {f"q{at}": text for at, text in enumerate(first)},
        {f"d{at}": text for at, text in enumerate(second)},
        {f"q{at}": {f"d{at}"} for at in range(len(first))},
        name=name,
        **options,
    )


def encoder(*modules: nn.Module) -> Any:
    """An encoder of given modules."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(modules=list(modules), device="cpu")


def decoder(
    stage: Stage, pooling: str = "lasttoken", *, side: str = "right", length: int = 64
) -> Any:
    """A tiny Llama whose tokenizer ends each text with the same token, with a pooling."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    body = causal_body(stage, length)
    body.tokenizer.padding_side = side
    return encoder(body, Pooling(32, pooling_mode=pooling))


def causal_body(stage: Stage, length: int = 64, *, closes: bool = True) -> Any:
    """The module of a tiny Llama, whose tokenizer closes each text with a token of its own."""
    from sentence_transformers.sentence_transformer.modules import Transformer
    from tokenizers.processors import TemplateProcessing

    torch.manual_seed(7)
    body = Transformer(str(_llama(stage.folder / "llama")), max_seq_length=length)
    if not closes:
        body.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="$A")
    return body


def static(stage: Stage) -> Any:
    """One vector for each token, and no layers."""
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    torch.manual_seed(7)
    tokenizer = stage.model().tokenizer.backend_tokenizer
    return encoder(StaticEmbedding(tokenizer, embedding_dim=32))


def tuned(stage: Stage, steps: int = 60) -> Any:
    """An encoder that has learned to find passages of other facts already."""
    trainer = stage.trainer(
        ranking,
        pairs(seed=21),
        max_steps=steps,
        output_dir=str(stage.folder / "tuning"),
        logging_strategy="no",
    )
    with contextlib.redirect_stdout(io.StringIO()):
        trainer.train()
    return trainer.model.eval()


def adapted(model: Any, **options: Any) -> Any:
    """Add adapters of rank 8 to the attention of an encoder, and return it."""
    from peft import LoraConfig, TaskType

    settings = {"r": 8, "lora_alpha": 16, "target_modules": ["query", "key", "value"]}
    model.add_adapter(LoraConfig(TaskType.FEATURE_EXTRACTION, **settings | options))
    return model


def many_for_one(passages: int = 24, questions: int = 7) -> dict[str, list[str]]:
    """Rows in which several questions have one passage as their answer."""
    draw = random.Random(3)
    table: dict[str, list[str]] = {"anchor": [], "positive": []}
    for fact in _alike_facts(passages, seed=5):
        verb, topic, place, near = fact[:4]
        for _ in range(questions):
            words = [verb, topic, place, near]
            draw.shuffle(words)
            table["anchor"].append(f"ka {' '.join(words)} ?")
            table["positive"].append(passage(fact))
    return table


def classmates(count: int = 60, seed: int = 11) -> dict[str, list[str]]:
    """Two passages of each class, about the same thing at the same place, among others alike."""
    facts = _alike_facts(count, seed)
    draw = random.Random(seed)
    columns = [[], []]
    for fact in facts:
        for column in columns:
            person = draw.choice(("sara", "tulo", "vira", "zolo", "ran", "sen"))
            column.append(passage((*fact[:4], person, str(draw.randint(3, 97))), fillers=6))
    return {"first": columns[0], "second": columns[1]}


def graded(count: int = 240, seed: int = 0, most: float = 1.0) -> dict[str, list[Any]]:
    """Pairs of passages; scores by how many words of the fact agree, whatever else they share."""
    draw = random.Random(seed)
    table: dict[str, list[Any]] = {"sentence1": [], "sentence2": [], "score": []}
    kinds = (VERBS, TOPICS, PLACES, PLACES)
    for number in range(count):
        fact = [draw.choice(words) for words in kinds]
        kept = set(draw.sample(range(4), number % 5))
        other = [word if at in kept else draw.choice(kinds[at]) for at, word in enumerate(fact)]
        texts = [_about(fact, draw), _about(other, draw)]
        if draw.random() < 0.5:  # the rest of the words in common
            texts[1] = " ".join(other + texts[0].split()[4:])
        for column, value in zip(table.values(), (*texts, most * len(kept) / 4), strict=True):
            column.append(value)
    return table


def in_grades(model: Any) -> float:
    """Return the rank correlation of cosines and scores of `graded`."""
    return correlation(model, graded(200, seed=11))


def among_classmates(model: Any) -> float:
    """Return the mean reciprocal rank of the other passage of the same class."""
    return retrieval(model, classmates())


def _about(fact: Sequence[str], draw: random.Random) -> str:
    return " ".join([*fact, *draw.choices(FILLERS, k=8)])


def _alike_facts(count: int, seed: int) -> list[tuple[str, ...]]:
    draw = random.Random(seed)
    few = [draw.sample(words, number) for words, number in
           ((VERBS, 6), (TOPICS, 6), (PLACES, 5), (PLACES, 5))]  # fmt: skip
    made: dict[tuple[str, ...], tuple[str, ...]] = {}
    while len(made) < count:
        fact = tuple(draw.choice(words) for words in few)
        made.setdefault(fact, (*fact, "sara", str(draw.randint(3, 97))))
    return list(made.values())


def _llama(folder: Path) -> Path:
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer, LlamaConfig, LlamaModel

    if (folder / "config.json").exists():
        return folder
    tokenizer = AutoTokenizer.from_pretrained(make_bert(folder))
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A [SEP]", special_tokens=[("[SEP]", tokenizer.sep_token_id)]
    )
    tokenizer.eos_token = "[SEP]"
    tokenizer.save_pretrained(folder)
    sizes = SIZES | {"vocab_size": len(tokenizer), "max_position_embeddings": 64}
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaModel(LlamaConfig(pad_token_id=0, **sizes)).save_pretrained(folder)
    return folder
