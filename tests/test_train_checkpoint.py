"""Checkpoints: resuming is exact, damage is noticed, and nothing is ever half-written."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gradlab import GradlabError
from gradlab.losses import registry
from gradlab.monitor.run_reader import read_recording
from gradlab.monitor.verdicts import judge_run
from gradlab.train import Callback, train
from gradlab.train import checkpoint as checkpoint_module
from gradlab.train import trainer as trainer_module
from gradlab.train.run_folder import RunFolder, resumable_config
from tests.processes import gradlab_command, start
from tests.tiny_models import make_bert, make_roberta
from tests.train_helpers import (
    recorded,
    run_and_crash,
    same_metrics,
    same_weights,
    small_config,
    write_stsb,
)


def checkpoints(run):
    return sorted(place.name for place in (Path(run) / "checkpoints").iterdir())


@pytest.fixture(scope="module")
def whole(bert, tmp_path_factory) -> Path:
    """A run that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADLAB_CACHE_DIR", str(folder / "cache"))
        train(small_config(bert, folder, "whole"))
    return folder / "whole"


@pytest.mark.parametrize(("make", "crash"), [(make_bert, 6), (make_roberta, 5)])
def test_resumed_run_ends_with_the_same_bits(make, crash, tmp_path):
    """Weights, metrics, best checkpoint and scores are those of a run that nothing happened to."""
    model, sts = make(tmp_path / "model"), str(write_stsb(tmp_path))
    settings = {
        "eval_data": sts,
        "eval_every": 2,
        "held_out": 0.1,
        "analysis_batch": 10,
        "pooler": "cls_mlp",
    }
    whole = train(small_config(model, tmp_path, "whole", **settings))
    broken = small_config(model, tmp_path, "broken", **settings)
    run_and_crash(broken, crash)
    resumed = train(broken, resume=True)
    assert (resumed.scores, resumed.best_step) == (whole.scores, whole.best_step)
    for name in ("encoder", "best"):
        files = [
            (tmp_path / run / name / "model.safetensors").read_bytes()
            for run in ("whole", "broken")
        ]
        assert files[0] == files[1]
    assert same_metrics(tmp_path / "whole", tmp_path / "broken")


class Counter(Callback):
    """Remembers something of its own, and draws from every generator."""

    def __init__(self):
        self.drawn = []

    def on_step(self, trainer, output):
        self.drawn.append(
            [random.random(), float(np.random.rand()), float(torch.rand(()))]  # noqa: NPY002
        )

    def state(self):
        return self.drawn

    def restore(self, state):
        self.drawn = state


# In the first training of a process, checks of shapes draw from `random` too.
@pytest.mark.usefixtures("whole")
def test_callbacks_and_all_generators_are_restored(bert, tmp_path):
    """Two of one class, each of which gets its own back."""
    whole, resumed = ([Counter(), Counter()] for _ in range(2))
    train(small_config(bert, tmp_path, "whole"), callbacks=whole)
    config = small_config(bert, tmp_path, "broken")
    run_and_crash(config, 5, Counter(), Counter())
    with pytest.raises(GradlabError, match="Counter 2; pass it again"):
        train(config, resume=True, callbacks=[Counter()])
    train(config, resume=True, callbacks=resumed)
    assert [counter.drawn for counter in resumed] == [counter.drawn for counter in whole]
    assert same_weights(tmp_path / "whole", tmp_path / "broken")


def truncate(place):
    file = place / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])


def flip(place):
    file = place / "optimizer.safetensors"
    *content, last = file.read_bytes()
    file.write_bytes(bytes([*content, last ^ 1]))


@pytest.mark.parametrize("damage", [truncate, flip, lambda place: (place / "state.json").unlink()])
def test_damaged_checkpoints_are_passed_over_with_a_message(bert, whole, tmp_path, damage, capsys):
    config, places = small_config(bert, tmp_path), tmp_path / "run" / "checkpoints"
    run_and_crash(config, 5)
    damage(places / "step-00000004")
    capsys.readouterr()
    train(config, resume=True)
    messages = capsys.readouterr().err
    assert "step-00000004 is damaged" in messages
    assert "Resuming after step 2" in messages
    assert same_weights(whole, tmp_path / "run")
    for place in places.iterdir():
        damage(place)
    with pytest.raises(GradlabError, match="all 2 checkpoints"):
        train(config, resume=True)


