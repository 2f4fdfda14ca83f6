"""A batch as a loss sees it.

`Batch` holds rows and says what each row is compared with; `candidates` says in which roles, `similarity` how similar,
`check` refuses bad input. `triple` is one anchor with its positive and its negatives.
"""

from gradlab.batch.batch import Batch, unit_rows
from gradlab.batch.check import check_batch
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.batch.triple import Triple

__all__ = ["Batch", "Negatives", "PairSimilarity", "Triple", "check_batch", "unit_rows"]
