"""The studies on real photographs: datasets and recipes, and the methods that are their rows."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from pcme import methods
from pcme.reproduce.settings import OVERLAP

RATES = (5e-3, 1e-2)
"""Learning rates of the heads that every method is tried with."""

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """A row of the table: a method, and the one setting of its own that is searched."""

    method: Settings
    knob: str
    tried: tuple[Any, ...]
    like: str | None = None
    """Takes the settings found for this row instead of a search of its own."""
    judged: Literal["across", "within"] = "across"
    """Settings are chosen by retrieval across the modalities, or within each."""
    changes: tuple[str, ...] = ()
    """Changes of the recipe besides the method."""


WARM_STARTS = (0.5, 0.8)
"""The share of a run before the hardest negative counts alone: the longer it does, the worse these
methods became on CUB's validation classes, which matters more than another margin."""


def _pvse(embeddings: int, negatives: str, like: str | None = None) -> Entry:
    method = {"kind": "pvse", "embeddings": embeddings, "negatives": negatives}
    if negatives == "hardest":
        return Entry(method, "warm_start", WARM_STARTS, like)
    return Entry(method, "margin", (0.1, 0.2), like)


CAPTIONER = {"caption_hidden": 128, "caption_words": 64}
"""Of VSRN, as large as a CPU can train; its authors' has 512 and 300."""

PCME_OVERLAP = {"kind": "pcme-overlap", **OVERLAP, "breadth_weight": 0.0}
"""Without the terms that Aviary wants; `breadth` comes back as the setting that is searched."""

