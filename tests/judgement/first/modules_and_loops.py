"""Faults of modules, rates and steps, and of loops of one's own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional

import gradlab
from tests.judgement.case import DOCTOR, REPORT, faulty
from tests.judgement.first.materials import CUT, LONGER, ranking
from tests.judgement.stage import INTERVAL, Stage, facts, pairs, passage, question
from tests.judgement.truth import (
    among_alike,
    falls_short,
    reciprocal_rank,
    retrieval,
    suffers,
)
from tests.sentence_training import features_of
from tests.tiny_models import make_bert

RATE = r"learning rate|\brate\b|\blr\b"
STILL = r"(weights?|nothing|embeddings?).{0,80}(not mov|hardly|barely|unchanged|changed|moved|same)"


@faulty(
    "static embeddings at a transformer's rate",
    "A table of static embeddings is trained at 2e-5, the rate of a transformer: it hardly moves.",
    [RATE, STILL],
    tools=(DOCTOR, REPORT),
    never=[LONGER],
)
def static_embeddings_at_two_e_5(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/2982: StaticEmbedding."""

    def static() -> Any:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import StaticEmbedding
        from transformers import AutoTokenizer

        torch.manual_seed(7)
        tokenizer = AutoTokenizer.from_pretrained(make_bert(stage.folder / "static"))
        table = StaticEmbedding(tokenizer, embedding_dim=32)
        return SentenceTransformer(modules=[table], device="cpu")

    suffers(
        stage,
        stage.trainer(ranking, pairs(), static(), learning_rate=2e-5),
        lambda: stage.trainer(ranking, pairs(), static(), learning_rate=5e-2),
        among_alike,
    )


def routed(model: Any) -> float:
    """The reciprocal rank where questions and passages take their own routes."""
    questions, passages = pairs(100, seed=11).values()
    return reciprocal_rank(
        model.encode_query(questions, show_progress_bar=False),
        model.encode_document(passages, show_progress_bar=False),
    )


