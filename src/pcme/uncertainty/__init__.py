"""Calibration, confidence and refusal (docs/science/calibration.md).

`pcme calibrate` fits a `Confidence` on held-out data and keeps it beside the model.
"""

from pcme.uncertainty.confidence import Basis, Confidence, Side, fingerprint
from pcme.uncertainty.fitting import FALSE_ALARM, fit
from pcme.uncertainty.parts import Part, halves, whole
from pcme.uncertainty.quality import Report, judged
from pcme.uncertainty.refusal import Cut

__all__ = ["FALSE_ALARM", "Basis", "Confidence", "Cut", "Part", "Report", "Side", "fingerprint"]
__all__ += ["fit", "halves", "judged", "whole"]
