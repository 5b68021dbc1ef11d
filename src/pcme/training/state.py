"""Saves: a run's state into a checkpoint, and back.

The state is the weights, the optimiser, the average and the position: see `training`.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from pcme.core import files
from pcme.errors import ConfigError, FormatError
from pcme.model import verify
from pcme.recipes import difference
from pcme.recipes.schema import from_record
from pcme.training import checkpoint, journal
from pcme.training.optim import AdamP
from pcme.training.runs import Position, Reporter, Run

__all__ = ["restore_optimiser", "resumed", "save"]


def save(run: Run, optimiser: AdamP) -> None:
    """Write the state; what was noted until here is on disk before."""
    if run.events is not None:
        run.events.flush()
    tensors, groups = checkpoint.flatten_optimizer(optimiser.state_dict())
    state = {
        "position": vars(run.position),
        "recipe": run.recipe.record(),
        "data": run.trained_on,
        "precision": run.precision.state(),
        "optimiser": groups,
    }
    parts: dict[str, Mapping[str, Tensor]] = {
        "model": run.model.state_dict(),
        "optimiser": tensors,
    }
    if run.average is not None:
        parts["average"] = run.average.state()
    if run.probe is not None:
        parts["probe"] = run.probe.state_dict()
    checkpoint.save(run.checkpoints, run.position.total, parts, {"state": state})


def resumed(run: Run, resume: bool, reporter: Reporter) -> checkpoint.Checkpoint | None:
    """The state of the newest checkpoint put in place; None to start afresh, or a phase afresh."""
    found = checkpoint.newest(run.checkpoints)
    if not resume:
        _refuse_to_overwrite(run, found)
    checkpoint.clean(run.checkpoints)
    for folder in (run.folder, run.folder / "last"):
        files.clean(folder)
    if found is None:
        _refuse_if_damaged(run)
        journal.forget(run)
        return None
    for note in found.passed_over:
        reporter.note(f"{note} - going on from step {found.step} instead")
    state = found.record("state")
    _refuse_another_run(run, state)
    _put_in_place(run, found, state)
    return found if run.position.epoch or run.position.step else None


def restore_optimiser(optimiser: AdamP, found: checkpoint.Checkpoint) -> None:
    """Go on with the optimiser's moments."""
    record = found.record("state")["optimiser"]
    optimiser.load_state_dict(checkpoint.unflatten_optimizer(found.tensors("optimiser"), record))


def _put_in_place(run: Run, found: checkpoint.Checkpoint, state: Mapping[str, Any]) -> None:
    run.model.load_state_dict(found.tensors("model"))
    run.position = Position(**state["position"])
    run.precision.load(state.get("precision", {}))
    if run.average is not None:
        run.average.load(found.tensors("average"))
    if run.probe is not None:
        run.probe.load_state_dict(found.tensors("probe"))
    if run.position.best_step:
        for folder in (run.folder, run.folder / "last"):
            verify(folder, run.model)
    journal.rewind(run)


def _refuse_to_overwrite(run: Run, found: checkpoint.Checkpoint | None) -> None:
    if found is not None or checkpoint.damaged(run.checkpoints):
        at = f"a run at step {found.step}" if found else "a damaged run"
        raise ConfigError(
            f"{run.folder} holds {at} - give --resume to go on with it, or another --out"
        )


def _refuse_if_damaged(run: Run) -> None:
    if notes := checkpoint.damaged(run.checkpoints):
        raise FormatError(
            f"{run.checkpoints}: no checkpoint is whole - {'; '.join(notes)} - put back a copy, or "
            "remove the folder to begin again"
        )


def _refuse_another_run(run: Run, state: Mapping[str, Any]) -> None:
    """What a run was begun with must not change under way: the result would be neither."""
    # Read anew: what older versions did not write has the values they had.
    then = from_record(state["recipe"], where=f"{run.checkpoints}: ")
    if changed := difference(run.recipe, then):
        named = "; ".join(
            f"{key}: {old!r} then, {new!r} now" for key, (old, new) in changed.items()
        )
        raise ConfigError(
            f"{run.folder} was begun with another recipe - {named} - use that one, or another --out"
        )
    old = state.get("data", run.trained_on)
    if old != run.trained_on:
        raise ConfigError(
            f"{run.folder} was begun with other data: {_described(old)} then, "
            f"{_described(run.trained_on)} now - give the same --data-root, or another --out"
        )


def _described(data: Mapping[str, Any]) -> str:
    return "{name} of {images:,} images and {captions:,} captions, digest {digest:.8}".format(
        **data
    )
