"""The exact match probability of two Gaussians, by numerical integrals: the oracle for the analytic rule.

Q = ‖z₁ − z₂‖² is a generalised chi-square, whose distribution function is Imhof's integral (1961).
sigmoid(b − a √Q) = P(T ≥ √Q) for T = (b + logistic)/a, so p = E_T[F_Q(T²)]: one more integral.
"""

import numpy as np

Array = np.ndarray


def match_probability(delta: Array, spread: Array, scale: float, shift: float) -> float:
    """E[sigmoid(shift − scale √Q)] for Δ and s = σ₁² + σ₂², to about 1e-8 (tests check it)."""
    x, weight = _panels(np.linspace(-30.0, 30.0, 13), nodes=48 if len(spread) >= 16 else 24)
    t = (shift + x) / scale
    density = 1 / (2 + np.exp(x) + np.exp(-x))
    keep = t > 0
    below = chi_square_cdf(delta, spread, t[keep] ** 2)
    return float((weight * density)[keep] @ below)


def chi_square_cdf(delta: Array, spread: Array, q: Array) -> Array:
    """P(Q ≤ q) = ½ − (1/π) ∫ sin θ(u) / (u ρ(u)) du, with θ, ρ from the characteristic function."""
    u, weight = _panels(_frequency_edges(delta, spread, float(q.max())), nodes=64)
    phase, log_size = np.zeros_like(u), np.zeros_like(u)
    for d, s in zip(delta, spread, strict=True):
        su, shifted = s * u, d * d / s
        phase += (np.arctan(su) + shifted * su / (1 + su * su)) / 2
        log_size += _log_size(u, d, s)
    keep = log_size < 45
    u, phase = u[keep], phase[keep]
    amplitude = weight[keep] / u * np.exp(-log_size[keep])
    return np.array([0.5 - (amplitude @ np.sin(phase - x * u / 2)) / np.pi for x in q])


def _frequency_edges(delta: Array, spread: Array, largest: float) -> Array:
    """Edges of panels that widen with u, each with at most a few oscillations at the largest q."""
    deviation = np.sqrt((2 * spread**2 + 4 * delta**2 * spread).sum())
    end = 1 / deviation
    while end < 3e6 / spread.max() and _log_size(end, delta, spread).sum() < 45:
        end *= 1.2
    edges = [0.0, 0.02 / deviation]
    while edges[-1] < end and len(edges) < 4000:
        edges.append(min(edges[-1] * 1.15, edges[-1] + 40 * np.pi / max(largest, 1e-12)))
    return np.array(edges)


def _log_size(u: Array | float, delta: Array | float, spread: Array | float) -> Array:
    """log ρ of one dimension; 1/ρ damps the integrand."""
    su2 = np.square(spread * u)
    return np.log1p(su2) / 4 + np.square(delta) / spread * su2 / (1 + su2) / 2


def _panels(edges: Array, *, nodes: int) -> tuple[Array, Array]:
    """Gauss–Legendre nodes and weights on every panel."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    return (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()
