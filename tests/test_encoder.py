"""The encoder against transformers and sentence-transformers, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from gradlab import GradlabError
from gradlab.encoder import files
from gradlab.encoder.model import Encoder
from gradlab.encoder.pooling import POOLERS, pool
from tests.fuzzing import as_json, check_read_or_refused, damaged_files, damaged_objects
from tests.tiny_models import make_bert, make_roberta, make_sentences

SENTENCES = [*make_sentences(13, seed=3), "one", "Ba, BE! bi? " * 40]


@pytest.fixture(scope="module", params=["bert", "roberta"])
def folder(request, bert, tmp_path_factory) -> Path:
    return bert if request.param == "bert" else make_roberta(tmp_path_factory.mktemp("roberta"))


def reference(folder: Path, pooler: str, sentence: str, max_length: int = 64) -> np.ndarray:
    """One sentence at a time, without padding, straight from the definition."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = (
        AutoTokenizer.from_pretrained(folder),
        AutoModel.from_pretrained(folder).eval(),
    )
    batch = tokenizer(sentence, truncation=True, max_length=max_length, return_tensors="pt")
    with torch.no_grad():
        layers = model(**batch, output_hidden_states=True).hidden_states
    last = layers[-1][0].numpy()
    if pooler == "cls":
        return last[0]
    if pooler == "last":
        return last[-1]
    if pooler == "mean":
        return last.mean(axis=0)
    return ((layers[1][0].numpy() + last) / 2).mean(axis=0)


@pytest.mark.parametrize("pooler", POOLERS)
def test_encode_equals_sentence_by_sentence(folder, pooler):
    encoder = Encoder.load(folder, pooler)
    rows = encoder.encode(SENTENCES, batch_size=4)
    assert rows.dtype == np.float32
    assert rows.shape == (len(SENTENCES), encoder.dimension)
    expected = np.stack([reference(folder, pooler, sentence) for sentence in SENTENCES])
    np.testing.assert_allclose(rows, expected, atol=2e-6)  # float32 sums in another order


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("pooler", "mode"), [("last", "lasttoken"), ("mean", "mean")])
def test_pooling_is_that_of_sentence_transformers(pooler, mode, side):
    from tests.sentence_training import modules

    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(5, 7, 4, generator=generator, requires_grad=True)
    mask = (torch.arange(7) < torch.tensor([[7], [1], [4], [6], [2]])).long()
    mask = mask.flip(1) if side == "left" else mask
    reference = modules.Pooling(4, mode)({"token_embeddings": hidden, "attention_mask": mask})
    rows = pool(pooler, SimpleNamespace(last_hidden_state=hidden), mask)
    torch.testing.assert_close(rows, reference["sentence_embedding"])
    weights = torch.randn(5, 4, generator=generator)
    gradients = [
        torch.autograd.grad((embeddings * weights).sum(), hidden, retain_graph=True)[0]
        for embeddings in (rows, reference["sentence_embedding"])
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("pooler", POOLERS)
def test_saved_folder_serves_all_three_libraries(folder, pooler, tmp_path):
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel

    encoder = Encoder.load(folder, pooler, max_length=24)
    encoder.save(tmp_path / "saved")
    expected = encoder.encode(SENTENCES)
    np.testing.assert_allclose(
        SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(SENTENCES),
        expected,
        atol=2e-6,
    )
    reloaded = Encoder.load(tmp_path / "saved")
    assert (reloaded.pooler, reloaded.max_length) == (pooler, 24)
    np.testing.assert_array_equal(reloaded.encode(SENTENCES), expected)
    model = AutoModel.from_pretrained(tmp_path / "saved")
    for name, value in encoder.model.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=0, atol=0)


def test_pooling_of_a_sentence_transformers_folder_is_found(folder, tmp_path):
    from sentence_transformers import SentenceTransformer

    from tests.sentence_training import modules

    Pooling, Transformer = modules.Pooling, modules.Transformer
    transformer = Transformer(str(folder), max_seq_length=20)
    reference_model = SentenceTransformer(modules=[transformer, Pooling(32, "mean")], device="cpu")
    reference_model.save(str(tmp_path / "theirs"))
    ours = Encoder.load(tmp_path / "theirs")
    assert (ours.pooler, ours.max_length) == ("mean", 20)
    np.testing.assert_allclose(ours.encode(SENTENCES), reference_model.encode(SENTENCES), atol=2e-6)
    SentenceTransformer(modules=[transformer, Pooling(32, "max")], device="cpu").save(
        str(tmp_path / "max")
    )
    with pytest.raises(GradlabError, match="pools by max"):
        Encoder.load(tmp_path / "max")
    assert Encoder.load(tmp_path / "max", "cls").pooler == "cls"


