"""Backbones that learn labels first are trained once for all runs with the same label phases.

A phase with task "labels" does not depend on the method: it trains the backbone alone, on batches
that follow from the seed. So it is trained once, in a run of its own, and the other runs start from
its checkpoint, bit-identical to the one they would have reached themselves.
"""

import shutil
from pathlib import Path

from filelock import FileLock

from pcme.recipes.schema import Recipe, part
from pcme.reproduce.stamps import digest
from pcme.training import Reporter, checkpoint, train
from pcme.training.optim import AdamP
from pcme.training.phases import trained_groups
from pcme.training.prepare import prepare_run
from pcme.training.runs import Position, Run
from pcme.training.state import save

NETWORK = "images.network."


def start_from_shared_backbone(recipe: Recipe, folder: Path, *, data_root: Path | None, stamp: str) -> None:
    """Put the checkpoint after the label phases into a run's folder, if the recipe has any.

    The shared run lies beside the run's folder.
    """
    alone = labels_alone(recipe)
    if alone is None or checkpoint.newest(folder / "checkpoints") is not None:
        return
    shared = folder.parent / f"labels-{digest(alone, stamp)}"
    shared.mkdir(parents=True, exist_ok=True)
    with FileLock(shared / ".lock"):
        train(alone, shared, data_root=data_root, resume=True, workers=1)
    _put_checkpoint(recipe, folder, shared, len(alone.phases), data_root)


def labels_alone(recipe: Recipe) -> Recipe | None:
    """The label phases of a recipe as a recipe of their own; None where there are none.

    None also with an average of the weights, which would begin in these phases.
    """
    count = 0
    while count < len(recipe.phases) and recipe.phases[count].task == "labels":
        count += 1
    if count == 0 or recipe.average is not None:
        return None
    update = {"name": "labels", "method": part("pcme-mu"), "dim": 8}
    return recipe.model_copy(update={**update, "phases": recipe.phases[:count]})


def _put_checkpoint(recipe: Recipe, folder: Path, shared: Path, phases: int, data_root: Path | None) -> None:
    newest = checkpoint.newest(shared / "checkpoints")
    assert newest is not None, "the shared run has just ended"
    run = prepare_run(recipe, folder, data_root, workers=1, strict=False, reporter=Reporter())
    _load(run, newest)
    journal = folder / "metrics.jsonl"
    shutil.copyfile(shared / "metrics.jsonl", journal)
    logged = journal.stat().st_size
    run.position = Position(phase=phases, total=newest.step, logged=logged)
    # A phase starts with a new optimiser: this one is never read.
    unused = AdamP(trained_groups(run.model, run.probe, recipe.phases[0], words=False), lr=1.0)
    save(run, unused)


def _load(run: Run, saved: checkpoint.Checkpoint) -> None:
    weights = saved.tensors("model")
    network = {name.removeprefix(NETWORK): weight for name, weight in weights.items() if name.startswith(NETWORK)}
    run.model.images.network.load_state_dict(network)
    assert run.probe is not None, "a recipe that learns labels has one"
    run.probe.load_state_dict(saved.tensors("probe"))
