"""Faults of the encoder: pooling and padding, adapters, decoders, several processes."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.judgement.case import AUDIT, DOCTOR, faulty
from tests.judgement.first import gathers
from tests.judgement.stage import Stage, pairs
from tests.sentence_training import losses
from tests.tiny_models import SIZES, make_bert

ranking = losses.MultipleNegativesRankingLoss
BATCH = (
    r"padd",
    r"depend\w* on (its|the|other|what).*(batch|texts)",
    r"\balone\b.*\b(batch|beside)",
)
ADAPTERS = (r"adapter", r"lora")
LAST = (r"last token", r"padd", r"\bEOS\b", r"end.of.(sequence|text)")


def uneven_pairs() -> dict[str, list[str]]:
    """Pairs of which every other positive is far longer."""
    table = pairs()
    filling = "zu zo ze vu vo ve tu to te su so se ru ro re pu po pe nu no ne ."
    table["positive"] = [
        text if at % 2 else f"{text} {filling}" for at, text in enumerate(table["positive"])
    ]
    return table


@faulty(
    "batch-dependent embedding",
    "[CLS] pooling takes a padding token where padding is on the left.",
    BATCH,
)
def first_token_behind_left_padding(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Pooling

    class First(Pooling):
        """Pools the first place of the batch, as people write it."""

        def forward(self, features: dict) -> dict:
            features["sentence_embedding"] = features["token_embeddings"][:, 0]
            return features

    model = stage.model("cls")
    model[1] = First(32, pooling_mode="cls")
    model.tokenizer.padding_side = "left"
    stage.play(stage.trainer(ranking, uneven_pairs(), model))


@faulty("batch-dependent embedding", "The mean is over all places, padding included.", BATCH)
def mean_over_padding(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Pooling

    class Mean(Pooling):
        def forward(self, features: dict) -> dict:
            features["sentence_embedding"] = features["token_embeddings"].mean(1)
            return features

    model = stage.model()
    model[1] = Mean(32)
    stage.play(stage.trainer(ranking, uneven_pairs(), model))


def lora(model: object, **settings: object) -> None:
    """Put low-rank adapters of peft into the encoder."""
    from peft import LoraConfig, TaskType

    targets = ["query", "value"]
    model.add_adapter(
        LoraConfig(
            TaskType.FEATURE_EXTRACTION, r=4, lora_alpha=8, target_modules=targets, **settings
        )
    )


@faulty(
    "adapters do not move",
    "The adapter is in inference mode: none of its weights is trained.",
    ADAPTERS,
)
def adapter_in_inference_mode(stage: Stage) -> None:
    model = stage.model()
    lora(model)
    model.requires_grad_(False)
    model[0].auto_model.embeddings.LayerNorm.weight.requires_grad_(True)
    stage.play(stage.trainer(ranking, pairs(), model))


@faulty(
    "adapters do not move",
    "The optimizer was made before the adapter.",
    (*ADAPTERS, r"optimi[sz]er"),
)
def adapter_after_the_optimizer(stage: Stage) -> None:
    model = stage.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    lora(model)
    stage.play(stage.trainer(ranking, pairs(), model, optimizers=(optimizer, None)))


def make_decoder(folder: Path, *, ends: bool = True) -> Path:
    """Write a tiny causal decoder; with ``ends`` its tokenizer appends an end-of-sequence token."""
    from tokenizers.processors import TemplateProcessing
    from transformers import LlamaConfig, LlamaModel, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(make_bert(folder / "bert"))
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A [SEP]" if ends else "$A", special_tokens=[("[SEP]", tokenizer.sep_token_id)]
    )
    tokenizer.eos_token = "[SEP]"
    config = LlamaConfig(
        vocab_size=len(tokenizer), max_position_embeddings=64, pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.sep_token_id, bos_token_id=tokenizer.cls_token_id,
        num_key_value_heads=4, **SIZES,
    )  # fmt: skip
    torch.manual_seed(0)
    LlamaModel(config).save_pretrained(folder / "decoder")
    tokenizer.save_pretrained(folder / "decoder")
    return folder / "decoder"


@faulty(
    "decoder pooling",
    "The last place is pooled, where padding on the right puts padding tokens.",
    (*LAST, *BATCH),
)
def last_place_behind_right_padding(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Pooling

    class Last(Pooling):
        def forward(self, features: dict) -> dict:
            features["sentence_embedding"] = features["token_embeddings"][:, -1]
            return features

    model = stage.model("lasttoken", bert=make_decoder(stage.folder))
    model[1] = Last(32, pooling_mode="lasttoken")
    model.tokenizer.padding_side = "right"
    stage.play(stage.trainer(ranking, uneven_pairs(), model))


@faulty("decoder pooling", "The last token is pooled, and no end-of-sequence token is appended.",
        (r"\bEOS\b", r"end.of.(sequence|text)"))  # fmt: skip
def no_token_at_the_end(stage: Stage) -> None:
    model = stage.model("lasttoken", bert=make_decoder(stage.folder, ends=False))
    stage.play(stage.trainer(ranking, pairs(), model))


GRADIENT = (r"without gradient", r"cut gradient", r"detach")
POSITIVES = (r"wrong positives", r"labels .*(0|rank)", r"another sentence")


@faulty("gathered wrongly", "Positives are gathered without gradient.", GRADIENT, tools=(AUDIT,))
def gather_without_gradient(stage: Stage) -> None:
    stage.audit(gathers.detached_gather, uneven=False)


@faulty("gathered wrongly", "Labels count from 0 on each process.", POSITIVES, tools=(AUDIT,))
def labels_from_zero_on_each_process(stage: Stage) -> None:
    stage.audit(gathers.labels_from_zero, uneven=False)


@faulty("gathered wrongly", "A gather without gradient, and labels from 0 on each process.", (),
        causes=(GRADIENT, POSITIVES), tools=(AUDIT,))  # fmt: skip
def two_faults_of_a_gather(stage: Stage) -> None:
    stage.audit(gathers.detached_and_from_zero, uneven=False)


@faulty("gathered wrongly", "The temperature is divided by the number of processes.",
        (r"temperature", r"\bscale\b", r"not recognised"), tools=(AUDIT,))  # fmt: skip
def temperature_divided_by_processes(stage: Stage) -> None:
    stage.audit(gathers.divided_by_processes, uneven=False)


@faulty(
    "collapsed encoder",
    "The encoder gives all texts the same embedding.",
    (r"same embedding", r"collapse"),
    tools=(DOCTOR,),
)
def collapsed_encoder(stage: Stage) -> None:
    model = stage.model()
    with torch.no_grad():
        for layer in model[0].auto_model.encoder.layer:
            layer.output.LayerNorm.weight.zero_()
            layer.output.LayerNorm.bias.fill_(1.0)
    stage.doctor(stage.trainer(ranking, pairs(), model))


@faulty(
    "training mode",
    "The encoder is held in eval mode: dropout stays off.",
    (r"dropout", r"training mode"),
)
def dropout_held_off(stage: Stage) -> None:
    model = stage.model()
    texts = pairs()["positive"]
    trainer = stage.trainer(ranking, {"a": texts, "b": list(texts)}, model)
    model[0].train = lambda mode=True: model[0]
    for module in model.modules():
        module.training = False
    stage.play(trainer)
