"""The layout of the Hugging Face hub: a round trip bit for bit, a card, and damaged folders."""

import json
import sys

import pytest
import torch
import yaml

import pcme
from pcme import Model, recipes
from pcme.data.text.tokens import Vocab
from pcme.errors import ConfigError, FormatError
from pcme.model.origin import Origin
from pcme.recipes.schema import part
from tests.nn import tiny

FIGURES = {
    "i2t": {"r_precision": 0.5, "recall@1": 0.25, "chance": 0.125},
    "t2i": {"r_precision": 0.75, "recall@1": 0.5, "chance": 0.125},
}


@pytest.fixture
def model():
    vocab = Vocab.build(["a red bird", "a blue bird with a long bill"])
    vectors = torch.randn(len(vocab), 8, generator=torch.Generator().manual_seed(0))
    return Model(recipes.get("aviary-tiny"), vocab, vectors).eval()


def test_a_round_trip_is_exact(model, tmp_path):
    model.save_pretrained(tmp_path / "hub")
    again = Model.from_pretrained(tmp_path / "hub")
    assert (again.recipe, again.vocab) == (model.recipe, model.vocab)
    left, right = model.state_dict(), again.state_dict()
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)
    captions = ["a red bird", "xyzzy"]
    assert torch.equal(model.encode_captions(captions).mean, again.encode_captions(captions).mean)


def test_a_folder_that_was_loaded_anywhere_is_saved_the_same(model, tmp_path):
    model.save(tmp_path / "ours")
    pcme.load(tmp_path / "ours").save_pretrained(str(tmp_path / "hub"))
    Model.from_pretrained(str(tmp_path / "hub")).save_pretrained(tmp_path / "again")
    names = ["README.md", "config.json", "model.safetensors", "vocab.json"]
    assert sorted(path.name for path in (tmp_path / "hub").iterdir()) == names
    for name in names:
        assert (tmp_path / "hub" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_towers_of_transformers_come_along(tmp_path):
    tiny.saved(tiny.clip, tmp_path / "clip", words=True)
    sources = [f"{side}.source={tmp_path / 'clip'}" for side in ("image", "caption")]
    recipe = recipes.get("clip-heads").changed([*sources, "augment.size=16", "dim=8"])
    vocab = Vocab.build(["a bird"])
    model = Model(recipe, vocab, torch.zeros(len(vocab), recipe.words.dim)).eval()
    model.save_pretrained(tmp_path / "hub")
    (tmp_path / "clip").rename(tmp_path / "gone")
    again = Model.from_pretrained(tmp_path / "hub")
    assert torch.equal(model.encode_captions(["a bird"]).mean, again.encode_captions(["a bird"]).mean)
    assert "It knows" not in (tmp_path / "hub" / "README.md").read_text()


def test_a_missing_package_is_not_taken_for_a_damaged_folder(tmp_path, monkeypatch):
    tiny.saved(tiny.bert, tmp_path / "bert", words=True)
    caption = f'caption={{"kind": "hub", "source": "{tmp_path / "bert"}"}}'
    vocab = Vocab.build(["a bird"])
    recipe = recipes.get("aviary-tiny").changed([caption])
    Model(recipe, vocab, torch.zeros(len(vocab), 8)).save(tmp_path / "ours")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"^a hub backbone needs transformers"):
        pcme.load(tmp_path / "ours")


def test_the_card_states_data_metrics_and_limits(model, tmp_path):
    model.save_pretrained(tmp_path, figures=FIGURES, license="cc-by-4.0")
    text = (tmp_path / "README.md").read_text()
    _, front, body = text.split("---\n", 2)
    assert yaml.safe_load(front) == {
        "license": "cc-by-4.0",
        "library_name": "pcme",
        "pipeline_tag": "feature-extraction",
        "datasets": ["aviary"],
        "metrics": ["r_precision", "recall@1"],
        "tags": ["image-text-retrieval", "probabilistic-embeddings", "uncertainty"],
    }
    assert "Trained on aviary" in body
    assert "| t2i | 75.00 | 50.00 | 12.50 |" in body
    assert "It knows 7 words" in body


def test_the_card_has_the_metrics_of_all_directions(model, tmp_path):
    model.save_pretrained(tmp_path, figures={"i2t": {"a": 0.5}, "t2i": {"a": 0.25, "b": 0.125}})
    text = (tmp_path / "README.md").read_text()
    assert "| % | a | b |" in text
    assert "| i2t | 50.00 |  |" in text
    assert "| t2i | 25.00 | 12.50 |" in text


