"""LoRA and decoders with last-token pooling, through watch, doctor, inspect and blockwise."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaModel

import gradlab
from tests.sentence_training import columns_of
from tests.tiny_models import make_sentences

adapter = pytest.importorskip("gradlab.integrations.sentence_transformers")
peft = pytest.importorskip("peft")


def decoder(bert, folder):
    """A small decoder whose last token is the embedding of a text, as in most models of 2026."""
    from sentence_transformers import SentenceTransformer

    try:
        from sentence_transformers.sentence_transformer import modules
    except ImportError:  # before 5.4
        from sentence_transformers import models as modules
    tokenizer = AutoTokenizer.from_pretrained(bert)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=64,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    LlamaModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    transformer = modules.Transformer(str(folder), max_seq_length=32)
    pooling = modules.Pooling(32, pooling_mode="lasttoken")
    return SentenceTransformer(modules=[transformer, pooling], device="cpu")


def with_adapter(model):
    model.add_adapter(
        peft.LoraConfig(
            task_type=peft.TaskType.FEATURE_EXTRACTION, r=4, lora_alpha=8, lora_dropout=0.1,
            target_modules=["q_proj", "v_proj"],
        )
    )  # fmt: skip
    return model


def trainer_of(model, output, loss, **settings):
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    arguments = SentenceTransformerTrainingArguments(
        str(output), max_steps=3, per_device_train_batch_size=16, use_cpu=True, seed=7,
        learning_rate=0.01, report_to="none", save_strategy="no", disable_tqdm=True, **settings,
    )  # fmt: skip
    table = Dataset.from_dict(columns_of(48))
    return SentenceTransformerTrainer(model=model, args=arguments, train_dataset=table, loss=loss)


@pytest.fixture
def model(bert, tmp_path):
    return with_adapter(decoder(bert, tmp_path / "decoder"))


def test_watch_changes_no_weight_and_records_what_the_loss_saw(bert, tmp_path):
    ends = []
    for watched in (False, True):
        torch.manual_seed(7)
        model = with_adapter(decoder(bert, tmp_path / f"decoder-{watched}"))
        before = {name: weight.clone() for name, weight in model.named_parameters()}
        trainer = trainer_of(model, tmp_path / str(watched), adapter.loss(model, "infonce"))
        watch = gradlab.watch(trainer, every=1) if watched else None
        trainer.train()
        ends.append(dict(model.named_parameters()))
        changed = [name for name, weight in ends[-1].items() if not weight.equal(before[name])]
        assert changed
        assert all("lora" in name for name in changed)
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    frame = watch.to_frame()
    assert frame["hardest_share"].notna().sum() == 3
    assert watch.recording.status == "finished"


def test_doctor_finds_no_fault_of_the_adapter(model, tmp_path):
    diagnosis = gradlab.doctor(trainer_of(model, tmp_path / "out", adapter.loss(model, "infonce")))
    assert not [verdict for verdict in diagnosis.problems if "train" in verdict.subject.lower()]


def test_blockwise_and_chunks_give_the_gradients_of_the_whole_batch(model):
    model.eval()  # without dropout
    texts = list(columns_of(16).values())
    tokenize = getattr(model, "preprocess", None) or model.tokenize
    gradients = []
    for settings in ({}, {"blockwise": True, "chunk_size": 5}):
        model.zero_grad()
        loss = adapter.loss(model, "infonce", **settings)
        value = loss([tokenize(column) for column in texts], None)
        value.backward()
        trained = [p.grad.clone() for p in model.parameters() if p.requires_grad]
        gradients.append(torch.cat([gradient.flatten() for gradient in trained]))
    difference = (gradients[0] - gradients[1]).norm() / gradients[0].norm()
    assert float(difference) < 1e-5


def test_inspect_finds_repeated_texts_in_its_embeddings(model):
    texts = [*make_sentences(40), *make_sentences(8)]
    embeddings = model.encode(texts, convert_to_numpy=True)
    reversals = [" ".join(reversed(text.split())) for text in texts]
    positives = model.encode(reversals, convert_to_numpy=True)
    inspection = gradlab.find_false_negatives(
        None, texts, positives=reversals, batch_size=16, batches=4,
        embeddings={"anchors": embeddings, "positives": positives},
    )  # fmt: skip
    assert inspection.numbers["duplicates"] == 16
