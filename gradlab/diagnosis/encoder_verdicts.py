"""Does a text embed alike in every batch, by all of its tokens, and without too much dropout?

Arguments are measured by the functions of the same names in `gradlab.diagnosis.trials` and
`gradlab.diagnosis.label_measurements`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gradlab.numbers import percent
from gradlab.verdict import BAD, GOOD, WATCH, Verdict

# Difference of the cosine from 1 above which an embedding depends on its batch, in full precision
# and in half; difference above which that is bad.
DEPENDS, DEPENDS_IN_HALF, DEPENDS_MUCH = 1e-3, 3e-2, 1e-2
# Relative difference of the lengths of a text's embeddings that is no rounding.
LONGER = 1e-2


# Share of the texts of a batch whose embedding may be another one's.
MOST_MOVED = 0.3


def beside(
    cosine: float, half: bool, twice: float = 1.0, moved: float = 0.0, convolves: bool = False,
    by_padding: float = 0.0,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether a text embeds alike each time, and beside a longer text, which pads it.

    Args:
        cosine: cosine of a text's embeddings, alone and beside a longer or a shorter text.
        half: whether some weights are in half precision.
        twice: cosine of two embeddings of the text, both alone.
        moved: share of the texts of a batch that have the embedding which another one has alone.
        convolves: whether the model convolves over tokens, which reaches into the padding.
        by_padding: cosine of the text's embeddings with some padding and with more of it:
            convolutions see the padding beside the last tokens only, however much there is.
    """
    subject, evidence = "padding", {"cosine": cosine}
    if 1 - twice > (DEPENDS_IN_HALF if half else DEPENDS):
        finding = (
            f"Two embeddings of the same text have a cosine of {twice:.3f} in evaluation mode: "
            "random numbers, such as dropout or noise, stay on in use."
        )
        change = (
            "Use nn.Dropout, or F.dropout(…, training=self.training), which end with model.eval()."
        )
        yield Verdict("evaluation mode", BAD, finding, change, "embedding is random",
                      "embedding-depends-on-its-batch", {"twice": twice})  # fmt: skip
        return
    if moved > MOST_MOVED:
        finding = (
            f"In a batch, {percent(moved)} of the texts get the embedding that another text of the "
            "batch has alone: rows come back in another order than they went in."
        )
        change = "Put rows back in their order after sorting them by length, packing or chunking."
        yield Verdict("order of rows", BAD, finding, change, "rows in another order",
                      "loss-at-chance", {"moved": moved})  # fmt: skip
        return
    finding = (
        "The cosine of a text's embeddings, alone and beside a longer or a shorter text, is "
        f"{cosine:.5f}."
    )
    limit = DEPENDS_MUCH if convolves else DEPENDS
    reaches_only = convolves and 1 - by_padding <= (DEPENDS_IN_HALF if half else DEPENDS)
    if 1 - cosine > (DEPENDS_IN_HALF if half else limit) and not reaches_only:
        finding += " So an embedding depends on the other texts of its batch, by their padding."
        change = (
            "Pool by the attention mask. With [CLS] pooling pad on the right, and with the last "
            "token on the left: model.tokenizer.padding_side."
        )
        grade = BAD if 1 - cosine > DEPENDS_MUCH else WATCH
        name = "embedding depends on its batch"
        yield Verdict(subject, grade, finding, change, name, "embedding-depends-on-its-batch",
                      evidence)  # fmt: skip
        return
    if convolves and 1 - cosine > DEPENDS:
        finding += " Convolutions over tokens see the padding beside the last of them."
    yield Verdict(subject, GOOD, finding, name="padding has no effect", evidence=evidence)


