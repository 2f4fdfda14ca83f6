"""Is what is trained what is saved, evaluated and used?

Arguments are measured by the functions of the same names in
`gradlab.diagnosis.serving_measurements`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gradlab.diagnosis.checkpoint_verdicts import sign_of
from gradlab.errors import counted
from gradlab.numbers import percent
from gradlab.verdict import BAD, GOOD, WATCH, Verdict

SYMPTOM = "score-does-not-rise"


def held(foreign: str, own_teacher: str) -> Iterator[Verdict]:
    """Judge whether a loss holds the encoder that is trained.

    Args:
        foreign: class of a loss that holds another encoder; empty for none.
        own_teacher: ``"guide"`` or ``"teacher"`` if that is the trained encoder itself.
    """
    if foreign:
        finding = (
            f"{foreign} was made with another encoder than the trainer's: the loss holds a "
            "different model, and its weights are in the optimizer."
        )
        change = "Make the loss from the model that the trainer gets, after loading it."
        yield Verdict("encoder", BAD, finding, change, "loss of another encoder",
                      "weights-do-not-move")  # fmt: skip
    if own_teacher:
        finding = f"The {own_teacher} of the loss is the trained encoder itself, not a better one."
        change = f"Give the loss a {own_teacher} that is already good at these texts."
        yield Verdict("teacher", WATCH, finding, change, "teacher is the student", SYMPTOM)


# Difference of a cosine from 1, and of a ratio of lengths from 1, by which a loaded model differs
# from the saved one, in full precision and in half.
DIFFERS, DIFFERS_IN_HALF = 1e-3, 3e-2


def saved(
    cosine: float, length: float, half: bool, prompts_kept: bool, adapter: bool = False
) -> Iterator[Verdict]:
    """Judge whether a model embeds alike after it was saved and loaded.

    Args:
        cosine: lowest cosine of the embeddings of some texts.
        length: length of the loaded model's embeddings relative to the model's.
        half: whether some weights are in half precision.
        prompts_kept: whether the loaded model has the same prompts.
        adapter: whether an adapter is saved without the weights below it.
    """
    subject, evidence = "saved model", {"cosine": cosine, "length": length}
    finding = f"Saved and loaded, the model embeds texts at a cosine of {cosine:.4f} to before."
    limit = DIFFERS_IN_HALF if half else DIFFERS
    if 1 - cosine > limit or abs(length - 1) > limit or not prompts_kept:
        if 1 - cosine <= limit:
            finding += " Prompts are lost." if not prompts_kept else (
                f" Embeddings have {length:.3g} times their length."
            )  # fmt: skip
        finding += " What is saved is not the model that is trained."
        change = (
            "Keep weights in modules that save them, buffers persistent, and max_seq_length, "
            "prompts and tokens in the model's own settings; load the result once to compare."
        )
        if adapter and 1 - cosine > limit:
            finding += (
                " Only the adapter is saved: where the encoder below it was trained before, its "
                "weights are lost, and training itself is not at fault."
            )
            change = (
                "Save the encoder before the adapter is added and load it from there, or merge the "
                "adapter into it before saving."
            )
        yield Verdict(subject, WATCH, finding, change, "saved model differs", "score-falls",
                      evidence)  # fmt: skip
    else:
        yield Verdict(subject, GOOD, finding, name="saved model equal", evidence=evidence)


# Weights of an encoder from which on training it from the beginning is no toy; sum of the learning
# rates over a run below which new weights cannot be trained at all.
LARGE, LITTLE = 1_000_000, 1.6e-3


# Numbers of a table of word vectors, which are about 1 for independent entries, and higher for
# trained word vectors.
DRAWN = 2.0


def fresh(
    share: float, layers: int, weights: int, rates: float, table: Mapping[str, float] | None = None
) -> Iterator[Verdict]:
    """Judge whether an encoder has pretrained weights.

    Args:
        share: share of the normalisation layers with weights 1 and biases 0.
        layers: normalisation layers.
        weights: weights of the encoder.
        rates: sum of the learning rates over the planned run.
        table: of a frozen table of word vectors, the ``words``, and three numbers that are near 1
            where its entries were drawn at random; None without one.
    """
    if table and all(table[name] < DRAWN for name in ("lengths", "mean", "correlation")):
        finding = (
            f"The {table['words']:,.0f} word vectors are frozen (requires_grad=False), and their "
            "entries look drawn at random: words that mean the same have nothing in common, and "
            "what is trained above them cannot move a single word."
        )
        change = "Train them (update_embeddings=True), or load pretrained word vectors."
        yield Verdict("weights", WATCH, finding, change, "word vectors drawn and frozen",
                      "score-does-not-rise", dict(table))  # fmt: skip
    if share < 1 or (weights < LARGE and rates > LITTLE):
        return
    finding = (
        f"All {layers} normalisation layers of the encoder have weights 1 and biases 0: its "
        "weights are newly initialised (random), and no pretrained checkpoint was loaded."
    )
    if rates <= LITTLE:
        finding += f" Learning rates that add up to {rates:.1g} do not train it from the beginning."
    change = (
        "Load the checkpoint: from_pretrained(folder) instead of from_config; check the path, the "
        "names of the weights, and warnings about missing keys."
    )
    yield Verdict("weights", WATCH, finding, change, "weights not loaded", SYMPTOM,
                  {"rates": rates})  # fmt: skip


# Share of texts with a token that is not trained from which on it matters.
SOME_TEXTS = 0.05


def new_tokens(tokens: int, example: str, share: float) -> Iterator[Verdict]:
    """Judge whether tokens that were added to a vocabulary have rows of their own.

    Args:
        tokens: tokens of the first batches whose row is the mean row of a frozen table.
        example: one of them.
        share: share of the texts that have one.
    """
    if share < SOME_TEXTS:
        return
    finding = (
        f"{counted(tokens, 'token')} of the texts, such as {example!r}, have the mean row of the "
        f"table of word embeddings, as added tokens begin, and that table is frozen: in "
        f"{percent(share)} of the texts these new tokens mean nothing, and are not trained."
    )
    change = (
        "Train the rows of added tokens: LoraConfig(trainable_token_indices=…) or "
        "modules_to_save, or leave the word embeddings unfrozen."
    )
    yield Verdict("tokens", WATCH, finding, change, "new tokens frozen", "weights-do-not-move",
                  {"share": share, "tokens": float(tokens)})  # fmt: skip


# Rows of a table for each token of the tokenizer: published models have at most 1.03, since rows
# are filled up to a round number.
MORE_ROWS = 1.1


def vocabulary_size(tokens: int, rows: int) -> Iterator[Verdict]:
    """Judge whether a tokenizer belongs to its encoder.

    Args:
        tokens: tokens that the tokenizer has.
        rows: rows of the encoder's table of word embeddings.
    """
    if rows <= MORE_ROWS * tokens:
        return
    finding = (
        f"The tokenizer has {tokens:,} tokens, and the encoder rows for {rows:,}: the tokenizer "
        "seems to be another model's, whose numbers stand for other tokens."
    )
    change = "Load tokenizer and encoder from the same folder or name."
    yield Verdict("tokens", WATCH, finding, change, "another tokenizer", SYMPTOM,
                  {"tokens": float(tokens), "rows": float(rows)})  # fmt: skip


def pipeline(
    stored: Sequence[str], used: Sequence[str], stored_pooling: str, used_pooling: str,
    compared: str = "",
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether a saved model is used with its own modules.

    Args:
        stored: kinds of the modules with which the encoder was saved.
        used: kinds of the modules of the trained model.
        stored_pooling: mode of the saved pooling; empty if unknown.
        used_pooling: mode of the pooling in use; empty if unknown.
        compared: how the loss compares embeddings: cosines are the same without Normalize.
    """
    subject = "modules"
    needed = ("Dense", "Pooling") if compared == "cosine" else ("Dense", "Normalize", "Pooling")
    lost = [kind for kind in stored if kind not in used and kind in needed]
    differs = stored_pooling and used_pooling and stored_pooling != used_pooling
    if differs:
        finding = (
            f"The encoder was saved with {stored_pooling!r} pooling, and is trained with "
            f"{used_pooling!r} pooling."
        )
    elif lost:
        finding = (
            f"The encoder was saved with a {lost[0]} module, which the trained model lacks: the "
            "weights were loaded as those of a bare encoder."
        )
    else:
        return
    change = "Load the whole model, SentenceTransformer(folder), and not its Transformer alone."
    yield Verdict(subject, WATCH, finding, change, "other modules", SYMPTOM)


