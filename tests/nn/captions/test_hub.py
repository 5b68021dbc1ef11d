"""Text towers of transformers, with their own tokenisers: the library's own features, and ours."""

import sys

import pytest
import torch
import transformers

import pcme
from pcme import recipes
from pcme.data.text.tokens import Vocab
from pcme.errors import ConfigError, DataError, FormatError
from pcme.model import Model
from pcme.nn import captions
from pcme.nn.backbone import Build
from tests.nn import tiny

TOWERS = [tiny.clip, tiny.siglip, tiny.bert]
every_tower = pytest.mark.parametrize("make", TOWERS, ids=lambda make: make.__name__)
SENTENCES = ["a red bird", "a blue bird with a long bill .", "bird"]


def build(folder, **params):
    backbone = captions.create("hub", source=str(folder), **params)
    generator = torch.Generator().manual_seed(0)
    return backbone.build(Build(generator, 8)).eval()


def encoded(network, sentences):
    tokens = network.tokeniser()
    return tokens.encode_batch([tokens.split(sentence) for sentence in sentences])


@every_tower
@torch.no_grad()
def test_features_are_the_librarys_for_each_caption_alone(tmp_path, make):
    whole = tiny.saved(make, tmp_path, words=True)
    network = build(tmp_path)
    tokens = encoded(network, SENTENCES)
    features = network(tokens.ids, tokens.lengths)
    tower = getattr(whole, "text_model", whole)
    # SigLIP is trained on, and used with, captions padded to the full length
    padding = {"padding": "max_length", "max_length": 9} if make is tiny.siglip else {}
    for row, sentence in enumerate(SENTENCES):
        ids = tiny.tokeniser()(sentence, truncation=True, return_tensors="pt", **padding)
        wanted = tower(input_ids=ids["input_ids"])
        count = int(tokens.lengths[row])
        assert torch.allclose(features.local[row, :count], wanted.last_hidden_state[0, :count], atol=1e-5)
        if make is tiny.clip:  # whose two sides meet after a projection
            vector = whole.get_text_features(**ids).pooler_output
            assert vector.shape == (1, 8)
        else:
            mean = wanted.last_hidden_state.mean(1)
            vector = mean if make is tiny.bert else wanted.pooler_output
        assert torch.allclose(features.pooled[row], vector[0], atol=1e-5)
    assert (network.features, network.pooled) == (16, features.pooled.shape[1])
    assert features.mask.sum(1).tolist() == tokens.lengths.tolist()


@pytest.mark.parametrize("make", [*TOWERS, tiny.clip_text], ids=lambda make: make.__name__)
def test_a_model_is_saved_and_loaded_without_its_source(tmp_path, make):
    tiny.saved(make, tmp_path / "tower", words=True)
    caption = f'caption={{"kind": "hub", "source": "{tmp_path / "tower"}"}}'
    recipe = recipes.get("aviary-tiny").changed([caption])
    vocab = Vocab.build(["a red bird"])
    model = Model(recipe, vocab, torch.zeros(len(vocab), 8)).eval()
    model.save(tmp_path / "ours")
    (tmp_path / "tower").rename(tmp_path / "gone")
    again = pcme.load(tmp_path / "ours")
    found, wanted = again.encode_captions(SENTENCES), model.encode_captions(SENTENCES)
    assert torch.equal(found.mean, wanted.mean)
    assert torch.equal(found.log_sigma, wanted.log_sigma)
    left, right = model.state_dict(), again.state_dict()
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)


@every_tower
@torch.no_grad()
def test_long_empty_and_unknown_captions_are_embedded(tmp_path, make):
    tiny.saved(make, tmp_path, words=True)
    network = build(tmp_path)
    tokens = encoded(network, ["a " * 50, "", "xyzzy"])
    assert tokens.ids.shape[1] == 9
    assert tokens.ids[0, -1] == 2, "the end is kept"
    assert tokens.lengths.tolist() == [9, 2, 3]
    features = network(tokens.ids, tokens.lengths)
    assert torch.isfinite(features.pooled).all()


def test_a_word_that_was_erased_is_the_tokenisers_unknown(tmp_path):
    tiny.saved(tiny.bert, tmp_path, words=True)
    subwords = build(tmp_path).tokeniser()
    assert subwords.encode_batch([["a", "<unk>"]]).ids.tolist() == [[1, 4, 3, 2]]
    subwords.unknown = None  # CLIP's tokeniser takes its end mark for it
    assert subwords.encode_batch([["a", "<unk>"]]).ids.tolist() == [[1, 4, 2]]


