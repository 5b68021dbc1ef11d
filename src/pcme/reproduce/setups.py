"""Setups: the data a reproduction runs on, its recipe, and how that differs from the paper.

Aviary is drawn; CUB Captions and COCO have to be provided. CUB is there twice: with the batches of the paper, and with
those of the recipe `cub-effnet`. All rows of all experiments of a setup start from one recipe and differ by what the
experiment is about.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any

from pcme import methods, recipes
from pcme.errors import ConfigError
from pcme.recipes.schema import Recipe
from pcme.reproduce import settings


@dataclass(frozen=True)
class Setup:
    """A dataset and a recipe that experiments start from."""

    name: str
    base: str
    """The recipe that every row changes."""
    quick: tuple[str, ...]
    """Changes of the recipe with --quick."""
    splits: Mapping[str, str]
    """{"unseen" or "seen": the split}: classes that training never saw, or new images of others."""
    needs: str
    """The files that a user has to provide."""
    data: str
    """The differences of the data from the paper's."""
    training: str
    """The differences of training from the paper's; `{...}` are fields of the recipe."""
    shared: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of all methods that have them."""
    always: tuple[str, ...] = ()
    """Changes of the recipe in all runs."""
    by_method: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Parameters of some methods."""
    searched: tuple[settings.Setting, ...] = ()
    """Settings that a search found for some methods."""
    options: str = ""
    """Options of the command line besides the data's folder."""
    labels: str = ""
    """The file with the labels that define plausible matches, where there is one."""

    def assignments(self, method: Mapping[str, Any], changes: Sequence[str] = (), *, quick: bool) -> list[str]:
        """The values of `pcme train BASE --set ...` for a row; one without a method has the recipe's."""
        if not method:
            return [*(self.quick if quick else ()), *changes]
        kind = method["kind"]
        shared = {name: value for name, value in self.shared.items() if name in methods.registry.fields(kind)}
        found, further = settings.settings_of(method, self.searched)
        params = {"kind": kind, **shared, **self.by_method.get(kind, {}), **found, **method}
        return [f"method={json.dumps(params)}", *self.always, *further, *(self.quick if quick else ()), *changes]

    def recipe(self, assignments: Sequence[str] = (), *, seed: int = 0) -> Recipe:
        """The recipe of a row."""
        return recipes.get(self.base).changed([*assignments, f"seed={seed}"])

    def protocol(self, *, quick: bool) -> str:
        """The differences of a run from the paper's, in words."""
        recipe = self.recipe((*self.always, *(self.quick if quick else ())))
        epochs = " + ".join(str(phase.epochs) for phase in recipe.phases if phase.task == "match")
        return f"{self.data} {self.training.format(recipe=recipe, epochs=epochs)}".strip()

    def starting_from(self, base: str) -> "Setup":
        """The same data with another recipe, as it stands: nothing is changed in it but the seed."""
        splits = {"unseen": self.splits["unseen"]}
        return replace(
            self, base=base, quick=(), splits=splits, training="", shared={}, always=(), by_method={}, searched=(),
            options="",
        )  # fmt: skip

    def command(
        self,
        experiment: str,
        *,
        quick: bool = False,
        seeds: int | None = None,
        changes: Sequence[str] = (),
        folds: bool = False,
    ) -> str:
        """The command line of an experiment; changes replace the options of the setup."""
        parts = [f"pcme reproduce {experiment} --data {self.name}"]
        parts += ["--data-root PATH"] if self.needs else []
        parts += ["--quick"] if quick else []
        parts += ["--folds"] if folds else []
        parts += [] if seeds is None else [f"--seeds {seeds}"]
        usual = [self.options] if self.options and not quick else []
        return " ".join([*parts, *([f"--set {quote(c)}" for c in changes] or usual)])


_COCO = {"scale": 30.0, "shift": 30.0}
_COCO_MEANS = {**_COCO, "uniformity_weight": 0.0}
_COCO_PCME = {**_COCO_MEANS, "kl_weight": 0.00256, "log_sigma_bounds": "none"}
_MEANS = {"pcme-mu": {"uniformity_weight": 0.03}}
"""PCME's, and the default. It stands here because the default was 0 before: such runs are not taken for these."""

