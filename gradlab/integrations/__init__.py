"""Losses for sentence-transformers, and the mining of hard negatives."""
