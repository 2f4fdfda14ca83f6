"""Features of the first steps of encoder trainings, and what is taken from a run's records."""

import json
import math

import numpy as np
import pytest
import torch

import gradlab
from gradlab import GradlabError
from gradlab.batch import unit_rows
from gradlab.encoder import Encoder
from gradlab.files import write_json
from gradlab.gradient import distributions
from gradlab.monitor import histogram_rows
from gradlab.sweep import Trials, parse_spec
from studies.evidence.collect import _LAST, collect_sweep, measured_angles
from studies.evidence.features import SPECS, measure, measure_first_steps, summary
from studies.runs import read_rows, recorded
from tests.tiny_models import make_bert, make_sentences

D = 12
SPEC = """name = "evidence-{name}"
[base]
pooler = "cls"
dropout = 0.0
max_steps = 4
batch_size = 16
max_length = 16
learning_rate = 1e-3
precision = "float32"
device = "cpu"
[[points]]
label = "{name}"
loss = "{loss}"
"""


def test_features_are_those_of_the_first_batches(tmp_path):
    model, sentences = str(make_bert(tmp_path / "bert")), make_sentences(16)
    (tmp_path / "train.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    for name, loss in zip(SPECS, ("infonce", "cosface", "dcl"), strict=True):
        (tmp_path / f"{name}.toml").write_text(SPEC.format(name=name, loss=loss), encoding="utf-8")
    given = {"model": model, "train_file": str(tmp_path / "train.txt")}
    path = measure_first_steps(tmp_path, tmp_path, given, seeds=2, steps=1)
    rows = read_rows(path)
    assert [(row["label"], row["seed"]) for row in rows] == [
        (n, s) for s in ("1", "2") for n in SPECS
    ]
    # Without dropout the first batch is all sentences, twice the same.
    views = unit_rows(
        torch.from_numpy(Encoder.load(model, "cls", max_length=16).encode(sentences)).double()
    )
    for row, loss in zip(rows[:3], ("infonce", "cosface", "dcl"), strict=True):
        expected = measure(gradlab.get_loss(loss), views, views)
        assert float(row["push"]) == 1.0
        for name in ("hardest_share", "pull", "uniformity"):
            assert float(row[name]) == pytest.approx(expected[name], rel=1e-4)
    before = path.read_text()
    kept = "\n".join(before.splitlines()[:3]) + "\n"
    path.write_text(kept)  # interrupted after two rows
    assert measure_first_steps(tmp_path, tmp_path, given, seeds=2, steps=1).read_text() == before
    assert not list(tmp_path.glob("checkpoint*"))


def test_features_against_the_definition():
    generator = torch.Generator().manual_seed(0)
    meaning = torch.randn(16, D, dtype=torch.float64, generator=generator)
    noise = torch.randn(2, 16, D, dtype=torch.float64, generator=generator)
    seen = unit_rows(meaning + 0.3 * noise)
    anchors, positives = seen[:, :8]
    found = measure(gradlab.get_loss("barlow_twins"), anchors, positives)
    parts = gradlab.components("barlow_twins", anchors, positives)
    rho, push, hardest = [], [], []
    for i in range(8):
        sizes = [abs(float(w)) for w in parts.weight[i]]
        pull = sum(
            float(parts.positive_weight[i, c]) * float(positives[i, c]) ** 2 for c in range(D)
        )
        push.append(float(parts.gradient_dissipation[i]) * sum(sizes))
        rho.append(abs(pull) / sum(sizes))
        hardest.append(max(sizes) / sum(sizes))
    assert found["push"] == pytest.approx(np.mean(push))
    assert found["hardest_share"] == pytest.approx(np.mean(hardest))
    assert found["pull"] == pytest.approx(np.mean([r / (1 + r) for r in rho]))
    steps = [
        measure(gradlab.get_loss("infonce"), *seen[:, rows]) for rows in (slice(0, 8), slice(8, 16))
    ]
    assert summary(steps)["pull"] == pytest.approx(0.5)  # ratio 1
    assert summary(steps)["pull_squared"] == pytest.approx(0.25)


def test_mean_angles_from_the_records_of_a_run(tmp_path):
    generator = torch.Generator().manual_seed(0)
    lines, angles = ["step,group,name,value"], []
    for step in range(1, _LAST + 11):
        anchors = unit_rows(torch.randn(32, 12, generator=generator, dtype=torch.float64))
        positives = unit_rows(anchors + 0.2 * torch.randn(32, 12, generator=generator).double())
        lines.append(f"{step},diagnostics,gradient_dissipation,{step}")
        lines += [
            f"{step},histogram,{name},{value}"
            for name, value in histogram_rows(distributions(anchors, positives)).items()
        ]
        own = torch.eye(32, dtype=torch.bool)
        between = torch.acos((anchors @ positives.T).clamp(-1, 1))
        angles.append((float(between[own].mean()), float(between[~own].mean())))
    file = tmp_path / "metrics.csv"
    file.write_text("\n".join(lines) + "\n")
    found = measured_angles(recorded(tmp_path))
    assert found["dissipation_mean"] == pytest.approx((1 + _LAST + 10) / 2)
    last = torch.tensor(angles[-_LAST:]).mean(0).tolist()
    # Bins of .05 shift an angle by at most width^2/24 times the second derivative of arccos, about
    # 1e-3 at a cosine of .8.
    assert found["theta_pos"] == pytest.approx(last[0], abs=4e-3)
    assert found["theta_neg"] == pytest.approx(last[1], abs=1e-3)
    file.write_text("\n".join(line for line in lines if not line.startswith("7,")) + "\n")
    assert set(measured_angles(recorded(tmp_path))) == {"dissipation_mean"}  # not every step
    assert measured_angles(recorded(tmp_path / "none")) == {}
    assert math.isfinite(found["theta_pos"])


def test_the_rows_of_a_sweep_that_is_still_going_on(tmp_path):
    """One of two runs is finished; the specification is what the sweep left in its folder."""
    base = {"model": "m", "train_file": "f", "backbone": "bert-base"}
    spec = parse_spec(
        {
            "name": "evidence-a",
            "base": base,
            "points": [{"label": "a", "loss": "dcl"}],
            "seeds": [1, 2],
        }
    )
    write_json(tmp_path / "sweep.json", spec.to_dict())
    trials = Trials(spec, f"sqlite:///{tmp_path / 'study.db'}")
    trials.adopt(trials.runs()[1], {spec.metric: 0.123456789, "sts": 0.5, "seconds": 3.0})
    rows, manifest = collect_sweep("a", tmp_path, tmp_path / "rows", commit="c")
    assert rows.name == "encoder-a.csv"
    assert read_rows(rows) == [{"label": "a", "seed": "2", spec.metric: "0.123457", "sts": "0.5"}]
    assert json.loads(manifest.read_text()) == {"finished": 1, "planned": 2}
    with pytest.raises(GradlabError, match=r"sweep\.json"):
        collect_sweep("a", tmp_path / "nowhere", tmp_path / "rows")
