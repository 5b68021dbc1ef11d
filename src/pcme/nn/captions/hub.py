"""Hub: any text tower of `transformers` as the caption backbone, with its own tokeniser.

BERT-like encoders and the text sides of CLIP and SigLIP, by hub name or from a local folder: `pip install 'pcme[hub]'`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from pcme.core.checks import require_known
from pcme.data.text.tokens import UNKNOWN, Tokeniser, Tokens, Vocab
from pcme.errors import DataError, FormatError
from pcme.nn import transformers_towers
from pcme.nn.backbone import (
    Build,
    CaptionBackbone,
    Features,
    States,
    TextTower,
    caption_backbones,
    full_lengths,
    present,
)
from pcme.nn.transformers_towers import Tower

Pool = Literal["auto", "mean", "pooler"]

TOKENISER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "spiece.model")
LONGEST = 512
"""The limit on tokens per caption where neither tokeniser nor config has one."""


class Subwords:
    """A tokeniser of `transformers`: words are what stands between spaces.

    A word that augmentation made `<unk>` becomes the mask or the unknown token; where the tokeniser has neither, or
    means the end by it, it is left out. A caption that is too long loses its end, but keeps the token that marks it.
    """

    def __init__(self, tokenizer: Any, longest: int) -> None:  # noqa: ANN401
        self.tokenizer, self.longest = tokenizer, longest
        ends = {tokenizer.eos_token, tokenizer.bos_token, tokenizer.pad_token}
        marks = (tokenizer.mask_token, tokenizer.unk_token)
        self.unknown = next((mark for mark in marks if mark and mark not in ends), None)
        pad = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.pad: int = pad or 0

    def split(self, caption: str) -> list[str]:
        """The caption at its spaces."""
        return caption.split()

    def encode_batch(self, sentences: Sequence[Sequence[str]]) -> Tokens:
        """The ids with the tokeniser's own marks, padded to the longest."""
        known = [[self.unknown if word == UNKNOWN else word for word in words] for words in sentences]
        # Neither padded nor cut by the library: that changes its state, which threads share.
        encoded = self.tokenizer([" ".join(filter(None, words)) for words in known], padding=False, truncation=False)
        rows = [self._cut(row) for row in encoded["input_ids"]]
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        size = max(map(len, rows), default=0)
        padded = [row + [self.pad] * (size - len(row)) for row in rows]
        return Tokens(torch.tensor(padded, dtype=torch.int64).view(len(rows), size), lengths)

    def _cut(self, row: list[int]) -> list[int]:
        row = row or [self.pad]  # a tokeniser without marks, and a caption without words
        return row if len(row) <= self.longest else [*row[: self.longest - 1], row[-1]]


class HubCaptions(TextTower):
    """A text tower: its sites are its tokens, its vector their mean or what the tower pools.

    Differs: nothing is dropped out while it learns, for the library draws that from a hidden stream.
    """

    projected = False

    def __init__(self, tower: Tower, subwords: Subwords, pool: Pool, *, train: bool) -> None:
        super().__init__()
        self.tower, self.subwords, self.train_tower = tower.model, subwords, train
        kind = str(tower.model.config.model_type)
        # Only the text sides of two-sided models have a pooled vector that was trained to be one.
        self.pool = ("pooler" if kind.endswith("_text_model") else "mean") if pool == "auto" else pool
        self.masks = not kind.startswith("siglip")
        self.cacheable = self.masks and self.pool == "mean"
        self.averages = self.pool == "mean"
        example = subwords.encode_batch([["a"]])
        ids, mask = self._padded(example.ids, example.lengths)
        output = tower.run_example(**self._inputs(ids, mask))
        if self.pool == "pooler":
            tower.require_pooled(output, 'caption.pool="mean"')
        self.features = output.last_hidden_state.shape[-1]
        self.pooled = self._vector(output, mask).shape[-1]

    def forward(
        self, inputs: Int64[Tensor, "b l"], lengths: Int64[Tensor, " b"] | None = None, states: States = ()
    ) -> Features:
        """The tokens' last hidden states as sites, and the caption's vector."""
        ids, mask = self._padded(inputs, full_lengths(inputs) if lengths is None else lengths)
        if states:
            (sites,) = states
            pooled = _mean(sites, mask)
        else:
            output = self.tower(**self._inputs(ids, mask))
            sites, pooled = output.last_hidden_state, self._vector(output, mask)
        return Features(sites, pooled, pooled, mask)

    def states(self, inputs: Int64[Tensor, "b l"], lengths: Int64[Tensor, " b"]) -> Float[Tensor, "b m d"]:
        """The last hidden states of captions."""
        ids, mask = self._padded(inputs, lengths)
        sites: Tensor = self.tower(**self._inputs(ids, mask)).last_hidden_state
        return sites

    def blocks(self) -> Sequence[nn.Module]:
        """The embeddings, then the layers."""
        return transformers_towers.blocks_of(self.tower)

    def frozen(self) -> Sequence[nn.Module]:
        """The tower, unless it is to be trained."""
        return () if self.train_tower else (self.tower,)

    def train(self, mode: bool = True) -> "HubCaptions":
        """Training mode, but for the tower."""
        super().train(mode)
        self.tower.eval()
        return self

    def tokeniser(self, vocab: Vocab) -> Tokeniser:
        """The tower's own."""
        return self.subwords

    def save_files(self, folder: Path) -> None:
        """The tower's config and its tokeniser."""
        folder.mkdir(parents=True, exist_ok=True)
        with transformers_towers.quiet(transformers_towers.library()):
            self.subwords.tokenizer.save_pretrained(str(folder))
            config: Any = self.tower.config
            config.to_json_file(str(folder / "config.json"), use_diff=False)

    def _padded(
        self, ids: Int64[Tensor, "b l"], lengths: Int64[Tensor, " b"]
    ) -> tuple[Int64[Tensor, "b m"], Bool[Tensor, "b m"]]:
        """The ids as the tower takes them, and which are there: SigLIP sees padding to one size, as it is trained."""
        if not self.masks:
            ids = F.pad(ids, (0, self.subwords.longest - ids.shape[1]), value=self.subwords.pad)
        return ids, present(ids, lengths)

    def _inputs(self, ids: Int64[Tensor, "b l"], mask: Bool[Tensor, "b l"]) -> dict[str, Tensor]:
        return {"input_ids": ids} | ({"attention_mask": mask.long()} if self.masks else {})

    def _vector(self, output: Any, mask: Bool[Tensor, "b l"]) -> Float[Tensor, "b p"]:  # noqa: ANN401
        if self.pool == "pooler":
            return transformers_towers.pooled(output)
        return _mean(output.last_hidden_state, mask)


