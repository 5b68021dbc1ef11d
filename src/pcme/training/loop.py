"""Train: from a recipe to a run; a resumed run is bit-identical to an uninterrupted one.

Every random draw is a function of the seed and of where it is made (epoch, step, row), so the state of a run is its
weights, its optimiser and its position; nothing else has to be saved. A step is one batch; a checkpoint is written
after every epoch, and when the run is interrupted.
"""

from contextlib import nullcontext
from pathlib import Path

from pcme.core import files
from pcme.data.loading.batches import Loader
from pcme.evaluation import embed, retrieval
from pcme.kernels.devices import AUTO, DeviceLike, choose
from pcme.model import Model
from pcme.recipes.schema import Recipe
from pcme.training import checkpoint, journal, state
from pcme.training.allocator import keep_freed
from pcme.training.card import card
from pcme.training.faults import explain_faults
from pcme.training.interrupts import defer_interrupts
from pcme.training.offline import with_offline
from pcme.training.optim import AdamP, cosine_with_warmup
from pcme.training.phases import trained_groups
from pcme.training.prepare import loader, prepare_run, validation_features
from pcme.training.runs import Reporter, Run
from pcme.training.steps import train_step


def train(
    recipe: Recipe,
    out: str | Path,
    *,
    data_root: str | Path | None = None,
    resume: bool = False,
    workers: int = 2,
    strict: bool = False,
    reporter: Reporter | None = None,
    device: DeviceLike = AUTO,
    compiled: bool = False,
) -> Model:
    """The trained model; `out` holds the run: recipe, weights, vocabulary, metrics, checkpoints.

    With `compiled` the image backbone goes through torch.compile, whose first steps are slow.
    """
    there = choose(device)
    state.require_usable(Path(out), resume=resume)
    with keep_freed():
        root = None if data_root is None else Path(data_root)
        run = prepare_run(recipe, Path(out), root, workers, strict, reporter or Reporter(), there)
        if compiled:
            run.model.images.network.compile()
        with explain_faults(run):
            saved = state.resume(run)
            journal.begin(run)
            try:
                run.reporter.begin(run)
                for _ in range(run.position.phase, len(recipe.phases)):
                    _run_phase(run, saved)
                    saved = None
            finally:
                journal.end(run)
    return run.model


def _run_phase(run: Run, saved: checkpoint.Checkpoint | None) -> None:
    phase, position = run.phase, run.position
    optimiser = AdamP(trained_groups(run.model, run.probe, phase, words=run.recipe.words.train), lr=phase.learning_rate)
    if saved is not None:
        state.restore_optimiser(optimiser, saved)
    batches = loader(run)
    for epoch in range(position.epoch, phase.epochs):
        try:
            _run_epoch(run, with_offline(run, batches), optimiser)
        except KeyboardInterrupt:
            _interrupted(run, optimiser)
            raise
        position.epoch, position.step = epoch + 1, 0
        last = epoch + 1 == phase.epochs
        if phase.task == "match" and (last or (epoch + 1) % run.recipe.validation.every_epochs == 0):
            _validate(run)
            last = last or _patience_is_over(run)
        if last:
            position.phase, position.epoch, position.waited = position.phase + 1, 0, 0
        state.save(run, optimiser)
        if last:
            return


def _run_epoch(run: Run, batches: Loader, optimiser: AdamP) -> None:
    phase, position = run.phase, run.position
    earlier = sum(inner.epochs for inner in run.recipe.phases[: position.phase])
    total = phase.epochs * len(batches)
    with defer_interrupts() as stop_if_asked:
        for batch in batches.epoch(earlier + position.epoch, start=position.step):
            done = position.epoch * len(batches) + batch.step
            factor = cosine_with_warmup(done, total=total, warmup=phase.warmup_steps)
            run.within_step = True
            values = train_step(run, batch, optimiser, factor)
            position.step = batch.step + 1  # batches of unusable images alone are passed over
            position.total += 1
            journal.log(run, values)
            run.within_step = False
            run.reporter.step(run, values)
            stop_if_asked()


def _interrupted(run: Run, optimiser: AdamP) -> None:
    """Save the steps made so far; half a step cannot be resumed."""
    if run.within_step:
        last = checkpoint.last_good(run.checkpoints)
        run.reporter.note(f"interrupted within step {run.position.total}, which is not saved; {last}")
        return
    state.save(run, optimiser)
    run.reporter.note(f"interrupted at step {run.position.total}; continue with --resume")


def _validate(run: Run) -> None:
    """Evaluate on the validation split; the best weights so far go to the run's folder."""
    model, position = run.model, run.position
    with run.average.apply_to(model) if run.average is not None else nullcontext():
        features = validation_features(run)
        embedded = embed(model, run.val_set, run.problems, workers=run.workers, features=features)
        images, captions = (side.to(model.device) for side in (embedded.images, embedded.captions))
        figures = retrieval(model.score(), images, captions, embedded.dataset.matches())
        mean = (figures["i2t"]["r_precision"] + figures["t2i"]["r_precision"]) / 2
        position.waited += 1
        if mean > position.best:
            position.best, position.best_step, position.best_figures = mean, position.total, figures
            position.waited = 0
            model.save(run.folder)
        model.save(run.folder / "last")
    flat = {f"val/{direction}/{name}": v for direction, values in figures.items() for name, v in values.items()}
    journal.log(run, flat)
    files.write_text(run.folder / "README.md", card(run, figures))
    run.reporter.validated(run, figures)


def _patience_is_over(run: Run) -> bool:
    patience, position = run.recipe.validation.patience, run.position
    if patience is None or position.waited < patience:
        return False
    run.reporter.note(
        f"phase {position.phase} ends at step {position.total}: {position.waited} validations in a row were no better "
        f"than {100 * position.best:.1f}, that of step {position.best_step}"
    )
    return True
