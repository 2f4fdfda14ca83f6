"""Losses for sentence-transformers: against its own loss, the definition, and in its trainer."""

from __future__ import annotations

import json
import pickle

import pytest
import torch

import gradlab
from gradlab import GradlabError
from tests.gathering_processes import cached, compute_share
from tests.processes import forking
from tests.sentence_training import (
    columns_of,
    evaluation,
    features_of,
    load_model,
    losses,
    make_trainer,
    relative_difference,
)
from tests.train_helpers import gradients

adapter = pytest.importorskip("gradlab.integrations.sentence_transformers")

NAMES = gradlab.loss_names()


@pytest.fixture(scope="module")
def model(bert):
    return load_model(bert)


def gradients_of_one_batch(bert, loss, table):
    """Value and gradients of a fresh encoder with dropout on, from one seed."""
    model = load_model(bert)
    model.train()
    torch.manual_seed(3)
    value = loss(model)(features_of(model, table), None)
    value.backward()
    return float(value.detach()), gradients(model)


@pytest.mark.parametrize(
    ("options", "columns"), [({}, 2), ({}, 4), ({"blockwise": True, "block_size": 5}, 3)]
)
def test_gradients_are_those_of_multiple_negatives_ranking(bert, options, columns):
    def mnrl(model):
        return losses.MultipleNegativesRankingLoss(model, scale=20.0)

    def ours(model):
        return adapter.loss(model, "infonce", temperature=0.05, **options)

    table = columns_of(12, columns)
    value, expected = gradients_of_one_batch(bert, mnrl, table)
    actual_value, actual = gradients_of_one_batch(bert, ours, table)
    assert actual_value == pytest.approx(value, rel=1e-5)
    assert relative_difference(actual, expected) < 1e-5


def test_the_library_shortens_it_unless_it_has_a_gradient_cache(bert):
    def over_prefixes(make):
        return lambda model: losses.MatryoshkaLoss(model, make(model), [32, 8])

    table = columns_of(12, 3)
    value, expected = gradients_of_one_batch(
        bert, over_prefixes(losses.MultipleNegativesRankingLoss), table
    )
    actual_value, actual = gradients_of_one_batch(bert, over_prefixes(adapter.loss), table)
    assert actual_value == pytest.approx(value, rel=1e-5)
    assert relative_difference(actual, expected) < 1e-5
    with pytest.raises(
        AttributeError, match=r"takes no MatryoshkaLoss; .*per_prefix\(infonce, dims="
    ):
        over_prefixes(lambda model: adapter.loss(model, chunk_size=5))(load_model(bert))


@pytest.mark.parametrize("name", NAMES)
def test_value_is_that_of_the_definition(model, name):
    torch.manual_seed(0)
    rows = torch.randn(4, 9, 6, dtype=torch.float64)
    definition = gradlab.get_loss(name)
    for count in (2, 3, 4):
        embeddings = [rows[0], rows[0] + 0.3 * rows[1], *rows[2:count]]
        criterion = adapter.loss(model, name)
        value = criterion.compute_loss_from_embeddings(embeddings)
        extra = torch.cat(embeddings[2:]) if count > 2 else None
        expected = definition(embeddings[0], embeddings[1], extra, normalize=True)
        # What is learned is stored in float32: its rounding moves logits of up to 20 by as much.
        learned = any(
            not parameter.startswith("model.") for parameter, _ in criterion.named_parameters()
        )
        rounding = 20 * torch.finfo(torch.float32).eps if learned else 0
        assert float(value) == pytest.approx(float(expected), rel=rounding, abs=0)


@pytest.mark.parametrize("name", [*NAMES, "sum(infonce, symmetric(gor), weights=1+2)"])
def test_settings_make_the_same_loss_again(model, name):
    criterion = adapter.loss(model, name)
    kind = getattr(adapter, type(criterion).__name__)
    rebuilt = kind(model, **json.loads(json.dumps(criterion.get_config_dict())))
    assert rebuilt.definition == criterion.definition == gradlab.get_loss(name)
    assert pickle.loads(pickle.dumps(kind)) is kind


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"name": "mask(infonce, by=guide)"}, "GISTEmbedLoss"),
        ({"name": "mask(infonce, by=given)"}, r"needs mask=.*; use mask\(by=pairs\)$"),
        ({"name": "sum(supcon, cosent)"}, "for classes and similarities; it can hold one of them"),
        ({"name": "sum(infonce, embedding_distillation)"}, "gradlab train --teacher"),
        ({"name": lambda anchors, positives: anchors.sum()}, "given as code; register it"),
        ({"name": "vicreg", "hard_negatives": "own"}, "vicreg compares whole views"),
    ],
)
def test_bad_settings_are_refused_in_one_line(model, settings, words):
    with pytest.raises(GradlabError, match=words):
        adapter.loss(model, **settings)


