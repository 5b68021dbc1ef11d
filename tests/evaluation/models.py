"""Runs without training: a model with random weights in a folder, in no time."""

from tests.models import build

SMALL = ["data.test_species=4", "data.test_images=3", "data.val_species=3", "data.val_images=2"]


def untrained(folder, *changes, seed=0):
    """The folder of a run on Aviary whose model has learned nothing."""
    build("aviary-tiny", *SMALL, f"seed={seed}", *changes, seed=seed).save(folder)
    return folder
