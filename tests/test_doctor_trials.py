"""Measurements of the doctor's trials against definitions of their own."""

from __future__ import annotations

import json
import types

import pytest
import torch
from torch import nn

import gradlab
from gradlab.data.words import (
    has_blanks,
    is_code,
    is_spaced_wrongly,
    shares_of_identifiers,
    signed,
    words_of,
)
from gradlab.diagnosis import (
    broadcast_trials,
    column_trials,
    form_measurements,
    installation,
    noise_trials,
    trials,
    word_tables,
)
from gradlab.diagnosis.label_measurements import vocabulary
from gradlab.diagnosis.planned_rates import planned
from tests.sentence_training import columns_of, losses, make_trainer

TEXTS = columns_of(64)


def ranking(model):
    return losses.MultipleNegativesRankingLoss(model)


def sized(trainer, columns):
    """Let a trainer's compute_loss take the columns of a batch that ``columns`` names."""

    class Changed(type(trainer)):
        def compute_loss(self, model, inputs, *further, **options):
            features, labels = self.collect_features(inputs)
            return self.loss([features[place] for place in columns], labels)

    trainer.__class__ = Changed
    return trainer


@pytest.mark.parametrize(
    ("columns", "said"),
    [((0, 1), ()), ((1, 0), ()), ((1, 1), ((0, 1),)), ((0, 0), ((1, 0),)), ((0, 1, 1), ())],
)
def test_columns_that_reach_the_loss(bert, tmp_path, columns, said):
    trainer = sized(make_trainer(bert, tmp_path, ranking, TEXTS), columns)
    inputs = next(iter(trainer.get_train_dataloader()))
    features, labels = trainer.collect_features(inputs)
    assert column_trials.replaced(trainer, inputs, trainer.loss, features, labels) == said


def test_a_column_twice_is_named(bert, tmp_path):
    trainer = sized(make_trainer(bert, tmp_path, ranking, TEXTS), (1, 1))
    (problem,) = [
        verdict for verdict in gradlab.doctor(trainer, progress=False).verdicts
        if verdict.subject == "loss of the trainer"
    ]  # fmt: skip
    assert "'positive' to the loss twice, and 'anchor' never" in problem.finding


class Rows(nn.Module):
    """An encoder whose embeddings are rows of its input, beside noise in training mode."""

    def __init__(self, noise):
        super().__init__()
        self.noise = noise

    def encode(self):
        raise NotImplementedError

    def forward(self, features):
        rows = features["rows"]
        noise = self.noise * torch.randn_like(rows) if self.training else 0.0
        return {"sentence_embedding": rows + noise}


def in_training(noise, rows):
    trainer = make_named(Rows(noise))
    torch.manual_seed(0)
    return noise_trials.training_mode(trainer, [{"rows": rows}])


def make_named(model):
    return types.SimpleNamespace(
        model=model, args=types.SimpleNamespace(neftune_noise_alpha=None),
        compute_loss_context_manager=torch.no_grad,
    )  # fmt: skip


def test_passes_in_training_mode():
    rows = torch.randn(40, 64, generator=torch.Generator().manual_seed(1))
    calm = in_training(0.0, torch.cat([rows, rows[:8]]))  # equal texts count once
    assert calm["texts"] == 40
    assert calm["same"] == pytest.approx(1)
    assert calm["itself"] == 1
    cosines = nn.functional.normalize(rows, dim=1) @ nn.functional.normalize(rows, dim=1).T
    mean = float((cosines.sum() - 40) / (40 * 39))
    assert calm["different"] == pytest.approx(mean, abs=1e-6)
    assert calm["apart"] == pytest.approx(mean, abs=1e-6)
    # Of independent noise of the same size, half of a squared length is the text's own.
    assert in_training(1.0, rows)["same"] == pytest.approx(0.5, abs=0.05)
    drowned = in_training(30.0, rows)
    assert abs(drowned["same"]) < 0.1
    assert drowned["itself"] < 0.2
    assert in_training(0.0, rows[:5]) is None


