"""Towers of `transformers`: loaded by hub name or from a folder, rebuilt without their weights.

`transformers` is imported only here, and only when a tower is asked for. Weights come from
safetensors files alone and no code of a repository is run.
"""

import importlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from pcme.errors import ConfigError, DataError, FormatError, PcmeError

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
    unpooled: str | None = None

    def run_example(self, **inputs: Shaped[Tensor, "..."]) -> Any:  # noqa: ANN401 - the library's
        """The model's output for an example, which has its widths, however its config names them.

        A model that cannot be used this way is refused here, not in the midst of a run.
        """
        kind = self.model.config.model_type
        refusal = f"{self.source}: a model of kind {kind} cannot be used as a {self.side} tower"
        remedy = f"Take another model as {KEYS[self.side]}."
        try:
            with torch.no_grad():
                output = self.model(**inputs)
        except Exception as error:  # a model may need other inputs besides
            reason = str(error).partition("\n")[0]
            raise FormatError(f"{refusal}, got {reason}. {remedy}") from error
        if getattr(output, "last_hidden_state", None) is None:
            raise FormatError(f"{refusal}, it has no last hidden states. {remedy}")
        return output

    def require_pooled(self, output: Any, instead: str) -> None:  # noqa: ANN401
        """Refuse to pool where there is no such vector, or one that was not trained."""
        none = all(getattr(output, name, None) is None for name in VECTORS)
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
    """The tower of one side, with its weights; of a model with both sides, that side alone.

    Where both sides have a projection to a space that they share, it comes along.
    """
    _require_source(source, side)
    package = library()
    with quiet(package), _explained(source):
        whole = package.AutoConfig.from_pretrained(source, **_careful(source))
        model, told = _with_weights(package, source, _own(whole, side), side)
    _require_side(model, side, source)
    missing = sorted(told["missing_keys"])
    unpooled = [name for name in missing if "pooler" in name.split(".")]
    if strange := [name for name in missing if name not in unpooled]:
        raise FormatError(
            f"{source}: its weights are not those of its config, it lacks {', '.join(strange[:3])} "
            f"({len(strange)} in all). Give a {side} model."
        )
    _settle(model)
    _clear(model, unpooled)
    model.config.architectures = [type(model).__name__]  # what `rebuild` goes by
    return Tower(source, side, model.eval(), _why_unpooled(unpooled, told["unexpected_keys"], side))


def rebuild(folder: Path, side: Side) -> Tower:
    """The tower that a saved config describes; its weights are still to be loaded."""
    package, source = library(), str(folder)
    with quiet(package), _explained(source):
        whole = package.AutoConfig.from_pretrained(source, **_careful(source))
        config = _own(whole, side)
        projecting = _projecting(package, config)
        projects = projecting and config.architectures == [projecting.__name__]
        kind = projecting if projects else _kind(package, config)
        with torch.random.fork_rng(devices=[]):
            made = kind.from_config(config) if kind is package.AutoModel else kind(config)
    return Tower(source, side, made.float().eval())


def pooled(output: Any) -> Float[Tensor, "b p"]:  # noqa: ANN401 - the library's
    """The one vector per item, of an output that `Tower.require_pooled` accepted."""
    values = (getattr(output, name, None) for name in VECTORS)
    vector: Tensor = next(value for value in values if value is not None)
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
    before, after = nn.ModuleList(parts[:at]), parts[at + 1 :]
    *lower, last = layers
    return (before, *lower, nn.ModuleList([last, *after]))


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
    except PcmeError:
        raise
    except Exception as error:  # damaged files can make the library raise nearly anything
        reason = str(error).partition("\n")[0]
        raise FormatError(
            f"{source}: not a model that transformers can build, got {reason}. Take a model of the "
            "kinds CLIP, SigLIP, DINOv2, ViT, ConvNeXt, ResNet or BERT."
        ) from error


def _own(whole: Any, side: Side) -> Any:  # noqa: ANN401 - a config of the library
    """The config of one side: it masks no patches and projects as the whole model does."""
    config = getattr(whole, f"{side}_config", None) or whole
    if hasattr(config, "projection_dim"):
        config.projection_dim = getattr(whole, "projection_dim", config.projection_dim)
    if hasattr(config, "mask_ratio"):  # masked autoencoders leave most patches out
        config.mask_ratio = 0.0
    return config


def _with_weights(package: Any, source: str, config: Any, side: Side) -> tuple[Any, Any]:  # noqa: ANN401
    """(model, the library's loading report); with its projection where the file has one."""
    projecting, bare = _projecting(package, config), _kind(package, config)
    for kind in (projecting, bare) if projecting else (bare,):
        with torch.random.fork_rng(devices=[]):  # the library draws what it then overwrites
            model, told = kind.from_pretrained(
                source, config=config, use_safetensors=True, dtype=torch.float32,
                output_loading_info=True, **_careful(source),
            )  # fmt: skip
        if not any(PROJECTIONS[side] in name.split(".") for name in told["missing_keys"]):
            break  # otherwise a tower that was saved alone
    return model, told


def _projecting(package: Any, config: Any) -> Any:  # noqa: ANN401
    """The class of the tower with its projection, where the library has one."""
    name = type(config).__name__.removesuffix("Config") + "ModelWithProjection"
    return getattr(package, name, None)


def _kind(package: Any, config: Any) -> Any:  # noqa: ANN401
    """The class to build; the text side of some models is one that AutoModel does not know."""
    if type(config) in package.MODEL_MAPPING:
        return package.AutoModel
    name = type(config).__name__.removesuffix("Config") + "Model"
    return getattr(package, name, package.AutoModel)


def _careful(source: str) -> dict[str, Any]:
    """No code from the repository; and no network for a folder."""
    return {"trust_remote_code": False, "local_files_only": Path(source).is_dir()}


def _settle(model: nn.Module) -> None:
    """Copy the weights out of their mapped file: sums round by where weights lie in memory.

    A model that was saved and loaded would otherwise differ from this one in the last bit.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()


def _clear(model: nn.Module, names: Sequence[str]) -> None:
    """Set weights that no file has, and nothing may use, to 0 instead of the library's draw."""
    with torch.no_grad():
        for name in names:
            model.get_parameter(name).zero_()


def _why_unpooled(missing: Sequence[str], dropped: Iterable[str], side: Side) -> str | None:
    if missing:
        return "its file has no weights for its pooling layer"
    if any(name.startswith(f"{PROJECTIONS[side]}.") for name in dropped):
        return "its pooled vector needs a projection that transformers has in the whole model only"
    return None


def _cut(module: nn.Module, layers: nn.Module) -> list[nn.Module]:
    """The module in order: `layers`, and around it the largest parts that have nothing of it."""
    if module is layers or all(part is not layers for part in module.modules()):
        return [module]
    own = list(module.parameters(recurse=False))  # such as a class token
    parts = [part for child in module.children() for part in _cut(child, layers)]
    return [nn.ParameterList(own), *parts] if own else parts
