"""Mining before an epoch: the table against a loop, runs that go on with it, a step on its batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pcme.data.loading.batches import Loader
from pcme.embedding import Points
from pcme.evaluation import embed
from pcme.methods.base import Mining
from pcme.retrieval.matches import Matches
from pcme.scores import create
from pcme.training import checkpoint, offline, train
from pcme.training.optim import AdamP
from pcme.training.phases import trained_groups
from pcme.training.prepare import loader, prepare_run
from pcme.training.runs import Reporter
from pcme.training.steps import apply_gradients, gradients_of
from tests.helpers import generator
from tests.one_device import OneDevice
from tests.training.trained import SHORT, Interrupt, Notes, logged, same_run

pytestmark = pytest.mark.usefixtures("one_thread")
AOQ = SHORT.changed(['method={"kind":"vsrn-aoq","caption_hidden":6,"caption_words":4,"candidates":5}'])
STORED = AOQ.changed(["sampling.afresh=false"])


def begun(folder, recipe=STORED):
    return prepare_run(recipe, folder, None, workers=0, strict=False, reporter=Reporter())


def expected(queries, gallery, true, count):
    """The best false items of each query, by sorting all of them."""
    rows = []
    for query, mine in zip(queries, true, strict=True):
        order = sorted(range(len(gallery)), key=lambda n: float((query - gallery[n]).square().sum()))
        wrong = [n for n in order if not mine[n]]
        rows.append([wrong[k % len(wrong)] if wrong else -1 for k in range(count)])
    return rows


@pytest.mark.parametrize("positives", ["matches", "diagonal"])
def test_the_table_against_a_loop(tmp_path, positives):
    run = begun(tmp_path)
    data = run.train_set
    table = offline.mine(run, Mining(5, positives), None)
    embedded = embed(run.model, data, run.problems, workers=0)
    images, captions = embedded.images.x[:, 0].double(), embedded.captions.x[:, 0].double()
    own = data.caption_image[:, None] == np.arange(len(data.images))
    true = data.matches().dense() if positives == "matches" else own
    assert table.captions.tolist() == expected(images, captions, true.T, 5)
    assert table.images.tolist() == expected(captions, images, true, max(1, round(5 * len(images) / len(captions))))


def test_items_with_few_false_ones_have_them_several_times_and_those_without_none():
    x = torch.nn.functional.normalize(torch.randn(3, 4, generator=generator()), dim=1)
    true = Matches.from_dense(np.array([[True, True, True], [True, False, True], [False, False, True]]))
    found = offline._false(create("mean"), Points(x[:, None]), Points(x[:, None]), true, 2)
    nearer = sorted((0, 1), key=lambda n: -float(x[2] @ x[n]))
    assert found.tolist() == [[-1, -1], [1, 1], nearer]


def test_images_that_cannot_be_used_have_no_negatives_and_are_none(tmp_path):
    class Some:
        """Features of all images but two."""

        def row(self, index):
            return None if index in (0, 7) else features[index]

    run = begun(tmp_path)
    count = len(run.train_set.images)
    features = torch.randn(count, 4, run.model.images.network.features, generator=generator())
    table = offline.mine(run, Mining(5, "diagonal"), Some())
    unusable = np.isin(run.train_set.caption_image, (0, 7))
    assert (table.captions[[0, 7]] == -1).all()
    assert (table.images[unusable] == -1).all()
    assert (table.captions >= 0).all(1).sum() == count - 2
    assert not {0, 7} & set(table.images.ravel().tolist())
    assert not set(np.flatnonzero(unusable)) & set(table.captions.ravel().tolist())


@pytest.mark.parametrize("recipe", [AOQ, STORED], ids=["afresh", "stored"])
def test_a_run_mines_once_and_resumes_to_the_bit_with_the_table_it_has(tmp_path, recipe):
    recipe = recipe.changed(["phases.1.epochs=2"])
    notes, cut = Notes(), tmp_path / "cut"
    train(recipe, tmp_path / "straight", workers=0, reporter=notes)
    assert [text for text in notes.texts if "mined" in text] == [
        "negatives mined from the training set: 5 per image, 1 per caption"
    ]
    steps = [line for line in logged(tmp_path / "straight") if "loss" in line]
    per_epoch = len(steps) // 3
    # of three matching epochs, the third begins after half of the run
    assert ["offline" in line for line in steps] == [False] * 2 * per_epoch + [True] * per_epoch
    with pytest.raises(KeyboardInterrupt):
        train(recipe, cut, workers=0, reporter=Interrupt(2 * per_epoch + 1, KeyboardInterrupt))
    assert checkpoint.newest(cut / "checkpoints").tensors("offline")["captions"].shape[1] == 5
    notes = Notes()
    train(recipe, cut, workers=0, resume=True, reporter=notes)
    assert not [text for text in notes.texts if "mined" in text], "the table is in the checkpoint"
    assert same_run(tmp_path / "straight", cut)


def test_the_parts_of_a_batch_are_those_of_the_sampler_and_stay_on_their_device(tmp_path):
    run = begun(
        tmp_path, STORED.changed(["phases.0.backbone=all", "method.offline_from=0", "method.positives=diagonal"])
    )
    batches = offline.with_offline(run, loader(run))
    batch = next(iter(batches.epoch(0)))
    plain = next(iter(replace(batches, sampler=run.sampler).epoch(0)))
    assert isinstance(batches, Loader)
    assert len(batch) == 3 * len(plain)
    assert batch.matches.shape == (len(batch), len(batch))
    assert np.array_equal(batch.image_index[: len(plain)], plain.image_index)
    run.model.to("meta")
    optimiser = AdamP(trained_groups(run.model, None, run.phase, words=True), lr=1e-3)
    with OneDevice():
        values, _ = gradients_of(run, batch, optimiser)
        apply_gradients(run, optimiser, 1e-3)
    assert set(values.terms) == {"rank", "offline", "caption"}


def test_a_method_without_offline_negatives_has_its_batches_as_they_are(tmp_path):
    run = begun(tmp_path, SHORT)
    batches = loader(run)
    assert offline.with_offline(run, batches) is batches
    assert run.offline is None
