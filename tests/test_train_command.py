"""gradlab train at the shell: options become the configuration, and bad input one line and exit code 2."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from gradlab.cli import main
from gradlab.cli.train import command
from gradlab.train import TrainConfig
from tests.train_helpers import same_weights, small_config, write_sentences, write_stsb


def run(monkeypatch, capsys, *arguments):
    """Exit code, standard output and standard error of a call from the shell."""
    monkeypatch.setattr("sys.argv", ["gradlab", "train", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        main()
    out, err = capsys.readouterr()
    return caught.value.code or 0, out, err


def config_of(folder: Path) -> TrainConfig:
    return TrainConfig.from_dict(json.loads((folder / "manifest.json").read_text())["config"])


def test_options_become_the_configuration(bert, tmp_path, monkeypatch, capsys):
    file, sts = write_sentences(tmp_path), write_stsb(tmp_path)
    code, out, err = run(
        monkeypatch, capsys, "--model", bert, "--train-file", file, "--output", tmp_path / "run", "--loss", "arccon",
        "--set", "temperature=0.1", "--set", "margin=0.2", "--max-steps", 4, "--batch-size", 8, "--max-length", 16,
        "--sts", sts, "--eval-every", 2, "--pooler", "mean", "--held-out", 0.1, "--analysis-batch", 8,
        "--precision", "bfloat16", "--device", "cpu", "--learning-rate", 1e-4, "--dropout", 0.2,
    )  # fmt: skip
    assert code == 0, err
    assert "Trained 4 steps; encoder in" in out
    assert "Best STS-B dev" in out
    again = run(monkeypatch, capsys, "--resume", "--output", tmp_path / "run")[1]
    assert again.splitlines()[1:] == out.splitlines()[1:]  # finished: the same scores, and nothing trained
    config = config_of(tmp_path / "run")
    assert config == TrainConfig(
        model=str(bert), train_file=str(file), output=str(tmp_path / "run"), loss="arccon",
        loss_settings={"temperature": 0.1, "margin": 0.2}, max_steps=4, batch_size=8, max_length=16, sts=str(sts),
        eval_every=2, pooler="mean", held_out=0.1, analysis_batch=8, precision="bfloat16", device="cpu",
        learning_rate=1e-4, dropout=0.2,
    )  # fmt: skip
    # Again from the manifest, into another folder: the same run.
    code, _, err = run(
        monkeypatch, capsys, "--config", tmp_path / "run" / "manifest.json", "--output", tmp_path / "b"
    )
    assert code == 0, err
    assert same_weights(tmp_path / "run", tmp_path / "b")


def test_every_setting_has_an_option():
    options = {name for parameter in command.params for name in parameter.opts}
    for item in dataclasses.fields(TrainConfig):
        assert {"loss_settings": "--set"}.get(item.name, f"--{item.name.replace('_', '-')}") in options
    assert "--tracker" in options


def test_resume_takes_the_runs_own_configuration(bert, tmp_path, monkeypatch, capsys):
    (tmp_path / "c.json").write_text(json.dumps(small_config(bert, tmp_path).to_dict()))
    assert run(monkeypatch, capsys, "--config", tmp_path / "c.json")[0] == 0
    finished = (tmp_path / "run" / "manifest.json").read_bytes()
    code, out, err = run(monkeypatch, capsys, "--resume", "--output", tmp_path / "run")
    assert (code, err) == (0, "")
    assert out.startswith("The run has finished already, nothing is left to train: 6 steps; encoder in ")
    assert "Trained" not in out
    assert (tmp_path / "run" / "manifest.json").read_bytes() == finished
    shutil.rmtree(tmp_path / "run" / "encoder")  # which the newest checkpoint gives back
    code, out, err = run(monkeypatch, capsys, "--resume", "--output", tmp_path / "run")
    assert code == 0
    assert "Resuming after step 6" in err
    assert "Trained 6 steps" in out
    code, _, err = run(monkeypatch, capsys, "--resume", "--output", tmp_path / "run", "--seed", 5)
    assert code == 2
    assert "another configuration (seed: 42, not 5)" in err


def test_settings_of_the_loss_add_to_those_of_the_configuration(bert, tmp_path, monkeypatch, capsys):
    file = tmp_path / "settings.json"
    settings = {"temperature": 0.1, "margin": 0.2}
    config = {"model": str(bert), "train_file": str(write_sentences(tmp_path)), "loss": "modified_mhe", "loss_settings": settings,
              "batch_size": 8, "max_steps": 1, "max_length": 16, "device": "cpu", "diagnostics_every": 0}  # fmt: skip
    file.write_text(json.dumps(config))

    def settings_of(name, *arguments):
        output = tmp_path / name
        code, _, err = run(monkeypatch, capsys, "--config", file, "--output", output, *arguments)
        assert code == 0, err
        return config_of(output).loss_settings

    assert settings_of("one", "--set", "margin=0.3") == {"temperature": 0.1, "margin": 0.3}
    assert settings_of("other", "--loss", "met", "--set", "margin=0.3") == {"margin": 0.3}
    assert settings_of("published", "--set", "preset=roberta") == {"preset": "roberta"}
    same = run(monkeypatch, capsys, "--resume", "--output", tmp_path / "one", "--set", "margin=0.3")
    assert same[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "x"], "--model and --train-file are missing"),
        (["--model", "x", "--output", "x"], "--train-file is missing"),
        (["--resume"], "--resume needs --output"),
        (["--resume", "--output", "nowhere"], "holds no run to resume"),
        (["--resume", "--output", "x", "--config", "y"], "leave --config out"),
        (
            ["--config", "nowhere.json"],
            "Error: cannot read the configuration 'nowhere.json': No such file or directory\n",
        ),
        (
            ["--model", "x", "--train-file", "x", "--output", "x", "--sts", "nowhere"],
            "no folder 'nowhere'; give SentEval's data/downstream folder",
        ),
        (["--loss", "infonce", "--set", "temprature=1"], "temprature"),
        (
            ["--tracker", "paper", "--model", "x", "--train-file", "x", "--output", "x"],
            "trackers must be",
        ),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(monkeypatch, capsys, *arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted(config, resume):
        raise KeyboardInterrupt

    monkeypatch.setattr("gradlab.train.loop.train", interrupted)
    output = tmp_path / "a run"
    output.mkdir()
    (output / "manifest.json").write_text("{}")
    code, _, err = run(monkeypatch, capsys, "--model", "x", "--train-file", "x", "--output", output)
    assert code == 130
    assert f"Continue with: gradlab train --resume --output '{output}'" in err
