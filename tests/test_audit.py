"""An audit finds each fault of a loss over several processes, and none in a loss that is right."""

from __future__ import annotations

import audit_losses
import pytest
from click.testing import CliRunner

import gradlab
from gradlab.cli.audit import command
from gradlab.large_batch.audit.auditing import Audit, judge
from gradlab.large_batch.audit.cases import cases, material
from tests.processes import forking

GATHERING = {"gather_across_devices": "true"}
# The pairs that GIST's loss does not gather left out.
CANDIDATES = {**GATHERING, "contrast_anchors": "false", "contrast_positives": "false"}
GIST = "sentence_transformers.losses:GISTEmbedLoss"
RANKING = "sentence_transformers.losses:{}MultipleNegatives{}RankingLoss"
# Those that can be given uneven shares.
OWN_ROWS = ("missing", "uneven_right", "own_mean", "own_mean_weighed", "own_spread")
# name -> (target, settings, whether it can be given uneven shares)
LOSSES = {
    **{
        name: (f"audit_losses:{name}", {}, name in OWN_ROWS)
        for name in (
            "right", "right_whole", "factor_p", "factor_one_over_p", "wrong_positives", "cut_gradient", "cut_both_ways",
            "missing", "own_twice", "all_twice", "split_dependent", "uneven_right", "Scaled", "unsuited", "random_negatives",
            "own_mean", "own_mean_weighed", "own_spread",
        )
    },
    "mnrl": (RANKING.format("", ""), {}, True),
    "mnrl gathering": (RANKING.format("", ""), GATHERING, False),
    "cached gathering": (RANKING.format("Cached", ""), {**GATHERING, "mini_batch_size": "2"}, False),
    "symmetric gathering": (RANKING.format("", "Symmetric"), GATHERING, False),
    "gist": (GIST, {}, True),
    "gist gathering": (GIST, GATHERING, False),
    "gist gathering, candidates alone": (GIST, CANDIDATES, False),
    "cached gist gathering": (GIST.replace("GIST", "CachedGIST"), {**CANDIDATES, "mini_batch_size": "2"}, False),
    "cosent": ("sentence_transformers.losses:CoSENTLoss", {}, True),
    "contrastive": ("sentence_transformers.losses:ContrastiveLoss", {}, True),
    "batch hard": ("sentence_transformers.losses:BatchHardSoftMarginTripletLoss", {}, True),
    "ours gathering": ("gradlab.integrations.sentence_transformers:InfoNCELoss", GATHERING, False),
}  # fmt: skip
PROCESSES = 2


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory) -> dict[str, tuple]:
    """All losses in the same three processes."""
    pytest.importorskip("sentence_transformers")
    folder = tmp_path_factory.mktemp("meet")
    given = material(PROCESSES, 2, 0)
    every = cases(PROCESSES)
    job = {**given, "cases": every, "losses": LOSSES, "processes": PROCESSES,
           "folder": str(folder), "timeout": 60}  # fmt: skip
    context = forking()
    connections, started = [], []
    for rank in range(-1, PROCESSES):
        mine, theirs = context.Pipe(duplex=False)
        started.append(context.Process(target=audit_losses.work, args=(rank, list(LOSSES), job, theirs)))
        started[-1].start()
        theirs.close()
        connections.append(mine)
    alone, *parts = (connection.recv() for connection in connections)
    for process in started:
        process.join(60)
    return {
        name: (
            name,
            every if uneven else every[:2],
            given["rows"],
            given["along"],
            (alone[name], [part[name] for part in parts], []),
            True,
        )
        for name, (_, _, uneven) in LOSSES.items()
    }


@pytest.fixture(scope="module")
def audits(evaluations) -> dict[str, Audit]:
    return {name: judge(*found) for name, found in evaluations.items() if name != "random_negatives"}


def test_a_loss_that_draws_random_numbers_is_refused(evaluations):
    with pytest.raises(gradlab.GradlabError, match="random_negatives draws random numbers: twice"):
        judge(*evaluations["random_negatives"])


