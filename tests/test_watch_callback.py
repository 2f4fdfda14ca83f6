"""`WatchCallback`: the watch as a callback, what it tells trackers, notebooks and model cards."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import torch

import gradlab
from gradlab import GradlabError
from gradlab.monitor.run_reader import read_recording
from gradlab.monitor.score import Score
from gradlab.monitor.summaries import BLOCKS, sparkline
from gradlab.monitor.watch import TrainingWarning
from gradlab.monitor.watch_callback import evaluated_count
from gradlab.report.run_page import render_run
from tests.sentence_training import columns_of, losses, make_trainer, weights
from tests.test_watch import hugging_face_trainer, mnrl


def test_a_callback_records_what_a_watch_records(bert, tmp_path):
    frames, models = [], []
    for way in ("watch", "callback"):
        callback = gradlab.WatchCallback(every=1)
        options = {"callbacks": [callback]} if way == "callback" else {}
        trainer = make_trainer(
            bert, tmp_path / way, mnrl, columns_of(48), max_steps=4, logging_steps=1, **options
        )
        watch = gradlab.watch(trainer, every=1) if way == "watch" else None
        trainer.train()
        watch = watch or callback.watch
        frames.append(watch.to_frame()[["gradient_dissipation", "hardest_share"]])
        models.append(weights(trainer.model))
        assert (tmp_path / way / "gradlab" / "manifest.json").exists()
    assert frames[0].equals(frames[1])
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def test_a_callback_of_hugging_face(tmp_path):
    trainer = hugging_face_trainer(tmp_path)
    callback = gradlab.WatchCallback(views=("z1", "z2"), loss="infonce", every=1)
    trainer.add_callback(callback)
    trainer.train()
    assert callback.watch.to_frame()["gradient_dissipation"].notna().sum() == 4
    trainer.train()  # once more: the same watch, from the beginning
    assert callback.watch.to_frame()["gradient_dissipation"].notna().sum() == 4


def test_one_callback_for_two_trainers_records_both(tmp_path):
    callback = gradlab.WatchCallback(views=("z1", "z2"), loss="infonce", every=1)
    for name in ("first", "second"):
        trainer = hugging_face_trainer(tmp_path / name)
        trainer.add_callback(callback)
        trainer.train()
        assert callback.watch.folder == tmp_path / name / "gradlab"
        assert callback.watch.to_frame()["gradient_dissipation"].notna().sum() == 4


def test_how_much_an_evaluator_asks_is_recorded(bert, tmp_path):
    from tests.sentence_training import evaluation

    table = columns_of(48)
    trainer = make_trainer(
        bert, tmp_path, mnrl, table, max_steps=1, eval_strategy="steps", eval_steps=1,
        evaluator=evaluation.SequentialEvaluator([
            evaluation.TranslationEvaluator(table["anchor"][:20], table["positive"][:20]),
            evaluation.EmbeddingSimilarityEvaluator(*table.values(), scores=[0.5, 1.0] * 24),
        ]),
    )  # fmt: skip
    gradlab.watch(trainer, every=1)
    trainer.train()
    history = read_recording(tmp_path / "gradlab").history
    assert {score.count for score in history.scores()} == {20}
    assert evaluated_count(object()) == evaluated_count(None) == 0


def test_the_error_of_a_score_is_that_of_its_count():
    """Of a mean of zeros and ones it is exact; of a correlation, that of uncorrelated pairs."""
    draw = np.random.default_rng(0)
    shares = (draw.random((20_000, 50)) < 0.3).mean(1)
    assert Score("eval_accuracy", (), True, 50).error_of(0.3) == pytest.approx(
        shares.std(), rel=0.03
    )
    pairs = draw.standard_normal((20_000, 2, 50))
    pairs -= pairs.mean(2, keepdims=True)
    products = (pairs[:, 0] * pairs[:, 1]).sum(1) / np.linalg.norm(pairs, axis=2).prod(1)
    assert Score("eval_spearman", (), True, 50).error_of(0.0) == pytest.approx(
        products.std(), rel=0.03
    )
    assert Score("eval_accuracy", (), True).error_of(0.3) == 0


@pytest.mark.parametrize(
    ("callbacks", "words"),
    [
        (lambda: [gradlab.WatchCallback()], "name them"),
        (
            lambda: [gradlab.WatchCallback(views="both", loss="infonce") for _ in range(2)],
            "already watched",
        ),
        (lambda: [gradlab.WatchCallback(views="both", model_card=True)], "sentence-transformers"),
        (lambda: [gradlab.WatchCallback(views="both", loss="infonse")], "unknown loss"),
    ],
)
def test_a_callback_that_cannot_watch_gives_one_line_and_training_goes_on(
    tmp_path, callbacks, words
):
    trainer = hugging_face_trainer(tmp_path)
    for callback in callbacks():
        trainer.add_callback(callback)
    with pytest.warns(TrainingWarning, match=words) as record:
        trainer.train()
    (message,) = [str(w.message) for w in record if w.category is TrainingWarning]
    assert message.startswith("gradlab does not watch this run; training continues.")
    assert "\n" not in message
    assert trainer.state.global_step == 4


def test_a_callback_twice_in_one_list_records_once(tmp_path):
    callback = gradlab.WatchCallback(views=("z1", "z2"), loss="infonce", every=1)
    trainer = hugging_face_trainer(tmp_path)
    trainer.callback_handler.callbacks += [callback, callback]
    trainer.train()
    assert callback.watch.to_frame()["gradient_dissipation"].notna().sum() == 4


def test_events_from_what_is_no_trainer_give_one_line():
    from transformers import TrainerControl, TrainerState

    callback = gradlab.WatchCallback()
    with pytest.warns(TrainingWarning, match="needs a Trainer"):
        callback.on_train_begin(None, TrainerState(), TrainerControl())
    callback.on_log(None, TrainerState(), TrainerControl(), logs={"loss": 1.0})
    callback.on_train_end(None, TrainerState(), TrainerControl())


def test_a_bad_schedule_is_refused_at_once():
    with pytest.raises(GradlabError, match="every"):
        gradlab.WatchCallback(every=0)


# Trackers


def collapsing(bert, place, **options):
    """A run that shows a failure: the loss becomes infinite, and weights are lost."""
    return make_trainer(
        bert, place, mnrl, columns_of(48), max_steps=5, learning_rate=1e9, **options
    )


def test_tensorboard_gets_alerts_and_verdicts(bert, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trainer = collapsing(bert, tmp_path, report_to="tensorboard")
    watch = gradlab.watch(trainer, every=1)
    with pytest.warns(TrainingWarning):
        trainer.train()
    (events,) = tmp_path.rglob("events.out.tfevents*")
    tracked = EventAccumulator(str(events))
    tracked.Reload()

    def text(name):
        (event, *_) = tracked.Tensors(f"train/gradlab/{name}/text_summary")
        return event.tensor_proto.string_val[0].decode()

    judgement = watch.judgement
    assert judgement.headline in text("verdicts")
    for verdict in judgement.verdicts:
        assert f"| {verdict.title} | {verdict.grade} |" in text("verdicts")
    assert watch.failures[0].finding in text("alerts")
    assert "train/gradlab/negative_cosine" in tracked.Tags()["scalars"]


class Service:
    """What W&B's module offers its callback, remembered."""

    def __init__(self, down=False):
        self.run, self.summary, self.alerts, self.down = self, {}, [], down

    def alert(self, title, text, level):
        if self.down:
            raise ConnectionError("the service is down")
        self.alerts.append((title, text, level))


