"""Checkpoints: resuming is exact, damage is noticed, and nothing is ever half-written."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from gradlab import GradlabError
from gradlab.monitor.metrics import read_metrics
from gradlab.seeds import random_state, restore_random_state, seed_everything, undisturbed
from gradlab.train import Callback, train
from gradlab.train import checkpoint as checkpoint_module
from gradlab.train.checkpoint import newest_checkpoint
from gradlab.train.run_folder import resumable_config
from tests.processes import gradlab_command, start
from tests.tiny_models import make_bert, make_roberta
from tests.train_helpers import same_weights, small_config, write_stsb


class Crash(Exception):
    """Stands for the end of the process."""


class CrashAfter(Callback):
    """Ends the run after a step, before that step's evaluation and checkpoint."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, trainer, output):
        if trainer.step == self.step:
            raise Crash


def run_and_crash(config, step):
    with pytest.raises(Crash):
        train(config, callbacks=[CrashAfter(step)])


def steady(rows):
    """Metrics without those that depend on the clock."""
    return [row for row in rows if row[2] != "sentences_per_second"]


@pytest.mark.parametrize(("make", "crash"), [(make_bert, 1), (make_bert, 6), (make_roberta, 5)])
def test_resumed_run_ends_with_the_same_bits(make, crash, tmp_path):
    """Weights, metrics, best checkpoint and scores equal those of a run that nothing happened to."""
    model, sts = make(tmp_path / "model"), str(write_stsb(tmp_path))
    settings = {"sts": sts, "eval_every": 2, "held_out": 0.1, "analysis_batch": 10, "pooler": "cls_mlp"}
    whole = train(small_config(model, tmp_path, "whole", **settings))
    broken = small_config(model, tmp_path, "broken", **settings)
    run_and_crash(broken, crash)
    resumed = train(broken, resume=True)
    assert same_weights(tmp_path / "whole", tmp_path / "broken")
    assert (resumed.scores, resumed.best_step) == (whole.scores, whole.best_step)
    for name in ("encoder", "best"):
        files = [(tmp_path / run / name / "model.safetensors").read_bytes() for run in ("whole", "broken")]
        assert files[0] == files[1]
    metrics = [steady(read_metrics(tmp_path / run / "metrics.csv")) for run in ("whole", "broken")]
    assert repr(metrics[0]) == repr(metrics[1])  # NaN equals NaN


def test_crashing_again_and_again_changes_nothing(bert, tmp_path):
    common = {"accumulation": 2, "precision": "bfloat16", "max_steps": 8, "save_every": 1}
    train(small_config(bert, tmp_path, "whole", **common))
    config = small_config(bert, tmp_path, "broken", **common)
    run_and_crash(config, 2)
    for step in (3, 4, 7):
        with pytest.raises(Crash):
            train(config, resume=True, callbacks=[CrashAfter(step)])
    train(config, resume=True)
    assert same_weights(tmp_path / "whole", tmp_path / "broken")


def test_finished_run_can_be_resumed_without_harm(bert, tmp_path):
    config = small_config(bert, tmp_path)
    train(config)
    before = (tmp_path / "run" / "encoder" / "model.safetensors").read_bytes()
    assert train(config, resume=True).steps == 6
    assert (tmp_path / "run" / "encoder" / "model.safetensors").read_bytes() == before


class Counter(Callback):
    """Remembers something of its own, and draws from every generator."""

    def __init__(self):
        self.drawn = []

    def on_step(self, trainer, output):
        self.drawn.append([random.random(), float(np.random.rand()), float(torch.rand(()))])  # noqa: NPY002

    def state(self):
        return self.drawn

    def restore(self, state):
        self.drawn = state


def test_callbacks_and_all_generators_are_restored(bert, tmp_path):
    whole, first, second = Counter(), Counter(), Counter()
    train(small_config(bert, tmp_path, "whole"), callbacks=[whole])
    config = small_config(bert, tmp_path, "broken")
    with pytest.raises(Crash):
        train(config, callbacks=[first, CrashAfter(5)])
    with pytest.raises(GradlabError, match="written with the callback Counter; pass it again"):
        train(config, resume=True)
    train(config, resume=True, callbacks=[second])
    assert second.drawn == whole.drawn
    assert same_weights(tmp_path / "whole", tmp_path / "broken")


def damage_truncate(place):
    file = place / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])


def damage_flip(place):
    file = place / "optimizer.safetensors"
    content = bytearray(file.read_bytes())
    content[-7] ^= 1
    file.write_bytes(content)


def damage_missing(place):
    (place / "state.json").unlink()


def damage_checksums(place):
    (place / "checksums.json").write_text("{")