def test_lower_casing_of_a_sentence_transformers_folder_is_done(bert, tmp_path):
    """By a tokenizer that tells cases apart, and after gradlab has saved the model, too."""
    from sentence_transformers import SentenceTransformer

    Encoder.load(bert, "mean").save(place := tmp_path / "cased")
    tokenizer = json.loads((place / "tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    (place / "tokenizer.json").write_text(json.dumps(tokenizer))
    shouted = [sentence.upper() for sentence in SENTENCES]
    as_it_stands = Encoder.load(place).encode(shouted)
    settings = json.loads((place / "sentence_bert_config.json").read_text())
    (place / "sentence_bert_config.json").write_text(json.dumps(settings | {"do_lower_case": True}))
    expected = SentenceTransformer(str(place), device="cpu").encode(shouted)
    assert np.abs(expected - as_it_stands).max() > 0.1
    encoder = Encoder.load(place)
    np.testing.assert_allclose(encoder.encode(shouted), expected, atol=2e-6)
    encoder.save(tmp_path / "again")
    np.testing.assert_allclose(
        Encoder.load(tmp_path / "again").encode(shouted), expected, atol=2e-6
    )


@pytest.mark.parametrize("kind", ["roberta", "distilbert", "xlm-roberta"])
def test_settings_are_read_under_their_old_names(bert, kind, tmp_path):
    from sentence_transformers import SentenceTransformer

    Encoder.load(bert, "mean", max_length=7).save(tmp_path)
    (tmp_path / "sentence_bert_config.json").rename(tmp_path / f"sentence_{kind}_config.json")
    assert SentenceTransformer(str(tmp_path), device="cpu").max_seq_length == 7
    assert Encoder.load(tmp_path).max_length == 7


def test_a_default_prompt_is_not_left_out_in_silence(bert, tmp_path):
    from sentence_transformers import SentenceTransformer

    Encoder.load(bert, "mean").save(tmp_path / "plain")
    reference_model = SentenceTransformer(str(tmp_path / "plain"), device="cpu")
    expected = reference_model.encode(SENTENCES)
    reference_model.prompts = {"query": "ba da: "}
    reference_model.save(str(tmp_path / "named"))  # a prompt that only those get who name it
    np.testing.assert_allclose(
        Encoder.load(tmp_path / "named").encode(SENTENCES), expected, atol=2e-6
    )
    reference_model.default_prompt_name = "query"
    assert np.abs(reference_model.encode(SENTENCES) - expected).max() > 0.1
    reference_model.save(str(tmp_path / "prompted"))
    with pytest.raises(GradlabError, match="puts 'ba da: ' before each sentence"):
        Encoder.load(tmp_path / "prompted")


def test_a_model_that_truncates_its_embeddings_is_refused(bert, tmp_path):
    from sentence_transformers import SentenceTransformer

    Encoder.load(bert, "mean").save(tmp_path / "whole")
    reference_model = SentenceTransformer(str(tmp_path / "whole"), device="cpu", truncate_dim=8)
    reference_model.save(str(tmp_path / "truncated"))
    assert SentenceTransformer(str(tmp_path / "truncated")).encode(SENTENCES).shape[1] == 8
    with pytest.raises(GradlabError, match="keeps the first 8 dimensions of each embedding"):
        Encoder.load(tmp_path / "truncated")


def test_more_tokens_than_the_model_has_places_for_are_refused(folder):
    assert Encoder.load(folder, max_length=64).encode(["ba " * 300]).shape == (1, 32)
    with pytest.raises(
        GradlabError, match="max_length is 65, and the model has places for 64 tokens"
    ):
        Encoder.load(folder, max_length=65)


def test_encode_leaves_mode_and_random_state_alone(bert):
    encoder = Encoder.load(bert, dropout=0.37).train()
    probabilities = {
        module.p for module in encoder.modules() if isinstance(module, torch.nn.Dropout)
    }
    assert probabilities == {0.37}
    before = torch.get_rng_state()
    first, second = encoder.encode(SENTENCES), encoder.encode(SENTENCES)
    np.testing.assert_array_equal(first, second)
    assert encoder.training
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("batch_size", [-1, 0, 2.5, True])
def test_a_batch_size_that_makes_no_batches_is_refused(bert, batch_size):
    with pytest.raises(GradlabError, match="batch_size must be a whole number of at least 1, not"):
        Encoder.load(bert).encode(SENTENCES, batch_size)


def test_normalised_rows_and_no_rows(folder):
    encoder = Encoder.load(folder)
    rows = encoder.encode(SENTENCES, normalize=True)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert encoder.encode([]).shape == (0, 32)
    assert encoder.max_length == 64  # which leaves room for RoBERTa's offset


def another_architecture(place):
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))


