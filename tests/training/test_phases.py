import json
from collections import Counter

import pytest
import torch
from torch import nn

from pcme import recipes
from pcme.data.loading import features
from pcme.errors import ConfigError
from pcme.recipes.schema import Phase
from pcme.training import Reporter, train
from pcme.training.phases import set_mode, towers_are_frozen, trained_groups
from tests.models import build
from tests.nn import tiny
from tests.training.trained import SHORT, TINY, Notes, same_run, train_cut, weights


@pytest.fixture
def model():
    return build()


def phase(**options):
    return Phase(epochs=1, learning_rate=1e-3, **options)


def factors_of(model, chosen, *, words=True):
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = trained_groups(model, None, chosen, words=words)
    return {names[id(p)]: group["factor"] for group in groups for p in group["params"]}


@pytest.mark.parametrize(("backbone", "frozen"), [("frozen", 2), ("all", 0), (1, 1), (2, 0), (9, 0)])
def test_the_last_blocks_learn_and_the_others_are_frozen(model, backbone, frozen):
    """More blocks than there are is all of them."""
    chosen = phase(backbone=backbone)
    factors = factors_of(model, chosen)
    set_mode(model, chosen)
    for number, block in enumerate(model.images.network.blocks()):
        learns = number >= frozen
        assert any(name.startswith(f"images.network.stack.{number}.") for name in factors) == learns
        assert block.training == learns
        assert all(p.requires_grad == learns for p in block.parameters())


def test_factors_and_words(model):
    chosen = phase(backbone="all", backbone_factor=0.1, sigma_factor=0.5)
    factors = factors_of(model, chosen, words=False)
    for name, factor in factors.items():
        expected = 0.1 if name.startswith("images.network.") else 1.0
        assert factor == (0.5 if ".heads.sigma." in name else expected)
    assert "captions.words.words.weight" not in factors
    assert "objective.scale" in factors


