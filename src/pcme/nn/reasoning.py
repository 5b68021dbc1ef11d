"""Reasoning over the regions of an image: a graph between them, then a GRU that reads them; VSRN's image side.

    V* = W_r (R V W_g) + V,   R_ij = φ(v_i) · θ(v_j) / N        a layer of the graph, on the N regions
    x  = L2(the last state of a GRU that reads the regions)

Regions are those of a detector [n, regions, d], or the sites of any image backbone.

Li et al. 2019 (VSRN, ICCV), §3.2 and §3.3.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from pcme.embedding import Points
from pcme.errors import ShapeError
from pcme.nn.attention import single_precision
from pcme.nn.captioner import RegionPoints
from pcme.nn.heads import HeadOptions, HeadSizes, Mask, Pooled, Sites, linear
from pcme.nn.recurrent import drawn


class RegionGraph(nn.Module):
    """One layer: every region gets what all regions say, weighted by how alike they are, added to itself.

    As in the authors' code there is a BatchNorm after W_r that starts at 0, so that a layer starts as the identity, and
    R is divided by N. Differs: the paper normalises the rows of R.
    """

    def __init__(self, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.phi, self.theta, self.message, self.back = (linear(dim, dim, generator) for _ in range(4))
        self.norm = nn.BatchNorm1d(dim)
        nn.init.zeros_(self.norm.weight)

    def forward(self, regions: Float[Tensor, "b r d"]) -> Float[Tensor, "b r d"]:
        """The regions of every image, changed by each other."""
        affinity = self.phi(regions) @ self.theta(regions).transpose(1, 2) / regions.shape[1]
        heard = self.back(affinity @ self.message(regions))
        change: Tensor = self.norm(heard.flatten(0, 1))
        return regions + change.view_as(regions)


class RegionHead(nn.Module):
    """A linear map of the regions, `reasoning` layers of the graph, and a GRU whose last state is the embedding.

    As in the authors' code for COCO, each feature is brought to length one over the regions of an image, before the
    graph and after it. Differs: the paper has no such norm; their code for Flickr30K has a BatchNorm at the end instead
    of the first.
    """

    def __init__(self, sizes: HeadSizes, options: HeadOptions, generator: torch.Generator) -> None:
        super().__init__()
        dim, self.captioned = options.dim, options.captioned
        self.fc = linear(sizes.local, dim, generator)
        self.layers = nn.ModuleList(RegionGraph(dim, generator) for _ in range(options.reasoning))
        self.gru = drawn(lambda: nn.GRU(dim, dim, batch_first=True), generator)

    def forward(self, local: Sites, pooled: Pooled, mask: Mask) -> Points:
        """One point per image; in training with its regions, if there is a captioner."""
        if local.shape[1] < 2:
            raise ShapeError(
                f"reasoning needs at least 2 regions per image, got {local.shape[1]}: features [n, d] are one vector "
                "each. Give features [n, regions, d], or use another method."
            )
        with single_precision(local):
            regions = F.normalize(self.fc(local), dim=1)
            for layer in self.layers:
                regions = layer(regions)
            regions = F.normalize(regions, dim=1)
            _, last = self.gru(regions)
            x = F.normalize(last[0], dim=-1)[:, None]
        return RegionPoints(x, regions) if self.captioned and self.training else Points(x)