def names(kind: str, name: str, times: int) -> Iterator[Verdict]:
    """Judge whether evaluators have different names; ``times`` is 0 if they have."""
    if times > 1:
        finding = (
            f"{times} evaluators ({kind}) have the same name, {name!r}: the metrics of one replace "
            "those of the other, and only the last is seen."
        )
        change = "Give each evaluator a name of its own: name=…."
        yield Verdict("evaluation", WATCH, finding, change, "evaluators of one name", SYMPTOM)


def plateau(mode: str, metric: str) -> Iterator[Verdict]:
    """Judge whether a schedule that waits for a plateau follows its metric by the right sign."""
    better = sign_of(metric)
    if (better > 0 and mode == "min") or (better < 0 and mode == "max"):
        finding = (
            f"The schedule lowers the learning rate when {metric} does not "
            f"{'fall' if mode == 'min' else 'rise'} (mode={mode!r}), of which a "
            f"{'higher' if better > 0 else 'lower'} value is better: the rate is lowered while "
            "training goes well."
        )
        mode = "max" if better > 0 else "min"
        change = f"Set lr_scheduler_kwargs={{'mode': {mode!r}}}."
        yield Verdict("schedule", BAD, finding, change, "plateau of the wrong sign",
                      "weights-do-not-move")  # fmt: skip


