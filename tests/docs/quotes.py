"""Figures in the prose of the pages: the text, where the record has them, and how they are rounded.

A quote is a piece of a page with a field for every figure, and the figures as `records` finds them. A figure that is no
result (a setting, an aim, a definition) stands in NO_RESULTS; one without a record stands on its page between
`<!-- no record -->` and `<!-- /no record -->`, where the text says so.
"""

from dataclasses import dataclass
from statistics import fmean

from studies.confidence.tables import GALLERIES
from studies.readme import FIG6_ROWS
from tests.docs.records import (
    all_rows,
    both,
    both_of,
    confidence,
    ends,
    falls,
    lost,
    minutes,
    percent,
    rises,
    rule,
    seeds,
    species,
    spread,
    taken_off,
    together,
    tried,
)  # fmt: skip

README, REAL, AVIARY = "README.md", "docs/results/real.md", "docs/results/aviary.md"
CONFIDENCE, CALIBRATION = "docs/guide/confidence.md", "docs/science/calibration.md"
SIGMA, ANN = "docs/science/sigma.md", "docs/science/ann.md"
PAGES = (README, REAL, AVIARY, CONFIDENCE, CALIBRATION, SIGMA, ANN)
"""Pages whose figures are all accounted for. analytic.md, reproduction.md and the tables of speed.md are written and
compared as a whole; errata.md and paper.md have the paper's values and constants of the code."""

PAPERS, OURS = FIG6_ROWS.values()
LEVEL = ("PCME, μ only", "PCME, J = 7", "PCME, analytic")
ANALYTIC, OVERLAP, BROAD = "PCME, analytic", "**PCME, overlap**", "**PCME, overlap, broad**"
I2T, T2I = "test/i2t/r_precision", "test/t2i/r_precision"
BEST, ANY, SIZED = "best p ≥ ½", "1 − Π(1 − p) ≥ ½", "**best p ≥ threshold for this many items**"
DENSITY, GEOMETRIC = 'product of densities (`how="density"`)', "geometric mean of densities"


@dataclass(frozen=True)
class Quote:
    """A piece of a page, with a field for every figure."""

    page: str
    text: str
    figures: tuple[float, ...]

    @property
    def rendered(self):
        return self.text.format(*map(Figure, self.figures))


class Figure(float):
    """A number as the pages write it, with a true minus."""

    def __format__(self, spec):
        return super().__format__(spec).replace("-", "−")


