"""Several caption backbones side by side: words and a small random tower of `transformers`."""

import json

import pytest
import torch

import pcme
from pcme.data.text.tokens import UNK, Vocab, tokenise
from pcme.errors import ConfigError
from pcme.model import Model
from pcme.model.digest import digest
from pcme.nn import captions
from pcme.nn.backbone import Build
from pcme.nn.heads import HeadOptions
from pcme.nn.towers import CaptionTower
from tests.helpers import generator, unless_annotations_are_enforced
from tests.models import TINY
from tests.nn import tiny

SENTENCES = ["a red bird with a long bill .", "a BLUE bird's bill", "bird"]
VOCAB = Vocab.build(SENTENCES)
GRU = {"kind": "gru"}


def hub(folder, make=tiny.bert, seed=0, **options):
    tiny.saved(make, folder, words=True, seed=seed)
    return {"kind": "hub", "source": str(folder), **options}


def joined(*parts, with_sigma=True):
    vectors = torch.randn(len(VOCAB), 6, generator=generator(1))
    return captions.create("joined", parts=list(parts)).build(Build(generator(), 8, with_sigma, vectors)).eval()


def encoded(network, sentences, vocab=VOCAB):
    tokeniser = network.tokeniser(vocab)
    return tokeniser.encode_batch([tokeniser.split(sentence) for sentence in sentences])


@pytest.mark.parametrize(
    "caption",
    [
        *SENTENCES,
        "don't!  blue-grey, 3/4 of o'clock",
        "",
        "...",
        "a <unk> bird",
        "the\u00a0caf\u00e9\u3000\u00ad\u2019s \ufb01n",
        "a\u0301 ALL CAPS\twings\n",
        "\u9ce5 is a bird" + " long" * 30,
    ],
)
def test_each_part_reads_what_it_would_read_alone(tmp_path, caption):
    network, vocab = joined(GRU, hub(tmp_path)), Vocab.build([caption])
    both = encoded(network, [caption, "a"], vocab)
    assert both.ids.shape[:2] == both.lengths.shape == (2, 2)
    assert both.ids[0, 0, : both.lengths[0, 0]].tolist() == vocab.encode(tokenise(caption))
    for number, tokeniser in enumerate((vocab, network.parts[1].subwords)):
        own = tokeniser.encode_batch([tokeniser.split(caption), tokeniser.split("a")])
        width = own.ids.shape[1]
        assert torch.equal(both.lengths[:, number], own.lengths)
        assert torch.equal(both.ids[:, number, :width], own.ids)
        assert not both.ids[:, number, width:].any()


def test_a_word_that_was_erased_or_dropped_is_gone_for_all(tmp_path):
    tokeniser = joined(GRU, hub(tmp_path)).tokeniser(VOCAB)
    red, bird = (VOCAB.encode([word])[1] for word in ("red", "bird"))
    tokens = tokeniser.encode_batch([["red", "<unk>", "bird"], ["red", "bird"]])
    assert tokens.ids[:, 0].tolist() == [[1, red, UNK, bird, 2], [1, red, bird, 2, 0]]
    assert tokens.ids[:, 1].tolist() == [[1, 6, 3, 5, 2], [1, 6, 5, 2, 0]]


@pytest.mark.parametrize("with_sigma", [True, False])
@torch.no_grad()
def test_a_site_has_the_features_of_its_part_and_zeros_for_the_others(tmp_path, with_sigma):
    """Against a loop over captions and parts, each alone; the second tower pads and projects as it does alone."""
    parts = (GRU, hub(tmp_path / "bert"), hub(tmp_path / "siglip", tiny.siglip))
    network = joined(*parts, with_sigma=with_sigma)
    tokens = encoded(network, SENTENCES)
    found = network(tokens.ids, tokens.lengths)
    assert found.local.shape[-1] == network.features == 6 + 16 + 16
    assert found.pooled.shape == found.spread.shape == (3, network.pooled)
    for row, sentence in enumerate(SENTENCES):
        expected, pooled, spread, start = [], [], [], 0
        for part in network.parts:
            own = encoded(part, [sentence])
            alone = part(own.ids, own.lengths)
            for site, there in zip(alone.local[0], alone.mask[0], strict=True):
                if there:
                    zeros = torch.zeros(network.features - start - len(site))
                    expected.append(torch.cat([torch.zeros(start), site, zeros]))
            start += alone.local.shape[-1]
            pooled.append(alone.pooled[0])
            spread.append(alone.spread[0])
        torch.testing.assert_close(found.local[row][found.mask[row]], torch.stack(expected))
        torch.testing.assert_close(found.pooled[row], torch.cat(pooled))
        torch.testing.assert_close(found.spread[row], torch.cat(spread))


