"""Recipe: everything a training run depends on, as one frozen value.

A recipe is written in Python (the modules of this package), read from a TOML or JSON file, changed
by `--set method.samples=3`, and written as JSON into every run. An unknown key is an error that
suggests the right one; there is no key that nothing reads.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from pcme.core.registry import Registry, did_you_mean
from pcme.errors import ConfigError


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Part(BaseModel):
    """A component chosen by name, with its parameters: {"kind": "pcme", "samples": 3}."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: str

    @property
    def params(self) -> dict[str, Any]:
        """The parameters."""
        return dict(self.model_extra or {})


def part(kind: str, **params: object) -> Part:
    """A part by name: part("pcme", samples=3)."""
    return Part.model_validate({"kind": kind, **params})


class Words(_Frozen):
    """The caption side's words."""

    dim: int = Field(default=50, gt=0)
    """The size of a word vector; that of the file or package when there is one."""
    vectors: str | None = None
    """ "package" (GloVe 50d from PyPI), the path of a GloVe text file, or None: random."""
    min_count: int = Field(default=1, ge=1)
    train: bool = True
    """Whether word vectors are trained; otherwise they stay as they are. A phase may say otherwise."""


class Augment(_Frozen):
    """The augmentation of training images and training captions."""

    size: int = Field(default=224, gt=0)
    resize: int | None = Field(default=None, gt=0)
    """The short side before the centre crop, in training and in tests, also of a model that trains
    on random crops; None: 256/224 of the size, as the paper's. CLIP takes the size itself."""
    crop: Literal["centre", "scaled-centre", "random-resized", "none"] = "centre"
    flip: bool = False
    cutout: float = Field(default=0.0, ge=0, le=1)
    word_drop: float = Field(default=0.1, ge=0, lt=1)
    erasing: float = Field(default=0.0, ge=0, le=1)
    """The share of images that lose a random share of their pixels, so that σ sees such images."""
    word_erasing: float = Field(default=0.0, ge=0, le=1)
    """The share of captions that lose a random share of their words to `<unk>`."""
    views: int | None = Field(default=None, ge=1)
    """Draws of an image's augmentation that are made once and used in turn, so that the features
    of a frozen backbone can be cached; None: drawn afresh at every step."""
    caption_views: int | None = Field(default=None, ge=1)
    """Draws of a caption's augmentation, made once and used in turn, so that what frozen text towers
    make of them can be cached; None: drawn afresh, and the towers run, at every step."""

    @field_validator("resize")
    @classmethod
    def _holds_the_crop(cls, resize: int | None, info: Any) -> int | None:  # noqa: ANN401 - pydantic's
        size = info.data.get("size")
        if resize is not None and size is not None and resize < size:
            rule = "the short side must be at least augment.size={size}"
            raise PydanticCustomError("resize", rule, {"size": size})
        return resize


class Sampling(_Frozen):
    """The choice of pairs for a batch."""

    kind: Literal["pairs", "one-per-class"] = "pairs"
    batch_size: int = Field(default=128, ge=2)
    classes_per_batch: int | None = Field(default=None, ge=2)
    """Random classes per batch of "one-per-class"; None: all of them."""
    afresh: bool = False
    """New captions at every step, where the dataset can write them."""
    captions_per_image: int = Field(default=1, ge=1)
    """Captions of an image that stand together in a batch of "pairs", in a row each."""
    matches: Literal["dataset", "image"] = "dataset"
    """What is true of an image in training: what the dataset says, or its own captions alone."""

    @field_validator("captions_per_image", "matches")
    @classmethod
    def _fits_the_others(cls, value: Any, info: Any) -> Any:  # noqa: ANN401 - pydantic's
        if info.data.get("afresh") and value not in (1, "dataset"):
            raise PydanticCustomError("afresh", "needs the dataset's captions, so sampling.afresh=false")
        if info.field_name == "captions_per_image" and value > 1 and info.data.get("kind", "pairs") != "pairs":
            raise PydanticCustomError("kind", "above 1 needs sampling.kind=pairs")
        return value


class Phase(_Frozen):
    """A stretch of training with its own optimiser and schedule."""

    epochs: int = Field(gt=0)
    learning_rate: float = Field(gt=0)
    task: Literal["match", "labels"] = "match"
    """ "labels": the backbone alone learns to name the images' labels, where it starts from nothing
    and the dataset has labels; the paper's backbone comes from ImageNet instead."""
    warmup_steps: int = Field(default=0, ge=0)
    backbone: Literal["frozen", "all"] | Annotated[int, Field(ge=1)] = "frozen"
    """The part of the image backbone that is trained: none, all, or so many of its last blocks."""
    backbone_factor: float = Field(default=1.0, gt=0)
    sigma_factor: float = Field(default=1.0, gt=0)
    """Factors on the learning rate, of the backbone and of the sigma heads."""
    words: Literal["frozen", "trained"] | None = None
    """What happens to the word vectors; None: what `words.train` says of all phases."""
    text_tower: Literal["frozen", "all"] | Annotated[int, Field(ge=1)] | None = None
    """The part of a text tower that is trained, as of the image backbone: none, all, or so many of
    its last layers; None: what the caption backbone says of all phases."""
    text_tower_factor: float = Field(default=1.0, gt=0)
    """A factor on the learning rate of the text tower, which wants a smaller one than heads do."""
    weight_decay: float = Field(default=0.0, ge=0)
    clip: float = Field(default=2.0, gt=0)


