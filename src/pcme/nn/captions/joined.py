"""Joined: several caption backbones side by side, which read the same words, each with its own tokeniser.

Word vectors know names that a sentence encoder takes to pieces; the encoder knows what words do to each other. They
meet in the heads, as the parts of a joined image backbone do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Bool, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from pcme.data.text.tokens import PAD, UNKNOWN, Tokeniser, Tokens, Vocab
from pcme.errors import ConfigError
from pcme.nn.backbone import (
    Backbone,
    Build,
    CaptionBackbone,
    CaptionNetwork,
    Features,
    Given,
    States,
    TextTower,
    caption_backbones,
    full_lengths,
    require_parts,
)


class SeveralTokenisers:
    """Tokenisers of the same caption: words are what stands between spaces, and each takes them further apart.

    So a word that augmentation drops, or makes `<unk>`, is gone for all of them. Without augmentation each gives what
    it would give alone.
    """

    def __init__(self, tokenisers: Sequence[Tokeniser]) -> None:
        self.tokenisers = tuple(tokenisers)

    def split(self, caption: str) -> list[str]:
        """The caption at its spaces."""
        return caption.split()

    def encode_batch(self, sentences: Sequence[Sequence[str]]) -> Tokens:
        """The ids [b,p,l] by each of the p tokenisers, padded to the longest of all, and the lengths [b,p]."""
        parts = [
            tokeniser.encode_batch([_split_further(words, tokeniser) for words in sentences])
            for tokeniser in self.tokenisers
        ]
        longest = max(part.ids.shape[1] for part in parts)
        ids = [F.pad(part.ids, (0, longest - part.ids.shape[1]), value=PAD) for part in parts]
        return Tokens(torch.stack(ids, 1), torch.stack([part.lengths for part in parts], 1))


class JoinedCaptions(CaptionNetwork):
    """The sites of all parts, one part after another, and the vectors of a whole caption side by side.

    A site has the features of its own part, and zeros in place of the others'. So one attention weighs all sites, and
    the heads' linear maps have weights of their own for every part. Nothing is learned here.
    """

    projected = False

    def __init__(self, parts: Sequence[CaptionNetwork]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.features = sum(part.features for part in parts)
        self.pooled = sum(part.pooled for part in parts)

    def forward(
        self, inputs: Int64[Tensor, "b p l"], lengths: Int64[Tensor, "b p"] | None = None, states: States = ()
    ) -> Features:
        """The features of captions by as many tokenisers as there are parts; `states` are those of `towers`."""
        left, found = list(states), []
        for part, tokens in zip(self._networks(), _apart(inputs, lengths), strict=True):
            given = [left.pop(0) for _ in part.towers()] if left else []
            features: Features = part(tokens.ids, tokens.lengths, *([given] if given else []))
            found.append(features.float())
        ends = accumulate(each.local.shape[-1] for each in found)
        local = [
            F.pad(each.local, (end - each.local.shape[-1], self.features - end))
            for each, end in zip(found, ends, strict=True)
        ]
        return Features(
            local=torch.cat(local, 1),
            pooled=torch.cat([each.pooled for each in found], 1),
            spread=torch.cat([each.spread for each in found], 1),
            mask=torch.cat([_mask(each) for each in found], 1),
        )

    def word_vectors(self) -> Sequence[nn.Parameter]:
        """Those of all parts."""
        return [vectors for part in self._networks() for vectors in part.word_vectors()]

    def frozen(self) -> Sequence[nn.Module]:
        """Those of all parts."""
        return [module for part in self._networks() for module in part.frozen()]

    def towers(self) -> Sequence[TextTower]:
        """Those of all parts."""
        return [tower for part in self._networks() for tower in part.towers()]

    def tower_inputs(self, tokens: Tokens) -> Sequence[Tokens]:
        """Those of all parts."""
        parts = zip(self._networks(), _apart(tokens.ids, tokens.lengths), strict=True)
        return [inner for part, own in parts for inner in part.tower_inputs(own)]

    def tokeniser(self, vocab: Vocab) -> Tokeniser:
        """Those of all parts, side by side."""
        return SeveralTokenisers([part.tokeniser(vocab) for part in self._networks()])

    def save_files(self, folder: Path) -> None:
        """Each part's in a folder of its number."""
        for number, part in enumerate(self._networks()):
            part.save_files(folder / str(number))

    def _networks(self) -> Sequence[CaptionNetwork]:
        return [cast("CaptionNetwork", part) for part in self.parts]


@caption_backbones.register("joined")
@dataclass(frozen=True)
class Joined(CaptionBackbone):
    """Several caption backbones side by side: `parts` is a list of {"kind": ..., ...}, such as gru and minilm."""

    parts: Sequence[Mapping[str, Any]]

    def __post_init__(self) -> None:
        require_parts(self.parts, "gru")

    def without_weights(self, folder: Path | None = None) -> CaptionBackbone:
        """All of them without weights from elsewhere."""
        parts = [
            backbone.without_weights(None if folder is None else folder / str(number))
            for number, backbone in enumerate(self._backbones())
        ]
        return _Built(parts)

    def build(self, context: Build) -> JoinedCaptions:
        """The networks, with their weights."""
        return _Built(self._backbones()).build(context)

    def _backbones(self) -> list[Backbone[CaptionNetwork]]:
        backbones = [caption_backbones.from_record(part) for part in self.parts]
        for part, backbone in zip(self.parts, backbones, strict=True):
            if isinstance(backbone, (Given, Joined)):
                raise ConfigError(
                    f"parts: must be backbones that read words themselves, got {part['kind']}. "
                    "Join backbones of the kinds gru, hub or minilm."
                )
        return backbones


@dataclass(frozen=True)
class _Built(CaptionBackbone):
    backbones: Sequence[Backbone[CaptionNetwork]]

    def build(self, context: Build) -> JoinedCaptions:
        return JoinedCaptions([backbone.build(context) for backbone in self.backbones])


def _split_further(words: Sequence[str], tokeniser: Tokeniser) -> list[str]:
    """The words by a tokeniser's own rule; a word that was erased stays one unknown word."""
    return [part for word in words for part in ([word] if word == UNKNOWN else tokeniser.split(word))]


def _apart(ids: Int64[Tensor, "b p l"], lengths: Int64[Tensor, "b p"] | None) -> Iterator[Tokens]:
    """The tokens of each tokeniser, without the padding that only others need."""
    for number in range(ids.shape[1]):
        own = ids[:, number]
        counts = full_lengths(own) if lengths is None else lengths[:, number]
        yield Tokens(own[:, : int(counts.max())], counts)


def _mask(features: Features) -> Bool[Tensor, "b s"]:
    """Which sites are there; without a mask all are."""
    if features.mask is not None:
        return features.mask
    return torch.ones(features.local.shape[:2], dtype=torch.bool, device=features.local.device)
