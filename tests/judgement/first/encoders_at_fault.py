"""Modules of one's own in an encoder of the library, that pool wrongly or stop the gradient."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn

from tests.judgement.case import faulty
from tests.judgement.first.beside import IDLE
from tests.judgement.first.bodies import body, words_of
from tests.judgement.first.fields import HELPDESK
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers

QUICK = {"learning_rate": 2e-3, "max_steps": 50}
PADDING = (
    r"(?i)\bpad",
    r"(?i)(depends?|changes?|differs?|vary|varies).{0,60}(batch|neighbour|other (text|row)s|"
    r"company)|batch.{0,60}(depend|chang|differ|var(y|ies))",
    r"(?i)attention.?mask|\bmask\b",
)


def modules_beside(
    stage: Stage, slip: Any, mended: Any, *, kind: str = "bert", **settings: Any
) -> None:
    """Train an encoder that ends with the modules ``slip()``, beside that with ``mended()``."""
    # Texts of unequal lengths, by fillers behind some of them.
    table, sought = uneven(HELPDESK.table(200)), uneven(HELPDESK.table(60, seed=11))

    def trainer(behind: Any) -> Any:
        transformer = body(stage, words_of([table, sought]), kind=kind, layers=1)
        torch.manual_seed(4)
        model = SentenceTransformer(modules=[transformer, *behind()], device="cpu")
        return stage.trainer(
            losses.MultipleNegativesRankingLoss, table, model, **{**QUICK, **settings}
        )

    suffers(stage, trainer(slip), lambda: trainer(mended), lambda model: HELPDESK.sought(model))


def uneven(table: dict[str, list[str]]) -> dict[str, list[str]]:
    """Repeat the texts of some rows, so that batches have padding."""
    return {
        name: [" , ".join([text] * (1 + 2 * (at % 3))) for at, text in enumerate(texts)]
        for name, texts in table.items()
    }


class Sized(nn.Module):
    """A module that tells the library its size."""

    def get_sentence_embedding_dimension(self) -> int:
        return 48

    get_embedding_dimension = get_sentence_embedding_dimension


class Read(Sized):
    """A recurrent head that reads the tokens in turn; its last state is the embedding."""

    def __init__(self, packs: bool) -> None:
        super().__init__()
        self.reader, self.packs = nn.GRU(48, 48, batch_first=True), packs

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        rows: Any = features["token_embeddings"]
        if self.packs:
            lengths = features["attention_mask"].sum(1).cpu()
            rows = nn.utils.rnn.pack_padded_sequence(
                rows, lengths, batch_first=True, enforce_sorted=False
            )
        features["sentence_embedding"] = self.reader(rows)[1][-1]
        return features


@faulty(
    "recurrent head that reads on into the padding",
    "The recurrent head reads padded rows to their end: the last state is of the padding.",
    PADDING,
)
def recurrent_head_without_packing(stage: Stage) -> None:
    """People take the last state of a GRU over padded rows."""
    modules_beside(
        stage,
        lambda: [Read(packs=False)],
        lambda: [Read(packs=True)],
        learning_rate=4e-3,
        max_steps=45,
    )


class Outside(Sized):
    """A shift and a head behind it; with numpy the shift leaves autograd."""

    def __init__(self, numpy: bool) -> None:
        super().__init__()
        self.numpy, self.head = numpy, nn.Linear(48, 48)
        self.register_buffer("mean", torch.full((48,), 0.01))

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        rows: Tensor = features["sentence_embedding"]
        if self.numpy:
            shifted = rows.detach().cpu().numpy() - self.mean.numpy()
            features["sentence_embedding"] = self.head(torch.from_numpy(shifted))
        else:
            features["sentence_embedding"] = self.head(rows - self.mean)
        return features


@faulty(
    "whitening module in numpy",
    "A module between pooling and head computes in numpy: no gradient reaches the encoder, and "
    "only the head behind learns.",
    [*IDLE, r"(?i)numpy|detach|\bhead\b|graph|only .{0,40}(learn|train|mov)"],
)
def shift_computed_in_numpy(stage: Stage) -> None:
    """A whitening for use after training was put among the modules and trained through."""
    modules_beside(
        stage,
        lambda: [Pooling(48, pooling_mode="mean"), Outside(numpy=True)],
        lambda: [Pooling(48, pooling_mode="mean"), Outside(numpy=False)],
        learning_rate=1e-3,
    )