def test_noise_is_that_of_the_library(bert, tmp_path):
    """The trial adds the noise that transformers adds as training begins."""
    from transformers.integrations import neftune_post_forward_hook

    numbers = []
    for alpha in (0.0, 0.2):
        trainer = make_trainer(bert, tmp_path, ranking, TEXTS, neftune_noise_alpha=0.2 - alpha)
        for module in trainer.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        words = next(m for m in trainer.model.modules() if isinstance(m, nn.Embedding))
        words.neftune_noise_alpha = alpha
        words.register_forward_hook(neftune_post_forward_hook)
        inputs = next(iter(trainer.get_train_dataloader()))
        features, _ = trainer.collect_features(inputs)
        torch.manual_seed(0)
        numbers.append(noise_trials.training_mode(trainer, features))
    assert numbers[0]["same"] < 0.999
    assert numbers[0]["same"] == pytest.approx(numbers[1]["same"], rel=0.02)
    assert [measured["alpha"] for measured in numbers] == [0.2, 0.0]


@pytest.mark.parametrize(
    ("difference", "broadcasts"),
    [
        (lambda scores, labels: (scores - labels).square(), False),
        (lambda scores, labels: (scores - labels[:, None]).square(), True),
        (lambda scores, labels: (scores[:, None] - labels).square(), True),
        # As good as sums of the scores and of the labels where labels are all lower.
        (lambda scores, labels: (scores - labels).abs(), False),
        (lambda scores, labels: (scores - labels[:, None]).abs(), True),
        (lambda scores, labels: (scores[:, None] - scores) * (labels > labels[:, None]), False),
        (
            lambda scores, labels: (0.1 - (scores - labels + 9).abs()).relu(),
            False,
        ),  # 0, a margin met
    ],
)
@pytest.mark.parametrize("size", [4, 5, 16])
def test_labels_that_are_broadcast(difference, broadcasts, size):
    generator = torch.Generator().manual_seed(1)
    scores = torch.rand(size, generator=generator, dtype=torch.float64)
    labels = torch.rand(size, generator=generator, dtype=torch.float64) - 2

    def value_of(chosen):
        return float(difference(scores, chosen).mean())

    assert broadcast_trials.broadcasts_labels(value_of, labels) == broadcasts
    assert not broadcast_trials.broadcasts_labels(value_of, labels.long())


def test_tables_that_are_drawn_and_that_are_not():
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(2000, 50, generator=generator)
    assert all(0.8 < number < 1.2 for number in word_tables.randomness(table).values())
    uniform = word_tables.randomness(torch.rand(2000, 50, generator=generator) - 0.5)
    assert uniform["lengths"] < 1.0
    assert uniform["mean"] < 1.2
    assert uniform["correlation"] < 1.2
    factors = torch.randn(2000, 5, generator=generator)
    related = factors @ torch.randn(5, 50, generator=generator) + 0.1 * table
    assert word_tables.randomness(related)["correlation"] > 20
    assert word_tables.randomness(table + 0.3)["mean"] > 20
    often = table * torch.rand(2000, 1, generator=generator)
    assert word_tables.randomness(often)["lengths"] > 4


def test_texts_without_a_word_of_the_vocabulary():
    counts = torch.tensor([[0.0, 1.0], [0.0, 0.0], [2.0, 0.0], [0.0, 0.0]])
    mask = torch.tensor([[1, 1], [1, 0], [0, 0], [1, 1]])
    columns = [{"sentence_embedding": counts}, {"attention_mask": mask}]
    observation = types.SimpleNamespace(
        trainer=types.SimpleNamespace(model=types.SimpleNamespace(tokenizer=None)),
        table_of=lambda dataset: {"query": [], "offer": []},
    )
    batches = [types.SimpleNamespace(columns=columns)]
    measured = vocabulary(observation, "", batches)
    assert measured == {"unknown": {}, "wordless": {"query": 0.5, "offer": 0.25}}


def test_rates_and_vectors_of_biases_alone(bert, tmp_path):
    trainer = make_trainer(bert, tmp_path, ranking, TEXTS, optim="adamw_torch", learning_rate=1e-3)
    for name, weight in trainer.model.named_parameters():
        weight.requires_grad_(name.endswith("bias"))
    numbers = gradlab.doctor(trainer, progress=False).measurements["trainer"]["weights"]
    assert numbers["vectors"] == numbers["trained"]
    assert numbers["example"].endswith("bias")
    assert numbers["rates"] == pytest.approx(20 * 1e-3)  # a constant rate


