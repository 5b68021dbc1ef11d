"""The layout of the Hugging Face hub: `config.json`, `model.safetensors`, words and a model card.

A folder that `Model.save_pretrained` wrote can be uploaded as it is.
"""

import json
import math
from collections.abc import Iterator, Mapping
from numbers import Real
from pathlib import Path

from pcme.errors import ConfigError, FormatError
from pcme.model import folder
from pcme.model.card import Figures, bullets, described, metric_names, percentages, table, usage, vocabulary_limit
from pcme.model.origin import Origin, parse_origin
from pcme.recipes.schema import Recipe

CONFIG, WEIGHTS = "config.json", "model.safetensors"
KIND = "pcme"


def config(recipe: Recipe, origin: Origin | None = None) -> str:
    """The text of config.json, with the whole recipe."""
    record = {"model_type": KIND, "architectures": ["Model"], "recipe": recipe.record()}
    if origin is not None:
        record["origin"] = origin.model_dump()
    return json.dumps(record, indent=2) + "\n"


def read(root: Path) -> tuple[Recipe, Origin | None]:
    """The recipe and the origin in a folder's config.json; an error for other folders."""
    if not root.is_dir():
        raise ConfigError(
            f"{root}: not a folder, and only local ones are read. Download a model from the hub with "
            "`hf download NAME --local-dir FOLDER`."
        )
    path = root / CONFIG
    for name in (CONFIG, WEIGHTS, folder.VOCAB):
        if not (root / name).is_file():
            raise FormatError(
                f"{root}: not a model in the hub's layout, {name} is missing. Read folders of `Model.save` and of runs "
                "with `pcme.load`."
            )
    record = folder.read_json(path)
    if not isinstance(record, dict) or record.get("model_type") != KIND:
        raise FormatError(f'{path}: not a model of pcme, model_type must be "{KIND}".')
    origin = parse_origin(record["origin"], path) if "origin" in record else None
    return folder.parse_recipe(record.get("recipe") or {}, path), origin


def card(recipe: Recipe, words: int | None, figures: Figures, license: str, origin: Origin | None) -> str:  # noqa: A002
    """The README.md of a model: its data, its metrics, its limits.

    `words` is how many words it knows, None for a tower with subwords.
    """
    _require_figures(figures)
    parts = [
        _front_matter(recipe, figures, license),
        f"# {recipe.name}",
        "Probabilistic embeddings for image-text retrieval: every image and every caption becomes "
        "a Gaussian, whose width says how ambiguous it is (Chun et al., CVPR 2021).",
        "## Data",
        f"{_trained(recipe, origin)}; image backbone {described(recipe.image)}, caption backbone "
        f"{described(recipe.caption)}, method {described(recipe.method)}, {recipe.dim:,} dimensions.",
        *(() if origin is None else ("## Origin", _provenance(origin))),
        "## Metrics",
        _measured(figures),
        "## Use",
        usage('pcme.Model.from_pretrained("FOLDER")'),
        *(() if origin is None else ("Captions are split by nltk: `pip install 'pcme[authors]'`.",)),
        "## Limits",
        bullets(_limits(recipe, words, origin)),
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(recipe: Recipe, figures: Figures, license: str) -> str:  # noqa: A002
    lists = {
        "datasets": [kind for kind in (recipe.data.kind,) if kind != "unknown"],
        "metrics": [name for name in metric_names([figures]) if name != "chance"],
        "tags": ["image-text-retrieval", "probabilistic-embeddings", "uncertainty"],
    }
    lines = [f"license: {json.dumps(license)}", "library_name: pcme", "pipeline_tag: feature-extraction"]
    for key, names in lists.items():  # a list in YAML, of which JSON's strings are a part
        lines += [f"{key}:" if names else f"{key}: []", *(f"- {json.dumps(name)}" for name in names)]
    return "\n".join(["---", *lines, "---"])


def _require_figures(figures: object) -> None:
    shaped = isinstance(figures, Mapping) and all(
        isinstance(values, Mapping) and all(isinstance(v, Real) and math.isfinite(v) for v in values.values())
        for values in figures.values()
    )
    if not shaped:
        raise ConfigError(
            "figures: must be {direction: {metric: share}} with finite numbers, as pcme.evaluation.retrieval gives "
            f"them, got {figures!r:.80}."
        )


def _trained(recipe: Recipe, origin: Origin | None) -> str:
    if origin is None:
        return f"Trained on {described(recipe.data)}, split `{recipe.train_split}`"
    if origin.dataset == "unknown":
        return "Trained by the authors' program, on what the file does not say"
    return f"Trained by the authors' program on `{origin.dataset}`"


def _provenance(origin: Origin) -> str:
    epoch = "" if origin.epoch is None else f", epoch {origin.epoch}"
    text = (
        "The weights come from the program of the paper's authors (Chun et al. 2021, "
        "https://github.com/naver-ai/pcme; the program is MIT-licensed), imported from "
        f"{json.dumps(origin.file)}{epoch}, SHA-256 `{origin.sha256}`."
    )
    if not origin.scores:
        return text
    listing = ", ".join(f"{name} {value:.4g}" for name, value in origin.scores.items())
    return f"{text}\n\nIts own validation scores, as that file states them: {listing}."


def _measured(figures: Figures) -> str:
    metrics = metric_names([figures])
    if not metrics:
        return "Not measured when this card was written: evaluate it before use."
    rows = table(("%", *metrics), percentages(figures, metrics))
    return f"{rows}\n\n`chance` is what a random order reaches." if "chance" in metrics else rows


def _limits(recipe: Recipe, words: int | None, origin: Origin | None) -> Iterator[str]:
    yield from vocabulary_limit(words)
    yield f"Images are seen at {recipe.augment.size} pixels per side."
    if origin is not None:
        yield (
            "Image files are decoded upright and with alpha on white; the authors' code ignores "
            "EXIF orientation and alpha."
        )
    learned_from = "its training" if recipe.data.kind == "unknown" else recipe.data.kind
    yield f"Images unlike those of {learned_from} are untested."
    yield "It repeats what its data say of people and places, with their errors; do not decide about people with it."
    yield "A match probability is calibrated for the training data, if at all."
