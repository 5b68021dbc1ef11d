"""Backbones that learn labels first learn them once, for all runs that would learn the same.

A phase with task "labels" does not depend on the method: it trains the backbone alone, on batches
that follow from the seed. So it is trained once, in a run without anything else, and other runs
begin with the checkpoint that they would have reached themselves, to the bit.
"""

import shutil
from pathlib import Path

from filelock import FileLock

from pcme.recipes.schema import Recipe, part
from pcme.reproduce.stamps import digest
from pcme.training import Reporter, checkpoint, train
from pcme.training.optim import AdamP
from pcme.training.phases import trained_groups
from pcme.training.prepare import prepared
from pcme.training.runs import Position, Run
from pcme.training.state import save

__all__ = ["begun", "labels_alone"]

NETWORK = "images.network."


def begun(recipe: Recipe, folder: Path, *, data_root: Path | None, stamp: str) -> None:
    """Put a checkpoint after the label phases into a run's folder; nothing to do without any.

    The shared run lies beside the run's folder.
    """
    alone = labels_alone(recipe)
    if alone is None or checkpoint.newest(folder / "checkpoints") is not None:
        return
    shared = folder.parent / f"labels-{digest(alone, stamp)}"
    shared.mkdir(parents=True, exist_ok=True)
    with FileLock(shared / ".lock"):
        train(alone, shared, data_root=data_root, resume=True, workers=1)
    _put(recipe, folder, shared, len(alone.phases), data_root)


def labels_alone(recipe: Recipe) -> Recipe | None:
    """The part of a recipe that learns labels and nothing else; None where there is none.

    An average of the weights would begin in that phase, and is the method's own.
    """
    count = 0
    while count < len(recipe.phases) and recipe.phases[count].task == "labels":
        count += 1
    if count == 0 or recipe.average is not None:
        return None
    update = {"name": "labels", "method": part("pcme-mu"), "dim": 8}
    return recipe.model_copy(update={**update, "phases": recipe.phases[:count]})


def _put(recipe: Recipe, folder: Path, shared: Path, phases: int, data_root: Path | None) -> None:
    found = checkpoint.newest(shared / "checkpoints")
    assert found is not None, "the shared run has just come to its end"
    run = prepared(recipe, folder, data_root, workers=1, strict=False, reporter=Reporter())
    _load(run, found)
    journal = folder / "metrics.jsonl"
    shutil.copyfile(shared / "metrics.jsonl", journal)
    logged = journal.stat().st_size
    run.position = Position(phase=phases, total=found.step, logged=logged)
    # A phase begins with an optimiser of its own: what is saved here is never read.
    unused = AdamP(trained_groups(run.model, run.probe, recipe.phases[0], words=False), lr=1.0)
    save(run, unused)


def _load(run: Run, found: checkpoint.Checkpoint) -> None:
    weights = found.tensors("model")
    own = {name.removeprefix(NETWORK): w for name, w in weights.items() if name.startswith(NETWORK)}
    run.model.images.network.load_state_dict(own)
    assert run.probe is not None, "a recipe that learns labels has one"
    run.probe.load_state_dict(found.tensors("probe"))
