"""What speeds sentence-transformers up on a CPU: the same training, up to rounding and dropout."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

import gradlab
from gradlab import GradlabError
from tests.sentence_training import (
    columns_of,
    features_of,
    load_model,
    losses,
    make_trainer,
    relative_difference,
    weights,
)

speed = pytest.importorskip("gradlab.integrations.speed")
from gradlab.train import cpu_speed  # noqa: E402

PLAIN = nn.functional.dropout
TABLE = columns_of(64, 3)


def trained(bert, place, *gains, dropout=0.0, watched=False, **arguments):
    """The weights after ten steps, of a model that gains were applied to."""

    def loss_of(model):
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = dropout
        for gain in gains:
            gain(model)
        return losses.MultipleNegativesRankingLoss(model)

    trainer = make_trainer(bert, place, loss_of, TABLE, max_steps=10, **arguments)
    watch = gradlab.watch(trainer, every=1) if watched else None
    trainer.train()
    assert nn.functional.dropout is PLAIN
    return weights(trainer.model), watch


GAINS = {
    "attention": (speed.eager_attention,),
    "groups": (speed.length_groups,),
    "three groups": (lambda model: speed.length_groups(model, 3),),
    "all": (speed.fast_dropout, speed.eager_attention, speed.length_groups),
}


@pytest.fixture(scope="module")
def still(bert, tmp_path_factory):
    """A BERT without dropout, and the weights that plain training gives it."""
    from tests.tiny_models import make_bert

    folder = make_bert(tmp_path_factory.mktemp("still"), dropout=0.0)
    return folder, trained(folder, tmp_path_factory.mktemp("plain"))[0]


@pytest.mark.parametrize("name", GAINS)
def test_weights_are_those_of_plain_training_without_dropout(still, tmp_path, name):
    folder, expected = still
    ends, _ = trained(folder, tmp_path, *GAINS[name])
    assert relative_difference(ends, weights(load_model(folder))) > 1e-3
    assert relative_difference(ends, expected) < 1e-6


def test_dropout_is_that_of_gradlab_with_the_same_generator(bert, tmp_path):
    ends, _ = trained(bert, tmp_path / "a", speed.fast_dropout, dropout=0.1)
    repeated, _ = trained(bert, tmp_path / "b", speed.fast_dropout, dropout=0.1)
    with cpu_speed.fast_dropout():
        within = nn.functional.dropout
        trainer = make_trainer(
            bert, tmp_path / "c", losses.MultipleNegativesRankingLoss, TABLE, max_steps=10
        )
        trainer.train()
    assert within is not PLAIN
    expected = weights(trainer.model)
    assert all(torch.equal(ends[name], expected[name]) for name in ends)
    assert all(torch.equal(ends[name], repeated[name]) for name in ends)
    plain, _ = trained(bert, tmp_path / "d", dropout=0.1)
    assert relative_difference(ends, plain) > 1e-5


def test_dropout_with_gradient_checkpointing_draws_the_same_masks_again(bert):
    gradients = []
    for checkpointing in (False, True):
        model = load_model(bert).train()
        speed.fast_dropout(model)
        speed.eager_attention(model)
        if checkpointing:
            model[0].auto_model.gradient_checkpointing_enable(
                gradient_checkpointing_kwargs={"use_reentrant": False}
            )
        (features,) = features_of(model, {"text": TABLE["anchor"][:16]})
        torch.manual_seed(3)
        model(features)["sentence_embedding"].square().sum().backward()
        gradients.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    assert relative_difference(*gradients) < 1e-6


def test_dropout_ends_with_the_forward_pass_and_with_its_failure(bert):
    model = load_model(bert).train()
    speed.fast_dropout(model)
    speed.fast_dropout(model)  # twice is once
    assert sum(hook is speed._enter for hook in speed._hooks_of(model)) == 1
    with pytest.raises(Exception, match="x"):
        model({"x": 1})
    assert nn.functional.dropout is PLAIN
    assert not cpu_speed._blocks


def test_groups_give_each_row_its_embedding_and_pad_what_they_return(still):
    model = load_model(still[0]).train()
    (features,) = features_of(model, {"text": TABLE["anchor"][:20]})
    expected = model(dict(features))
    widths = []
    model[0].auto_model.embeddings.register_forward_hook(
        lambda module, inputs, output: widths.append(output.shape[:2])
    )
    speed.length_groups(model)
    grouped = model(dict(features))
    assert grouped.keys() == expected.keys()
    assert grouped["token_embeddings"].shape == expected["token_embeddings"].shape
    torch.testing.assert_close(grouped["sentence_embedding"], expected["sentence_embedding"])
    (rows, width), (further_rows, full) = sorted(widths, key=lambda shape: shape[1])
    assert rows + further_rows == 20
    assert width < full == features["attention_mask"].shape[1]
    model.eval()
    widths.clear()
    model(dict(features))
    assert widths == [(20, full)]
    speed.length_groups(model.train(), 1)
    widths.clear()
    model(dict(features))
    assert widths == [(20, full)]


def test_padding_on_the_left_is_left_alone(still):
    model = load_model(still[0]).train()
    model.tokenizer.padding_side = "left"
    (features,) = features_of(model, {"text": TABLE["anchor"][:20]})
    expected = model(dict(features))["sentence_embedding"]
    speed.length_groups(model)
    assert torch.equal(model(dict(features))["sentence_embedding"], expected)


def test_a_faster_model_is_copied_pickled_saved_and_encodes_as_before(bert, tmp_path):
    model = load_model(bert)
    expected = model.encode(TABLE["anchor"])
    for gain in GAINS["all"]:
        gain(model)
    torch.testing.assert_close(torch.tensor(model.encode(TABLE["anchor"])), torch.tensor(expected))
    model.save(str(tmp_path))
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), load_model(tmp_path)]
    (features,) = features_of(model, {"text": TABLE["anchor"][:16]})
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        for restored in copies:
            rows = restored.train()(dict(features))["sentence_embedding"]
            assert rows.std() > 0.01  # not with the weights of the first


def test_a_watch_records_a_faster_model(still, tmp_path):
    folder, expected = still
    ends, watch = trained(folder, tmp_path, *GAINS["all"], watched=True)
    assert relative_difference(ends, expected) < 1e-6
    assert watch.to_frame()["hardest_share"].notna().sum() == 10


def test_what_cannot_be_faster_is_said_in_a_line(bert):
    with pytest.raises(GradlabError, match="this Linear has no Transformer module"):
        speed.length_groups(nn.Linear(2, 2))
    with pytest.raises(GradlabError, match="this Linear has no model of transformers"):
        speed.eager_attention(nn.Linear(2, 2))
    with pytest.raises(GradlabError, match="groups"):
        speed.length_groups(load_model(bert), 0)
    with pytest.raises(GradlabError, match="speeds up a CPU, and the model is on meta"):
        speed.fast_dropout(nn.Linear(2, 2, device="meta"))