@caption_backbones.register("hub")
@dataclass(frozen=True)
class Hub(CaptionBackbone):
    """A text tower of transformers: `source` is a hub name or a folder; frozen unless `train`.

    `pool`: a caption's vector is the mean of its tokens, or what the tower pools and, as CLIP does, projects to the
    images' space; "auto" is the latter for CLIP and SigLIP, and the former for all others.
    """

    source: str
    train: bool = False
    pool: Pool = "auto"

    def __post_init__(self) -> None:
        require_known("pool", self.pool, get_args(Pool))

    def without_weights(self, folder: Path | None = None) -> CaptionBackbone:
        """From the files in the model's folder: the source is then not needed."""
        return self if folder is None else _Saved(str(folder), self.train, self.pool)

    def build(self, context: Build) -> HubCaptions:
        """The tower with its weights; word vectors are not used."""
        tower = self._tower()
        return HubCaptions(tower, _subwords(tower), self.pool, train=self.train)

    def _tower(self) -> Tower:
        return transformers_towers.load(self.source, "text")


class _Saved(Hub):
    """A tower in the folder of a model, whose weights follow."""

    def _tower(self) -> Tower:
        return transformers_towers.rebuild(self.source, "text")


def _subwords(tower: Tower) -> Subwords:
    package, source, config = transformers_towers.library(), tower.source, tower.model.config
    # Without a file the library would make an empty tokeniser and say nothing.
    if Path(source).is_dir() and not any((Path(source) / name).is_file() for name in TOKENISER_FILES):
        raise DataError(f"{source}: no tokeniser. Save the tower's own into the folder.")
    try:
        with transformers_towers.quiet(package):
            tokenizer = package.AutoTokenizer.from_pretrained(source, **transformers_towers.careful(source))
    except OSError as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{source}: its tokeniser cannot be loaded, got {reason}. Save it into the folder.") from error
    except Exception as error:  # damaged files can make the library raise nearly anything
        raise FormatError(
            f"{source}: its tokeniser is damaged, or not one of transformers, got {error}. Save it again."
        ) from error
    limit, count = getattr(config, "vocab_size", None), len(tokenizer)
    if limit is not None and count > limit:
        raise FormatError(
            f"{source}: its tokeniser must have at most the tower's {limit:,} tokens, got {count:,}. "
            "Take both from one model."
        )
    longest = int(min(tokenizer.model_max_length, _longest(tower.model)))
    return Subwords(tokenizer, longest)


def _longest(model: nn.Module) -> int:
    """The most tokens that the tower takes; positions count from the row after that for padding, as in RoBERTa."""
    config: Any = model.config
    limit = getattr(config, "max_position_embeddings", None) or LONGEST
    padded = [
        table.num_embeddings - table.padding_idx - 1
        for name, table in model.named_modules()
        if isinstance(table, nn.Embedding) and name.endswith("position_embeddings") and table.padding_idx is not None
    ]
    return min([limit, *padded])


def _mean(sites: Float[Tensor, "b l d"], mask: Bool[Tensor, "b l"]) -> Float[Tensor, "b d"]:
    """The mean of the sites that are there."""
    return torch.where(mask[..., None], sites, 0).sum(1) / mask.sum(1, keepdim=True)
