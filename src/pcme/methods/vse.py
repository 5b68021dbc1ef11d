"""VSE0 and VSE++: one unit vector per item, and a margin between true and false cosines.

    loss = Σ_i Σ_n [margin + cos(i, n) − cos(i, p)]₊ / B, for images i and for captions i

over all false n (VSE0) or the worst alone (VSE++); an i with several true p has their mean.

Faghri et al. 2018 (VSE++, BMVC), sum and max of hinges; the baselines of the paper's §4.2 and §4.3.
"""

from dataclasses import dataclass

from pcme.methods.base import PointMethod, registry
from pcme.methods.triplets import Negatives, TripletMethod


@registry.register("vse0")
@dataclass(frozen=True)
class VSE0(TripletMethod, PointMethod):
    """VSE0: cosines, and a margin of 0.2 over all negatives of the batch.

    Differs: the authors sum over the batch, here it is the mean over items (weights and clipping then do not depend on
    its size); all true matches count, and `positives="diagonal"` is theirs. The head is that of all methods here;
    `mean_attention=False, mean_norm=False` is theirs: L2(linear(GAP)) for images, L2 of the GRU's vector for captions.
    Their code brings the pooled features to length one first. Their settings (Adam 2e-4, a tenth from epoch 15 of 30,
    128 pairs) are a recipe's business.
    """


@registry.register("vse++")
@dataclass(frozen=True)
class HardestNegatives(TripletMethod, PointMethod):
    """VSE++: cosines, and a margin of 0.2 over the hardest negative of the batch.

    Differs: as `vse0`, and by a warm start. The authors have none (`warm_start=0`) and train for 30 epochs from a
    learning rate of 2e-4; at the rates of short runs it is needed (`Triplets`).
    """

    negatives: Negatives = "hardest"
    warm_start: float = 0.5
