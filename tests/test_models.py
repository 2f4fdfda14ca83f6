"""Losses of published models: rows of confidence A against the published formulas, as loops."""

from __future__ import annotations

import math

import pytest
import torch
from click.testing import CliRunner

import gradlab
from gradlab.atlas.models import measure_model
from gradlab.cli.atlas import command
from gradlab.losses.published_models import published_models
from gradlab.settings import call_text

ROWS = {row.key: row for row in published_models()}
N, HARD, D, TEMPERATURE = 5, 2, 1024, 0.07


def unpublished(row):
    return {name: TEMPERATURE if "temperature" in name else 0.3 for name in row.unpublished}


def cosine(first, second):
    return float(first @ second / (first.norm() * second.norm()))


def cross_entropy(positive, negatives, temperature):
    """``-log e^p/(e^p + Σ e^n)`` of cosines."""
    return math.log(
        1 + sum(math.exp((negative - positive) / temperature) for negative in negatives)
    )


def queries_to_documents(temperature, *, in_batch=True, queries=False, hard=None):
    """The mean over queries of a softmax over their documents."""

    def loss(q, d, shared, own):
        values = []
        for i in range(N):
            negatives_of_batch = [j for j in range(N) if j != i]
            negatives = [cosine(q[i], d[j]) for j in negatives_of_batch] if in_batch else []
            negatives += [cosine(q[i], q[j]) for j in negatives_of_batch] if queries else []
            negatives += [
                cosine(q[i], vector) for vector in {"shared": shared, "own": own[i], None: []}[hard]
            ]
            values.append(cross_entropy(cosine(q[i], d[i]), negatives, temperature))
        return sum(values) / N

    return loss


def both_directions(first, second):
    """The mean of two losses, the second one of documents to queries."""
    return lambda q, d, shared, own: (first(q, d, shared, own) + second(d, q, shared, own)) / 2


def prefixes(loss, weights):
    """The weighted sum over shortened vectors."""
    return lambda q, d, shared, own: sum(
        weight * loss(q[:, :dim], d[:, :dim], shared[:, :dim], own[:, :, :dim])
        for dim, weight in weights.items()
    )


def pairs_of_sigmoids(scale, bias):
    """``-1/N Σ_ij log σ(z_ij (s cos + b))``, z = 1 on the diagonal and -1 beside it."""

    def loss(q, d, shared, own):
        signed = [
            (1 if i == j else -1) * (scale * cosine(q[i], d[j]) + bias)
            for i in range(N)
            for j in range(N)
        ]
        return sum(math.log1p(math.exp(-logit)) for logit in signed) / N

    return loss


equal = dict.fromkeys
KALM = {896: 1, 512: 0.3, 256: 0.2, 128: 0.1, 64: 0.1}
SHARED, OWN = {"hard": "shared"}, {"in_batch": False, "hard": "own"}
# row -> temperature, and which negatives it has beside or instead of those in the batch
SOFTMAX = {
    "simcse/unsupervised": (0.05, {}),
    "simcse/supervised": (0.05, SHARED),
    "e5-mistral/fine-tuning": (0.02, SHARED),
    "bge/fine-tuning": (0.02, SHARED),
    "bge/v1": (0.01, SHARED),
    "bge/own-negatives": (0.02, OWN),
    "nomic/pretraining": (0.02, {}),
    "llm2vec/unsupervised": (0.05, {}),
    "gritlm/embedding": (0.02, SHARED),
    "nv-embed/first": (TEMPERATURE, SHARED),
    "nv-embed/second": (TEMPERATURE, OWN),
    "nemotron/fine-tuning": (0.02, OWN),
    "gecko/fine-tuning": (TEMPERATURE, {"queries": True, "hard": "own"}),
}
PREFIXES = {
    "nomic/fine-tuning": (0.02, SHARED, equal((64, 128, 256, 512, 768), 1)),
    "modernbert-embed/fine-tuning": (0.02, SHARED, equal((256, 768), 1)),
    "arctic-embed/fine-tuning": (0.02, SHARED, equal((256, 1024), 0.5)),
    "kalm/in-batch": (0.01, SHARED, KALM),
    "kalm/own-negatives": (0.01, OWN, KALM),
    "static-retrieval/training": (0.05, SHARED, equal((32, 64, 128, 256, 512, 768, 1024), 1)),
}
PLAIN = queries_to_documents(TEMPERATURE)
PUBLISHED = {
    **{key: queries_to_documents(tau, **negatives) for key, (tau, negatives) in SOFTMAX.items()},
    **{
        key: prefixes(queries_to_documents(tau, **negatives), dims)
        for key, (tau, negatives, dims) in PREFIXES.items()
    },
    "jina-v5/classification": both_directions(queries_to_documents(TEMPERATURE, **SHARED), PLAIN),
    "instructor/fine-tuning": both_directions(
        queries_to_documents(TEMPERATURE, in_batch=False, hard="shared"), PLAIN
    ),
    "clip/pretraining": both_directions(queries_to_documents(0.07), queries_to_documents(0.07)),
    "siglip/pretraining": pairs_of_sigmoids(10, -10),
}


@pytest.mark.parametrize(
    "key", [key for key, row in ROWS.items() if row.confidence == "A" and row.loss]
)
def test_rows_that_were_read_are_the_published_formulas(key) -> None:
    row = ROWS[key]
    rng = torch.Generator().manual_seed(0)
    q, noise = (torch.randn(N, D, generator=rng, dtype=torch.float64) for _ in range(2))
    d, shared = q + noise, torch.randn(N, D, generator=rng, dtype=torch.float64)
    own = q[:, None] + torch.randn(N, HARD, D, generator=rng, dtype=torch.float64)
    hard_negatives = {"shared": {"extra_negatives": shared}, "own": {"own_negatives": own}, "": {}}
    loss = gradlab.get_loss(f"model:{key}", **unpublished(row))
    loss_value = loss(q, d, normalize=True, **hard_negatives[row.hard_negatives])
    assert float(loss_value) == pytest.approx(PUBLISHED[key](q, d, shared, own), rel=1e-11)