def tracker_of(service):
    from transformers import TrainerCallback

    class WandbCallback(TrainerCallback):
        _wandb = service
        logged = 0

        def on_log(self, *args, logs=None, **kwargs):
            ours = any(name.startswith("gradlab/") for name in logs)
            if service.down and ours:
                raise ConnectionError("the service is down")
            self.logged += ours

    return WandbCallback()


def test_weights_and_biases_gets_alerts_and_a_summary(bert, tmp_path):
    service = Service()
    trainer = collapsing(bert, tmp_path, callbacks=[tracker_of(service)])
    watch = gradlab.watch(trainer, every=1)
    with pytest.warns(TrainingWarning):
        trainer.train()
    title, text, level = service.alerts[0]
    assert title == "gradlab: " + watch.failures[0].title
    assert watch.failures[0].finding in text
    assert level == "ERROR"
    assert service.summary["train/gradlab/grade"] == watch.judgement.grade == "bad"
    for verdict in watch.judgement.verdicts:
        entry = service.summary[f"train/gradlab/verdicts/{verdict.title}"]
        assert entry == f"{verdict.grade}: {verdict.finding}"


def test_a_tracker_that_is_down_is_named_once_and_recording_continues(bert, tmp_path):
    up, down = tracker_of(Service()), tracker_of(Service(down=True))
    trainer = make_trainer(bert, tmp_path, mnrl, columns_of(48), max_steps=3, callbacks=[down, up])
    watch = gradlab.watch(trainer, every=1)
    with pytest.warns(TrainingWarning, match="leaves it out") as record:
        trainer.train()
    named = [w for w in record if "leaves it out" in str(w.message)]
    assert len(named) == 1
    assert "\n" not in str(named[0].message)
    assert up.logged == 3
    assert watch.to_frame()["gradient_dissipation"].notna().sum() == 3
    manifest = json.loads((watch.folder / "manifest.json").read_text())
    assert manifest["status"] == "finished"


# Notebooks and model cards


