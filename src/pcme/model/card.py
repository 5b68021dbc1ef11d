"""Pieces of a model card in Markdown, shared by runs and by the hub's layout."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pcme.recipes.schema import Part

Figures = Mapping[str, Mapping[str, float]]
"""{direction: {metric: share}}, as `pcme.evaluation.retrieval` gives it."""


def described(part: Part) -> str:
    """A part and its parameters: "pcme (samples=3)"."""
    params = ", ".join(f"{key}={value!r}" for key, value in part.params.items())
    return f"{part.kind} ({params})" if params else part.kind


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    cells = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def metric_names(figures: Iterable[Figures]) -> list[str]:
    """The metrics of all directions, each once."""
    return list(dict.fromkeys(n for f in figures for values in f.values() for n in values))


def percentages(figures: Figures, metrics: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """One row per direction, in %; empty where a metric was not measured."""
    for direction, values in figures.items():
        cells = (f"{100 * values[name]:.2f}" if name in values else "" for name in metrics)
        yield direction, *cells


def usage(load: str) -> str:
    """Code that loads a model, encodes and compares."""
    return (
        "```python\nimport pcme\n\n"
        f"model = {load}\n"
        'captions = model.encode_captions(["a small red bird"])\n'
        'images = model.encode_images(["bird.jpg"])\n'
        "scores = model.similarity(captions, images)  # [1, 1], higher is better\n```"
    )


def vocabulary_limit(words: int | None) -> list[str]:
    """The limit of a model with a vocabulary; none for a tower with subwords (None)."""
    return [] if words is None else [f"It knows {words:,} words; all others are one unknown word."]


def bullets(lines: Iterable[str]) -> str:
    """A Markdown list."""
    return "\n".join(f"- {line}" for line in lines)