def truncated(place):
    weights = place / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def unpadded(place):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(place)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(place)


def without_tokenizer(place):
    for file in place.glob("tokenizer*"):
        file.unlink()


def tokenizer_of_another_model(place):
    """Its vocabulary is half as large as the embedding matrix."""
    content = json.loads((place / "tokenizer.json").read_text())
    vocabulary = content["model"]["vocab"]
    content["model"]["vocab"] = dict(list(vocabulary.items())[: len(vocabulary) // 2])
    (place / "tokenizer.json").write_text(json.dumps(content))


def larger_vocabulary(place):
    content = json.loads((place / "tokenizer.json").read_text())
    content["model"]["vocab"]["zz"] = len(content["model"]["vocab"])
    (place / "tokenizer.json").write_text(json.dumps(content))


def not_finite(place):
    weights = load_file(place / "model.safetensors")
    weights["encoder.layer.1.output.dense.bias"][3] = float("nan")
    save_file(weights, place / "model.safetensors", {"format": "pt"})


class Code:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("code-was-run",)


def pickled(place):
    torch.save({"a": Code()}, place / "pytorch_model.bin")
    (place / "model.safetensors").unlink()


def modules(*entries):
    return lambda place: (place / "modules.json").write_text(json.dumps(entries))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda place: (place / "config.json").unlink(), "no config.json"),
        (without_tokenizer, "has no tokenizer, only special tokens"),
        (tokenizer_of_another_model, "ids up to .*, and the model has .* token embeddings"),
        (larger_vocabulary, "ids up to .*, and the model has .* token embeddings"),
        (not_finite, r"not finite \(encoder.layer.1.output.dense.bias\)"),
        (pickled, "could run code; take weights in safetensors"),
        (modules(1), "a list of modules, each with a type and a path"),
        (modules({"type": "x.Transformer", "path": "../elsewhere"}), "inside the folder, not"),
        (another_architecture, "lack 16 tensors"),
        (truncated, "cannot load the model"),
        (unpadded, "no padding token"),
    ],
)
def test_folders_that_are_no_models(bert, tmp_path, change, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    change(place := shutil.copytree(bert, tmp_path / "changed"))
    with pytest.raises(GradlabError, match=message):
        Encoder.load(place)
    assert [file.name for file in tmp_path.iterdir()] == ["changed"]


FILES = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]
FILES += ["modules.json", "sentence_bert_config.json", "1_Pooling/config.json"]


@pytest.mark.parametrize("file", FILES)
def test_damaged_folders_load_or_are_refused_in_one_line(bert, tmp_path, file):
    Encoder.load(bert, "mean").save(place := tmp_path / "model")
    path = place / file
    content = path.read_bytes()

    def attempt(name, damaged):
        path.write_bytes(damaged)
        return check_read_or_refused(
            lambda: Encoder.load(place).encode(["ba be"]), f"{file}, {name}"
        )

    refusals = [attempt(*damaged) for damaged in damaged_files(content, 8)]
    if file.endswith(".json"):
        for name, damaged in damaged_objects(json.loads(content), 12):
            refusals.append(attempt(name, as_json(damaged).encode()))
    assert any(refusals)


def test_saving_to_a_full_disk_keeps_what_was_there(bert, tmp_path):
    """The limit on a file's size fails every writer, safetensors' own too, as a full disk does."""
    resource = pytest.importorskip("resource")
    encoder = Encoder.load(bert)
    umask = os.umask(0o022)
    try:
        encoder.save(tmp_path / "saved")
    finally:
        os.umask(umask)
    saved = tmp_path / "saved"

    def content():
        return {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()}

    before = content()
    assert saved.stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in before} == {0o644}  # as usual
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(GradlabError, match="cannot write"):
            encoder.save(saved)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert content() == before
    assert list(tmp_path.iterdir()) == [saved]


def test_a_cached_model_needs_no_network(monkeypatch, tmp_path):
    from huggingface_hub import constants

    place = tmp_path / "models--somebody--some-model"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("abc")
    make_bert(place / "snapshots" / "abc")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(files, "_answers", lambda url: False)
    assert Encoder.load("somebody/some-model").encode(["a sentence"]).shape[0] == 1


@pytest.mark.parametrize(
    ("error", "answers"),
    [
        (urllib.error.HTTPError("https://hub", 405, "", Message(), None), True),
        (urllib.error.URLError(ssl.SSLCertVerificationError("unknown here")), True),
        (urllib.error.URLError(ConnectionRefusedError("refused")), False),
        (TimeoutError("no answer"), False),
    ],
)
def test_which_servers_answer(monkeypatch, error, answers):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(urllib.request, "urlopen", fail)
    assert files._answers("https://hub") is answers
