import pytest

from pcme.errors import ConfigError
from pcme.nn import captions, images
from tests.helpers import unless_annotations_are_enforced


@unless_annotations_are_enforced
@pytest.mark.parametrize(
    ("side", "kind", "params", "message"),
    [
        (images, "convnet", {"widths": ()}, "widths"),
        (images, "convnet", {"widths": (32, 0)}, "widths"),
        (images, "efficientnet-lite", {"variant": 3}, "variant"),
        (images, "resnet", {"depth": 20}, "depth"),
        (images, "hub", {"source": "x", "sites": "some"}, "sites: must be one of"),
        (images, "hub", {"source": "x", "sources": "x"}, "is not a field"),
        (captions, "hub", {"source": "x", "pool": "max"}, "pool: must be one of"),
        (captions, "gru", {"readout": "first"}, "readout"),
        *((captions, "gru", {"hidden": hidden}, "hidden: must be even and at least 2") for hidden in (7, 0, -2)),
        *((side, "precomputed", {}, "needs features") for side in (images, captions)),
        *((side, "precomputed", {"features": 0}, "features: must be at least 1") for side in (images, captions)),
    ],
)
def test_parameters_that_make_no_sense_are_refused(side, kind, params, message):
    with pytest.raises(ConfigError, match=message):
        side.create(kind, **params)
