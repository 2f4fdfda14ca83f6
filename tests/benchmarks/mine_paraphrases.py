"""How many planted paraphrases does `gradlab mine` choose as hard negatives?

    python tests/benchmarks/mine_paraphrases.py SENTEVAL --model MODEL [--judge MODEL]

SENTEVAL is SentEval's ``data/downstream``. A row is a sentence of SICK and another one that it
entails, both with a relatedness of 4.5 or more. Where there is a second such sentence, it is
planted in the corpus: as a hard negative it would be false. All other sentences of SICK are in the
corpus too, and most of them describe nearly the same scene.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

from gradlab.inspection.same_meaning import looks_like_a_positive
from gradlab.integrations.mining import mine

MOST = 400  # rows without a planted paraphrase


def paraphrases(folder: Path) -> tuple[dict[str, list[str]], list[str]]:
    """Return for each sentence of SICK those that say the same, and all sentences."""
    same: defaultdict[str, list[str]] = defaultdict(list)
    sentences = set()
    for path in sorted((folder / "SICK").glob("SICK_*.txt")):
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                first, second = row["sentence_A"], row["sentence_B"]
                sentences |= {first, second}
                entailed = row["entailment_judgment"] == "ENTAILMENT"
                if entailed and float(row["relatedness_score"]) >= 4.5:
                    same[first].append(second)
                    same[second].append(first)
    return {text: sorted(set(texts)) for text, texts in sorted(same.items())}, sorted(sentences)


def rows_of(same: dict[str, list[str]]) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Return pairs, each sentence in one of them, and the planted paraphrase by the anchor."""
    pairs, planted, used = [], {}, set()
    for needed in (2, 1):
        for anchor, texts in same.items():
            unused = [text for text in texts if text not in used]
            if anchor in used or len(unused) < needed or len(pairs) - len(planted) >= MOST:
                continue
            pairs.append((anchor, unused[0]))
            if needed == 2:
                planted[anchor] = unused[1]
            used |= {anchor, *unused[:needed]}
    return pairs, planted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("senteval", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--pooler")
    parser.add_argument("--judge")
    options = parser.parse_args()
    same, sentences = paraphrases(options.senteval)
    pairs, planted = rows_of(same)
    anchors, positives = map(list, zip(*pairs, strict=True))
    corpus = [text for text in sentences if text not in {*anchors, *positives}]
    caught = sum(
        looks_like_a_positive(planted[anchor], anchor, positive)
        for anchor, positive in pairs
        if anchor in planted
    )
    print(
        f"{len(pairs)} rows, {len(planted)} planted paraphrases; the rule of words sees {caught} "
        "of them"
    )
    mined = mine(
        options.model, anchors, positives, corpus=corpus, judge=options.judge,
        pooler=options.pooler,
    )  # fmt: skip
    for choice in mined.choices:
        sound = [row for row in choice.rows if not looks_like_a_positive(row[2], *row[:2])]
        chosen = sum(planted.get(anchor) == negative for anchor, _, negative in sound)
        print(
            f"limit {choice.share or 'none':>5}: {len(choice.rows)} rows find a negative, "
            f"{choice.false} false by words; of the others, {chosen} are planted paraphrases; "
            f"{choice.push:.0%} of all push"
        )


if __name__ == "__main__":
    main()
