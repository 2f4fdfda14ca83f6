"""What `gradlab inspect` finds is masked in training.

By `gradlab train` and by the losses for sentence-transformers.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import torch

pytest.importorskip("rensa")
pytest.importorskip("sentence_transformers")

import gradlab
from gradlab.batch import unit_rows
from gradlab.errors import GradlabError
from gradlab.integrations.sentence_transformers import loss
from gradlab.train import train
from gradlab.train.objective import Objective
from tests.sentence_training import make_trainer
from tests.tiny_models import make_bert, make_sentences
from tests.train_helpers import small_config

COUNT = 16


@pytest.fixture(scope="module")
def inspected_file(tmp_path_factory):
    """A model, a file of 16 sentences, 4 of which repeat others, and the mask of an inspection."""
    folder = tmp_path_factory.mktemp("inspected")
    sentences = make_sentences(12, seed=3)
    sentences = [*sentences, *sentences[2:6]]
    file = folder / "sentences.txt"
    # Blank lines are no rows.
    file.write_text("\n\n".join(sentences) + "\n", encoding="utf-8")
    bert = make_bert(folder / "bert")
    gradlab.inspect(bert, sentences, batch_size=8, batches=1).write(folder)
    lines = (folder / "mask.txt").read_text().splitlines()
    assert lines == ["# rows: 16", *(f"{row},{row + 10}" for row in range(2, 6))]
    return bert, file, folder / "mask.txt"


def expected_mask(rows, columns):
    return torch.tensor(
        [[abs(int(a) - int(b)) == 10 and 2 <= min(a, b) < 6 for b in columns] for a in rows]
    )


@pytest.fixture
def recorded():
    """An objective, and the rows and outputs of its batches, in chunks or not."""
    batches = []

    class Recorded(Objective):
        def evaluate(self, batch, gather=None, cache=None):
            output = super().evaluate(batch, gather, cache)
            batches.append((batch.sentences, output))
            return output

    return Recorded, batches


@pytest.mark.parametrize(
    ("inner", "settings"),
    [
        ("symmetric(infonce)", {"batch_size": COUNT}),
        # In chunks the loss is blockwise, and so is the mask.
        ("pool(infonce, negatives=other+same)", {"batch_size": COUNT, "chunk_size": 5}),
        ("infonce", {"batch_size": 4, "queue_size": 10}),
    ],
)
def test_training_leaves_the_pairs_out(inspected_file, inner, settings, recorded, tmp_path):
    bert, file, mask = inspected_file
    objective, batches = recorded
    name = f"mask({inner}, by=pairs, pairs={mask})"
    config = small_config(bert, tmp_path, train_file=str(file), loss=name, epochs=6, **settings)
    train(config, objective=objective)
    queued: list[int] = []
    masked = 0
    for rows, output in batches:
        listed = expected_mask(rows, [*rows.tolist(), *queued])
        masked += int(listed[:, len(rows) if queued else 0 :].sum())
        masked_loss = gradlab.get_loss(f"mask({inner}, by=given)")
        rows_of_loss = output.anchors.detach(), output.positives.detach(), output.extra_negatives
        expected = masked_loss(*rows_of_loss, normalize=True, mask=listed)
        assert float(output.loss.detach()) == pytest.approx(float(expected), rel=1e-6)
        queued = [*reversed(rows.tolist()), *queued][: settings.get("queue_size", 0)]
    assert masked > 0  # and so it is no test of nothing


def test_pairs_of_another_file_are_refused(inspected_file, tmp_path):
    bert, file, _ = inspected_file
    (tmp_path / "pairs.txt").write_text("3,16\n", encoding="utf-8")
    name = f"symmetric(mask(infonce, by=pairs, pairs={tmp_path / 'pairs.txt'}))"
    with pytest.raises(GradlabError, match="names sentence 16, but there are 16"):
        train(small_config(bert, tmp_path, train_file=str(file), loss=name))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (range(1000, 1000 + COUNT), "'label' names row 1015, but 16 rows were inspected"),
        ([row % 2 for row in range(COUNT)], "'label' names only 2 different rows in a batch of 16"),
    ],
)
def test_labels_that_are_no_rows_of_the_inspected_file_are_refused(inspected_file, labels, message):
    criterion = loss(
        torch.nn.Identity(), f"symmetric(mask(infonce, by=pairs, pairs={inspected_file[2]}))"
    )
    columns = list(torch.randn(2, COUNT, 8))
    with pytest.raises(GradlabError, match=message):
        criterion.compute_loss_from_embeddings(columns, torch.tensor(list(labels)))


def test_a_file_that_does_not_say_its_rows_is_judged_by_the_first_batch(tmp_path):
    (tmp_path / "pairs.txt").write_text("0,5\n2,11  # read and judged\n", encoding="utf-8")
    columns, far = list(torch.randn(2, 8, 4)), torch.arange(100, 108)
    name = f"mask(infonce, by=pairs, pairs={tmp_path / 'pairs.txt'})"
    with pytest.raises(
        GradlabError, match=r"names rows 100 to 107, but .* lists rows up to 11 only"
    ):
        loss(torch.nn.Identity(), name).compute_loss_from_embeddings(columns, far)
    criterion = loss(torch.nn.Identity(), name)
    value = criterion.compute_loss_from_embeddings(columns, torch.arange(8))
    masked_loss = gradlab.get_loss("mask(infonce, by=given)")
    listed = torch.tensor([[{i, j} == {0, 5} for j in range(8)] for i in range(8)])
    assert float(value) == pytest.approx(
        float(masked_loss(*columns, normalize=True, mask=listed)), rel=1e-6
    )
    plain = gradlab.get_loss("infonce")(*columns, normalize=True)
    assert float(criterion.compute_loss_from_embeddings(columns, far)) == pytest.approx(
        float(plain), rel=1e-6
    )


def test_sentence_transformers_trainer_passes_the_rows(inspected_file, tmp_path):
    bert, file, mask = inspected_file
    sentences = file.read_text(encoding="utf-8").split("\n\n")
    received_labels = []

    def criterion(model):
        module = loss(model, f"mask(infonce, by=pairs, pairs={mask})")
        compute = module.compute_loss_from_embeddings
        module.compute_loss_from_embeddings = lambda rows, labels=None: (
            received_labels.append(labels) or compute(rows, labels)
        )
        return module

    table = {"anchor": sentences, "positive": sentences, "label": list(range(COUNT))}
    make_trainer(
        bert, tmp_path, criterion, table, max_steps=1, per_device_train_batch_size=COUNT
    ).train()
    assert sorted(received_labels[0].tolist()) == list(range(COUNT))


def say_the_same(text, second_text):
    return re.findall(r"\w+", text.casefold()) == re.findall(r"\w+", second_text.casefold())


@pytest.fixture(scope="module")
def hard_columns(tmp_path_factory):
    """Columns of 10 rows that share texts, an inspection's mask of them, and one made by loops."""
    folder = tmp_path_factory.mktemp("hard")
    words = make_sentences(40, seed=9)
    table = {
        "anchor": words[:10], "positive": words[10:20], "wrong": words[20:30],
        "worse": words[30:40],
    }  # fmt: skip
    table["wrong"][1], table["wrong"][2], table["worse"][2] = words[4].upper(), words[12], words[2]
    table["worse"][5], table["worse"][6], table["wrong"][7] = words[3], words[23], words[23]
    table["anchor"][8] = table["worse"][9] = words[0]
    pair_columns, hard_negative_columns = (
        [table[name] for name in names] for names in (("anchor", "positive"), ("wrong", "worse"))
    )
    rows = range(10)
    expected = torch.tensor(
        [
            [
                any(say_the_same(a[i], b[j]) for a in pair_columns for b in candidate_columns)
                for candidate_columns in (pair_columns, *([b] for b in hard_negative_columns))
                for j in rows
            ]
            for i in rows
        ]
    )  # fmt: skip
    return folder, table, expected