@pytest.mark.parametrize("rates", [[0.004], [0.002, 0.004], [0.001, 0.002, 0.004]])
def test_the_schedule_of_several_rates_is_that_of_the_largest(rates):
    """A schedule without functions is played on as many groups as the optimizer has."""
    groups = [{"params": [nn.Parameter(torch.zeros(2))], "lr": rate} for rate in rates]
    scheduler = torch.optim.lr_scheduler.LinearLR(
        torch.optim.AdamW(groups), 1.0, 0.05, total_iters=10
    )
    args = types.SimpleNamespace(max_steps=10, gradient_accumulation_steps=1)
    numbers = trials.schedule(types.SimpleNamespace(args=args, lr_scheduler=scheduler), None)
    expected = [1.0 - 0.95 * step / 10 for step in range(10)]
    assert numbers["peak"] == pytest.approx(1.0)
    assert numbers["mean"] == pytest.approx(sum(expected) / 10)
    assert numbers["end"] == pytest.approx(expected[-1])


def test_a_schedule_of_schedules_is_played_without_moving_it():
    """`SequentialLR` and `ChainedScheduler` hold schedulers of their own."""
    schedulers = torch.optim.lr_scheduler
    for make in (
        lambda o: schedulers.SequentialLR(
            o, [schedulers.LinearLR(o, 0.1, total_iters=5), schedulers.ConstantLR(o, 1.0)], [5]
        ),
        lambda o: schedulers.ChainedScheduler([schedulers.LinearLR(o, 0.1, total_iters=5)]),
    ):
        optimizer = torch.optim.AdamW([nn.Parameter(torch.zeros(2))], lr=1e-4)
        scheduler = make(optimizer)
        before = (optimizer.param_groups[0]["lr"], scheduler._schedulers[0].last_epoch)
        rates = planned(scheduler, optimizer, 20)
        assert max(rates.factors) == pytest.approx(1.0)
        assert rates.largest == pytest.approx(1e-4)
        assert before == (optimizer.param_groups[0]["lr"], scheduler._schedulers[0].last_epoch)


def test_rates_that_an_optimizer_finds_are_not_judged(bert, tmp_path):
    from transformers.optimization import Adafactor, AdafactorSchedule

    trainer = make_trainer(bert, tmp_path, ranking, TEXTS)
    trainer.optimizer = Adafactor(trainer.model.parameters(), relative_step=True, warmup_init=True)
    trainer.lr_scheduler = AdafactorSchedule(trainer.optimizer)
    diagnosis = gradlab.doctor(trainer, progress=False)
    assert not {"learning_rate", "reach", "unmeasured"} & set(diagnosis.measurements["trainer"])
    assert not {"rate too low", "schedule does not reach the rate"} & {
        verdict.name for verdict in diagnosis.problems
    }


def test_a_head_and_vectors_have_rates_of_their_own(bert, tmp_path):
    trainer = make_trainer(bert, tmp_path, ranking, TEXTS)
    body, vector = list(trainer.model.parameters()), nn.Parameter(torch.zeros(2))
    head = nn.Linear(2, 2)
    trainer.optimizer = torch.optim.AdamW([
        {"params": body, "lr": 2e-5}, {"params": head.parameters(), "lr": 1e-3},
        {"params": [vector], "lr": 1e-2},
    ])  # fmt: skip
    numbers = gradlab.doctor(trainer, progress=False).measurements["trainer"]["learning_rate"]
    assert (numbers["rate"], numbers["above"]) == (2e-5, 1e-3)
    assert numbers["multiplies"]


def test_a_triplet_has_no_negatives_in_other_rows(bert, tmp_path):
    table = {name: column * 2 for name, column in columns_of(16, 3).items()}
    for loss, is_judged in ((losses.TripletLoss, False), (ranking, True)):
        trainer = make_trainer(bert, tmp_path, loss, table, per_device_train_batch_size=8)
        verdicts = gradlab.doctor(trainer, progress=False).verdicts
        assert ("duplicates" in {verdict.subject for verdict in verdicts}) is is_judged


