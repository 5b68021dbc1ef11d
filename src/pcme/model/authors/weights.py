"""The authors' weights by their names in a model of this package.

Their names and shapes are those of github.com/naver-ai/pcme (MIT). Paper: Fig. 2, Fig. 3.
"""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pcme.errors import FormatError
from pcme.model.authors.sizes import COUNTER, ONLY_PCME, WORDS, Weights
from pcme.model.model import Model


def convert(
    model: Model, weights: Weights, criterion: Weights, rows: Sequence[int], where: str
) -> dict[str, Shaped[Tensor, "..."]]:
    """The state of `model` from theirs; `rows` says which of their words each of ours is."""
    state = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
    targets = dict(_targets(state))
    _require_same(weights, targets, where)
    for name, value in weights.items():
        targets[name].copy_(value[list(rows)] if name == WORDS else value)
    # Their sigmoid is e^x / (e^x + e^-x), the usual one of 2x: in our units a and b are doubled.
    state["objective.scale"] = 2 * _number(criterion, "negative_scale", where)
    if state["objective.scale"] <= 0:
        raise FormatError(
            f"{where}: criterion.negative_scale must be above 0, or nearer pairs match less, got "
            f"{state['objective.scale'] / 2:.4g}. Download the file again."
        )
    state["objective.shift"] = 2 * _number(criterion, "shift", where)
    return state


def _targets(state: Weights) -> Iterator[tuple[str, Shaped[Tensor, "..."]]]:
    """(their name, our tensor or a row of it) of every weight: our GRUs are stacked in one tensor."""
    backbone = "images.network."
    names = {f"img_enc.cnn.{name.removeprefix(backbone)}": name for name in state if name.startswith(backbone)}
    layers = {"img_enc.fc": "images.heads.mean.base", "img_enc.uncertain_net.fc2": "images.heads.sigma.base"}
    for theirs, ours in (("img_enc.", "images.heads."), ("txt_enc.", "captions.heads.")):
        for part, head in (("pie_net.", "mean."), ("uncertain_net.", "sigma.")):
            for inner, outer in (("w_1", "inner"), ("w_2", "outer")):
                names[f"{theirs}{part}attention.{inner}.weight"] = f"{ours}{head}attention.{outer}.weight"
            layers[f"{theirs}{part}fc"] = f"{ours}{head}fc"
        layers[f"{theirs}pie_net.layer_norm"] = f"{ours}mean.norm"
    for theirs, ours in layers.items():
        names |= {f"{theirs}.{kind}": f"{ours}.{kind}" for kind in ("weight", "bias")}
    names[WORDS] = "captions.words.words.weight"
    for theirs, ours in names.items():
        yield theirs, state[ours]
    for stack, theirs in enumerate(("txt_enc.rnn.", "txt_enc.uncertain_net.rnn.")):
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            for row, end in enumerate(("_l0", "_l0_reverse"), start=2 * stack):
                yield f"{theirs}{kind}{end}", state[f"captions.words.gru.{kind}"][row]


def _require_same(weights: Weights, targets: Weights, where: str) -> None:
    # Files from before torch 0.4.1 count no batches, and nothing depends on it.
    counted = {name for name in targets if not name.endswith(COUNTER)}
    misfits = [
        f"{name} {list(value.shape)} instead of {list(targets[name].shape)}"
        for name, value in weights.items()
        if name in targets and value.shape != targets[name].shape
    ]
    faults = {
        "lacks": sorted(counted - weights.keys()),
        "has the unknown": sorted(weights.keys() - targets.keys()),
        "has another shape for": misfits,
    }
    for fault, names in faults.items():
        if names:
            listing = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            raise FormatError(
                f"{where}: not the weights of their model, it {fault} {listing} ({len(names)} in all). {ONLY_PCME}"
            )


def _number(criterion: Weights, name: str, where: str) -> Float[Tensor, ""]:
    value = criterion.get(name)
    if value is None or value.numel() != 1:
        got = "nothing" if value is None else list(value.shape)
        raise FormatError(f"{where}: criterion.{name} must be one number, got {got}.")
    return value.detach().float().reshape(())
