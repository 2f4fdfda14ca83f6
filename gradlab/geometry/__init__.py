"""What a loss sees of a batch.

`check` refuses bad input; `embeddings` are the rows and what is known of them, `candidates` the negatives of each anchor, `views` both with
their similarities (`similarity`); `triple` is one anchor with its positive and its negatives.
"""
