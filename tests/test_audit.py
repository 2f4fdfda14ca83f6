"""An audit finds each fault of a loss over several processes, and none in a loss that is right."""

from __future__ import annotations

import audit_losses
import numpy as np
import pytest
from click.testing import CliRunner

import gradlab
from gradlab.cli.audit import command
from gradlab.scale.audit.auditing import Audit, judge
from tests.processes import fork_audits, forking

GATHERING = {"gather_across_devices": "true"}
# Without the pairs that GIST's loss does not gather.
CANDIDATES = {**GATHERING, "contrast_anchors": "false", "contrast_positives": "false"}
GIST = "sentence_transformers.losses:GISTEmbedLoss"
RANKING = "sentence_transformers.losses:{}MultipleNegatives{}RankingLoss"
# Settings of a planted loss -> the fault to be found and words of its text; "" for a sound loss.
PLANTED = {
    "": ("", ""),
    "row=siglip both=true exact=false": ("", ""),
    "row=hinge own=fixed_positives": ("", ""),
    "both=true own=centred_on_all": ("", ""),
    "row=dcl gather=cut whole=true scale=P": ("", ""),
    "row=hardest exact=false": ("", ""),
    "whole=true scale=P": ("factor P", "2 times"),
    "both=true gather=cut whole=true": ("factor 1/P", "0.5 times"),
    "scale=1/P": ("divided by P", "0.5 times"),
    "both=true scale=1/P": ("divided by P", "0.5 times"),
    "own=hotter": ("logit scale", "times 5 (divided by the number of processes), on one process"),
    "row=dcl own=hotter": ("logit scale", "times 5 (divided by the number of processes)"),
    "scale=idle": ("no gradient", "of process 1"),
    "scale=rank": ("weights of processes", "should weigh 1, 0.5"),
    "scale=own": ("uneven shares, weights of processes", "1.25, 0.75, that is P n / N"),
    "offset=false": ("wrong positives", "5 of 10 anchors"),
    "gather=cut": ("cut gradient", "the positives more than"),
    "row=hardest both=true gather=all_cut": ("cut gradient", "anchors and positives"),
    "both=true gather_anchors=cut": ("cut gradient", "the anchors more than"),
    "gather=alone": ("separate losses", "as if there were no others"),
    "row=siglip hidden=true": ("missing negatives", "40 of 40 negatives of the same process"),
    "repeat=own": ("depends on the split", "change with which process has which sentence"),
    "repeat=all": ("wrong", "in a way that is not recognised"),
    "own=centred": ("depends on the split", "change with which process has which sentence"),
    "own=by_rank": ("depends on the split", "change with which process has which sentence"),
}
# Settings with two faults at once -> the faults that are found.
TWO_FAULTS = {
    "gather=cut scale=P": ["cut gradient", "factor P"],
    "gather=cut scale=1/P": ["cut gradient", "divided by P"],
    "gather=cut offset=false": ["cut gradient", "wrong positives"],
    "row=siglip gather=cut hidden=true": ["cut gradient", "missing negatives"],
    "gather=alone scale=P": ["separate losses", "factor P"],
    "row=siglip offset=false hidden=true": ["wrong positives", "missing negatives"],
}
FURTHER = {  # name -> (target, settings, whether it can be given uneven shares, fault, words)
    "learnable scale": ("audit_losses:Scaled", {}, True, "", ""),
    "learnable scale, whole": (
        "audit_losses:Scaled", {"whole": "true"}, True, "parameter",
        "parameter scale is off by 1 of",
    ),
    "other split": (
        "audit_losses:split_dependent", {}, False, "shuffled shares, factor", "3 times",
    ),
    "rearranged": (
        "audit_losses:rearranged", {}, False, "wrong positives on one process",
        "10 of 10 anchors are pulled to another sentence",
    ),
    "half fixed": ("audit_losses:half_fixed", {}, False, "", ""),
    "own spread": (
        "audit_losses:own_spread", {}, True, "separate losses", "as if there were no others",
    ),
    "own negatives": ("audit_losses:own_hard", {}, True, "", ""),
    "own negatives of others": (
        "audit_losses:own_misplaced", {}, True, "missing negatives",
        "10 of 60 negatives of the same process (rows in the role of"
    ),
    "unsuited": ("audit_losses:unsuited", {}, True, "cut gradient", "depend on the positives"),
    "mnrl": (RANKING.format("", ""), {}, True, "separate losses", "as if there were no others"),
    "mnrl gathering": (RANKING.format("", ""), GATHERING, False, "", ""),
    "cached gathering": (
        RANKING.format("Cached", ""), {**GATHERING, "mini_batch_size": "2"}, False, "", "",
    ),
    "gist gathering": (
        GIST, GATHERING, False, "missing negatives",
        "other processes (rows in the role of anchors)",
    ),
    "gist gathering, candidates alone": (GIST, CANDIDATES, False, "", ""),
    "cosent": (
        "sentence_transformers.losses:CoSENTLoss", {}, True, "separate losses",
        "as if there were no others",
    ),
    "contrastive": (
        "sentence_transformers.losses:ContrastiveLoss", {}, True,
        "uneven shares, weights of processes", "1.25, 0.75"
    ),
    "batch hard": (
        "sentence_transformers.losses:BatchHardSoftMarginTripletLoss", {}, True, "separate losses",
        "no others"
    ),
    "ours gathering": (
        "gradlab.integrations.sentence_transformers:InfoNCELoss", GATHERING, False, "", "",
    ),
}  # fmt: skip
PROCESSES = 2


