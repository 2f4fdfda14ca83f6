"""Limits between healthy, doubtful and failed runs.

Limits of failures are meant for runs that will not recover. For comparison, a healthy SimCSE run
begins with a mean cosine of .92 between sentences and nearly uniform shares of the hardest
negative. Both change within tens of steps. Its mean dissipation falls below .01 within a hundred
steps, as it should.
"""

# Number of records in a row that must show a failure.
PERSISTENT = 3
# Dissipation at which no anchor learns; part of the run, or number of records, that is early.
NOTHING, EARLY, EARLY_RECORDS = 1e-4, 0.1, 10
# Hard negatives are not told apart if the hardest one counts less than NEAR_UNIFORM times the
# average one. Above a mean cosine of TUNED (an untuned encoder), any temperature looks too high.
# With fewer than ENOUGH negatives the hardest one has a large share at any temperature.
NEAR_UNIFORM, TUNED, ENOUGH = 2.5, 0.8, 8
# Mean cosine below which different sentences are apart, while the two views of each are the same.
APART = 0.9
# Share of triples that satisfy Lemma 1; cosine of positives that cannot come closer.
MOST, COINCIDE = 0.5, 0.99
# Mean cosine of different sentences that form one point; records after which embeddings that began
# as one point must have spread; cosine of two views that are the same text without dropout.
ONE_POINT, PATIENCE, SAME = 0.98, 10, 1 - 1e-6
# Squared distance between a sentence's views, relative to that between different sentences. With
# dropout alone, a healthy run begins near .75 and falls. Failing runs oscillate, so records over
# the limit need not be consecutive. New heads, which may begin above it, get more records.
INDISTINCT, RECORDS_OF_NEW_HEADS = 0.9, 6
# A correlation or nDCG has fallen if it ends this far below its best. Training hurts if the score
# is below this share of the score before training, twice in a row.
FALL, RUINED = 0.01, 0.75
# Dissipation that moves no weight in any precision.
VANISHED = 1e-8
# Softmax temperature at which only the hardest negative counts.
COLD = 0.005
# Differences between the cosines of positives and negatives: hardly told apart, clearly told apart.
NARROW, WIDE = 0.05, 0.3
# Share of copied sentences in a batch that is worth a remark.
MANY_COPIES = 0.02
# Share of the loss of guessing at which nothing is learned; factor by which a loss gets worse.
GUESSING, WORSE = 0.97, 1.1
# Fewest records that show a trend, and the largest movement that is no trend: a slope of 3 standard
# errors, or a first record 4 standard deviations away from the others.
TREND, NO_TREND = 12, 3.0
# A run is silent after so many usual pauses between records, and at least so many seconds.
SILENT, SILENT_SECONDS = 20, 300.0
# Share of sentences that learn: below the first it is worth a remark, above the second all learn.
FEW_LEARN, ALL_LEARN = 0.1, 0.995
# Share that counts as nearly all, of the weight or of the steps.
NEARLY_ALL = 0.9