ENTRIES: Mapping[str, Entry] = {
    "VSE0": Entry({"kind": "vse0"}, "margin", (0.1, 0.2)),
    "VSE++": Entry({"kind": "vse++"}, "warm_start", WARM_STARTS),
    "VSE∞ (GPO)": Entry(
        {"kind": "vse++", "pooling": "gpo", "mean_attention": False, "mean_norm": False}, "warm_start", WARM_STARTS
    ),
    "PVSE K = 1, all": _pvse(1, "all", like="PVSE K = 2, all"),
    "PVSE K = 2, all": _pvse(2, "all"),
    "PVSE K = 4, all": _pvse(4, "all", like="PVSE K = 2, all"),
    "PVSE K = 1, hardest": _pvse(1, "hardest", like="PVSE K = 2, hardest"),
    "PVSE K = 2, hardest": _pvse(2, "hardest"),
    "PVSE K = 4, hardest": _pvse(4, "hardest", like="PVSE K = 2, hardest"),
    "PVSE K = 2, semi-hard": _pvse(2, "semi-hard"),
    "VSRN": Entry({"kind": "vsrn", **CAPTIONER}, "warm_start", WARM_STARTS),
    "VSRN + AOQ": Entry({"kind": "vsrn-aoq", **CAPTIONER}, "candidates", (300, 50)),
    "InfoNCE": Entry({"kind": "infonce"}, "temperature", (0.07, 0.2)),
    # Its authors' 0.1 is for a model that begins with the true pair near the top: in one that does
    # not, half of all pairs are pseudo-positives, which outweigh everything else.
    "PCME++": Entry({"kind": "pcme++"}, "pseudo_weight", (0.1, 0.01)),
    # The recorded runs have 0, the default of before: written here, they are made again and not taken for these.
    "PCME, μ only": Entry({"kind": "pcme-mu", "uniformity_weight": 0.03}, "scale", (10.0, 20.0)),
    "PCME, isotropic": Entry({"kind": "pcme-isotropic"}, "kl_weight", (0.064, 0.3)),
    "PCME, J = 7": Entry({"kind": "pcme", "likelihood": "sampled"}, "kl_weight", (0.064, 0.3)),
    "PCME, analytic": Entry({"kind": "pcme"}, "kl_weight", (0.064, 0.3)),
    "**PCME, overlap**": Entry(PCME_OVERLAP, "breadth_weight", (0.0, 0.5)),
    # R-Precision alone would choose no breadth, without which σ of images means little; and where
    # σ learns at a tenth of the rate, it is not yet wider with a tenth of the pixels erased.
    "**PCME, overlap, broad**": Entry(
        PCME_OVERLAP, "breadth_weight", (0.5, 1.0), changes=("phases.0.sigma_factor=1.0",)
    ),
    "HIB": Entry(
        {"kind": "hib", "side": "both"}, "kl_weight", (0.05, 0.01), judged="within"
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Study:
    """A dataset, its recipe, and which splits choose and judge."""

    recipe: str
    folder: str
    test: tuple[str, ...]
    choosing: tuple[str, ...] = ()
    """Changes of the recipe with which settings are chosen, unless --folds takes all folds: never a test image."""
    always: tuple[str, ...] = ()
    """Changes of the recipe in all runs."""
    rows: tuple[str, ...] = tuple(ENTRIES)
    like: str | None = None
    """Takes the settings found for this study instead of a search of its own."""
    positives: str = "matches"
    """Which pairs of a batch are true, for all methods that compare across the modalities."""


MAIN = (
    "VSE0", "VSE++", "PVSE K = 2, hardest", "InfoNCE", "PCME++", "PCME, μ only", "PCME, J = 7",
    "PCME, analytic", "**PCME, overlap**", "**PCME, overlap, broad**",
)  # fmt: skip

REGIONS = ("VSE∞ (GPO)", "VSRN", "VSRN + AOQ")
"""What more can be made of the sites of an image than their mean and attention."""

ONE_BACKBONE = (
    'image={"kind": "efficientnet-lite", "variant": 2}',
    "augment.size=260",
    "augment.views=2",
    "phases.1.epochs=2",
    "phases.1.learning_rate=2e-3",
)
"""The recipe with tuned stages in small: minutes a run, so that all the main rows can be made."""

STUDIES = {
    "cub": Study(
        "cub-effnet", "cub", ("test", "seen"), ("train_split=train2", "validation.split=val2"),
        positives="diagonal",
    ),
    # bfloat16: the blocks that learn take most of the time
    "cub-finetune": Study(
        "cub-effnet-finetune", "cub", ("test", "seen"), rows=MAIN, like="cub",
        always=("precision=bfloat16", *ONE_BACKBONE), positives="diagonal",
    ),
    # the recipe itself, with its own method and two others; hours, so not all the main rows
    "cub-joined": Study(
        "cub-effnet-finetune", "cub", ("test", "seen"), always=("precision=bfloat16",), like="cub",
        rows=("InfoNCE", "PCME, J = 7", "PCME, analytic"), positives="diagonal",
    ),
    # its dev images are the test, so that a part of its training images takes their place
    "flickr8k": Study(
        "flickr8k-effnet", "flickr8k", ("dev",), always=("validation.share=0.1",), rows=(*MAIN, *REGIONS)
    ),
}  # fmt: skip


def candidates(entry: Entry) -> Iterator[Settings]:
    """Equally many for every row: two rates, two values of its own setting."""
    for rate, value in product(RATES, entry.tried):
        yield {"phases.0.learning_rate": rate, f"method.{entry.knob}": value}


def judged_within(row: str) -> bool:
    """Whether the row's method compares items of one modality."""
    return ENTRIES[row].judged == "within"


def changes_of(study: Study, row: str, setting: Settings) -> list[str]:
    """The changes of the recipe that make it this row with this setting."""
    pairs = {} if judged_within(row) else {"positives": study.positives}
    method = ENTRIES[row].method
    shared = {"attention_hidden": 128, **pairs}
    fields = methods.registry.fields(method["kind"])
    method = {**{name: value for name, value in shared.items() if name in fields}, **method}
    set_values = [f"{key}={json.dumps(value)}" for key, value in setting.items()]
    return [f"method={json.dumps(method)}", *ENTRIES[row].changes, *set_values]
