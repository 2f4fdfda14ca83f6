"""Where a verdict turns: the numbers that say when a run is healthy, to be watched, or has failed.

Those of failures are for what has gone wrong for good, not for what is merely not best. A healthy SimCSE run, for
comparison, begins with embeddings of cosine .92 to each other and shares of the hardest negative near uniform, and both
change within tens of steps; its mean dissipation falls below .01 within a hundred, which is what dissipation is for.
"""

# Records in a row that must show a failure.
PERSISTENT = 3
# Dissipation so small that no anchor learns; within which part of the run (or how many records) that is early.
NOTHING, EARLY, EARLY_RECORDS = 1e-4, 0.1, 10
# The hardest negative counts less than this many times the average one, although embeddings are this far apart: those of an
# encoder that was not tuned yet are not, and make any temperature look high. Of fewer than 8 negatives the hardest has a
# large share whatever the temperature.
NEAR_UNIFORM, TUNED, ENOUGH = 2.5, 0.8, 8
# Different sentences are apart while the two views of each are the same.
APART = 0.9
# Share of triples whose ratio satisfies the lemma; a positive this close leaves nothing to come closer to.
MOST, COINCIDE = 0.5, 0.99
# Different sentences with this mean cosine are one point; records after which embeddings that came as one are to have
# spread. Two views that are nearer than this are the same text without dropout.
ONE_POINT, PATIENCE, SAME = 0.98, 10, 1 - 1e-6
# Squared distance of a sentence's views, as a share of that of different sentences: a healthy run begins near .75, for
# dropout alone, and falls from there. Records that must show more need not follow each other, since such runs oscillate;
# it takes more of them where new heads make it so from the beginning.
INDISTINCT, RECORDS_OF_NEW_HEADS = 0.9, 6
# A correlation or nDCG has fallen if it ends this far below its best; training hurts if it is below this share of the
# one before training, twice in a row.
FALL, RUINED = 0.01, 0.75
# Dissipation below this moves no weight, in any precision.
VANISHED = 1e-8
# A softmax temperature at which the loss is a comparison with the hardest negative alone.
COLD = 0.005
# Cosines of positives and negatives that differ by less are hardly told apart, by more are told apart clearly.
NARROW, WIDE = 0.05, 0.3
# Copies of sentences in a batch, as a share of it, that are worth a word.
MANY_COPIES = 0.02
# A loss this near to that of guessing has learned nothing; a loss or score of held-out data that is this much worse.
GUESSING, WORSE = 0.97, 1.1
# Records that it takes to see a trend, and what is none: a slope of 3 standard errors, or a first record that is 4
# standard deviations away from the others.
TREND, NO_TREND = 12, 3.0
# A run is silent after so many times the usual pause between records, and at least so many seconds.
SILENT, SILENT_SECONDS = 20, 300.0
# Share of sentences that learn: fewer than this is worth a remark, more than this is all of them.
FEW_LEARN, ALL_LEARN = 0.1, 0.995
# Share of the weight, or of the steps, that is nearly all of it.
NEARLY_ALL = 0.9
