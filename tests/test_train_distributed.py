"""Two processes with half the batch each compute what one process computes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from gradlab import GradlabError
from gradlab.monitor.metrics import read_metrics
from gradlab.train import Callback, train
from gradlab.train.distributed import RunProcesses
from gradlab.train.trainer import Trainer
from tests.gradient_worker import SETTINGS, gradient, two_steps, work
from tests.processes import gradlab_command, start, together
from tests.tiny_models import make_sentences
from tests.train_helpers import (
    final_weights,
    recorded,
    same_weights,
    sequences_of,
    small_config,
    write_stsb,
)

# For each way in which a loss is gathered, in whole batches and in chunks.
LOSSES = [
    "arccon",
    "siglip",
    "own module",
    "mhe",
    "barlow_twins",
    "vicreg",
    "infonce:5",
    "modified_mhe:4",
    "infonce; own",
    "symmetric(infonce); own:5",
    "hardness(infonce, on=hard); shared",
    "symmetric(pool(supcon, negatives=other+same)); labels",
    "pool(triplet(mining=semi_hard, mean_over=active), negatives=same); labels:5",
    "cosent; scores",
    "sum(infonce, kl); own teacher",
    "margin_mse; shared teacher:5",
    "mask(infonce, by=guide); own guide",
]
SENTENCES = make_sentences(12)
ROOT = Path(__file__).resolve().parents[1]


def launcher(*arguments: str) -> None:
    """What a user types; --multi_gpu tells accelerate to start several processes, on CPUs too."""
    from accelerate.commands.launch import main

    sys.argv = [
        "accelerate", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
        "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0",
        "-m", "gradlab", *arguments,
    ]  # fmt: skip
    main()


def launch(log: Path, *arguments: str) -> None:
    process = start(launcher, *arguments, log=log, PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
    process.join()
    assert process.exitcode == 0, log.read_text()


def fork(log: Path, *arguments: str) -> None:
    """The same, without its launcher."""
    assert together(gradlab_command, *arguments, log=log) == [0, 0], log.read_text()


@pytest.fixture(scope="module")
def sequences(bert):
    return sequences_of(bert, SENTENCES)


@pytest.fixture(scope="module")
def computed(bert, tmp_path_factory):
    """The folder of what two processes compute."""
    folder = tmp_path_factory.mktemp("computed")
    log, names = folder / "log", [*LOSSES, *SETTINGS]
    assert together(work, str(bert), SENTENCES, str(folder), names, log=log) == [0, 0], (
        log.read_text()
    )
    return folder


@pytest.mark.parametrize("name", [*LOSSES, *SETTINGS])
def test_two_processes_compute_what_one_does(bert, sequences, computed, name):
    """The gradient, and the same queue and momentum branch in both."""
    single, compute = (
        RunProcesses(0, 1, torch.device("cpu")),
        two_steps if name in SETTINGS else gradient,
    )
    expected = compute(str(bert), name.partition(":")[0], sequences, single)
    first, second = (load_file(computed / f"{name}-{rank}.safetensors") for rank in (0, 1))
    assert first.keys() == second.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.equal(first[key], second[key]), f"processes differ in {key}"
        error = {torch.float64: 1e-11, torch.float32: 2e-6}.get(value.dtype, 0)
        atol = error * max(1.0, float(value.abs().max()))
        torch.testing.assert_close(first[key], value, rtol=0, atol=atol, msg=key)


@pytest.mark.parametrize(("call", "steps"), [(launch, 2), (fork, 6)])
def test_training_in_two_processes_equals_one(bert, tmp_path, call, steps):
    settings = {
        "dropout": 0.0,
        "accumulation": 2,
        "learning_rate": 1e-4,
        "pooler": "mean",
        "max_steps": steps,
    }
    config = small_config(bert, tmp_path, "one", **settings)
    train(config)
    log, two = tmp_path / "log", tmp_path / "two"
    call(log, "train", "--config", str(tmp_path / "one" / "manifest.json"), "--output", str(two))
    metrics = [read_metrics(folder / "metrics.csv") for folder in (tmp_path / "one", two)]
    for (*entry, value), (*entry_of_two, other_value) in zip(*metrics, strict=True):
        assert entry == entry_of_two
        if entry[2] != "sentences_per_second":
            assert value == pytest.approx(other_value, rel=1e-3, abs=1e-5)
    weights, weights_of_two = final_weights(tmp_path / "one"), final_weights(two)
    apart = max(float((weights[name] - weights_of_two[name]).abs().max()) for name in weights)
    assert apart < steps * 1e-4  # Adam makes whole steps of gradients that are rounding
    if call is fork:
        # Every process continues its own generators: the run is repeated exactly from its middle.
        resumed_run = shutil.copytree(two, tmp_path / "again")
        shutil.rmtree(resumed_run / "checkpoints" / "step-00000006")
        shutil.rmtree(resumed_run / "encoder")
        call(log, "train", "--resume", "--output", str(resumed_run))
        assert "Resuming after step 4" in log.read_text()
        assert same_weights(two, resumed_run)
        with pytest.raises(GradlabError, match="written by 2 processes; resume with as many"):
            train(small_config(bert, tmp_path, "again", **settings), resume=True)


def test_the_best_encoder_is_saved_with_a_checkpoint_of_all_processes(bert, tmp_path):
    """One process knows the score; a checkpoint by it alone would wait for the others for ever."""
    config = small_config(bert, tmp_path)
    fork(
        tmp_path / "log", "train", "--model", str(bert), "--train-file", config.train_file,
        "--max-length", "16", "--batch-size", "8", "--max-steps", "3", "--device", "cpu",
        "--eval-data", str(write_stsb(tmp_path)), "--eval-every", "1", "--save-every", "100",
        "--keep", "9", "--output", str(tmp_path / "two"),
    )  # fmt: skip
    scores = recorded(tmp_path / "two", "stsb_dev")
    assert sorted(scores) == [0, 1, 2, 3]
    best = [
        step
        for step in (1, 2, 3)
        if all(scores[step] > scores[earlier] for earlier in range(1, step))
    ]
    saved_steps = sorted(
        int(place.name[-8:]) for place in (tmp_path / "two" / "checkpoints").iterdir()
    )
    assert saved_steps == sorted({*best, 3})


def test_batch_that_does_not_divide_is_refused(bert, tmp_path):
    config, log = small_config(bert, tmp_path), tmp_path / "log"
    codes = together(
        gradlab_command, "train", "--model", str(bert), "--train-file", config.train_file,
        "--batch-size", "9", "--device", "cpu", "--output", config.output, log=log,
    )  # fmt: skip
    assert 2 in codes
    assert "does not divide into equal parts for 2 processes" in log.read_text()


def test_processes_with_different_files_are_refused(bert, tmp_path, monkeypatch):
    config = small_config(bert, tmp_path)
    Trainer(config)
    monkeypatch.setattr(
        RunProcesses, "collect", lambda _, content: [content, content and content[::-1]]
    )
    with pytest.raises(GradlabError, match="the processes have different files"):
        Trainer(config)


class StopOneProcess(Callback):
    """Sends SIGTERM to the second process only, as a scheduler might in another step."""

    def on_step(self, trainer, output):
        if trainer.step == 3 and trainer.processes.rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)


def train_until_stopped(config):
    with pytest.raises(KeyboardInterrupt):
        train(config, callbacks=[StopOneProcess()])


def train_to_the_end(config, resume=False):
    train(config, resume=resume)


def test_a_signal_to_one_process_stops_both_after_a_checkpoint(bert, tmp_path):
    config, log = small_config(bert, tmp_path, save_every=100), tmp_path / "log"
    assert together(train_until_stopped, config, log=log) == [0, 0], log.read_text()
    assert [place.name for place in (tmp_path / "run" / "checkpoints").iterdir()] == [
        "step-00000003"
    ]
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["status"] == "ended"
    assert log.read_text().count("Stopped after step 3") == 1
    assert together(train_to_the_end, config, True, log=log) == [0, 0], log.read_text()
    undisturbed = small_config(bert, tmp_path, "undisturbed", save_every=100)
    assert together(train_to_the_end, undisturbed, log=log) == [0, 0], log.read_text()
    assert same_weights(tmp_path / "run", tmp_path / "undisturbed")


def on_two_nodes(logs, *arguments):
    """Exit codes of two processes in folders of their own, as on nodes without a shared disk."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = [
        start(
            gradlab_command, *arguments, log=log, RANK=str(rank), LOCAL_RANK="0", WORLD_SIZE="2",
            LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
        )
        for rank, log in enumerate(logs)
    ]  # fmt: skip
    for process in processes:
        process.join(120)
        process.kill()
    return [process.exitcode for process in processes]


