"""The watcher: it changes nothing, its numbers are right, and it works wherever people train."""

from __future__ import annotations

import copy
import functools
import json
import random
import warnings
from importlib import metadata

import numpy as np
import pytest
import torch
import transformers
from packaging.version import Version

import gradlab
from gradlab import GradlabError
from gradlab.gradient.statistics import diagnose
from gradlab.monitor.batch_measurement import Probe, Snapshot
from gradlab.monitor.metrics import mean_of, read_metrics
from gradlab.monitor.run_reader import read_recording
from gradlab.monitor.watch import LoopWatch, TrainingWarning
from gradlab.report import write_report
from tests.sentence_training import (
    columns_of,
    load_model,
    losses,
    make_trainer,
    relative_difference,
    weights,
)
from tests.tiny_models import make_sentences

adapter = pytest.importorskip("gradlab.integrations.sentence_transformers")


takes_embeddings = pytest.mark.skipif(
    not hasattr(losses.TripletLoss, "compute_loss_from_embeddings"),
    reason="this version does not compute its losses apart from their embeddings",
)


def infonce(model):
    return adapter.loss(model, "infonce")


def in_chunks(model):
    """Pieces of a column hold its longest sentences first."""
    return adapter.loss(model, "infonce", chunk_size=3)


def mnrl(model):
    return losses.MultipleNegativesRankingLoss(model, scale=20.0)


def cached(model):
    return losses.CachedMultipleNegativesRankingLoss(model, scale=20.0, mini_batch_size=5)


def cosine_triplet(model):
    return losses.TripletLoss(model, losses.TripletDistanceMetric.COSINE, triplet_margin=0.3)


