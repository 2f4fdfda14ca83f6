"""Does an embedding depend on padding, and do the tokens of a loop's batches tell texts apart?"""

from __future__ import annotations

import statistics

from gradlab.monitor.history import History
from gradlab.monitor.token_signs import COMMONEST_TOKEN, PADDING_GRADIENT
from gradlab.monitor.verdicts.records import PERSISTENT
from gradlab.monitor.verdicts.steps import values_of
from gradlab.numbers import percent
from gradlab.verdict import WATCH, Verdict

# Share of the gradient at padding, of which a mask leaves none. Share of the tokens that one of
# them makes up: marks at both ends of texts of four tokens are a quarter each.
AT_PADDING, ONE_TOKEN = 0.005, 0.5


def padding(history: History) -> Verdict | None:
    """Judge whether the gradient of a loop's loss goes to padding."""
    shares = values_of(history, PADDING_GRADIENT)
    if len(shares) < PERSISTENT or not statistics.median(shares) >= AT_PADDING:
        return None
    share = statistics.median(shares)
    return Verdict(
        "Padding",
        WATCH,
        f"{percent(share)} of the gradient at the tokens goes to padding: an embedding depends on "
        "how long the longest text of its batch is, and a text alone has another one.",
        "Hand the attention mask to the encoder, and pool with it: a mean over real tokens only, "
        "the last real token of each row, or padding_side='left' for the last position.",
        name="gradient at padding",
        symptom="embedding-depends-on-its-batch",
        evidence={"share": share},
    )


def one_token(history: History) -> Verdict | None:
    """Judge whether most tokens of a loop's texts are the same one, such as the unknown one."""
    shares = values_of(history, COMMONEST_TOKEN)
    if len(shares) < PERSISTENT or not statistics.median(shares) >= ONE_TOKEN:
        return None
    share = statistics.median(shares)
    return Verdict(
        "Tokens",
        WATCH,
        f"{percent(share)} of the tokens of a batch, without padding, are the same one, as where "
        "the vocabulary does not know the words (the unknown token), or where most are masked.",
        "Print some texts beside their tokens: take the tokenizer of the encoder, and check its "
        "language, letters and lower case, and the share of tokens that a collator masks.",
        name="one token everywhere",
        symptom="loss-at-chance",
        evidence={"share": share},
    )
