"""Phases: the parts of a model that learn, their rates, and the frozen parts.

Neither weights nor BatchNorm statistics of a frozen part move. Paper: §C.2.
"""

from typing import Any

from torch import nn

from pcme.errors import ConfigError
from pcme.model import Model
from pcme.recipes.schema import Phase


def trained_groups(model: Model, probe: nn.Linear | None, phase: Phase, *, words: bool) -> list[dict[str, Any]]:
    """The parameters this phase trains, in groups with the factors on their learning rate.

    All others need no gradient. `words` says whether word vectors are trained.
    """
    if phase.task == "labels":
        assert probe is not None, "made with the run"
        model.requires_grad_(False)
        model.images.network.requires_grad_(True)
        chosen = [*model.images.network.parameters(), *probe.parameters()]
        return [{"params": chosen, "factor": 1.0, "weight_decay": phase.weight_decay}]
    _thaw(model, phase, words=words)
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups.setdefault(_factor(name, phase), []).append(parameter)
    if not groups:
        raise ConfigError(
            'nothing of the model learns: with means="given" and frozen backbones σ does, and the '
            f'method "{model.recipe.method.kind}" has none. Set means="learned", or another method.'
        )
    return [
        {"params": params, "factor": factor, "weight_decay": phase.weight_decay} for factor, params in groups.items()
    ]


def set_mode(model: Model, phase: Phase) -> None:
    """Training mode, except for the frozen parts."""
    model.train()
    if phase.task == "match":
        for module in _frozen(model, phase):
            module.eval()


def _thaw(model: Model, phase: Phase, *, words: bool) -> None:
    model.requires_grad_(True)
    for module in _frozen(model, phase):
        module.requires_grad_(False)
    for vectors in model.captions.words.word_vectors():
        vectors.requires_grad_(words)


def _frozen(model: Model, phase: Phase) -> list[nn.Module]:
    """The parts that do not learn: the image backbone, or all but its last blocks, or none of it;
    and the parts of a caption network that never do.
    """
    always = list(model.captions.words.frozen())
    if phase.backbone == "frozen":
        return [model.images.network, *always]
    if phase.backbone == "all":
        return always
    blocks = list(model.images.network.blocks())
    return [*blocks[: max(0, len(blocks) - phase.backbone)], *always]


def _factor(name: str, phase: Phase) -> float:
    if name.startswith("images.network."):
        return phase.backbone_factor
    return phase.sigma_factor if ".heads.sigma." in name else 1.0
