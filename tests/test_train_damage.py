"""Damaged run folders, checkpoints and settings: read, or refused in one line, and nothing lost."""

from __future__ import annotations

import json
import math
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from gradlab import GradlabError
from gradlab.data.tokens import hash_file
from gradlab.train import TrainConfig, checkpoint, resumable_config, train
from gradlab.train.run_folder import RunFolder, finished
from tests.fuzzing import as_json, check_read_or_refused, damaged_files, damaged_objects
from tests.train_helpers import run_and_crash, same_weights, small_config


@pytest.fixture(scope="module")
def crashed(bert, tmp_path_factory):
    """The configuration of a run that ended after step 5, with checkpoints of steps 2 and 4."""
    folder = tmp_path_factory.mktemp("crashed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADLAB_CACHE_DIR", str(folder / "cache"))
        config = small_config(bert, folder)
        run_and_crash(config, 5)
    return config


@pytest.fixture
def folder(crashed, tmp_path):
    return shutil.copytree(crashed.output, tmp_path / "run")


def test_damaged_manifests_are_read_or_refused_in_one_line(folder):
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    config = resumable_config(folder)
    data = {"sha256": content["data"]["sha256"], "contents": {}}

    def attempt(name, damaged):
        path.write_bytes(damaged)
        run = RunFolder(folder)
        for read in (
            lambda: resumable_config(folder),
            lambda: finished(config),
            lambda: run.check_same(config, data),
            run.check_free,
        ):
            check_read_or_refused(read, name)

    for name, damaged in damaged_files(as_json(content).encode(), 40):
        attempt(name, damaged)
    ended = {"steps": 6, "stsb_dev": {"2": 0.5, "4": None}, "best_step": 2, "selection": "stsb_dev"}
    (folder / "encoder").mkdir()
    for name, damaged in damaged_objects(content | {"status": "finished", "results": ended}, 120):
        attempt(name, as_json(damaged).encode())


def test_a_manifest_of_a_later_format_is_refused(folder):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(GradlabError, match="has format 99, and this gradlab reads up to"):
        resumable_config(folder)


def rewrite(place, change):
    """Change a checkpoint's state, with the checksum of the changed file."""
    state = place / "state.json"
    change(state)
    sums = json.loads((place / "checksums.json").read_text())
    sums["state.json"] = hash_file(state)
    (place / "checksums.json").write_text(json.dumps(sums))


def test_damaged_states_are_passed_over(folder):
    """Whatever a state holds, its checkpoint is whole, or the one before it is taken."""
    place = folder / "checkpoints" / "step-00000004"
    original = (place / "state.json").read_bytes()
    messages = []

    def attempt(name, damaged):
        rewrite(place, lambda state: state.write_bytes(damaged))
        messages.clear()

        def read():
            newest = checkpoint.newest_checkpoint(folder / "checkpoints", messages.append)
            assert newest.step == (2 if messages else 4), name

        check_read_or_refused(read, name)

    for name, damaged in damaged_files(original, 30):
        attempt(name, damaged)
    content = json.loads(original)
    for name in content:
        attempt(
            name, as_json({key: entry for key, entry in content.items() if key != name}).encode()
        )
        assert bool(messages) == (name not in ("losses", "seconds", "selection")), name
    for name, damaged in damaged_objects(content, 80):
        attempt(name, as_json(damaged).encode())


@pytest.mark.parametrize("step", [10**9, 3, -1, "4", True, None])
def test_a_state_of_another_step_is_passed_over(folder, step):
    place = folder / "checkpoints" / "step-00000004"

    def change(state):
        state.write_text(json.dumps(json.loads(state.read_text()) | {"step": step}))

    rewrite(place, change)
    messages = []
    assert checkpoint.newest_checkpoint(folder / "checkpoints", messages.append).step == 2
    assert "'step' in state.json is not the step of its folder" in messages[0]


def test_a_checkpoint_behind_the_end_is_refused(crashed, folder, monkeypatch):
    """A run that ends at step 6 has no checkpoint of step 10^9, and is not finished by one."""
    place = folder / "checkpoints" / "step-1000000000"
    (folder / "checkpoints" / "step-00000004").rename(place)

    def change(state):
        state.write_text(json.dumps(json.loads(state.read_text()) | {"step": 10**9}))

    rewrite(place, change)
    with pytest.raises(GradlabError, match="is of step 1000000000, and the run has 6 steps"):
        train(resumable_config(folder), resume=True)


def lose_a_moment(tensors):
    del tensors["0.exp_avg"]