def test_e5_distils_within_each_group_and_contrasts_all_passages() -> None:
    """As microsoft/unilm computes it: one table of cosines, whose groups the teacher scores."""
    rng = torch.Generator().manual_seed(0)
    queries, noise = (torch.randn(N, 8, generator=rng, dtype=torch.float64) for _ in range(2))
    positives = queries + noise
    own = queries[:, None] + torch.randn(N, HARD, 8, generator=rng, dtype=torch.float64)
    teacher = 5 * torch.randn(N, 1 + HARD, generator=rng, dtype=torch.float64)
    passages = torch.cat([positives[:, None], own], dim=1).flatten(0, 1)
    cosines = torch.cosine_similarity(queries[:, None], passages[None], dim=-1) / 0.02
    group = torch.arange(N)[:, None] * (1 + HARD) + torch.arange(1 + HARD)
    divergence = torch.nn.functional.kl_div(
        cosines.gather(1, group).log_softmax(1),
        teacher.log_softmax(1),
        reduction="batchmean",
        log_target=True,
    )
    contrast = torch.nn.functional.cross_entropy(cosines, group[:, 0])
    rows = {"own_negatives": own, "extra_negatives": own.flatten(0, 1), "teacher": teacher}
    loss = gradlab.get_loss("model:e5/fine-tuning")
    value = loss(queries, positives, normalize=True, **rows)
    assert float(value) == pytest.approx(float(divergence + 0.2 * contrast), rel=1e-12)
    # With other queries and with pairs of positives, which its code counts by default.
    wide = "other+same+positive_other+positive_same+extra, extra_negatives=anchors"
    loss = gradlab.get_loss(f"pool(infonce(temperature=0.02), negatives={wide})")
    pairs = [
        torch.cosine_similarity(first[:, None], second[None], dim=-1).fill_diagonal_(-math.inf)
        for first, second in ((positives, queries), (queries, queries), (positives, positives))
    ]
    contrast = torch.nn.functional.cross_entropy(
        torch.cat([cosines, *(pair / 0.02 for pair in pairs)], dim=1), group[:, 0]
    )
    rows.pop("teacher")
    value = loss(queries, positives, normalize=True, **rows)
    assert float(value) == pytest.approx(float(contrast), rel=1e-12)


def test_qwen3_with_documents_kept_masks_only_pairs_with_a_query() -> None:
    """As ms-swift computes it: hard negatives of all rows, and documents against all of them."""
    rng = torch.Generator().manual_seed(0)
    queries, noise = (torch.randn(N, 4, generator=rng, dtype=torch.float64) for _ in range(2))
    positives, hard = queries + noise, torch.randn(N * HARD, 4, generator=rng, dtype=torch.float64)

    def cosines(first, second):
        return torch.cosine_similarity(first[:, None], second[None], dim=-1)

    own = torch.eye(N, dtype=torch.bool)
    documents = torch.cat([positives, hard])
    across, within = cosines(queries, documents), cosines(queries, queries)
    within = within.masked_fill(own, -math.inf)
    limit = across.diagonal()[:, None] + 0.1
    across, within = (pairs.masked_fill(pairs > limit, -math.inf) for pairs in (across, within))
    between_documents = cosines(positives, documents)
    assert (between_documents > limit).any()
    between_documents[:, :N].fill_diagonal_(-math.inf)
    logits = torch.cat([across, within, between_documents], dim=1) / TEMPERATURE
    expected = torch.nn.functional.cross_entropy(logits, torch.arange(N))
    loss = gradlab.get_loss("model:qwen3/documents-kept", temperature=TEMPERATURE)
    value = loss(queries, positives, hard, normalize=True)
    assert float(value) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("row", published_models(), ids=lambda row: row.key)
def test_every_row_is_a_loss_or_says_why_not(row) -> None:
    assert bool(row.loss) != bool(row.refused)
    if row.refused:
        with pytest.raises(gradlab.GradlabError, match="has no loss here"):
            gradlab.get_loss(f"model:{row.key}")
        return
    loss = gradlab.get_loss(f"model:{row.key}", **unpublished(row))
    assert gradlab.get_loss(call_text(loss)) == loss
    if row.unpublished:
        with pytest.raises(
            gradlab.GradlabError, match=f"nobody published .*{row.unpublished[0]}=NUMBER"
        ):
            gradlab.get_loss(f"model:{row.key}")


def test_models_as_a_table_and_side_by_side(monkeypatch) -> None:
    for name, value in {
        "SENTENCES": 16,
        "DIMENSIONS": 64,
        "_turn": lambda: torch.eye(64).numpy(),
    }.items():
        monkeypatch.setattr(f"gradlab.atlas.models.{name}", value)
    run = CliRunner().invoke
    output = run(command, ["--models"], catch_exceptions=False).output
    assert all(row.key in output for row in published_models())
    beside = ["--from", "qwen3(temperature=0.02)", "--to", "nemotron"]
    assert "push of queries" in run(command, beside, catch_exceptions=False).output
    assert measure_model("nemotron").shares == {"other": 0, "same": 0, "hard": pytest.approx(1)}
    with pytest.raises(gradlab.GradlabError, match="learns from a teacher"):
        measure_model("jina-v5(temperature=0.05, distillation_weight=1, gor_weight=1)")
