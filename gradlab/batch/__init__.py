"""A batch as a loss sees it.

`Batch` holds rows and their columns, `candidates` selects the negatives, `similarity` measures
them, and `check` refuses bad input. `triple` describes an anchor with its positive and negatives.
"""

from gradlab.arrays import unit_rows
from gradlab.batch.batch import Batch
from gradlab.batch.check import check_batch
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.batch.triple import Triple

__all__ = ["Batch", "Negatives", "PairSimilarity", "Triple", "check_batch", "unit_rows"]