EXPECTED = PLANTED | {name: case[3:] for name, case in FURTHER.items()}


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory) -> dict[str, tuple]:
    """What `judge` takes, of all losses, which run in the same three processes."""
    pytest.importorskip("sentence_transformers")
    settings = {
        name: dict(setting.split("=") for setting in name.split())
        for name in [*PLANTED, *TWO_FAULTS]
    }
    losses = {name: ("audit_losses:Planted", case, True) for name, case in settings.items()}
    losses |= {name: case[:3] for name, case in FURTHER.items()}
    losses["random"] = ("audit_losses:random_negatives", {}, False)
    return audit_losses.measured(losses, forking(), str(tmp_path_factory.mktemp("meet")))


@pytest.fixture(scope="module")
def audits(evaluations) -> dict[str, Audit]:
    return {
        name: judge(*evaluation) for name, evaluation in evaluations.items() if name != "random"
    }


def test_columns_without_gradient_on_one_process_are_named(audits):
    assert "no gradient reaches the positives" in str(audits["row=hinge own=fixed_positives"])
    assert "no gradient reaches" not in str(audits[""])
    assert "only a part of its gradient reaches the anchors" in str(audits["half fixed"])
    assert not [name for name, audited in audits.items() if "only a part" in str(audited)
                and name != "half fixed"]  # fmt: skip


def test_a_loss_that_draws_random_numbers_is_refused(evaluations):
    with pytest.raises(gradlab.GradlabError, match="random draws random numbers: on the same rows"):
        judge(*evaluations["random"])


@pytest.mark.parametrize("name", EXPECTED)
def test_each_fault_is_named_and_no_sound_loss_accused(audits, name):
    fault, words = EXPECTED[name]
    audited = audits[name]
    assert [fault_found.name for fault_found in audited.faults] == [fault] * bool(fault), str(
        audited
    )
    assert audited.passed == (not fault)
    for fault_found in audited.faults:
        assert words.lower() in fault_found.finding.lower()
        assert "Usual cause: " in fault_found.finding
        assert fault_found.change
    if not fault and "exact=false" not in name:
        assert max(outcome.error for outcome in audited.outcomes.values()) < 1e-11


@pytest.mark.parametrize("name", TWO_FAULTS)
def test_two_faults_at_once_are_both_named(audits, name):
    audit = audits[name]
    assert [fault.name for fault in audit.faults] == TWO_FAULTS[name], str(audit)


def test_what_is_not_recognised_names_no_cause(audits):
    (fault,) = audits["repeat=all"].faults
    assert "Usual cause: not known" in fault.finding


def test_the_slopes_that_tell_a_cut_gradient_are_derivatives(audits):
    """Of a sound loss, on both sides; a cut one's gradient lacks the slopes across processes."""
    sound, broken = (audits[name].outcomes["even"] for name in ("", "gather=cut"))
    np.testing.assert_allclose(
        sound.slopes_of(sound.contributions), sound.slopes, rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(
        sound.slopes_of(sound.expected), sound.expected_slopes, rtol=1e-6, atol=1e-8
    )
    across = ~np.eye(PROCESSES, dtype=bool)
    assert not broken.slopes_of(broken.contributions)[across, 1].any()
    np.testing.assert_allclose(broken.slopes, sound.slopes, rtol=1e-6, atol=1e-8)


def test_a_gather_that_fails_on_uneven_shares_is_right_on_equal_ones(evaluations):
    name, job, results, _, averaged = evaluations[""]
    results = [
        results[0],
        *({case: shares[case] for case in shares if case != "uneven"} for shares in results[1:]),
    ]
    failed = [
        "raises RuntimeError: Connection closed by peer",
        "raises ValueError: shares differ in size",
    ]
    audited = judge(name, job, results, failed, averaged)
    assert audited.passed  # samplers give equal shares unless they are told otherwise
    assert "uneven shares   raises ValueError: shares differ in size" in str(audited)
    assert "would have on one process, where shares are equal." in str(audited)
    assert "Shares of different sizes were not judged." in str(audited)


def test_the_command_and_a_loss_that_does_not_come_to_the_gather(monkeypatch):
    monkeypatch.syspath_prepend(audit_losses.__file__.rpartition("/")[0])
    fork_audits(monkeypatch)
    invocation = CliRunner().invoke(
        command, ["audit_losses:leaves_early", "--even", "--timeout", "4"]
    )
    assert invocation.exit_code == 1, invocation.output
    assert (
        "Fault 1, fails: With even shares the loss hangs: one process waits for another"
        in invocation.output
    )
    assert "shuffled shares not run" in invocation.output
