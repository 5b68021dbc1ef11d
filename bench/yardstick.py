"""The yardsticks: literal transcriptions of the paper's equations, by broadcasting."""

import torch
from torch import Tensor


def literal_nll(x: Tensor, y: Tensor, matches: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Eq. (1)–(3) on samples [B, J, D]. All differences are held at once: B² J² D numbers."""
    difference = x[:, None, :, None, :] - y[None, :, None, :, :]
    distance = (difference.square().sum(-1) + 1e-12).sqrt()
    p = torch.sigmoid(-scale * distance + shift).mean((2, 3))
    return torch.where(matches, -p.log(), -(1 - p).log())


def literal_match_probability(x: Tensor, y: Tensor, scale: float, shift: float) -> Tensor:
    """Eq. (2)–(3) query by query, as the authors' evaluator loops."""
    rows = []
    for query in x:
        distance = (query[None, :, None] - y[:, None]).square().sum(-1).sqrt()
        rows.append(torch.sigmoid(-scale * distance + shift).mean((1, 2)))
    return torch.stack(rows)


def broadcast_elk(m1: Tensor, v1: Tensor, m2: Tensor, v2: Tensor, rows: int = 32) -> Tensor:
    """Eq. (B.4) by broadcasting, `rows` queries at a time."""
    parts = []
    for i in range(0, len(m1), rows):
        s = v1[i : i + rows, None] + v2
        parts.append(((m1[i : i + rows, None] - m2).square() / s + s.log()).sum(-1) / -2)
    return torch.cat(parts)
