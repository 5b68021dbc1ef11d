"""A plugin of pcme for its conformance test: six kinds, each defined in one file."""

from pcme_flock import (  # noqa: F401 - importing a module registers its class
    analysis,
    caption_backbone,
    dataset,
    image_backbone,
    method,
    recipe,
    score,
)
