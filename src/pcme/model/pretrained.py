"""The layout of the Hugging Face hub: `config.json`, `model.safetensors`, words and a model card.

A folder that `Model.save_pretrained` wrote can be uploaded as it is, and read again by
`Model.from_pretrained` wherever it lies.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path

from pcme.errors import ConfigError, FormatError, PcmeError
from pcme.model.origin import Origin, parsed
from pcme.recipes.schema import Part, Recipe, from_record

__all__ = ["CONFIG", "WEIGHTS", "Figures", "card", "config", "read"]

CONFIG, WEIGHTS = "config.json", "model.safetensors"
KIND = "pcme"

Figures = Mapping[str, Mapping[str, float]]
"""{direction: {metric: share}}, as `pcme.evaluation.retrieval` gives it."""


def config(recipe: Recipe, origin: Origin | None = None) -> str:
    """The text of config.json: what the model is, with all of its recipe."""
    record = {"model_type": KIND, "architectures": ["Model"], "recipe": recipe.record()}
    if origin is not None:
        record["origin"] = origin.record()
    return json.dumps(record, indent=2) + "\n"


def read(folder: Path) -> tuple[Recipe, Origin | None]:
    """What a folder's config.json has; an error for what is not a folder of ours."""
    if not folder.is_dir():
        raise ConfigError(
            f"{folder} is not a folder - only local ones are read: fetch a model from the hub "
            "first, with `hf download NAME --local-dir FOLDER`"
        )
    path = folder / CONFIG
    for name in (CONFIG, WEIGHTS, "vocab.json"):
        if not (folder / name).is_file():
            raise FormatError(
                f"{folder} is not a model in the hub's layout - it has no {name} - folders of "
                "`Model.save` and of runs are read by `pcme.load`"
            )
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{path} is damaged - {error} - put back a copy") from error
    if not isinstance(record, dict) or record.get("model_type") != KIND:
        raise FormatError(f'{path}: not a model of pcme - model_type must be "{KIND}"')
    origin = parsed(record["origin"], str(path)) if "origin" in record else None
    try:
        return from_record(record.get("recipe") or {}), origin
    except PcmeError as error:
        raise FormatError(f"{path}: its recipe cannot be used - {error}") from error


def card(
    recipe: Recipe,
    *,
    words: int | None,
    figures: Figures,
    license: str = "unknown",  # noqa: A002
    origin: Origin | None = None,
) -> str:
    """The README.md of a model: what it learned from, how good it is, what it cannot do.

    `words` is how many words it knows, None for a tower with subwords.
    """
    _require_figures(figures)
    parts = [
        _front_matter(recipe, figures, license),
        f"# {recipe.name}",
        "Probabilistic embeddings for image-text retrieval: every image and every caption becomes "
        "a Gaussian, whose width says how ambiguous it is (Chun et al., CVPR 2021).",
        "## Data",
        f"{_trained(recipe, origin)}; image backbone {_part(recipe.image)}, caption "
        f"backbone {_part(recipe.caption)}, method {_part(recipe.method)}, {recipe.dim:,} "
        "dimensions.",
        *(() if origin is None else ("## Origin", _provenance(origin))),
        "## Metrics",
        _table(figures) or "Not measured when this card was written: evaluate it before use.",
        "## Use",
        "```python\nimport pcme\n\n"
        'model = pcme.Model.from_pretrained("FOLDER")\n'
        'captions = model.encode_captions(["a small red bird"])\n'
        'images = model.encode_images(["bird.jpg"])\n'
        "scores = model.score()(captions, images)  # higher is better\n```",
        *(() if origin is None else (_NEEDS_NLTK,)),
        "## Limits",
        "\n".join(f"- {limit}" for limit in _limits(recipe, words, origin)),
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(recipe: Recipe, figures: Figures, license: str) -> str:  # noqa: A002
    metrics = _metrics(figures)
    lines = [
        f"license: {json.dumps(license)}",
        "library_name: pcme",
        "pipeline_tag: feature-extraction",
        *_listed("datasets", [kind for kind in (recipe.data.kind,) if kind != "unknown"]),
        *_listed("metrics", [name for name in metrics if name != "chance"]),
        *_listed("tags", ["image-text-retrieval", "probabilistic-embeddings", "uncertainty"]),
    ]
    return "\n".join(["---", *lines, "---"])


def _metrics(figures: Figures) -> list[str]:
    """The metrics of all directions, each once."""
    return list(dict.fromkeys(name for values in figures.values() for name in values))


def _require_figures(figures: object) -> None:
    shaped = isinstance(figures, Mapping) and all(
        isinstance(values, Mapping) and all(map(_is_finite, values.values()))
        for values in figures.values()
    )
    if not shaped:
        raise ConfigError(
            "figures must be {direction: {metric: share}} with finite numbers, as "
            f"pcme.evaluation.retrieval gives them - got {figures!r:.80}"
        )


def _is_finite(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def _trained(recipe: Recipe, origin: Origin | None) -> str:
    if origin is None:
        return f"Trained on {_part(recipe.data)}, split `{recipe.train_split}`"
    if origin.dataset == "unknown":
        return "Trained by the authors' program, on what the file does not say"
    return f"Trained by the authors' program on `{origin.dataset}`"


_NEEDS_NLTK = "Captions are split by nltk: `pip install 'pcme[authors]'`."


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


def _listed(key: str, names: Sequence[str]) -> Iterator[str]:
    """A list in YAML, of which JSON's strings are a part."""
    yield f"{key}:" if names else f"{key}: []"
    yield from (f"- {json.dumps(name)}" for name in names)


def _table(figures: Figures) -> str:
    """One row for each direction, in %."""
    if not figures:
        return ""
    columns = _metrics(figures)
    rows = [
        [way, *(f"{100 * values[name]:.2f}" if name in values else "" for name in columns)]
        for way, values in figures.items()
    ]
    lines = [["%", *columns], ["---"] * (len(columns) + 1), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\n`chance` is what a random order reaches." if "chance" in columns else table


def _limits(recipe: Recipe, words: int | None, origin: Origin | None) -> Iterator[str]:
    if words is not None:
        yield f"It knows {words:,} words; all others are one unknown word."
    yield f"Pictures are seen at {recipe.augment.size} pixels a side."
    if origin is not None:
        yield (
            "Picture files are decoded upright and with alpha on white; the authors' code ignores "
            "EXIF orientation and alpha."
        )
    yield f"What it makes of pictures unlike those of {_learned_from(recipe)} is not known."
    yield (
        "It repeats what its data say of people and places, with their errors; do not decide about "
        "people with it."
    )
    yield "A match probability is calibrated for the training data, if at all."


def _learned_from(recipe: Recipe) -> str:
    return "its training" if recipe.data.kind == "unknown" else recipe.data.kind


def _part(part: Part) -> str:
    params = ", ".join(f"{key}={value!r}" for key, value in part.params.items())
    return f"`{part.kind}` ({params})" if params else f"`{part.kind}`"
