"""Confidence: what a model's scores mean, fitted on held-out data and stored beside the model."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike
from pydantic import ConfigDict, TypeAdapter, ValidationError
from scipy.special import expit

from pcme.core import files
from pcme.core.checks import require_known
from pcme.errors import ConfigError, DataError, FormatError, PcmeError
from pcme.model.calibration import calibrations
from pcme.uncertainty.curve import Curve, log_odds
from pcme.uncertainty.no_match import NoMatchRule
from pcme.uncertainty.quantiles import Quantiles, require_rising, share_below
from pcme.uncertainty.risk_coverage import RiskCoverage, Threshold

FILE = "confidence.json"
WEIGHTS = ("weights.safetensors", "model.safetensors")
"""The file of a model's weights: in a run's folder, and in the hub's layout."""

Side = Literal["captions", "images"]


@dataclass(frozen=True)
class Basis:
    """The data a confidence was fitted on."""

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    data: str
    """The dataset and its split, as in "aviary/val"."""
    method: str
    captions: int
    images: int
    matching: float
    """The share of pairs that match."""


@calibrations.register("confidence")
@dataclass(frozen=True)
class Confidence:
    """Calibrated match probability, percentiles of σ, and the no-match rule of one model.

    `pcme calibrate` fits it. It assumes that galleries are like the data it was fitted on, but for the number of items.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    model: str
    """The SHA-256 of the model's weights; it holds for no other."""
    basis: Basis
    curve: Curve
    presence: NoMatchRule
    by_p: RiskCoverage
    by_sigma: RiskCoverage | None
    """Sureness is −σ (its geometric mean); None for a model without σ."""
    captions: Quantiles | None
    images: Quantiles | None
    """Quantiles of the uncertainty of the items it was fitted on; None for a model without σ."""
    format_version: Literal[1] = 1

    def __post_init__(self) -> None:
        for side in get_args(Side):
            if (stored := getattr(self, side)) is not None:
                require_rising(stored, side)

    def probability(self, log_p: ArrayLike) -> Float64[np.ndarray, "*n"]:
        """The calibrated match probability of pairs with these scores, in the same order."""
        return np.asarray(expit(self.curve(log_odds(log_p))))

    def log_probability(self, log_p: ArrayLike) -> Float64[np.ndarray, "*n"]:
        """The log of `probability`, which does not underflow."""
        return np.asarray(-np.logaddexp(0, -self.curve(log_odds(log_p))))

    def percentile(self, u: ArrayLike, side: Side = "captions") -> Float64[np.ndarray, "*n"]:
        """The percentage of the calibration items that are less uncertain (geometric mean of σ)."""
        require_known("side", side, get_args(Side))
        stored: Quantiles | None = getattr(self, side)
        if stored is None:
            raise DataError("points have no sigma. Use a method that has one, such as pcme.")
        return np.asarray(100 * share_below(stored, u))

    def answerable(self, best_p: float, *, gallery: int | None = None, false_alarm: float | None = None) -> bool:
        """Whether the best hit is good enough to say that something here matches.

        `best_p` is calibrated; `gallery` is the number of items searched (default: as at calibration). `false_alarm` is
        the share of queries without a match that pass (default: the one chosen at calibration).
        """
        return bool(best_p >= self.presence.threshold(gallery, false_alarm))

    def false_alarm(self, best_p: ArrayLike, *, gallery: int | None = None) -> Float64[np.ndarray, "*n"]:
        """How often a query without a match has a best hit this good among so many items."""
        return self.presence.alarm(best_p, gallery)

    def expected(self, p: ArrayLike) -> float:
        """The expected number of matches among items with these calibrated probabilities: Σ p."""
        return float(np.sum(p, dtype=np.float64))

    def threshold(
        self, *, min_coverage: float | None = None, max_risk: float | None = None, by: Literal["p", "sigma"] = "p"
    ) -> Threshold:
        """The least best p (or the largest σ) to answer at, for a coverage or for a risk.

        As measured on a gallery of the calibration's size, over queries with a match.
        """
        curve = self.by_p if by == "p" else self.by_sigma
        if curve is None:
            raise DataError('points have no sigma. Use by="p".')
        if min_coverage is not None and max_risk is None:
            at = curve.covering(min_coverage)
        elif max_risk is not None and min_coverage is None:
            at = curve.risking(max_risk)
        else:
            raise ConfigError("threshold: needs either min_coverage or max_risk. Give one of them.")
        return at._replace(value=float(expit(at.value)) if by == "p" else -at.value)

    def save(self, folder: str | Path) -> Path:
        """Write `confidence.json` in a folder, atomically."""
        path = Path(folder) / FILE
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_text(path, _ADAPTER.dump_json(self, indent=1).decode() + "\n")
        except OSError as error:
            raise FormatError(f"{path}: cannot be written, {error}. Check the folder.") from error
        return path

    @classmethod
    def load(cls, folder: str | Path, *, stored: str | Path | None = None) -> "Confidence | None":
        """Load that of the model in a folder, or from the folder `stored`; None if there is none.

        A damaged file, or one fitted for other weights, is a FormatError.
        """
        path = Path(stored or folder) / FILE
        if not path.is_file():
            return None
        try:
            loaded = _ADAPTER.validate_json(path.read_bytes(), strict=True)
        except (OSError, ValidationError, PcmeError) as error:
            raise FormatError(f"{path}: damaged, {_reason(error)}. Write it again with `pcme calibrate`.") from error
        if loaded.model != fingerprint(folder):
            raise FormatError(f"{path}: fitted for other weights than those in {folder}. Run `pcme calibrate` again.")
        return loaded


def fingerprint(folder: str | Path) -> str:
    """The SHA-256 of the weights of the model in a folder."""
    for name in WEIGHTS:
        if (path := Path(folder) / name).is_file():
            with path.open("rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
    raise FormatError(f"{folder}: not a model folder, it has neither of {', '.join(WEIGHTS)}.")


_ADAPTER = TypeAdapter(Confidence)


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"
    return str(error)