@pytest.mark.parametrize("figures", [{"i2t": 0.5}, {"i2t": {"a": "b"}}, {"i2t": {"a": float("nan")}}, [1]])
def test_wrong_figures_are_refused_before_anything_is_written(model, tmp_path, figures):
    with pytest.raises(ConfigError, match=r"figures: must be \{direction"):
        model.save_pretrained(tmp_path / "hub", figures=figures)
    assert not (tmp_path / "hub").exists()


def test_a_file_cannot_be_the_folder(model, tmp_path):
    (tmp_path / "x").write_text("x")
    for save in (model.save, model.save_pretrained):
        with pytest.raises(ConfigError, match=r"x cannot be the model's folder: .* Give another"):
            save(tmp_path / "x")


def test_an_imported_models_card_says_where_it_is_from(model, tmp_path):
    model.origin = Origin("pcme_coco.pth", "ab" * 32, "coco", 30, {"i2t.recall_1": 44.25})
    model.save_pretrained(tmp_path / "hub")
    text = (tmp_path / "hub" / "README.md").read_text()
    for said in (
        "Chun et al. 2021, https://github.com/naver-ai/pcme; the program is MIT-licensed",
        f'"pcme_coco.pth", epoch 30, SHA-256 `{"ab" * 32}`',
        "i2t.recall_1 44.25",
        "Trained by the authors' program on `coco`",
        "pip install 'pcme[authors]'",
        "ignores EXIF orientation and alpha",
        'license: "unknown"',
    ):
        assert said in text
    assert Model.from_pretrained(tmp_path / "hub").origin == model.origin
    pcme.load(tmp_path / "hub").save(tmp_path / "ours")
    assert pcme.load(tmp_path / "ours").origin == model.origin


def test_an_unknown_dataset_is_not_guessed(model, tmp_path):
    model.origin = Origin("m.pth", "ab" * 32, "unknown")
    model.recipe = model.recipe.model_copy(update={"data": part("unknown")})
    model.save_pretrained(tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert yaml.safe_load(text.split("---\n", 2)[1])["datasets"] == []
    assert "Trained by the authors' program, on what the file does not say" in text
    assert "unlike those of its training" in text


def test_a_damaged_origin_is_named(model, tmp_path):
    model.save_pretrained(tmp_path)
    record = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**record, "origin": 5}))
    with pytest.raises(FormatError, match=r"config.json: not the origin of a model"):
        Model.from_pretrained(tmp_path)


def test_load_reads_the_layout_of_the_hub_too(model, tmp_path):
    model.save_pretrained(tmp_path)
    again = pcme.load(tmp_path)
    assert torch.equal(again.encode_captions(["a"]).mean, model.encode_captions(["a"]).mean)


def test_a_card_without_figures_says_so(model, tmp_path):
    model.save_pretrained(tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert yaml.safe_load(text.split("---\n", 2)[1])["metrics"] == []
    assert "Not measured when this card was written" in text


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.json"])
def test_a_missing_or_damaged_file_is_named(model, tmp_path, name):
    model.save_pretrained(tmp_path)
    (tmp_path / name).write_bytes(b"junk")
    with pytest.raises(FormatError, match=name):
        Model.from_pretrained(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FormatError, match=f"{name} is missing"):
        Model.from_pretrained(tmp_path)


def test_other_folders_and_hub_names_are_refused(model, tmp_path):
    with pytest.raises(ConfigError, match="only local ones are read"):
        Model.from_pretrained("somebody/some-model")
    model.save(tmp_path)
    with pytest.raises(FormatError, match=r"`pcme.load`"):
        Model.from_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    for wrong, message in (
        ({"model_type": "clip"}, 'model_type must be "pcme"'),
        ({"model_type": "pcme"}, "its recipe cannot be used"),
        ([], 'model_type must be "pcme"'),
    ):
        (tmp_path / "config.json").write_text(json.dumps(wrong))
        with pytest.raises(FormatError, match=message):
            Model.from_pretrained(tmp_path)


def test_weights_of_another_recipe_are_refused(model, tmp_path):
    model.save_pretrained(tmp_path)
    text = (tmp_path / "config.json").read_text().replace('"dim": 16', '"dim": 32')
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(FormatError, match="does not fit"):
        Model.from_pretrained(tmp_path)
