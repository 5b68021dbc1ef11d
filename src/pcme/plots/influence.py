"""The picture of `influence`: what the loss of each word does."""

from collections.abc import Sequence

from pcme.analysis.influence import Left, WordInfluence, WordInfluences
from pcme.plots.style import INK, PALETTE, Axes, Figure, divided, panels_of, shortened, styled

__all__ = ["draw_influence"]

SHOWN = 9
"""Words from either end of the list."""


@styled
def draw_influence(result: WordInfluences) -> Figure:
    """Words on average on the left, single captions on the right."""
    figure = Figure(figsize=(6.4, 5.4), layout="constrained")
    left, right = divided(figure, widths=(1, 1.15))
    _words(panels_of(left)[0], result.words)
    panels = panels_of(right, max(len(result.examples), 1))
    for axes, example in zip(panels, result.examples, strict=True):
        _example(axes, example)
    if result.examples:
        panels[-1].set_xlabel("change when the word is left out")
        right.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _words(axes: Axes, words: Sequence[WordInfluence]) -> None:
    ends = words if len(words) <= 2 * SHOWN else [*words[:SHOWN], *words[-SHOWN:]]
    places = range(len(ends))
    axes.barh(places, [word.log_sigma for word in ends], color=PALETTE[0], height=0.75)
    axes.axvline(0, color=INK, linewidth=0.8)
    if len(words) > 2 * SHOWN:
        axes.axhline(SHOWN - 0.5, color=INK, linestyle=":", linewidth=1)
    axes.set_yticks(places, [f"{shortened(word.word, 12)} ({word.times})" for word in ends])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set(title="words, on average", xlabel="change of mean log σ", ylabel="word (captions)")


def _example(axes: Axes, example: Left) -> None:
    places = range(len(example.words))
    axes.barh(
        [place - 0.2 for place in places], example.log_sigma, color=PALETTE[0], height=0.36,
        label="mean log σ",
    )  # fmt: skip
    axes.barh(
        [place + 0.2 for place in places], example.log_p, color="white", edgecolor=PALETTE[4],
        height=0.36, label="log p, its image",
    )  # fmt: skip
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(places, [shortened(word, 12) for word in example.words], fontsize=7.5)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_ylabel(f"p {example.p:.2f}")
