"""Captions to tokens, and word vectors."""
