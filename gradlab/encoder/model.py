"""`Encoder`: any Hugging Face encoder with a pooler, which can be loaded, applied and saved."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gradlab.data.tokens import fingerprint
from gradlab.encoder.files import load_pretrained, save_pretrained
from gradlab.encoder.pooling import POOLERS, pool
from gradlab.errors import GradlabError, check_known, check_whole
from gradlab.progress_bars import progress_bar


class Encoder(nn.Module):
    """A transformer with its tokenizer and a pooler, which turns each sentence into one vector.

    Attributes:
        model: the Hugging Face model.
        tokenizer: its tokenizer.
        pooler: a key of :data:`gradlab.encoder.pooling.POOLERS`.
        max_length: largest number of tokens per sentence in :meth:`encode`, special tokens
            included.

    Raises:
        GradlabError: the pooler is unknown, or the model has fewer positions than ``max_length``.
    """

    def __init__(
        self, model: Any, tokenizer: Any, pooler: str = "cls", max_length: int | None = None
    ) -> None:
        super().__init__()
        check_known("pooler", pooler, POOLERS)
        self.model = model
        self.tokenizer = tokenizer
        self.pooler = pooler
        # Without a limit a tokenizer says 1e30, and `_positions` 2**20.
        self.max_length = max_length or int(min(tokenizer.model_max_length, _positions(model)))
        self._check_length(self.max_length)
        # Saved with the model, so that AutoModel returns the layers that "first_last" needs.
        model.config.output_hidden_states = pooler == "first_last"

    @classmethod
    def load(
        cls,
        name_or_path: str | os.PathLike[str],
        pooler: str | None = None,
        *,
        dropout: float | None = None,
        max_length: int | None = None,
        attention: str | None = None,
        device: str | torch.device = "cpu",
    ) -> Self:
        """Load an encoder from a folder or the Hugging Face hub, in evaluation mode and float32.

        Args:
            name_or_path: a folder (of transformers, sentence-transformers or gradlab) or hub name.
            pooler: a key of :data:`gradlab.encoder.pooling.POOLERS`; None takes the pooler stored
                with the model, or "cls" if none is stored.
            dropout: probability of all dropout layers of the model; None keeps the model's own.
            max_length: see :class:`Encoder`; None takes the stored length, else the longest input.
            attention: transformers' name of an attention ("eager", "sdpa"); None lets
                transformers choose.
            device: device of the model; a name is resolved by :func:`find_device`.

        Raises:
            GradlabError: there is no such device or model, weights are missing or not finite, the
                tokenizer is missing, cannot pad or belongs to another model, or the stored pooling
                is unknown.
        """
        device = find_device(device) if isinstance(device, str) else device
        if pooler is not None:
            check_known("pooler", pooler, POOLERS)
        name = os.fspath(name_or_path)
        model, tokenizer, pooler, length = load_pretrained(name, pooler, dropout, attention)
        return cls(model, tokenizer, pooler, max_length or length).to(device).eval()

    def lengthen(self, max_length: int) -> None:
        """Let the encoder read at least so many tokens, even if fewer are stored with the model.

        Raises:
            GradlabError: the model has fewer positions.
        """
        self._check_length(max_length)
        self.max_length = max(self.max_length, max_length)

    @property
    def dimension(self) -> int:
        """Length D of an embedding."""
        return int(self.model.config.hidden_size)

    @property
    def device(self) -> torch.device:
        """Device that holds the parameters."""
        return next(self.parameters()).device

    def forward(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor,
        *,
        model_mask: Callable[[Tensor], Tensor | None] | None = None,
        **inputs: Tensor,
    ) -> Tensor:
        """Return embeddings (rows, D), not normalised, of right-padded token ids (rows, length).

        ``inputs_embeds`` (rows, length, D) in ``inputs`` may replace ``input_ids``. ``model_mask``
        returns the mask that the model gets, if it is another one.
        """
        mask = attention_mask if model_mask is None else model_mask(attention_mask)
        output = self.model(input_ids=input_ids, attention_mask=mask, **inputs)
        return pool(self.pooler, output, attention_mask)

    def encode(
        self,
        sentences: Sequence[str],
        batch_size: int | None = None,
        *,
        normalize: bool = False,
        progress: bool = False,
    ) -> NDArray[np.float32]:
        """Return the embeddings of N sentences without dropout, (N, D) in float32.

        Args:
            sentences: a list of strings.
            batch_size: sentences per forward pass, which are of similar length. None takes 32 on a
                CPU, whose caches hold no more (128 is a third slower with a small BERT), else 128.
            normalize: whether to scale the rows to unit length.
            progress: whether to show a progress bar after two seconds.

        Raises:
            GradlabError: ``sentences`` is a single string, or contains anything but strings;
                ``batch_size`` is no whole number of at least 1.
        """
        texts = list(sentences)
        if isinstance(sentences, str) or not all(isinstance(text, str) for text in texts):
            raise GradlabError(f"encode takes a list of strings, not {sentences!r:.60}")
        if batch_size is None:
            batch_size = 32 if self.device.type == "cpu" else 128
        check_whole("batch_size", batch_size, 1)
        embeddings = np.empty((len(texts), self.dimension), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        starts = progress_bar(
            range(0, len(order), batch_size), progress, desc="Encoding", unit="batch"
        )
        layout = {"padding": True, "padding_side": "right", "return_tensors": "pt"}
        layout |= {"truncation": True, "max_length": self.max_length}
        was_training = self.training
        self.eval()
        try:
            with torch.inference_mode():
                for start in starts:
                    rows = order[start : start + batch_size]
                    batch = self.tokenizer([texts[i] for i in rows], **layout).to(self.device)
                    vectors = self(batch["input_ids"], batch["attention_mask"]).float()
                    if normalize:
                        vectors = nn.functional.normalize(vectors, dim=1)
                    embeddings[rows] = vectors.cpu().numpy()
        finally:
            self.train(was_training)
        return embeddings

    def sha256(self, max_length: int) -> str:
        """Return a hash of all that determines the embeddings of texts cut to a length."""
        digest = hashlib.sha256(
            json.dumps([fingerprint(self.tokenizer), self.pooler, max_length]).encode()
        )
        for name, weights in self.state_dict().items():
            digest.update(name.encode())
            digest.update(weights.cpu().contiguous().view(-1).view(torch.uint8).numpy())
        return digest.hexdigest()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder for transformers, sentence-transformers and :meth:`load`, atomically.

        Raises:
            GradlabError: the folder cannot be written.
        """
        save_pretrained(self, folder)

    def _check_length(self, max_length: int) -> None:
        if max_length > (places := _positions(self.model)):
            raise GradlabError(
                f"max_length is {max_length}, and the model has places for {places} tokens"
            )


