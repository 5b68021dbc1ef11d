"""Optimisation: AdamP, the schedule of its rate, the clipping of gradients.

>>> weight = nn.Parameter(torch.ones(2, 2))
>>> optimiser = AdamP([weight], lr=0.1)
>>> weight.square().sum().backward()
>>> clip_gradients([weight], 1.0).item(), optimiser.step()
(4.0, None)
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pcme.errors import ConfigError
from pcme.kernels.devices import uses_compiled

Options = dict[str, Any]
"""The options and state that torch keeps for a group of parameters, or for one."""

Weight = Float[Tensor, "n *rest"]
Moved = tuple[Float[Tensor, "..."], Float[Tensor, "..."], Options]
"""A parameter, its gradient and its state."""


class AdamP(torch.optim.Optimizer):
    """Adam that does not lengthen a weight which is normalised anyway.

    The length of a weight w in front of a normalisation changes nothing but the size of the steps that follow. Its
    gradient is orthogonal to it: where |cos(w, ∇)| < δ/√dim(w), for every row of w or else for w as a whole, the part
    of Adam's step along w is removed, and the weight decay, which elsewhere undoes the lengthening, is multiplied by
    `wd_ratio`. Parameters of fewer than two axes take Adam's step. Weight decay is decoupled.

    Relation: Heo et al., "AdamP: Slowing Down the Slowdown for Momentum Optimizers on Scale-invariant Weights", ICLR
    2021; the same numbers as its package `adamp`, to rounding.
    """

    def __init__(
        self,
        params: Iterable[Float[Tensor, "..."]] | Iterable[Options],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        delta: float = 0.1,
        wd_ratio: float = 0.1,
        nesterov: bool = False,
    ) -> None:
        amounts = {"lr": lr, "eps": eps, "weight_decay": weight_decay, "delta": delta, "wd_ratio": wd_ratio}
        for name, value in amounts.items():
            if not 0 <= value < math.inf:
                raise ConfigError(f"AdamP: {name} must be finite and at least 0, got {value}.")
        if not all(0 <= beta < 1 for beta in betas):
            raise ConfigError(f"AdamP: both betas must be from 0 to below 1, got {betas}.")
        super().__init__(params, {**amounts, "betas": tuple(betas), "nesterov": nesterov})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """The closure's loss, after one step along the gradients; None without a closure."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            flat: list[Moved] = []
            for p in (p for p in group["params"] if p.grad is not None):
                state = self._counted(p, p.grad)
                if p.ndim > 1 and p.numel():
                    _step_weight(p, p.grad, state, group)
                else:
                    flat.append((p, p.grad, state))
            _step_flat(flat, group)
        return loss

    def _counted(self, p: Float[Tensor, "..."], gradient: Float[Tensor, "..."]) -> Options:
        """The state of a parameter, made when it is missing, with one more step in it."""
        if gradient.is_sparse or p.is_complex():
            raise ConfigError(
                f"AdamP needs dense gradients of real numbers, got those of a {p.dtype} parameter {list(p.shape)}. "
                "Use nn.Embedding(sparse=False)."
            )
        state: Options = self.state[p]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
        state["step"] += 1
        return state


def cosine_with_warmup(step: int, *, total: int, warmup: int) -> float:
    """The factor on the learning rate at a step, counted from 0: a line up, then half a cosine.

    (step + 1) / warmup before step `warmup`; then (1 + cos πt) / 2, with t from 0 at step `warmup` to 1 at step
    `total`, the first that is not made; 0 ever after.

    >>> [round(cosine_with_warmup(step, total=6, warmup=2), 3) for step in range(7)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146, 0.0]
    """
    if not (step >= 0 and 0 <= warmup <= total):
        raise ConfigError(
            f"a schedule needs step ≥ 0 and 0 ≤ warmup ≤ total, got step={step}, warmup={warmup}, total={total}."
        )
    if step < warmup:
        return (step + 1) / warmup
    if step >= total:
        return 0.0
    return (1 + math.cos(math.pi * ((step - warmup) / (total - warmup)))) / 2


@torch.no_grad()
def clip_gradients(params: Iterable[Tensor], limit: float) -> Float[Tensor, ""]:
    """Scale all gradients together, in place, to a norm of at most `limit`; return their norm before.

    A norm that is not finite leaves the gradients as they are on the CPU: look at it before the step.
    """
    if not limit > 0:
        raise ConfigError(f"the limit of the gradients' norm must be positive, got {limit}.")
    gradients = [p.grad for p in params if p.grad is not None]
    total = nn.utils.get_total_norm(gradients)
    if not uses_compiled(total.device):  # without waiting for the norm
        torch._foreach_mul_(gradients, (limit / total).clamp_max(1))
        return total
    norm = float(total)
    if math.isfinite(norm) and norm > limit:
        torch._foreach_mul_(gradients, limit / norm)
    return total