def test_clips_own_kind_of_tokeniser(tmp_path):
    """Byte pairs, and an unknown token that is the end: it must not cut a caption short."""
    tiny.saved(tiny.clip, tmp_path)
    ids = {"!": 0, "<|startoftext|>": 1, "<|endoftext|>": 2, "a</w>": 3, "b": 4, "c</w>": 5}
    pairs = {"bc</w>": 6, "c": 7, "a": 8, "b</w>": 9, "!</w>": 10}
    tokenizer = transformers.CLIPTokenizer(vocab=ids | pairs, merges=[("b", "c</w>")])
    tokenizer.model_max_length = 9
    tokenizer.save_pretrained(tmp_path)
    subwords = build(tmp_path).tokeniser()
    assert subwords.unknown is None
    words = subwords.split("A bc!")
    assert subwords.encode_batch([[*words, "<unk>"]]).ids.tolist() == [[1, 3, 6, 10, 2]]


@pytest.mark.parametrize("pool", ["mean", "pooler"])
@torch.no_grad()
def test_what_is_pooled_can_be_chosen(tmp_path, pool):
    whole = tiny.saved(tiny.bert, tmp_path, words=True)
    network = build(tmp_path, pool=pool)
    ids = torch.tensor([[1, 4, 2]])
    wanted = whole(input_ids=ids)
    mean = wanted.last_hidden_state.mean(1)
    assert torch.allclose(network(ids).pooled, mean if pool == "mean" else wanted.pooler_output, atol=1e-6)


@torch.no_grad()
def test_a_tower_that_was_saved_alone_has_its_own_vector(tmp_path):
    whole = tiny.saved(tiny.clip_text, tmp_path, words=True)
    ids = torch.tensor([[1, 4, 2]])
    assert torch.allclose(build(tmp_path)(ids).pooled, whole(input_ids=ids).pooler_output)


def test_a_pooling_layer_without_weights_pools_nothing(tmp_path):
    tiny.saved(tiny.bert_for_words, tmp_path, words=True)
    assert build(tmp_path).pool == "mean"
    with pytest.raises(ConfigError, match=r'no weights for its pooling layer.*caption\.pool="mean"'):
        build(tmp_path, pool="pooler")


@torch.no_grad()
def test_positions_that_begin_after_the_padding_are_counted_from_there(tmp_path):
    tiny.saved(tiny.roberta, tmp_path)
    tokeniser = tiny.tokeniser()
    tokeniser.model_max_length = int(1e30)  # as one that knows no limit
    tokeniser.save_pretrained(tmp_path)
    network = build(tmp_path)
    tokens = encoded(network, ["a " * 50])
    assert tokens.ids.shape[1] == 9, "of 11 rows, two stand before the first position"
    assert torch.isfinite(network(tokens.ids, tokens.lengths).pooled).all()


@pytest.mark.parametrize("words", [True, False])
def test_a_vision_model_is_not_asked_for_captions(tmp_path, words):
    tiny.saved(tiny.vit, tmp_path, words=words)
    with pytest.raises(ConfigError, match=r"caption\.source: must be a text model.*vision model"):
        build(tmp_path)


def test_a_tower_that_needs_more_than_a_caption_is_refused(tmp_path):
    tiny.saved(tiny.t5, tmp_path, words=True)
    with pytest.raises(FormatError, match=r"t5 cannot be used as a text tower.*caption\.source"):
        build(tmp_path)


def test_a_tower_is_held_unless_it_is_to_be_trained(tmp_path):
    tiny.saved(tiny.bert, tmp_path, words=True)
    network = build(tmp_path)
    assert list(network.frozen()) == [network.tower]
    assert list(build(tmp_path, train=True).frozen()) == []


def test_a_folder_without_its_tokeniser_says_so(tmp_path):
    tiny.saved(tiny.bert, tmp_path)
    with pytest.raises((DataError, FormatError), match="tokeniser"):
        build(tmp_path)


def test_a_tokeniser_of_another_model_is_refused(tmp_path):
    tiny.saved(tiny.bert, tmp_path)
    tokeniser = tiny.tokeniser()
    tokeniser.add_tokens(["more"])
    tokeniser.save_pretrained(tmp_path)
    with pytest.raises(FormatError, match="12 tokens, got 13"):
        build(tmp_path)


def test_without_the_package_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"pip install 'pcme\[hub\]'"):
        build(tmp_path)


def test_wrong_parameters_are_named():
    with pytest.raises(ConfigError, match="pool: must be one of"):
        captions.create("hub", source="x", pool="max")
