"""The doctor on scripts with one fault planted each and sound ones: tiny models, real trainers."""

from __future__ import annotations

import json
import math
import random

import pytest
import torch
import torch.distributed.nn.functional
from torch import nn

import gradlab
from gradlab.data.cooccurrence import foretold_rank
from gradlab.diagnosis.data_measurements import word_ranks
from gradlab.diagnosis.effects import EFFECTS
from gradlab.diagnosis.verdicts import judge
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Verdict, with_causes
from tests.processes import fork_audits
from tests.sentence_training import losses, make_trainer, weights
from tests.test_watch import hugging_face_trainer
from tests.tiny_models import make_bert, make_sentences

pairwise_cos_sim = pytest.importorskip("sentence_transformers.util").pairwise_cos_sim

ADAM = {"optim": "adamw_torch", "learning_rate": 2e-5}


def ranking(**settings):
    return lambda model: losses.MultipleNegativesRankingLoss(model, **settings)


def gradlab_loss(name, **settings):
    from gradlab.integrations.sentence_transformers import loss

    return lambda model: loss(model, name, **settings)


def cached(kind=losses.CachedMultipleNegativesRankingLoss):
    return lambda model: kind(model, mini_batch_size=5)


def columns_of(count, columns=2, seed=0):
    """Distinct sentences of over five words, others lacking some, and unrelated hard negatives."""
    texts = [text for text in make_sentences(4 * columns * count, seed) if len(text.split()) > 5]
    generator = random.Random(seed)
    columns_of_texts = [
        texts[start : start + count] for start in range(0, (columns - 1) * count, count)
    ]
    lacking = [
        [word for at, word in enumerate(text.split()) if at < 4 or generator.random() < 0.7]
        for text in columns_of_texts[0]
    ]
    table = {"anchor": columns_of_texts[0], "positive": [" ".join(words[:-1]) for words in lacking]}
    return table | {
        f"negative_{place}": column for place, column in enumerate(columns_of_texts[1:], 1)
    }


def twice(count=64):
    """Unsupervised pairs: each sentence with itself."""
    texts = columns_of(count)["anchor"]
    return {"anchor": texts, "positive": list(texts)}


class LowRank(nn.Module):
    """A linear layer with a low-rank adapter, as peft's, whose second factor starts at 0."""

    def __init__(self, layer, rank=2):
        super().__init__()
        self.base = layer
        self.lora_A = nn.Parameter(torch.randn(rank, layer.in_features) / rank)
        self.lora_B = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, rows):
        return self.base(rows) + rows @ self.lora_A.T @ self.lora_B.T


def add_adapters(trainer):
    model = trainer.model
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for layer in model[0].auto_model.encoder.layer:
        layer.attention.self.query = LowRank(layer.attention.self.query)
        layer.attention.self.value = LowRank(layer.attention.self.value)


class OwnLoss(nn.Module):
    """A ranking loss as people write it: on cosines, by cross-entropy."""

    def __init__(self, model, temperature=0.05):
        super().__init__()
        self.model, self.temperature = model, temperature

    def embed(self, features):
        return [self.model(dict(tokens))["sentence_embedding"] for tokens in features]

    def forward(self, features, labels=None):
        anchors, positives = (nn.functional.normalize(rows, dim=1) for rows in self.embed(features))
        logits = anchors @ positives.T / self.temperature
        return nn.functional.cross_entropy(logits, torch.arange(len(logits)))


class Detached(OwnLoss):
    def embed(self, features):
        return [rows.detach().requires_grad_() for rows in super().embed(features)]


class OnACopy(OwnLoss):
    """Holds another model than the one that is trained."""

    def __init__(self, model):
        import copy

        super().__init__(model)
        self.encoder = copy.deepcopy(model)

    def embed(self, features):
        return [self.encoder(dict(tokens))["sentence_embedding"] for tokens in features]


