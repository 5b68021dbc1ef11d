"""PCME as in the authors' code, for their checkpoints: log σ starts at 0 and has no bounds."""

from dataclasses import asdict, dataclass
from typing import Literal

from pcme.methods.base import Method, registry
from pcme.methods.pcme import PCME, SoftContrastive
from pcme.nn.heads import HeadOptions


@registry.register("pcme-authors")
@dataclass(frozen=True)
class AuthorsPCME(Method):
    """PCME with the authors' σ head, which has no bounds; for imported checkpoints.

    The soft bounds are so far out that σ itself would overflow first. They are powers of two: a value that passes them
    loses no more than the rounding of a sum with 128.
    """

    likelihood: Literal["sampled", "analytic"] = "sampled"
    samples: int = 7
    scale: float = 10.0
    shift: float = 10.0

    def __post_init__(self) -> None:
        self.objective()  # refuses wrong values

    def heads(self, dim: int) -> HeadOptions:
        """The heads of Fig. 3."""
        return HeadOptions(dim, log_sigma=0.0, bounds=(-128.0, 128.0))

    def objective(self) -> SoftContrastive:
        """The loss, with the weights of the paper's CUB settings."""
        return SoftContrastive(PCME(**asdict(self)))
