"""Towers of `transformers`: loaded by hub name or from a folder, rebuilt without their weights.

`transformers` is imported only here, and only when a tower is built. Weights come from safetensors files alone and no
code of a repository is run.
"""

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from pcme.errors import ConfigError, DataError, FormatError

Side = Literal["vision", "text"]

INPUTS: dict[Side, str] = {"vision": "pixel_values", "text": "input_ids"}
KEYS: dict[Side, str] = {"vision": "image.source", "text": "caption.source"}
PROJECTIONS: dict[Side, str] = {"vision": "visual_projection", "text": "text_projection"}
"""The projections of a side's pooled vector to the space that both sides share."""

VECTORS = ("image_embeds", "text_embeds", "pooler_output")
"""The library's names of a pooled vector; where it is projected too, the projected one is first."""


@dataclass(frozen=True)
class Tower:
    """A model of the library; `unpooled` is the reason why its pooled vector cannot be used."""

    source: str
    side: Side
    model: Any
    unpooled: str | None

    def run_example(self, **inputs: Shaped[Tensor, "..."]) -> Any:  # noqa: ANN401 - the library's
        """The model's output for an example: it has the widths, and refuses an unfit model before a run begins."""
        kind = self.model.config.model_type
        try:
            with torch.no_grad():
                output = self.model(**inputs)
            if getattr(output, "last_hidden_state", None) is None:
                raise ValueError("no last hidden states")
        except Exception as error:  # a model may need other inputs besides
            reason = str(error).partition("\n")[0]
            raise FormatError(
                f"{self.source}: a model of kind {kind} cannot be used as a {self.side} tower, got {reason}. "
                f"Take another model as {KEYS[self.side]}."
            ) from error
        return output

    def require_pooled(self, output: Any, instead: str) -> None:  # noqa: ANN401
        """Refuse to pool where there is no such vector, or one that was not trained."""
        none = all(output.get(name) is None for name in VECTORS)
        if reason := "it has no pooled vector" if none else self.unpooled:
            raise ConfigError(f"{self.source}: {reason}. Set {instead}.")


def library() -> Any:  # noqa: ANN401 - a module that need not be installed has no type
    """The package `transformers`, or an error with the pip line that installs it."""
    try:
        return importlib.import_module("transformers")
    except ImportError as error:
        raise ConfigError(
            f"a hub backbone needs transformers, which cannot be imported, got {error}. Run pip install 'pcme[hub]'."
        ) from error


def load(source: str, side: Side) -> Tower:
    """The tower of one side, with its weights and its projection to the space that both sides share, if any."""
    _require_source(source, side)
    package = library()
    with quiet(package), _explained(source):
        config = _config(package, source, side)
        model, report = _with_weights(package, source, config, side)
    _require_side(model, side, source)
    missing = sorted(report["missing_keys"])
    unpooled = [name for name in missing if "pooler" in name.split(".")]
    if strange := [name for name in missing if name not in unpooled]:
        raise FormatError(
            f"{source}: its weights are not those of its config, it lacks {', '.join(strange[:3])} "
            f"({len(strange)} in all). Give a {side} model."
        )
    # Sums round by where weights lie in memory: in the mapped file they would not be those of a model that was saved.
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()
    for name in unpooled:
        model.get_parameter(name).data.zero_()  # instead of the library's draw; nothing may use them
    model.config.architectures = [type(model).__name__]  # what `rebuild` goes by
    reason = "its file has no weights for its pooling layer" if unpooled else None
    if not unpooled and any(name.startswith(f"{PROJECTIONS[side]}.") for name in report["unexpected_keys"]):
        reason = "its pooled vector needs a projection that transformers has in the whole model only"
    return Tower(source, side, model.eval(), reason)


def rebuild(folder: str, side: Side) -> Tower:
    """The tower that a saved config describes; its weights are still to be loaded."""
    package = library()
    with quiet(package), _explained(folder):
        config = _config(package, folder, side)
        projecting, bare = _classes(package, config)
        kind = projecting if projecting and config.architectures == [projecting.__name__] else bare
        with torch.random.fork_rng(devices=[]):
            model = kind.from_config(config) if kind is package.AutoModel else kind(config)
    return Tower(folder, side, model.float().eval(), None)


def pooled(output: Any) -> Float[Tensor, "b p"]:  # noqa: ANN401 - the library's
    """The one vector per item, of an output that `Tower.require_pooled` accepted."""
    vector: Tensor = next(output[name] for name in VECTORS if output.get(name) is not None)
    return vector.flatten(1)


