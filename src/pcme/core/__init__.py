"""Shared ground: registry, files, random streams, progress."""
