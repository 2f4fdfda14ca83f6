"""Which symptom do words describe? Cosines of TF-IDF vectors of words, their parts and synonyms."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

# Words that do not distinguish symptoms.
SKIPPED = """
    a all an and any are as at be bert best bge but by can could do does during e5 exactly first
    for from get gets gte has have how i if in is it just may me more my new no not number of often
    on one only or other really should show shows so some still ten that the then there these this
    to two use using very was were what when which while why will with would after enable different
    than value values model models after before whatever around off
"""
# One word for words and phrases of the field that mean the same here, by a regular expression.
SYNONYMS = (
    (r"before and after|as before|from before", "unchanged"),
    (r"(very |so |too )?(small|tiny|little) (loss|value)|(loss|value) is (very |so )?(small|tiny)|"
     r"(close|near) to (zero|0)|nearly (zero|0)", "zero"),
    (r"(gone|going|goes|go|went|pushed|pulled|moves?|moved) (down|apart|away)|drift\w* apart|"
     r"sinks?\b|sank\b", "falls"),
    (r"hours? (remaining|left)|(seconds|minutes|s) per (iteration|step)|it/s|longer than|"
     r"(time|duration) .{0,20}(grown|increas\w+|longer)|takes? (twice|much longer)", "slow"),
    (r"out of bounds|(class|label) ind(ex|ices)|target -?\d+", "labels range"),
    (r"(from|between|in) 0 ?(-|to|and) ?[15]\b|0-[15]\b", "range"),
    (r"(single|one) (sentence|text)s? (and|or|than|versus|vs) (for )?(a )?(list|batch)|"
     r"one by one|encoded alone|in a list|alone and", "alone batch"),
    (r"(match|equal|same as|like) (those of )?(the )?(original|pretrained|initial|untuned)",
     "unchanged"),
    (r"true (match|matches|positive|positives)|really relevant|correct answers?", "positive "
     "falsenegatives"),
    (r"(is|are) (this|that|it|these) (correct|ok|okay|right|expected|good)", "normal"),
    (r"half[ -]precision|mixed[ -]precision|float ?16|--fp16|\bamp\b", "fp16"),
    (r"float ?32|fp ?32|full precision|single precision", "fp32"),
    (r"\bnan\b|\binf\b|infinite|infinity|overflow\w*|diverge\w*", "nan"),
    (r"\bzero\b|(?<![\d.])0(\.0+)?(?![.\d])|(?<![\d.])0\.0[0-3]\d*", "zero"),
    (r"spearman|ndcg|\bmrr\b|recall|accuracy|benchmark|metrics?\b|performance|evaluation|"
     r"\bgain\b|results?\b|\bsts\b|retriev\w+|quality", "score"),
    (r"\bparameters?\b|\btensors?\b|\boptimi[sz]er\b", "weights"),
    (r"\blora\b|\bpeft\b|adapted\b|merged\b", "adapter weights"),
    (r"\btau\b|logit[_ ]scale|\bscale\b", "temperature"),
    (r"ddp\b|distributeddataparallel|multi-?gpu|several gpus|(two|four|eight|2|4|8) (gpus?|cards?)|"
     r"devices?\b|processes\b|gather\w*|number of gpus", "gpus"),
    (r"grad ?cache|gradient cach\w+|cached\w*|\bcmnrl\b", "gradientcache cached"),
    (r"info ?nce|\bmnrl\b|multiplenegativesrankingloss|contrastive loss|supcon", "infonce loss"),
    (r"log\(?(of )?(the )?(batch( size)?|n\)|candidates)\)?|random guess\w*|guessing|at chance",
     "chance guessing"),
    (r"stuck|constant|stays?|flat|plateau\w*|(not|n't) (decrease|go down|fall|learn)\w*",
     "stuck"),
    (r"collaps\w+|anisotrop\w+|same embeddings?|narrow cone", "collapsed alike"),
    (r"unrelated|different sentences|each other", "unrelated"),
    (r"0\.[89]\d*|near 1\b|above 0", "high"),
    (r"positives?|pos score", "positive"),
    (r"drops?\b|falls?\b|declin\w+|lower\w*|decreas\w+|going down|goes down|getting lower",
     "falls"),
    (r"degrad\w+|worse\w*|hurts?\b|deteriorat\w+", "worse"),
    (r"unchanged|identical|as before|same before and after|before and after|(not|n't) (update|move|"
     r"change)\w*|does nothing|no effect|base model", "unchanged"),
    (r"duplicat\w+|repeat\w*|same (passage|text|document)s?", "duplicates"),
    (r"false negatives?|unlabelled|mined?\b|mining|hard negatives?",
     "falsenegatives negatives"),
    (r"accumulat\w+", "accumulation"),
    (r"(batch size|batches) (of )?(one|two|three|four|[1-4])\b|(small|tiny) batch(es)?( size)?",
     "smallbatch batch"),
    (r"spik\w+|jump\w*", "jump"),
    (r"end of (an|the|each|every) epoch|epoch boundar\w+|last batch|incomplete batch|"
     r"each new epoch", "epoch"),
    (r"\bepochs?\b|\biterations?\b", "step"),
    (r"slow\w*|takes? (hours|days|ages|long|forever)|throughput|utili[sz]ation|\bspeed\b", "slow"),
    (r"normal|compare|good or bad|how low|how high|usual value", "normal"),
    (r"fine-?tun\w+|train\w*|tuned", "training"),
)  # fmt: skip
COMPILED = tuple((re.compile(pattern), word) for pattern, word in SYNONYMS)
# Weight of a word's parts beside that of the word; of the whole symptom beside its best phrases,
# and of how many phrases.
PARTS, WHOLE, PHRASES = 0.6, 1.2, 3
# Weight of two words that stand near each other, at most so many words apart.
PAIRED, WINDOW = 0.45, 3
# Rarity of a word that no symptom has, beside that of a word that one symptom has.
UNKNOWN = 0.7
# Lowest score of an answer, and the share of it from which on a second symptom fits as well: what
# leaves fewest wrong answers to each group of tests/judgement/phrases.toml without its own words.
FLOOR, AS_WELL = 0.3, 0.8

Vector = dict[str, float]


class Index:
    """Symptoms by their phrases, to find the one that words describe."""

    def __init__(self, symptoms: Mapping[str, Sequence[tuple[str, float]]]) -> None:
        """Take the phrases of each symptom, each with a weight: less for causes and remedies."""
        holders: Counter[str] = Counter()
        for phrases in symptoms.values():
            holders.update(set[str]().union(*(features(text) for text, _ in phrases)))
        count = len(symptoms)
        self._rarity = {word: math.log((1 + count) / times) for word, times in holders.items()}
        self._unknown = UNKNOWN * math.log(1 + count)
        self._phrases = {
            name: [(self._vector(text), weight) for text, weight in phrases]
            for name, phrases in symptoms.items()
        }
        self._wholes = {name: _whole(vectors) for name, vectors in self._phrases.items()}

    def scores(self, words: str) -> list[tuple[str, float]]:
        """Return the names of symptoms with their scores, from the likeliest on."""
        question, scores = self._vector(words), []
        for name, vectors in self._phrases.items():
            whole = self._wholes[name]
            cosines = sorted(weight * _cosine(question, vector) for vector, weight in vectors)
            covered = sum(size**2 for word, size in question.items() if word in whole)
            share = covered / sum(size**2 for size in question.values()) if question else 0.0
            best = sum(cosines[-PHRASES:]) / PHRASES
            scores.append((name, best + WHOLE * share * _cosine(question, whole)))
        return sorted(scores, key=lambda pair: -pair[1])

    def _vector(self, text: str) -> Vector:
        """Return TF-IDF weights of the words and, at a lower weight, of parts of long words."""
        vector: Vector = {}
        for word in features(text):
            weight = self._rarity.get(word, self._unknown) * (PAIRED if "+" in word else 1)
            vector[word] = weight
            parts = {f"~{word[at : at + 4]}" for at in range(len(word) - 3)}
            for part in parts if len(word) > 4 and "+" not in word else ():
                vector[part] = vector.get(part, 0.0) + PARTS * weight / math.sqrt(len(parts))
        return vector


def features(text: str) -> set[str]:
    """Return the words of a text, with synonyms as one word, and pairs of words nearby."""
    plain = text.lower().replace("’", "'")
    for pattern, word in COMPILED:
        plain = pattern.sub(f" {word} ", plain)
    words, skipped = list[str](), set(SKIPPED.split())
    for word in re.findall(r"[a-z0-9_]+(?:\.\d+)?", plain):
        if word not in skipped:
            words.append(_stem(word))
    singles_and_pairs = set(words)
    for at, word in enumerate(words):
        singles_and_pairs.update(
            "+".join(sorted({word, near})) for near in words[at + 1 : at + 1 + WINDOW]
        )
    return singles_and_pairs


def _whole(vectors: Sequence[tuple[Vector, float]]) -> Vector:
    """Return the largest weight of each word in all phrases of a symptom."""
    whole: Vector = {}
    for vector, weight in vectors:
        for word, size in vector.items():
            whole[word] = max(whole.get(word, 0.0), weight * size)
    return whole


def _stem(word: str) -> str:
    for ending in ("ings", "ing", "ies", "es", "ed", "s", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word


def _cosine(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    product = sum(size * second.get(feature, 0.0) for feature, size in first.items())
    sizes = math.sqrt(sum(s * s for s in first.values()) * sum(s * s for s in second.values()))
    return product / sizes if sizes else 0.0