def embedding_in_half_a_batch(cosine: float, half: bool, longer: float = 0.0) -> Iterator[Verdict]:
    """Judge whether a row embeds alike in a batch and in the first half of it.

    ``cosine`` is the lowest one of a row's embeddings, with the same padding and without dropout,
    and ``longer`` the largest relative difference of their lengths, where the loss depends on them.
    """
    limit = DEPENDS_IN_HALF if half else DEPENDS
    if 1 - cosine <= limit and longer <= (DEPENDS_IN_HALF if half else LONGER):
        return
    differ = f"have a cosine of {cosine:.5f}"
    if 1 - cosine <= limit:
        differ = f"differ by {percent(longer)} in length, which the loss depends on"
    finding = (
        "Without dropout, the embeddings of a text in a batch, and in half of the batch or in the "
        f"batch reversed, {differ}: an embedding depends on the other texts of its batch, or on "
        "its place among them."
    )
    change = (
        "Look for what is computed over the batch: BatchNorm without running statistics, a mean "
        "that is taken off, a maximum or norm of all rows, normalize(dim=0), layers without "
        "batch_first=True. Use LayerNorm, or statistics of the training data."
    )
    name = "embedding depends on other rows"
    yield Verdict("batch", BAD, finding, change, name, "embedding-depends-on-its-batch",
                  {"cosine": cosine})  # fmt: skip


# Share of the first running statistics that are left at the end, and cosine of embeddings by them
# and by the statistics of a batch, that are others.
STATISTICS_LEFT, OTHER_STATISTICS = 0.5, 0.9


def running(name: str, momentum: float, kept: float, cosine: float) -> Iterator[Verdict]:
    """Judge whether the running statistics of a batch norm follow those of training.

    Args:
        name: name of the module.
        momentum: its momentum.
        kept: share of its first running statistics that is left at the end of the run.
        cosine: of embeddings by the statistics of a batch, as in training, and by the running ones.
    """
    if kept < STATISTICS_LEFT or cosine > OTHER_STATISTICS:
        return
    finding = (
        f"Training normalises by the mean and variance of a batch, use by the running statistics "
        f"of {name}, and embeddings by both have a cosine of {cosine:.2f}. At a momentum of "
        f"{momentum:g}, {percent(kept)} of the first running statistics are left at the end of the "
        "run: what is used is not what is trained."
    )
    change = "Set momentum=0.1, or replace the batch norm by nn.LayerNorm."
    yield Verdict("batch norm", BAD, finding, change, "running statistics stay",
                  "embedding-depends-on-its-batch", {"kept": kept, "cosine": cosine})  # fmt: skip


# Share of a text's tokens that an embedding should depend on.
MOST_TOKENS = 0.5


def tokens(share: float, last: float) -> Iterator[Verdict]:
    """Judge whether an embedding depends on all tokens of its text.

    Args:
        share: share of the tokens that the gradient of an embedding reaches.
        last: share of the texts whose last token it reaches.
    """
    subject, evidence = "tokens", {"share": share, "last": last}
    symptom = "embedding-depends-on-its-batch"
    finding = f"An embedding depends on {percent(share)} of the tokens of its text."
    if share < MOST_TOKENS:
        finding += " The pooled token does not see the others."
        change = (
            "Pool the last token, or the mean, of a causal decoder: its first token sees no other. "
            "Check the pooling_mode and the padding_side."
        )
        yield Verdict(subject, BAD, finding, change, "tokens unseen", symptom, evidence)
    elif last < MOST_TOKENS:
        finding += f" The last token counts in {percent(last)} of the texts only."
        change = (
            "Keep the end of the sequence in the attention mask. It is left out where the padding "
            "token is the end token and the mask is made from it: give padding a token of its own."
        )
        yield Verdict(subject, WATCH, finding, change, "last token masked", symptom, evidence)
    else:
        yield Verdict(subject, GOOD, finding, name="tokens seen", evidence=evidence)


# Share of pooled tokens that end a text, below which the end is missing.
MOST_END = 0.98


def last_token(ends: float, end: str, end_is_padding: bool) -> Iterator[Verdict]:
    """Judge whether the token that is pooled ends the text.

    Args:
        ends: share of texts whose last token is a special token.
        end: the tokenizer's end-of-sequence token; empty without any.
        end_is_padding: whether it is the padding token too.
    """
    subject, evidence = "last token", {"ends": ends}
    finding = f"The last token is pooled; in {percent(ends)} of the texts it is a special token."
    if ends >= MOST_END:
        yield Verdict(subject, GOOD, finding, name="texts end", evidence=evidence)
        return
    finding += f" No end-of-sequence token{f' ({end})' if end else ''} closes the others"
    finding += ", perhaps because it is the padding token as well." if end_is_padding else "."
    finding += " Truncation may cut it off." if ends else ""
    change = (
        "Let the tokenizer append the token (add_eos_token=True, or a post-processor), which "
        "truncation keeps, and give it a padding token of its own."
    )
    name, symptom = "no end of sequence", "embedding-depends-on-its-batch"
    yield Verdict(subject, WATCH, finding, change, name, symptom, evidence)


