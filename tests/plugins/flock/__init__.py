"""A plugin of pcme for its conformance test: six kinds, each defined in one file."""

from pcme_flock import analysis, caption_backbone, dataset, image_backbone, method, recipe, score  # noqa: F401 - importing a module registers its class
