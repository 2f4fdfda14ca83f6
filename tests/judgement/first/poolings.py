"""Faults of encoders: decoders and their pooling, adapters, dropout, embeddings of a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn.functional
import torch.nn.functional as F
from torch import nn

from tests.judgement.case import AUDIT, faulty
from tests.judgement.first.encoders import lora, make_decoder, uneven_pairs
from tests.judgement.stage import Stage, pairs
from tests.sentence_training import losses
from tests.tiny_models import make_bert

ranking = losses.MultipleNegativesRankingLoss
FIRST = (r"pool", r"first token", r"\[?CLS\]?", r"causal")
EQUAL = (
    r"same embedding", r"one point",
    r"(texts|sentences|anchors|embeddings) .{0,40}(the same|identical|equal|alike)",
)  # fmt: skip
BATCH = (
    r"depend", r"\balone\b", r"beside", r"other texts", r"rest of the batch", r"batch.{0,40}mean",
)  # fmt: skip
PADDING = (r"padd", r"last token", r"\bEOS\b", r"end.of.(sequence|text)", r"truncat", *BATCH)
ADAPTER = (r"adapter", r"lora", r"rate .{0,40}(low|small)", r"(raise|higher|low).{0,40}rate")


def _begun(folder: Path) -> Path:
    """A decoder whose tokenizer puts one token before each text and none after it."""
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    path = make_decoder(folder)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(path)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", tokenizer.cls_token_id)]
    )
    tokenizer.save_pretrained(path)
    return path


@faulty("first token of a decoder", "The first token is pooled, which in a causal decoder sees no "
        "other: it stands for its word, not for the text.", FIRST)  # fmt: skip
def first_word_of_a_causal_decoder(stage: Stage) -> None:
    model = stage.model("cls", bert=make_decoder(stage.folder))
    model.tokenizer.padding_side = "right"
    stage.play(stage.trainer(ranking, pairs(), model))


@faulty("first token of a decoder", "The first token is pooled, which in a causal decoder is the "
        "same for all texts.", (*FIRST, *EQUAL))  # fmt: skip
def begin_token_of_a_causal_decoder(stage: Stage) -> None:
    model = stage.model("cls", bert=_begun(stage.folder))
    model.tokenizer.padding_side = "right"
    stage.play(stage.trainer(ranking, pairs(), model))


@faulty("places of a decoder", "The token at the place 'length - 1' is pooled, while padding is on "
        "the left.", PADDING)  # fmt: skip
def place_by_length_behind_left_padding(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Pooling

    class ByLength(Pooling):
        def forward(self, features: dict[str, Any]) -> dict[str, Any]:
            last = features["attention_mask"].sum(1) - 1
            tokens = features["token_embeddings"]
            features["sentence_embedding"] = tokens[torch.arange(len(tokens)), last]
            return features

    model = stage.model("lasttoken", bert=make_decoder(stage.folder))
    model[1] = ByLength(32, pooling_mode="lasttoken")
    model.tokenizer.padding_side = "left"
    stage.play(stage.trainer(ranking, uneven_pairs(), model))


@faulty("places of a decoder", "The end of the sequence is written into the texts, and truncation "
        "cuts it off long ones.", PADDING)  # fmt: skip
def end_cut_off_by_truncation(stage: Stage) -> None:
    model = stage.model("lasttoken", bert=make_decoder(stage.folder, ends=False), length=10)
    table = {name: [f"{text} [SEP]" for text in texts] for name, texts in uneven_pairs().items()}
    stage.play(stage.trainer(ranking, table, model))


@faulty("places of a decoder", "The padding token is the end of the sequence, and the mask is made "
        "from it: the pooled end is masked.",
        (r"pad", r"\bEOS\b", r"end.of.(sequence|text)", r"mask"))  # fmt: skip
def mask_made_of_the_end_token(stage: Stage) -> None:
    model = stage.model("lasttoken", bert=make_decoder(stage.folder))
    model.tokenizer.pad_token = model.tokenizer.eos_token
    end, forward = model.tokenizer.eos_token_id, model[0].forward

    def masked(features: dict[str, Any], **options: Any) -> dict[str, Any]:
        features["attention_mask"] = (features["input_ids"] != end).long()
        return forward(features, **options)

    model[0].forward = masked
    stage.play(stage.trainer(ranking, pairs(), model))


@faulty("adapter without effect", "LoRA is trained at a rate for all weights, 1e-5, and alpha is a "
        "64th of the rank.", (*ADAPTER, r"alpha"))  # fmt: skip
def adapter_at_a_rate_for_all_weights(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = stage.model()
    model.add_adapter(
        LoraConfig(
            TaskType.FEATURE_EXTRACTION, r=64, lora_alpha=1, target_modules=["query", "value"]
        )
    )
    stage.play(stage.trainer(ranking, pairs(), model, learning_rate=1e-5))


@faulty("adapter without effect", "The adapter is switched off while it should be trained.",
        (r"adapter", r"lora", r"no gradient", r"reaches"))  # fmt: skip
def adapter_switched_off(stage: Stage) -> None:
    model = stage.model()
    lora(model)
    model[0].auto_model.embeddings.LayerNorm.weight.requires_grad_(True)
    model.disable_adapters()
    stage.play(stage.trainer(ranking, pairs(), model), fails=True)


@faulty("adapter without effect", "Both factors of the adapter start at zero, so that neither gets "
        "a gradient.", (r"adapter", r"lora", r"zero", r"no gradient"))  # fmt: skip
def adapter_with_start_values_of_zero(stage: Stage) -> None:
    model = stage.model()
    lora(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.zero_()
    stage.play(stage.trainer(ranking, pairs(), model))


class _Centred(nn.Module):
    """Takes the mean of the batch off each embedding."""

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        rows = features["sentence_embedding"]
        features["sentence_embedding"] = rows - rows.mean(0, keepdim=True)
        return features


class _Standardised(nn.Module):
    """A normalisation over the batch without running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(32, track_running_stats=False)

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        features["sentence_embedding"] = self.norm(features["sentence_embedding"])
        return features


