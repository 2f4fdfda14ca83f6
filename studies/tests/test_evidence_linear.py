"""The second regime: a head on cached embeddings, against a plain loop; its parts, and interruptions."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch.nn.functional import normalize

import gradlab
from gradlab import GradlabError
from studies.evidence import linear
from studies.evidence.features import measure, summary
from studies.evidence.linear_head import (
    DEV,
    HELD_OUT,
    SETS,
    CachedEmbeddings,
    train_head,
)
from studies.runs import read_rows

D = 12
SPEC = """name = "evidence-{name}"
[base]
model = "m"
train_file = "f"
sts = "s"
"""
POINT = """
[[points]]
label = "{label}"
loss = "recombined"
loss_settings.gate = "{gate}"
loss_settings.weight = "{weight}"
loss_settings.ratio = 1.0
{more}
"""


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(0)
    meaning = generator.normal(size=(HELD_OUT + 128, D))
    noise = generator.normal(size=(2, HELD_OUT + 128, D))
    pairs = {}
    for name in (*SETS, DEV):
        first, second = generator.normal(size=(2, 30, D))
        pairs[name] = (
            first.astype("f4"),
            second.astype("f4"),
            (first * second).sum(1) + generator.normal(size=30),
        )
    return CachedEmbeddings((meaning + 0.3 * noise).astype("f4"), pairs)


def test_a_head_is_trained_as_a_plain_loop_would(data):
    """InfoNCE by cross-entropy, Adam by its formula in numpy."""
    result = train_head(data, gradlab.get_loss("infonce"), 0.01, seed=3, steps=4, batch_size=16)
    order = torch.randperm(128, generator=torch.Generator().manual_seed(3))[:64].reshape(4, 16)
    head, mean, square = torch.eye(D), torch.zeros(D, D), torch.zeros(D, D)
    for step, rows in enumerate(order, start=1):
        leaf = head.clone().requires_grad_()
        one, other = (normalize(torch.from_numpy(view)[rows] @ leaf) for view in data.views)
        torch.nn.functional.cross_entropy(one @ other.T / 0.05, torch.arange(16)).backward()
        mean = 0.9 * mean + 0.1 * leaf.grad
        square = 0.999 * square + 0.001 * leaf.grad**2
        rate = 0.01 * (1 - (step - 1) / 4)
        head = head - rate * (mean / (1 - 0.9**step)) / ((square / (1 - 0.999**step)).sqrt() + 1e-8)
    scores = {}
    for name, (first, second, gold) in data.pairs.items():
        u, v = (normalize(torch.from_numpy(rows) @ head) for rows in (first, second))
        scores[name] = spearmanr((u * v).sum(1).numpy(), gold).statistic
        assert result.measured[name] == pytest.approx(scores[name], abs=2e-3), (
            name
        )  # ranks may swap by rounding
    assert result.measured["sts"] == pytest.approx(
        np.mean([result.measured[name] for name in SETS]), abs=1e-12
    )
    held = [torch.from_numpy(view)[128:256].double() @ head.double() for view in data.views]
    cosine = normalize(held[0]) @ normalize(held[1]).T
    first_batch = torch.acos(cosine.diagonal()).mean()
    assert result.measured["theta_pos"] == pytest.approx(float(first_batch), abs=0.05)


def test_it_is_the_same_run_again_and_another_with_another_seed(data):
    loss = gradlab.get_loss("met")
    again = train_head(data, loss, 0.01, 1, 3, 16)
    assert again == train_head(data, loss, 0.01, 1, 3, 16)
    assert again.measured != train_head(data, loss, 0.01, 2, 3, 16).measured
    few = train_head(data, loss, 0.01, 1, 3, 16, only_features=True)
    assert "sts" not in few.measured
    assert few.measured["push"] > 0


def test_the_open_share_is_the_gates_and_a_control_follows_it(data):
    gated = gradlab.recombine(gate="mpt(margin=0.35)", weight="infonce", ratio=1, gauge="unit")
    on = train_head(data, gated, 0.01, 1, 4, 16, records_shares=True)
    assert all(0 < share < 1 and share * 16 == round(share * 16) for share in on.open_shares), on.open_shares
    free = gradlab.recombine(gate=1, weight="infonce", ratio=1, gauge="unit")
    off = train_head(data, free, 0.01, 1, 4, 16)
    ones = train_head(data, free, 0.01, 1, 4, 16, shares=(1.0,) * 4)
    assert off.measured["sts"] == pytest.approx(ones.measured["sts"], abs=1e-6)
    random = train_head(data, free, 0.01, 1, 4, 16, shares=on.open_shares)
    assert random.measured["sts"] != off.measured["sts"]


def test_features_against_the_definition(data):
    anchors, positives = (normalize(torch.from_numpy(view)[:8].double()) for view in data.views)
    found = measure(gradlab.get_loss("barlow_twins"), anchors, positives)
    parts = gradlab.components("barlow_twins", anchors, positives)
    rho, push, hardest = [], [], []
    for i in range(8):
        sizes = [abs(float(w)) for w in parts.weight[i]]
        pull = sum(float(parts.positive_weight[i, c]) * float(positives[i, c]) ** 2 for c in range(D))
        push.append(float(parts.gradient_dissipation[i]) * sum(sizes))
        rho.append(abs(pull) / sum(sizes))
        hardest.append(max(sizes) / sum(sizes))
    assert found["push"] == pytest.approx(np.mean(push))
    assert found["hardest_share"] == pytest.approx(np.mean(hardest))
    assert found["pull"] == pytest.approx(np.mean([r / (1 + r) for r in rho]))
    steps = [
        measure(
            gradlab.get_loss("infonce"),
            *(normalize(torch.from_numpy(view)[rows].double()) for view in data.views),
        )
        for rows in (slice(0, 8), slice(8, 16))
    ]
    assert summary(steps)["pull"] == pytest.approx(0.5)  # ratio 1
    assert summary(steps)["pull_squared"] == pytest.approx(0.25)


@pytest.fixture
def sweeps(tmp_path):
    folder = tmp_path / "sweeps"
    folder.mkdir()
    points = [POINT.format(label=f"hard / {name}", gate="mpt(margin=0.6)", weight=weight, more="")
              for name, weight in (("softmax .05", "infonce"), ("uniform", "uniform"))]  # fmt: skip
    text = "".join(points)
    grid = "[grid]\nlearning_rate = [1e-4, 1e-3]\n"
    (folder / "tuning.toml").write_text(SPEC.format(name="tuning") + grid + text, encoding="utf-8")
    (folder / "factorial.toml").write_text(SPEC.format(name="factorial") + text, encoding="utf-8")
    arms = [("on", "mpt(margin=0.6)"), ("off", "1.0")]
    text = "".join(POINT.format(label=label, gate=gate, weight="infonce", more="") for label, gate in arms)
    (folder / "dissipation.toml").write_text(SPEC.format(name="dissipation") + text, encoding="utf-8")
    more = 'open_shares = "s.csv"\nopen_shares_use = "{}"'
    text = "".join(
        POINT.format(label=label, gate="1.0", weight="infonce", more=more.format(use))
        for label, use in (("random", "random"), ("scaled", "scale"))
    )
    (folder / "dissipation-controls.toml").write_text(SPEC.format(name="controls") + text, encoding="utf-8")
    return folder


def test_parts_go_on_where_they_stopped(data, sweeps, tmp_path, monkeypatch):
    monkeypatch.setattr(linear, "RATES", (1e-3, 1e-2))
    monkeypatch.setattr(linear, "TUNING_SEEDS", (101,))
    monkeypatch.setattr(linear, "SEEDS", {"factorial": 2, "open": 1, "dissipation": 1})
    with pytest.raises(GradlabError, match="run the part 'tuning' first"):
        linear.run_part("factorial", data, sweeps, tmp_path, steps=2)
    linear.run_part("tuning", data, sweeps, tmp_path, steps=2)
    rates = linear.tuned_rates(tmp_path / "tuning.csv")
    assert set(rates) == {"hard / softmax .05", "hard / uniform"}
    rows = read_rows(tmp_path / "tuning.csv")
    best = max((row for row in rows if row["label"] == "hard / uniform"), key=lambda row: float(row[DEV]))
    assert rates["hard / uniform"] == float(best["learning_rate"])
    whole = linear.run_part("factorial", data, sweeps, tmp_path, steps=2).read_text()
    assert len(whole.splitlines()) == 1 + 4
    opened = read_rows(linear.run_part("open", data, sweeps, tmp_path, steps=2))
    assert [row["label"] for row in opened] == ["hard / softmax .05", "hard / uniform"]
    assert all(0 < float(row["mean"]) < 1 for row in opened)
    assert all(float(row["first"]) + float(row["last"]) == 2 * float(row["mean"]) for row in opened)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tuning.csv").write_text((tmp_path / "tuning.csv").read_text())
    (broken / "factorial.csv").write_text("\n".join(whole.splitlines()[:3]) + "\n")  # killed after two runs
    assert linear.run_part("factorial", data, sweeps, broken, steps=2).read_text() == whole


def test_controls_have_the_shares_of_their_own_seed(data, sweeps, tmp_path, monkeypatch):
    monkeypatch.setattr(linear, "RATES", (1e-2,))
    monkeypatch.setattr(linear, "SEEDS", {"dissipation": 2})
    linear.run_part("tuning", data, sweeps, tmp_path, steps=2)
    rows = read_rows(linear.run_part("dissipation", data, sweeps, tmp_path, steps=3))
    assert [(row["label"], row["seed"]) for row in rows] == [
        (label, seed) for seed in "12" for label in ("on", "off", "random", "scaled")
    ]
    with (tmp_path / "open-shares.csv").open() as file:
        shares = list(csv.DictReader(file))
    assert [(row["seed"], row["step"]) for row in shares] == [(s, str(t)) for s in "12" for t in (1, 2, 3)]
