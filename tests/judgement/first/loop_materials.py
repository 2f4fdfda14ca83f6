"""What several cases of this half use: tables, losses, decoders, and loops of one's own."""

from __future__ import annotations

import contextlib
import io
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional

import gradlab
from tests.judgement.stage import INTERVAL, Stage, facts, pairs, passage, question
from tests.judgement.truth import among_alike
from tests.sentence_training import features_of, losses
from tests.tiny_models import make_bert

FAST = {"learning_rate": 1e-3}
# Advice that helps none of the faults beside which it stands.
MORE_OF_THE_SAME = r"train (for )?(longer|more)|more (steps|epochs)|longer training"
STILL = (
    r"(weights?|parameters?|model|encoder|embeddings?|nothing).{0,80}"
    r"(not (move|change|learn|train)|never (move|change)|unchanged|barely|hardly|the same|do not)"
)
RATE = r"learning rate|\brates?\b|\blr\b"


def ranking(model: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model)


def cosent(model: Any) -> Any:
    return losses.CoSENTLoss(model)


def cosine_scores(model: Any) -> Any:
    return losses.CosineSimilarityLoss(model)


def columns_in_order(table: Mapping[str, Sequence[Any]], *names: str) -> dict[str, list[Any]]:
    """The columns of a table by these names, in this order."""
    return {name: list(table[name]) for name in names}


def shuffled(table: Mapping[str, Sequence[Any]], seed: int = 0) -> dict[str, list[Any]]:
    """The rows of a table in another order."""
    count = len(next(iter(table.values())))
    order = random.Random(seed).sample(range(count), count)
    return {name: [cells[row] for row in order] for name, cells in table.items()}


def uneven(count: int = 160, seed: int = 0) -> dict[str, list[str]]:
    """Questions and passages of very different lengths."""
    table = facts(count, seed)
    return {
        "anchor": [*map(question, table)],
        "positive": [passage(fact, 2 + (3 * row) % 19) for row, fact in enumerate(table)],
    }


@contextlib.contextmanager
def quiet() -> Any:
    """Print nothing and warn of nothing."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()):
            yield


def trained(trainer: Any, score: Callable[[Any], float]) -> tuple[float, float]:
    """Train without a watch; return the score before and after."""
    before = score(trainer.model)
    with quiet():
        trainer.train()
    return before, score(trainer.model)


def pretrained(stage: Stage, table: Mapping[str, Sequence[Any]], **settings: Any) -> Path:
    """Train an encoder by pairs; return the folder of its transformer and tokenizer."""
    trainer = stage.trainer(ranking, table, **{**FAST, "max_steps": 60, **settings})
    trained(trainer, lambda _: 0.0)
    folder = stage.folder / "pretrained"
    trainer.model[0].auto_model.save_pretrained(folder)
    trainer.model.tokenizer.save_pretrained(folder)
    return folder


class Batches:
    """Draws batches of tokenised columns, as a loader that shuffles does."""

    def __init__(
        self, model: Any, table: Mapping[str, Sequence[str]] | None = None, size: int = 16
    ) -> None:
        self.table = pairs() if table is None else table
        self._model, self._size, self._draw = model, size, random.Random(0)

    def rows(self) -> list[int]:
        count = len(next(iter(self.table.values())))
        return self._draw.sample(range(count), self._size)

    def __call__(self, rows: Sequence[int] | None = None) -> list[Any]:
        rows = self.rows() if rows is None else rows
        texts = {name: [cells[row] for row in rows] for name, cells in self.table.items()}
        return features_of(self._model, texts)


def embed(model: Any, features: Any) -> torch.Tensor:
    return model(dict(features))["sentence_embedding"]


def infonce(
    anchors: torch.Tensor, positives: torch.Tensor, temperature: float = 0.05
) -> torch.Tensor:
    """Cross-entropy of each anchor's positive among all positives of the batch."""
    cosines = functional.normalize(anchors, dim=1) @ functional.normalize(positives, dim=1).T
    return functional.cross_entropy(cosines / temperature, torch.arange(len(anchors)))


class Proxies(torch.nn.Module):
    """A loss of pytorch-metric-learning with a learned centre for each of 80 classes."""

    def __init__(self, model: Any) -> None:
        from pytorch_metric_learning.losses import ProxyAnchorLoss

        super().__init__()
        self.model = model
        torch.manual_seed(2)
        self.proxies = ProxyAnchorLoss(80, 32)

    def forward(self, sentence_features: Any, labels: torch.Tensor) -> torch.Tensor:
        return self.proxies(embed(self.model, next(iter(sentence_features))), labels)


Update = Callable[[Any, int], None]


def plain_update(model: Any, draw: Callable[[], Any], optimizer: Any) -> Update:
    """The step of an ordinary loop: embed, compute the loss, and update."""

    def update(criterion: Any, step: int) -> None:
        loss = criterion(*(embed(model, column) for column in draw()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return update


def looped(
    stage: Stage,
    model: Any,
    loss: Callable[..., torch.Tensor],
    update: Update,
    *,
    steps: int = 60,
    score: Callable[[Any], float] = among_alike,
) -> tuple[float, float]:
    """Run a loop of one's own with a watched loss; return the score before and after."""
    before = score(model)
    criterion = gradlab.watch(loss, output=stage.folder / "loop", total_steps=steps, every=INTERVAL)
    model.train()
    with quiet():
        for step in range(steps):
            update(criterion, step)
        criterion.finish()
    stage.run(stage.folder / "loop")
    return before, score(model)


def looped_unwatched(
    model: Any,
    loss: Callable[..., torch.Tensor],
    update: Update,
    *,
    steps: int = 60,
    score: Callable[[Any], float] = among_alike,
) -> tuple[float, float]:
    """Run a loop without a watch; return the score before and after."""
    before = score(model)
    model.train()
    for step in range(steps):
        update(loss, step)
    return before, score(model)


def ordinary_loop(
    stage: Stage, table: Mapping[str, Sequence[str]] | None = None, rate: float = 1e-3,
    score: Callable[[Any], float] = among_alike,
) -> tuple[float, float]:  # fmt: skip
    """The scores of a loop without a fault, beside which the faulty ones are held."""
    model = stage.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    return looped_unwatched(
        model, infonce, plain_update(model, Batches(model, table), optimizer), score=score
    )


def decoder(
    stage: Stage, pooling: Any = "lasttoken", *, side: str = "right", ends: bool = True,
    length: int = 32,
) -> Any:  # fmt: skip
    """A tiny Llama as an encoder; texts begin with a start token and, with ``ends``, end."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import processors
    from transformers import AutoTokenizer, LlamaConfig, LlamaModel

    folder = stage.folder / f"llama-{side}-{ends}"
    tokenizer = AutoTokenizer.from_pretrained(make_bert(stage.folder / "words"))
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]" if ends else "[CLS] $A",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.bos_token, tokenizer.eos_token = "[CLS]", "[SEP]"
    with torch.random.fork_rng():
        torch.manual_seed(5)
        config = LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64,
            pad_token_id=tokenizer.pad_token_id, bos_token_id=2, eos_token_id=3,
        )  # fmt: skip
        LlamaModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(7)
    body = Transformer(str(folder), max_seq_length=length)
    body.tokenizer.padding_side = side
    last = Pooling(32, pooling_mode=pooling) if isinstance(pooling, str) else pooling
    return SentenceTransformer(modules=[body, last], device="cpu")
