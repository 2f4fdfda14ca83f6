"""What a loss sees of a batch: similarities, views, triples."""
