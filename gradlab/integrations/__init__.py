"""Losses for sentence-transformers, and mining of hard negatives."""
