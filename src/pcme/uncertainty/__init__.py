"""Calibration, confidence and abstention (docs/science/calibration.md).

`pcme calibrate` fits a `Confidence` on held-out data and stores it beside the model.
"""

from pcme.uncertainty.confidence import Basis, Confidence, Side, fingerprint
from pcme.uncertainty.evaluation_set import EvaluationSet, halves, whole
from pcme.uncertainty.fitting import FALSE_ALARM, fit
from pcme.uncertainty.quality import CalibrationReport, assess
from pcme.uncertainty.risk_coverage import Threshold

__all__ = [
    "FALSE_ALARM", "Basis", "CalibrationReport", "Confidence", "EvaluationSet", "Side", "Threshold",
    "assess", "fingerprint", "fit", "halves", "whole",
]  # fmt: skip
