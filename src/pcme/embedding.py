"""What every image and every caption becomes: a `Gaussian`, or a handful of `Points`.

`log_sigma` is the natural logarithm of the *standard deviation*, in memory and on disk, everywhere.
Paper: Eq. (4) writes σ as the covariance; its heads predict log σ (docs/science/errata.md, 2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pcme.core import files
from pcme.errors import ConfigError, DataError, FormatError, ShapeError

FORMAT_VERSION = "1"


@dataclass(frozen=True, eq=False)
class Gaussian:
    """N diagonal normal distributions in R^D. Paper: Eq. (4).

    >>> g = Gaussian(torch.zeros(2, 3), torch.full((2, 1), -1.0))  # [N, 1]: isotropic
    >>> len(g), g.dim, g.uncertainty().tolist() == [torch.tensor(-1.0).exp().item()] * 2
    (2, 3, True)
    """

    mean: Float[Tensor, "n d"]
    log_sigma: Float[Tensor, "n d"] | Float[Tensor, "n 1"]

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
                "Gaussian.mean and log_sigma must share dtype and device, got "
                f"{mean.dtype} on {mean.device} and {log_sigma.dtype} on {log_sigma.device}."
            )

    @property
    def dim(self) -> int:
        """D, the dimension of the embedding space."""
        return self.mean.shape[1]

    @property
    def sigma(self) -> Float[Tensor, "n d"]:
        """The standard deviations, expanded to [N, D]."""
        return self.log_sigma.exp().expand_as(self.mean)

    @property
    def variance(self) -> Float[Tensor, "n d"]:
        """σ², expanded to [N, D]."""
        return (2 * self.log_sigma).exp().expand_as(self.mean)

    def sample(self, n: int, generator: torch.Generator | None = None) -> "Points":
        """n independent draws μ + σ ε for each item, reparametrised. Paper: §3.1.2."""
        if n < 1:
            raise ConfigError(f"at least one sample an item is needed, got {n}.")
        noise = torch.randn(
            (len(self), n, self.dim),
            generator=generator,
            dtype=self.mean.dtype,
            device=self.mean.device if generator is None else generator.device,
        ).to(self.mean.device)
        return Points(torch.addcmul(self.mean[:, None], noise, self.log_sigma.exp()[:, None]))

    def uncertainty(self) -> Float[Tensor, " n"]:
        """The geometric mean of σ = exp(mean log σ), one number an item. Paper: §3.2.1."""
        return self.log_sigma.mean(-1).exp()

    def require_finite(self, name: str) -> None:
        """Raise a `DataError` naming the first bad item if any value is NaN or infinite."""
        _require_finite(self.mean, f"{name}.mean")
        _require_finite(self.log_sigma, f"{name}.log_sigma")

    def to(self, *args: Any, **kwargs: Any) -> "Gaussian":  # noqa: ANN401 - torch's own signature
        """`torch.Tensor.to` on both parts."""
        return Gaussian(self.mean.to(*args, **kwargs), self.log_sigma.to(*args, **kwargs))

    def detach(self) -> "Gaussian":
        """The same values without history."""
        return Gaussian(self.mean.detach(), self.log_sigma.detach())

    def __len__(self) -> int:
        """N, the number of items."""
        return self.mean.shape[0]

    def __getitem__(self, rows: "Rows") -> "Gaussian":
        """Some of the items; an int keeps the leading axis."""
        rows = _rows(rows)
        return Gaussian(self.mean[rows], self.log_sigma[rows])

    @staticmethod
    def cat(parts: "Sequence[Gaussian]") -> "Gaussian":
        """All items of all parts, in order; isotropic parts are expanded if others are not."""
        _require_parts(parts, "Gaussian.cat")
        wide = max(part.log_sigma.shape[1] for part in parts)
        log_sigmas = [part.log_sigma.expand(-1, wide) for part in parts]
        return Gaussian(torch.cat([part.mean for part in parts]), torch.cat(log_sigmas))

    def save(self, path: str | Path) -> None:
        """Write a safetensors file atomically (no pickle)."""
        _save({"mean": self.mean, "log_sigma": self.log_sigma}, "gaussian", Path(path))

    @staticmethod
    def load(path: str | Path) -> "Gaussian":
        """Read what `save` wrote, bit for bit."""
        tensors = _load(Path(path), "gaussian", ("mean", "log_sigma"))
        return Gaussian(tensors["mean"], tensors["log_sigma"])


@dataclass(frozen=True, eq=False)
class Points:
    """N items as K points each: K = 1 a vector, K = J samples of a `Gaussian`.

    >>> len(Points(torch.zeros(4, 7, 2)))
    4
    """

    x: Float[Tensor, "n k d"]

    def __post_init__(self) -> None:
        """Check the shape."""
        x = _tensor(self.x, "x")
        if x.ndim != 3 or 0 in x.shape[1:]:
            raise ShapeError(
                f"Points.x must be [N, K, D] with K, D ≥ 1, got {list(x.shape)}. "
                "Use x[:, None] for one vector an item."
            )

    @property
    def dim(self) -> int:
        """D, the dimension of the embedding space."""
        return self.x.shape[2]

    def require_finite(self, name: str) -> None:
        """Raise a `DataError` naming the first bad item if any value is NaN or infinite."""
        _require_finite(self.x, f"{name}.x")

    def to(self, *args: Any, **kwargs: Any) -> "Points":  # noqa: ANN401 - torch's own signature
        """`torch.Tensor.to`."""
        return Points(self.x.to(*args, **kwargs))

    def detach(self) -> "Points":
        """The same values without history."""
        return Points(self.x.detach())

    def __len__(self) -> int:
        """N, the number of items."""
        return self.x.shape[0]

    def __getitem__(self, rows: "Rows") -> "Points":
        """Some of the items; an int keeps the leading axis."""
        return Points(self.x[_rows(rows)])

    @staticmethod
    def cat(parts: "Sequence[Points]") -> "Points":
        """All items of all parts, in order."""
        _require_parts(parts, "Points.cat")
        return Points(torch.cat([part.x for part in parts]))

    def save(self, path: str | Path) -> None:
        """Write a safetensors file atomically (no pickle)."""
        _save({"x": self.x}, "points", Path(path))

    @staticmethod
    def load(path: str | Path) -> "Points":
        """Read what `save` wrote, bit for bit."""
        return Points(_load(Path(path), "points", ("x",))["x"])


Embedding = Gaussian | Points
Rows = int | slice | Sequence[int] | Tensor


def joined(parts: "Sequence[Embedding]") -> "Embedding":
    """The items of all parts, which are all Gaussians or all Points, as one."""
    if all(isinstance(part, Gaussian) for part in parts):
        return Gaussian.cat([part for part in parts if isinstance(part, Gaussian)])
    return Points.cat([part for part in parts if isinstance(part, Points)])


def _tensor(value: object, name: str) -> Tensor:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise ShapeError(
            f"{name} must be a floating-point torch.Tensor, got {kind}. "
            "Convert it with torch.as_tensor(..., dtype=torch.float32)."
        )
    return value


def _rows(rows: Rows) -> Any:  # noqa: ANN401 - whatever torch indexes with
    if isinstance(rows, Tensor):
        return rows.reshape(1) if rows.ndim == 0 else rows
    return rows if isinstance(rows, slice) else [rows] if isinstance(rows, int) else list(rows)


def _require_finite(x: Tensor, name: str) -> None:
    if bool(torch.isfinite(x.detach().sum())):  # one pass; a finite sum has finite terms
        return
    bad = (~torch.isfinite(x.detach())).flatten(1).any(1).nonzero()[:, 0]
    if not len(bad):  # finite terms whose sum overflows
        return
    raise DataError(
        f"{name} holds NaN or infinite values in {len(bad)} of {x.shape[0]} items, first item "
        f"{int(bad[0])}. Find what produced them, or drop those items first."
    )


def _require_parts(parts: Sequence[Embedding], where: str) -> None:
    if not parts:
        raise ShapeError(f"{where} needs at least one part, got none.")
    if len({part.dim for part in parts}) > 1:
        dims = [part.dim for part in parts]
        raise ShapeError(f"{where}: the parts have different dimensions {dims}; they must agree.")


def _save(tensors: dict[str, Tensor], kind: str, path: Path) -> None:
    metadata = {"format": "pcme", "kind": kind, "format_version": FORMAT_VERSION}
    whole = {name: t.detach().contiguous().cpu() for name, t in tensors.items()}
    if len({t.data_ptr() for t in whole.values()}) < len(
        whole
    ):  # safetensors refuses shared memory
        whole = {name: t.clone() for name, t in whole.items()}
    try:
        with files.replacing(path) as draft:
            save_file(whole, draft, metadata=metadata)
    except (OSError, SafetensorError) as error:
        raise FormatError(
            f"{path} cannot be written ({error}). Check that its folder exists and has room."
        ) from error


def _load(path: Path, kind: str, names: tuple[str, ...]) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            known = metadata.get("format_version") == FORMAT_VERSION
            if not known or metadata.get("kind") != kind or not set(names) <= set(file.keys()):
                raise FormatError(
                    f"{path} is not a saved {kind}: it holds {sorted(file.keys())} with metadata "
                    f"{metadata}, expected {list(names)} in format {FORMAT_VERSION}. "
                    "Write it with .save(path)."
                )
            return {name: file.get_tensor(name) for name in names}
    except (OSError, SafetensorError) as error:
        raise FormatError(
            f"{path} cannot be read as safetensors ({error}). Check the path, or save it again."
        ) from error
