"""Fig. F.1: does σ grow when pixels are erased, or unknown words appended?"""

from pcme.reproduce.base import Experiment, registry
from pcme.reproduce.experiments.fig7 import spoiled


@registry.register("fig-f1")
class FigureF1(Experiment):
    """Mean log σ as more and more pixels are erased, or `<unk>`s appended."""

    where = "Fig. F.1"
    differs = (
        "The paper's is of COCO. Of 300 images and 300 captions; as many `<unk>`s are appended as a share of the "
        "caption's words. They take nothing away from a caption, and training has none of them."
    )
    setups = ("aviary", "cub", "coco")
    content = (
        spoiled("erased", "Images, pixels erased", "erased (%)", "σ is larger with half erased"),
        spoiled(
            "appended",
            "Captions, <unk>s appended",
            "appended (% of the words)",
            "σ is larger with half as many appended",
        ),
    )
