"""Train: from a recipe to a run; a resumed run is bit-identical to an uninterrupted one.

Every random draw is a function of the seed and of where it is made (epoch, step, row), so the state
of a run is its weights, its optimiser and its position; nothing else has to be saved.
A step is one batch; a checkpoint is written after every epoch, and when the run is interrupted.
"""

from contextlib import nullcontext
from pathlib import Path

from pcme.core import files
from pcme.data.loading.batches import Loader
from pcme.evaluation import embed, retrieval
from pcme.model import Model
from pcme.recipes.schema import Phase, Recipe
from pcme.training import checkpoint, journal, state
from pcme.training.allocator import keep_freed
from pcme.training.card import card
from pcme.training.faults import explain_faults
from pcme.training.interrupts import defer_interrupts
from pcme.training.optim import AdamP, cosine_with_warmup
from pcme.training.phases import trained_groups
from pcme.training.prepare import loader, prepare_run, validation_features
from pcme.training.runs import Figures, Reporter, Run
from pcme.training.steps import train_step


def train(
    recipe: Recipe,
    out: Path,
    *,
    data_root: Path | None = None,
    resume: bool = False,
    workers: int = 2,
    strict: bool = False,
    reporter: Reporter | None = None,
) -> Model:
    """The trained model; `out` holds the run: recipe, weights, vocabulary, metrics, checkpoints."""
    reporter = reporter or Reporter()
    state.require_usable(Path(out), resume=resume)
    with keep_freed():
        run = prepare_run(recipe, Path(out), data_root, workers, strict, reporter)
        with explain_faults(run):
            saved = state.resume(run, reporter)
            journal.begin(run, reporter)
            try:
                reporter.begin(run)
                for number in range(run.position.phase, len(recipe.phases)):
                    _run_phase(run, number, saved, reporter)
                    saved = None
            finally:
                journal.end(run)
    return run.model


def _run_phase(run: Run, number: int, saved: checkpoint.Checkpoint | None, reporter: Reporter) -> None:
    phase = run.recipe.phases[number]
    groups = trained_groups(run.model, run.probe, phase, words=run.recipe.words.train)
    optimiser = AdamP(groups, lr=phase.learning_rate)
    if saved is not None:
        state.restore_optimiser(optimiser, saved)
    batches = loader(run, number, reporter)
    for epoch in range(run.position.epoch, phase.epochs):
        run.position.epoch = epoch
        try:
            _run_epoch(run, batches, phase, optimiser, reporter)
        except KeyboardInterrupt:
            _interrupted(run, optimiser, reporter)
            raise
        run.position.epoch, run.position.step = epoch + 1, 0
        last = epoch + 1 == phase.epochs
        due = last or (epoch + 1) % run.recipe.validation.every_epochs == 0
        if due and phase.task == "match":
            _validate(run, number, reporter)
            last = last or _patience_is_over(run, number, reporter)
        if last:
            run.position.phase, run.position.epoch, run.position.waited = number + 1, 0, 0
        state.save(run, optimiser)
        if last:
            return


def _run_epoch(run: Run, batches: Loader, phase: Phase, optimiser: AdamP, reporter: Reporter) -> None:
    epoch, position = run.position.epoch, run.position
    offset = sum(inner.epochs for inner in run.recipe.phases[: position.phase])
    total = phase.epochs * len(batches)
    with defer_interrupts() as stop_if_asked:
        for batch in batches.epoch(offset + epoch, start=position.step):
            done = epoch * len(batches) + batch.step
            factor = cosine_with_warmup(done, total=total, warmup=phase.warmup_steps)
            run.within_step = True
            values = train_step(run, batch, phase, optimiser, factor)
            position.step = batch.step + 1  # batches of unusable images alone are passed over
            position.total += 1
            journal.log(run, values)
            run.within_step = False
            reporter.step(run, values)
            stop_if_asked()


def _interrupted(run: Run, optimiser: AdamP, reporter: Reporter) -> None:
    """Save the steps made so far; half a step cannot be resumed."""
    if run.within_step:
        last = checkpoint.last_good(run.checkpoints)
        reporter.note(f"interrupted within step {run.position.total}, which is not saved; {last}")
        return
    state.save(run, optimiser)
    reporter.note(f"interrupted at step {run.position.total}; continue with --resume")


def _validate(run: Run, number: int, reporter: Reporter) -> None:
    """Evaluate on the validation split; the best weights so far go to the run's folder."""
    with run.average.apply_to(run.model) if run.average is not None else nullcontext():
        embedded = embed(
            run.model, run.val_set, run.problems, workers=run.workers,
            features=validation_features(run, number, reporter),
        )  # fmt: skip
        score = run.model.score()
        figures = retrieval(score, embedded.images, embedded.captions, embedded.dataset.matches())
        better = _note_best(run, figures)
        if better:
            run.model.save(run.folder)
        run.model.save(run.folder / "last")
    journal.log(run, journal.flat(figures))
    files.write_text(run.folder / "README.md", card(run, figures))
    reporter.validated(run, figures)


def _note_best(run: Run, figures: Figures) -> bool:
    """Record the figures in the position if they are the best so far; whether they are."""
    mean = (figures["i2t"]["r_precision"] + figures["t2i"]["r_precision"]) / 2
    position = run.position
    if not mean > position.best:
        position.waited += 1
        return False
    position.best, position.best_step, position.best_figures = mean, position.total, figures
    position.waited = 0
    return True


def _patience_is_over(run: Run, number: int, reporter: Reporter) -> bool:
    patience, waited = run.recipe.validation.patience, run.position.waited
    if patience is None or waited < patience:
        return False
    reporter.note(
        f"phase {number} ends at step {run.position.total}: {waited} validations in a row were no "
        f"better than {100 * run.position.best:.1f}, that of step {run.position.best_step}"
    )
    return True
