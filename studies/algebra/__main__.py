"""`python -m studies.algebra`: do combined queries retrieve what they ask for, where the truth is known?

Captions are written for images of Aviary. Two of them mention different attributes, and a third says all that both say.
The facts tell which images match "both", "either" and "one but not the other". Variants were compared on the validation
species. The tables of docs/results/aviary.md are of the test species. Writes them and record.json (`--tables`: the
tables alone, from the record).
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.special import logsumexp

import pcme
from pcme.core.random import numpy_stream
from pcme.data.aviary.captions import compose
from pcme.data.aviary.dataset import Aviary
from pcme.data.problems import Problems
from pcme.embedding import Embedding, Gaussian
from pcme.evaluation import embed
from pcme.model import Model
from pcme.retrieval import metrics
from pcme.retrieval.labels import UNSAID
from pcme.retrieval.matches import Matches
from pcme.scores.combine import One, Query, all_of, any_of, but_not, product
from pcme.uncertainty import Confidence
from pcme.uncertainty.calibrate import calibrate
from pcme.uncertainty.statistics import Calibration, auroc
from studies.runs import aviary_runs
from studies.tables import DOCS, markdown, read_record, write_record, write_tables

DOCUMENT = DOCS / "results" / "aviary.md"
RECORD = Path(__file__).parent / "record.json"
TRIALS = 1500
ORDER = "p / q, an order only"


@dataclass(frozen=True)
class Captions:
    """Captions: their embeddings, and which images each is true of [captions, images]."""

    embedding: Gaussian
    truth: np.ndarray


@dataclass(frozen=True)
class Trials:
    """Five captions per trial: two of one image, one that says both, one of another image, one to exclude."""

    first: Captions
    second: Captions
    both: Captions
    other: Captions
    excluded: Captions


def main() -> None:
    """Train what is missing, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--split", default="test", choices=("val", "test"))
    parser.add_argument("--tables", action="store_true", help="write the tables from the record, measure nothing")
    options = parser.parse_args()
    if not options.tables:
        torch.set_num_threads(1)
        runs = aviary_runs(options.runs)
        rows = {name: measure(run, options.split) for name, run in runs.items()}
        if options.split == "val":
            print(json.dumps(rows, indent=1))
            return
        write_record(RECORD, rows)
    write_tables(DOCUMENT, tables(read_record(RECORD)))


def measure(folder: Path, split: str) -> dict[str, dict[str, dict[str, float]]]:
    """All metrics of one run: {operation: {variant: metrics}}."""
    model = pcme.load(folder)
    confidence = calibrate(folder, Aviary().load("val")).confidence
    dataset = Aviary().load(split)
    images = embed(model, dataset, Problems()).images
    judge = Judge(model, confidence, images)
    return measure_operations(judge, write_trials(model, dataset))


def write_trials(model: Model, dataset: pcme.CaptionDataset) -> Trials:
    """Write the captions of all trials."""
    generator = numpy_stream(0, "algebra")
    facts = dataset.facts[generator.integers(len(dataset.facts), size=TRIALS)]
    order = np.argsort(generator.random(facts.shape), 1)
    counts = generator.integers(1, 4, (3, TRIALS, 1))
    first, second = order < counts[0], (order >= counts[0]) & (order < counts[0] + counts[1])
    other_facts = dataset.facts[generator.integers(len(dataset.facts), size=TRIALS)]

    def captions(facts: np.ndarray, mentioned: np.ndarray) -> Captions:
        texts = [compose(*bird, generator) for bird in zip(facts, mentioned, strict=True)]
        embedding = model.encode_captions(texts)
        assert isinstance(embedding, Gaussian)
        truth = Matches.from_facts(np.where(mentioned, facts, UNSAID), dataset.facts).dense()
        return Captions(embedding, truth)

    first_captions = captions(facts, first)
    matching_facts = facts_of_matches(first_captions.truth, dataset.facts, generator)
    return Trials(
        first_captions,
        captions(facts, second),
        captions(facts, first | second),
        captions(other_facts, np.argsort(generator.random(facts.shape), 1) < counts[2]),
        captions(matching_facts, order == counts[0]),
    )


