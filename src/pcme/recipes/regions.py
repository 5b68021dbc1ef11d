"""Recipes for regions of a detector."""

from pcme.recipes.catalogue import variant
from pcme.recipes.own import OWN
from pcme.recipes.schema import Augment, Phase, Words, part

REGIONS = variant(
    OWN,
    "regions",
    data=part("precomputed"),
    image=part("precomputed", features=2048),
    method=part("vsrn"),
    dim=2048,
    words=Words(dim=300, min_count=4),
    augment=Augment(word_drop=0.0),
    phases=(Phase(epochs=30, learning_rate=2e-4),),
)
"""VSRN (Li et al. 2019) on regions that a detector has found, with captions as words: `pcme train regions --data-root
my/regions --out runs/vsrn`, and with offline quintuplets `--set method.kind=vsrn-aoq`. The folder has `train/` and
`val/` with `images.npy` [n, 36, 2048], `captions.txt` and `owners.npy`, see docs/guide/data.md. D, the size of word
vectors, batch and learning rate are the authors', who took the regions of Anderson et al. (2018).
Differs: the rate falls as a cosine, not to a tenth at epoch 15. On sites instead of regions, any recipe with a frozen
backbone does: `pcme train cub-effnet --set method.kind=vsrn`.
"""
