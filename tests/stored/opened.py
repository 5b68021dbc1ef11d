"""What the stored files say when today's code opens them: the same functions make and check."""

import json
import os
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from safetensors.torch import load_file

import pcme
from pcme import analysis, data, methods, recipes
from pcme.data.loading.features import digest_of_module
from pcme.evaluation import evaluate
from pcme.reproduce.jobs import JobState, read_job
from pcme.reproduce.outcome import read, record
from tests import helpers
from tests.index.worlds import untrained

HERE = Path(__file__).parent
FILES, FIGURES = HERE / "files", HERE / "figures.json"
DEMO, TINY_DEMO, RECIPES = HERE / "demo.json", HERE / "demo-tiny.json", HERE / "recipes.json"

SMALL = ("data.test_species=6", "data.test_images=5")
"""A test split of 30 images and 120 captions."""

LABELS = '{"epochs":2,"learning_rate":0.005,"task":"labels"}'
MATCH = '{"epochs":1,"learning_rate":0.008,"warmup_steps":2}'
RUNS = {"run": (*SMALL, "average=0.9"), "run-labels": (*SMALL, f"phases=[{LABELS},{MATCH}]")}
"""Runs that were interrupted, and in what their recipes differ from aviary-tiny: one in its second
phase with an average of the weights, one while its backbone learns labels."""

STOPPED = {"run": 8, "run-labels": 4}
"""The step they were interrupted at: within an epoch."""

AUGMENTED = ("augment.crop=random-resized", "augment.flip=true", "augment.cutout=0.2")
ERASED = ("augment.erasing=0.3", "augment.word_erasing=0.3")
SHORT = ("phases.0.epochs=1", "phases.1.epochs=1")
SAMPLED = 'method={"kind":"pcme","likelihood":"sampled"}'
FRESH = {
    "sampled": (*SHORT, *AUGMENTED, SAMPLED, "sampling.kind=one-per-class"),
    "mixed": (*SHORT, *ERASED, 'method={"kind":"pcme++"}', "validation.share=0.2", "augment.views=2"),
    "points": (*SHORT, 'method={"kind":"pvse"}', "sampling.afresh=false"),
}
"""Runs from their first step to the last, which draw what the interrupted ones do not."""

INDEXES = ("index", "points", "tuned")

TEXT, ALSO, UNWANTED = "a small red bird", "a bird with a long tail", "a blue bird"

AT = (0.01, 0.1, 0.5, 0.9, 0.99)
"""Probabilities, best p and shares at which a confidence is asked."""


def recipe(run):
    """The recipe of an interrupted run."""
    return recipes.get("aviary-tiny").changed(RUNS[run])


def birds():
    """The split that the stored model is judged and searched on."""
    return data.create("aviary", **recipe("run").data.params).load("test")


def embedded(model):
    """A few values of what a model makes of the split's first images and captions."""
    split = birds()
    images = model.encode_images([split.images.load(n) for n in range(4)])
    captions = model.encode_captions(list(split.captions[:4]))
    return {
        "score": model.score()(captions, images).tolist(),
        **{
            f"{side} {name}": getattr(items, name)[:, :4].tolist()
            for side, items in (("images", images), ("captions", captions))
            for name in ("mean", "log_sigma")
        },
    }


def figures_of(evaluation):
    """All figures of an evaluation, and its values of the first queries."""
    return {
        **evaluation.record(),
        "dataset": evaluation.dataset,
        "digest": evaluation.digest,
        "labels": evaluation.labels,
        "parameters": dict(evaluation.parameters),
        "first": {
            way: {name: values[:4].tolist() for name, values in evaluation.direction(way).values.items()}
            for way in ("i2t", "t2i")
        },
        "ids": {way: list(evaluation.direction(way).ids[:4]) for way in ("i2t", "t2i")},
    }


def judged(model):
    """{score: figures} of the model in a folder, by every score."""
    return {one.score: figures_of(one) for one in evaluate(model, scores="all").results}


def resumed(run, folder):
    """What an interrupted run comes to when it goes on to its end."""
    with helpers.one_thread():
        pcme.train(recipe(run), folder, resume=True)
    return {
        "metrics": logged(folder),
        "weights": {
            name: [list(tensor.shape), *sampled(tensor)]
            for name, tensor in sorted(load_file(folder / "last/weights.safetensors").items())
        },
    }


