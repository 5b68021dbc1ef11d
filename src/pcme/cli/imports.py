"""pcme import-checkpoint: convert a checkpoint of the authors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pcme.cli.output import Json, print_json
from pcme.core import files
from pcme.errors import ConfigError

FAULT = "cannot be the model's folder"


def import_checkpoint(
    checkpoint: Annotated[Path, typer.Argument(metavar="FILE", help="A .pth file that the authors' trainer wrote.")],
    *,
    out: Annotated[
        str,  # a Path would make the folder one stands in of an empty text
        typer.Option(metavar="FOLDER", help="A new or empty folder; `pcme.load` reads it."),
    ],
    vocab: Annotated[Path | None, typer.Option(help="The pickle of its words, for a checkpoint without them.")] = None,
    as_json: Json = False,
) -> None:
    """Convert a checkpoint of github.com/naver-ai/pcme; nothing in the files is executed."""
    from pcme.model.authors import import_checkpoint as import_model

    with files.explaining(out, FAULT):
        folder = _free_folder(out)
    model = import_model(checkpoint, vocab=vocab)
    with files.explaining(out, FAULT):
        model.save(folder)
    recipe, learned = model.recipe, {name: float(value) for name, value in model.objective.report().items()}
    facts: dict[str, Any] = {
        "recipe": recipe.name,
        "depth": recipe.image.params["depth"],
        "dim": recipe.dim,
        "words": len(model.vocab),
        "scale": learned["scale"],
        "shift": learned["shift"],
    }
    if as_json:
        print_json({"model": out, "source": str(checkpoint), **facts})
        return
    typer.echo(
        f"ResNet-{facts['depth']}, {facts['dim']:,} dimensions, {facts['words']:,} words, "
        f"a = {facts['scale']:.4g}, b = {facts['shift']:.4g}"
    )
    typer.echo(f"wrote {out}")


def _free_folder(out: str) -> Path:
    """The folder to write; an error, before any work, if it would mix with what is there."""
    if not out.strip():
        raise ConfigError("--out: must name a new folder for the model, got nothing.")
    folder = Path(out)
    present = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if "recipe.json" in present:
        raise ConfigError(f"{folder}: has a model already. Give another --out, or remove it first.")
    if present:
        raise ConfigError(f"{folder}: must be new or empty, got {', '.join(present[:3])}. Give another --out.")
    return folder
