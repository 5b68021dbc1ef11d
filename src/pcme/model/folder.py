"""A model's folder: `recipe.json`, `vocab.json`, `weights.safetensors`; imported: `origin.json`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxtyping import Shaped
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as serialised
from torch import Tensor

from pcme.core import files
from pcme.data.text.tokens import Vocab
from pcme.errors import FormatError, PcmeError
from pcme.recipes.schema import Recipe, from_record

RECIPE, VOCAB, WEIGHTS = "recipe.json", "vocab.json", "weights.safetensors"
State = Mapping[str, Shaped[Tensor, "..."]]


def require_files(root: Path) -> None:
    """Refuse a folder that lacks a part of a model."""
    for name in (RECIPE, VOCAB, WEIGHTS):
        if not (root / name).is_file():
            raise FormatError(f"{root}: not a model folder, {name} is missing. Has training finished?")


def read_json(path: Path) -> Any:  # noqa: ANN401 - whatever JSON holds
    """The JSON in a file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{path}: damaged, got {error}. Restore it from a backup.") from error


def parse_recipe(record: Mapping[str, Any], path: Path) -> Recipe:
    """The recipe in a record of a file."""
    try:
        return from_record(record)
    except PcmeError as error:
        raise FormatError(f"{path}: its recipe cannot be used, got {error}. Restore it from a backup.") from error


def read_recipe(root: Path) -> Recipe:
    """The recipe in a folder."""
    return parse_recipe(read_json(root / RECIPE), root / RECIPE)


def read_weights(path: Path) -> dict[str, Shaped[Tensor, "..."]]:
    """The weights in a file."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise _damaged(path, error) from error


def read_vocab(root: Path, words: int | None) -> Vocab:
    """The vocabulary in a folder; refused if it has not as many words as the weights."""
    vocab = Vocab.load(root / VOCAB)
    if words is not None and len(vocab) != words:
        raise FormatError(
            f"{root / VOCAB}: must list the {words:,} words of the weights, got {len(vocab):,}. "
            "Restore both files from one backup."
        )
    return vocab


def write_weights(path: Path, weights: State, format: str) -> None:  # noqa: A002 - safetensors' name
    """Replace a file of weights atomically."""
    contiguous = {name: value.contiguous() for name, value in weights.items()}
    with files.replacing(path) as draft:
        draft.write_bytes(serialised(contiguous, metadata={"format": format}))


def require_same(root: Path, recipe: Recipe, words: int, weights: State) -> None:
    """Refuse a folder whose model is not built from this recipe, with these shapes of weights.

    Names and shapes are read without reading the weights.
    """
    require_files(root)
    if read_recipe(root) != recipe:
        raise FormatError(
            f"{root / RECIPE}: no longer the recipe of this run. Restore it from a backup, such as "
            f"{root / 'last' / RECIPE}."
        )
    read_vocab(root, words)
    path = root / WEIGHTS
    try:
        with safe_open(path, framework="pt") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise _damaged(path, error) from error
    if shapes != {name: tuple(value.shape) for name, value in weights.items()}:
        raise FormatError(f"{path}: the weights of another model. Restore it from a backup.")


def _damaged(path: Path, error: Exception) -> FormatError:
    return FormatError(f"{path}: damaged, got {error}. Restore it from a backup, or train again.")