def test_what_is_saved_after_damage_is_kept(bert, whole, tmp_path):
    """Steps 4 and 5 are damaged: the run goes on from step 3.

    Only its own checkpoints count among those kept.
    """
    config = small_config(bert, tmp_path, save_every=1, keep=3)
    run_and_crash(config, 6)
    places = tmp_path / "run" / "checkpoints"
    truncate(places / "step-00000004")
    truncate(places / "step-00000005")
    config = small_config(bert, tmp_path, save_every=1, keep=1)
    run_and_crash(config, 5, resume=True)
    assert checkpoints(tmp_path / "run") == ["step-00000004"]
    train(config, resume=True)
    assert same_weights(whole, tmp_path / "run")


def test_a_tracker_shows_every_step_of_a_resumed_run(bert, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = small_config(
        bert, tmp_path, max_steps=4, diagnostics_every=0, trackers=("tensorboard",)
    )
    run_and_crash(config, 3)
    train(config, resume=True)
    events = EventAccumulator(str(tmp_path / "run" / "gradlab"))
    events.Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [1, 2, 3, 4]


def test_the_time_of_a_resumed_run_is_that_of_all_of_it(bert, tmp_path, monkeypatch):
    """By a clock that the steps move.

    1000 s in step 1, before the checkpoint of step 4; 50 s in step 5, which is repeated.
    """
    clock = [0.0]
    monkeypatch.setattr(trainer_module, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    class Clock(Callback):
        def on_step(self, trainer, output):
            clock[0] += {1: 1000.0, 5: 50.0}.get(trainer.step, 0.0)

    config = small_config(bert, tmp_path)
    run_and_crash(config, 5, Clock())
    train(config, resume=True, callbacks=[Clock()])
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["results"]["seconds"] == 1050


OWN = "my code/code_compared_by_content.py"
OWN_LOSS = """
import torch
import gradlab

def function(anchors, positives, tau=0.05):
    return gradlab.get_loss("infonce", temperature=tau)(anchors, positives, normalize=True)

@gradlab.losses.register("loss_of_a_file")
class LossOfAFile(gradlab.losses.InfoNCE):
    pass

def unchanged(sentence, generator):
    return sentence
"""


def write_model(variant):
    make_bert(Path("place"), seed=variant)


def write_code(variant):
    Path(OWN).parent.mkdir(exist_ok=True)
    Path(OWN).write_text(f"{OWN_LOSS}\n# {variant}")


@pytest.mark.parametrize(
    ("name", "settings", "write"),
    [
        ("guide", {"loss": "mask(infonce, by=guide)", "guide": "place"}, write_model),
        ("teacher", {"loss": "kl", "teacher": "place"}, write_model),
        (
            "eval_data",
            {"eval_data": "place/senteval", "eval_every": 2},
            lambda variant: write_stsb(Path("place"), pairs=30 + variant),
        ),
        (
            "loss",
            {"loss": "mask(infonce, by=pairs, pairs=place)"},
            lambda variant: Path("place").write_text(f"1,{1 + variant}"),
        ),
        ("loss", {"loss": f"{OWN}:function(tau=0.1)"}, write_code),
        ("loss", {"loss": "symmetric(loss_of_a_file)"}, write_code),
        ("augment", {"augment": f"function(function={Path(OWN).stem}:unchanged)"}, write_code),
    ],
)
def test_what_a_setting_names_is_compared_by_content(
    bert, tmp_path, monkeypatch, request, name, settings, write
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / Path(OWN).parent)
    # Each import registers it.
    request.addfinalizer(lambda: registry._registry.classes.pop("loss_of_a_file", None))
    write(1)
    if "loss_of_a_file" in str(settings):
        monkeypatch.setenv("GRADLAB_LOSSES", OWN)
    config = small_config(bert, tmp_path, **settings)
    run_and_crash(config, 5)
    write(2)
    if name == "eval_data":  # a run of an earlier version
        path = tmp_path / "run" / "manifest.json"
        path.write_text(path.read_text().replace('"eval_data": ', '"sts": '))
    with pytest.raises(
        GradlabError, match=rf"the content of {name} \(.*\) has changed since the run"
    ):
        train(config, resume=True)
    write(1)
    if name == "eval_data":  # the data may lie elsewhere
        config = dataclasses.replace(
            config, eval_data=str(Path("place").rename("moved") / "senteval")
        )
    assert list(train(config, resume=True).scores) == ([0, 2, 4, 6] if name == "eval_data" else [])


def test_scores_of_two_development_sets_are_not_mixed(bert, tmp_path):
    """Also if the run began without any."""
    config = small_config(bert, tmp_path, eval_every=2)
    run_and_crash(config, 3)
    first, second = (str(write_stsb(tmp_path / str(pairs), pairs=pairs)) for pairs in (30, 31))
    scored = dataclasses.replace(config, eval_data=first)
    run_and_crash(scored, 5, resume=True)
    with pytest.raises(
        GradlabError, match=r"the content of eval_data \(.*\) has changed since the run"
    ):
        train(dataclasses.replace(config, eval_data=second), resume=True)
    assert list(train(scored, resume=True).scores) == [4, 6]


def test_a_checkpoint_is_kept_if_a_process_dies_while_replacing_it(tmp_path):
    folder = RunFolder(tmp_path)
    (folder.checkpoints / ".replaced-step-00000004").mkdir(parents=True)
    (folder.checkpoints / ".partial-step-00000004-0123abcd").mkdir()
    (folder.checkpoints / ".partial-step-00000006-0123abcd").mkdir()
    folder.recover()
    assert [path.name for path in folder.checkpoints.iterdir()] == ["step-00000004"]


def test_an_error_before_the_first_record_is_told(bert, tmp_path):
    with pytest.raises(GradlabError, match="embeddings are not finite"):
        train(small_config(bert, tmp_path, learning_rate=1e6, diagnostics_every=0, log_every=6))
    with pytest.raises(GradlabError, match=r"no measurements; the run has ended .*not finite"):
        read_recording(tmp_path / "run")


def test_an_error_that_ends_a_run_is_told_until_it_is_resumed(bert, tmp_path):
    def standing():
        verdicts = judge_run(read_recording(tmp_path / "run")).verdicts
        return next(verdict.finding for verdict in verdicts if verdict.subject == "Run")

    config = small_config(bert, tmp_path)
    run_and_crash(config, 3)
    assert standing() == "The run ended at step 3 of 6 with an error: Crash: Crash."
    with pytest.raises(GradlabError, match="seed: 42, not 7"):
        train(small_config(bert, tmp_path, seed=7), resume=True)
    assert "error: Crash" in standing()
    train(config, resume=True)
    assert "with an error" not in standing()


def test_killed_before_the_first_checkpoint_starts_over(bert, whole, tmp_path, capsys):
    config = small_config(bert, tmp_path)
    run_and_crash(config, 1)
    train(config, resume=True)
    assert "no checkpoint yet" in capsys.readouterr().err
    assert same_weights(whole, tmp_path / "run")


def test_another_configuration_or_file_is_refused_and_a_moved_run_goes_on(bert, whole, tmp_path):
    config = small_config(bert, tmp_path)
    run_and_crash(config, 5)
    kinds = {
        file.suffix for file in (tmp_path / "run" / "checkpoints").rglob("*") if file.is_file()
    }
    assert kinds == {".safetensors", ".json"}  # no pickle
    with pytest.raises(GradlabError, match="seed: 42, not 7"):
        train(small_config(bert, tmp_path, seed=7), resume=True)
    longer_file = tmp_path / "other.txt"
    longer_file.write_text(Path(config.train_file).read_text() + "\none more")
    with pytest.raises(GradlabError, match="training file is not the one"):
        train(small_config(bert, tmp_path, train_file=str(longer_file)), resume=True)
    with pytest.raises(GradlabError, match="holds no run to resume"):
        train(small_config(bert, tmp_path, "elsewhere"), resume=True)
    (tmp_path / "run").rename(tmp_path / "after")
    train(resumable_config(tmp_path / "after"), resume=True)
    assert same_weights(whole, tmp_path / "after")


@pytest.mark.parametrize(
    "error",
    [checkpoint_module.SafetensorError("No space left on device"), OSError(28, os.strerror(28))],
)
def test_full_disk_loses_nothing(bert, whole, tmp_path, monkeypatch, error):
    """Step 4's checkpoint cannot be written: a clear error; when there is room, the run goes on."""
    config = small_config(bert, tmp_path)
    save, written = checkpoint_module.save_file, []

    def full(tensors, path):
        written.append(path)
        if len(written) > 2:
            Path(path).write_bytes(b"half")
            raise error
        save(tensors, path)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module, "save_file", full)
        with pytest.raises(GradlabError, match=r"cannot write .*No space left on device"):
            train(config)
    assert checkpoints(tmp_path / "run") == ["step-00000002"]
    train(config, resume=True)
    assert same_weights(whole, tmp_path / "run")


@pytest.mark.parametrize("step", [3, 6])  # 6 is the last one
def test_interrupt_saves_and_resumes(bert, whole, tmp_path, step):
    class Interrupt(Callback):
        def on_step(self, trainer, output):
            if trainer.step == step:
                os.kill(os.getpid(), signal.SIGTERM)

    config = small_config(bert, tmp_path, save_every=100)
    with pytest.raises(KeyboardInterrupt):
        train(config, callbacks=[Interrupt()])
    assert checkpoints(tmp_path / "run") == [f"step-{step:08d}"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    train(config, resume=True)
    assert same_weights(whole, tmp_path / "run")


def hold(folder, seconds):
    with RunFolder(folder).locked():
        print("held", flush=True)
        time.sleep(seconds)


def start_to_hold(folder, seconds, log):
    process = start(hold, folder, seconds, log=log)
    while not log.exists() or "held" not in log.read_text():
        assert process.is_alive()
        time.sleep(0.01)
    return process


def test_one_process_at_a_time_trains_in_a_folder(bert, tmp_path, capsys):
    config = small_config(bert, tmp_path, max_steps=2)
    holder = start_to_hold(config.output, 600, tmp_path / "log")
    with pytest.raises(GradlabError, match="another process trains in"):
        train(config)
    assert not (tmp_path / "run" / "manifest.json").exists()
    holder.kill()
    holder.join()
    train(config)
    start_to_hold(config.output, 3, tmp_path / "other log")
    RunFolder(config.output).wait()
    assert "Waiting: another process trains in" in capsys.readouterr().err


def test_kill_9_at_random_moments_then_resume(bert, tmp_path):
    """A real process, killed several times: the final weights are those of an undisturbed run."""
    settings = {
        "max_steps": 45, "save_every": 7, "held_out": 0.1, "analysis_batch": 10,
        "pooler": "cls_mlp", "eval_data": str(write_stsb(tmp_path)), "eval_every": 10, "threads": 1,
    }  # fmt: skip
    train(small_config(bert, tmp_path, "whole", **settings))
    config = small_config(bert, tmp_path, "killed", **settings)
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    generator, log = random.Random(1), tmp_path / "log"
    command = ["train", "--config", str(tmp_path / "config.json")]
    resume = ["train", "--resume", "--output", config.output]
    for target in (3, 20):
        process = start(gradlab_command, *command, log=log)
        while max(recorded(config.output, "loss"), default=0) < target:
            assert process.is_alive(), log.read_text()
            time.sleep(0.01)
        time.sleep(generator.uniform(0, 0.1))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        command = resume
    finished = start(gradlab_command, *resume, log=log)
    finished.join()
    assert finished.exitcode == 0, log.read_text()
    assert same_weights(tmp_path / "whole", tmp_path / "killed")
    best = [
        (tmp_path / run / "best" / "model.safetensors").read_bytes() for run in ("whole", "killed")
    ]
    assert best[0] == best[1]
