"""Figs 2 and 3: the sizes are those of the modules, and the drawings have a box for each of them."""

import pytest
import torch

from pcme import recipes
from pcme.errors import ConfigError
from pcme.reproduce.base import registry
from pcme.reproduce.network import WORDS, inspect
from tests.models import TINY, build

RECIPES = {
    "σ": TINY,
    "isotropic": TINY.changed(['method={"kind":"pcme-isotropic"}']),
    "no attention": TINY.changed(['method={"kind":"pcme","mean_attention":false,"sigma_attention":false}']),
    "one point": TINY.changed(['method={"kind":"pcme-mu"}']),
    "points": TINY.changed(['method={"kind":"pvse","embeddings":3}']),
    "wide GRU": TINY.changed(['caption={"kind":"gru","hidden":24}']),
}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_shapes_and_weights_are_those_of_the_model(recipe):
    found, model = inspect(recipe), build(recipe)
    sites = model.images.network(torch.zeros(1, 3, recipe.augment.size, recipe.augment.size))
    words = model.captions.words(torch.zeros(1, WORDS, dtype=torch.int64))
    assert (found.images.sites, found.images.whole) == (tuple(sites.shape[1:]), (sites.shape[-1],))
    assert (found.captions.sites, found.captions.whole) == (tuple(words.local.shape[1:]), tuple(words.pooled.shape[1:]))
    assert found.score == model.score().name
    for encoder, tower in ((found.images, model.images), (found.captions, model.captions)):
        for branch, head in ((encoder.mean, tower.heads.mean), (encoder.sigma, tower.heads.sigma)):
            assert (branch is None) == (head is None)
            if head is not None:
                assert branch.parameters == sum(weight.numel() for weight in head.parameters())
                assert (branch.attended is None) == (head.attention is None)
                assert (branch.base is None) == isinstance(head.base, torch.nn.Identity)
        assert encoder.mean.out[-1] == recipe.dim
    expected = sum(weight.numel() for weight in model.images.network.parameters())
    assert found.images.parameters == expected == dict(_numbers(found))["parameters of images: backbone"]
    every = sum(weight.numel() for weight in model.captions.words.parameters())
    assert found.captions.parameters == every - model.captions.words.words.weight.numel()


def _numbers(found):
    return [(number.name, number.value) for number in found.numbers()]


def test_what_differs_between_the_heads_is_told():
    found = inspect(RECIPES["σ"].changed(['method={"kind":"pcme","log_sigma_bounds":"none"}']))
    assert (found.images.mean.squashed, found.images.mean.after) == (True, ("LN", "L2"))
    assert (found.images.sigma.squashed, found.images.sigma.after) == (False, ())
    assert inspect(TINY).images.sigma.after == ("within −8 … 2",)
    assert inspect(RECIPES["isotropic"]).captions.sigma.out == (1,)
    assert inspect(RECIPES["points"]).images.mean.attended == (3, found.images.whole[0])


def test_the_papers_network_needs_no_files_of_weights():
    found = inspect(recipes.get("cub"))
    assert (found.images.input, found.images.sites) == ((3, 224, 224), (49, 2048))
    assert (found.images.mean.hidden, found.captions.mean.hidden) == (1024, 150)
    assert found.images.mean.out == found.images.sigma.out == found.captions.whole == (512,)
    assert found.images.sigma.after == ()


def test_items_that_are_vectors_have_no_network():
    with pytest.raises(ConfigError, match="Name another recipe"):
        inspect(TINY.changed(['image={"kind":"precomputed","features":4}']))


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts if text.get_text()]


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_the_overview_has_two_towers_and_one_score(recipe):
    found = inspect(recipe)
    figure = registry.create("fig2").draw(found)
    labels = texts(figure)
    with_sigma = found.images.sigma is not None
    assert len(figure.axes[0].patches) == 1 + 2 * (6 + with_sigma)
    assert sum(label.startswith("σ head") for label in labels) == 2 * with_sigma
    assert {"images", "captions", "image\n3 × 16 × 16"} <= set(labels)
    assert f"sites\n{found.images.sites[0]} × {found.images.sites[1]}" in labels
    assert sum(label.startswith(found.score) for label in labels) == 1


def test_the_heads_have_a_cell_each_with_a_box_for_every_part():
    labels = texts(registry.create("fig3").draw(inspect(TINY)))
    assert [label for label in labels if ": " in label] == [
        "images: mean", "images: σ", "captions: mean", "captions: σ"
    ]  # fmt: skip
    assert sum(label.startswith("attention (") for label in labels) == 4
    assert (labels.count("s"), labels.count("LN"), labels.count("L2"), labels.count("+")) == (2, 2, 2, 4)
    assert sum(label.startswith("μ\n16") for label in labels) == 2
    plain = texts(registry.create("fig3").draw(inspect(RECIPES["no attention"])))
    assert not [label for label in plain if label.startswith("attention") or label == "s"]


@pytest.mark.parametrize("name", ["fig2", "fig3"])
@pytest.mark.parametrize("recipe", [*RECIPES.values(), recipes.get("aviary")], ids=[*RECIPES, "aviary"])
def test_no_box_lies_on_another_or_outside_and_texts_fit_in(name, recipe):
    figure = registry.create(name).draw(inspect(recipe))
    width, height = figure.get_size_inches()
    patches = figure.axes[0].patches
    boxes = [box.get_bbox() for box in patches]
    assert all(0 <= box.x0 < box.x1 <= width and 0 <= box.y0 < box.y1 <= height for box in boxes)
    for place, box in enumerate(boxes):
        assert not any(box.shrunk(0.99, 0.99).overlaps(other) for other in boxes[:place])
    figure.draw_without_rendering()
    for patch, text in zip(patches, figure.axes[0].texts, strict=False):  # a text per box, then arrows and headings
        frame, inside = patch.get_window_extent(), text.get_window_extent()
        assert frame.x0 <= inside.x0 <= inside.x1 <= frame.x1, text.get_text()
        assert frame.y0 <= inside.y0 <= inside.y1 <= frame.y1, text.get_text()