def random_states():
    return (
        torch.get_rng_state().tolist(),
        random.getstate(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002
    )


def equal_weights(model, second_model):
    pairs = zip(model.parameters(), second_model.parameters(), strict=True)
    return all(torch.equal(first, second) for first, second in pairs)


@pytest.fixture(scope="module")
def trained_before(bert, tmp_path_factory):
    """A process's first training, watched or not, leaves Python's generator in another state."""
    make_trainer(
        bert, tmp_path_factory.mktemp("first"), infonce, columns_of(48, 1), max_steps=1
    ).train()


class DrawingInfoNCE(type(gradlab.get_loss("infonce"))):
    """A loss of one's own with formulas, which draws a random number in each call."""

    name = "drawing_infonce"

    def summary(self, negatives):
        assert torch.rand(()) < 1
        assert random.random() < 1
        return super().summary(negatives)


def drawing_code(anchors, positives):
    """A loss given as code, which draws random numbers in each call."""
    logits = anchors @ positives.T + 0 * torch.rand(()) + 0 * random.random()
    return torch.nn.functional.cross_entropy(logits, torch.arange(len(anchors)))


class HoldsALoss(torch.nn.Module):
    """A module that passes its arguments to a loss of gradlab, here one given as code."""

    def __init__(self):
        super().__init__()
        self.loss = gradlab.get_loss(drawing_code)

    def forward(self, anchors, positives):
        return self.loss(anchors, positives, normalize=True)


@pytest.mark.parametrize("loss", [DrawingInfoNCE, HoldsALoss])
def test_losses_of_ones_own_may_draw_random_numbers(tmp_path, loss):
    watcher = gradlab.watch(None, loss=loss(), output=tmp_path, every=1)
    before = random_states()
    for _ in range(2):
        watcher.observe(torch.ones(6, 4) + torch.eye(6, 4), torch.eye(6, 4) + 0.5)
    assert random_states() == before
    assert not watcher.to_frame().empty


def test_copies_of_a_watched_loss_count_their_calls_without_gradient_together(tmp_path):
    watched = gradlab.watch(lambda a, p: ((a - p) ** 2).mean(), output=tmp_path, every=1)
    evaluated = copy.copy(watched)
    rows = torch.randn(2, 8, 4, requires_grad=True)
    watched(*rows).backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(12):
            evaluated(*rows.detach())
    assert watched.watch.step == 1


class LearnsBeside:
    """A loss that is no module: what it holds has learned its temperature."""

    def __init__(self):
        self.criterion = gradlab.learnable("infonce(temperature=0.1)")
        self.loss = self.criterion.loss

    def __call__(self, anchors, positives):
        return self.criterion(anchors, positives, normalize=True)


def test_learned_settings_of_a_loss_that_is_no_module(tmp_path):
    loss = LearnsBeside()
    watched = gradlab.watch(loss, output=tmp_path, every=1)
    with torch.no_grad():
        for parameter in loss.criterion.parameters():
            parameter -= 0.5
    rows = torch.randn(2, 8, 4, requires_grad=True)
    watched(*rows).backward()
    views = torch.nn.functional.normalize(rows.detach().double(), dim=2)
    expected = diagnose(loss.criterion.current, *views)["gradient_dissipation"]
    recorded = watched.to_frame()["gradient_dissipation"].iloc[0]
    assert recorded == pytest.approx(expected, rel=1e-6)


def test_one_measurement_is_its_own_mean():
    measurement = {"diagnostics": {"alignment": torch.tensor(0.5, requires_grad=True)}}
    assert mean_of([measurement]) is measurement


def test_listeners_are_told_of_numbers_in_any_form_but_nan(tmp_path):
    watcher = gradlab.watch(None, loss="infonce", output=tmp_path)
    told = []
    watcher.begin(listeners=[lambda numbers, step: told.append((step, numbers))])
    watcher.write(3, {"train": {"speed": "1.5", "rate": float("nan"), "norm": torch.tensor(2.0)}})
    assert told == [(3, {"train/speed": 1.5, "train/norm": 2.0})]


@pytest.mark.usefixtures("trained_before")
@pytest.mark.parametrize(
    ("loss", "columns"), [(cached, 2), pytest.param(cosine_triplet, 3, marks=takes_embeddings)]
)
def test_training_is_the_same_bit_by_bit(bert, tmp_path, loss, columns):
    ends = {}
    for watched in (False, True):
        place = tmp_path / str(watched)
        trainer = make_trainer(
            bert, place, loss, columns_of(48, columns), max_steps=4, logging_steps=1
        )
        if watched:
            watcher = gradlab.watch(trainer, every=1)
        trainer.train()
        assert not trainer.model._forward_hooks
        logged = [row["loss"] for row in trainer.state.log_history if "loss" in row]
        trainer.model.save_pretrained(str(place / "model"))
        files = {path.name: path.read_bytes() for path in (place / "model").rglob("*.[jst]*")}
        ends[watched] = weights(trainer.model), random_states(), logged, files
    assert len(watcher.to_frame().dropna(subset=["gradient_dissipation"])) == 4
    plain, observed = ends[False], ends[True]
    assert all(torch.equal(plain[0][name], observed[0][name]) for name in plain[0])
    assert plain[1:] == observed[1:]
    assert "model.safetensors" in plain[3]


@pytest.mark.parametrize(
    ("loss", "columns"),
    [(infonce, 1), (in_chunks, 3), (mnrl, 2), (cached, 3)],
)
def test_numbers_are_those_of_the_components_of_the_same_batch(
    bert, tmp_path, loss, columns, monkeypatch
):
    """The loss module is made to tell its embeddings; the watcher has to find them by itself."""
    batches = []

    def listen(model):
        module = loss(model)
        name = "compute_loss_from_embeddings"
        if loss is cached:  # older versions have the first of these for training
            name = next(
                n
                for n in ("calculate_loss_and_cache_gradients", "calculate_loss")
                if hasattr(module, n)
            )
        if not hasattr(module, name):
            pytest.skip("this version does not compute the loss apart from its embeddings")
        original = getattr(module, name)

        def listening(rows, *args, **kwargs):
            batches.append(
                [
                    (torch.cat(column) if loss is cached else column).detach().clone()
                    for column in rows
                ]
            )
            return original(rows, *args, **kwargs)

        monkeypatch.setattr(module, name, listening, raising=False)
        return module

    trainer = make_trainer(bert, tmp_path, listen, columns_of(40, columns), max_steps=4)
    watcher = gradlab.watch(trainer, every=2, output=tmp_path / "watched")
    trainer.train()
    frame = watcher.to_frame()
    definition = gradlab.get_loss("infonce", temperature=0.05)
    for step in (0, 2):
        anchors, positives, *hard = (rows.double() for rows in batches[step])
        extra = torch.cat(hard) if hard else None
        expected = diagnose(definition, anchors, positives, extra, normalize=True)
        recorded = frame.loc[step, list(expected)].to_dict()
        assert recorded == pytest.approx(expected, rel=1e-12)
    rows = read_metrics(tmp_path / "watched" / "metrics.csv")
    written = {(step, name): value for step, group, name, value in rows if group == "diagnostics"}
    assert written[2, "ratio"] == frame.loc[2, "ratio"]
    manifest = json.loads((tmp_path / "watched" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["watch"]["components"] == {"loss": "closed form"}


def gist(model):
    guide = copy.deepcopy(model)
    with torch.no_grad():  # another model
        for parameter in guide.parameters():
            parameter.mul_(1.3)
    return losses.CachedGISTEmbedLoss(model, guide, temperature=0.1, margin=0.02, mini_batch_size=3)


def gte(model):
    directions = ("query_to_doc", "doc_to_query", "query_to_query", "doc_to_doc")
    return losses.MultipleNegativesRankingLoss(
        model, directions=directions, hardness_mode="hard_negatives", hardness_strength=5.0
    )


def batch_all(model):
    distance = losses.BatchHardTripletLossDistanceFunction.cosine_distance
    return losses.BatchAllTripletLoss(model, distance, 0.3)


@pytest.mark.filterwarnings("ignore::gradlab.monitor.watch.TrainingWarning")
@pytest.mark.parametrize(
    ("make", "columns", "label"),
    [
        (gist, 3, None),
        (gte, 3, None),
        (lambda m: losses.EmbedDistillLoss(m), 1, lambda i: np.eye(32)[i].tolist()),
        (losses.CoSENTLoss, 2, lambda i: i / 32),
        (batch_all, 1, lambda i: i % 4),
        (lambda m: adapter.loss(m, "supcon"), 2, lambda i: i % 4),
        (
            lambda m: adapter.loss(m, "margin_mse", hard_negatives="own"),
            3,
            lambda i: [1, i / 32],
        ),
    ],
)
def test_losses_of_other_kinds_are_measured_in_closed_form(bert, tmp_path, make, columns, label):
    """What is measured is what was trained: every record compares the value."""
    table = columns_of(32, columns)
    if label is not None:
        table["label"] = [label(row) for row in range(32)]
    elif columns == 3:
        # Of identical texts sentence-transformers keeps the columns of the sentence itself.
        table["positive"] = [text.split(maxsplit=1)[1] for text in table["anchor"]]
    try:
        trainer = make_trainer(bert, tmp_path, make, table, max_steps=2)
    except (AttributeError, TypeError) as error:
        # The oldest sentence-transformers that is supported.
        if Version(metadata.version("sentence-transformers")) >= Version("6"):
            raise
        pytest.skip(f"{metadata.version('sentence-transformers')}: {error}")
    watcher = gradlab.watch(trainer, every=1)
    trainer.train()
    manifest = json.loads((tmp_path / "gradlab" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["watch"]["components"] == {"loss": "closed form"}
    assert not manifest["watch"]["notes"]
    frame = watcher.to_frame()
    only_pulls = type(trainer.loss).__name__ == "EmbedDistillLoss"  # it has no gate
    assert (frame["gradient_dissipation"].isna() == only_pulls).all()
    assert not [name for name in frame if "learned" in name]  # a guide is not
    if make is gist:
        assert (frame["masked_pairs"] > 0).all()


@takes_embeddings
def test_a_loss_of_another_library_is_decomposed(bert, tmp_path):
    class Own(losses.TripletLoss):
        """A class of one's own is not recognised."""

    trainer = make_trainer(
        bert, tmp_path, lambda m: Own(m, losses.TripletDistanceMetric.COSINE, 0.3),
        columns_of(32, 3), max_steps=2
    )  # fmt: skip
    watcher = gradlab.watch(trainer, every=1)
    trainer.train()
    assert "decomposition" in (tmp_path / "gradlab" / "manifest.json").read_text(encoding="utf-8")
    row = watcher.to_frame().loc[0]
    # Each gate is open or closed; the force on the only negative is that on the positive.
    assert row["ratio_of_pushed"] == pytest.approx(1, rel=1e-6)
    assert row["hardest_share_of_pushed"] == pytest.approx(1, rel=1e-6)
    assert row["relative_push"] == pytest.approx(row["pushed"], abs=1e-6)


def test_accumulation_evaluation_and_trackers(bert, tmp_path):
    from datasets import Dataset
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trainer = make_trainer(
        bert, tmp_path, infonce, columns_of(64), max_steps=6, gradient_accumulation_steps=2,
        logging_steps=2, eval_strategy="steps", eval_steps=2, report_to="tensorboard",
        eval_dataset=Dataset.from_dict(columns_of(20, seed=4)),
    )  # fmt: skip
    watcher = gradlab.watch(trainer, every=2)
    trainer.train()
    assert watcher.history.series("diagnostics", "ratio")[0] == [0, 2, 4]
    assert watcher.history.series("evaluation", "eval_loss")[0] == [2, 4, 6]
    assert watcher.history.series("train", "loss")[0] == [2, 4, 6]
    (events,) = tmp_path.rglob("events.out.tfevents*")
    tracked = EventAccumulator(str(events))
    tracked.Reload()
    scalars = tracked.Scalars("train/gradlab/gradient_dissipation")
    assert scalars[1].value == pytest.approx(
        watcher.to_frame().loc[2, "gradient_dissipation"], rel=1e-6
    )


@pytest.mark.skipif(
    Version(transformers.__version__) < Version("4.48")
    and Version(torch.__version__) >= Version("2.6"),
    reason="this transformers cannot read the random state it has saved "
    "with a torch as new as this",
)
def test_a_resumed_run_continues_its_recording(bert, tmp_path):
    settings = {"save_strategy": "steps", "save_steps": 4, "max_steps": 8}
    trainer = make_trainer(bert, tmp_path, infonce, columns_of(64), **settings)
    whole = gradlab.watch(trainer, every=2)
    trainer.train()
    expected = whole.to_frame()
    second_trainer = make_trainer(bert, tmp_path, infonce, columns_of(64), **settings)
    resumed = gradlab.watch(second_trainer, every=2)
    second_trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    rows = read_metrics(resumed.folder / "metrics.csv")
    assert len(rows) == len({row[:3] for row in rows})
    assert resumed.history.series("train", "loss")[0] == whole.history.series("train", "loss")[0]
    assert "4 records" in resumed.summary()
    recorded = {(step, name): value for step, group, name, value in rows if group == "diagnostics"}
    assert sorted({step for step, _ in recorded}) == [0, 2, 4, 6]
    assert recorded[0, "alignment"] == expected.loc[0, "alignment"]
    # Some older versions do not resume to the same weights, watched or not; then, and only then,
    # the numbers differ too.
    same = relative_difference(weights(second_trainer.model), weights(trainer.model)) == 0
    assert same == (
        recorded[6, "alignment"] == pytest.approx(expected.loc[6, "alignment"], rel=1e-6)
    )
    assert recorded[6, "alignment"] == resumed.to_frame().loc[6, "alignment"]


def test_a_loop_of_ones_own_is_continued(tmp_path):
    def look(watcher, steps):
        for _ in range(steps):
            watcher.observe(torch.randn(4, 3), torch.randn(4, 3))
        return watcher

    killed = look(LoopWatch("infonce", output=tmp_path, every=1), 5)
    killed.log(3, "evaluation", {"before": 1.0})
    killed.log(4, "evaluation", {"after": 1.0})
    resumed = LoopWatch("infonce", output=tmp_path, every=1)
    resumed.start(3)
    look(resumed, 4)
    rows = read_metrics(tmp_path / "metrics.csv")
    assert len(rows) == len({row[:3] for row in rows})
    series = resumed.history.series("diagnostics", "alignment")
    assert series[0] == list(range(7))
    assert series[1][:3] == killed.history.series("diagnostics", "alignment")[1][:3]
    assert series[1][3] != killed.history.series("diagnostics", "alignment")[1][3]
    assert resumed.history.names("evaluation") == ["before"]
    fresh = look(LoopWatch("infonce", output=tmp_path, every=1), 1)
    assert fresh.history.series("diagnostics", "alignment")[0] == [0]


@pytest.mark.parametrize(("name", "remains"), [("opposed_pairs", False), ("grad_norm", True)])
def test_signs_of_batches_are_measured_anew_after_resuming(tmp_path, name, remains):
    watcher = LoopWatch("infonce", output=tmp_path, every=1)
    watcher.observe(torch.eye(4), torch.eye(4).roll(1, 0))
    watcher.log(3, "train", {name: 0.5})
    resumed = LoopWatch("infonce", output=tmp_path, every=1)
    resumed.start(3)
    assert (name in resumed.history.names("train")) == remains


# Hugging Face's Trainer and loops of one's own


class TwoViews(torch.nn.Module):
    """A model that computes its own loss, as people write for the Trainer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 8)
        )
        self.extra_term = 0.0

    def forward(self, x):
        first, second = self.encoder(x), self.encoder(x)
        loss = gradlab.get_loss("infonce")(first, second, normalize=True) + self.extra_term
        return {
            "loss": loss,
            "z1": first,
            "z2": second,
            "both": torch.stack([first, second], dim=1),
        }


def hugging_face_trainer(place, model=None):
    from transformers import Trainer, TrainingArguments

    rows = torch.randn(64, 6, generator=torch.Generator().manual_seed(1))
    return Trainer(
        model=model or TwoViews(),
        args=TrainingArguments(
            output_dir=str(place), max_steps=4, per_device_train_batch_size=16, use_cpu=True,
            seed=3, report_to="none", save_strategy="no", disable_tqdm=True,
            remove_unused_columns=False, learning_rate=0.05,
        ),
        train_dataset=[{"x": row} for row in rows],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("views", "further"),
    [("both", 0.0), (("z1", "z2"), 1.0), (lambda out: (out["z1"], out["z2"]), 0.0)],
)
def test_hugging_face_trainer_with_named_views(tmp_path, views, further):
    """Where the loss has further terms, the named one is measured alone, which is said."""
    models = []
    for watched in (False, True):
        models.append(TwoViews())
        models[-1].extra_term = further
        trainer = hugging_face_trainer(tmp_path / str(watched), models[-1])
        if watched:
            watcher = gradlab.watch(trainer, views=views, loss="infonce", every=1)
        trainer.train()
    assert equal_weights(*models)
    frame = watcher.to_frame()
    assert frame["gradient_dissipation"].notna().sum() == 4
    assert (frame["ratio"].dropna() == 1).all()
    assert ("alone" in watcher.summary()) == bool(further)


@pytest.mark.parametrize("calls", [2, 3])
def test_a_model_called_once_for_each_column(tmp_path, calls):
    """The third column holds hard negatives."""
    from transformers import Trainer

    batches = []

    class Contrastive(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            noises = (0.0, 0.1, 3.0)[:calls]
            rows = [model(inputs["x"] + noise)["z"] for noise in noises]
            batches.append([column.detach().double() for column in rows])
            value = gradlab.get_loss("arccon")(*rows, normalize=True)
            return (value, {}) if return_outputs else value

    class Encoder(TwoViews):
        def forward(self, x):
            return {"z": self.encoder(x)}

    base = hugging_face_trainer(tmp_path, Encoder())
    trainer = Contrastive(model=base.model, args=base.args, train_dataset=base.train_dataset)
    watcher = gradlab.watch(trainer, views="z", loss="arccon", every=1)
    trainer.train()
    components_of_steps = [gradlab.components("arccon", *rows, normalize=True) for rows in batches]
    expected = [float(components.gradient_dissipation.mean()) for components in components_of_steps]
    recorded = watcher.to_frame()["gradient_dissipation"].dropna().tolist()
    assert recorded == pytest.approx(expected, rel=1e-6)
    assert "alone" not in watcher.summary()


def loop(criterion, steps=4):
    torch.manual_seed(0)
    encoder = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.2))
    optimiser = torch.optim.SGD(encoder.parameters(), lr=0.1)
    for _ in range(steps):
        batch = torch.randn(16, 6)
        first, second = encoder(batch), encoder(batch)
        value = criterion(first, second)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
    return encoder, random_states()


class Queue(torch.nn.Module):
    """A loss with a memory, a random part and parameters: nothing to call behind its back."""

    def __init__(self):
        super().__init__()
        self.register_buffer(
            "queue", torch.nn.functional.normalize(torch.ones(4, 8) + torch.eye(4, 8), dim=1)
        )
        self.calls = 0

    def forward(self, first, second):
        self.calls += 1
        first, second = (torch.nn.functional.normalize(rows, dim=1) for rows in (first, second))
        logits = torch.cat([first @ second.T, first @ self.queue.to(first).T], dim=1) * 10
        self.queue = torch.cat([second.detach(), self.queue])[:4]
        return torch.nn.functional.cross_entropy(logits, torch.arange(len(first)))


def normalised(name):
    return lambda first, second: gradlab.get_loss(name)(first, second, normalize=True)


def test_a_watched_loss_in_a_loop_of_ones_own(tmp_path):
    plain, state = loop(normalised("infonce"))
    criterion = gradlab.watch(normalised("infonce"), loss="infonce", every=1, output=tmp_path)
    observed, observed_state = loop(criterion)
    assert state == observed_state
    assert equal_weights(plain, observed)
    assert criterion.watch.to_frame()["gradient_dissipation"].notna().sum() == 4
    with torch.no_grad():
        criterion(torch.randn(3, 8), torch.randn(3, 8))  # an evaluation is no step
    assert len(criterion.watch.to_frame()) == 4


def supervised(rows, labels):
    """Supervised contrast of rows with those of their class."""
    unit = torch.nn.functional.normalize(rows, dim=1)
    own = torch.eye(len(rows), dtype=torch.bool)
    logs = (10 * unit @ unit.T).masked_fill(own, -torch.inf).log_softmax(1)
    alike = (labels[:, None] == labels) & ~own
    return -logs[alike].mean()


def of_two_views(rows, labels):
    """The same of (N, 2, D)."""
    return supervised(torch.cat(rows.unbind(1)), labels.repeat(2))


def of_masked_tokens(first, first_mask, second, second_mask):
    anchors, positives = ((rows * mask[..., None]).sum(1) for rows, mask in
                          ((first, first_mask), (second, second_mask)))  # fmt: skip
    return torch.nn.functional.cross_entropy(anchors @ positives.T, torch.arange(len(anchors)))


def beside_masks(first, first_mask, second, second_mask):
    return normalised("infonce")(first, second)


def test_embeddings_of_a_loop_are_found_beside_labels_and_masks(tmp_path):
    labels, mask = torch.arange(8) % 3, torch.ones(8, 5, dtype=torch.bool)
    rows = torch.randn(8, 2, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
    tokens = torch.randn(8, 5, 6, requires_grad=True)
    calls = {
        "one view": (supervised, (rows[:, 0], labels)),
        "two views": (of_two_views, (rows, labels)),
        "masks": (beside_masks, (rows[:, 0], mask, rows[:, 1], mask)),
    }
    for name, (loss, arguments) in calls.items():
        watched = gradlab.watch(loss, every=1, output=tmp_path / name)
        watched(*arguments)
        frame = watched.watch.to_frame()
        assert frame["effective_rank"].notna().all(), name
        assert ("positive_cosine" in frame) is (name != "one view")
    watched = gradlab.watch(of_masked_tokens, every=1, output=tmp_path / "tokens")
    with pytest.warns(TrainingWarning, match="name them with views="):
        watched(tokens, mask, tokens, mask)


def test_a_loss_of_more_than_two_views_is_not_blamed_for_the_call_of_a_trial(tmp_path):
    def of_four(first, second, third, fourth):
        return normalised("infonce")(torch.cat([first, third]), torch.cat([second, fourth]))

    def tabled(first, second, weights, table):
        return (weights * (first - second).square().sum(1)).mean() + table.sum()

    rows = torch.randn(4, 4, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
    for loss, further in ((of_four, rows[2:]), (tabled, [torch.rand(4), torch.rand(2, 2)])):
        watched = gradlab.watch(loss, every=1, output=tmp_path / loss.__name__)
        watched(*rows[:2], *further)
        assert "raised" not in watched.watch.summary()


def test_a_loss_that_never_has_a_gradient_is_named_once(tmp_path):
    watched = gradlab.watch(normalised("infonce"), every=1, output=tmp_path)
    rows = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for _ in range(20):
            watched(*rows)  # an evaluation
    for _ in range(9):
        watched(*rows)
    with pytest.warns(TrainingWarning, match="never with a gradient"):
        watched(*rows)
    for _ in range(8):
        watched(*rows)
    assert watched.watch.begun  # all calls were training, none was an evaluation before it
    watched.finish()
    assert "embeddings without gradient" in {v.name for v in watched.watch.judgement.verdicts}


def test_scores_of_a_loop_are_judged_as_those_of_a_trainer(tmp_path):
    watched = gradlab.watch(normalised("infonce"), every=1, output=tmp_path)
    watched.watch.log(0, "evaluation", {"eval_ndcg@10": 0.3})
    loop(watched)
    watched.watch.log(4, "evaluation", {"eval_ndcg@10": 0.6})
    watched.finish()
    (score,) = read_recording(tmp_path).history.scores()
    assert (score.before, score.last) == (0.3, (4, 0.6))


@pytest.mark.parametrize("factor", [1.0, 1e-9])
@pytest.mark.parametrize("trained_on_lengths", [False, True])
def test_a_loss_of_any_scale_is_told_from_another_one(factor, trained_on_lengths):
    """The loss of rows as they are or of unit ones; near 0, it differs by the logits' rounding."""
    generator = torch.Generator().manual_seed(0)
    anchors = 3 * torch.randn(8, 16, generator=generator)
    unit = torch.nn.functional.normalize(anchors, dim=1)

    def loss(first, second):
        return factor * torch.nn.functional.cross_entropy(20 * first @ second.T, torch.arange(8))

    trained_rows = (anchors if trained_on_lengths else unit).float()
    probe = Probe(loss)
    probe.measure(
        Snapshot(
            anchors, anchors.clone(), value=float(loss(trained_rows, trained_rows)) + factor * 1e-6
        )
    )
    probe.measure(
        Snapshot(
            anchors, anchors.roll(1, 0), value=float(loss(trained_rows, trained_rows.roll(1, 0)))
        )
    )
    assert ("not recorded" in probe.note) == trained_on_lengths


def test_a_loss_with_a_memory_is_left_alone(tmp_path):
    plain, watched = Queue(), Queue()
    loop(plain)
    criterion = gradlab.watch(watched, every=1, output=tmp_path)
    loop(criterion)
    assert watched.calls == plain.calls == 4
    assert torch.equal(watched.queue, plain.queue)
    assert "not recorded" in criterion.watch.summary()


def test_views_that_fail_later_end_the_watching_and_not_the_run(tmp_path):
    calls = []

    def views(first, second):
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("no such view")
        return first, second

    criterion = gradlab.watch(
        normalised("infonce"), loss="infonce", views=views, every=2, output=tmp_path
    )
    with pytest.warns(TrainingWarning, match=r"stopped recording.*no such view"):
        encoder, _ = loop(criterion, steps=5)
    plain, _ = loop(normalised("infonce"), steps=5)
    assert equal_weights(plain, encoder)


class Gathering(torch.nn.Module):
    """As losses of sentence-transformers that take the sentences of all processes as negatives."""

    gather_across_devices = True

    def forward(self, first, second):
        return normalised("infonce")(first, second)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_loss_that_gathers_is_not_called_by_one_process_alone(tmp_path, monkeypatch, processes):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: processes)
    watcher = gradlab.watch(loss=Gathering(), every=1, output=tmp_path)
    watcher.observe(*torch.randn(2, 6, 5))
    assert ("relative_push" in watcher.to_frame()) == (processes == 1)
    assert ("gathers sentences of other processes" in watcher.summary()) == (processes == 2)


def test_views_of_a_loss_and_blockwise_losses(tmp_path):
    batches = gradlab.watch(
        gradlab.blockwise("met"),
        every=1,
        output=tmp_path,
        views=lambda rows, positives, normalize: (rows, positives),
    )
    rows = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    value = batches(rows[0], rows[1], normalize=True)
    assert torch.equal(value, gradlab.blockwise("met")(rows[0], rows[1], normalize=True))
    expected = diagnose("met", *rows.detach().double(), normalize=True)
    assert batches.watch.to_frame().loc[0, list(expected)].to_dict() == pytest.approx(
        expected, rel=1e-6
    )


def test_large_batches_are_measured_exactly_on_some_anchors(monkeypatch, tmp_path):
    from gradlab.monitor import batch_measurement

    monkeypatch.setattr(batch_measurement, "MOST_ANCHORS", 8)
    rows = torch.randn(2, 24, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    watcher = gradlab.watch(loss="arccon", output=tmp_path)
    watcher.observe(*rows)
    components = gradlab.components("arccon", *rows, normalize=True)
    row = watcher.to_frame().loc[0]
    assert row["gradient_dissipation"] == pytest.approx(
        float(components.gradient_dissipation[:8].mean()), rel=1e-12
    )
    assert row["hardest_share"] == pytest.approx(
        float(components.hardest_share[:8].mean()), rel=1e-12
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: gradlab.watch(3, output=p), "Trainer or a loss"),
        (lambda p: gradlab.watch(hugging_face_trainer(p)), "name them"),
        (
            lambda p: [
                gradlab.watch(trainer, views="both") for trainer in [hugging_face_trainer(p)] * 2
            ],
            "already",
        ),
    ],
)
def test_bad_input(call, words, tmp_path):
    with pytest.raises(GradlabError, match=words):
        call(tmp_path)


@pytest.mark.parametrize("arguments", [
    {}, {"reduction": "sum"}, {"own": True}, {"in_batch_negatives": False, "own": True},
    {"mask": True}, {"labels": [0, 0, 1, 2, 3, 4, 5, 6]}, {"teacher": True},
], ids=lambda arguments: " ".join(arguments) or "nothing")  # fmt: skip
def test_a_watched_loss_is_measured_on_all_that_it_is_given(tmp_path, arguments) -> None:
    """The recorded dissipation is that of the components on the same arguments."""
    torch.manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(8, 6, 16, dtype=torch.float64), dim=-1)
    anchors, positives = (
        rows[:, 0],
        torch.nn.functional.normalize(rows[:, 0] + 0.3 * rows[:, 1], dim=-1),
    )
    context = {
        name: argument
        for name, argument in arguments.items()
        if name in ("in_batch_negatives", "labels")
    }
    if "own" in arguments:
        context["own_negatives"] = rows[:, 2:4]
    if "mask" in arguments:
        context["mask"] = torch.eye(8, dtype=torch.bool).roll(1, 0)
    if "teacher" in arguments:
        context["teacher"] = (rows[:, 4], rows[:, 5])
    loss = (
        "kl"
        if "teacher" in arguments
        else "mask(infonce,by=given)"
        if "mask" in arguments
        else "infonce"
    )
    for number, criterion in enumerate((gradlab.get_loss(loss), gradlab.get_loss(loss).module())):
        watched = gradlab.watch(criterion, output=tmp_path / str(number), total_steps=1)
        reduction = {"reduction": arguments["reduction"]} if "reduction" in arguments else {}
        watched(anchors.clone().requires_grad_(), positives, **reduction, **context)
        watched.finish()
        _, values = watched.watch.history.series("diagnostics", "gradient_dissipation")
        expected = gradlab.components(
            loss, anchors, positives, **context
        ).gradient_dissipation.mean()
        assert values == pytest.approx([float(expected)], rel=1e-9)


@pytest.mark.parametrize("of_the_library", [False, True])
def test_a_learned_temperature_is_measured_as_it_is_by_then(tmp_path, of_the_library):
    """InfoNCE's dissipation is the probability of all negatives, at the temperature of the step."""
    rows = torch.randn(2, 8, 6, generator=torch.Generator().manual_seed(0))
    first, second = rows[0], rows[0] + 0.7 * rows[1]
    if of_the_library:
        criterion = adapter.loss(torch.nn.Identity(), "infonce(learnable=true)")
        module, called = criterion.criterion, criterion.compute_loss_from_embeddings
    else:
        module = criterion = gradlab.learnable("infonce")
        called = functools.partial(criterion, normalize=True)
    watch = LoopWatch(criterion, output=tmp_path, every=1, named=False)
    optimiser = torch.optim.SGD(module.parameters(), lr=2.0)
    cosines = torch.nn.functional.cosine_similarity(first[:, None].double(), second.double(), dim=2)
    expected = []
    for _ in range(4):
        value = called([first, second]) if of_the_library else called(first, second)
        watch.observe(first, second, value=value)
        probabilities = torch.softmax(
            cosines / module.values["log_temperature"].detach().double().exp(), 1
        )
        expected.append(1 - float(probabilities.diagonal().mean()))
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
    assert abs(expected[3] - expected[0]) > 0.01
    assert watch.to_frame()["gradient_dissipation"].tolist() == pytest.approx(expected, rel=1e-5)


def test_a_model_that_holds_a_watched_loss_trains_moves_and_saves_it(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self, watched):
            super().__init__()
            torch.manual_seed(0)
            self.layer, criterion = torch.nn.Linear(6, 8), gradlab.learnable("infonce")
            self.criterion = (
                gradlab.watch(criterion, every=1, output=tmp_path) if watched else criterion
            )

        def forward(self, rows):
            first = self.layer(rows)
            return self.criterion(first, first.tanh(), normalize=True)

    plain, watched = models = Model(False), Model(True)
    rows = torch.randn(16, 6)
    for model in models:
        optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
        model(rows).backward()
        optimiser.step()
    state = plain.state_dict()
    assert list(state) == list(watched.state_dict())
    assert all(torch.equal(value, state[name]) for name, value in watched.state_dict().items())
    assert [name for name, _ in plain.named_parameters()] == [
        name for name, _ in watched.named_parameters()
    ]
    temperature = watched.double().criterion.loss.values["log_temperature"]
    assert temperature.dtype == torch.float64
    watched.eval()
    assert not watched.criterion.loss.training
    copied = copy.deepcopy(watched)
    copied.load_state_dict({name: value + 1 for name, value in watched.state_dict().items()})
    assert copied.criterion.loss.values["log_temperature"].item() == temperature.item() + 1


def test_what_is_set_on_a_watched_loss_is_set_on_the_loss(tmp_path):
    class Scaled:
        scale = 1.0

        def __call__(self, first, second):
            return -self.scale * (first * second).sum()

    criterion = gradlab.watch(Scaled(), output=tmp_path)
    rows = torch.ones(2, 3, requires_grad=True)
    criterion.scale = 5.0
    assert float(criterion(rows, rows.detach()).detach()) == -30.0


def test_datasets_that_take_turns_are_recorded_each_with_its_loss(bert, tmp_path):
    """At even steps it is always the turn of the first."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    trainer = SentenceTransformerTrainer(
        model=load_model(bert),
        args=SentenceTransformerTrainingArguments(
            output_dir=str(tmp_path), max_steps=7, per_device_train_batch_size=8, use_cpu=True,
            save_strategy="no", report_to="none", disable_tqdm=True,
            multi_dataset_batch_sampler="round_robin", learning_rate=1e-5,
        ),
        train_dataset={name: Dataset.from_dict(columns_of(48)) for name in ("first", "second")},
        loss={"first": lambda m: adapter.loss(m, "arccon"), "second": mnrl},
    )  # fmt: skip
    original, batch_losses = trainer.compute_loss, {"first": {}, "second": {}}

    def compute_loss(model, inputs, *args, **kwargs):
        name = inputs["dataset_name"]
        value = original(model, inputs, *args, **kwargs)
        batch_losses[name][trainer.state.global_step] = float(value.detach())
        return value

    trainer.compute_loss = compute_loss
    watcher = gradlab.watch(trainer, every=2)
    trainer.train()
    for name, values in batch_losses.items():
        steps, recorded = watcher.history.series("train", f"batch_loss {name}")
        # The first turn at or after each even step.
        assert steps == sorted(
            {min(s for s in values if s >= at) for at in range(0, 7, 2) if max(values) >= at}
        )
        assert recorded == [values[step] for step in steps]
        assert watcher.history.series(f"diagnostics {name}", "alignment")[0] == steps
    first, second = (
        watcher.history.series(f"diagnostics {n}", "ratio_median")[1] for n in batch_losses
    )
    assert min(first) > 1.01
    assert set(second) == {1.0}
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "Loss of recorded batches, second" in page


def test_what_a_loss_has_learned_is_recorded_once_a_step(tmp_path):
    rows = torch.randn(2, 8, 6, generator=torch.Generator().manual_seed(0))
    for start in (0, 2):
        watch = LoopWatch(gradlab.learnable("infonce"), output=tmp_path, every=1, named=False)
        watch.start(start)
        for _ in range(4):
            watch.observe(*rows)
    rows = read_metrics(tmp_path / "metrics.csv")
    assert "learned_log_temperature" in {name for _, _, name, _ in rows}
    assert len(rows) == len({row[:3] for row in rows})


def _evaluating(bert, folder, watched, **options):
    """A trainer with dropout, an evaluator and held-out data, trained for six steps."""
    try:
        from sentence_transformers.sentence_transformer import evaluation
    except ImportError:  # before version 6
        from sentence_transformers import evaluation
    texts = make_sentences(96)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(
        texts[:12], texts[12:24], [n / 11 for n in range(12)], name="dev", write_csv=False
    )
    table = {"anchor": texts[:48], "positive": texts[48:]}
    from datasets import Dataset

    trainer = make_trainer(
        bert, folder, lambda model: losses.MultipleNegativesRankingLoss(model), table,
        evaluator=evaluator, eval_dataset=Dataset.from_dict(table), eval_strategy="steps",
        eval_steps=3, max_steps=6,
    )  # fmt: skip
    watch = gradlab.watch(trainer, every=1, **options) if watched else None
    trainer.train()
    return trainer, watch


def test_a_score_before_training_is_measured_and_changes_no_weight(bert, tmp_path):
    plain, _ = _evaluating(bert, tmp_path / "plain", watched=False)
    trainer, watch = _evaluating(bert, tmp_path / "watched", watched=True)
    (score, *_) = watch.history.scores()
    # Only the manifest knows what the evaluator calls primary.
    (primary, *_) = read_recording(tmp_path / "watched").history.scores()
    assert score.before is not None
    assert primary.name == "eval_dev_spearman_cosine"
    assert primary.is_primary
    for name, weight in weights(plain.model).items():
        assert torch.equal(weight, weights(trainer.model)[name]), name


def test_an_evaluation_before_training_can_be_left_out(bert, tmp_path):
    trainer, watch = _evaluating(bert, tmp_path, watched=True, evaluate_first=False)
    assert not trainer.args.eval_on_start
    assert watch.history.scores()[0].before is None


def test_the_name_of_a_loss_is_watched_as_the_loss_is(tmp_path):
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(8, 16, generator=generator) for _ in range(2)]
    anchors, positives = (torch.nn.functional.normalize(row, dim=1) for row in rows)
    text = "symmetric(infonce(temperature=0.1))"
    records = []
    for target in (text, gradlab.get_loss(text)):
        criterion = gradlab.watch(target, output=tmp_path / str(len(records)), every=1)
        value = criterion(anchors.clone().requires_grad_(), positives, reduction="mean")
        records.append(
            (float(value.detach()), criterion.to_frame().filter(regex="cosine|dissipation|ratio"))
        )
    logits = 10 * anchors @ positives.T
    own = torch.arange(8)
    halves = [torch.nn.functional.cross_entropy(side, own) for side in (logits, logits.T)]
    assert records[0][0] == pytest.approx(float(sum(halves)) / 2, rel=1e-5)
    assert len(records[0][1].columns) > 3
    assert records[0][1].equals(records[1][1])
    with pytest.raises(gradlab.GradlabError, match="infonce"):
        gradlab.watch("infonc", output=tmp_path)
