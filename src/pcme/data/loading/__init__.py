"""Batches, samplers, prefetching and cached features."""