@faulty(
    "random projection per role",
    "Questions and passages pass through a dense layer each, drawn at random: texts that are equal "
    "lie apart, and what the encoder knew is lost.",
    [
        r"dense|project|route|module|asym|two (encoders|layers)|separate",
        r"(same|equal|one) text|equal texts|random|initiali[sz]|\bapart\b",
    ],
    never=[],
)
def dense_layer_for_each_role(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/671: .73 fell to .01."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Router

    def model(drawn: bool) -> Any:
        base = stage.model()
        torch.manual_seed(9)
        layers = [Dense(32, 32, activation_function=torch.nn.Identity()) for _ in range(2)]
        if not drawn:
            layers[1].load_state_dict(layers[0].state_dict())
        router = Router.for_query_document([layers[0]], [layers[1]])
        return SentenceTransformer(modules=[*base, router], device="cpu")

    mapping = {"anchor": "query", "positive": "document"}
    suffers(
        stage,
        stage.trainer(ranking, pairs(), model(True), router_mapping=mapping),
        lambda: stage.trainer(ranking, pairs(), model(False), router_mapping=mapping),
        routed,
        share=None,
    )


@faulty(
    "accumulation leaves few updates",
    "Sixteen batches are accumulated for an update, of ten in an epoch: the run has four updates.",
    [
        r"accumulat",
        r"(few|\d+|four) (updates|steps|optimi[sz]er)|too (few|short)|steps.{0,40}(few|short|only)",
    ],
    tools=(DOCTOR, REPORT),
    never=[],
)
def four_updates_in_four_epochs(stage: Stage) -> None:
    """https://github.com/kamalkraj/e5-mistral-7b-instruct/issues/6: 512 batches accumulated."""
    settings = {"max_steps": -1, "num_train_epochs": 4, "warmup_steps": 0}
    suffers(
        stage,
        stage.trainer(ranking, pairs(), gradient_accumulation_steps=16, **settings),
        lambda: stage.trainer(ranking, pairs(), **settings),
        among_alike,
    )


def llama(stage: Stage, length: int) -> Any:
    """A tiny causal decoder whose embedding is its last token."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import AutoTokenizer, LlamaConfig, LlamaModel

    folder = stage.folder / f"decoder-{length}"
    tokenizer = AutoTokenizer.from_pretrained(make_bert(stage.folder / "words"))
    tokenizer.backend_tokenizer.post_processor = without_special_tokens()
    tokenizer.eos_token = "[SEP]"
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
    return SentenceTransformer(modules=[body, Pooling(32, pooling_mode="lasttoken")], device="cpu")


def without_special_tokens() -> Any:
    from tokenizers import processors

    return processors.TemplateProcessing(single="$A", special_tokens=[])


@faulty(
    "end token lost by truncation",
    "The end token, which is the embedding, is appended to the text before it is tokenised: of "
    "long passages it is cut off, and a word takes its place.",
    [CUT, r"\beos\b|end (token|of)|last token|\[SEP\]"],
    never=[LONGER],
)
def end_of_long_passages_cut_off(stage: Stage) -> None:
    """https://github.com/texttron/tevatron/issues/104: a bug about the end token."""

    def ended(count: int, seed: int) -> dict[str, list[str]]:
        table = facts(count, seed)
        return {
            "anchor": [f"{question(fact)} [SEP]" for fact in table],
            "positive": [f"{passage(fact, 2 + at % 8)} [SEP]" for at, fact in enumerate(table)],
        }

    unseen = ended(100, 11)
    settings = {"learning_rate": 3e-3, "max_steps": 24}
    suffers(
        stage,
        stage.trainer(ranking, ended(160, 0), llama(stage, 9), **settings),
        lambda: stage.trainer(ranking, ended(160, 0), llama(stage, 24), **settings),
        lambda model: retrieval(model, unseen),
        share=None,
    )


def batches(model: Any, seed: int = 0, size: int = 16) -> Callable[[], list[Any]]:
    """Return a function that draws a batch of tokenised questions and passages."""
    table, draw = pairs(160), random.Random(seed)

    def batch() -> list[Any]:
        rows = draw.sample(range(160), size)
        return features_of(
            model, {name: [texts[at] for at in rows] for name, texts in table.items()}
        )

    return batch


def embed(model: Any, features: Any) -> torch.Tensor:
    return model(dict(features))["sentence_embedding"]


def infonce(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    cosines = functional.normalize(anchors, dim=1) @ functional.normalize(positives, dim=1).T
    return functional.cross_entropy(cosines / 0.05, torch.arange(len(anchors)))


def loop_scores(
    stage: Stage,
    model: Any,
    loss: Callable[..., torch.Tensor],
    embeddings: Callable[[], tuple[torch.Tensor, torch.Tensor]],
) -> tuple[float, float]:
    """Train a watched loop; return the score before and after."""
    before = among_alike(model)
    criterion = gradlab.watch(loss, output=stage.folder / "loop", total_steps=60, every=INTERVAL)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    stage.loop(criterion, optimizer, lambda: criterion(*embeddings()), steps=60)
    return before, among_alike(model)


def sound_scores(stage: Stage) -> tuple[float, float]:
    """Train the loop as it should be, without a watch."""
    model = stage.model()
    before, draw = among_alike(model), batches(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    for _ in range(60):
        value = infonce(*(embed(model, features) for features in draw()))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return before, among_alike(model)


@faulty(
    "embeddings from encode, which keeps no gradient",
    "The loop embeds by model.encode, which keeps no gradient, and asks for the gradient of its "
    "result: no weight moves.",
    [r"encode|gradient|detach|no_grad|requires_grad|graph", STILL],
    tools=(REPORT,),
    never=[LONGER],
)
def loop_by_encode(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/274: encode has no gradient."""
    model, table, draw = stage.model(), pairs(160), random.Random(0)

    def embeddings() -> tuple[torch.Tensor, ...]:
        rows = draw.sample(range(160), 16)
        return tuple(
            model.encode([texts[at] for at in rows], convert_to_tensor=True,
                         show_progress_bar=False).clone().requires_grad_()
            for texts in table.values()
        )  # fmt: skip

    scores = loop_scores(stage, model, infonce, embeddings)
    falls_short(stage, scores, sound_scores(stage))


class WithMemory:
    """Embeddings of earlier batches are compared as well; numbers of rows are their classes."""

    def __init__(self, size: int = 64) -> None:
        self.rows, self.labels, self._size = torch.empty(0, 32), torch.empty(0), size

    def __call__(self, anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        anchors, positives = functional.normalize(anchors), functional.normalize(positives)
        labels = torch.arange(len(anchors))
        candidates = torch.cat([positives, self.rows])
        same = labels[:, None] == torch.cat([labels, self.labels])
        log_shares = functional.log_softmax(anchors @ candidates.T / 0.05, dim=1)
        self.rows = torch.cat([positives.detach(), self.rows])[: self._size]
        self.labels = torch.cat([labels, self.labels])[: self._size]
        return -(log_shares * same).sum(1).div(same.sum(1)).mean()


@faulty(
    "numbers of rows as classes in a memory of batches",
    "A memory keeps earlier batches with torch.arange as their labels: row 3 of each batch counts "
    "as a positive of row 3 of all others.",
    [
        r"memor|queue|earlier batch|label|false positive|wrong positive",
        r"positives?.{0,80}(wrong|unrelated|false)",
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def memory_of_batches_numbered_alike(stage: Stage) -> None:
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/138: labels of a queue."""
    model = stage.model()
    draw = batches(model)
    scores = loop_scores(
        stage, model, WithMemory(), lambda: tuple(embed(model, column) for column in draw())
    )
    falls_short(stage, scores, sound_scores(stage), share=None)
