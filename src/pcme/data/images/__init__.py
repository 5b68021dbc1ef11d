"""Decoding and transforming images."""
