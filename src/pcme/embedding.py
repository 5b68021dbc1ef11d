"""What every image and every caption becomes: a `Gaussian`, or a handful of `Points`.

`log_sigma` is the natural logarithm of the *standard deviation*, in memory and on disk, everywhere. Paper: Eq. (4)
writes σ as the covariance; its heads predict log σ (docs/science/errata.md, 2).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pcme.core import files
from pcme.errors import ConfigError, DataError, FormatError, ShapeError

FORMAT_VERSION = "1"
CHUNK = 4096
"""Items that are converted to float64 at a time."""

T = TypeVar("T", bound="_Items")


class _Items(ABC):
    """N items in R^D, held in tensors whose first axis is the items."""

    KIND: ClassVar[str]
    """The name of its kind in a file."""
    STORED: ClassVar[tuple[str, ...]]
    """The tensors that are checked and saved."""

    @abstractmethod
    def points(self) -> Float[Tensor, "n k d"]:
        """The items as K points each; a Gaussian is its mean."""

    @property
    def dim(self) -> int:
        """D, the dimension of the embedding space."""
        return self._first.shape[-1]

    @property
    def dtype(self) -> torch.dtype:
        """The precision."""
        return self._first.dtype

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self._first.device

    def require_finite(self, name: str) -> None:
        """Raise a `DataError` naming the first bad item if any value is NaN or infinite."""
        for part in self.STORED:
            _require_finite(getattr(self, part), f"{name}.{part}")

    def to(self: T, *args: Any, **kwargs: Any) -> T:  # noqa: ANN401 - torch's own signature
        """Apply `torch.Tensor.to` to every tensor."""
        return self._map(lambda part: part.to(*args, **kwargs))

    def detach(self: T) -> T:
        """The same values without history."""
        return self._map(torch.Tensor.detach)

    def __len__(self) -> int:
        """N, the number of items."""
        return self._first.shape[0]

    def __getitem__(self: T, rows: "Rows") -> T:
        """Some of the items; an int keeps the leading axis."""
        index = _rows(rows)
        return self._map(lambda part: part[index])

    def save(self, path: str | Path) -> None:
        """Write a safetensors file atomically (no pickle)."""
        parts = {name: getattr(self, name).detach().contiguous().cpu() for name in self.STORED}
        if len({part.data_ptr() for part in parts.values()}) < len(parts):  # safetensors: no shared memory
            parts = {name: part.clone() for name, part in parts.items()}
        try:
            with files.replacing(Path(path)) as draft:
                save_file(parts, draft, metadata={"format": "pcme", **self._metadata()})
        except (OSError, SafetensorError) as error:
            raise FormatError(
                f"{path}: cannot be written ({error}). Check that its folder exists and has room."
            ) from error

    @classmethod
    def load(cls: type[T], path: str | Path) -> T:
        """Read what `save` wrote, bit for bit."""
        try:
            with safe_open(path, framework="pt") as file:
                metadata, names = file.metadata() or {}, sorted(file.keys())
                if not cls._metadata().items() <= metadata.items() or not set(cls.STORED) <= set(names):
                    raise FormatError(
                        f"{path}: not a saved {cls.KIND} in format {FORMAT_VERSION}, got {names} with metadata "
                        f"{metadata}. Write it with .save(path)."
                    )
                return cls(**{name: file.get_tensor(name) for name in cls.STORED})
        except (OSError, SafetensorError) as error:
            raise FormatError(
                f"{path}: not readable as safetensors ({error}). Check the path, or save it again."
            ) from error

    @classmethod
    def _metadata(cls) -> dict[str, str]:
        return {"kind": cls.KIND, "format_version": FORMAT_VERSION}

    @property
    def _first(self) -> Float[Tensor, "n ..."]:
        first: Float[Tensor, "n ..."] = getattr(self, self.STORED[0])
        return first

    def _map(self: T, change: Callable[[Tensor], Tensor]) -> T:
        return type(self)(*map(change, vars(self).values()))


@dataclass(frozen=True, eq=False)
class Gaussian(_Items):
    """N diagonal normal distributions in R^D. Paper: Eq. (4).

    >>> g = Gaussian(torch.zeros(2, 3), torch.full((2, 1), -1.0))  # [N, 1]: isotropic
    >>> len(g), g.dim, g.uncertainty().tolist() == [torch.tensor(-1.0).exp().item()] * 2
    (2, 3, True)
    """

    mean: Float[Tensor, "n d"]
    log_sigma: Float[Tensor, "n d"] | Float[Tensor, "n 1"]
    KIND: ClassVar[str] = "gaussian"
    STORED: ClassVar[tuple[str, ...]] = ("mean", "log_sigma")

    def __post_init__(self) -> None:
        """Check shapes and dtypes; values are checked where they are used (`require_finite`)."""
        mean, log_sigma = _tensor(self.mean, "mean"), _tensor(self.log_sigma, "log_sigma")
        if mean.ndim != 2 or mean.shape[1] == 0:
            raise ShapeError(
                f"Gaussian.mean must be [N, D] with D ≥ 1, got {list(mean.shape)}. "
                "Add a leading axis for a single item: mean[None]."
            )
        if log_sigma.shape not in (mean.shape, (mean.shape[0], 1)):
            raise ShapeError(
                f"Gaussian.log_sigma must be {list(mean.shape)} or {[mean.shape[0], 1]} "
                f"(isotropic) to fit mean {list(mean.shape)}, got {list(log_sigma.shape)}."
            )
        if mean.dtype != log_sigma.dtype or mean.device != log_sigma.device:
            raise ShapeError(
                f"Gaussian.mean and log_sigma must share dtype and device, got {mean.dtype} on {mean.device} and "
                f"{log_sigma.dtype} on {log_sigma.device}."
            )

    @property
    def sigma(self) -> Float[Tensor, "n d"]:
        """The standard deviations, expanded to [N, D]."""
        return self.log_sigma.exp().expand_as(self.mean)

    @property
    def variance(self) -> Float[Tensor, "n d"]:
        """σ², expanded to [N, D]."""
        return (2 * self.log_sigma).exp().expand_as(self.mean)

    def points(self) -> Float[Tensor, "n 1 d"]:
        """The means."""
        return self.mean[:, None]

    def sample(self, n: int, generator: torch.Generator | None = None) -> "Points":
        """n independent draws μ + σ ε per item, reparametrised. Paper: §3.1.2."""
        if n < 1:
            raise ConfigError(f"samples per item must be ≥ 1, got {n}.")
        device = self.device if generator is None else generator.device
        noise = torch.randn((len(self), n, self.dim), generator=generator, dtype=self.dtype, device=device)
        return Points(torch.addcmul(self.mean[:, None], noise.to(self.device), self.log_sigma.exp()[:, None]))

    def uncertainty(self) -> Float[Tensor, " n"]:
        """The geometric mean of σ, one number per item. Paper: §3.2.1."""
        return self.mean_log_sigma().exp()

    def mean_log_sigma(self) -> Float[Tensor, " n"]:
        """The mean of log σ over the dimensions: the log of the uncertainty."""
        return self.log_sigma.mean(-1)

    def log_volume(self) -> Float[Tensor, " n"]:
        """Σ log σ over the dimensions, in float64 without a float64 copy of all items."""
        out = torch.empty(len(self), dtype=torch.float64, device=self.device)
        for i in range(0, len(self), CHUNK):
            out[i : i + CHUNK] = self.log_sigma[i : i + CHUNK].detach().double().sum(-1)
        return out.mul_(self.dim / self.log_sigma.shape[1])

    @staticmethod
    def cat(parts: "Sequence[Gaussian]") -> "Gaussian":
        """All items of all parts, in order; isotropic parts are expanded if others are not."""
        _require_parts(parts, "Gaussian.cat")
        wide = max(part.log_sigma.shape[1] for part in parts)
        log_sigmas = [part.log_sigma.expand(-1, wide) for part in parts]
        return Gaussian(torch.cat([part.mean for part in parts]), torch.cat(log_sigmas))


@dataclass(frozen=True, eq=False)
class Points(_Items):
    """N items as K points each: K = 1 a vector, K = J samples of a `Gaussian`.

    >>> len(Points(torch.zeros(4, 7, 2)))
    4
    """

    x: Float[Tensor, "n k d"]
    KIND: ClassVar[str] = "points"
    STORED: ClassVar[tuple[str, ...]] = ("x",)

    def __post_init__(self) -> None:
        """Check the shape."""
        x = _tensor(self.x, "x")
        if x.ndim != 3 or 0 in x.shape[1:]:
            raise ShapeError(
                f"Points.x must be [N, K, D] with K, D ≥ 1, got {list(x.shape)}. "
                "Use x[:, None] for one vector per item."
            )

    def points(self) -> Float[Tensor, "n k d"]:
        """The points."""
        return self.x

    def uncertainty(self) -> None:
        """None: a point has no σ."""

    @staticmethod
    def cat(parts: "Sequence[Points]") -> "Points":
        """All items of all parts, in order."""
        _require_parts(parts, "Points.cat")
        return Points(torch.cat([part.x for part in parts]))


Embedding = Gaussian | Points
Rows = int | slice | Sequence[int] | Int[Tensor, " m"] | Bool[Tensor, " n"] | Int[Tensor, ""]


def joined(parts: Sequence[Embedding]) -> Embedding:
    """The items of all parts, which are all Gaussians or all Points, as one."""
    if all(isinstance(part, Gaussian) for part in parts):
        return Gaussian.cat([part for part in parts if isinstance(part, Gaussian)])
    return Points.cat([part for part in parts if isinstance(part, Points)])


def _tensor(value: object, name: str) -> Float[Tensor, "..."]:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise ShapeError(
            f"{name} must be a floating-point torch.Tensor, got {kind}. Convert it with torch.as_tensor(..., "
            "dtype=torch.float32)."
        )
    return value


def _rows(rows: Rows) -> Any:  # noqa: ANN401 - whatever torch indexes with
    if isinstance(rows, Tensor):
        return rows.reshape(1) if rows.ndim == 0 else rows
    return rows if isinstance(rows, slice) else [rows] if isinstance(rows, int) else list(rows)


def _require_finite(x: Float[Tensor, "n ..."], name: str) -> None:
    if bool(torch.isfinite(x.detach().sum())):  # one pass; a finite sum has finite terms
        return
    bad = (~torch.isfinite(x.detach())).flatten(1).any(1).nonzero()[:, 0]
    if not len(bad):  # finite terms whose sum overflows
        return
    raise DataError(
        f"{name}: NaN or infinite values in {len(bad)} of {x.shape[0]} items, first item {int(bad[0])}. Find what "
        "produced them, or drop these items."
    )


def _require_parts(parts: Sequence[Embedding], where: str) -> None:
    if not parts:
        raise ShapeError(f"{where}: at least one part is needed, got none.")
    if len({part.dim for part in parts}) > 1:
        dims = [part.dim for part in parts]
        raise ShapeError(f"{where}: the parts must have one dimension, got {dims}.")