@pytest.mark.parametrize(
    ("says", "train", "learns"),
    [(None, True, True), (None, False, False), ("frozen", True, False), ("trained", False, True)],
)
def test_a_phase_may_say_of_its_own_whether_word_vectors_learn(model, says, train, learns):
    """Paper: §C.2, feature extractors of each modality are frozen first. The GRUs are heads, and learn."""
    factors = factors_of(model, phase(words=says), words=train)
    assert ("captions.words.words.weight" in factors) == learns
    assert "captions.words.gru.weight_ih" in factors


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A model whose captions are read by word vectors and by a small text tower of two layers."""
    folder = tmp_path_factory.mktemp("bert")
    tiny.saved(tiny.bert, folder, words=True)
    parts = [{"kind": "gru"}, {"kind": "hub", "source": str(folder)}]
    return build("aviary-tiny", f"caption={json.dumps({'kind': 'joined', 'parts': parts})}")


LAYERS = ("embeddings.", "encoder.layer.0.", "encoder.layer.1.", "pooler.")


@pytest.mark.parametrize(("learns", "frozen"), [(None, 4), ("frozen", 4), (1, 2), (2, 1), (3, 0), (9, 0), ("all", 0)])
def test_the_last_layers_of_a_text_tower_learn_at_a_rate_of_their_own(reader, learns, frozen):
    """What stands above the layers, here a layer for pooling, goes with the last one."""
    chosen = phase(text_tower=learns, text_tower_factor=0.01, sigma_factor=0.5)
    factors = factors_of(reader, chosen)
    tower = "captions.words.parts.1.tower."
    for number, layer in enumerate(LAYERS):
        found = {factor for name, factor in factors.items() if name.startswith(tower + layer)}
        assert found == (set() if number < frozen else {0.01})
    others = {name: factor for name, factor in factors.items() if not name.startswith(tower)}
    assert others["captions.words.parts.0.words.weight"] == 1.0
    assert set(others.values()) == {0.5, 1.0}
    assert towers_are_frozen(reader, chosen) == (frozen == 4)
    set_mode(reader, chosen)
    assert not any(part.training for part in reader.captions.words.parts[1].tower.modules())


class WordVectors(Reporter):
    """Collects the word vectors after every step, by phase."""

    def begin(self, run):
        self.seen = {}

    def step(self, run, values):
        vectors = run.model.captions.words.words.weight.detach().clone()
        self.seen.setdefault(run.position.phase, []).append(vectors)


def test_word_vectors_held_in_the_first_phase_learn_in_the_second_also_after_a_cut(tmp_path):
    recipe, watch = TINY.changed(["phases.0.words=frozen"]), WordVectors()
    train(recipe, tmp_path / "straight", reporter=watch)
    held, learning = watch.seen[0], watch.seen[1]
    assert all(torch.equal(held[0], vectors) for vectors in held)
    assert not torch.equal(held[0], learning[0])
    assert not torch.equal(learning[0], learning[-1])
    for after in (4, 8):
        run = tmp_path / str(after)
        train_cut(recipe, run, after)
        train(recipe, run, resume=True)
        assert same_run(run, tmp_path / "straight")


def test_labels_train_the_backbone_and_the_probe_alone(model):
    probe = nn.Linear(16, 3)
    (group,) = trained_groups(model, probe, phase(task="labels"), words=True)
    expected = [*model.images.network.parameters(), *probe.parameters()]
    assert {id(p) for p in group["params"]} == {id(p) for p in expected}
    assert not model.objective.scale.requires_grad


@pytest.mark.parametrize("wrong", [0, -1, "some"])
def test_a_number_of_blocks_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ConfigError, match="backbone"):
        recipes.get("aviary-tiny").changed([f"phases.0.backbone={wrong}"])


@pytest.fixture
def caches(tmp_path, monkeypatch):
    """Counts the caches of each split."""
    monkeypatch.setenv("PCME_CACHE", str(tmp_path / "cache"))
    return lambda: Counter(path.parent.name.split("-")[1] for path in tmp_path.glob("cache/features/*/manifest.json"))


CUT = SHORT.changed(["phases.1.backbone=1"])


def with_backbones(*backbones):
    phases = [{"epochs": 1, "learning_rate": 1e-3, "backbone": backbone} for backbone in backbones]
    return SHORT.changed([f"phases={json.dumps(phases)}"])


def test_the_last_block_learns_from_cached_maps_as_from_pixels(tmp_path, monkeypatch, caches):
    train(CUT, tmp_path / "maps")
    monkeypatch.setattr("pcme.nn.images.convnet.ConvNetwork.chained", False)
    train(CUT, tmp_path / "pixels")
    maps, pixels = weights(tmp_path / "maps" / "last"), weights(tmp_path / "pixels" / "last")
    assert caches() == {"train": 2, "val": 1}
    for name, value in maps.items():
        frozen = name.startswith("images.network.stack.0.")
        assert torch.allclose(value, pixels[name], rtol=0, atol=0 if frozen else 0.02)  # half precision


@pytest.mark.parametrize(
    ("backbones", "passes", "expected"),
    [
        (["frozen", 1], 1, {"train": 2, "val": 1}),
        (["frozen", 2], 1, {"train": 1, "val": 1}),
        # a phase in between changes the blocks: the features are this run's own then, also for an equal phase
        (["frozen", "all", 1], 2, {"train": 2, "val": 1}),
        (["frozen", "all", "frozen"], 2, {"train": 2, "val": 1}),
    ],
)
def test_the_inputs_of_later_phases_are_cached_in_the_same_pass(
    tmp_path, monkeypatch, caches, backbones, passes, expected
):
    computed, real = [], features._compute
    monkeypatch.setattr(features, "_compute", lambda *args: computed.append(real(*args)))
    train(with_backbones(*backbones), tmp_path / "run")
    assert len(computed) == passes + 1  # one is of the validation images
    assert caches() == expected


def test_an_augmented_image_is_cached_in_as_many_views_as_asked_for(tmp_path, caches):
    flipped, notes = CUT.changed(["augment.flip=true"]), Notes()
    train(flipped, tmp_path / "afresh", reporter=notes)
    assert sum("augment.views" in text for text in notes.texts) == 2
    assert caches() == {"val": 1}
    train(flipped.changed(["augment.views=3"]), tmp_path / "views")
    assert caches() == {"train": 6, "val": 1}