class InHalf(OwnLoss):
    """Adds up in float16 what float32 can hold: a loss of 0 where the positive is far ahead."""

    def __init__(self, model):
        super().__init__(model, temperature=0.001)

    def forward(self, features, labels=None):
        anchors, positives = (nn.functional.normalize(rows, dim=1) for rows in self.embed(features))
        logits = (anchors @ positives.T / self.temperature).half()
        chosen = logits.softmax(1).diagonal()
        return -chosen.log().mean()


class Gathered(OwnLoss):
    """Own anchors against the positives of all processes, gathered with gradient."""

    def forward(self, features, labels=None):
        if not torch.distributed.is_initialized():
            return super().forward(features, labels)
        anchors, positives = self.embed(features)
        gathered = torch.cat(torch.distributed.nn.functional.all_gather(positives))
        labels = torch.arange(len(anchors)) + torch.distributed.get_rank() * len(anchors)
        return nn.functional.cross_entropy(anchors @ gathered.T / 0.1, labels)


class TimesProcesses(Gathered):
    """Scaled as where each process computes the whole loss, which it does not."""

    def forward(self, features, labels=None):
        count = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
        return count * super().forward(features, labels)


class NotReplayed(losses.CachedMultipleNegativesRankingLoss):
    """A gradient cache that draws new dropout in its second pass."""

    def embed_minibatch_iter(self, *args, **kwargs):
        if kwargs.get("with_grad"):
            kwargs["random_states"] = None
        return super().embed_minibatch_iter(*args, **kwargs)


class PieceLost(losses.CachedMultipleNegativesRankingLoss):
    """A gradient cache whose last piece gets no gradient."""

    def calculate_loss(self, reps, *args, **kwargs):
        value = super().calculate_loss(reps, *args, **kwargs)
        if kwargs.get("with_backward"):
            reps[-1][-1].grad.zero_()
        return value


def shuffled(table, column="positive"):
    texts = list(table[column])
    random.Random(1).shuffle(texts)
    return {**table, column: texts}


def streamed(trainer):
    """Its loader has a ``__len__`` that raises."""
    trainer.train_dataset = trainer.train_dataset.to_iterable_dataset()


def freeze(trainer):
    for parameter in trainer.model.parameters():
        parameter.requires_grad_(False)


def adapters_frozen(trainer):
    add_adapters(trainer)
    freeze(trainer)
    trainer.model[0].auto_model.encoder.layer[0].output.dense.weight.requires_grad_(True)


def optimizer_first(trainer):
    trainer.create_optimizer()
    add_adapters(trainer)


def held_in_eval(trainer):
    trainer.model[0].train = lambda mode=True: trainer.model[0]
    trainer.model[0].eval()
    for module in trainer.model.modules():
        module.training = False


def nan_weight(trainer):
    with torch.no_grad():
        trainer.model[0].auto_model.embeddings.LayerNorm.weight[0] = math.nan


def collapsed(trainer):
    with torch.no_grad():
        for layer in trainer.model[0].auto_model.encoder.layer:
            layer.output.LayerNorm.weight.zero_()
            layer.output.LayerNorm.bias.fill_(1.0)


def short(limit):
    def change(trainer):
        trainer.model.max_seq_length = limit

    return change