def first_token(begun: float) -> Iterator[Verdict]:
    """Judge whether the first token, which is pooled, is a special one: the share of such texts."""
    if begun >= MOST_END:
        return
    finding = (
        f"The first token is pooled ([CLS]); in {percent(begun)} of the texts it is a special "
        "token. In the others it is the first word, or a token of the prompt."
    )
    change = "Let the tokenizer put its [CLS] token first (add_special_tokens), or pool the mean."
    yield Verdict("first token", WATCH, finding, change, "no beginning of sequence",
                  "embedding-depends-on-its-batch", {"begun": begun})  # fmt: skip


# Shares of unknown tokens in a column that are worth a remark, and are bad.
SOME_UNKNOWN, MOST_UNKNOWN = 0.1, 0.5


def vocabulary(
    unknown: Mapping[str, float], wordless: Mapping[str, float] | None = None
) -> Iterator[Verdict]:
    """Judge the share of unknown tokens of each column.

    ``wordless`` is the share of its texts of which no word has a place in the input, where the
    model has no token for unknown words.
    """
    if wordless:
        column = max(wordless, key=lambda name: wordless[name])
        share = wordless[column]
        if share < SOME_UNKNOWN:
            return
        finding = (
            f"The input of {percent(share)} of the texts in column {column!r} is all zero: the "
            "vocabulary has none of their words, and their embeddings are equal."
        )
        yield Verdict("vocabulary", BAD if share >= MOST_UNKNOWN else WATCH, finding,
                      "Make the vocabulary from these texts.", "tokens unknown",
                      "score-does-not-rise", {"wordless": share})  # fmt: skip
        return
    column = max(unknown, key=lambda name: unknown[name])
    share = unknown[column]
    finding = f"The tokenizer does not know {percent(share)} of the tokens in column {column!r}."
    evidence = {"unknown": share}
    if share < SOME_UNKNOWN:
        yield Verdict("vocabulary", GOOD, finding, name="tokens known", evidence=evidence)
        return
    grade = BAD if share >= MOST_UNKNOWN else WATCH
    change = "Use an encoder whose vocabulary has the language and script of these texts."
    yield Verdict("vocabulary", grade, finding, change, "tokens unknown", "score-does-not-rise",
                  evidence)  # fmt: skip


# Shares of activations that dropout may set to 0, and from which on it keeps hardly any.
TOO_MUCH_DROPOUT, NEARLY_ALL_DROPPED = 0.5, 0.8


def dropout(silent: int, name: str, largest: float = 0.0) -> Iterator[Verdict]:
    """Judge whether dropout is on in training, and not too much.

    Args:
        silent: dropout layers that stay off in training.
        name: name of the first of them.
        largest: largest share that a layer drops.
    """
    if largest > TOO_MUCH_DROPOUT:
        finding = f"Dropout sets {largest:.0%} of the activations of a layer to 0."
        change = "Lower dropout to 0.1, or 0.3 at most."
        grade, evidence = WATCH, {"dropout": largest}
        if largest > NEARLY_ALL_DROPPED:
            grade = BAD
            change += f" The share to keep was perhaps given: {largest:g} for {1 - largest:.2g}."
        yield Verdict("dropout", grade, finding, change, "dropout too high", "score-does-not-rise",
                      evidence)  # fmt: skip
    if silent:
        finding = f"{silent} dropout layers stay off in training, such as {name}."
        change = (
            "Do not override train(). Where dropout makes the views, nothing is learnt without it."
        )
        yield Verdict("training mode", WATCH, finding, change, "dropout off", "loss-zero")


# Cosine of two passes of a text in training mode below which noise is the larger part of its
# embedding, and share of texts that are nearest to themselves below which nothing of them is left.
NOISY, OWN_NEAREST = 0.5, 0.3


