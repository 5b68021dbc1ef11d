"""Phases: the parts of a model that learn, their rates, and the frozen parts.

Neither weights nor BatchNorm statistics of a frozen part move. Paper: §C.2.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

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
        in_towers = {id(p) for tower in model.captions.words.towers() for p in tower.parameters()}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                factor = _factor(name, phase, in_tower=id(parameter) in in_towers)
                groups.setdefault(factor, []).append(parameter)
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


def towers_are_frozen(model: Model, phase: Phase) -> bool:
    """Whether nothing of the text towers learns, of which there may be none."""
    towers = model.captions.words.towers()
    return all(tower.frozen() if phase.text_tower is None else phase.text_tower == "frozen" for tower in towers)


def _frozen(model: Model, phase: Phase) -> list[nn.Module]:
    """The frozen parts of the image backbone and of the text towers, and what else a caption network holds."""
    network, captions = model.images.network, model.captions.words
    images = _held(network, network.blocks, phase.backbone)
    if phase.text_tower is None:
        return [*images, *captions.frozen()]
    return [*images, *(part for tower in captions.towers() for part in _held(tower, tower.blocks, phase.text_tower))]


def _held(
    whole: nn.Module, blocks: Callable[[], Sequence[nn.Module]], learning: Literal["frozen", "all"] | int
) -> Sequence[nn.Module]:
    """The part of a network that does not learn: all of it, nothing, or all but so many of its last blocks."""
    if isinstance(learning, str):
        return [whole] if learning == "frozen" else []
    parts = blocks()
    return parts[: max(0, len(parts) - learning)]


def _factor(name: str, phase: Phase, *, in_tower: bool) -> float:
    if name.startswith("images.network."):
        return phase.backbone_factor
    if in_tower:
        return phase.text_tower_factor
    return phase.sigma_factor if ".heads.sigma." in name else 1.0