def another_shape(tensors):
    tensors["0.exp_avg"] = torch.zeros(3)


def another_parameter(tensors):
    tensors |= {"999.exp_avg": torch.zeros(3)}


def no_number(tensors):
    tensors |= {"first.exp_avg": torch.zeros(3)}


@pytest.mark.parametrize("change", [lose_a_moment, another_shape, another_parameter, no_number])
def test_moments_that_do_not_fit_are_refused_before_training(crashed, folder, change):
    place = folder / "checkpoints" / "step-00000004"
    tensors = load_file(place / "optimizer.safetensors")
    change(tensors)
    save_file(tensors, place / "optimizer.safetensors")
    sums = json.loads((place / "checksums.json").read_text())
    sums["optimizer.safetensors"] = hash_file(place / "optimizer.safetensors")
    (place / "checksums.json").write_text(json.dumps(sums))
    with pytest.raises(GradlabError, match="belongs to another model"):
        train(resumable_config(folder), resume=True)
    assert (place / "state.json").exists()


def test_what_a_kill_leaves_is_cleared_by_the_next_command(bert, crashed, folder):
    unfinished = [
        folder / name
        for name in (".manifest-0123abcd.json", ".metrics-89abcdef.csv", ".partial-best-01234567")
    ]
    for path in unfinished[:2]:
        path.write_text("half")
    unfinished[2].mkdir()
    (folder / ".manifest-of-mine.json").write_text("{}")
    train(resumable_config(folder), resume=True)
    assert not any(path.exists() for path in unfinished)
    assert (folder / ".manifest-of-mine.json").exists()
    train(config := small_config(bert, folder.parent, "whole"))
    assert same_weights(folder, config.output)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"output": ""}, "output is empty; give a folder"),
        ({"output": " "}, "output is empty; give a folder"),
        ({"model": ""}, "model is empty; give a folder or hub name"),
        ({"train_file": ""}, "train_file is empty; give a file of sentences"),
        ({"threads": 10**6}, "threads must be a whole number of at least 1 and at most 1024"),
    ],
)
def test_empty_places_and_too_many_threads_are_refused(settings, message):
    needed = {"model": "m", "train_file": "f", "output": "o"}
    with pytest.raises(GradlabError, match=message):
        TrainConfig.from_dict(needed | settings)


def test_threads_of_a_manifest_are_not_trusted(folder):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["device"]["threads"] = 10**6
    path.write_text(json.dumps(manifest))
    train(resumable_config(folder), resume=True)
    assert (folder / "encoder").is_dir()


@pytest.mark.parametrize("setting", ["output", "model", "train_file", "eval_data"])
def test_names_of_more_than_255_characters_are_refused(bert, tmp_path, setting):
    config = small_config(bert, tmp_path, **{setting: str(tmp_path / ("n" * 300))})
    assert check_read_or_refused(lambda: train(config), setting)


@pytest.mark.parametrize("setting", ["loss", "augment"])
def test_code_that_a_manifest_names_is_not_run(bert, folder, monkeypatch, setting):
    """Unless the caller names it; the file would leave a trace."""
    monkeypatch.chdir(folder)
    (folder / "evil.py").write_text(
        "open('code-was-run', 'w').close()\n"
        "def loss(a, p, tau=1.0):\n    return (a - p).square().sum(1)\n"
        "def augment(sentence, generator):\n    return sentence\n"
    )
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    text = {"loss": "evil.py:loss(tau=2.0)", "augment": "function(function=evil.py:augment)"}
    manifest["config"][setting] = text[setting]
    path.write_text(json.dumps(manifest))
    with pytest.raises(GradlabError, match=r"names code, .* which runs only if you name it"):
        resumable_config(folder)
    config = small_config(bert, folder)
    check_read_or_refused(lambda: finished(config), setting)
    check_read_or_refused(lambda: RunFolder(folder).check_same(config, {"sha256": ""}), setting)
    assert not (folder / "code-was-run").exists()
    assert getattr(resumable_config(folder, code=[text[setting]]), setting) == text[setting]


def test_scores_that_are_not_finite_come_back_as_nan(folder):
    place = folder / "checkpoints" / "step-00000004"

    def change(state):
        state.write_text(json.dumps(json.loads(state.read_text()) | {"scores": [["2", None]]}))

    rewrite(place, change)
    newest = checkpoint.newest_checkpoint(folder / "checkpoints", print)
    (score,) = checkpoint_scores(newest)
    assert math.isnan(score)


def checkpoint_scores(newest):
    from gradlab.train.run_folder import scores_from_json

    return scores_from_json(newest.state["scores"]).values()