def noise(
    same: float, different: float, itself: float, texts: int, apart: float, alpha: float = 0.0
) -> Iterator[Verdict]:
    """Judge whether dropout and noise leave embeddings of training texts their content.

    Args:
        same: mean cosine of two passes of the same text in training mode.
        different: that of passes of different texts.
        itself: share of texts whose own embedding is the nearest of the second pass.
        texts: different texts of a batch.
        apart: mean cosine of different texts in evaluation mode.
        alpha: neftune_noise_alpha of the trainer; 0 without.
    """
    if same >= NOISY or itself >= OWN_NEAREST:
        return
    finding = (
        f"In training mode, two passes of the same text have a cosine of {same:.2f}, and those of "
        f"different texts one of {different:.2f}; of {texts} texts, {percent(itself)} are nearest "
        f"to themselves. In evaluation mode different texts have {apart:.2f}. Noise or dropout "
        "that is on in training drowns the words."
    )
    change = (
        "Lower the noise, as by NEFTune or a hook on the embeddings, and dropout, until a text is "
        "nearest to itself."
    )
    if alpha:
        change = f"Lower neftune_noise_alpha ({alpha:g}) to a tenth or less, or leave it out."
    yield Verdict("training mode", BAD, finding, change, "noise drowns texts",
                  "score-does-not-rise", {"same": same, "itself": itself})  # fmt: skip


# Share of truncated texts that is worth a remark; share and length from which on it is bad; share
# of the words common to the texts of a row that may be cut off: many documents begin with them.
SOME_CUT, MOST_CUT, VERY_SHORT, FEW_LOST = 0.25, 0.75, 6, 0.2


def length(
    truncated: float, limit: int, positions: int = 0, side: str = "right",
    lost: float | None = None, longest: int | None = None,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge how many texts are truncated.

    Args:
        truncated: share of the texts that reach the limit.
        limit: tokens that are read of a text.
        positions: tokens for which the encoder has learned positions; 0 if unlimited.
        side: where tokens are cut off.
        lost: share of the words common to the texts of a row that are cut off; None if unknown.
        longest: tokens of the longest text; None if unknown.
    """
    if 0 < positions < limit:
        finding = (
            f"max_seq_length is {limit}, and the encoder has {positions} positions: a longer text "
            "ends training with an error."
        )
        if longest is not None:
            finding += f" The longest text has {longest} tokens."
        change = f"Set model.max_seq_length = {positions}."
        grade = WATCH if longest is not None and longest <= positions else BAD
        yield Verdict("length", grade, finding, change, "beyond positions", "score-does-not-rise")
        return
    finding = (
        f"{truncated:.0%} of the texts reach max_seq_length ({limit} tokens), where they are "
        "truncated."
    )
    if lost is not None and truncated >= SOME_CUT:
        finding += f" With it go {percent(lost)} of the words that the texts of a row share."
    if truncated < SOME_CUT or (lost is not None and lost < FEW_LOST):
        yield Verdict("length", GOOD, finding, name="length fits")
        return
    grade = BAD if truncated > MOST_CUT and limit <= VERY_SHORT else WATCH
    change = "Raise model.max_seq_length if the rest of a text matters."
    if side == "left":
        finding += " They are truncated on the left: their beginnings are cut off."
        change = "Set model.tokenizer.truncation_side = 'right', or raise model.max_seq_length."
    yield Verdict("length", grade, finding, change, "cut off", "score-does-not-rise")


# Share of a module's real change that its derivative foretells, below which no gradient passes. It
# was 4e-5 for signs of embeddings, and is from .01 for a gradient that is passed straight through.
FLAT = 3e-3


def flat(share: float, module: str) -> Iterator[Verdict]:
    """Judge whether a module behind the encoder passes a gradient on.

    Args:
        share: share of its change from text to text that its derivative foretells, in the median.
        module: its class.
    """
    if abs(share) < FLAT:
        finding = (
            f"The output of {module} differs from text to text, but its derivative foretells "
            f"{share:.1g} of that: it is flat, as a sign, rounding, clamping or saturation is, and "
            "no gradient passes through it to the encoder."
        )
        change = (
            f"Leave {module} out in training, make it smooth, or pass the gradient straight "
            "through it: x + (module(x) - x).detach()."
        )
        yield Verdict("gradient", BAD, finding, change, "module is flat", "weights-do-not-move",
                      {"share": share})  # fmt: skip