def logged(folder):
    """What a run noted, but for the time."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "time"} for line in lines]


def trained(name, folder):
    """What a run comes to; the same draws make the same of it."""
    own = recipes.get("aviary-tiny").changed(FRESH[name])
    with helpers.one_thread():
        pcme.train(own, folder)
    return logged(folder)


def sampled(tensor):
    """A few values, evenly spaced, and the mean of the squares of all."""
    flat = tensor.double().flatten()
    some = np.linspace(0, len(flat) - 1, 4).astype(int)
    return [*flat[some].tolist(), float(flat.square().mean())]


def found(hits):
    """A search's hits with the keys that JSON had in 0.1, and with what it left out then."""
    record = hits.record()
    query = ("uncertainty", "percentile", "expected_matches", "answerable")
    hit = ("rank", "id", "match_probability", "uncertainty", "metadata")
    more = ("score", "raw_probability", "kind", "text")
    return {
        "query": {name: record["query"][name] for name in query},
        "hits": [{name: one[name] for name in hit} for one in record["hits"]],
        **{name: record[name] for name in ("searched", "calibrated", "exact")},
        "more": [{name: getattr(one, name) for name in more} for one in hits],
    }


def searched(folder, model):
    """Three searches of the index of birds: by a text, by a picture, and by several combined."""
    index = pcme.SearchIndex.open(folder, model)
    picture = birds().images.load(7)
    combined = {"all_of": [ALSO], "but_not": [UNWANTED]}
    return {
        "text": found(index.search(TEXT, k=5)),
        "picture": found(index.search(picture, k=5, kind="caption", where="number >= 3")),
        "combined": found(index.search(TEXT, k=5, kind="image", **combined)),
    }


def searched_by_vectors(folder):
    """Searches of an index without a model: of points by either, of Gaussians both ways."""
    index = pcme.SearchIndex.open(folder)
    mean, log_sigma = gaussians(1, index.settings.dim, seed=9)
    queries = {"point": pcme.Points(mean[:, None]), "gaussian": pcme.Gaussian(mean, log_sigma)}
    if index.settings.spread == "none":
        return {name: found(index.search(query, k=5)) for name, query in queries.items()}
    query = queries["gaussian"]
    return {"exact": found(index.search(query, k=5)), "approximate": found(index.search(query, k=5, exact=False))}


def gaussians(count, dim, seed):
    """(means, log σ) that numpy draws."""
    draws = np.random.default_rng(seed)
    mean, width = draws.normal(size=(count, dim)), draws.normal(-1.5, 0.3, size=(count, dim))
    return torch.tensor(mean, dtype=torch.float32), torch.tensor(width, dtype=torch.float32)


def described(folder):
    """What an index says of itself, but for where it lies."""
    said = pcme.SearchIndex.open(folder).describe().record()
    return {name: value for name, value in said.items() if name not in ("path", "bytes", "model")}


def understood(model):
    """What the confidence beside a model makes of numbers."""
    sure, at = pcme.Confidence.load(model), np.array(AT)
    cuts = [sure.threshold(min_coverage=share, by=by) for share in AT[1:4] for by in ("p", "sigma")]
    return {
        "probability": sure.probability(np.log(at)).tolist(),
        "percentile": [sure.percentile(at, side).tolist() for side in ("captions", "images")],
        "answerable": [sure.answerable(p, gallery=1000) for p in AT],
        "false_alarm": sure.false_alarm(at, gallery=1000).tolist(),
        "cuts": [[cut.value, cut.coverage, cut.risk] for cut in cuts],
    }


def digests(folder, tmp):
    """How a model and its backbone are known again, by indexes and by caches of features."""
    model = pcme.load(folder)
    index = pcme.SearchIndex.create(tmp / "empty", model)
    return {"model": index.settings.model.digest, "backbone": digest_of_module(model.images.network)}


def kept_features(folder, cache):
    """The names of what an evaluation with a backbone that stays frozen leaves in the cache."""
    stored = json.loads((folder / "recipe.json").read_text())
    stored["phases"] = stored["phases"][:1]
    (folder / "recipe.json").write_text(json.dumps(stored))
    with mock.patch.dict(os.environ, PCME_CACHE=str(cache)):
        evaluate(folder)
    return sorted(path.name for path in (cache / "features").iterdir() if path.is_dir())


def weight_names():
    """{method: {name of a weight: shape}} of the smallest model of every method."""
    return {
        method: {name: list(t.shape) for name, t in sorted(untrained(method).state_dict().items())}
        for method in methods.names()
    }


def analysed(path):
    """What a result of an analysis says: the same as its file."""
    stored = analysis.read(path)
    said = analysis.record(stored.analysis, stored.result, stored.about)
    return json.loads(json.dumps(said))


def reproduced(folder):
    """The record of an experiment, and one of its jobs."""
    job = read_job(folder / "job")
    return {
        "record": json.loads(json.dumps(record(read(folder / "aviary-quick-dof.json")))),
        "job": [job.label, job.recipe.record(), [each.key for each in job.measurements], dict(job.splits)],
        "figures": json.loads(json.dumps(JobState.read(folder / "job").figures)),
    }


def demonstrated(out):
    """What `pcme demo` finds with the smallest recipe, but for where and how fast."""
    with helpers.one_thread():
        said = helpers.record("demo", "--recipe", "aviary-tiny", "--out", out)
    return {name: said[name] for name in ("figures", "searches")}
