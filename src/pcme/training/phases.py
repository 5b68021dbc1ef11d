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

    All others need no gradient. `words` says whether word vectors are trained where the phase does not say.
    """
    groups: dict[float, list[nn.Parameter]] = {}
    if phase.task == "labels":
        assert probe is not None, "made with the run"
        model.requires_grad_(False)
        model.images.network.requires_grad_(True)
        groups[1.0] = [*model.images.network.parameters(), *probe.parameters()]
    else:
        model.requires_grad_(True)
        for module in _frozen(model, phase):
            module.requires_grad_(False)
        for vectors in model.captions.words.word_vectors():
            vectors.requires_grad_(words if phase.words is None else phase.words == "trained")
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                groups.setdefault(_factor(name, phase), []).append(parameter)
    if not groups:
        raise ConfigError(
            'nothing of the model learns: with means="given" and frozen backbones σ does, and the method '
            f'"{model.recipe.method.kind}" has none. Set means="learned", or another method.'
        )
    decay = phase.weight_decay
    return [{"params": params, "factor": factor, "weight_decay": decay} for factor, params in groups.items()]


def set_mode(model: Model, phase: Phase) -> None:
    """Training mode, except for the frozen parts."""
    model.train()
    if phase.task == "match":
        for module in _frozen(model, phase):
            module.eval()


def learning_blocks(phase: Phase) -> int:
    """The number of last blocks that learn, in a phase that freezes the others; 0 in other phases."""
    return phase.backbone if isinstance(phase.backbone, int) else 0


def _frozen(model: Model, phase: Phase) -> list[nn.Module]:
    """The frozen part of the image backbone, and the parts of a caption network that never learn."""
    network, never = model.images.network, list(model.captions.words.frozen())
    if phase.backbone == "frozen":
        return [network, *never]
    if phase.backbone == "all":
        return never
    blocks = list(network.blocks())
    return [*blocks[: max(0, len(blocks) - phase.backbone)], *never]


def _factor(name: str, phase: Phase) -> float:
    if name.startswith("images.network."):
        return phase.backbone_factor
    return phase.sigma_factor if ".heads.sigma." in name else 1.0
