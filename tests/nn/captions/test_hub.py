from functools import partial

import pytest
import torch
import transformers

from pcme.data.text.tokens import Vocab
from pcme.errors import DataError, FormatError
from tests.nn import tiny

build = partial(tiny.built, "caption")
every_tower = pytest.mark.parametrize("make", tiny.CAPTION_TOWERS, ids=tiny.name)
SENTENCES = ["a red bird", "a blue bird with a long bill .", "bird"]
NO_WORDS = Vocab((), ())


def encoded(network, sentences):
    tokens = network.tokeniser(NO_WORDS)
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
    subwords = build(tmp_path).tokeniser(NO_WORDS)
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
    subwords = build(tmp_path).tokeniser(NO_WORDS)
    assert subwords.unknown is None
    words = subwords.split("A bc!")
    assert subwords.encode_batch([[*words, "<unk>"]]).ids.tolist() == [[1, 3, 6, 10, 2]]


@pytest.mark.parametrize(
    ("make", "pool"), [(tiny.bert, "mean"), (tiny.bert, "pooler"), (tiny.clip_text, "auto"), (tiny.clip_text, "mean")]
)
@torch.no_grad()
def test_what_is_pooled_can_be_chosen(tmp_path, make, pool):
    """A tower that was saved alone has its own vector."""
    whole, ids = tiny.saved(make, tmp_path, words=True), torch.tensor([[1, 4, 2]])
    output = whole(input_ids=ids)
    expected = output.last_hidden_state.mean(1) if pool == "mean" else output.pooler_output
    assert torch.allclose(build(tmp_path, pool=pool)(ids).pooled, expected, atol=1e-6)


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


def test_a_tower_is_held_unless_it_is_to_be_trained(tmp_path):
    tiny.saved(tiny.bert, tmp_path, words=True)
    network = build(tmp_path)
    assert list(network.frozen()) == [network.tower]
    assert list(build(tmp_path, train=True).frozen()) == []


def test_a_learning_tower_drops_nothing_out_and_draws_from_no_hidden_stream(tmp_path):
    """Its config asks for a tenth; a run that is resumed would draw other parts."""
    tiny.saved(tiny.bert, tmp_path, words=True)
    network = build(tmp_path, train=True).train()
    assert network.tower.config.hidden_dropout_prob == 0.1
    assert network.training
    tokens, state = encoded(network, SENTENCES), torch.random.get_rng_state()
    first, second = (network(tokens.ids, tokens.lengths).pooled for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert first.requires_grad


def test_a_towers_blocks_are_the_embeddings_and_its_layers(tmp_path):
    tiny.saved(tiny.bert, tmp_path, words=True)
    network = build(tmp_path)
    embeddings, lower, upper = network.blocks()
    assert network.towers() == (network,)
    assert list(embeddings) == [network.tower.embeddings]
    assert lower is network.tower.encoder.layer[0]
    assert list(upper) == [network.tower.encoder.layer[1], network.tower.pooler]


@pytest.mark.parametrize(
    ("make", "pool", "cacheable"),
    [(tiny.bert, "auto", True), (tiny.bert, "pooler", False), (tiny.clip, "auto", False), (tiny.siglip, "mean", False)],
)
@torch.no_grad()
def test_features_that_follow_from_the_tokens_states_are_said_to_be_cacheable(tmp_path, make, pool, cacheable):
    """SigLIP's padding is not among the tokens, and pooled vectors are not the mean of states."""
    tiny.saved(make, tmp_path, words=True)
    network = build(tmp_path, pool=pool)
    assert network.cacheable == cacheable
    tokens = encoded(network, SENTENCES)
    states = network.states(tokens.ids, tokens.lengths)
    assert torch.equal(states, network(tokens.ids, tokens.lengths).local)
    if cacheable:
        cut = [states[:, : tokens.ids.shape[1]]]
        assert torch.equal(network(tokens.ids, tokens.lengths, cut).pooled, network(tokens.ids, tokens.lengths).pooled)


def test_a_tokeniser_is_needed_and_must_be_the_towers(tmp_path):
    tiny.saved(tiny.bert, tmp_path)
    with pytest.raises(DataError, match="no tokeniser"):
        build(tmp_path)
    tokeniser = tiny.tokeniser()
    tokeniser.add_tokens(["more"])
    tokeniser.save_pretrained(tmp_path)
    with pytest.raises(FormatError, match="12 tokens, got 13"):
        build(tmp_path)
