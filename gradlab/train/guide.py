"""A frozen model whose cosines tell a loss which negatives are likely to be false (GISTEmbed, Solatorio 2024)."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor

from gradlab.encoder.model import Encoder
from gradlab.errors import GradlabError
from gradlab.train.batches import pack
from gradlab.train.config import TrainConfig
from gradlab.train.corpus import Corpus
from gradlab.train.distributed import Processes
from gradlab.train.tokens import Tokens

# Numbers of embeddings that are kept for the next epoch, 256 MiB in float32; what comes later is embedded each time.
KEPT = 2**26


class Guide:
    """Embeds the sentences of the training file, as they stand there, without dropout or gradient.

    Attributes:
        encoder: the model, with the pooler that was saved with it.
        corpus: the sentences in its own tokens.
    """

    def __init__(self, encoder: Encoder, corpus: Corpus) -> None:
        self.encoder, self.corpus = encoder.requires_grad_(False), corpus
        views = [corpus.tokens] + ([] if corpus.others is None else [corpus.others])
        self._views: list[tuple[Tokens, dict[int, Tensor]]] = [(tokens, {}) for tokens in views]

    @classmethod
    def load(cls, config: TrainConfig, corpus: Corpus, processes: Processes) -> Guide:
        """The guide that a configuration names, for the corpus of the encoder that is trained.

        Raises:
            GradlabError: there is no such model, or its tokenizer leaves out other sentences.
        """
        assert config.guide is not None
        encoder = Encoder.load(config.guide, device=processes.device)
        length = min(config.max_length, encoder.max_length)
        own = Corpus.read(dataclasses.replace(config, max_length=length), encoder, processes)
        if len(own.tokens) != len(corpus.tokens):
            raise GradlabError(
                f"the guide's tokenizer makes {len(own.tokens)} sentences of {config.train_file} and the model's "
                f"{len(corpus.tokens)}, as some have no tokens; take them out of the file"
            )
        return cls(encoder, own)

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings of the first and of the second views of some sentences, (N, D) each, on the guide's device.

        Args:
            rows: (N,) their rows in the training file.
        """
        wanted, found = rows.tolist(), []
        for tokens, kept in self._views:
            new = [row for row in dict.fromkeys(wanted) if row not in kept]
            made = dict(zip(new, self._embed(tokens.take(new)), strict=True)) if new else {}
            found.append(torch.stack([kept[row] if row in kept else made[row] for row in wanted]))
            if (len(kept) + len(made)) * self.encoder.dimension <= KEPT:
                kept.update(made)
        return found[0], found[-1]

    @torch.no_grad()
    def _embed(self, sequences: list[np.ndarray]) -> Tensor:
        packed = pack(sequences, self.encoder.tokenizer.pad_token_id).to(self.encoder.device)
        rows = [self.encoder(group.input_ids, group.attention_mask) for group in packed.groups]
        return torch.cat(rows).float()[packed.order]
