"""The sizes of an authors' model, from its tensors alone.

Nothing is built before these are known: a number in a config costs nothing to write, but a tensor is in the file.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pcme.errors import FormatError
from pcme.nn.images.resnet import SHAPES

Weights = Mapping[str, Shaped[Tensor, "..."]]
WORDS = "txt_enc.embed.weight"
COUNTER = ".num_batches_tracked"
ONLY_PCME = "Only PCME itself, with attention and sigma on both sides, can be imported."
_BLOCK = re.compile(r"img_enc\.cnn\.layer([1-4])\.\d+\.conv1\.weight")


@dataclass(frozen=True)
class Sizes:
    """The depth of its ResNet, the dimensions of embeddings and of words, the number of words."""

    depth: int
    dim: int
    word_dim: int
    words: int


def require_usable(weights: Weights, where: str) -> None:
    """Refuse, by name, a tensor that is not dense, finite and of floating-point numbers."""
    for name, value in weights.items():
        if fault := _fault(name, value):
            raise FormatError(f"{where}: {name} must {fault}. Download the file again.")


def _fault(name: str, value: Shaped[Tensor, "..."]) -> str | None:
    if value.layout != torch.strided or value.device.type == "meta":
        return f"be a dense tensor, got {value.layout} on {value.device.type}"
    if value.untyped_storage().nbytes() < value.numel() * value.element_size():
        return f"be a dense tensor, got {list(value.shape)} from fewer numbers"
    if name.endswith(COUNTER):
        counts = not (value.is_floating_point() or value.is_complex())
        return None if counts else f"be a whole number, got {value.dtype}"
    if not value.is_floating_point():
        return f"have floating-point numbers, got {value.dtype}"
    return None if torch.isfinite(value.float()).all() else "be finite, got NaN or infinity"


def infer_sizes(weights: Weights, where: str) -> Sizes:
    """The sizes that the tensors agree on; the largest of each kind is looked at."""
    projection, words = _matrix(weights, "img_enc.fc.weight", where), _matrix(weights, WORDS, where)
    dim, word_dim = len(projection), words.shape[1]
    if dim % 2:
        raise FormatError(
            f"{where}: img_enc.fc.weight must have an even number of rows, half per direction of a sentence, got {dim}."
        )
    shapes = {
        "txt_enc.rnn.weight_hh_l0": (3 * dim // 2, dim // 2),
        "txt_enc.rnn.weight_ih_l0": (3 * dim // 2, word_dim),
        "txt_enc.pie_net.attention.w_1.weight": (word_dim // 2, word_dim),
    }
    for name, shape in shapes.items():
        if (got := tuple(_matrix(weights, name, where).shape)) != shape:
            raise FormatError(
                f"{where}: {name} must have the shape {list(shape)} that img_enc.fc.weight and {WORDS} ask for, got "
                f"{list(got)}. Download the file again."
            )
    return Sizes(_depth(weights, where), dim, word_dim, len(words))


def _matrix(weights: Weights, name: str, where: str) -> Float[Tensor, "m n"]:
    value = weights.get(name)
    if value is None or value.ndim != 2 or not value.numel():
        got = "nothing" if value is None else list(value.shape)
        raise FormatError(f"{where}: {name} must be a matrix, got {got}. {ONLY_PCME}")
    return value


def _depth(weights: Weights, where: str) -> int:
    stages = Counter(int(block[1]) for name in weights if (block := _BLOCK.fullmatch(name)))
    repeats = tuple(stages[stage] for stage in range(1, 5))
    bottleneck = "img_enc.cnn.layer1.0.conv3.weight" in weights
    for depth, shape in SHAPES.items():
        if tuple(shape) == (repeats, bottleneck):
            return depth
    known = ", ".join(map(str, SHAPES))
    raise FormatError(
        f"{where}: img_enc.cnn must be a ResNet of {known} layers, got one with {repeats} blocks. "
        "Other backbones cannot be imported."
    )