class Validation(_Frozen):
    """When and on which split a run is validated; never on the test split."""

    split: str = "val"
    share: float | None = Field(default=None, gt=0, lt=1)
    """The share of the training images to hold out and validate on, instead of `split`."""
    every_epochs: int = Field(default=1, ge=1)
    max_captions: int = Field(default=5000, gt=0)
    """The most captions that are scored; a seeded choice when there are more."""
    patience: int | None = Field(default=None, ge=1)
    """Validations without a better mean R-Precision that end the phase; None: never."""


class Recipe(_Frozen):
    """Everything a run depends on."""

    name: str
    data: Part
    image: Part
    method: Part
    caption: Part = part("gru")
    """The caption backbone; "precomputed" for captions that are given as vectors."""
    train_split: str = "train"
    dim: int = Field(default=512, gt=0)
    means: Literal["learned", "given"] = "learned"
    """"given": an item's mean is its backbone's own vector, of `dim` numbers on both sides, for backbones that rank by
    cosine already (CLIP and its like); σ and the match probability are learned on top."""
    words: Words = Words()
    augment: Augment = Augment()
    sampling: Sampling = Sampling()
    phases: tuple[Phase, ...]
    validation: Validation = Validation()
    average: float | None = Field(default=None, gt=0, lt=1)
    """The decay of an exponential moving average of the weights; None: no average."""
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """The precision of backbones and attentions in training; weights, embeddings and losses are
    always float32. bfloat16 is faster on processors that support it."""
    seed: int = 0

    def changed(self, assignments: Sequence[str]) -> "Recipe":
        """This recipe with some keys set: "method.samples=3", "phases.0.epochs=5".

        Values are JSON where they can be, otherwise text. A part that gets another kind, as by
        "method.kind=hib", starts from its own defaults and keeps the parameters both kinds have.
        """
        record = self.record()
        for assignment in assignments:
            key, equals, value = assignment.partition("=")
            if not equals:
                raise ConfigError(f"--set: must be key=value, got {assignment!r}.")
            keys = key.split(".")
            if keys[1:] == ["kind"] and keys[0] in CHANGEABLE:
                before, fields = record[keys[0]], _registry(keys[0]).fields(value)
                record[keys[0]] = {"kind": value, **{field: before[field] for field in fields if field in before}}
            else:
                _set(record, keys, _value(value), key)
        return from_record(record)

    def record(self) -> dict[str, Any]:
        """The recipe as JSON has it."""
        return self.model_dump(mode="json")


def from_file(path: Path) -> Recipe:
    """The recipe in a TOML or JSON file."""
    try:
        text = path.read_text(encoding="utf-8")
        record = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a recipe, got {error}.") from error
    return from_record(record, where=f"{path}: ")


def from_record(record: Mapping[str, Any], where: str = "") -> Recipe:
    """The recipe of a JSON object; a ConfigError that names the wrong key and the right one."""
    try:
        return Recipe.model_validate(record)
    except ValidationError as error:
        raise ConfigError(where + "; ".join(map(_explained, error.errors()))) from error


def _explained(fault: Any) -> str:  # noqa: ANN401 - pydantic's own record
    key = ".".join(map(str, fault["loc"]))
    if fault["type"] != "extra_forbidden":
        return f"{key}: {fault['msg']}, got {fault.get('input')!r}"
    inner: dict[str, type[_Frozen]] = {
        "words": Words, "augment": Augment, "sampling": Sampling, "phases": Phase, "validation": Validation,
    }  # fmt: skip
    *above, last = map(str, fault["loc"])
    known = list((inner.get(above[0], Recipe) if above else Recipe).model_fields)
    return f'"{key}" is not a key of a recipe.{did_you_mean(last, known)} Keys there: {", ".join(known)}'


CHANGEABLE = ("data", "image", "caption", "method")
"""The parts whose kind may be changed by `--set method.kind=infonce`."""


def _registry(key: str) -> Registry[Any]:
    """The registry of a part; imported late, for a recipe is read without torch."""
    from pcme.data.layout import registry as datasets
    from pcme.methods.base import registry as methods
    from pcme.nn.backbone import caption_backbones, image_backbones

    registries: dict[str, Registry[Any]] = {
        "data": datasets, "image": image_backbones, "caption": caption_backbones, "method": methods,
    }  # fmt: skip
    return registries[key]


def _set(record: Any, keys: Sequence[str], value: object, path: str) -> None:  # noqa: ANN401 - JSON
    """Set the value at the end of some keys; `path` names them in errors."""
    for key in keys[:-1]:
        if isinstance(record, dict) and key not in record:
            hint = did_you_mean(key, record)
            raise ConfigError(f'"{path}": there is no key "{key}".{hint} Keys there: {", ".join(record)}')
        record = record[_key(record, key, path)]
    record[_key(record, keys[-1], path)] = value


def _key(record: object, key: str, path: str) -> str | int:
    """The key of an object, or the position in a list."""
    if isinstance(record, dict):
        return key
    if not isinstance(record, list):
        raise ConfigError(f'"{path}": leads into a plain value. Set the key above it.')
    if key.isdigit() and int(key) < len(record):
        return int(key)
    raise ConfigError(f'"{path}": "{key}" is not a position from 0 to {len(record) - 1}')


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
