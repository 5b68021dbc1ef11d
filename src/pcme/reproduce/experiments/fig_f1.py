"""Fig. F.1: does σ grow when pixels are erased, or unknown words appended?"""

from pcme.reproduce.base import Table, registry
from pcme.reproduce.experiments.fig7 import Figure7, spoiled
from pcme.reproduce.setups import Setup


@registry.register("fig-f1")
class FigureF1(Figure7):
    """Mean log σ as more and more pixels are erased, or `<unk>`s appended."""

    where = "Fig. F.1"
    differs = (
        "The paper's is of COCO. Of 300 images and 300 captions; as many `<unk>`s are appended as a share of the "
        "caption's words. They take nothing away from a caption, and training has none of them."
    )

    def tables(self, setup: Setup) -> tuple[Table, ...]:
        """Images, and captions."""
        words, more = "appended (% of the words)", "σ is larger with half as many appended"
        return (
            spoiled(setup, "erased", "Images, pixels erased"),
            spoiled(setup, "appended", "Captions, unknown words appended", words, more),
        )
