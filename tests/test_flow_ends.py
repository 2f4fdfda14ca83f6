"""The atlas tells where losses lead, as flows do."""

import pytest

from gradlab.atlas import flow_ends, measure
from gradlab.atlas.tables import exchange
from gradlab.errors import GradlabError
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.registry import get_loss, loss_class, loss_names


def test_stored_ends_are_those_of_all_losses_at_published_settings():
    own = {name for name in loss_names() if loss_class(name).__module__.startswith("gradlab.")}
    assert set(flow_ends.stored_leads()) == own - {"recombined"}
    assert {lead.end for lead in flow_ends.stored_leads().values()} <= {
        "at rest",
        "stopped learning",
        "still moving",
    }


@pytest.mark.parametrize("name", ["infonce", "mpt", "circle"])
def test_a_stored_end_is_that_of_a_flow(name):
    stored, computed = flow_ends.stored_leads()[name], flow_ends.flow_to_end(get_loss(name))
    assert stored.end == computed.end
    for column in ("positives", "same_topic", "different"):
        assert getattr(stored, column) == pytest.approx(getattr(computed, column), abs=1e-3)


def test_supcon_collapses_its_topics_into_a_simplex():
    """Graf et al. 2021: 30 balanced classes in 64 dimensions."""
    assert issubclass(loss_class("supcon"), CandidateLoss)
    supcon = flow_ends.stored_leads()["supcon"]
    assert (supcon.same_topic, supcon.positives) == (1, 1)
    assert supcon.different == pytest.approx(-1 / 29, abs=1e-4)


def test_an_exchange_says_where_the_loss_would_lead():
    text = exchange(measure("infonce"), measure("siglip"))
    assert "sentences on one topic would end at a mean cosine of 0.04 instead of 0.38" in text
    assert "infonce stops learning, siglip is still moving after 1,000 steps" in text


def test_a_loss_with_a_teacher_leads_to_the_teacher():
    with pytest.raises(GradlabError, match="leads to its teacher"):
        flow_ends.lead("kl")