# Share of the batches, relative to an equal one, below which a data set is drowned by the others;
# common mass of its words with theirs, relative to a part of these, from which on they teach it.
DROWNED, SAME_FIELD = 0.125, 0.8


def proportions(
    sets: int, name: str, rows: int, in_turns: bool, share: float, common: float = 0.0
) -> Iterator[Verdict]:
    """Judge whether each of several data sets gets batches.

    Args:
        sets: number of data sets.
        name: the smallest one.
        rows: its rows.
        in_turns: whether batches are drawn from the data sets in turns.
        share: its share of the batches.
        common: how far its words are those of the others, relative to a part of these.
    """
    if in_turns or share * sets >= DROWNED or common >= SAME_FIELD:
        return
    finding = (
        f"Batches are drawn in proportion to size: the data set {name!r} of {rows:,} rows gets "
        f"{percent(share)} of the batches, and the others drown it."
    )
    change = (
        "If it matters, set multi_dataset_batch_sampler=MultiDatasetBatchSamplers.ROUND_ROBIN, or "
        "repeat its rows."
    )
    yield Verdict("data sets", WATCH, finding, change, "data set drowned", SYMPTOM,
                  {"share": share})  # fmt: skip


# Common mass of the frequencies of words, relative to that of two halves of the training data,
# below which evaluated texts are of another field; fewest texts, and different words, that say so.
# Texts about a few things have little in common with all texts of their own field.
OTHER_FIELD, ENOUGH_TEXTS, ENOUGH_DIFFERENT = 0.35, 32, 48


