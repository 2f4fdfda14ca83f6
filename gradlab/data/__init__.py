"""What does a training file say? Sentences read from files, and their tokens, cached on disk."""

from gradlab.data.sentences import check_file, read_sentences
from gradlab.data.tokens import hash_file

__all__ = ["check_file", "hash_file", "read_sentences"]
