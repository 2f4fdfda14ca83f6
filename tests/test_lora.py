"""LoRA and decoders with last-token pooling, through watch, doctor, inspect and blockwise."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from transformers import AutoTokenizer, LlamaConfig, LlamaModel

import gradlab
from gradlab import GradlabError
from gradlab.cli.commands import cli
from gradlab.encoder import Encoder
from tests.sentence_training import columns_of, modules
from tests.tiny_models import make_sentences

adapter = pytest.importorskip("gradlab.integrations.sentence_transformers")
peft = pytest.importorskip("peft")


def decoder(bert, folder):
    """A small decoder whose last token is the embedding of a text, as in most models of 2026."""
    from sentence_transformers import SentenceTransformer

    # A Llama has no segments.
    inputs = ["input_ids", "attention_mask"]
    tokenizer = AutoTokenizer.from_pretrained(bert, model_input_names=inputs)
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
    settings = peft.LoraConfig(
        task_type=peft.TaskType.FEATURE_EXTRACTION, r=4, lora_alpha=8, lora_dropout=0.1,
        target_modules=["q_proj", "v_proj"],
    )  # fmt: skip
    try:
        model.add_adapter(settings)
    except ValueError as error:  # transformers wants a newer peft than there may be
        if "version of PEFT" not in str(error):
            raise
        pytest.skip(str(error))
    return model


def save_with_trained_adapter(model, folder):
    """A folder as after training: the adapter is no longer zero."""
    torch.manual_seed(1)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    model.save(str(folder))
    return folder


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


@pytest.mark.parametrize("adapted", [False, True])
def test_folders_embed_as_in_sentence_transformers(bert, tmp_path, adapted):
    from sentence_transformers import SentenceTransformer

    model = decoder(bert, tmp_path / "decoder")
    texts = make_sentences(20)
    before = model.encode(texts)
    if adapted:
        save_with_trained_adapter(with_adapter(model), tmp_path / "saved")
        assert not (tmp_path / "saved/config.json").exists()  # only the adapter
        assert abs(model.encode(texts) - before).max() > 0.1
    else:
        model.save(str(tmp_path / "saved"))
    encoder = Encoder.load(tmp_path / "saved")
    assert encoder.pooler == "last"
    np.testing.assert_allclose(encoder.encode(texts), model.encode(texts), atol=5e-6)
    encoder.save(tmp_path / "merged")
    merged = SentenceTransformer(str(tmp_path / "merged"), device="cpu")
    np.testing.assert_allclose(merged.encode(texts), model.encode(texts), atol=5e-6)


def test_an_adapter_without_a_tokenizer_takes_that_of_its_model(model, tmp_path):
    place = save_with_trained_adapter(model, tmp_path / "saved")
    expected = Encoder.load(place).encode(texts := make_sentences(5))
    for file in place.glob("tokenizer*"):
        file.unlink()
    np.testing.assert_array_equal(Encoder.load(place).encode(texts), expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_model_name_or_path": "./absent"}, "is an adapter, and its model is missing: .*"),
        ({"base_model_name_or_path": None}, "names no base_model_name_or_path"),
        ({"peft_type": "PROMPT_TUNING"}, "adapter of the kind 'PROMPT_TUNING', and gradlab reads"),
        ({"megatron_config": {"a": 1}, "megatron_core": "os"}, "which names code; gradlab runs"),
        ({"r": 3}, "cannot load the model"),
        ({"target_modules": ["q_proj"]}, r"does not fit .* \(4 tensors, such as"),
        ({"target_modules": ["q_proj", "v_proj", "k_proj"]}, r"does not fit .* \(4 tensors"),
    ],
)
def test_damaged_adapters_are_refused_in_a_line(model, tmp_path, changes, message):
    place = save_with_trained_adapter(model, tmp_path / "saved")
    file = place / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(GradlabError, match=message) as failure:
        Encoder.load(place)
    assert len(str(failure.value).splitlines()) == 1


def test_commands_take_a_folder_with_an_adapter(model, tmp_path, monkeypatch):
    place = save_with_trained_adapter(model, tmp_path / "saved")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(make_sentences(60)))
    runner = CliRunner()
    outcome = runner.invoke(cli, ["doctor", str(place)])
    assert "pooler last" in outcome.output
    command = ["inspect", "--model", str(place), "--train-file", "texts.txt", "--batches", "2"]
    outcome = runner.invoke(cli, [*command, "--batch-size", "16", "--output", "inspected"])
    assert outcome.exit_code == 0, outcome.output
    assert (tmp_path / "inspected").is_dir()


def test_a_decoder_is_trained_with_last_token_pooling(bert, tmp_path):
    decoder(bert, tmp_path / "decoder").save(str(tmp_path / "saved"))
    (tmp_path / "texts.txt").write_text("\n".join(make_sentences(60)))
    gradlab.train(
        model=str(tmp_path / "saved"), train_file=str(tmp_path / "texts.txt"), pooler="last",
        output=str(tmp_path / "run"), max_steps=2, batch_size=16, dropout=0.1, device="cpu",
    )  # fmt: skip
    trained = Encoder.load(tmp_path / "run/encoder")
    assert trained.pooler == "last"
    moved = trained.encode(make_sentences(5)) - Encoder.load(tmp_path / "saved").encode(
        make_sentences(5)
    )
    assert abs(moved).max() > 1e-5
