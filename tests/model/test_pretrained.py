import json
import sys

import pytest
import torch
import yaml

import pcme
from pcme import Model
from pcme.errors import ConfigError, FormatError
from pcme.model.origin import Origin
from pcme.recipes.schema import part
from tests.models import build
from tests.nn import tiny
from tests.training.trained import same

FIGURES = {"i2t": {"r_precision": 0.5, "chance": 0.125}, "t2i": {"r_precision": 0.75, "recall@1": 0.5, "chance": 0.125}}


@pytest.fixture
def model():
    return build(captions=["a red bird", "a blue bird with a long bill"])


def test_a_round_trip_is_exact_wherever_the_folder_lies(model, tmp_path):
    model.save(tmp_path / "ours")
    pcme.load(tmp_path / "ours").save_pretrained(str(tmp_path / "hub"))
    again = Model.from_pretrained(str(tmp_path / "hub"))
    assert (again.recipe, again.vocab) == (model.recipe, model.vocab)
    assert same(model.state_dict(), again.state_dict())
    captions = ["a red bird", "xyzzy"]
    for loaded in (again, pcme.load(tmp_path / "hub")):
        assert torch.equal(model.encode_captions(captions).mean, loaded.encode_captions(captions).mean)
    again.save_pretrained(tmp_path / "again")
    names = ["README.md", "config.json", "model.safetensors", "vocab.json"]
    assert sorted(path.name for path in (tmp_path / "hub").iterdir()) == names
    for name in names:
        assert (tmp_path / "hub" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_towers_of_transformers_come_along(tmp_path):
    tiny.saved(tiny.clip, tmp_path / "clip", words=True)
    sources = [f"{side}.source={tmp_path / 'clip'}" for side in ("image", "caption")]
    model = build("clip-heads", *sources, "augment.size=16", "dim=8")
    model.save_pretrained(tmp_path / "hub")
    (tmp_path / "clip").rename(tmp_path / "gone")
    again = Model.from_pretrained(tmp_path / "hub")
    assert torch.equal(model.encode_captions(["a bird"]).mean, again.encode_captions(["a bird"]).mean)
    assert "It knows" not in (tmp_path / "hub" / "README.md").read_text()


def test_a_missing_package_is_not_taken_for_a_damaged_folder(tmp_path, monkeypatch):
    tiny.saved(tiny.bert, tmp_path / "bert", words=True)
    build("aviary-tiny", f'caption={{"kind": "hub", "source": "{tmp_path / "bert"}"}}').save(tmp_path / "ours")
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
    assert "| % | r_precision | chance | recall@1 |" in body  # the metrics of all directions
    assert "| i2t | 50.00 | 12.50 |  |" in body
    assert "| t2i | 75.00 | 12.50 | 50.00 |" in body
    assert "It knows 7 words" in body


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


def test_an_imported_models_card_states_its_origin(model, tmp_path):
    scores = {"i2t.recall_1": 44.25}
    model.origin = Origin(file="pcme_coco.pth", sha256="ab" * 32, dataset="coco", epoch=30, scores=scores)
    model.save_pretrained(tmp_path / "hub")
    text = (tmp_path / "hub" / "README.md").read_text()
    for statement in (
        "Chun et al. 2021, https://github.com/naver-ai/pcme; the program is MIT-licensed",
        f'"pcme_coco.pth", epoch 30, SHA-256 `{"ab" * 32}`',
        "i2t.recall_1 44.25",
        "Trained by the authors' program on `coco`",
        "pip install 'pcme[authors]'",
        "ignores EXIF orientation and alpha",
        'license: "unknown"',
    ):
        assert statement in text
    assert Model.from_pretrained(tmp_path / "hub").origin == model.origin
    pcme.load(tmp_path / "hub").save(tmp_path / "ours")
    assert pcme.load(tmp_path / "ours").origin == model.origin


def test_an_unknown_dataset_is_not_guessed_and_missing_figures_are_stated(model, tmp_path):
    model.origin = Origin(file="m.pth", sha256="ab" * 32, dataset="unknown")
    model.recipe = model.recipe.model_copy(update={"data": part("unknown")})
    model.save_pretrained(tmp_path)
    text = (tmp_path / "README.md").read_text()
    front = yaml.safe_load(text.split("---\n", 2)[1])
    assert (front["datasets"], front["metrics"]) == ([], [])
    assert "Trained by the authors' program, on what the file does not say" in text
    assert "Not measured when this card was written" in text
    assert "unlike those of its training" in text


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "clip"}, 'model_type must be "pcme"'),
        ({"recipe": None}, "its recipe cannot be used"),
        ({"origin": 5}, "config.json: not the origin of a model"),
    ],
)
def test_another_config_is_refused(model, tmp_path, change, message):
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(FormatError, match=message):
        Model.from_pretrained(tmp_path)


@pytest.mark.parametrize(("save", "name"), [("save", "recipe.json"), ("save_pretrained", "config.json")])
def test_weights_of_another_recipe_are_refused(model, tmp_path, save, name):
    getattr(model, save)(tmp_path)
    path = tmp_path / name
    path.write_text(path.read_text().replace('"dim": 16', '"dim": 32'))
    with pytest.raises(FormatError, match="does not fit"):
        pcme.load(tmp_path)
