"""Figures in the records of the studies: by file, keys, row, and what is made of its runs."""

from statistics import fmean

import numpy as np

from pcme.uncertainty.sigma import EqualBins
from studies.confidence.tables import GALLERIES
from studies.tables import DOCS, read_record

STUDIES = DOCS.parent / "studies"
RECORDS = {name: read_record(STUDIES / name / "record.json") for name in ("algebra", "confidence", "real", "truth")}
SEARCHED = read_record(STUDIES / "real" / "search.json")
WAYS = ("i2t", "t2i")
KEYS = {"rate": "phases.0.learning_rate", "warm": "method.warm_start", "pseudo": "method.pseudo_weight"}
PHOTOGRAPHS = ("cub", "cub-finetune", "cub-joined", "flickr8k")


def at(record, path):
    """The value at "key/key/key"."""
    for key in path.split("/"):
        record = record[key]
    return record


def runs(study, *rows):
    """The runs of these rows of a study on photographs."""
    return [run for run in RECORDS["real"][study] if run["row"] in rows]


def all_rows(study):
    """The rows that compare across the modalities."""
    return tuple(dict.fromkeys(run["row"] for run in RECORDS["real"][study] if run["row"] != "HIB"))


def seeds(study, row, path):
    """A value of every run of a row."""
    return tuple(at(run, path) for run in runs(study, row))


def percent(study, row, path):
    """The mean over the seeds, in per cent."""
    return 100 * fmean(seeds(study, row, path))


def both(study, *rows, kind="r_precision", part="test"):
    """A metric in either direction, row by row, in per cent."""
    return tuple(percent(study, row, f"{part}/{way}/{kind}") for row in rows for way in WAYS)


def ends(study, rows, *paths):
    """The least and the greatest mean of some rows, for each path, in per cent."""
    means = [[percent(study, row, path) for row in rows] for path in paths]
    return tuple(end(part) for part in means for end in (min, max))


def lost(study, row, kind="r_precision"):
    """By how much a row is below the best one, in either direction, in points."""
    best = (ends(study, all_rows(study), f"test/{way}/{kind}")[1] for way in WAYS)
    return tuple(top - mine for top, mine in zip(best, both(study, row, kind=kind), strict=True))


def spread(study, *paths):
    """The largest standard deviation over the seeds of any row, in points."""
    return max(100 * np.std(seeds(study, row, path), ddof=1) for row in all_rows(study) for path in paths)


def minutes(study, *rows):
    """How long the shortest and the longest run took."""
    taken = [run["seconds"] / 60 for run in runs(study, *rows)]
    return min(taken), max(taken)


def together(study, row, way):
    """ρ over the bins of σ of R@1, averaged over the seeds."""
    curves = seeds(study, row, f"sigma/bins {way}")
    return EqualBins(*(np.mean([curve[key] for curve in curves], 0) for key in ("width", "recall@1"))).correlation


def falls(way, rows):
    """In how many runs R@1 over the bins of σ falls, and of how many."""
    rho = [at(run, f"sigma/bins~recall {way}") for study in PHOTOGRAPHS for run in runs(study, *rows)]
    return sum(value < 0 for value in rho), len(rho)


def rises(way, rows):
    """The other runs, and of how many."""
    fewer, every = falls(way, rows)
    return every - fewer, every


def tried(row, **setting):
    """R-Precision of a trial of the search on CUB, in either direction, in per cent."""
    wanted = {KEYS[name]: value for name, value in setting.items()}
    trial = next(t for t in SEARCHED["cub"] if t["row"] == row and t["setting"] == wanted)
    return tuple(100 * trial["figures"][way]["r_precision"] for way in WAYS)


def species(key, *methods):
    """A metric of Aviary's test species, mean over the seeds, of each method."""
    test = {
        method: [run["test"][key] for run in RECORDS["truth"]["runs"] if run["method"] == method] for method in methods
    }
    return tuple(map(fmean, test.values()))


def confidence(path):
    """A value of the study of confidence."""
    return at(RECORDS["confidence"], path)


def rule(method, where, text, key):
    """What a rule for "nothing matches" does."""
    return RECORDS["confidence"][method]["rules"][where][text][key]


def taken_off(key):
    """What isotonic calibration takes off an error of `pcme-overlap`: least and most of the galleries, in per cent."""
    reports = [confidence(f"pcme-overlap/{where}/isotonic") for where in GALLERIES]
    shares = [100 * (1 - report["calibrated"][key] / report["raw"][key]) for report in reports]
    return min(shares), max(shares)


def both_of(model, way, key):
    """A metric of a way to find what two captions say."""
    return RECORDS["algebra"][model]["and"][way][key]