def facts_of_matches(truth: np.ndarray, facts: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The facts of one random match per caption; the excluded caption is true of this image."""
    rows = (generator.random(truth.shape) * truth).argmax(1)
    drawn: np.ndarray = facts[rows]
    return drawn


@dataclass(frozen=True)
class Judge:
    """Scores queries and compares them with the truth."""

    model: Model
    confidence: Confidence
    images: Embedding

    def log_p(self, query: Query, *, calibrated: bool = True) -> np.ndarray:
        """Log match probability [trials, images]."""
        calibration = self.confidence.log_probability if calibrated else None
        return query.log_probabilities(self.model.score(), self.images, calibrate=calibration)

    def evaluate(self, log_p: np.ndarray, truth: np.ndarray) -> dict[str, float]:
        """Retrieval over the trials that have matches and others; calibration over all trials."""
        decidable = truth.any(1) & ~truth.all(1)
        log_p_decidable, matches = log_p[decidable], Matches.from_dense(truth[decidable])
        calibration = Calibration()
        calibration.add(np.exp(log_p), truth)
        pairs = zip(log_p_decidable, truth[decidable], strict=True)
        return {
            "r_precision": float(metrics.r_precision(log_p_decidable, matches).mean()),
            "recall@1": float(metrics.recall(log_p_decidable, matches, 1).mean()),
            "auroc": float(np.mean([auroc(row[true], row[~true]) for row, true in pairs])),
            "error": calibration.error,
            "expected": float(np.exp(log_p).sum() / truth.sum()),
        }


def measure_operations(judge: Judge, trials: Trials) -> dict[str, dict[str, dict[str, float]]]:
    """Every operation, each in several variants."""
    return {"and": conjunctions(judge, trials), "or": disjunctions(judge, trials), "not": exclusions(judge, trials)}


def conjunctions(judge: Judge, trials: Trials) -> dict[str, dict[str, float]]:
    """Variants of "both", beside one caption that says both."""
    a, b, truth = trials.first.embedding, trials.second.embedding, trials.both.truth
    density = product([a, b])
    unit = Gaussian(torch.nn.functional.normalize(density.mean, dim=1), density.log_sigma)
    pooled = Gaussian(density.mean, density.log_sigma + np.log(2) / 2)
    variants = {
        "one caption that says both": judge.log_p(One(trials.both.embedding)),
        "**product of probabilities** (`all_of`)": judge.log_p(all_of([a, b])),
        "the same, not calibrated": judge.log_p(all_of([a, b]), calibrated=False),
        "the lesser probability": np.minimum(judge.log_p(One(a)), judge.log_p(One(b))),
        'product of densities (`how="density"`)': judge.log_p(One(density)),
        "the same, its mean made a unit vector": judge.log_p(One(unit)),
        "geometric mean of densities": judge.log_p(One(pooled)),
        "the first caption alone": judge.log_p(One(a)),
    }
    return {name: judge.evaluate(log_p, truth) for name, log_p in variants.items()}


def disjunctions(judge: Judge, trials: Trials) -> dict[str, dict[str, float]]:
    """Either of two captions of different images."""
    a, b, truth = trials.first, trials.other, trials.first.truth | trials.other.truth
    parts = [judge.log_p(One(part.embedding)) for part in (a, b)]
    either = any_of([a.embedding, b.embedding])
    variants = {
        "**1 − (1 − p)(1 − q)** (`any_of`)": judge.log_p(either),
        "the same, not calibrated": judge.log_p(either, calibrated=False),
        "the greater probability": np.maximum(*parts),
        "mean of the probabilities (a mixture)": logsumexp(parts, axis=0) - np.log(2),
        "the first caption alone": parts[0],
    }
    return {name: judge.evaluate(log_p, truth) for name, log_p in variants.items()}


def exclusions(judge: Judge, trials: Trials) -> dict[str, dict[str, float]]:
    """The first caption but not the excluded one, which is true of some of the first's images."""
    a, b, truth = trials.first, trials.excluded, trials.first.truth & ~trials.excluded.truth
    without = but_not(a.embedding, b.embedding)
    alone = judge.log_p(One(a.embedding))
    ratio = alone - judge.log_p(One(b.embedding))
    variants = {
        "**p (1 − q)** (`but_not`)": judge.log_p(without),
        "the same, not calibrated": judge.log_p(without, calibrated=False),
        ORDER: ratio - ratio.max(),
        "the first caption alone": alone,
    }
    measured = {name: judge.evaluate(log_p, truth) for name, log_p in variants.items()}
    del measured[ORDER]["error"], measured[ORDER]["expected"]
    return measured


def tables(record: Mapping[str, dict]) -> dict[str, str]:
    """{mark: table}."""
    return {f"algebra:{name}": table(record, name) for name in ("and", "or", "not")}


def table(rows: Mapping[str, dict], operation: str) -> str:
    """One operation, all models."""
    head = ["model", "way", "R-P, %", "R@1, %", "AUROC", "calibration error", "Σ p / matches"]
    lines = [
        [name, variant, *(f"{100 * values[key]:.1f}" for key in ("r_precision", "recall@1"))]
        + [f"{values[key]:.4f}" if key in values else "–" for key in ("auroc", "error", "expected")]
        for name, row in rows.items()
        for variant, values in row[operation].items()
    ]
    return markdown(head, lines)


if __name__ == "__main__":
    main()