@pytest.mark.parametrize(
    "name",
    ["right", "right_whole", "uneven_right", "Scaled", "mnrl gathering", "cached gathering", "symmetric gathering", "ours gathering",
     "own_mean_weighed", "gist gathering, candidates alone", "cached gist gathering"],
)  # fmt: skip
def test_right_losses_pass(audits, name):
    assert audits[name].passed, str(audits[name])
    assert audits[name].outcomes["even"].error < 1e-12


@pytest.mark.parametrize(
    ("name", "fault", "words"),
    [
        ("factor_p", "factor P", "2 times"),
        ("factor_one_over_p", "factor 1/P", "0.5 times"),
        ("wrong_positives", "wrong positives", "5 of 10 anchors"),
        ("cut_gradient", "cut gradient", "of 100 pairs across processes, 50 lack it"),
        ("cut_both_ways", "cut gradient", "not its derivative"),
        ("unsuited", "cut gradient", "not its derivative"),
        ("missing", "missing negatives", "50 of 50 negatives of other processes"),
        ("mnrl", "missing negatives", "50 of 50 negatives of other processes"),
        ("gist", "missing negatives", "negatives of other processes"),
        ("gist gathering", "missing negatives", "of other processes, rows in the role of anchors"),
        ("cosent", "separate losses", "as if there were no others"),
        ("batch hard", "missing negatives", "negatives of other processes"),
        ("own_spread", "separate losses", "as if there were no others"),
        ("own_mean", "uneven shares, weights of processes", "processes 0, 1, ... are 0.8, 1.33333 times"),
        ("contrastive", "uneven shares, weights of processes", "processes 0, 1, ... are 0.8, 1.33333 times"),
        ("own_twice", "repeated negatives", "of the same process count 2 times"),
        ("all_twice", "repeated negatives", "keep their proportions"),
    ],
)
def test_each_fault_is_named(audits, name, fault, words):
    first = audits[name].faults[0]
    assert first.name == fault
    assert words in first.text
    assert first.cause
    assert first.mend
    assert not audits[name].passed


def test_what_depends_on_the_split_is_named(audits):
    names = {name: [fault.name for fault in audits[name].faults] for name in audits}
    assert names["split_dependent"] == ["depends on the split"]
    assert "depends on the split" in names["missing"]
    assert "depends on the split" not in names["factor_p"]


def test_uneven_shares_are_weighed(audits):
    """A loss of the own rows alone, against its own gradient on shares of 5 and 3 of 8 sentences."""
    outcome = audits["uneven_right"].outcomes["uneven"]
    assert [len(share) for share in outcome.case.shares] == [5, 3]
    assert outcome.error < 1e-12


def test_a_gather_that_fails_on_uneven_shares_is_named(evaluations):
    name, _, rows, along, (alone, parts, _), averaged = evaluations["right"]
    alone = {**alone, "uneven": alone["even"]}
    failed = ["raises RuntimeError: Connection closed by peer", "raises ValueError: shares differ in size"]
    found = judge(name, cases(PROCESSES), rows, along, (alone, parts, failed), averaged)
    assert [fault.name for fault in found.faults] == ["uneven shares"]
    assert (
        "with a smaller last share the loss raises ValueError: shares differ in size" in found.faults[0].text
    )
    assert "uneven shares   raises ValueError" in str(found)


@pytest.mark.parametrize(
    ("loss", "options", "words"),
    [
        ("audit_losses:nothing", {}, "has no 'nothing'"),
        ("audit_losses:right", {"processes": 1}, "at least 2"),
        ("audit_losses:right", {"columns": 1}, "at least 2"),
        (lambda anchors, positives: anchors.sum(), {}, "give it by name"),
        (audit_losses.right, {"settings": {"a": "1"}}, "settings belong"),
    ],
)
def test_bad_input_is_one_line(loss, options, words):
    with pytest.raises(gradlab.GradlabError, match=words) as caught:
        gradlab.audit(loss, **options)
    assert "\n" not in str(caught.value)


def test_the_command_and_a_loss_that_does_not_come_to_the_gather(monkeypatch):
    monkeypatch.syspath_prepend(audit_losses.__file__.rpartition("/")[0])
    done = CliRunner().invoke(command, ["audit_losses:leaves_early", "--even", "--timeout", "4"])
    assert done.exit_code == 1, done.output
    assert "Fault 1, fails: with even shares the loss hangs: one process waits for another" in done.output
    assert "shuffled shares not run" in done.output
