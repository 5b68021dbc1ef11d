from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pcme.data.aviary.attributes import ATTRIBUTES, BACKGROUND, BREAST, COLOURS, CROWN, SHAPE, SIZE, WING, facts_of
from pcme.data.aviary.drawing import PALETTE, draw


def drawn(facts, seed=0, pixels=64):
    """The pixels [y, x, rgb] as integers that can be subtracted."""
    image = draw(facts, np.random.default_rng(seed), pixels=pixels)
    return np.asarray(image).astype(int)


def birds(count, seed=0):
    return np.random.default_rng(seed).integers(0, SHAPE, (count, len(SHAPE)))


def nearest(pixels, colour):
    """How many pixels have almost this colour."""
    return int((np.abs(pixels - np.array(colour)).max(-1) < 30).sum())


def test_the_generator_decides_the_picture():
    for facts in birds(5):
        assert np.array_equal(drawn(facts, seed=1), drawn(facts, seed=1))
        assert not np.array_equal(drawn(facts, seed=1), drawn(facts, seed=2))


def test_threads_draw_what_one_thread_draws():
    facts = birds(24)
    alone = [drawn(bird, seed) for seed, bird in enumerate(facts)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(drawn, facts, range(24)))
    assert all(map(np.array_equal, alone, together))


@pytest.mark.parametrize("attribute", range(len(ATTRIBUTES)), ids=[a.name for a in ATTRIBUTES])
def test_every_value_of_an_attribute_shows_on_every_bird(attribute):
    for seed, facts in enumerate(birds(30, seed=attribute)):
        pictures = []
        for value in range(SHAPE[attribute]):
            facts[attribute] = value
            pictures.append(drawn(facts, seed))
        for i, one in enumerate(pictures):
            for other in pictures[:i]:
                changed = (np.abs(one - other).max(-1) > 40).sum()
                assert changed >= 10, (seed, facts, changed)


@pytest.mark.parametrize("attribute", [CROWN, BREAST, WING])
@pytest.mark.parametrize("value", range(6), ids=COLOURS)
def test_a_part_has_the_colour_it_is_said_to_have(attribute, value):
    other = COLOURS.index("green" if COLOURS[value] in ("black", "white", "blue") else "black")
    for seed, facts in enumerate(birds(12)):
        facts[[CROWN, BREAST, WING]] = other
        facts[BACKGROUND] = 0  # neither clouds nor water, which are white and blue
        without = nearest(drawn(facts, seed), PALETTE[value])
        facts[attribute] = value
        assert nearest(drawn(facts, seed), PALETTE[value]) >= without + 8


def test_no_bird_is_cut_off_by_the_frame():
    for seed, facts in enumerate(birds(300)):
        facts[SIZE] = 1
        picture = drawn(facts, seed)
        border = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
        assert border.max(-1).min() > 70, (seed, facts)  # the rim of a bird is darker


def test_a_large_bird_covers_more_than_a_small_one():
    for seed, facts in enumerate(birds(20)):
        facts[[CROWN, BREAST, WING, BACKGROUND]] = 0, 0, 0, 2
        covered = []
        for size in range(2):
            facts[SIZE] = size
            red, green, blue = np.moveaxis(drawn(facts, seed), -1, 0)
            covered.append((red > green + 60).sum() + (red + green + blue < 200).sum())
        assert covered[1] > 1.7 * covered[0]


def test_birds_face_both_ways():
    bird = facts_of(crown="black", breast="black", wing="black", bill="long", background="sky")
    sides = []
    for seed in range(40):
        red, green, blue = np.moveaxis(drawn(bird, seed), -1, 0)
        bill = np.nonzero(red > blue + 80)[1].mean()
        body = np.nonzero(red + green + blue < 250)[1].mean()
        sides.append(bill < body)
    assert 8 <= sum(sides) <= 32
