"""The network of a recipe, as its modules are: their sizes are read from a pass of one image and one caption."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from pcme import methods
from pcme.analysis import Number, Result
from pcme.core.random import torch_stream
from pcme.errors import ConfigError
from pcme.nn.backbone import Build, caption_backbones, image_backbones
from pcme.nn.heads import SigmaHead
from pcme.nn.towers import CaptionTower, Heads, ImageTower
from pcme.recipes.schema import Recipe
from pcme.reproduce.sheets import Sheet, Source

WORDS = 8
"""Words of the caption that passes."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Branch:
    """A head: what attends, what is added to it, and what follows.

    `base` is the shape of the projected whole item, `attended` that of the attended sites, `mapped` that of their
    linear map; None where the head has no such part. `hidden` is the width of the attention.
    """

    base: Shape | None
    attended: Shape | None
    mapped: Shape | None
    hidden: int | None
    squashed: bool
    """Whether the map goes through a sigmoid before it is added."""
    after: tuple[str, ...]
    """What follows the sum, in words."""
    out: Shape
    parameters: int


@dataclass(frozen=True)
class Encoder:
    """A tower: the shapes of its input, its sites and the vector of a whole item, and its heads."""

    of: str
    backbone: str
    input: Shape
    sites: Shape
    whole: Shape
    parameters: int
    """Of the backbone."""
    mean: Branch
    sigma: Branch | None


@dataclass(frozen=True)
class Network(Result):
    """Both towers and what compares their outputs."""

    recipe: str
    method: str
    score: str
    images: Encoder
    captions: Encoder

    def numbers(self) -> tuple[Number, ...]:
        """The parameters of the backbones and heads; of captions without the words' vectors."""
        return tuple(
            Number(f"parameters of {encoder.of}: {part}", float(count), meaning)
            for encoder in (self.images, self.captions)
            for part, count, meaning in (
                ("backbone", encoder.parameters, encoder.backbone),
                ("mean head", encoder.mean.parameters, f"to {encoder.mean.out[-1]} numbers"),
                *(
                    [("σ head", encoder.sigma.parameters, f"to {encoder.sigma.out[-1]} numbers")]
                    if encoder.sigma
                    else []
                ),
            )
        )


class NetworkSheet(Sheet[Network]):
    """Abstract: a drawing of the network of the setup's recipe."""

    result = Network

    def compute(self, source: Source) -> Network:
        """The network."""
        return inspect(source.recipe)


@torch.no_grad()
def inspect(recipe: Recipe) -> Network:
    """Build the towers of a recipe without weights from elsewhere, and let one image and one caption pass."""
    if "precomputed" in (recipe.image.kind, recipe.caption.kind) or recipe.means == "given":
        raise ConfigError(
            f"{recipe.name}: must have two networks, got items or means that are given as vectors. Name another recipe."
        )
    method = methods.create(recipe.method.kind, **recipe.method.params)
    options, generator = method.heads(recipe.dim), torch_stream(0, "network")
    context = Build(generator, recipe.dim, method.has_sigma, torch.zeros(WORDS, recipe.words.dim))
    image = image_backbones.create(recipe.image.kind, **recipe.image.params).without_weights().build(context)
    words = caption_backbones.create(recipe.caption.kind, **recipe.caption.params).without_weights().build(context)
    of_images = ImageTower(image, options, generator=generator).eval()
    of_captions = CaptionTower(words, options, generator=generator).eval()
    size = recipe.augment.size
    frozen = {id(vector) for vector in of_captions.words.word_vectors()}
    caption = sum(each.numel() for each in of_captions.words.parameters() if id(each) not in frozen)
    return Network(
        recipe.name,
        recipe.method.kind,
        method.objective().score().name,
        _encoder(
            "images", recipe.image.kind, (3, size, size), _counted(of_images.network), of_images.heads,
            _shapes(of_images, torch.zeros(1, 3, size, size)),
        ),
        _encoder(
            "captions", recipe.caption.kind, (WORDS,), caption, of_captions.heads,
            _shapes(of_captions, torch.zeros(1, WORDS, dtype=torch.int64)),
        ),
    )  # fmt: skip


def _encoder(of: str, backbone: str, given: Shape, parameters: int, heads: Heads, shapes: Mapping[str, Any]) -> Encoder:
    local, pooled, _ = shapes["heads"]
    sigma = None if heads.sigma is None else _branch("heads.sigma", heads.sigma, shapes)
    return Encoder(of, backbone, given, local, pooled, parameters, _branch("heads.mean", heads.mean, shapes), sigma)


def _branch(name: str, head: Any, shapes: Mapping[str, Any]) -> Branch:  # noqa: ANN401 - of mean, or of σ
    attention = head.attention
    base = None if isinstance(head.base, nn.Identity) else shapes[f"{name}.base"]
    after = ["LN"] if isinstance(head.norm, nn.LayerNorm) else []
    if isinstance(head, SigmaHead):
        squashed = head.squashed
        after += [f"within {head.bounds[0]:g} … {head.bounds[1]:g}".replace("-", "−")] if head.bounds else []
    else:
        squashed = attention is not None
        after += ["L2"] if getattr(head, "unit", True) else []
    return Branch(
        base,
        None if attention is None else shapes[f"{name}.attention"],
        None if attention is None else shapes[f"{name}.fc"],
        None if attention is None else attention.inner.out_features,
        squashed,
        tuple(after),
        shapes[name],
        _counted(head),
    )


def _shapes(tower: nn.Module, given: Shaped[Tensor, "1 ..."]) -> dict[str, Any]:
    """{module: the shape of its output for one item}; of "heads" those of the sites, the item and the base of σ."""
    shapes: dict[str, Any] = {}

    def note(name: str, out: Any) -> None:  # noqa: ANN401 - a tensor, or an embedding
        tensor = out if isinstance(out, Tensor) else out.points()
        shapes[name] = tuple(tensor.shape[1:])

    hooks = []
    for name, module in tower.named_modules():
        if name == "heads":
            hooks.append(module.register_forward_pre_hook(lambda _, inputs: shapes.update(heads=_of_features(*inputs))))
        elif name.startswith("heads."):
            hooks.append(module.register_forward_hook(lambda _, __, out, name=name: note(name, out)))
    tower(given)
    for hook in hooks:
        hook.remove()
    return shapes


def _of_features(features: Any) -> tuple[Shape, ...]:  # noqa: ANN401 - `Features`
    return tuple(tuple(part.shape[1:]) for part in (features.local, features.pooled, features.spread))


def _counted(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
