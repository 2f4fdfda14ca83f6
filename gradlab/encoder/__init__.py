"""Sentence encoders and their files."""