def test_a_last_batch_of_one_sentence_teaches_nothing(model):
    rows = torch.randn(2, 1, 4, requires_grad=True)
    value = adapter.loss(model, "infonce").compute_loss_from_embeddings(list(rows))
    value.backward()
    assert float(value) == 0
    assert float(rows.grad.abs().max()) == 0
    assert (
        float(adapter.loss(model, "infonce").compute_loss_from_embeddings([*rows, rows[0] + 1])) > 0
    )


def test_half_precision_embeddings_are_computed_with_in_float32(model):
    torch.manual_seed(0)
    rows = list(torch.randn(2, 8, 6).bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        value = adapter.loss(model, "infonce", temperature=0.01).compute_loss_from_embeddings(rows)
    expected = gradlab.get_loss("infonce", temperature=0.01)(
        *(r.double() for r in rows), normalize=True
    )
    assert value.dtype == torch.float32
    assert float(value) == pytest.approx(float(expected), rel=1e-5)


def test_training_with_evaluation_saving_and_a_model_card(bert, tmp_path):
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer

    pairs = columns_of(20, seed=5)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(
        *pairs.values(), [i / 20 for i in range(20)], name="tiny"
    )
    trainer = make_trainer(
        bert,
        tmp_path,
        lambda model: adapter.loss(model, "arccon", temperature=0.05, blockwise=True),
        columns_of(33, 1),  # one column; the last batch of an epoch has one sentence
        max_steps=-1,
        num_train_epochs=1,
        eval_strategy="steps",
        eval_steps=3,
        save_strategy="steps",
        save_steps=3,
        evaluator=evaluator,
        eval_dataset=Dataset.from_dict(columns_of(17, 1, seed=6)),
    )
    trainer.train()
    names = set().union(*trainer.state.log_history)
    assert {"eval_loss", "eval_tiny_spearman_cosine"} <= names
    trainer.model.save_pretrained(str(tmp_path / "final"))
    card = (tmp_path / "final" / "README.md").read_text(encoding="utf-8")
    for words in ("loss:ArcConLoss", "zhang2022contrastive", '"temperature": 0.05'):
        assert words in card
    for place in (tmp_path / "final", tmp_path / "checkpoint-3"):
        loaded = SentenceTransformer(str(place), device="cpu")
        assert loaded.encode("ba be bi").shape == (32,)


def test_gathering_across_devices_is_the_loss_of_the_whole_batch(tmp_path):
    """Two gloo processes; their averaged gradients are those of one process with all sentences."""
    rows = torch.randn(3, 8, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    # Of two columns of hard negatives some are masked, of sentences on either process.
    two = torch.randn(4, 8, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (tmp_path / "pairs.txt").write_text(
        "0,6\n2,1\n3,5,1\n6,2,1\n1,0,2\n7,1,2\n4,4,2\n", encoding="utf-8"
    )
    by_pairs = f"by=pairs, pairs={tmp_path / 'pairs.txt'}"
    pools = "negatives=other+same+positive_other+positive_same"
    hard = (
        f"mask(infonce, {by_pairs})",
        "hardness(infonce, on=hard)",
        f"mask(symmetric(pool(hardness(infonce, on=hard), {pools})), {by_pairs})",
    )
    of_own = "infonce own", "symmetric(infonce) own", f"mask(infonce, {by_pairs}) own"
    cases = {"infonce": rows, "met": rows, "vicreg": rows[:2], "vicreg ring": rows[:2]}
    cases |= dict.fromkeys(("infonce ring", "symmetric(hardness(infonce)) ring"), rows)
    cases |= dict.fromkeys(
        (f"{spec}{ring}" for spec in (*hard, *of_own) for ring in ("", " ring")), two
    )
    forking()
    torch.multiprocessing.start_processes(
        compute_share, (cases, str(tmp_path)), nprocs=2, start_method="forkserver"
    )
    shares = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for name, case in cases.items():
        leaf = case.clone().requires_grad_()
        spec, own, _ = name.partition(" own")
        kind = "own" if own else "shared"
        criterion = adapter.loss(
            torch.nn.Identity(), spec.removesuffix(" ring"), hard_negatives=kind
        )
        whole = criterion.compute_loss_from_embeddings(list(leaf), torch.arange(8))
        whole.backward()
        gradient = torch.cat([share[name]["gradient"] for share in shares], dim=1) / 2
        values = [float(share[name]["value"]) for share in shares]
        assert sum(values) / 2 == pytest.approx(float(whole.detach()), rel=1e-12)
        torch.testing.assert_close(gradient, leaf.grad, rtol=1e-9, atol=1e-12)
    plain = adapter.loss(torch.nn.Identity(), "infonce").compute_loss_from_embeddings(list(two))
    for spec in hard:  # each does something here
        value = float(sum(share[spec]["value"] for share in shares)) / 2
        assert abs(value - float(plain)) > 1e-4
    # Chunks of each process, of all its columns: one all-reduce of the one layer.
    expected = cached(rows.reshape(-1, 6), list(torch.arange(24).split(8)))[0].layer.weight.grad
    for share in shares:
        for name in ("cached", "cached ring"):
            assert share[name]["reduced"] == 1
            torch.testing.assert_close(share[name]["gradient"], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("chunk_size", [None, 3])
@pytest.mark.parametrize("blockwise", [False, True])
def test_own_hard_negatives(bert, chunk_size, blockwise):
    """Each row's cross-entropy over positives and its own hard negatives, gradients included."""
    table = columns_of(9, 4)
    model, reference_model = load_model(bert), load_model(bert)
    criterion = adapter.loss(
        model, "infonce", hard_negatives="own", chunk_size=chunk_size, blockwise=blockwise
    )
    assert type(criterion)(model, **criterion.get_config_dict()).hard_negatives == "own"
    value = criterion(features_of(model, table))
    value.backward()
    embedded = [
        reference_model(features)["sentence_embedding"]
        for features in features_of(reference_model, table)
    ]
    anchors, positives, *hard = (torch.nn.functional.normalize(rows, dim=-1) for rows in embedded)
    scores = [anchors @ positives.T, *((anchors * rows).sum(-1, keepdim=True) for rows in hard)]
    expected = torch.nn.functional.cross_entropy(torch.cat(scores, -1) / 0.05, torch.arange(9))
    expected.backward()
    torch.testing.assert_close(value.detach(), expected.detach(), rtol=1e-5, atol=1e-6)
    for parameter, reference_parameter in zip(
        model.parameters(), reference_model.parameters(), strict=True
    ):
        torch.testing.assert_close(parameter.grad, reference_parameter.grad, rtol=1e-3, atol=1e-5)
    shared = adapter.loss(reference_model, "infonce")(features_of(reference_model, table))
    assert float(shared.detach()) > float(expected.detach()) + 0.01


@pytest.mark.parametrize("options", [{}, {"blockwise": True, "block_size": 5}])
def test_labels_are_what_the_loss_looks_at(model, options):
    """Classes, graded similarities, teacher's scores: by definition and by the library's losses."""
    torch.manual_seed(0)
    rows = list(torch.randn(4, 9, 6, dtype=torch.float64))
    classes = torch.arange(9) // 3
    value = adapter.loss(model, "supcon", **options).compute_loss_from_embeddings(
        rows[:2], classes.float()
    )
    plain, labelled = (
        gradlab.get_loss("supcon")(*rows[:2], normalize=True, labels=labels)
        for labels in (None, classes)
    )
    assert abs(float(plain - labelled)) > 0.01
    torch.testing.assert_close(value, labelled)

    similar = torch.rand(9)
    value = adapter.loss(model, "cosent", **options).compute_loss_from_embeddings(rows[:2], similar)
    expected = losses.CoSENTLoss(model).compute_loss_from_embeddings(rows[:2], similar)
    assert float(value) == pytest.approx(float(expected), rel=1e-6)

    scores = torch.rand(9, 3)
    criterion = adapter.loss(model, "margin_mse", hard_negatives="own", **options)
    cosines = [torch.cosine_similarity(rows[0], column) for column in rows[1:]]
    errors = [
        cosines[0] - cosine - (scores[:, 0] - scores[:, k])
        for k, cosine in enumerate(cosines[1:], 1)
    ]
    expected = torch.stack(errors).square().mean()
    torch.testing.assert_close(criterion.compute_loss_from_embeddings(rows, scores), expected)
    with pytest.raises(GradlabError, match="'label' with its scores"):
        criterion.compute_loss_from_embeddings(rows)
    with pytest.raises(GradlabError, match="must hold whole numbers: classes"):
        adapter.loss(model, "supcon").compute_loss_from_embeddings(rows[:2], similar)
