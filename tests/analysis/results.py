"""Results made by hand, one of each kind: what the drawing functions are tried with."""

from pcme.analysis.algebra import Projected, SetRelation, SetRelations
from pcme.analysis.bins import BinnedQueries, MetricCurve, SigmaBins
from pcme.analysis.calibration import WRITTEN, Reliability, Roc
from pcme.analysis.contact_sheet import Extreme, RetrievedItem
from pcme.analysis.erasing import PerturbationCurve, PerturbationCurves
from pcme.analysis.extremes import Ends, Tails
from pcme.analysis.geometry import Shape
from pcme.analysis.influence import LeaveOneOut, WordInfluence, WordInfluences
from pcme.analysis.toy import CLASSES, Plane, PlaneGaussian
from pcme.analysis.truth import CaptionPoint, MatchTruth, VersusMatches
from pcme.analysis.variances import Profile, Shares, VarianceProfiles
from pcme.analysis.words import BinWords, RankedWord, SideWords, WeightedWord, WordBins
from pcme.evaluation.bootstrap import Estimate

SOME = Estimate(0.5, 0.4, 0.6)
NONE = Estimate(float("nan"), float("nan"), float("nan"))
ODD = "a $5 <unk> bird & $x^2$, 100 % “über” {braces}"
"""What captions may hold and neither mathematics nor XML may stumble over."""

FALLING = MetricCurve("recall@1", (0.9, 0.6, 0.3), (0.8, 0.5, 0.2), (1.0, 0.7, 0.4), SOME, SOME)
CONSTANT = MetricCurve("r_precision", (1.0,) * 3, (1.0,) * 3, (1.0,) * 3, NONE, NONE)
BINS = SigmaBins(tuple(BinnedQueries(way, 30, (-3.0, -2.0, -1.0), (FALLING, CONSTANT)) for way in ("i2t", "t2i")))

RATIOS = (0.0, 0.5, 1.0)
ERASING = PerturbationCurves(
    tuple(
        PerturbationCurve(way, of, 10, RATIOS, (-3.0, -2.5, -2.0), (-3.2, -2.8, -2.1),
                          (-2.8, -2.2, -1.9), SOME, SOME)
        for way, of in (("replaced", "captions"), ("deleted", "captions"), ("appended", "captions"),
                        ("erased", "images"))
    )
)  # fmt: skip

TOY = Plane(
    tuple(PlaneGaussian(c, c % 3, c // 3, 0.2, 0.1) for c in range(9)),
    tuple(PlaneGaussian(c, c % 3, c // 3, 0.1, 0.2) for c in range(9)),
    PlaneGaussian(-1, 1.0, 1.0, 1.0, 0.8),
    tuple((c % 3, c // 3) for c in range(len(CLASSES))),
    1.0, 0.5, 1.0, 0.0, 4.0,
)  # fmt: skip

SHAPES = tuple(Shape(name, (0.1 * i, 0.2 * i), (0.04, 0.01, 0.02)) for i, name in enumerate(("A", "B", "mixed")))
ALGEBRA = SetRelations(
    tuple(
        SetRelation(f"relation number {i} that is tested", "inner", "outer", 20, SOME, SOME, SOME,
                 SOME, Projected(SHAPES[: 2 + i % 2], (ODD,)))
        for i in range(3)
    )
)  # fmt: skip

VARIANCES = VarianceProfiles(
    tuple(
        Profile(of, (1e-1, 1e-3, 1e-5), (1e-2, 1e-4, 1e-6), (1.0, 1e-2, 1e-4), 1e-3, isotropic,
                0.3, Shares(0.2, 0.3, 0.5))
        for of, isotropic in (("images", None), ("captions", 2e-3))
    )
)  # fmt: skip

BIN = (WeightedWord("bird", 5, 2.0, 1.5), WeightedWord(ODD, 3, 1.0, 0.5))
WORDS = WordBins(
    tuple(
        SideWords(
            of,
            tuple(
                BinWords(-3.0 + i, 12, (WeightedWord("bird", 5, 2.0, 1.5), WeightedWord(ODD, 3, 1.0, 0.5)))
                for i in range(5)
            ),
            (RankedWord("red", 20, 0.1), RankedWord(ODD, 20, 0.2)),
            (RankedWord("some", 20, 0.9), RankedWord("<unk>", 20, 0.8)),
            SOME,
        )
        for of in ("images", "captions")
    )
)

HITS = (RetrievedItem(0, ODD, -0.1, True), RetrievedItem(1, "a bird", -0.2, False))
TAILS = Tails(
    *(
        Ends(
            of,
            (Extreme(0, "a#0", ODD, -1.0, 12, HITS), Extreme(1, "b#0", "a bird", -1.1, 1, HITS)),
            (Extreme(2, "c#0", "a long caption " * 20, -5.0, 1, HITS),),
            0.5,
            1.0,
        )
        for of in ("images", "captions")
    ),
    tail=0.05,
)

INFLUENCE = WordInfluences(
    50,
    tuple(WordInfluence(f"word{i}", 5 + i, 0.5 - 0.05 * i, -0.1) for i in range(24)),
    (
        LeaveOneOut(("a", "red", ODD), (0.0, 0.4, -0.1), (0.0, -1.0, 0.2), 0.9),
        LeaveOneOut(("this", "small", "bird", "sings"), (0.1, 0.2, 0.0, 0.3), (0.0, 0.0, 0.1, -0.5), 0.4),
    ),
    SOME,
    SOME,
)

POINTS = tuple(CaptionPoint(1 + i % 300, -3.0 + i / 300) for i in range(300))
# with an expected number of 0
COUNTS = tuple(CaptionPoint(1 + i % 300, float(i)) for i in range(300))
MIDDLES = ((1.0, 10.0, 100.0), (-3.0, -2.5, -2.0), (-2.8, -2.3, -1.8), (-2.6, -2.1, -1.6))
NUMBERS = ((1.0, 10.0, 100.0), (0.0, 8.0, 90.0), (2.0, 11.0, 100.0), (3.0, 14.0, 120.0))
TRUTH = MatchTruth(
    300, 300, VersusMatches("width", POINTS, *MIDDLES, SOME),
    VersusMatches("expected", COUNTS, *NUMBERS, SOME), Estimate(1.4, 1.3, 1.5),
)  # fmt: skip

CALIBRATION = Reliability(
    10_000, (0.01, 0.5, 0.99), (0.0, 0.4, 1.0), (9_000, 300, 700), 0.02, 0.1,
    Roc(WRITTEN, 100, 50, (0.0, 0.1, 1.0), (0.0, 0.9, 1.0), 0.95),
)  # fmt: skip

ALL = {
    "algebra": ALGEBRA,
    "bins": BINS,
    "calibration": CALIBRATION,
    "erasing": ERASING,
    "extremes": TAILS,
    "influence": INFLUENCE,
    "toy": TOY,
    "truth": TRUTH,
    "variances": VARIANCES,
    "words": WORDS,
}
