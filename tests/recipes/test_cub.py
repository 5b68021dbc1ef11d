"""The recipe cub-toy: the network of the paper's Fig. 5, on its nine classes."""

import math
import shutil

from pcme.recipes import get
from pcme.training import train
from tests.helpers import real, record
from tests.models import build
from tests.training.trained import losses


def test_the_toy_is_the_network_of_c3():
    """Paper: §C.3: no attention; a bi-GRU of 1,024; on both sides two linear maps to the plane, for μ and for log σ."""
    model = build("cub-toy")
    sizes = {"images": model.images.network.features, "captions": 1024}
    expected = {}
    for side, width in sizes.items():
        for head in ("mean", "sigma"):
            expected |= {f"{side}.heads.{head}.base.weight": (2, width), f"{side}.heads.{head}.base.bias": (2,)}
        expected[f"{side}.heads.sigma.offset"] = (2,)
    assert {name: tuple(p.shape) for name, p in model.named_parameters() if ".heads." in name} == expected
    gru = model.captions.words.gru
    assert (gru.hidden, gru.stacks) == (512, 1)
    assert {side.heads.sigma.bounds for side in (model.images, model.captions)} == {None}
    assert (model.method.likelihood, model.method.samples, model.method.positives) == ("sampled", 7, "matches")


def small(root, whole):
    """Two photographs of each class from both halves of CUB-200-2011's own division."""
    root.mkdir()
    index, halves = (
        dict(line.split() for line in (whole / file).read_text().splitlines())
        for file in ("images.txt", "train_test_split.txt")
    )
    rows = []
    for name in get("cub-toy").data.params["classes"]:
        for half in "10":
            listed = [n for n, image in index.items() if image.startswith(f"{name}/") and halves[n] == half]
            rows += [(number, index[number], half) for number in listed[:2]]
    for _, image, _ in rows:
        for place in (f"images/{image}", f"text_c10/{image[:-4]}.txt"):
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(whole / place, root / place)
    (root / "images.txt").write_text("".join(f"{number} {image}\n" for number, image, _ in rows))
    (root / "train_test_split.txt").write_text("".join(f"{number} {half}\n" for number, _, half in rows))
    return root


def test_the_toy_trains_on_photographs_and_its_figure_is_drawn(tmp_path):
    """Paper: Fig. 5, §C.3; few photographs, a narrow GRU."""
    root, figures = small(tmp_path / "cub", real("cub")), tmp_path / "figures"
    short = ["phases.0.epochs=1", "phases.0.warmup_steps=1", "augment.views=1", "caption.hidden=8"]
    train(get("cub-toy").changed(short), tmp_path / "run", data_root=root, workers=0)
    assert all(map(math.isfinite, losses(tmp_path / "run")))
    found = record("analyze", tmp_path / "run", "ellipses", "--data-root", root, "--out", figures)
    assert {path.suffix for path in figures.iterdir()} == {".json", ".svg", ".png"}
    assert all(math.isfinite(number["value"]) for number in found["analyses"][0]["numbers"])