def blocks_of(tower: nn.Module) -> Sequence[nn.Module]:
    """The modules before the layers, the layers, and with the last layer the modules after it."""
    kinds = (nn.ModuleList, nn.Sequential)
    lists = [part for part in tower.modules() if isinstance(part, kinds) and len(part) > 1]
    layers = max(lists, key=lambda part: sum(p.numel() for p in part.parameters()), default=None)
    if layers is None:
        return (tower,)
    parts = _cut(tower, layers)
    at = parts.index(layers)
    *lower, last = layers
    return (nn.ModuleList(parts[:at]), *lower, nn.ModuleList([last, *parts[at + 1 :]]))


def careful(source: str) -> dict[str, Any]:
    """No code from the repository; and no network for a folder."""
    return {"trust_remote_code": False, "local_files_only": Path(source).is_dir()}


@contextmanager
def quiet(package: Any) -> Iterator[None]:  # noqa: ANN401
    """Without the library's reports and progress bars."""
    logging = package.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _require_source(source: object, side: Side) -> None:
    """Refuse a missing folder before it is taken for a hub name, and looked for on the network."""
    if not isinstance(source, str):
        raise ConfigError(f"{KEYS[side]}: must be text, got {source!r}. Give a folder, or a hub name.")
    looks_like_a_path = not source or source[0] in "./~" or source.count("/") > 1
    if looks_like_a_path and not Path(source).is_dir():
        raise ConfigError(f'{KEYS[side]}: "{source}" is not a folder. Give a folder, or a hub name.')


def _require_side(model: Any, side: Side, source: str) -> None:  # noqa: ANN401
    """Refuse a text model for images and the reverse, before other errors hide the cause."""
    takes, wanted = model.main_input_name, INPUTS[side]
    if takes != wanted:
        other = next((name for name, taken in INPUTS.items() if taken == takes), takes)
        raise ConfigError(
            f"{KEYS[side]}: must be a {side} model, which takes {wanted}, got the {other} model "
            f"{source} ({model.config.model_type})."
        )


@contextmanager
def _explained(source: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = str(error).partition("\n")[0]
        raise DataError(
            f"{source}: cannot be loaded, got {reason}. Give a folder written by save_pretrained "
            "with safetensors, or a hub name and a connection."
        ) from error
    except Exception as error:  # damaged files can make the library raise nearly anything
        reason = str(error).partition("\n")[0]
        raise FormatError(
            f"{source}: not a model that transformers can build, got {reason}. "
            "Take a model of the kinds CLIP, SigLIP, DINOv2, ViT, ConvNeXt, ResNet or BERT."
        ) from error


def _config(package: Any, source: str, side: Side) -> Any:  # noqa: ANN401 - the library's
    """The config of one side: it masks no patches and projects as the whole model does."""
    whole = package.AutoConfig.from_pretrained(source, **careful(source))
    config = getattr(whole, f"{side}_config", None) or whole
    if hasattr(config, "projection_dim"):
        config.projection_dim = getattr(whole, "projection_dim", config.projection_dim)
    if hasattr(config, "mask_ratio"):  # masked autoencoders leave most patches out
        config.mask_ratio = 0.0
    return config


def _with_weights(package: Any, source: str, config: Any, side: Side) -> tuple[Any, Any]:  # noqa: ANN401
    """(model, the library's loading report); with its projection where the file has one."""
    projecting, bare = _classes(package, config)
    for kind in (projecting, bare) if projecting else (bare,):
        with torch.random.fork_rng(devices=[]):  # the library draws what it then overwrites
            model, report = kind.from_pretrained(
                source, config=config, use_safetensors=True, dtype=torch.float32,
                output_loading_info=True, **careful(source),
            )  # fmt: skip
        if not any(PROJECTIONS[side] in name.split(".") for name in report["missing_keys"]):
            break  # otherwise a tower that was saved alone
    return model, report


def _classes(package: Any, config: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """The classes of a tower with its projection, if the library has one, and without.

    AutoModel does not know the text side of some models.
    """
    name = type(config).__name__.removesuffix("Config")
    known = type(config) in package.MODEL_MAPPING
    bare = package.AutoModel if known else getattr(package, f"{name}Model", package.AutoModel)
    return getattr(package, f"{name}ModelWithProjection", None), bare


def _cut(module: nn.Module, layers: nn.Module) -> list[nn.Module]:
    """The module in order: `layers`, and around it the largest parts that have nothing of it."""
    if module is layers or all(part is not layers for part in module.modules()):
        return [module]
    direct = list(module.parameters(recurse=False))  # such as a class token
    parts = [part for child in module.children() for part in _cut(child, layers)]
    return [nn.ParameterList(direct), *parts] if direct else parts