PAIRS, TRIPLETS = columns_of(64), columns_of(64, 3)
REPEATED = {name: texts[:32] * 2 for name, texts in columns_of(64).items()}
# name -> (the check that must say bad, loss, data, changes of the trainer, arguments)
FAULTS = {
    "all weights frozen": ("trained weights", ranking(), PAIRS, freeze, {}),
    "adapters not trained": ("trained weights", ranking(), PAIRS, adapters_frozen, {}),
    "adapters after the optimizer": ("optimizer", ranking(), PAIRS, optimizer_first, {}),
    "adapters out of reach": ("gradient", Detached, PAIRS, add_adapters, {}),
    "embeddings detached": ("gradient", Detached, PAIRS, None, {}),
    "loss on a copy of the model": ("gradient", OnACopy, PAIRS, None, {}),
    "learning rate 0": ("learning rate", ranking(), PAIRS, None, {**ADAM, "learning_rate": 0.0}),
    "learning rate 0.05": (
        "learning rate", ranking(), PAIRS, None, {**ADAM, "learning_rate": 0.05},
    ),
    "weights in float16": (
        "precision of the weights", ranking(), PAIRS, lambda t: t.model.half(), ADAM,
    ),
    "weights in bfloat16": (
        "precision of the weights", ranking(), PAIRS, lambda t: t.model.bfloat16(), ADAM,
    ),
    "loss adds up in float16": ("loss", InHalf, PAIRS, None, {}),
    "encoder held in eval mode": ("two views", ranking(), twice(), held_in_eval, {}),
    "max_seq_length 4": ("length", ranking(), PAIRS, short(4), {}),
    "everything cut off": ("length", ranking(), PAIRS, short(2), {}),
    "encoder collapsed": ("two views", ranking(), PAIRS, collapsed, {}),
    "weights damaged": ("loss", ranking(), PAIRS, nan_weight, {}),
    "batch of one": ("loss", ranking(), PAIRS, None, {"per_device_train_batch_size": 1}),
    "positives shuffled": ("pairs", ranking(), shuffled(PAIRS), None, {}),
    "negatives are the positives": (
        "hard negatives", ranking(), {**TRIPLETS, "negative_1": TRIPLETS["positive"]}, None, {},
    ),
    "positives and negatives exchanged": (
        "pairs", ranking(),
        {
            "anchor": TRIPLETS["anchor"], "positive": TRIPLETS["negative_1"],
            "negative": TRIPLETS["positive"],
        },
        None, {},
    ),
    "duplicates in batches": ("duplicates", ranking(), REPEATED, None, {}),
    "scale 1": ("temperature", ranking(scale=1.0), PAIRS, None, {}),
    "scale for temperature": ("temperature", ranking(scale=0.05), PAIRS, None, {}),
    "scale 2000": ("temperature", ranking(scale=2000.0), PAIRS, None, {}),
    "temperature 1 in a combinator": (
        "temperature", gradlab_loss("symmetric", loss="infonce(temperature=1)"), PAIRS, None, {},
    ),
    "dropout not replayed": ("gradient cache", cached(NotReplayed), PAIRS, None, {}),
    "a piece without gradient": ("gradient cache", cached(PieceLost), PAIRS, None, {}),
    "gathered, times processes": (
        "several processes", TimesProcesses, PAIRS, None, {"dataloader_drop_last": True},
    ),
}  # fmt: skip
SOUND = {
    "pairs": (ranking(), PAIRS, None, {}),
    "pairs, AdamW": (ranking(), PAIRS, None, ADAM),
    "hard negatives": (ranking(), TRIPLETS, None, {}),
    "gradient cache with dropout": (cached(), PAIRS, None, {}),
    "cache of gradlab, hard negatives": (gradlab_loss("infonce", chunk_size=5), TRIPLETS, None, {}),
    "unsupervised SimCSE": (ranking(), twice(), None, {}),
    "one column": (gradlab_loss("infonce"), {"text": PAIRS["anchor"]}, None, {}),
    "ArcCon": (gradlab_loss("arccon"), PAIRS, None, {}),
    "both directions": (gradlab_loss("symmetric", loss="infonce"), PAIRS, None, {}),
    "labelled pairs": (
        losses.CoSENTLoss, {**PAIRS, "label": [random.Random(i).random() for i in range(64)]}, None,
        {},
    ),
    "distillation": (
        lambda m: losses.DistillKLDivLoss(m, similarity_fct=pairwise_cos_sim),
        {**TRIPLETS, "label": [[0.8, 0.3]] * 64}, None, {},
    ),
    "triplets": (losses.TripletLoss, TRIPLETS, None, {}),
    "adapters": (ranking(), PAIRS, add_adapters, {**ADAM, "learning_rate": 5e-4}),
    "duplicates kept apart": (
        ranking(), REPEATED, None,
        {"batch_sampler": "no_duplicates", "per_device_train_batch_size": 8},
    ),
    "Matryoshka": (lambda m: losses.MatryoshkaLoss(m, ranking()(m), [32, 16]), PAIRS, None, {}),
    "a stream of rows": (ranking(), PAIRS, streamed, {"max_steps": 3}),
    "a loss of one's own": (OwnLoss, PAIRS, None, {}),
    "bfloat16 by autocast": (ranking(), PAIRS, None, {"bf16": True}),
    "gathered soundly": (Gathered, PAIRS, None, {"dataloader_drop_last": True}),
    "low temperature of retrieval": (ranking(scale=100.0), PAIRS, None, {}),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _forked(monkeypatch):
    """A loss that gathers is audited in processes that need not import everything first."""
    fork_audits(monkeypatch)


def examine(bert, output, loss, table, change, arguments, **options):
    trainer = make_trainer(bert, output, loss, table, **arguments)
    if change is not None:
        change(trainer)
    return gradlab.doctor(trainer, progress=False, **options)


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_found(name, bert, tmp_path):
    check, *set_up = FAULTS[name]
    diagnosis = examine(bert, tmp_path, *set_up)
    assert check in {verdict.subject for verdict in diagnosis.problems}, f"{name}\n{diagnosis}"
    assert all(verdict.change for verdict in diagnosis.problems)


@pytest.mark.parametrize("name", SOUND)
def test_sound_script_is_not_accused(name, bert, tmp_path):
    diagnosis = examine(bert, tmp_path, *SOUND[name])
    assert diagnosis.healthy, f"{name}\n{diagnosis}"


def test_no_dropout_makes_equal_views_of_a_text_and_its_copy_alone(tmp_path):
    without_dropout = make_bert(tmp_path / "bert", dropout=0.0)
    equal = examine(without_dropout, tmp_path, ranking(), twice(), None, {})
    assert [verdict.subject for verdict in equal.problems] == ["two views"]
    assert examine(without_dropout, tmp_path, ranking(), PAIRS, None, {}).healthy


def test_training_after_the_doctor_is_the_same_training(bert, tmp_path):
    ends = []
    for asked in (False, True):
        trainer = make_trainer(bert, tmp_path / str(asked), cached(), TRIPLETS, max_steps=3)
        if asked:
            gradlab.watch(trainer, every=1)
            modes = [module.training for module in trainer.model.modules()]
            state = torch.get_rng_state()
            gradlab.doctor(trainer, progress=False)
            assert torch.equal(state, torch.get_rng_state())
            assert [module.training for module in trainer.model.modules()] == modes
        trainer.train()
        ends.append(weights(trainer.model))
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_a_model(bert, tmp_path):
    assert gradlab.doctor(bert).healthy
    assert [verdict.subject for verdict in gradlab.doctor(tmp_path / "nothing").problems] == [
        "model"
    ]


def test_what_cannot_be_examined(bert, tmp_path):
    with pytest.raises(gradlab.GradlabError, match="doctor takes a SentenceTransformerTrainer"):
        gradlab.doctor(object())
    with pytest.raises(gradlab.GradlabError, match="batches must be"):
        gradlab.doctor(batches=1)
    trainer = make_trainer(bert, tmp_path, ranking(), PAIRS)
    trainer.train_dataset = None
    with pytest.raises(gradlab.GradlabError, match="no train_dataset"):
        gradlab.doctor(trainer)


def test_a_hugging_face_trainer_with_named_views(tmp_path):
    trainer = hugging_face_trainer(tmp_path)
    diagnosis = gradlab.doctor(trainer, views=("z1", "z2"), progress=False)
    subjects = {verdict.subject for verdict in diagnosis.problems}
    assert subjects <= {"learning rate"}, str(diagnosis)  # a toy's
    for parameter in trainer.model.parameters():
        parameter.requires_grad_(False)
    diagnosis = gradlab.doctor(trainer, views=("z1", "z2"), progress=False)
    assert "trained weights" in {verdict.subject for verdict in diagnosis.problems}
    with pytest.raises(gradlab.GradlabError, match="does not tell which embeddings"):
        gradlab.doctor(trainer)


# Verdicts are functions of measurements.


def graded_pairs(share, word_share, rows=64):
    numbers = {"anchors": 64, "share": share, "rows": rows, "word_share": word_share}
    (verdict,) = judge({"losses": {"": {"pairs": numbers}}})
    return verdict.grade


def test_pairs_are_blamed_only_if_embeddings_and_words_agree():
    assert graded_pairs(share=0.9, word_share=0.5) == GOOD
    assert graded_pairs(share=0.5, word_share=0.5) == BAD
    assert graded_pairs(share=0.5, word_share=0.9) == NOT_JUDGED  # an untuned encoder
    assert graded_pairs(share=0.5, word_share=math.nan, rows=0) == NOT_JUDGED


def test_words_tell_shuffled_pairs_from_pairs():
    table = columns_of(200)
    shuffled = random.Random(0).sample(table["positive"], 200)
    together = list(word_ranks([table["anchor"], table["positive"]]))
    apart = list(word_ranks([table["anchor"], shuffled]))
    assert sum(together) / 200 > 0.9
    assert abs(sum(apart) / 200 - 0.5) < 3 / math.sqrt(12 * 200)


def test_words_of_translations_are_foretold_and_those_of_shuffled_rows_are_not():
    texts = columns_of(240)["anchor"]
    shuffled = random.Random(0).sample(texts, len(texts))
    words = sorted({word for text in texts for word in text.split()})
    shifted = dict(zip(words, words[17:] + words[:17], strict=True))
    english = [text.split() for text in texts]
    german, other = (
        [[shifted[word] for word in text.split()] for text in column]
        for column in (texts, shuffled)
    )
    assert foretold_rank(english, german) > 0.95
    assert abs(foretold_rank(english, other) - 0.5) < 0.1
    assert foretold_rank(english[:60], german[:60]) == 0.5


@pytest.mark.parametrize(
    ("names", "grade"),
    [
        (["anchor", "positive", "negative_1"], GOOD),
        (["question", "answer"], GOOD),
        (["sentence_0", "sentence_1"], GOOD),
        (["question1", "question2"], GOOD),
        (["question1", "question2", "positive"], BAD),
        (["post", "title"], GOOD),
        (["Title", "Answer"], GOOD),
        (["positive", "anchor"], BAD),
        (["anchor", "negative", "positive"], BAD),
    ],
)
def test_columns_play_the_parts_that_their_names_say(names, grade):
    (verdict,) = judge({"losses": {"": {"columns": {"names": names, "row": names}}}})
    assert verdict.grade == grade
    assert f"anchor = column {names[0]!r}, positive = column {names[1]!r}" in verdict.finding


def test_empty_texts_and_ids_are_no_texts():
    numbers = {"empty": {"a": 0.0, "b": 1.0}, "numbers": {"a": 1.0, "b": 0.0}}
    (empty,) = judge({"losses": {"": {"texts": numbers}}})
    assert (empty.grade, empty.name) == (BAD, "empty texts")
    (ids,) = judge({"losses": {"": {"texts": numbers | {"empty": {"a": 0.0}}}}})
    assert "'a' holds numbers only" in ids.finding


def test_measurements_of_a_trainer_are_json_and_give_the_same_verdicts(bert, tmp_path):
    diagnosis = examine(bert, tmp_path, ranking(scale=0.5), PAIRS, None, {})
    frozen = json.loads(json.dumps(diagnosis.measurements))
    judged = [verdict for verdict in judge(frozen)]
    assert judged == list(diagnosis.verdicts[-len(judged) :])
    assert diagnosis.headline.count("First, temperature: Set a temperature near 0.05") == 1


def test_effects_of_the_doctor_have_no_circle():
    from graphlib import TopologicalSorter

    TopologicalSorter(EFFECTS).prepare()
    verdicts = [
        Verdict("loss", WATCH, "high", "Check the columns.", "worse than chance"),
        Verdict("temperature", BAD, "0.001", "Raise it.", "temperature too low"),
    ]
    cause, effect = with_causes(verdicts, EFFECTS)
    assert (cause.change, effect.subject) == ("Raise it.", "loss")
    assert "“temperature” explains this" in effect.change
