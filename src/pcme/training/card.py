"""The model card: what a run's folder holds, how it was made and how good it is, in Markdown."""

from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version

import torch

from pcme.recipes.schema import Part
from pcme.training.runs import Figures, Run

__all__ = ["card"]


def card(run: Run, figures: Figures) -> str:
    """The README.md of a run's folder after a validation with these figures."""
    recipe, position = run.recipe, run.position
    parts = [
        f"# {recipe.name}",
        f"Probabilistic embeddings of images and captions, trained with pcme {_version()} and "
        f"torch {torch.__version__}.",
        "## What was trained",
        _table(("key", "value"), _facts(run)),
        "All of it is in `recipe.json`; every step is in `metrics.jsonl`.",
        "## How good it is",
        f"On the validation split, {run.val_set.where}: {len(run.val_set.images):,} images, "
        f"{len(run.val_set.captions):,} captions, in %. `weights.safetensors` is the best of all "
        f"validations (step {position.best_step:,}), `last/` the last (step {position.total:,}).",
        _figures({"best": position.best_figures, "last": figures}),
        "`chance` is what a random order reaches.",
        "## How to use it",
        _usage(run),
        "## Limits",
        _limits(run),
    ]
    return "\n\n".join(parts) + "\n"


def _facts(run: Run) -> Iterable[tuple[str, str]]:
    recipe, position = run.recipe, run.position
    yield "method", _part(recipe.method)
    yield "image backbone", _part(recipe.image)
    yield "caption backbone", _part(recipe.caption)
    yield "data", _part(recipe.data)
    yield (
        "trained on",
        f"{run.train_set.where}: {len(run.train_set.images):,} images, "
        f"{len(run.train_set.captions):,} captions",
    )
    yield "dimensions", f"{recipe.dim:,}"
    if run.model.tokeniser is run.model.vocab:
        yield "words", f"{len(run.model.vocab.words):,}"
    yield "steps so far", f"{position.total:,} of at most {run.total_steps:,}"
    yield "precision", recipe.precision
    yield "seed", str(recipe.seed)


def _figures(columns: dict[str, Figures]) -> str:
    """One row for each validation and direction; columns are the metrics."""
    rows = [
        (name, way, *(f"{100 * value:.2f}" for value in values.values()))
        for name, figures in columns.items()
        for way, values in figures.items()
    ]
    metrics = next((list(v) for f in columns.values() for v in f.values()), [])
    return _table(("validation", "direction", *metrics), rows)


def _usage(run: Run) -> str:
    code = (
        "```python\n"
        "import pcme\n\n"
        f'model = pcme.load("{run.folder.name}")\n'
        'captions = model.encode_captions(["a small red bird"])\n'
        'images = model.encode_images(["bird.jpg"])\n'
        "scores = model.score()(captions, images)  # [1, 1], higher is better\n"
        "```"
    )
    score = type(run.model.score()).__name__
    return (
        f"{code}\n\nThe score it was trained and judged with is `{score}`, with the parameters it "
        "learned: `model.score()`."
    )


def _limits(run: Run) -> str:
    words = (
        f"- It knows the {len(run.model.vocab.words):,} words of its training captions; all others "
        "are one unknown word.\n"
    )
    return (
        "- Figures are on the validation split, by which the best weights were chosen; those on a "
        "test split may be lower.\n"
        f"{words if run.model.tokeniser is run.model.vocab else ''}"
        f"- It was trained on {run.train_set.name}; what it makes of other pictures is not known."
    )


def _part(part: Part) -> str:
    params = ", ".join(f"{key}={value!r}" for key, value in part.params.items())
    return f"{part.kind} ({params})" if params else part.kind


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _version() -> str:
    try:
        return version("pcme")
    except PackageNotFoundError:  # run from its source
        return "(not installed)"