_CAPTIONER = {"caption_hidden": 128, "caption_words": 64}
_REGIONS = {"vsrn": _CAPTIONER, "vsrn-aoq": _CAPTIONER}
"""A captioner that a CPU can train; its authors' has 512 and 300."""

AVIARY = Setup(
    name="aviary",
    base="aviary",
    quick=("phases.1.epochs=16", "validation.every_epochs=16", "augment.views=2", "data.captions_per_image=4"),
    splits={"unseen": "test"},
    needs="",
    data=(
        "Aviary instead of CUB Captions: drawn birds of species that training never saw, where a "
        "caption matches the images it is true of, not those of its class; so figures are higher "
        "than the paper's throughout, and only which row is better can be compared."
    ),
    training=(
        "A small convolutional backbone that has learnt the labels of the training birds and is then frozen, instead "
        "of a ResNet-50 from ImageNet that is tuned; D = {recipe.dim} instead of 512; epochs of new captions on the "
        "heads: {epochs}. All true matches of a batch are positives, for every method. PCME's KL weight is "
        "the paper's at D = 512; in these units the paper's falls with D."
    ),
    by_method={**_MEANS, **_REGIONS},
)

_BIRDS_TRAINING = (
    "A frozen EfficientNet-Lite0 and GloVe with 50 numbers instead of a ResNet-50 that is tuned and GloVe with "
    "300; D = {recipe.dim} instead of 512; epochs on the heads: {epochs}, instead of 10 and then 50 on everything; "
)
_BIRDS_SETTINGS = (
    " The learning rate and one setting of each method were searched on validation classes, with 128 random pairs a "
    "batch (docs/results/real.md); other rows of the method share them."
)

CUB = Setup(
    name="cub",
    base="cub-effnet",
    quick=("phases.0.epochs=1",),
    splits={"unseen": "test", "seen": "seen"},
    needs="CUB-200-2011 with the captions of Reed et al. and the splits of Xian et al.",
    data="CUB Captions, as far as it is there.",
    training=f"{_BIRDS_TRAINING}a batch is one pair of each class, as the paper's.{_BIRDS_SETTINGS}",
    shared={"positives": "matches", "attention_hidden": 128},
    always=('sampling={"kind":"one-per-class"}',),
    by_method=_REGIONS,
    searched=settings.CUB,
)

CUB_PAIRS = replace(
    CUB,
    name="cub-pairs",
    training=(
        f"{_BIRDS_TRAINING}128 random pairs a batch, a caption's own image its only positive, for every method, where "
        f"the paper has one pair of each class.{_BIRDS_SETTINGS}"
    ),
    shared={"positives": "diagonal", "attention_hidden": 128},
    always=(),
)

COCO = Setup(
    name="coco",
    base="coco",
    quick=(
        'image={"kind":"efficientnet-lite","variant":0}',
        'words={"vectors":"package","min_count":4}',
        'phases=[{"epochs":1,"learning_rate":0.01,"warmup_steps":50,"sigma_factor":0.1}]',
        "dim=256",
    ),
    splits={"unseen": "test"},
    needs="MS-COCO 2014: images, captions, instances and Karpathy's split",
    data="MS-COCO with Karpathy's split, as the paper.",
    training=(
        "{recipe.image.kind} and word vectors from {recipe.words.vectors}, D = {recipe.dim}, epochs: {epochs}; of the "
        "paper's ResNet-152, GloVe 840B, D = 1,024 and 30 + 30 epochs. Baselines have their methods' defaults."
    ),
    by_method={"pcme": _COCO_PCME, "pcme-mu": _COCO_MEANS},
    options="--set image.weights=resnet152.pth --set words.vectors=glove.840B.300d.txt",
    labels="annotations/instances_val2014.json",
)

SETUPS: Mapping[str, Setup] = {setup.name: setup for setup in (AVIARY, CUB, CUB_PAIRS, COCO)}


def find_setup(name: str) -> Setup:
    """The setup called `name`."""
    if name not in SETUPS:
        raise ConfigError(f'unknown data "{name}". Known: {", ".join(SETUPS)}.')
    return SETUPS[name]