def field(
    texts: int, rows: int, common: float, halves: float, words: int = ENOUGH_DIFFERENT
) -> Iterator[Verdict]:
    """Judge whether evaluated texts are of the field that is trained.

    Args:
        texts: evaluated texts.
        rows: rows of the column of training whose words are nearest.
        common: mass that the frequencies of their words have in common.
        halves: the same of two halves of that column.
        words: different words of the evaluated texts.
    """
    if words < ENOUGH_DIFFERENT:
        return
    if texts < ENOUGH_TEXTS or rows < 2 * ENOUGH_TEXTS or common >= OTHER_FIELD * halves:
        return
    finding = (
        f"The words of {texts:,} evaluated texts are not those of training: frequencies have "
        f"{percent(common)} in common, and {percent(halves)} between two halves of the training "
        "data. They seem to be of another field (domain) or language."
    )
    change = "Train on texts of the field in which the encoder is evaluated and used, or add some."
    yield Verdict("evaluation", WATCH, finding, change, "another field", SYMPTOM,
                  {"common": common, "halves": halves})  # fmt: skip


# How many times as long as nearly all texts of training half of the evaluated texts may be.
MUCH_LONGER = 2.0


def lengths(texts: int, rows: int, trained: int, evaluated: int) -> Iterator[Verdict]:
    """Judge whether evaluated texts are as long as those of training.

    Args:
        texts: evaluated texts.
        rows: rows of training.
        trained: words that 5% of the texts of training exceed, of the longest column.
        evaluated: median number of words of evaluated texts that the model reads.
    """
    if min(texts, rows) < ENOUGH_TEXTS or evaluated < MUCH_LONGER * max(1, trained):
        return
    finding = (
        f"Half of {texts:,} evaluated texts have {evaluated:,} words or more, and 95% of the "
        f"training texts no more than {trained:,}: texts that long are never trained on."
    )
    change = "Train on texts as long as those in use, or split long texts into parts that short."
    yield Verdict("evaluation", WATCH, finding, change, "evaluated on longer texts", SYMPTOM,
                  {"trained": float(trained), "evaluated": float(evaluated)})  # fmt: skip


# Share of words whose beginning alone stands in the texts of the other side, as after stemming;
# fewest words that say so.
MANY_CUT, ENOUGH_WORDS = 0.2, 300


def endings(
    words: int, share: float, in_training: bool, word: str, beginning: str
) -> Iterator[Verdict]:
    """Judge whether words have their endings in training and in evaluation, or in neither.

    Args:
        words: words of the side with fewer words.
        share: share of the words of one side that the other side has without their ending only.
        in_training: whether that other side is training.
        word: the commonest such word.
        beginning: what the other side has of it.
    """
    if words < ENOUGH_WORDS or share < MANY_CUT:
        return
    sides = ("training", "evaluated") if in_training else ("evaluated", "training")
    finding = (
        f"{percent(share)} of the words of the {sides[1]} texts stand in the {sides[0]} texts only "
        f"without their ending, such as {word!r} as {beginning!r}: these were stemmed, or "
        "preprocessed otherwise, and those were not."
    )
    change = "Preprocess all texts alike; an encoder needs no stemming: leave it out."
    yield Verdict("evaluation", WATCH, finding, change, "stemmed on one side", SYMPTOM,
                  {"share": share})  # fmt: skip


# Share of rows whose texts stand in different rows that is worth a remark; fewest rows.
SOME_APART, ENOUGH_ROWS = 0.05, 16


def mixed(rows: int, apart: float) -> Iterator[Verdict]:
    """Judge whether the texts of a batch's row stand in one row of the data set.

    Args:
        rows: rows of batches whose texts were found in the data set.
        apart: share of them whose texts stand in different rows.
    """
    if rows < ENOUGH_ROWS or apart < SOME_APART:
        return
    finding = (
        f"In {percent(apart)} of {counted(rows, 'row')} of the batches, the two texts stand in "
        "different rows of the data set: rows are mixed after loading, so that pairs do not belong "
        "together."
    )
    change = "Look at the data collator and the transform: they must keep the columns of a row."
    yield Verdict("pairs", BAD, finding, change, "rows mixed in batches", "loss-at-chance",
                  {"apart": apart})  # fmt: skip