@torch.no_grad()
def test_neighbours_and_padding_do_not_matter(tmp_path):
    network = joined(GRU, hub(tmp_path))
    tower = CaptionTower(network, HeadOptions(8), generator=generator()).eval()
    tokens = encoded(network, SENTENCES)
    together = tower(tokens.ids, tokens.lengths)
    for row, sentence in enumerate(SENTENCES):
        own = encoded(network, [sentence])
        alone = tower(own.ids, own.lengths)
        assert torch.allclose(together.mean[row], alone.mean[0], atol=1e-6)
        assert torch.allclose(together.log_sigma[row], alone.log_sigma[0], atol=1e-6)


@torch.no_grad()
def test_without_lengths_all_sites_are_there(tmp_path):
    network, ids = joined(GRU, hub(tmp_path)), torch.full((2, 2, 5), 4)
    found, counted = network(ids), network(ids, torch.full((2, 2), 5))
    assert torch.equal(found.local, counted.local)
    assert found.mask.all()


@torch.no_grad()
def test_states_of_a_tower_that_were_computed_before_replace_it(tmp_path, monkeypatch):
    """Of two towers, each gets its own."""
    network = joined(hub(tmp_path / "one"), GRU, hub(tmp_path / "two", seed=1))
    tokens = encoded(network, SENTENCES)
    expected = network(tokens.ids, tokens.lengths)
    states = [
        tower.states(own.ids, own.lengths)
        for tower, own in zip(network.towers(), network.tower_inputs(tokens), strict=True)
    ]
    for tower in network.towers():
        monkeypatch.setattr(tower.tower, "forward", None)
    found = network(tokens.ids, tokens.lengths, states)
    assert torch.equal(found.local, expected.local)
    assert torch.equal(found.pooled, expected.pooled)


def test_parts_keep_their_words_and_their_towers(tmp_path):
    network = joined(GRU, hub(tmp_path / "one"), hub(tmp_path / "two", train=True))
    words, first, second = network.parts
    assert list(map(id, network.word_vectors())) == [id(words.words.weight)]
    assert network.towers() == [first, second]
    assert network.frozen() == [first.tower]


def test_a_model_with_joined_captions_is_saved_loaded_and_searched(tmp_path):
    """Bit for bit, without the folder that the tower came from; sub-words know every word.

    The word vectors have not the width that the recipe states: those of a file have their own.
    """
    record = {"kind": "joined", "parts": [GRU, hub(tmp_path / "bert")]}
    vectors = torch.randn(len(VOCAB), 5, generator=generator(1))
    model = Model(TINY.changed([f"caption={json.dumps(record)}"]), VOCAB, vectors)
    expected = model.encode_captions(SENTENCES)
    for save, name in ((model.save, "model"), (model.save_pretrained, "layout")):
        save(tmp_path / name)
        assert (tmp_path / name / "caption" / "1" / "config.json").is_file()
    (tmp_path / "bert").rename(tmp_path / "gone")
    for name in ("model", "layout"):
        again = pcme.load(tmp_path / name)
        found = again.encode_captions(SENTENCES)
        assert torch.equal(found.mean, expected.mean)
        assert torch.equal(found.log_sigma, expected.log_sigma)
        assert digest(again) == digest(model)
    index = pcme.SearchIndex.create(tmp_path / "index", tmp_path / "model")
    index.add(SENTENCES, kind="caption")
    hits = index.search("xyzzy")
    assert len(hits) == 3
    assert "none of these words" not in str(hits.record())


@unless_annotations_are_enforced
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "two or more"),
        ([GRU], "two or more"),
        ("gru", "two or more"),
        ([{"readout": "final"}, GRU], "two or more"),
        ([GRU, {"kind": "precomputed", "features": 4}], "read words themselves, got precomputed"),
        ([GRU, {"kind": "joined", "parts": [GRU, GRU]}], "read words themselves, got joined"),
        ([GRU, {"kind": "grru"}], "Did you mean"),
    ],
)
def test_what_cannot_be_joined_is_named(parts, message):
    with pytest.raises(ConfigError, match=message):
        joined(*parts) if isinstance(parts, list) else captions.create("joined", parts=parts)
