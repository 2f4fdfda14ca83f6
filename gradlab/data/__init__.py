"""What does a training file say? Its rows by role, and their tokens, cached on disk.

`TrainingFile` reads any format that embedding models are trained from; `read_sentences` yields the
sentences of one.
"""

from gradlab.data.column_roles import Roles
from gradlab.data.sentences import read_sentences
from gradlab.data.table import check_file
from gradlab.data.tokens import hash_file
from gradlab.data.training_file import Example, TrainingFile

__all__ = ["Example", "Roles", "TrainingFile", "check_file", "hash_file", "read_sentences"]
