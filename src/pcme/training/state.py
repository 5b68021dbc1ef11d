"""State: a run's weights, optimiser, average and position, to a checkpoint and back."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pcme.core import files
from pcme.data.loading.offline import OfflineNegatives
from pcme.errors import ConfigError, FormatError
from pcme.model.folder import require_same
from pcme.recipes import difference
from pcme.recipes.schema import from_record
from pcme.training import checkpoint, journal
from pcme.training.optim import AdamP
from pcme.training.runs import CHECKPOINTS, Position, Run


def save(run: Run, optimiser: AdamP) -> None:
    """Write the state; the journal is on disk before it."""
    if run.events is not None:
        run.events.flush()
    tensors, groups = checkpoint.flatten_optimiser(optimiser.state_dict())
    state = {
        "position": vars(run.position),
        "recipe": run.recipe.record(),
        "data": run.trained_on,
        "precision": run.precision.scaler.state_dict(),
        "offline": run.offline is not None,
        "optimiser": groups,
    }
    parts: dict[str, checkpoint.Tensors] = {"model": run.model.state_dict(), "optimiser": tensors}
    if run.average is not None:
        parts["average"] = run.average.state()
    if run.probe is not None:
        parts["probe"] = run.probe.state_dict()
    if run.offline is not None:
        parts["offline"] = {name: torch.from_numpy(table) for name, table in vars(run.offline).items()}
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
    newest = checkpoint.newest(folder / CHECKPOINTS)
    if newest is not None or checkpoint.damaged(folder / CHECKPOINTS):
        run = f"a run at step {newest.step}" if newest else "a damaged run"
        raise ConfigError(f"{folder}: holds {run}. Continue with --resume, or give another --out.")


def resume(run: Run) -> checkpoint.Checkpoint | None:
    """Restore the newest checkpoint; None to start the run, or its next phase, afresh."""
    newest = checkpoint.newest(run.checkpoints)
    checkpoint.clean(run.checkpoints)
    models = (run.folder, run.folder / "last")
    for folder in models:
        files.clean(folder)
    if newest is None:
        if notes := checkpoint.damaged(run.checkpoints):
            raise FormatError(
                f"{run.checkpoints}: no checkpoint is whole, got {'; '.join(notes)}. Restore one from a backup, or "
                "remove the folder to start again."
            )
        journal.forget(run)
        return None
    for note in newest.passed_over:
        run.reporter.note(f"{note}; resuming from step {newest.step} instead")
    state = newest.record("state")
    _refuse_another_run(run, state)
    run.model.load_state_dict(newest.tensors("model"))
    run.position = Position(**state["position"])
    run.precision.scaler.load_state_dict(state.get("precision", {}))
    if run.average is not None:
        run.average.load(newest.tensors("average"))
    if run.probe is not None:
        run.probe.load_state_dict(newest.tensors("probe"))
    if state.get("offline"):  # older versions had none
        run.offline = OfflineNegatives(**{name: table.numpy() for name, table in newest.tensors("offline").items()})
    if run.position.best_step:
        for folder in models:
            require_same(folder, run.recipe, len(run.model.vocab), run.model.state_dict())
    journal.rewind(run)
    return newest if run.position.epoch or run.position.step else None


def restore_optimiser(optimiser: AdamP, saved: checkpoint.Checkpoint) -> None:
    """Restore the optimiser's moments."""
    record = saved.record("state")["optimiser"]
    optimiser.load_state_dict(checkpoint.unflatten_optimiser(saved.tensors("optimiser"), record))


def _refuse_another_run(run: Run, state: Mapping[str, Any]) -> None:
    """The settings of a run must not change under way: the result would be neither."""
    # Read by today's schema: keys that older versions did not write have their defaults.
    then = from_record(state["recipe"], where=f"{run.checkpoints}: ")
    if changed := difference(run.recipe, then):
        keys = "; ".join(f"{key}: {old!r} then, {new!r} now" for key, (old, new) in changed.items())
        raise ConfigError(
            f"{run.folder}: was started with another recipe, {keys}. Use that one, or give another --out."
        )
    old, new = state.get("data", run.trained_on), run.trained_on
    if old != new:
        text = "{name} of {images:,} images and {captions:,} captions, digest {digest:.8}"
        raise ConfigError(
            f"{run.folder}: was started with other data, {text.format(**old)} then, {text.format(**new)} now. "
            "Give the same --data-root, or another --out."
        )
