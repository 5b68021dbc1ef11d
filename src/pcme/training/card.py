"""The model card of a run's folder: how it was trained and how good it is, in Markdown."""

import torch

from pcme.core.versions import versions
from pcme.data.dataset import CaptionDataset
from pcme.model.card import Figures, bullets, described, metric_names, percentages, table, usage, vocabulary_limit
from pcme.training.runs import Run


def card(run: Run, figures: Figures) -> str:
    """The README.md of a run's folder after a validation with these figures."""
    recipe, position, model = run.recipe, run.position, run.model
    words = len(model.vocab.words) if model.tokeniser is model.vocab else None
    facts = {
        "method": described(recipe.method),
        "image backbone": described(recipe.image),
        "caption backbone": described(recipe.caption),
        "data": described(recipe.data),
        "trained on": _sizes(run.train_set),
        "dimensions": f"{recipe.dim:,}",
        **({} if words is None else {"words": f"{words:,}"}),
        "steps so far": f"{position.total:,} of at most {run.total_steps:,}",
        "precision": recipe.precision,
        "seed": str(recipe.seed),
    }
    validations = {"best": position.best_figures, "last": figures}
    metrics = metric_names(validations.values())
    rows = [(name, *row) for name, values in validations.items() for row in percentages(values, metrics)]
    parts = [
        f"# {recipe.name}",
        f"Probabilistic embeddings of images and captions, trained with pcme {versions()['pcme']} and "
        f"torch {torch.__version__}.",
        "## What was trained",
        table(("key", "value"), facts.items()),
        "All of it is in `recipe.json`; every step is in `metrics.jsonl`.",
        "## How good it is",
        f"On the validation split, {_sizes(run.val_set)}, in %. `weights.safetensors` is the best of all "
        f"validations (step {position.best_step:,}), `last/` the last (step {position.total:,}).",
        table(("validation", "direction", *metrics), rows),
        "`chance` is what a random order reaches.",
        "## How to use it",
        usage(f'pcme.load("{run.folder.name}")'),
        f"The score it was trained and judged with is `{type(model.score()).__name__}`, with the parameters it "
        "learned: `model.score()`.",
        "## Limits",
        bullets(
            [
                "Figures are on the validation split, by which the best weights were chosen; those on a test split may "
                "be lower.",
                *vocabulary_limit(words),
                f"It was trained on {run.train_set.name}; other kinds of images are untested.",
            ]
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _sizes(data: CaptionDataset) -> str:
    return f"{data.where}: {len(data.images):,} images, {len(data.captions):,} captions"
