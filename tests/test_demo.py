"""The demo's world is true to its word, and its tables come out."""

import numpy as np

from pcme import demo, metrics, scores


def test_a_wider_caption_fits_more_images():
    _, captions, matches = demo.world(seed=0)
    sigma = captions.uncertainty().numpy()
    order = np.argsort(sigma)
    fewest, most = matches.counts[order[:50]].mean(), matches.counts[order[-50:]].mean()
    assert most == demo.IMAGES
    assert fewest < 20


def test_overlap_ranks_its_world_far_above_chance():
    images, captions, matches = demo.world(seed=1)
    found = metrics.r_precision(scores.create("overlap")(captions, images), matches)
    assert found.mean() > 2 * metrics.chance(matches).mean()


def test_it_prints_every_score(capsys):
    demo.main()
    out = capsys.readouterr().out
    assert all(name in out for name in scores.names())
