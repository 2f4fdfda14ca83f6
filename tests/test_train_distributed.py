"""Two processes with half the batch each compute what one process computes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from gradlab import GradlabError
from gradlab.monitor.metrics import read_metrics
from gradlab.train import train
from gradlab.train.distributed import Processes, find_device
from tests.gradient_worker import gradient, sequences_of, work
from tests.processes import gradlab_command, together
from tests.tiny_models import make_sentences
from tests.train_helpers import final_weights, same_weights, small_config, write_stsb

LOSSES = [
    "infonce",
    "arccon",
    "met",
    "mhe",
    "barlow_twins",
    "vicreg",
    "modified_mhe",
    "infonce:5",
    "modified_mhe:4",
    "infonce; own",
    "symmetric(infonce); own:5",
    "hardness(infonce, on=hard); shared",
    "infonce; shared",
    "symmetric(pool(supcon, negatives=other+same)); labels",
    "pool(triplet(mining=semi_hard, mean_over=active), negatives=same); labels:5",
    "cosent; scores",
    "sum(infonce, kl); own teacher",
    "margin_mse; shared teacher:5",
    "mask(infonce, by=guide); own guide",
]
ROOT = Path(__file__).resolve().parents[1]


def launch(log: Path, *arguments: str) -> None:
    """What a user types; --multi_gpu is how accelerate is told to start several processes, on CPUs too."""
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2",
               "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no",
               "--main_process_port", "0", "-m", "gradlab", *arguments]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]


def fork(log: Path, *arguments: str) -> None:
    """The same, without its launcher."""
    assert together(gradlab_command, *arguments, log=log) == [0, 0], log.read_text()


def test_two_processes_give_the_gradient_of_one(bert, tmp_path):
    log = tmp_path / "log"
    assert together(work, str(bert), make_sentences(12), str(tmp_path), LOSSES, log=log) == [0, 0], (
        log.read_text()
    )
    sequences = sequences_of(str(bert), make_sentences(12))
    for loss in LOSSES:
        expected = gradient(
            str(bert), loss.partition(":")[0], sequences, Processes(0, 1, torch.device("cpu"))
        )
        found = load_file(tmp_path / f"{loss}.safetensors")
        assert found.pop("processes").tolist() == [2, 6]  # of which the first had half the sentences
        assert found.keys() == expected.keys() - {"processes"}
        largest = max(float(expected[name].abs().max()) for name in found)
        for name in found:
            torch.testing.assert_close(
                found[name], expected[name], rtol=0, atol=1e-11 * max(1, largest), msg=f"{loss} {name}"
            )


@pytest.mark.parametrize(("call", "accumulation"), [(launch, 2), (fork, 1)])
def test_training_in_two_processes_equals_one(bert, tmp_path, call, accumulation):
    settings = {"dropout": 0.0, "accumulation": accumulation, "learning_rate": 1e-4, "pooler": "mean"}
    config = small_config(bert, tmp_path, "one", **settings)
    train(config)
    options = ["--model", str(bert), "--train-file", config.train_file, "--max-length", "16", "--batch-size", "8",
               "--max-steps", "6", "--learning-rate", "1e-4", "--save-every", "2", "--log-every", "1", "--device", "cpu",
               "--diagnostics-every", "3", "--dropout", "0", "--accumulation", str(accumulation), "--pooler", "mean", "--precision", "float32"]  # fmt: skip
    log = tmp_path / "log"
    call(log, "train", *options, "--output", str(tmp_path / "two"))
    metrics = [read_metrics(tmp_path / output / "metrics.csv") for output in ("one", "two")]
    for one, two in zip(*metrics, strict=True):
        assert one[:3] == two[:3]
        if one[2] != "sentences_per_second":
            assert one[3] == pytest.approx(two[3], rel=1e-3, abs=1e-5)
    one, two = final_weights(tmp_path / "one"), final_weights(tmp_path / "two")
    apart = max(float((one[name] - two[name]).abs().max()) for name in one)
    assert apart < 6 * 1e-4  # Adam makes whole steps of gradients that are rounding
    if accumulation == 1:
        # Every process continues its own generators: the run is repeated exactly from its middle.
        shutil.copytree(tmp_path / "two", tmp_path / "again")
        shutil.rmtree(tmp_path / "again" / "checkpoints" / "step-00000006")
        shutil.rmtree(tmp_path / "again" / "encoder")
        call(log, "train", "--resume", "--output", str(tmp_path / "again"))
        assert "Resuming after step 4" in log.read_text()
        assert same_weights(tmp_path / "two", tmp_path / "again")
        with pytest.raises(GradlabError, match="written by 2 processes; resume with as many"):
            train(small_config(bert, tmp_path, "again", **settings), resume=True)


def test_the_best_encoder_is_saved_with_a_checkpoint_of_all_processes(bert, tmp_path):
    """One process knows the score; a checkpoint that it wrote alone would wait for the others for ever."""
    config = small_config(bert, tmp_path)
    fork(tmp_path / "log", "train", "--model", str(bert), "--train-file", config.train_file,
         "--max-length", "16", "--batch-size", "8", "--max-steps", "3", "--device", "cpu",
         "--sts", str(write_stsb(tmp_path)), "--eval-every", "1", "--save-every", "100", "--keep", "9",
         "--output", str(tmp_path / "two"))  # fmt: skip
    scores = {
        step: value
        for step, _, name, value in read_metrics(tmp_path / "two" / "metrics.csv")
        if name == "stsb_dev"
    }
    assert sorted(scores) == [0, 1, 2, 3]
    best = [step for step in (1, 2, 3) if all(scores[step] > scores[other] for other in range(1, step))]
    kept = sorted(int(place.name[-8:]) for place in (tmp_path / "two" / "checkpoints").iterdir())
    assert kept == sorted({*best, 3})


def test_batch_that_does_not_divide_is_refused(bert, tmp_path):
    config = small_config(bert, tmp_path)
    log = tmp_path / "log"
    codes = together(gradlab_command, "train", "--model", str(bert), "--train-file", config.train_file,
                     "--batch-size", "9", "--device", "cpu", "--output", config.output, log=log)  # fmt: skip
    assert 2 in codes
    assert "does not divide into equal parts for 2 processes" in log.read_text()


@pytest.mark.parametrize("name", ["gpu", "meta", "mps:0"])
def test_unknown_devices_are_refused(name):
    with pytest.raises(GradlabError, match="use auto, cpu, cuda"):
        find_device(name)


def test_the_device_that_is_named_becomes_the_current_one(monkeypatch):
    """Else the generator of another GPU would be saved and restored."""
    chosen = []
    monkeypatch.setattr("gradlab.train.distributed.find_device", torch.device)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    assert Processes.start("cuda:1").device == torch.device("cuda:1")
    Processes.start("cpu")
    assert chosen == [torch.device("cuda:1")]


def test_cuda_that_is_absent_is_refused():
    if torch.cuda.is_available():
        with pytest.raises(GradlabError, match="torch sees"):
            find_device("cuda:99")
    else:
        with pytest.raises(GradlabError, match="torch sees no CUDA device"):
            find_device("cuda")
    assert find_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
