"""The authors' weights by their names in a model of this package.

Their names and shapes are those of github.com/naver-ai/pcme (MIT). Paper: Fig. 2, Fig. 3.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pcme.errors import FormatError
from pcme.model.authors.sizes import COUNTER, WORDS, Weights
from pcme.model.model import Model


@dataclass(frozen=True)
class _Slot:
    """A tensor of ours, or one row of it: our GRUs are stacked in one."""

    name: str
    row: int | None = None

    def shape(self, own: Weights) -> tuple[int, ...]:
        """The shape of the slot."""
        whole = tuple(own[self.name].shape)
        return whole if self.row is None else whole[1:]


def convert(
    model: Model, weights: Weights, criterion: Weights, rows: Sequence[int], where: str
) -> dict[str, Shaped[Tensor, "..."]]:
    """The state of `model` from theirs; `rows` says which of their words each of ours is."""
    own = model.state_dict()
    slots = dict(_slots(own))
    _require_same(weights, {name: slot.shape(own) for name, slot in slots.items()}, where)
    state = {name: torch.zeros_like(value) for name, value in own.items()}
    for name, value in weights.items():
        slot = slots[name]
        target = state[slot.name] if slot.row is None else state[slot.name][slot.row]
        target.copy_(value[list(rows)] if name == WORDS else value)
    # Their sigmoid is e^x / (e^x + e^-x), the usual one of 2x: in our units a and b are doubled.
    state["objective.scale"] = 2 * _number(criterion, "negative_scale", where)
    if state["objective.scale"] <= 0:
        raise FormatError(
            f"{where}: criterion.negative_scale must be above 0, or nearer pairs match less, got "
            f"{state['objective.scale'] / 2:.4g}. Download the file again."
        )
    state["objective.shift"] = 2 * _number(criterion, "shift", where)
    return state


def _slots(own: Weights) -> Iterator[tuple[str, _Slot]]:
    """(their name, our slot) of every weight."""
    backbone = "images.network."
    for name in own:
        if name.startswith(backbone):
            yield f"img_enc.cnn.{name.removeprefix(backbone)}", _Slot(name)
    for theirs, ours in (("img_enc.", "images.heads."), ("txt_enc.", "captions.heads.")):
        for part, head in (("pie_net.", "mean."), ("uncertain_net.", "sigma.")):
            for inner, outer in (("w_1", "inner"), ("w_2", "outer")):
                yield (f"{theirs}{part}attention.{inner}.weight", _Slot(f"{ours}{head}attention.{outer}.weight"))
            yield from _layer(f"{theirs}{part}fc", f"{ours}{head}fc")
        yield from _layer(f"{theirs}pie_net.layer_norm", f"{ours}mean.norm")
    yield from _layer("img_enc.fc", "images.heads.mean.base")
    yield from _layer("img_enc.uncertain_net.fc2", "images.heads.sigma.base")
    yield WORDS, _Slot("captions.words.words.weight")
    for stack, theirs in enumerate(("txt_enc.rnn.", "txt_enc.uncertain_net.rnn.")):
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            for row, end in enumerate(("_l0", "_l0_reverse"), start=2 * stack):
                yield f"{theirs}{kind}{end}", _Slot(f"captions.words.gru.{kind}", row)


def _layer(theirs: str, ours: str) -> Iterator[tuple[str, _Slot]]:
    for kind in ("weight", "bias"):
        yield f"{theirs}.{kind}", _Slot(f"{ours}.{kind}")


def _require_same(found: Weights, wanted: Mapping[str, tuple[int, ...]], where: str) -> None:
    # Files from before torch 0.4.1 count no batches, and nothing depends on it.
    counted = {name for name in wanted if not name.endswith(COUNTER)}
    faults = (
        ("lacks", sorted(counted - found.keys())),
        ("has the unknown", sorted(found.keys() - wanted.keys())),
        (
            "has another shape for",
            [
                f"{name} {list(value.shape)} instead of {list(wanted[name])}"
                for name, value in found.items()
                if name in wanted and tuple(value.shape) != wanted[name]
            ],
        ),
    )
    for fault, names in faults:
        if names:
            listing = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            raise FormatError(
                f"{where}: not the weights of their model, it {fault} {listing} ({len(names)} in "
                "all). Only PCME itself, with attention and sigma on both sides, can be imported."
            )


def _number(criterion: Weights, name: str, where: str) -> Float[Tensor, ""]:
    value = criterion.get(name)
    if value is None or value.numel() != 1:
        got = "nothing" if value is None else list(value.shape)
        raise FormatError(f"{where}: criterion.{name} must be one number, got {got}.")
    return value.detach().float().reshape(())
