"""The model card of a run's folder: how it was trained and how good it is, in Markdown."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

import torch

from pcme.model.card import Figures, bullets, described, metric_names, percentages, table, usage, vocabulary_limit
from pcme.training.runs import Run


def card(run: Run, figures: Figures) -> str:
    """The README.md of a run's folder after a validation with these figures."""
    recipe, position = run.recipe, run.position
    parts = [
        f"# {recipe.name}",
        f"Probabilistic embeddings of images and captions, trained with pcme {_version()} and "
        f"torch {torch.__version__}.",
        "## What was trained",
        table(("key", "value"), _facts(run)),
        "All of it is in `recipe.json`; every step is in `metrics.jsonl`.",
        "## How good it is",
        f"On the validation split, {run.val_set.where}: {len(run.val_set.images):,} images, "
        f"{len(run.val_set.captions):,} captions, in %. `weights.safetensors` is the best of all "
        f"validations (step {position.best_step:,}), `last/` the last (step {position.total:,}).",
        _figures({"best": position.best_figures, "last": figures}),
        "`chance` is what a random order reaches.",
        "## How to use it",
        usage(f'pcme.load("{run.folder.name}")'),
        f"The score it was trained and judged with is `{type(run.model.score()).__name__}`, with "
        "the parameters it learned: `model.score()`.",
        "## Limits",
        bullets(
            [
                "Figures are on the validation split, by which the best weights were chosen; those "
                "on a test split may be lower.",
                *vocabulary_limit(_words(run)),
                f"It was trained on {run.train_set.name}; other kinds of images are untested.",
            ]
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _facts(run: Run) -> Iterable[tuple[str, str]]:
    recipe, position = run.recipe, run.position
    yield "method", described(recipe.method)
    yield "image backbone", described(recipe.image)
    yield "caption backbone", described(recipe.caption)
    yield "data", described(recipe.data)
    yield (
        "trained on",
        f"{run.train_set.where}: {len(run.train_set.images):,} images, {len(run.train_set.captions):,} captions",
    )
    yield "dimensions", f"{recipe.dim:,}"
    if (words := _words(run)) is not None:
        yield "words", f"{words:,}"
    yield "steps so far", f"{position.total:,} of at most {run.total_steps:,}"
    yield "precision", recipe.precision
    yield "seed", str(recipe.seed)


def _figures(validations: dict[str, Figures]) -> str:
    """One row per validation and direction; columns are the metrics."""
    metrics = metric_names(validations.values())
    rows = [(name, *row) for name, figures in validations.items() for row in percentages(figures, metrics)]
    return table(("validation", "direction", *metrics), rows)


def _words(run: Run) -> int | None:
    own = run.model.tokeniser is run.model.vocab
    return len(run.model.vocab.words) if own else None


def _version() -> str:
    try:
        return version("pcme")
    except PackageNotFoundError:  # run from its source
        return "(not installed)"