@pytest.fixture(scope="module")
def whole(bert, tmp_path_factory) -> Path:
    """A run that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADLAB_CACHE_DIR", str(folder / "cache"))
        train(small_config(bert, folder, "whole"))
    return folder / "whole"


@pytest.mark.parametrize("damage", [damage_truncate, damage_flip, damage_missing, damage_checksums])
def test_damaged_newest_checkpoint_is_passed_over_with_a_message(bert, whole, tmp_path, damage, capsys):
    config = small_config(bert, tmp_path, "broken")
    run_and_crash(config, 5)
    damage(tmp_path / "broken" / "checkpoints" / "step-00000004")
    capsys.readouterr()
    train(config, resume=True)
    told = capsys.readouterr().err
    assert "step-00000004 is damaged" in told
    assert "Resuming after step 2" in told
    assert same_weights(whole, tmp_path / "broken")


def test_all_checkpoints_damaged_is_an_error(bert, tmp_path):
    config = small_config(bert, tmp_path)
    run_and_crash(config, 5)
    for place in (tmp_path / "run" / "checkpoints").iterdir():
        damage_truncate(place)
    with pytest.raises(GradlabError, match=r"all 2 checkpoints .* are damaged"):
        train(config, resume=True)


def test_killed_before_the_first_checkpoint_starts_over(bert, tmp_path, capsys):
    config = small_config(bert, tmp_path)
    run_and_crash(config, 1)
    train(config, resume=True)
    assert "no checkpoint yet" in capsys.readouterr().err


def test_another_configuration_or_file_is_refused(bert, tmp_path):
    config = small_config(bert, tmp_path)
    run_and_crash(config, 5)
    with pytest.raises(GradlabError, match=r"another configuration \(seed: 42, not 7\)"):
        train(small_config(bert, tmp_path, seed=7), resume=True)
    other = tmp_path / "other.txt"
    other.write_text(Path(config.train_file).read_text() + "\none more")
    with pytest.raises(GradlabError, match="training file is not the one"):
        train(small_config(bert, tmp_path, train_file=str(other)), resume=True)
    with pytest.raises(GradlabError, match="holds no run to resume"):
        train(small_config(bert, tmp_path, "elsewhere"), resume=True)


def test_checkpoint_of_another_model_is_refused(bert, tmp_path):
    config = small_config(bert, tmp_path)
    run_and_crash(config, 5)
    checkpoint = newest_checkpoint(tmp_path / "run" / "checkpoints", print)
    with pytest.raises(GradlabError, match="belongs to another model"):
        checkpoint.load(torch.nn.Linear(2, 2), torch.optim.AdamW([torch.zeros(1)]))


def test_resumable_config_follows_a_moved_run(bert, whole, tmp_path):
    config = small_config(bert, tmp_path, "before")
    run_and_crash(config, 5)
    (tmp_path / "before").rename(tmp_path / "after")
    train(resumable_config(tmp_path / "after"), resume=True)
    assert same_weights(whole, tmp_path / "after")


@pytest.mark.parametrize("part", ["weights", "state"])
def test_full_disk_loses_nothing(bert, whole, tmp_path, monkeypatch, part):
    """Writing the checkpoint of step 4 fails; the run stops with a clear error, and goes on when there is room."""
    config = small_config(bert, tmp_path)
    real_save, real_sum = checkpoint_module.save_file, checkpoint_module.hash_file
    step = []

    def full(tensors, path):
        step.append(path)
        if len(step) > 2:
            Path(path).write_bytes(b"half")
            if part == "weights":
                raise checkpoint_module.SafetensorError("I/O error: No space left on device (os error 28)")
            raise OSError(28, os.strerror(28))
        real_save(tensors, path)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module, "save_file", full)
        with pytest.raises(GradlabError, match=r"No space left on device.*resume from the checkpoint before"):
            train(config)
    assert [place.name for place in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000002"]
    assert checkpoint_module.hash_file is real_sum
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
    assert [place.name for place in (tmp_path / "run" / "checkpoints").iterdir()] == [f"step-{step:08d}"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    train(config, resume=True, callbacks=[])
    assert same_weights(whole, tmp_path / "run")


def test_no_pickle_is_written_or_read(bert, tmp_path):
    run_and_crash(small_config(bert, tmp_path), 5)
    names = {file.name for file in (tmp_path / "run" / "checkpoints").rglob("*") if file.is_file()}
    assert names == {"model.safetensors", "optimizer.safetensors", "state.json", "checksums.json"}


def test_generators_round_trip_through_json():
    seed_everything(3)
    torch.rand(5), random.gauss(0, 1), np.random.randn(3)  # noqa: NPY002
    state = json.loads(json.dumps(random_state()))

    def draw():
        return [torch.rand(3).tolist(), torch.randn(3).tolist(), random.gauss(0, 1), np.random.randn()]  # noqa: NPY002

    with undisturbed():
        first = draw()
    assert draw() == first
    restore_random_state(state)
    assert draw() == first
    with pytest.raises(GradlabError, match="cannot be used"):
        restore_random_state({"python": 3})


def test_kill_9_at_random_moments_then_resume(bert, tmp_path):
    """A real process, killed for real, several times: the final weights are those of an undisturbed run."""
    settings = {"max_steps": 60, "save_every": 7, "held_out": 0.1, "analysis_batch": 10, "pooler": "cls_mlp",
                "sts": str(write_stsb(tmp_path)), "eval_every": 10}  # fmt: skip
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        train(small_config(bert, tmp_path, "whole", **settings))
    finally:
        torch.set_num_threads(threads)
    config = small_config(bert, tmp_path, "killed", **settings)
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    generator, kills, log = random.Random(1), 0, tmp_path / "log"
    command = ["train", "--config", str(tmp_path / "config.json")]
    resume = ["train", "--resume", "--output", config.output]
    for target in (3, 20, 45):
        process = start(gradlab_command, *command, log=log)
        reached = wait_for_step(process, Path(config.output) / "metrics.csv", target)
        time.sleep(generator.uniform(0, 0.2))
        process.kill()
        process.join()
        kills += reached and process.exitcode == -signal.SIGKILL
        command = resume
    finished = start(gradlab_command, *resume, log=log)
    finished.join()
    assert finished.exitcode == 0, log.read_text()
    assert kills >= 2
    assert same_weights(tmp_path / "whole", tmp_path / "killed")
    best = [(tmp_path / run / "best" / "model.safetensors").read_bytes() for run in ("whole", "killed")]
    assert best[0] == best[1]


def wait_for_step(process, metrics: Path, step: int) -> bool:
    """Whether the process was still running when it recorded ``step``."""
    while process.is_alive():
        if metrics.exists() and max((row[0] for row in read_metrics(metrics)), default=0) >= step:
            return True
        time.sleep(0.01)
    return False
