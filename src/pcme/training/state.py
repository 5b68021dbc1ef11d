"""State: a run's weights, optimiser, average and position, to a checkpoint and back."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxtyping import Shaped
from torch import Tensor

from pcme.core import files
from pcme.errors import ConfigError, FormatError
from pcme.model import verify
from pcme.recipes import difference
from pcme.recipes.schema import from_record
from pcme.training import checkpoint, journal
from pcme.training.optim import AdamP
from pcme.training.runs import CHECKPOINTS, Position, Reporter, Run


def save(run: Run, optimiser: AdamP) -> None:
    """Write the state; the journal is on disk before it."""
    if run.events is not None:
        run.events.flush()
    tensors, groups = checkpoint.flatten_optimiser(optimiser.state_dict())
    state = {
        "position": vars(run.position),
        "recipe": run.recipe.record(),
        "data": run.trained_on,
        "precision": run.precision.state(),
        "optimiser": groups,
    }
    parts: dict[str, Mapping[str, Shaped[Tensor, ...]]] = {"model": run.model.state_dict(), "optimiser": tensors}
    if run.average is not None:
        parts["average"] = run.average.state()
    if run.probe is not None:
        parts["probe"] = run.probe.state_dict()
    checkpoint.save(run.checkpoints, run.position.total, parts, {"state": state})


def require_usable(folder: Path, *, resume: bool) -> None:
    """Refuse, before any work, a run's folder that cannot be written, or that holds a run."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{folder}: cannot be the run's folder, {nearest} is not a folder that can be written. Give another --out."
        )
    if resume:
        return
    checkpoints = folder / CHECKPOINTS
    newest = checkpoint.newest(checkpoints)
    if newest is not None or checkpoint.damaged(checkpoints):
        run = f"a run at step {newest.step}" if newest else "a damaged run"
        raise ConfigError(f"{folder}: holds {run}. Continue with --resume, or give another --out.")


def resume(run: Run, reporter: Reporter) -> checkpoint.Checkpoint | None:
    """Restore the newest checkpoint; None to start the run, or its next phase, afresh."""
    newest = checkpoint.newest(run.checkpoints)
    checkpoint.clean(run.checkpoints)
    for folder in (run.folder, run.folder / "last"):
        files.clean(folder)
    if newest is None:
        _refuse_if_damaged(run)
        journal.forget(run)
        return None
    for note in newest.passed_over:
        reporter.note(f"{note}; resuming from step {newest.step} instead")
    state = newest.record("state")
    _refuse_another_run(run, state)
    _restore(run, newest, state)
    return newest if run.position.epoch or run.position.step else None


def restore_optimiser(optimiser: AdamP, saved: checkpoint.Checkpoint) -> None:
    """Restore the optimiser's moments."""
    record = saved.record("state")["optimiser"]
    optimiser.load_state_dict(checkpoint.unflatten_optimiser(saved.tensors("optimiser"), record))


def _restore(run: Run, saved: checkpoint.Checkpoint, state: Mapping[str, Any]) -> None:
    run.model.load_state_dict(saved.tensors("model"))
    run.position = Position(**state["position"])
    run.precision.load(state.get("precision", {}))
    if run.average is not None:
        run.average.load(saved.tensors("average"))
    if run.probe is not None:
        run.probe.load_state_dict(saved.tensors("probe"))
    if run.position.best_step:
        for folder in (run.folder, run.folder / "last"):
            verify(folder, run.model)
    journal.rewind(run)


def _refuse_if_damaged(run: Run) -> None:
    if notes := checkpoint.damaged(run.checkpoints):
        raise FormatError(
            f"{run.checkpoints}: no checkpoint is whole, got {'; '.join(notes)}. Restore one from "
            "a backup, or remove the folder to start again."
        )


def _refuse_another_run(run: Run, state: Mapping[str, Any]) -> None:
    """The settings of a run must not change under way: the result would be neither."""
    # Read by today's schema: keys that older versions did not write have their defaults.
    then = from_record(state["recipe"], where=f"{run.checkpoints}: ")
    if changed := difference(run.recipe, then):
        keys = "; ".join(f"{key}: {old!r} then, {new!r} now" for key, (old, new) in changed.items())
        raise ConfigError(
            f"{run.folder}: was started with another recipe, {keys}. Use that one, or give another --out."
        )
    old = state.get("data", run.trained_on)
    if old != run.trained_on:
        raise ConfigError(
            f"{run.folder}: was started with other data, {_described(old)} then, "
            f"{_described(run.trained_on)} now. Give the same --data-root, or another --out."
        )


def _described(data: Mapping[str, Any]) -> str:
    return "{name} of {images:,} images and {captions:,} captions, digest {digest:.8}".format(**data)
