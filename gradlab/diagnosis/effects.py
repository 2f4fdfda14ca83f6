"""Which verdicts on a set-up explain, silence or excuse which others."""

from __future__ import annotations

# Name of a verdict -> names of verdicts that it explains, in the order in which to act on them.
EFFECTS: dict[str, tuple[str, ...]] = {
    "frozen": ("no gradient", "little gradient", "optimizer lacks weights"),
    "adapters frozen": ("no gradient", "little gradient"),
    "empty texts": (
        *("loss not finite", "gradient not finite", "views equal", "pairs at chance"),
        *("negatives nearer", "negatives are positives", "duplicates", "loss zero", "placeholders"),
        *("sorted rows", "rows left out", "part of the pairs unrelated", "pairs at chance in part"),
    ),
    **{
        f"texts: {kind}": (
            *("part of the pairs unrelated", "pairs at chance", "pairs at chance in part"),
            *("prompt pooled", "duplicates", "spaces lost", "texts cut at a length", "words spelt"),
        )
        for kind in (
            *("object", "identifier", "escape", "joined", "piece", "ellipsis"),
            *("blank", "lost", "filler"),
        )
    },
    # Words say more than the cosines of an encoder that is not tuned.
    "texts of other rows": ("pairs at chance", "pairs at chance in part", "duplicates"),
    "part of the pairs unrelated": ("pairs at chance", "pairs at chance in part"),
    "rows contrary": ("negatives nearer", "duplicates"),
    "positives and negatives exchanged": (
        *("negatives share the words", "negatives nearer", "pairs at chance"),
    ),
    "negatives share the words": ("negatives nearer", "pairs at chance"),
    "labels shifted": ("labels reversed in part", "labels of equal texts too low"),
    "layer made anew": ("loss weights without gradient",),
    **{
        name: ("labels unrelated", "labels of equal texts too low")
        for name in ("labels reversed in a half", "labels filled in", "labels against words")
    },
    "labels of groups": ("labels of equal texts too low",),
    "answers shifted": ("gold unrelated", "gold without common words"),
    "gold unrelated": ("gold without common words",),
    **dict.fromkeys(
        ("columns in another order", "column of numbers", "column of identifiers"),
        (
            *("positives and negatives exchanged", "negatives share the words"),
            *("pairs at chance", "negatives nearer", "worse than chance"),
            *("tokens unknown", "placeholders", "duplicates"),
        ),
    ),
    "labels ignored": (
        *("pairs at chance", "worse than chance", "duplicates", "views equal"),
        *("part of the pairs unrelated", "pairs at chance in part"),
    ),
    "labels out of range": ("loss not finite", "worse than chance"),
    "loss of another encoder": ("no gradient", "little gradient", "optimizer lacks weights"),
    "rows mixed in batches": ("pairs at chance", "pairs at chance in part", "worse than chance"),
    "hardly any words": ("duplicates", "texts missing", "pairs at chance"),
    **dict.fromkeys(("plateau of the wrong sign", "large epsilon"), ("plan hardly moves",)),
    **{
        name: (
            *("embedding depends on other rows", "embedding depends on its batch"),
            *("pairs at chance", "worse than chance", "negatives nearer"),
            *("saved model differs", "labels unrelated", "loss changed outside"),
        )
        for name in ("embedding is random", "rows in another order")
    },
    "embedding depends on other rows": (
        *("embedding depends on its batch", "pairs at chance", "worse than chance"),
        "negatives nearer",
    ),
    "tokens unseen": (
        *("pairs at chance", "worse than chance", "negatives nearer"),
        *("views equal", "collapsed", "texts embed alike", "no end of sequence"),
    ),
    "dropout too high": ("noise drowns texts", "pairs at chance", "worse than chance"),
    "noise drowns texts": ("pairs at chance", "worse than chance", "negatives nearer"),
    "rows shifted": (
        *("pairs at chance", "worse than chance", "part of the pairs unrelated"),
        "pairs at chance in part",
    ),
    "labels reversed": ("labels out of range",),
    "teacher reversed": ("negatives nearer", "teacher in other units"),
    **{
        name: ("plan hardly moves", "adapter hardly moves", "weights not loaded")
        for name in ("rate ends early", "rate too low")
    },
    "few steps": (
        *("plan hardly moves", "adapter hardly moves", "schedule does not reach the rate"),
        *("warm-up takes the run", "weights not loaded"),
    ),
    "texts missing": ("part of the pairs unrelated", "pairs at chance in part"),
    "route without column": ("part without gradient", "little gradient"),
    "routes exchanged": ("worse than chance", "pairs at chance"),
    "other row as target": ("loss reversed", "loss asks nothing", "worse than chance"),
    **dict.fromkeys(
        ("loss reversed", "loss of labels reversed"), ("worse than chance", "loss zero")
    ),
    "labels missing": ("labels mostly equal",),
    "targets equal": ("teacher of other texts",),
    "classes unrelated": ("classes seldom fit",),
    **dict.fromkeys(("single rows", "rows left out"), ("few rows",)),
    "guide masks all": ("loss zero", "no gradient", "little gradient"),
    "module is flat": ("no gradient", "little gradient", "part without gradient"),
    "embedding depends on its batch": (
        *("pairs at chance", "worse than chance", "negatives nearer"),
        *("no end of sequence", "views equal"),
    ),
    "tokens unknown": (
        *("pairs at chance", "views equal", "texts embed alike", "collapsed"),
        *("worse than chance", "loss zero", "negatives nearer"),
    ),
    "weights float16": ("loss not finite", "gradient not finite", "loss zero in half precision"),
    "schedule does not reach the rate": (
        *("plan hardly moves", "adapter hardly moves", "rate too low", "weights not loaded"),
    ),
    "classes alone": ("loss zero", "no gradient", "little gradient", "labels ignored"),
    "labels between": ("loss zero", "no gradient", "little gradient"),
    "texts of a template": (
        *("part of the pairs unrelated", "pairs at chance in part", "duplicates"),
    ),
    "negatives hold positives": ("negatives nearer", "marker"),
    "embeddings are shares": (
        *("embeddings without sign", "loss zero in half precision", "plan hardly moves"),
        *("pairs at chance", "worse than chance"),
    ),
    "collapsed": ("pairs at chance", "worse than chance", "loss zero", "few candidates"),
    **dict.fromkeys(
        ("one class", "labels equal", "margin met", "views equal", "texts embed alike"),
        ("loss zero", "no gradient"),
    ),
    "batch of one": ("loss zero", "no gradient"),
    "loss not finite": ("gradient not finite",),
    "temperature too low": ("worse than chance", "loss zero"),
    "logits too large": ("worse than chance", "loss zero"),
    **dict.fromkeys(("few rows", "placeholders", "sorted rows"), ("duplicates",)),
    "accumulation multiplies": ("loss changed outside",),
    "pairs at chance": ("worse than chance", "negatives nearer"),
}
# Name of a problem -> names of good verdicts that say nothing beside it.
SILENCES: dict[str, tuple[str, ...]] = {
    "empty texts": ("negatives farther", "pairs belong together", "few duplicates", "texts end"),
    "placeholders": ("negatives farther", "few duplicates"),
    "tokens unknown": ("negatives farther", "pairs belong together", "views differ"),
    **dict.fromkeys(
        ("columns in another order", "column of numbers", "column of identifiers"),
        ("negatives farther", "pairs belong together"),
    ),
    "labels ignored": ("pairs belong together", "loss usual"),
    "collapsed": ("negatives farther", "pairs belong together"),
    "embedding depends on its batch": ("pairs belong together", "negatives farther"),
    "embedding depends on other rows": (
        *("pairs belong together", "negatives farther", "padding has no effect"),
    ),
    "tokens unseen": ("pairs belong together", "negatives farther", "views differ"),
    "rows shifted": ("pairs belong together",),
    "labels reversed": ("labels fit",),
    "gold equal": ("evaluation apart",),
}
# Name of a verdict that is no problem -> names of problems of the same data set that it excuses.
EXCUSES: dict[str, tuple[str, ...]] = {
    # Cosines of an encoder that is not tuned, such as of two towers, are worse than equal ones.
    "encoder untuned": ("worse than chance",),
    "negatives farther by words": ("negatives nearer",),
    "negatives contradict": ("negatives nearer",),
    "words foretold": (
        *("worse than chance", "texts of other rows", "gold unrelated"),
        "gold without common words",
    ),
}
# Name of a trend -> verdicts of which each confirms it. A trend alone is to be watched: what names,
# statistics or habits suggest may be meant that way.
_MIXED = ("pairs at chance in part", "part of the pairs unrelated")
_AT_CHANCE = ("pairs at chance", "worse than chance")
TRENDS: dict[str, tuple[str, ...]] = {
    "rows shifted": ("pairs at chance", "texts of other rows", *_MIXED),
    "rows mixed in batches": ("pairs at chance", *_MIXED),
    "positives and negatives exchanged": (
        *("negatives nearer", "columns in another order", "pairs at chance"),
    ),
    "labels shifted": ("labels reversed in part", "labels of equal texts too low"),
    "labels missing": ("labels reversed in part", "unrelated at minus one"),
    "loss of labels reversed": ("labels reversed", *_AT_CHANCE),
    "gold reversed": ("labels reversed", "answers shifted"),
    "gold unrelated": ("answers shifted", "gold without common words", "gold missing"),
    "answers shifted": ("gold unrelated", "gold without common words"),
    "noise drowns texts": (
        *("dropout too high", "embedding is random", "embedding depends on other rows"),
        *("embedding depends on its batch", *_AT_CHANCE),
    ),
    "tokens unseen": (
        *("collapsed", "texts embed alike", "views equal", "no beginning of sequence"),
        *("little gradient", *_AT_CHANCE),
    ),
    "embeddings are shares": ("embeddings without sign", "plan hardly moves", *_AT_CHANCE),
    "margin met": ("loss asks nothing", "loss zero"),
    "margins too lenient": ("loss zero", "labels already met"),
    "loss zero": (
        *("margin met", "labels equal", "one class", "classes alone", "labels between"),
        *("views equal", "texts embed alike", "collapsed", "loss asks nothing", "batch of one"),
        *("temperature too low", "labels already met", "sorted rows"),
    ),
    "one class": ("loss zero", "no gradient", "sorted rows"),
    "guide masks all": ("no gradient",),
    "rate ends early": ("plan hardly moves", "few steps", "weights not loaded"),
    "routes exchanged": _AT_CHANCE,
    "route without column": ("part without gradient", "little gradient"),
    "weights of the loss frozen": ("labels ignored", "no gradient"),
    "weights not registered": ("no gradient", "labels ignored"),
}