def test_nodes_without_a_shared_folder_resume_what_the_first_one_has(bert, tmp_path):
    """The second node has neither manifest nor checkpoints, and prints nothing of the result."""
    config = small_config(bert, tmp_path)
    logs = [tmp_path / node / "log" for node in ("first", "second")]
    for log in logs:
        log.parent.mkdir()
    settings = json.loads(json.dumps(config.to_dict() | {"output": "run"}))
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    start_command = ["train", "--config", str(tmp_path / "settings.json")]
    assert on_two_nodes(logs, *start_command) == [0, 0], [log.read_text() for log in logs]
    assert [log.read_text().count("Trained 6 steps") for log in logs] == [1, 0]
    whole = shutil.copytree(tmp_path / "first" / "run", tmp_path / "whole")
    assert not (tmp_path / "second" / "run").exists()
    shutil.rmtree(tmp_path / "first" / "run" / "checkpoints" / "step-00000006")
    shutil.rmtree(tmp_path / "first" / "run" / "encoder")
    resume_command = ["train", "--resume", "--output", "run"]
    assert on_two_nodes(logs, *resume_command) == [0, 0], [log.read_text() for log in logs]
    assert "Resuming after step 4" in logs[0].read_text()
    assert same_weights(whole, tmp_path / "first" / "run")
    assert not (tmp_path / "second" / "run").exists()


def test_nodes_refuse_together_what_the_first_one_refuses(bert, tmp_path):
    logs = [tmp_path / node / "log" for node in ("first", "second")]
    for log in logs:
        log.parent.mkdir()
    assert on_two_nodes(logs, "train", "--resume", "--output", "run") == [2, 2]
    assert all("holds no run to resume" in log.read_text() for log in logs)
