"""Tables of texts with a mistake."""

from __future__ import annotations

from tests.judgement.case import faulty
from tests.judgement.first.mistake_fields import (
    BEES,
    GARDEN,
    HARBOUR,
    SEWING,
    TRAINS,
    WINES,
    graded_score,
    losses,
    read_beside,
    training,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers


def triplet(model, **options):
    return losses.TripletLoss(model, **options)


@faulty(
    "negatives before positives",
    "The columns stand in the order anchor, negative, positive: losses go by order, not by name, "
    "so that the hard negatives are trained as positives.",
    [
        r"(?i)column.{0,40}(order|swap|exchang|revers)|(order|swap|exchang).{0,40}column",
        r"(?i)negatives?.{0,60}(closer|more alike|nearer|more similar).{0,40}(positive|anchor)",
        r"(?i)positives?.{0,60}(farther|further|less (alike|similar)|no closer).{0,40}negative",
        r"(?i)(second|third) column",
    ],
)
def negative_column_stands_before_the_positive_one(stage: Stage) -> None:
    right = BEES.table(200) | {"negative": BEES.near(200, slot=2)}
    wrong = {name: right[name] for name in ("question", "negative", "answer")}
    suffers(
        stage,
        training(stage, BEES, triplet, wrong),
        lambda: training(stage, BEES, triplet, right),
        BEES.sought,
    )


@faulty(
    "distances in the column of grades",
    "The score column holds distances (0 for equal texts), where the loss wants similarities.",
    [
        r"(?i)(score|label)s?.{0,60}(revers|invert|upside|distance|opposite|wrong way|\bsign)",
        r"(?i)(more alike|similar|overlap|equal).{0,60}(lower|low|smaller|less) (score|label)",
        r"(?i)(fall|lower|contrary|against|negative).{0,40}(score|label|correlat)",
    ],
)
def distances_stand_where_similarities_belong(stage: Stage) -> None:
    right = TRAINS.graded(240)
    wrong = right | {"score": [1 - score for score in right["score"]]}
    suffers(
        stage,
        training(stage, TRAINS, losses.CoSENTLoss, wrong),
        lambda: training(stage, TRAINS, losses.CoSENTLoss, right),
        graded_score(TRAINS),
    )


@faulty(
    "scores from 0 to 5 for a cosine",
    "Scores from 0 to 5 are the targets of cosines, which reach 1 at most: nearly all pairs are "
    "pulled together.",
    [
        r"(?i)(score|label|target)s?.{0,80}(scale|\brange|above 1|over 1|beyond|larger|"
        r"greater|0.{1,6}5|"
        r"divid|rescal|normali[sz]|\[0, ?1\]|\[-1, ?1\])",
        r"(?i)(cosine).{0,60}(cannot|never|can't).{0,40}(reach|exceed|match)",
        r"(?i)collaps",
    ],
)
def scores_of_five_as_targets_of_a_cosine(stage: Stage) -> None:
    settings = {"max_steps": 100, "learning_rate": 4e-3}
    loss, wrong, right = losses.CosineSimilarityLoss, WINES.graded(400, most=5.0), WINES.graded(400)
    suffers(
        stage,
        training(stage, WINES, loss, wrong, **settings),
        lambda: training(stage, WINES, loss, right, **settings),
        graded_score(WINES),
    )


@faulty(
    "answers cut at the first comma",
    "The file was split at commas: of each answer only the words before its first comma are left.",
    [
        r"(?i)(same|identical|repeated|duplicate|equal|few (different|distinct)).{0,60}"
        r"(text|positive|answer|row|passage|column)",
        r"(?i)(positives?|answers?|texts?|second column).{0,60}(same|identical|repeat|"
        r"duplicat|short|"
        r"cut|truncat|occur)",
        r"(?i)false negative|\bcommas?\b",
    ],
    tools=("inspect",),
)
def answers_end_at_their_first_comma(stage: Stage) -> None:
    right = SEWING.table(200)
    wrong = right | {"how": [text.split(" ,")[0] for text in right["how"]]}
    read_beside(stage, wrong, right, SEWING)


@faulty(
    "one column sorted",
    "The answers were sorted and the questions were not: no row's texts belong together.",
    [
        r"(?i)(unrelated|mismatch|misalign|do(es)? not (fit|match|belong|go together)|"
        r"shuffl|shift)",
        r"(?i)(positives?|pairs?|partners?|rows?).{0,80}(wrong|chance|random|no closer|not closer|"
        r"no more (alike|similar)|other row)",
        r"(?i)(wrong|other|another) (row|positive|partner|pair)s?|\bsorted\b",
    ],
    tools=("inspect",),
)
def answers_sorted_apart_from_their_questions(stage: Stage) -> None:
    right = HARBOUR.table(200)
    read_beside(stage, right | {"log": sorted(right["log"])}, right, HARBOUR)


@faulty(
    "hard negatives equal to the positives",
    "Mined negatives were not filtered: each is its row's positive again, and triplets are void.",
    [
        r"(?i)negatives?.{0,80}(equal|identical|same|copies|copy|duplicate|is the positive)",
        r"(?i)(positive|negative)s? (and|equals?|is) (the |its |their )?(positive|negative)s?"
        r".{0,40}(same|equal|identical)",
        r"(?i)false negative|no gradient|gradients?.{0,40}(zero|vanish|cancel)",
    ],
)
def mined_negatives_are_the_positives_again(stage: Stage) -> None:
    right = GARDEN.table(200) | {"negative": GARDEN.near(200, slot=0)}
    right["negative"] = [*right["answer"][7:], *right["answer"][:7]]
    wrong = right | {"negative": list(right["answer"])}

    def loss(model):
        return triplet(model, triplet_margin=1.0)

    suffers(
        stage,
        training(stage, GARDEN, loss, wrong),
        lambda: training(stage, GARDEN, loss, right),
        GARDEN.sought,
    )
