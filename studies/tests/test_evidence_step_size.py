"""λ from the angle that a step turns: recovered exactly where a step is the lemma's own."""

import pytest
import torch

import gradlab
from gradlab import GradlabError
from studies.evidence.step_size import measure_steps, turned
from tests.tiny_models import make_bert, make_sentences


@pytest.mark.parametrize("step", [1e-3, 0.3])
def test_a_step_along_the_gradient_gives_its_own_lambda(step):
    generator = torch.Generator().manual_seed(0)
    anchors = torch.nn.functional.normalize(
        torch.randn(12, 6, generator=generator, dtype=torch.float64), dim=1
    )
    positives = torch.nn.functional.normalize(
        anchors + 0.4 * torch.randn(12, 6, generator=generator).double(), dim=1
    )
    loss = gradlab.get_loss("infonce", temperature=0.05)
    # The gradient by autograd, in the unit gauge: divided by GD times the sum of the weights.
    free = anchors.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(
        loss(free, positives, reduction="none", normalize=True).sum(), free
    )
    parts = gradlab.components(loss, anchors, positives)
    scale = parts.gradient_dissipation * parts.weight.sum(-1)
    after = torch.nn.functional.normalize(anchors - step * gradient / scale[:, None], dim=1)
    found = turned(loss, anchors, positives, after, positives)
    assert found["lambda_q25"] == pytest.approx(step, rel=1e-9)
    assert found["lambda_q75"] == pytest.approx(step, rel=1e-9)
    assert found["along_gradient"] == pytest.approx(1, abs=1e-12)
    assert found["closer_anchor"] == found["closer_both"]


def test_steps_of_an_encoder(tmp_path):
    model, sentences = str(make_bert(tmp_path / "bert")), make_sentences(32)
    settings = {"steps": 3, "batch_size": 8, "measured": (1, 3)}
    rows = list(measure_steps(model, sentences, ("infonce",), learning_rate=1e-3, **settings))
    assert [row["step"] for row in rows] == [1, 3]
    # A small step turns an anchor by an angle that is proportional to its size.
    small, smaller = (
        next(iter(measure_steps(model, sentences, ("infonce",), learning_rate=rate, **settings)))
        for rate in (1e-6, 5e-7)
    )
    assert small["lambda"] / smaller["lambda"] == pytest.approx(2, rel=0.05)
    with pytest.raises(GradlabError, match="16 sentences; 3 steps of 8 need 24"):
        next(iter(measure_steps(model, sentences[:16], **settings)))
