"""Losses for sentence-transformers, faster training with it, and mining of hard negatives."""