def test_what_inspect_finds_of_hard_negatives_is_what_loops_find(hard_columns):
    folder, table, expected = hard_columns
    anchors, positives, *hard = table.values()
    inspection = gradlab.inspect(
        make_bert(folder / "bert"), anchors, positives=positives,
        hard_negatives=dict(zip(("wrong", "worse"), hard, strict=True)), batch_size=8, batches=1,
    )  # fmt: skip
    inspection.write(folder / "inspect")
    lines = {tuple(map(int, line.split(","))) for line in inspection.masked()}
    repeated_pairs = {(i, j) for i, j in expected[:, :10].nonzero().tolist() if i < j}
    places = expected[:, 10:].nonzero().tolist()
    assert lines == repeated_pairs | {(i, at % 10, 1 + at // 10) for i, at in places}
    assert (len(repeated_pairs), len(places)) == (1, 6)
    assert inspection.numbers["hard_negatives_false"] == 2
    # Two hard negatives are never pushed apart, so that those of rows 3, 6 and 7, which are the
    # same, are no candidates.
    numbers = inspection.candidates.lines[["first", "second"]].to_numpy()
    assert all(min(a, b) < 20 for a, b in numbers)
    assert inspection.candidates.lines["rows"].sum() == len(unordered_row_pairs(table)) == 5


def unordered_row_pairs(table):
    """Pairs of rows with texts that are the same and not both hard negatives."""
    columns = list(table.values())
    return {
        (min(i, j), max(i, j))
        for (a, texts), (b, partner_texts) in itertools.product(enumerate(columns), repeat=2)
        for i, j in itertools.permutations(range(10), 2)
        if min(a, b) < 2 and say_the_same(texts[i], partner_texts[j])
    }


@pytest.mark.parametrize(
    ("inner", "blockwise"),
    [("infonce", False), ("symmetric(pool(infonce, negatives=other+same+positive_same))", True)],
)
def test_sentence_transformers_leave_hard_negatives_out(hard_columns, inner, blockwise):
    folder, _, expected = hard_columns
    lines = [
        f"{i},{j}" if j < 10 else f"{i} {j % 10} {j // 10}"
        for i, j in expected.nonzero().tolist()
        if i != j
    ]
    (folder / "mask.txt").write_text("\n".join(lines))
    torch.manual_seed(1)
    columns = list(torch.randn(4, 10, 8, dtype=torch.float64))
    rows = torch.randperm(10)[:7]
    batch = [column[rows].requires_grad_() for column in columns]
    criterion = loss(
        torch.nn.Identity(),
        f"mask({inner}, by=pairs, pairs={folder / 'mask.txt'})",
        blockwise=blockwise,
    )
    value = criterion.compute_loss_from_embeddings(batch, rows)
    gradients = torch.autograd.grad(value, batch)
    mask = expected[rows][:, torch.cat([rows, rows + 10, rows + 20])] & ~torch.eye(
        7, 21, dtype=torch.bool
    )
    assert mask[:, 7:].any()
    if inner == "infonce":  # by loops from the definition
        units = [torch.nn.functional.normalize(column, dim=1) for column in batch]
        candidates = torch.cat(units[1:])
        temperature = gradlab.get_loss("infonce").temperature
        total = 0.0
        for i in range(7):
            candidates_left = [j for j in range(21) if j == i or not mask[i, j]]
            logits = (
                torch.stack([units[0][i] @ candidates[j] for j in candidates_left]) / temperature
            )
            total = total - logits.log_softmax(0)[candidates_left.index(i)]
        reference = total / 7
    else:
        extra = torch.cat(batch[2:])
        owners = torch.arange(7).repeat(2)
        reference = gradlab.get_loss(f"mask({inner}, by=given)")(
            batch[0], batch[1], extra, normalize=True, mask=mask, owners=owners
        )
    assert float(value.detach()) == pytest.approx(float(reference.detach()), rel=1e-12)
    for actual, exact in zip(gradients, torch.autograd.grad(reference, batch), strict=True):
        assert actual.numpy() == pytest.approx(exact.numpy(), rel=1e-10, abs=1e-13)


def test_inspecting_a_mask_shows_what_it_leaves(tmp_path):
    rng = np.random.default_rng(0)
    views = {
        name: unit_rows(rng.normal(size=(12, 5)))
        for name in ("anchors", "positives", "hard_negatives")
    }
    file = tmp_path / "mask.txt"
    file.write_text("# rows: 12\n0,3\n1,2,1\n", encoding="utf-8")
    text = f"mask(infonce, by=pairs, pairs={file})"
    inspection = gradlab.inspect(embeddings=views, loss=text, batch_size=12, batches=1)
    mask = np.zeros((12, 24), dtype=bool)
    mask[[0, 3, 1], [3, 0, 14]] = True
    components = gradlab.components("mask(infonce, by=given)", *views.values(), mask=mask)
    np.testing.assert_allclose(inspection.totals.sent, components.total_push, rtol=1e-6)
    # Without texts, too, a table says which column a vector is of.
    assert {"sentence", "hard_negative"} <= set(inspection.table("pairs")["second_column"])
    assert set(inspection.table("hard-negatives")["column"]) == {"hard_negative"}