QUOTES = (
    Quote(README, "ρ is above 0 in {:.0f} of {:.0f} runs", rises("t2i", PAPERS)),
    Quote(
        REAL,
        "on the unseen classes is {:.0f} to {:.0f} in both directions",
        (ends("cub", all_rows("cub"), I2T)[0], ends("cub", all_rows("cub"), T2I)[1]),
    ),
    Quote(
        REAL,
        "({:.1f} sampled, {:.1f} analytic; InfoNCE {:.1f})",
        tuple(percent("cub", row, I2T) for row in ("PCME, J = 7", ANALYTIC, "InfoNCE")),
    ),
    Quote(REAL, "({:.1f} / {:.1f} against {:.1f} / {:.1f})", both("cub", "InfoNCE", OVERLAP)),
    Quote(
        REAL,
        "R@1 of {:.0f} to {:.0f} / {:.0f}",
        (*ends("flickr8k", (*LEVEL, "PCME++"), "dev/i2t/recall@1"), percent("flickr8k", ANALYTIC, "dev/t2i/recall@1")),
    ),
    Quote(
        REAL,
        "({:.1f} / {:.1f}). VSE++ ({:.1f} / {:.1f}) and VSE0 ({:.1f} / {:.1f}) are below",
        both("flickr8k", "InfoNCE", "VSE++", "VSE0", kind="recall@1", part="dev"),
    ),
    Quote(
        REAL, "one backbone**, in {:.0f} to {:.0f} minutes per run", minutes("cub-finetune", *all_rows("cub-finetune"))
    ),
    Quote(REAL, "({:.1f} to {:.1f} / {:.1f} to {:.1f})", ends("cub-finetune", LEVEL, I2T, T2I)),
    Quote(REAL, "in the other direction ({:.1f} / {:.1f}). With averaged", both("cub-finetune", "InfoNCE")),
    Quote(
        REAL,
        "they have {:.1f} to {:.1f} / {:.1f} to {:.1f}, and InfoNCE {:.1f} / {:.1f}",
        (
            *ends("cub-finetune", LEVEL, "averaged/i2t/r_precision", "averaged/t2i/r_precision"),
            *both("cub-finetune", "InfoNCE", part="averaged"),
        ),
    ),
    Quote(REAL, "{:.1f} points of R-Precision from image to text and {:.1f} from text to image", lost("cub", BROAD)),
    Quote(
        REAL,
        "({:.0f} instead of {:.0f})",
        (percent("cub", BROAD, "within/images"), percent("cub", ANALYTIC, "within/images")),
    ),
    Quote(REAL, "captions is above 0 in {:.0f} of {:.0f} runs", rises("t2i", PAPERS)),
    Quote(REAL, "that of images is below 0 in {:.0f}, all of CUB with one backbone", falls("i2t", PAPERS)[:1]),
    Quote(REAL, "captions is below 0 in {:.0f} of {:.0f}", falls("t2i", OURS)),
    Quote(REAL, "took {:.1f} to {:.1f} minutes in the study", minutes("cub", ANALYTIC)),
    Quote(REAL, "captions {:.2f}, images {:.2f}, when", (together("cub", BROAD, "t2i"), together("cub", BROAD, "i2t"))),
    Quote(REAL, "({:.2f}, {:.2f} and {:.2f})", seeds("cub", BROAD, "sigma/bins~recall i2t")),
    Quote(REAL, "has {:.1f} / {:.1f}. With averaged", both("cub-joined", ANALYTIC)),
    Quote(REAL, "it has {:.1f} / {:.1f}. |", both("cub-joined", ANALYTIC, part="averaged")),
    Quote(
        REAL,
        "ρ is {:.2f} and {:.2f} on average of the seeds",
        tuple(fmean(seeds("cub-finetune", BROAD, f"sigma/bins~recall {way}")) for way in ("i2t", "t2i")),
    ),
    Quote(REAL, "took {:.0f} minutes a run", minutes("cub-joined", ANALYTIC)[1:]),
    Quote(REAL, "wide captions find more, not less ({:.2f})", (together("cub-joined", ANALYTIC, "t2i"),)),
    Quote(
        REAL,
        "VSE++ has {:.1f} / {:.1f} with the first and {:.1f} / {:.1f} with the second",
        (*tried("VSE++", rate=0.01, warm=0.5), *tried("VSE++", rate=0.01, warm=0.8)),
    ),
    Quote(
        REAL,
        "with which it reaches {:.0f} to {:.0f}",
        tuple(fmean(tried("PCME++", rate=rate, pseudo=0.1)) for rate in (0.005, 0.01)),
    ),
    Quote(REAL, "it reaches {:.0f}.", (fmean(tried("PCME++", rate=0.01, pseudo=0.01)),)),
    Quote(REAL, "over the seeds of `cub-effnet` is up to {:.1f}", (spread("cub", I2T, T2I),)),
    Quote(REAL, "the wider find less ({:.2f})", (together("flickr8k", BROAD, "t2i"),)),
    Quote(REAL, "for images does not fall ({:.2f})", (together("flickr8k", BROAD, "i2t"),)),
    Quote(AVIARY, "calibration error is {:.2f}", species("calibration error", "pcme, J = 7, diagonal positives")),
    Quote(
        AVIARY,
        "(ECE {:.3f} against {:.3f})",
        species("calibration error", "pcme-overlap, weighted positives", "**pcme-overlap**"),
    ),
    Quote(
        AVIARY,
        "{:.0f} to {:.0f} % off the error of `pcme-overlap` and {:.0f} to {:.0f} % off its log loss",
        (*taken_off("error"), *taken_off("log_loss")),
    ),
    Quote(
        AVIARY,
        "Σ p is then {:.0f} % too high ({:.0f} % before)",
        tuple(100 * (confidence(f"pcme/large/isotonic/{key}") - 1) for key in ("expected", "raw_expected")),
    ),
    Quote(AVIARY, "With growth it answers {:.0f} %", (100 * rule("pcme-overlap", "large", SIZED, "false_alarm"),)),
    Quote(
        AVIARY,
        "(AUROC {:.3f} against {:.3f} among 20,000)",
        tuple(rule("pcme-overlap", "large", text, "auroc") for text in (ANY, BEST)),
    ),
    Quote(
        AVIARY,
        "{:.0f} to {:.0f} % with `pcme-overlap`",
        tuple(end(100 * rule("pcme-overlap", g, SIZED, "removed") for g in GALLERIES) for end in (min, max)),
    ),
    Quote(AVIARY, "the rate is {:.0f} %", (100 * rule("pcme", "large", SIZED, "removed"),)),
    Quote(AVIARY, "here about {:.0f},000 items", (confidence("pcme-overlap/reach") / 1000,)),
    Quote(AVIARY, "it expects {:.0f} % more matches", (100 * (both_of("pcme-overlap", DENSITY, "expected") - 1),)),
    Quote(
        AVIARY,
        "({:.0f} % against {:.0f} %)",
        tuple(100 * both_of("pcme", way, "r_precision") for way in (DENSITY, "one caption that says both")),
    ),
    Quote(AVIARY, "and expects {:.0f} % more matches", (100 * (both_of("pcme-overlap", GEOMETRIC, "expected") - 1),)),
    Quote(
        CALIBRATION,
        "Measured growth is {:.2f} for `pcme-overlap`, but {:.2f} for `pcme`",
        (confidence("pcme-overlap/growth"), confidence("pcme/growth")),
    ),
)

NO_RESULTS = (
    (README, "Python 3.11", "a version"),
    (REAL, "PCME have at 0.03: that was its default then", "a setting"),
    (REAL, "R-Precision of 40 / 40 within", "an aim"),
    (REAL, "rises to 60 % of erased pixels", "an aim"),
    (REAL, "over σ bins below −0.9", "an aim"),
    (REAL, "with tuned stages, 46 / 46 within", "an aim"),
    (REAL, "A margin of 0.05", "a setting"),
    (REAL, "share of the run, 0.5 or 0.8", "settings"),
    (REAL, "weight of pseudo-positives, 0.1,", "a setting"),
    (REAL, "with 0.01", "a setting"),
    (AVIARY, "(0.13 against 0.032; [errata](../science/errata.md), 23)", "settings"),
    (AVIARY, "`pcme` have at 0.03; since then it has 0.03 by default", "a setting"),
    (AVIARY, "The requested rate, 10 %", "a setting"),
    (AVIARY, "do not bring the rate to 10 %", "the same"),
    (CONFIDENCE, "than 95 % of captions", "an example of a sentence"),
    (CALIBRATION, "within a bin p differs by 3 %", "1 / 32 of a unit of log-odds"),
    (CALIBRATION, "a share of 10 %", "a setting"),
    (SIGMA, "but not at 0.03", "the paper's weight"),
    (ANN, "for a recall of .99", "an aim"),
)
"""(page, text, why it is no result of ours)."""