def _step_flat(moved: Sequence[Moved], group: Options) -> None:
    """`_step_weight` of the parameters that are never projected: each call takes all of them."""
    if not moved:
        return
    params, gradients = [p for p, _, _ in moved], [gradient for _, gradient, _ in moved]
    means = [state["exp_avg"] for _, _, state in moved]
    squares = [state["exp_avg_sq"] for _, _, state in moved]
    sizes, epsilons = zip(*(_rates(state["step"], group) for _, _, state in moved), strict=True)
    beta1, beta2 = group["betas"]
    torch._foreach_lerp_(means, gradients, 1 - beta1)
    torch._foreach_mul_(squares, beta2)
    torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
    denominators = torch._foreach_sqrt(squares)
    torch._foreach_add_(denominators, epsilons)
    if group["nesterov"]:
        means = list(torch._foreach_lerp(gradients, means, beta1))
    torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
    torch._foreach_addcdiv_(params, means, denominators, [-size for size in sizes])


def _step_weight(weight: Weight, gradient: Weight, state: Options, group: Options) -> None:
    """AdamP's step of one weight; on a CPU faster than all at once: it stays in the cache."""
    beta1, beta2 = group["betas"]
    size, eps = _rates(state["step"], group)
    mean = state["exp_avg"].lerp_(gradient, 1 - beta1)
    square = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    denominator = square.sqrt().add_(eps)
    if group["nesterov"]:
        mean = torch.lerp(gradient, mean, beta1)
    direction = torch.div(mean, denominator, out=denominator)
    decay = group["lr"] * group["weight_decay"]
    if not uses_compiled(weight.device):
        invariant = _remove_radial_if_invariant(direction, weight, gradient, group)
        weight.mul_(1 - decay * torch.where(invariant, group["wd_ratio"], 1.0)).add_(direction, alpha=-size)
        return
    length = _length_if_invariant(weight, gradient, group)
    if length is not None:
        _remove_radial(direction, weight, length + group["eps"])
        decay *= group["wd_ratio"]
    weight.mul_(1 - decay).add_(direction, alpha=-size)


def _rates(step: int, group: Options) -> tuple[float, float]:
    """lr √c₂/c₁ and eps √c₂ in (lr √c₂/c₁) m / (√v + eps √c₂) = lr (m/c₁) / (√(v/c₂) + eps).

    c = 1 − β^step, what the moments lack at the start; as numbers they cost no pass over memory.
    """
    beta1, beta2 = group["betas"]
    root = math.sqrt(1 - beta2**step)
    return group["lr"] * root / (1 - beta1**step), group["eps"] * root


def _length_if_invariant(weight: Weight, gradient: Weight, group: Options) -> Float[Tensor, " m"] | None:
    """The lengths of the rows, or of the whole, if orthogonal to the gradient; None otherwise."""
    rows, slopes, eps = weight.flatten(1), gradient.flatten(1), group["eps"]
    dots: Float[Tensor, " n"] = torch.linalg.vecdot(rows, slopes)
    lengths: Float[Tensor, " n"] = torch.linalg.vector_norm(rows, dim=1)
    steepness: Float[Tensor, " n"] = torch.linalg.vector_norm(slopes, dim=1)
    for size in (rows.shape[1], rows.numel()):
        cosines = dots.abs() / (lengths.clamp(min=eps) * steepness.clamp(min=eps))
        if bool(cosines.max() < group["delta"] / math.sqrt(size)):
            return lengths
        dots = dots.sum(0, keepdim=True)
        lengths, steepness = lengths.norm()[None], steepness.norm()[None]
    return None


def _remove_radial(direction: Weight, weight: Weight, length: Float[Tensor, " m"]) -> None:
    """Take from a direction its part along each row of the weight, or along the whole, in place."""
    along = torch.linalg.vecdot(weight.flatten(1), direction.flatten(1))
    if len(length) == 1:
        along = along.sum(0, keepdim=True)
    parts = (along / length.square()).view(-1, *[1] * (weight.ndim - 1))
    direction.addcmul_(weight, parts, value=-1)


def _remove_radial_if_invariant(
    direction: Weight, weight: Weight, gradient: Weight, group: Options
) -> Bool[Tensor, ""]:
    """The same for rows, else for the whole, chosen on the device; whether the length of either is invariant."""
    rows, slopes, steps = (side.flatten(1) for side in (weight, gradient, direction))
    dots, along = torch.linalg.vecdot(rows, slopes), torch.linalg.vecdot(rows, steps)
    lengths, steepness = (torch.linalg.vector_norm(side, dim=1) for side in (rows, slopes))
    cases = []
    for size in (rows.shape[1], rows.numel()):
        cosines = dots.abs() / (lengths.clamp(min=group["eps"]) * steepness.clamp(min=group["eps"]))
        parts = along / (lengths + group["eps"]).square()
        cases.append((cosines.max() < group["delta"] / math.sqrt(size), parts))
        dots, along = dots.sum(0, keepdim=True), along.sum(0, keepdim=True)
        lengths, steepness = lengths.norm()[None], steepness.norm()[None]
    (by_rows, row_parts), (as_whole, whole_part) = cases
    parts = torch.where(by_rows, row_parts, torch.where(as_whole, whole_part, 0.0))
    direction.addcmul_(weight, parts.view(-1, *[1] * (weight.ndim - 1)), value=-1)
    either: Tensor = by_rows | as_whole
    return either