def test_queries_of_a_database_are_code():
    assert is_code("SELECT name FROM users WHERE id = 5")
    assert is_code("  update t set a = 1")
    assert is_code("insert into orders values 3")
    assert not is_code("update your settings in the app")
    assert not is_code("deleted from the register")


def test_letters_that_stand_apart_are_told_from_sequences():
    assert is_spaced_wrongly("t h e c a t s a t o n t h e m a t")
    assert is_spaced_wrongly("d e r h u n d l i e g t v o r d e r t u e r")
    assert not is_spaced_wrongly("m t v g y g g s g s p q s k l w p k l d")  # a protein
    assert not is_spaced_wrongly("t h e c a t")
    # Vowels of Hindi and Tamil, points of Hebrew and Arabic and accents stand within words.
    for text in ("स्टेशन से दो पका अनार लाओ", "நிலையத்திற்கு மாதுளை கொண்டு வா", "שָׁלוֹם עוֹלָם",
                 "السَّلَامُ عَلَيْكُمْ", "cafe\u0301 re\u0301sume\u0301"):  # fmt: skip
        assert words_of(text) == text.casefold().split()
        assert not is_spaced_wrongly(text)


@pytest.mark.parametrize(
    ("cell", "other", "share"),
    [
        ("1995 / 01 / 13", "13 jan 1995", 0.0),
        ("1995 / 01 / 13", "9 jan 1994", 1.0),
        ("part-17", "the part with number 17", 0.0),
        ("101 2054 2003 102", "what is 102 ?", 1.0),
    ],
)
def test_numbers_in_another_form_are_no_identifiers(cell, other, share):
    assert shares_of_identifiers({"a": [cell], "b": [other]})["a"] == share


def test_marks_around_entities_are_no_blanks():
    assert has_blanks("[HEAD] was here")
    assert has_blanks("we met [name] today")
    assert not has_blanks("re: [sales] conference thursday (draft)")
    assert has_blanks("re: [sales] [name] on [date]")
    assert not has_blanks("[HEAD] ann [/HEAD] met [TAIL] bob [/TAIL]")
    assert not has_blanks("<HEAD> ann </HEAD> met bob")


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        ("3 x + 5 = 0", "3 x - 5 = 0", False),
        ("3 x * 5", "3 x / 5", False),
        ("good \N{GRINNING FACE}", "good \N{CRYING FACE}", False),
        ("costs 5 $", "costs 5 €", False),
        ("Is it late?", "is it late", True),
        ("a well-known lake - deep", "a well known lake, deep!", True),
        ("2024-01-02", "2024.01.02", True),
    ],
)
def test_signs_that_tell_texts_apart(first, second, alike):
    assert (signed(first) == signed(second)) == alike


def fixed(texts):
    """Return how fixed the commonest word of a column of eight or more texts is."""
    observation = types.SimpleNamespace(table_of=lambda _: {"text": texts})
    return form_measurements.forms(observation, "", [])["filler"][-1]


def test_words_of_a_template_are_fixed_and_masks_are_not():
    words = [f"word{number}" for number in range(40)]
    moves = [f"1 . {word} white , 1 to 0" for word in words]
    assert fixed(moves) == pytest.approx(0.5)
    masked = [
        f"xx xx {first} xx {second}" for first, second in zip(words, words[::-1], strict=True)
    ]
    assert fixed(masked) == pytest.approx(2 / 120)  # each word stands behind two masks of 120


@pytest.mark.parametrize(
    "modules",
    [
        [{"idx": 0, "name": "0", "path": "", "type": "trapped_module.Trap"}],
        [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.BoW"},
         {"idx": 1, "name": "1", "path": "", "type": "trapped_module.Trap"}],
        [{"path": ""}],
        ["Transformer"],
        {"type": "trapped_module.Trap"},
    ],
)  # fmt: skip
def test_a_class_that_a_model_names_elsewhere_is_not_imported(modules, tmp_path, monkeypatch):
    trap = "from pathlib import Path\nPath('sprung').touch()\nTrap = object\n"
    (tmp_path / "trapped_module.py").write_text(trap)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "config.json").write_text("{}")
    verdict = installation.model(str(folder))
    assert (verdict.name, verdict.grade) == ("model does not load", "bad")
    assert not (tmp_path / "sprung").exists()