@faulty("centred by the batch", "The mean of the batch is taken off: an embedding depends on the "
        "texts beside it, and one alone is zero.", BATCH)  # fmt: skip
def mean_of_the_batch_taken_off(stage: Stage) -> None:
    model = stage.model()
    model.append(_Centred())
    stage.play(stage.trainer(ranking, pairs(), model))


@faulty("centred by the batch", "BatchNorm without running statistics, in use as in training.",
        (*BATCH, r"BatchNorm"))  # fmt: skip
def batch_norm_without_statistics(stage: Stage) -> None:
    model = stage.model()
    model.append(_Standardised())
    stage.play(stage.trainer(ranking, pairs(), model))


@faulty("dropout far too high", "A dropout of 0.9 leaves next to nothing of a text.",
        (r"dropout",))  # fmt: skip
def dropout_of_nine_tenths(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(), stage.model(dropout=0.9)))


@faulty("special tokens unknown", "Texts carry markers that the tokenizer splits into letters, so "
        "that they fill half of a short length.",
        (r"\d+ tokens", r"truncat", r"cut off", r"split", r"pieces", r"marker", r"max_seq_length",
         r"one beginning", r"same beginning"))  # fmt: skip
def markers_split_into_letters(stage: Stage) -> None:
    model = stage.model(length=24, bert=make_bert(stage.folder / "split"))
    table = pairs()
    table = {name: [f"<|{name}_begin|> {text}" for text in texts] for name, texts in table.items()}
    stage.play(stage.trainer(ranking, table, model))


def _is_alone() -> bool:
    return not dist.is_initialized() or dist.get_world_size() == 1


def own_rows_in_front(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Gathers; puts its own rows in front, and takes labels from its rank on."""
    labels = torch.arange(len(anchors))
    if not _is_alone():
        rank = dist.get_rank()
        rows = list(torch.distributed.nn.functional.all_gather(positives.contiguous()))
        positives = torch.cat([rows[rank], *rows[:rank], *rows[rank + 1 :]])
        labels = labels + rank * len(anchors)
    return F.cross_entropy(anchors @ positives.T / 0.1, labels)


def local_negatives(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Does not gather: each process has the negatives of its own rows only."""
    return F.cross_entropy(anchors @ positives.T / 0.1, torch.arange(len(anchors)))


def first_process_counts(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Gathers with gradient, and lets all processes but the first give nothing."""
    labels, share = torch.arange(len(anchors)), 1.0
    if not _is_alone():
        positives = torch.cat(torch.distributed.nn.functional.all_gather(positives.contiguous()))
        labels = labels + dist.get_rank() * len(anchors)
        share = float(dist.get_rank() == 0)
    return share * F.cross_entropy(anchors @ positives.T / 0.1, labels)


@faulty("own rows of a process", "A process puts its own rows first and counts labels as if they "
        "stood at its rank.",
        (r"wrong positive", r"label", r"another sentence", r"order", r"rank", r"place"),
        tools=(AUDIT,))  # fmt: skip
def own_rows_before_gathered_ones(stage: Stage) -> None:
    stage.audit(own_rows_in_front, uneven=False)


@faulty("own rows of a process", "Rows are not gathered: negatives are those of one process.",
        (r"not gather", r"own (rows|negatives|sentences|batch)", r"other process", r"missing",
         r"fewer negatives", r"does not gather", r"local"), tools=(AUDIT,))  # fmt: skip
def rows_that_are_not_gathered(stage: Stage) -> None:
    stage.audit(local_negatives, uneven=False)


@faulty("own rows of a process", "Only the first process has a loss; the others give 0.",
        (r"first process", r"some processes only", r"rank",
         r"process(es)? .{0,40}(0|zero|nothing|no gradient)",
         r"half", r"divided by the number"), tools=(AUDIT,))  # fmt: skip
def only_the_first_process_counts(stage: Stage) -> None:
    stage.audit(first_process_counts, uneven=False)
