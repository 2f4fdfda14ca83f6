"""Second views: their laws by chi-square, each against a naive reference; what they never touch."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from unittest.mock import ANY

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, chisquare

from gradlab import GradlabError
from gradlab.data import Roles, TrainingFile
from gradlab.data.tokens import tokenize
from gradlab.encoder.model import Encoder
from gradlab.train.augment import augmentation_names, get_augmentation
from gradlab.train.augment.changed_positions import draw_positions
from gradlab.train.augment.words import mistype
from tests.tiny_models import make_bert, make_roberta, make_sentences

CLS, SEP = 2, 3
# A law that holds is refused by chance once in a thousand of these tests; with fixed seeds it is so
# or not for good.
CHANCE = 1e-3
OF_IDS = ("subword_repetition", "mask_insertion", "random_insertion", "random_deletion")
OF_TEXT = ("word_repetition", "stopword_insertion", "typos")
OF_EMBEDDINGS = ("token_cutoff", "feature_cutoff", "position_shuffle")


@pytest.fixture(scope="module")
def encoder(bert):
    return Encoder.load(bert)


@pytest.fixture(scope="module")
def tokenizer(encoder):
    return encoder.tokenizer


def sequence(length, start=100):
    """[CLS], ``length`` different tokens, [SEP]."""
    return np.array([CLS, *range(start, start + length), SEP], dtype=np.uint16)


def test_every_augmentation_is_tested_here():
    assert set(augmentation_names()) == {*OF_IDS, *OF_TEXT, *OF_EMBEDDINGS, "function"}


@pytest.mark.parametrize(("length", "rate"), [(1, 0.32), (7, 0.6), (30, 0.32)])
def test_number_of_places_has_the_law_of_the_paper(length, rate):
    generator, draws = np.random.default_rng(1), 20_000
    counts = Counter(len(draw_positions(length, rate, generator)) for _ in range(draws))
    most = max(2, int(rate * length))
    law = Counter()
    for number in range(most + 1):  # uniform on the integers 0..most, at most N
        law[min(number, length)] += draws / (most + 1)
    assert set(counts) == set(law)
    assert chisquare([counts[n] for n in law], list(law.values())).pvalue > CHANCE


def test_places_are_uniform_subsets():
    generator = np.random.default_rng(2)
    draws = Counter(tuple(draw_positions(6, 0.5, generator).tolist()) for _ in range(40_000))
    for size in (1, 2, 3):
        subsets = list(itertools.combinations(range(6), size))
        # Ascending and distinct.
        assert {places for places in draws if len(places) == size} == set(subsets)
        assert chisquare([draws[subset] for subset in subsets]).pvalue > CHANCE


@pytest.mark.parametrize("length", [0, 1, 2, 13])
@pytest.mark.parametrize("name", OF_IDS)
def test_edits_against_a_loop(name, length, tokenizer):
    ids = sequence(length)
    edited = get_augmentation(name, tokenizer=tokenizer, rate=0.5).ids(
        ids, np.random.default_rng(length)
    )
    places = draw_positions(length, 0.5, np.random.default_rng(length))
    expected = [CLS]
    for place, token in enumerate(ids[1:-1]):
        after = {
            "subword_repetition": token,
            "mask_insertion": tokenizer.mask_token_id,
            "random_insertion": ANY,
        }
        drawn = [] if name == "random_deletion" else [token, after[name]]
        expected += drawn if place in places else [token]
    if name != "random_deletion" or length == 0 or len(places) < length:  # else a token stays
        assert edited.tolist() == [*expected, SEP]
    assert edited.dtype == ids.dtype


def test_random_insertion_draws_from_the_vocabulary_without_special_tokens(tokenizer):
    augmentation = get_augmentation("random_insertion", tokenizer=tokenizer, rate=1)
    generator, ids = np.random.default_rng(5), sequence(20, start=0)
    ids[1:-1] = 200
    inserted = Counter()
    for _ in range(3000):
        lengthened = augmentation.ids(ids, generator)
        assert lengthened[0] == CLS
        assert lengthened[1] == 200
        assert lengthened[-1] == SEP
        inserted.update(lengthened[1:-1].tolist())
    inserted[200] -= 20 * 3000
    ordinary = [token for token in range(len(tokenizer)) if token not in tokenizer.all_special_ids]
    assert chisquare([inserted[token] for token in ordinary]).pvalue > CHANCE
    assert set(inserted) <= set(ordinary)


def test_deletion_leaves_a_token():
    generator, deletion = np.random.default_rng(0), get_augmentation("random_deletion")
    assert all(len(deletion.ids(sequence(1), generator)) == 3 for _ in range(50))
    left = Counter(tuple(deletion.ids(sequence(2), generator)[1:-1].tolist()) for _ in range(9000))
    # Of two tokens none, one or both are drawn; one of both stays.
    assert chisquare([left[100, 101], left[100,], left[101,]]).pvalue > CHANCE


@pytest.mark.parametrize("name", [*OF_IDS, *OF_TEXT])
@pytest.mark.parametrize("start", [make_bert, make_roberta])
def test_special_tokens_stay_and_nothing_exceeds_the_encoder(name, start, tmp_path):
    tokenizer = Encoder.load(start(tmp_path)).tokenizer
    augmentation = get_augmentation(name, tokenizer=tokenizer, longest=24, rate=0.9)
    frame = tokenizer.cls_token_id, tokenizer.sep_token_id
    special = {*frame, tokenizer.pad_token_id, tokenizer.unk_token_id}
    sentences = ["ba", *make_sentences(60, longest=30)]
    id_lists = [
        np.array(tokenizer(sentence, truncation=True, max_length=24)["input_ids"])
        for sentence in sentences
    ]
    views = [
        augmentation.batch(copy.deepcopy(id_lists), np.random.default_rng(seed))
        for seed in (4, 4, 5)
    ]
    for ids in views[0]:
        assert (ids[0], ids[-1]) == frame
        assert not special & set(ids[1:-1].tolist())
        assert len(ids) > 2
    longest = max(map(len, views[0]))
    assert longest == 24 if name != "random_deletion" else longest <= 24
    # The seed decides, and what is given stays.
    first, repeated, redrawn = ([row.tolist() for row in view] for view in views)
    assert first == repeated
    assert first != redrawn
    assert first != [row.tolist() for row in id_lists]


@pytest.mark.parametrize("seed", range(3))
def test_words_against_loops(seed):
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    places = draw_positions(8, 0.5, np.random.default_rng(seed)).tolist()

    def changed(name, **settings):
        view = get_augmentation(name, rate=0.5, **settings)
        return view.text(" ".join(words), np.random.default_rng(seed)).split()

    expected = [
        piece for place, word in enumerate(words) for piece in [word] * (1 + (place in places))
    ]
    assert changed("word_repetition") == expected
    expected = [
        piece for place, word in enumerate(words) for piece in [word] + ["?"] * (place in places)
    ]
    text = changed("stopword_insertion", words="A B")
    assert ["?" if word in "AB" else word for word in text] == expected


def test_typos():
    generator = np.random.default_rng(0)
    assert [get_augmentation("typos", rate=1).text("a", generator) for _ in range(20)] == ["a"] * 20
    word, kinds = "abcdef", Counter()
    splits = [(word[:i], word[i], word[i + 1 :]) for i in range(6)]
    deleted = {before + after for before, _, after in splits}
    repeated = {before + 2 * letter + after for before, letter, after in splits}
    swapped = {before + after[0] + letter + after[1:] for before, letter, after in splits[:-1]}
    for _ in range(8000):
        wrong = mistype(word, generator)
        kind = (wrong in deleted, wrong in repeated, wrong in swapped)
        if not any(kind):
            assert (
                sum(letter != original for letter, original in zip(wrong, word, strict=True)) == 1
            )
        kinds[kind] += 1
    assert len(kinds) == 4
    assert chisquare(list(kinds.values())).pvalue > CHANCE
    words = get_augmentation("typos").text(" ".join(["abcd"] * 5000), generator).split()
    assert binomtest(sum(letter != "abcd" for letter in words), 5000, 0.3).pvalue > CHANCE


MASK = torch.tensor([[1] * 12, [1] * 7 + [0] * 5, [1] * 2 + [0] * 10])
INNER = torch.tensor([[0] + [1] * 10 + [0], [0] + [1] * 5 + [0] * 6, [0] * 12]).bool()


def embedded(features=16):
    return torch.randn(3, 12, features, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", OF_EMBEDDINGS)
def test_embeddings_of_special_tokens_and_padding_stay(name):
    augmentation, embeddings = get_augmentation(name), embedded()
    views = [
        augmentation.embeddings(embeddings, MASK, torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    ]
    assert torch.equal(views[0], views[1])
    assert not torch.equal(views[0], views[2])
    assert all(torch.equal(view[~INNER], embeddings[~INNER]) for view in views)
    torch.manual_seed(3)
    drawn = augmentation.embeddings(embeddings, MASK)
    torch.manual_seed(3)
    assert torch.equal(drawn, augmentation.embeddings(embeddings, MASK))


def test_cutoff_against_its_definition():
    embeddings, mask = (
        torch.ones(400, 12, 50, dtype=torch.float64, requires_grad=True),
        torch.ones(400, 12),
    )
    token = get_augmentation("token_cutoff", rate=0.2).embeddings(embeddings, mask)
    assert set(token.flatten().tolist()) == {0.0, 1.0}
    cut = (token == 0).all(2)
    assert torch.equal(cut, (token == 0).any(2))  # whole tokens
    assert not cut[:, [0, -1]].any()
    assert binomtest(int(cut.sum()), 400 * 10, 0.2).pvalue > CHANCE
    (gradient,) = torch.autograd.grad(token.sum(), embeddings)
    assert torch.equal(gradient, token.detach())
    feature = get_augmentation("feature_cutoff", rate=0.01).embeddings(embeddings, mask)
    cut = (feature == 0)[:, 1:-1]
    assert torch.equal(cut.all(1), cut.any(1))  # throughout a sentence
    assert binomtest(int(cut.all(1).sum()), 400 * 50, 0.01).pvalue > CHANCE


def test_shuffle_equals_permuted_position_ids(encoder):
    shuffle = get_augmentation("position_shuffle", tokenizer=encoder.tokenizer)
    rows = encoder.tokenizer(make_sentences(5, longest=8), padding=True, return_tensors="pt")
    ids, mask = rows["input_ids"], rows["attention_mask"]
    order = shuffle.order(mask, torch.Generator().manual_seed(0))
    table = encoder.model.get_input_embeddings()
    moved = shuffle.embeddings(table(ids), mask, torch.Generator().manual_seed(0))
    with torch.no_grad():
        encoded = encoder(None, mask, inputs_embeds=moved)
        # The token that now stands at place p keeps its row and is told that its position is p.
        expected = encoder(ids, mask, position_ids=torch.argsort(order, dim=1))
        plain = encoder(ids, mask)
    assert torch.allclose(encoded, expected, rtol=0, atol=1e-5)
    assert not torch.allclose(encoded, plain, rtol=0, atol=1e-3)


def test_shuffles_are_uniform():
    mask = torch.cat([torch.ones(6000, 5), torch.zeros(6000, 2)], dim=1)
    order = get_augmentation("position_shuffle").order(mask, torch.Generator().manual_seed(0))
    assert torch.equal(order[:, [0, 4, 5, 6]], torch.tensor([0, 4, 5, 6]).expand(6000, 4))
    counts = Counter(tuple(row) for row in order[:, 1:4].tolist())
    assert set(counts) == set(itertools.permutations([1, 2, 3]))
    assert chisquare(list(counts.values())).pvalue > CHANCE


def shout(sentence, generator):
    return f"{sentence} {generator.integers(10)}"


def test_a_function_of_ones_own(tokenizer):
    ids = np.array(tokenizer("ba da")["input_ids"])
    for function in (shout, f"{__name__}:shout"):
        view = get_augmentation("function", tokenizer=tokenizer, function=function)
        expected = shout("ba da", np.random.default_rng(0))
        assert view.ids(ids, np.random.default_rng(0)).tolist() == tokenizer(expected)["input_ids"]
    wrong = get_augmentation(
        "function", tokenizer=tokenizer, function=lambda sentence, generator: 3
    )
    with pytest.raises(GradlabError, match="returned int"):
        wrong.ids(ids, np.random.default_rng(0))


def test_pairs_stay_together(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADLAB_CACHE_DIR", str(tmp_path / "cache"))
    columns = [make_sentences(30, seed=seed) for seed in (1, 2)]
    rows = ["text\tparaphrase", *("\t".join(row) for row in zip(*columns, strict=True))]
    rows.insert(5, " \t ")
    file = tmp_path / "pairs.tsv"
    file.write_text("\n".join(rows), encoding="utf-8")
    assert list(TrainingFile.open(file, Roles("text", "paraphrase")).rows()) == list(
        zip(*columns, strict=True)
    )
    pairs = tokenize(TrainingFile.open(file, Roles("text", "paraphrase")), tokenizer, 12)
    for tokens, texts in zip(pairs, columns, strict=True):
        expected = tokenizer(texts, truncation=True, max_length=12)["input_ids"]
        assert [tokens[row].tolist() for row in range(30)] == expected
    file.write_text("text\tparaphrase\nba\tda\nba\t \n", encoding="utf-8")
    with pytest.raises(GradlabError, match="row 2: 1 of 2 rows lack a text in 'paraphrase'"):
        tokenize(TrainingFile.open(file, Roles("text", "paraphrase")), tokenizer, 12)
    with pytest.raises(GradlabError, match="no column 'other'"):
        TrainingFile.open(file, Roles("text", "other"))
