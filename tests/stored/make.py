"""Make the stored files, and note what they say: `python -m tests.stored.make`.

They are files of version 0.1. Made anew they would be files of today, and prove nothing about those
that people have: add to them when a format comes, do not replace them.
"""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pcme
from pcme import recipes
from pcme.evaluation import Evaluation, evaluate
from pcme.index import tuning
from pcme.reproduce import reproduce
from pcme.reproduce.jobs import perform
from pcme.training import Reporter
from tests.helpers import one_thread
from tests.helpers import record as called
from tests.reproduce.tiny import SETUP
from tests.stored import opened

ROWS = {"points": (40, 4), "tuned": (512, 2)}
"""{index without a model: (rows, dimension)}."""


class Stop(Reporter):
    """Ctrl-C after so many steps."""

    def __init__(self, after):
        self.left = after

    def step(self, run, values):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def make(folder):
    """Every stored thing, in a folder that is the current one."""
    for run, after in opened.STOPPED.items():
        make_run(folder / run, run, after)
    make_model(folder / "model")
    make_index(folder / "index", folder / "model")
    make_points(folder / "points")
    make_tuned(folder / "tuned")
    evaluate("model", scores=["overlap"]).save(folder / "evaluation")
    called("analyze", "model", "all", "--numbers-only", "--out", "analysis")
    make_reproduction(folder / "reproduce")


def make_run(folder, run, after):
    """A run that was interrupted; without the log whose name says on which machine."""
    try:
        with one_thread():
            pcme.train(opened.recipe(run), folder, reporter=Stop(after))
    except KeyboardInterrupt:
        shutil.rmtree(folder / "tensorboard")
    for older in sorted((folder / "checkpoints").iterdir())[:-1]:
        shutil.rmtree(older)


def make_model(folder):
    """A finished model as a run leaves it, its confidence, and the same as the hub has it."""
    recipe = opened.recipe("run")
    with one_thread():
        pcme.train(recipe, folder / "run")
    for name in ("recipe.json", "weights.safetensors", "vocab.json"):
        shutil.copy(folder / "run" / name, folder / name)
    shutil.rmtree(folder / "run")
    # All of Aviary's validation species, for there must be something to fit.
    called("calibrate", folder, "aviary")
    pcme.load(folder).save_pretrained(folder.parent / "hub")


def make_index(folder, model):
    """Images and captions of the split, with metadata of several types."""
    index = pcme.SearchIndex.create(folder, model, columns={"number": "int64"})
    split = opened.birds()
    names = [split.images.id(n) for n in range(len(split.images))]
    pictures = [split.images.load(n) for n in range(len(split.images))]
    number = range(len(pictures))
    known = {
        "number": list(number),
        "place": [("Oslo", "Rome", None)[n % 3] for n in number],
        "share": [n / 7 for n in number],
        "tags": [["even"] if n % 2 == 0 else ["odd", "seen"] for n in number],
    }
    index.add(pictures, known, ids=names)
    texts = list(split.captions[:24])
    index.add(texts, {"number": list(range(24))}, ids=[f"text {n}" for n in range(24)], kind="caption")
    index.delete([names[-1]])


def make_points(folder):
    """Vectors of somebody's own, without a spread."""
    count, dim = ROWS["points"]
    index = pcme.SearchIndex.create(folder, dim=dim)
    means, _ = opened.gaussians(count, dim, seed=1)
    index.add(pcme.Points(means[:, None]), {"year": list(range(count))}, ids=ids(count))


def make_tuned(folder):
    """Gaussians with an approximate index, whose lift and effort are kept with it."""
    count, dim = ROWS["tuned"]
    index = pcme.SearchIndex.create(folder, dim=dim, score="overlap", spread="diagonal")
    index.add(pcme.Gaussian(*opened.gaussians(count, dim, seed=2)), ids=ids(count))
    # Fewer rows than are worth tuning, for the file's sake.
    with mock.patch.multiple(tuning, LEAST=count):
        index.tune(target=0.5)
        index.compact()


def make_reproduction(folder):
    """The record of an experiment, and one of its jobs without the run."""

    def launch(job):
        job.write()
        perform(job)

    with one_thread():
        reproduce(["dof"], data=SETUP, quick=True, out=folder / "all", jobs=1, launch=launch)
    shutil.copy(folder / "all" / "results" / "aviary-quick-dof.json", folder)
    first = min((folder / "all" / "runs").glob("*/job.json")).parent
    (folder / "job").mkdir()
    for name in ("job.json", "figures.json"):
        shutil.copy(first / name, folder / "job" / name)
    shutil.rmtree(folder / "all")


def ids(count):
    return [f"{n:04d}" for n in range(count)]


def figures(files, tmp):
    """What all of it says."""
    copy = shutil.copytree(files, tmp / "copy")
    model = copy / "model"
    return {
        "evaluation": opened.judged(model),
        "embedded": opened.embedded(pcme.load(model)),
        "stored evaluation": opened.figures_of(Evaluation.load(copy / "evaluation" / "overlap.npz")),
        "search": opened.searched(copy / "index", model),
        "vectors": {name: opened.searched_by_vectors(copy / name) for name in ROWS},
        "described": {name: opened.described(copy / name) for name in opened.INDEXES},
        "confidence": opened.understood(model),
        "digests": opened.digests(model, tmp),
        "weights": opened.weight_names(),
        "reproduce": opened.reproduced(copy / "reproduce"),
        "resumed": {run: opened.resumed(run, copy / run) for run in opened.RUNS},
        "trained": {name: opened.trained(name, tmp / name) for name in opened.FRESH},
        "features": opened.kept_features(model, tmp / "cache"),
    }


def write(path, value, indent=None):
    path.write_text(json.dumps(value, indent=indent, ensure_ascii=False) + "\n", encoding="utf-8")


def main():
    if opened.FILES.exists():
        sys.exit(f"{opened.FILES} is there: stored files are not made anew")
    place = Path(tempfile.gettempdir()) / "pcme-stored"  # an index remembers where its model was
    place.mkdir()
    os.environ["PCME_CACHE"] = str(place / "cache")
    made = place / "files"
    made.mkdir()
    os.chdir(made)
    make(made)
    (place / "tmp").mkdir()
    write(opened.FIGURES, figures(made, place / "tmp"))
    write(opened.TINY_DEMO, opened.demonstrated(place / "demo"), indent=1)
    write(opened.RECIPES, {name: recipes.get(name).record() for name in recipes.names()})
    shutil.copytree(made, opened.FILES)
    os.chdir(opened.HERE)
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