def test_a_watch_says_what_it_is(tmp_path):
    watch = gradlab.watch(loss="infonce(temperature=0.1)", output=tmp_path, every=1)
    assert str(watch) == (
        f"Watch of infonce(temperature=0.1) in {tmp_path}: not begun, no record yet."
    )
    assert "no record yet" in watch._repr_html_()
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        watch.observe(*torch.randn(2, 16, 8, generator=generator))
    assert "running, last record at step 2." in str(watch)
    assert watch.judgement.headline in str(watch)
    page = watch._repr_html_()
    assert page.count("<svg") == 4  # no value of the loss was given
    assert "Share of the hardest negative" in page
    assert watch.judgement.grade in page
    watch.finish()
    assert "finished" in str(watch)


def test_a_watched_loss_says_what_it_is(tmp_path):
    criterion = gradlab.watch(gradlab.blockwise("infonce"), output=tmp_path)
    assert "watched (Watch of infonce" in repr(criterion)
    assert "no record yet" in criterion._repr_html_()


def test_a_page_of_a_notebook_that_cannot_be_made_ends_no_run(tmp_path, monkeypatch):
    display = pytest.importorskip("IPython.display")
    monkeypatch.setattr(display, "display", lambda page, display_id: object())
    watch = gradlab.watch(loss="infonce", output=tmp_path, every=1)
    watch._ipython_display_()
    monkeypatch.setattr("gradlab.monitor.watch.as_html", lambda recording, judgement: 1 / 0)
    watch.observe(*torch.randn(2, 16, 8))
    assert "1 record in" in watch.finish()


def test_a_notebook_shows_each_record(tmp_path, monkeypatch):
    display = pytest.importorskip("IPython.display")
    pages = []

    class Handle:
        def update(self, page):
            pages.append(page.data)

    monkeypatch.setattr(display, "display", lambda page, display_id: Handle())
    watch = gradlab.watch(loss="infonce", output=tmp_path, every=1)
    watch._ipython_display_()
    for step in range(3):
        watch.observe(*torch.randn(2, 16, 8))
        assert f"step {step}" in pages[-1]
    watch.finish()
    assert "finished" in pages[-1]


def test_a_curve_of_characters():
    assert sparkline([0, 1]) == BLOCKS[0] + BLOCKS[-1]
    assert sparkline([2.0, 2.0]) == BLOCKS[4] * 2
    assert len(sparkline(list(range(1000)))) <= 24


def test_the_model_card_has_a_section_on_the_run(bert, tmp_path):
    trainer = make_trainer(bert, tmp_path, mnrl, columns_of(48), max_steps=4)
    watch = gradlab.watch(trainer, every=1, model_card=True)
    for _ in range(2):  # a second training replaces the section
        trainer.train()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer.model.save_pretrained(str(tmp_path / "model"))
        card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
        assert card.count("(gradlab)") == 1
        assert "raw %}" not in card
        section, _, after = card.partition("(gradlab)")[2].partition("### Framework Versions")
        assert "PyTorch" in after
        assert watch.judgement.headline in section
        assert "| Share of the hardest negative |" in section
        assert "| per_device_train_batch_size | 16 |" in section


def test_a_card_that_cannot_have_a_section_stays(bert, tmp_path):
    trainer = make_trainer(bert, tmp_path, mnrl, columns_of(48), max_steps=2)
    gradlab.watch(trainer, every=1, model_card=True)
    trainer.model.model_card_data.template_path = tmp_path / "absent.md"
    with pytest.warns(TrainingWarning, match="could not add to the model card"):
        trainer.train()


def test_a_model_card_needs_sentence_transformers(tmp_path):
    with pytest.raises(GradlabError, match="sentence-transformers"):
        gradlab.watch(hugging_face_trainer(tmp_path), views="both", model_card=True)
    with pytest.raises(GradlabError, match="sentence-transformers"):
        gradlab.watch(losses.MultipleNegativesRankingLoss, model_card=True)


@pytest.mark.parametrize("clip", [1e-6, 1e6])
def test_a_page_says_how_many_rows_and_which_labels_there_are_and_what_is_clipped(
    bert, tmp_path, clip
):
    first, second = columns_of(48).values()
    labels = [at % 6 for at in range(48)]
    table = {"sentence1": first, "sentence2": second, "score": list(map(float, labels))}
    trainer = make_trainer(
        bert, tmp_path, losses.CoSENTLoss, table,
        max_steps=9, logging_steps=1, max_grad_norm=clip,
    )  # fmt: skip
    gradlab.watch(trainer, every=1)
    trainer.train()
    page = render_run(read_recording(tmp_path), markdown=True)
    assert "48 rows" in page
    assert "labels 0 to 5" in page
    assert ("All logged gradients were clipped" in page) == (clip < 1)
