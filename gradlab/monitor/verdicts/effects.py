"""Which verdicts of a report explain which others?"""

from __future__ import annotations

# Name of a verdict -> names of the verdicts that it explains. Causes that come first are the first
# to act on.
EFFECTS: dict[str, tuple[str, ...]] = {
    "doctor found problems": (
        *("no progress", "nothing to learn", "loss is 0", "loss of guessing", "hardly told apart"),
        *("collapse", "score does not improve", "training hurts", "temperature too high"),
        *("identical views", "rate ends early", "score never changes", "score perfect before"),
        *("ratio too low", "none learns", "gradient has vanished"),
    ),
    "not finite": (
        *("collapse", "no progress", "loss of guessing", "loss rises", "training hurts"),
        *("score fell", "score is undefined", "held-out loss is NaN", "hardly told apart"),
        *("score does not improve", "held-out loss rises", "none learns", "gradient has vanished"),
        *("temperature too high", "ratio too low", "nothing to learn"),
    ),
    **{
        name: (
            *("loss reversed", "no gradient at embeddings", "no negatives", "rows by their place"),
            *("pairs unrelated", "hardly told apart", "loss of guessing", "collapse", "same batch"),
            *("score does not improve", "no progress", "nothing to learn", "none learns"),
        )
        for name in ("rows left out", "wrong rows left out", "classes once", "texts left out")
    },
    "first dimensions idle": (
        *("positive as negative", "no gradient", "loss cannot fall", "hardly told apart"),
        *("loss of guessing", "score does not improve", "collapse"),
    ),
    "other row as target": (
        *("push reversed", "ratio too low", "hardly told apart", "loss of guessing", "collapse"),
        *("score does not improve", "training hurts"),
    ),
    "loss reversed": (
        *("order reversed", "push reversed", "ratio too low", "collapse", "training hurts"),
        *("score fell", "hardly told apart", "loss of guessing", "score does not improve"),
    ),
    # Training towards reversed labels draws all sentences together, and lowers a score.
    "order reversed": (
        *("collapse", "training hurts", "score fell", "hardly told apart"),
        *("loss of guessing", "score does not improve"),
    ),
    "order at chance": ("hardly told apart", "loss of guessing", "score does not improve"),
    "order falls": ("hardly told apart", "loss of guessing", "score does not improve"),
    **{
        name: ("loss of guessing", "hardly told apart", "score does not improve", "ratio too low")
        for name in (
            *("own similarity", "softmax twice", "loss cannot fall", "mistaken formula"),
            *(
                "no gradient",
                "scores in other units",
                "scores broadcast",
                "positive as negative",
                "easiest negative",
                "target is spread",
            ),
        )
    },
    "gradient not finite": (
        *("batches without step", "no progress", "pairs unrelated", "hardly told apart"),
        *("loss of guessing", "score does not improve"),
    ),
    **{
        name: (
            *("no gradient", "no gradient at embeddings", "one-sided gradient", "loss is 0"),
            *("no progress", "gradients not cleared", "weights stop", "loss rises"),
            *("hardly told apart", "loss of guessing", "score does not improve", "collapse"),
            *("pairs unrelated", "training hurts", "score fell", "ratio too low"),
        )
        for name in (
            *(
                "another gradient",
                "gradients of other rows",
                "embeddings unused",
                "weights blown up",
                "weights made anew",
            ),
            *("empty steps", "loss outweighed"),
            *("weights still", "loss maximised", "steps undone", "second view unused"),
            *("warm-up begins again", "warm-up never ends", "rates fall by layer"),
            *("much weight decay", "large epsilon", "temperature too low", "moved by hand"),
            *("steps uphill", "weights without rate", "steps rounded away", "loss divided"),
            *("gradient below epsilon", "rate not reached", "weights go back", "rate too high"),
            *("batches without step", "weights frozen later", "weights shrink", "few updates"),
            *("gradient at padding", "one token everywhere", "rate of 0", "classes counted anew"),
            *("texts repeated", "texts joined", "one class in a batch", "labels change"),
            *("few weights trained", "steps too small", "margin learned away"),
        )
    },
    "texts cut shorter": (
        *("duplicates", "identical views", "hardly told apart", "loss of guessing"),
        *("score does not improve", "training hurts", "score fell"),
    ),
    "labels ignored": (
        *("push reversed", "nothing pushes", "collapse", "hardly told apart", "no negatives"),
        *("loss of guessing", "score does not improve", "training hurts", "nothing to learn"),
    ),
    "no gradient at embeddings": (
        *("no gradient", "loss is 0", "no progress", "hardly told apart", "loss of guessing"),
        *("score does not improve", "nothing to learn", "gradient has vanished", "none learns"),
    ),
    "pairs without a part": (
        *("easiest negative", "no negatives", "loss of guessing", "hardly told apart", "collapse"),
        *("none learns", "nothing to learn", "score does not improve", "pairs unrelated"),
    ),
    "loss is 0": (
        *("hardly told apart", "score does not improve", "no progress", "gradient has vanished"),
        "none learns",
    ),
    "gradients not cleared": (
        *("loss rises", "hardly told apart", "training hurts", "score fell", "collapse"),
    ),
    "embeddings without gradient": (
        *("no progress", "hardly told apart", "loss of guessing", "score does not improve"),
    ),
    "no progress": (
        *("pairs unrelated", "hardly told apart", "loss of guessing", "score does not improve"),
        *("ratio too low", "collapse"),
    ),
    "pairs unrelated": ("hardly told apart", "loss of guessing", "score does not improve"),
    "views interleaved": ("hardly told apart", "loss of guessing", "score does not improve"),
    "weights replaced": ("loss came back", "loss rises", "hardly told apart", "score fell"),
    "few steps": ("no progress", "hardly told apart", "loss of guessing", "score does not improve"),
    **{
        name: ("no progress", "hardly told apart", "score does not improve")
        for name in ("stopped early", "stopped without evaluation")
    },
    "rate ends early": ("no progress", "hardly told apart", "score does not improve"),
    "identical views": (
        *("nothing to learn", "loss is 0", "no progress", "gradient has vanished", "none learns"),
        *("loss of guessing", "score does not improve", "training hurts", "hardly told apart"),
        *("ratio too low", "temperature too high"),
    ),
    "push reversed": (
        *("collapse", "hardly told apart", "training hurts", "score fell", "loss rises"),
        *("score does not improve", "loss came back"),
    ),
    "nothing pushes": ("collapse", "hardly told apart", "training hurts", "score fell"),
    "nothing to learn": (
        *("loss is 0", "no progress", "score does not improve", "hardly told apart"),
    ),
    "temperature too high": (
        *("loss of guessing", "hardly told apart", "score does not improve", "loss rises"),
        *("ratio too low", "training hurts"),
    ),
    "loss came back": ("hardly told apart", "training hurts", "score fell", "collapse"),
    "loss rises": ("collapse", "training hurts", "score fell", "hardly told apart"),
    "collapse": (
        *("score is undefined", "training hurts", "score fell", "loss of guessing"),
        *("hardly told apart", "ratio too low", "score does not improve"),
        *("none learns", "gradient has vanished", "nothing left to learn"),
    ),
    **{
        name: ("loss of guessing", "loss does not fall", "hardly told apart")
        for name in ("training hurts", "score fell")
    },
    "hardly told apart": ("loss of guessing", "score does not improve"),
    "loss of guessing": ("score does not improve",),
}
# Name of a trend -> verdicts of which each confirms it. A trend alone is to be watched: a sound run
# of an unusual kind may look like it. What comes of training is the second sign.
_OUTCOME = (
    *("hardly told apart", "loss of guessing", "loss rises", "loss came back", "training hurts"),
    *("score fell", "score does not improve", "order falls", "pairs unrelated", "no progress"),
    *("collapse", "opposite directions"),
)
TRENDS: dict[str, tuple[str, ...]] = {
    name: _OUTCOME
    for name in (
        *("push reversed", "loss reversed", "pairs without a part", "other row as target"),
        *("targets misdirected", "labels ignored", "labels reversed", "loss maximised"),
        *("steps uphill", "weights go back", "weights replaced", "moved by hand"),
        "nothing to learn",
        *("views interleaved", "texts left out", "embeddings unused"),
    )
}
