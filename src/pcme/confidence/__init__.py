"""What a model's numbers mean, and when it should say that it does not know (docs/CONFIDENCE.md).

`pcme calibrate` fits a `Confidence` on held-out data and keeps it beside the model.
"""

from pcme.confidence.fitting import FALSE_ALARM, fit
from pcme.confidence.parts import Part, halves, whole
from pcme.confidence.refusal import Cut
from pcme.confidence.report import Report, judged
from pcme.confidence.stored import Basis, Confidence, Side, fingerprint

__all__ = ["FALSE_ALARM", "Basis", "Confidence", "Cut", "Part", "Report", "Side", "fingerprint"]
__all__ += ["fit", "halves", "judged", "whole"]
