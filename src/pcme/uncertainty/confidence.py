"""Confidence: what a model's numbers mean, fitted on data it was not trained on, kept beside it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike
from pydantic import ConfigDict, TypeAdapter, ValidationError
from scipy.special import expit

from pcme.core import files
from pcme.errors import ConfigError, DataError, FormatError, PcmeError
from pcme.model.calibration import calibrations
from pcme.uncertainty.curve import Curve, log_odds
from pcme.uncertainty.presence import Presence
from pcme.uncertainty.quantiles import Quantiles, require_rising, share_below
from pcme.uncertainty.refusal import Cut, Refusal

__all__ = ["FILE", "Basis", "Confidence", "Side", "fingerprint"]

FILE = "confidence.json"
WEIGHTS = ("weights.safetensors", "model.safetensors")
"""What a model's weights are called: in a run's folder, and as the hub has them."""

Side = Literal["captions", "images"]


@dataclass(frozen=True)
class Basis:
    """What a confidence was fitted on."""

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
    """What the numbers of one model mean: match probability, width, and when to say "nothing here".

    `pcme calibrate` fits it. Its assumption: what is searched is like what it was fitted on, but
    for the number of items.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    model: str
    """The SHA-256 of the model's weights: it speaks of no other."""
    basis: Basis
    curve: Curve
    presence: Presence
    by_p: Refusal
    by_sigma: Refusal | None
    """Sureness is −σ (its geometric mean); None for a model without one."""
    captions: Quantiles | None
    images: Quantiles | None
    """Quantiles of the uncertainty of the items it was fitted on; None for a model without one."""
    format_version: Literal[1] = 1

    def __post_init__(self) -> None:
        for side in ("captions", "images"):
            if (kept := getattr(self, side)) is not None:
                require_rising(kept, side)

    def probability(self, log_p: ArrayLike) -> Float64[np.ndarray, "*n"]:
        """The calibrated match probability of pairs whose score is this: it keeps their order."""
        p: Float64[np.ndarray, "*n"] = expit(self.curve(log_odds(log_p)))
        return p

    def log_probability(self, log_p: ArrayLike) -> Float64[np.ndarray, "*n"]:
        """The log of it, which does not underflow."""
        log_q: Float64[np.ndarray, "*n"] = -np.logaddexp(0, -self.curve(log_odds(log_p)))
        return log_q

    def percentile(self, u: ArrayLike, side: Side = "captions") -> Float64[np.ndarray, "*n"]:
        """Where an uncertainty (the geometric mean of σ) stands among the data's, from 0 to 100."""
        if side not in ("captions", "images"):
            raise ConfigError(f'no side "{side}" - known are captions, images')
        kept: Quantiles | None = getattr(self, side)
        if kept is None:
            raise DataError("points have no sigma - use a method that has one, such as pcme")
        return 100 * share_below(kept, u)

    def answerable(
        self, best_p: float, *, gallery: int | None = None, false_alarm: float | None = None
    ) -> bool:
        """Whether the best hit is good enough to say that something here matches.

        `best_p` is calibrated; `gallery` is the number of items that were searched (by default as
        many as at calibration). Of queries that nothing matches, the share `false_alarm` passes (by
        default the one chosen at calibration).
        """
        return bool(best_p >= self.presence.threshold(gallery, false_alarm))

    def false_alarm(
        self, best_p: ArrayLike, *, gallery: int | None = None
    ) -> Float64[np.ndarray, "*n"]:
        """How often a query that nothing matches has a best hit this good among so many items."""
        return self.presence.alarm(best_p, gallery)

    def expected(self, p: ArrayLike) -> float:
        """The expected number of matches among items with these calibrated probabilities: Σ p."""
        return float(np.sum(p, dtype=np.float64))

    def threshold(
        self,
        *,
        min_coverage: float | None = None,
        max_risk: float | None = None,
        by: Literal["p", "sigma"] = "p",
    ) -> Cut:
        """From which best p on (or up to which σ) to answer, for a coverage or for a risk.

        As measured on a gallery of the calibration's size, over queries that have a match.
        """
        if (min_coverage is None) == (max_risk is None):
            raise ConfigError("give either min_coverage or max_risk - one of them decides the cut")
        curve = self.by_p if by == "p" else self.by_sigma
        if curve is None:
            raise DataError("points have no sigma - refuse by p")
        if min_coverage is not None:
            cut = curve.covering(min_coverage)
        else:
            assert max_risk is not None
            cut = curve.risking(max_risk)
        value = float(expit(cut.value)) if by == "p" else -cut.value
        return Cut(value, cut.coverage, cut.risk)

    def save(self, folder: str | Path) -> Path:
        """Write `confidence.json` in a folder, whole or not at all."""
        path = Path(folder) / FILE
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_text(path, _ADAPTER.dump_json(self, indent=1).decode() + "\n")
        except OSError as error:
            raise FormatError(f"{path} cannot be written - {error} - check the folder") from error
        return path

    @classmethod
    def load(cls, folder: str | Path, *, kept: str | Path | None = None) -> "Confidence | None":
        """That of the model in a folder, from `kept` if it was written elsewhere; None without one.

        A FormatError when the file is damaged, or was fitted for other weights.
        """
        path = Path(kept or folder) / FILE
        if not path.is_file():
            return None
        try:
            found = _ADAPTER.validate_json(path.read_bytes(), strict=True)
        except (OSError, ValidationError, PcmeError) as error:
            raise FormatError(
                f"{path} is damaged - {_first_line(error)} - write it again with `pcme calibrate`"
            ) from error
        if found.model != fingerprint(folder):
            raise FormatError(
                f"{path} was fitted for other weights than those in {folder} - calibrate this "
                "model: `pcme calibrate`"
            )
        return found


def fingerprint(folder: str | Path) -> str:
    """The SHA-256 of the weights of the model in a folder."""
    for name in WEIGHTS:
        if (path := Path(folder) / name).is_file():
            with path.open("rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
    raise FormatError(f"{folder} is not a model - it has neither of {', '.join(WEIGHTS)}")


_ADAPTER = TypeAdapter(Confidence)


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"
    return str(error)
