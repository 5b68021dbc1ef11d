"""What a model's numbers mean, and when it should say that it does not know (docs/CONFIDENCE.md).

`pcme calibrate` fits a `Confidence` on held-out data and keeps it beside the model.
"""

from pcme.confidence.refusal import Cut
from pcme.confidence.stored import Basis, Confidence, Side, fingerprint

__all__ = ["Basis", "Confidence", "Cut", "Side", "fingerprint"]
