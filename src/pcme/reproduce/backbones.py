"""Backbones that learn labels first are trained once for all runs with the same label phases.

A phase with task "labels" does not depend on the method: it trains the backbone alone, on batches that follow from the
seed. So it is trained once, in a run of its own, and the other runs start from its checkpoint, bit-identical to the one
they would have reached themselves.
"""

import shutil
from itertools import takewhile
from pathlib import Path

from filelock import FileLock

from pcme.recipes.schema import Recipe, part
from pcme.reproduce.stamps import digest
from pcme.training import Reporter, checkpoint, train
from pcme.training.optim import AdamP
from pcme.training.phases import trained_groups
from pcme.training.prepare import prepare_run
from pcme.training.runs import Position
from pcme.training.state import save

NETWORK = "images.network."


def start_from_shared_backbone(recipe: Recipe, folder: Path, *, data_root: Path | None, stamp: str) -> None:
    """Put the checkpoint after the label phases, if the recipe has any, into a run's folder beside the shared run's."""
    alone = labels_alone(recipe)
    if alone is None or checkpoint.newest(folder / "checkpoints") is not None:
        return
    shared = folder.parent / f"labels-{digest(alone, stamp)}"
    shared.mkdir(parents=True, exist_ok=True)
    with FileLock(shared / ".lock"):
        train(alone, shared, data_root=data_root, resume=True, workers=1)
    newest = checkpoint.newest(shared / "checkpoints")
    assert newest is not None, "the shared run has just ended"
    run = prepare_run(recipe, folder, data_root, workers=1, strict=False, reporter=Reporter())
    assert run.probe is not None, "a recipe that learns labels has one"
    weights = newest.tensors("model").items()
    network = {name.removeprefix(NETWORK): weight for name, weight in weights if name.startswith(NETWORK)}
    run.model.images.network.load_state_dict(network)
    run.probe.load_state_dict(newest.tensors("probe"))
    journal = folder / "metrics.jsonl"
    shutil.copyfile(shared / "metrics.jsonl", journal)
    logged = journal.stat().st_size
    run.position = Position(phase=len(alone.phases), total=newest.step, logged=logged)
    # A phase starts with a new optimiser: this one is never read.
    unused = AdamP(trained_groups(run.model, run.probe, recipe.phases[0], words=False), lr=1.0)
    save(run, unused)


def labels_alone(recipe: Recipe) -> Recipe | None:
    """The label phases as a recipe of their own; None without any, or with an average, which would begin in them."""
    phases = tuple(takewhile(lambda phase: phase.task == "labels", recipe.phases))
    if not phases or recipe.average is not None:
        return None
    return recipe.model_copy(update={"name": "labels", "method": part("pcme-mu"), "dim": 8, "phases": phases})