def find_device(name: str) -> torch.device:
    """Return the named device, or raise GradlabError; "auto" is CUDA if available, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise GradlabError(f"unknown device {name!r}; use auto, cpu, cuda or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise GradlabError(f"device {name!r} is not supported; use auto, cpu, cuda or cuda:N")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type == "cuda" and (device.index or 0) >= count:
        raise GradlabError(f"there is no device {name!r}; torch sees {count} CUDA devices")
    return device


def check_loads(model: Any, **settings: Any) -> TypeGuard[str | os.PathLike[str]]:
    """Return whether a model, given as a folder or hub name, still has to be loaded.

    Raises:
        GradlabError: the model is already loaded, but a setting of :meth:`Encoder.load` was given.
    """
    if isinstance(model, str | os.PathLike):
        return True
    for name, choice in settings.items():
        if choice not in (None, "auto"):
            raise GradlabError(
                f"{name}={choice!r} is for a model that gradlab loads; this {type(model).__name__} "
                "is loaded already"
            )
    return False


def _positions(model: Any) -> int:
    """Return the number of tokens for which the model has positions."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is None:
        return 2**20
    # RoBERTa's positions start at padding_idx + 1.
    tables = [getattr(module, "position_embeddings", None) for module in model.modules()]
    padding = [table.padding_idx for table in tables if isinstance(table, nn.Embedding)]
    return int(positions) - max((index + 1 for index in padding if index is not None), default=0)
