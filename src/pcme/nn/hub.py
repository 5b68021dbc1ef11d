"""Towers of `transformers`: loaded by hub name or from a folder, rebuilt without their weights.

`transformers` is imported only here, and only when a tower is asked for. Weights come from
safetensors files alone and no code of a repository is run.
"""

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from pcme.errors import ConfigError, DataError, FormatError, PcmeError

__all__ = ["Side", "blocks_of", "library", "load", "quiet", "rebuild", "width"]

Side = Literal["vision", "text"]


def library() -> Any:  # noqa: ANN401 - a module that need not be installed has no type
    """The package `transformers`, or an error that says how to get it."""
    try:
        return importlib.import_module("transformers")
    except ImportError as error:
        raise ConfigError(
            f"a hub backbone needs transformers, which cannot be imported ({error}) - "
            "pip install 'pcme[hub]'"
        ) from error


def load(source: str, side: Side, generator: torch.Generator) -> nn.Module:
    """The tower of one side, with its weights; of a model with both sides, that side alone.

    A pooling layer that the file has no weights for is drawn from the generator.
    """
    _require_source(source)
    package = library()
    with quiet(package), _explained(source):
        whole = package.AutoConfig.from_pretrained(source, **_careful(source))
        own = getattr(whole, f"{side}_config", None) or whole
        with torch.random.fork_rng(devices=[]):  # the library draws what it then overwrites
            tower, told = _kind(package, own).from_pretrained(
                source, config=own, use_safetensors=True, dtype=torch.float32,
                output_loading_info=True, **_careful(source),
            )  # fmt: skip
    missing = sorted(told["missing_keys"])
    if strange := [name for name in missing if "pool" not in name]:
        raise FormatError(
            f"{source}: its weights are not those of its config - it lacks "
            f"{', '.join(strange[:3])} ({len(strange)} in all) - is it a {side} model?"
        )
    _draw(tower, missing, generator)
    found: nn.Module = tower.eval()
    return found


def rebuild(folder: Path) -> nn.Module:
    """The tower that a saved config describes; its weights are still to be loaded."""
    package = library()
    with quiet(package), _explained(str(folder)):
        config = package.AutoConfig.from_pretrained(str(folder), **_careful(str(folder)))
        with torch.random.fork_rng(devices=[]):
            kind = _kind(package, config)
            made = kind.from_config(config) if kind is package.AutoModel else kind(config)
    found: nn.Module = made.float().eval()
    return found


def width(tower: Any) -> int:  # noqa: ANN401 - a model of the library
    """How many numbers a site has."""
    sizes = getattr(tower.config, "hidden_sizes", None)
    return int(sizes[-1] if sizes else tower.config.hidden_size)


def blocks_of(tower: nn.Module) -> Sequence[nn.Module]:
    """What comes before the layers, the layers, and with the last of them what comes after."""
    kinds = (nn.ModuleList, nn.Sequential)
    lists = [part for part in tower.modules() if isinstance(part, kinds) and len(part) > 1]
    layers = max(lists, key=lambda found: sum(p.numel() for p in found.parameters()), default=None)
    if layers is None:
        return (tower,)
    parts = _cut(tower, layers)
    place = parts.index(layers)
    before, after = nn.ModuleList(parts[:place]), parts[place + 1 :]
    *lower, last = layers
    return (before, *lower, nn.ModuleList([last, *after]))


@contextmanager
def quiet(package: Any) -> Iterator[None]:  # noqa: ANN401
    """Without the library's reports and bars, which say nothing that is wrong."""
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


def _require_source(source: str) -> None:
    """Refuse a folder that is not there before it is taken for a hub name, and looked for long."""
    looks_like_a_path = not source or source[0] in "./~" or source.count("/") > 1
    if looks_like_a_path and not Path(source).is_dir():
        raise ConfigError(f'source "{source}" is not a folder - give a folder, or a hub name')


@contextmanager
def _explained(source: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = str(error).partition("\n")[0]
        raise DataError(
            f"{source}: cannot be loaded - {reason} - give a folder written by save_pretrained "
            "with safetensors, or a hub name and a connection"
        ) from error
    except PcmeError:
        raise
    except Exception as error:  # damaged files can make the library raise nearly anything
        reason = str(error).partition("\n")[0]
        raise FormatError(
            f"{source}: not a model that transformers can build - {reason} - take a model of the "
            "kinds CLIP, SigLIP, DINOv2, ViT, ConvNeXt, ResNet or BERT"
        ) from error


def _kind(package: Any, config: Any) -> Any:  # noqa: ANN401
    """The class to build; the text side of some models is one that AutoModel does not know."""
    if type(config) in package.MODEL_MAPPING:
        return package.AutoModel
    name = type(config).__name__.removesuffix("Config") + "Model"
    return getattr(package, name, package.AutoModel)


def _careful(source: str) -> dict[str, Any]:
    """No code from the repository; and no network for a folder."""
    return {"trust_remote_code": False, "local_files_only": Path(source).is_dir()}


def _draw(tower: nn.Module, names: Sequence[str], generator: torch.Generator) -> None:
    for name in names:
        value = tower.get_parameter(name)
        with torch.no_grad():
            if value.ndim > 1:
                value.normal_(0, 0.02, generator=generator)
            else:
                value.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)


def _cut(module: nn.Module, layers: nn.Module) -> list[nn.Module]:
    """The module in order: `layers`, and around it the largest parts that have nothing of it."""
    if module is layers or all(part is not layers for part in module.modules()):
        return [module]
    own = list(module.parameters(recurse=False))  # such as a class token
    parts = [part for child in module.children() for part in _cut(child, layers)]
    return [nn.ParameterList(own), *parts] if own else parts
