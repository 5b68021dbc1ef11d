"""COCO Captions of 2014 with Karpathy's splits, as the paper has them. Paper: §4.1, §C.1."""

from collections.abc import Sequence
from dataclasses import dataclass

from pcme.data.fetch.base import Download, Item, registry
from pcme.data.fetch.web import WebFile

_HOME = "http://images.cocodataset.org"
_BY = "recorded by TensorFlow Datasets; COCO publishes none"
_DOCUMENTS = ("captions_train2014.json", "captions_val2014.json", "instances_val2014.json")


@registry.register("coco")
@dataclass(frozen=True)
class CocoCaptions(Download):
    """COCO Captions of 2014: 123,287 images, five captions each, objects, and Karpathy's splits."""

    about = "COCO Captions of 2014: images, captions, objects of the val images, and Karpathy's splits"
    terms = (
        "annotations: CC BY 4.0; the images are their photographers', under Flickr's terms; Karpathy's splits state no "
        "licence, so they are fetched from his page and not part of this package"
    )
    page = "https://cocodataset.org, https://cs.stanford.edu/people/karpathy/deepimagesent/"
    dataset = "coco"

    @property
    def items(self) -> Sequence[Item]:
        """The small parts first."""
        documents = {f"annotations/{name}": f"annotations/{name}" for name in _DOCUMENTS}
        return (
            karpathy("coco"),
            WebFile(
                "annotations_trainval2014.zip", f"{_HOME}/annotations/annotations_trainval2014.zip", 252_872_794,
                "sha256:031296bbc80c45a1d1f76bf9a90ead27e94e99ec629208449507a4917a3bf009", _BY, documents, 400_000_000,
            ),
            WebFile(
                "val2014.zip", f"{_HOME}/zips/val2014.zip", 6_645_013_297,
                "sha256:fe9be816052049c34717e077d9e34aa60814a55679f804cd043e3cbee3b9fde0", _BY,
                {"val2014": "val2014"}, 6_660_000_000,
            ),
            WebFile(
                "train2014.zip", f"{_HOME}/zips/train2014.zip", 13_510_573_713,
                "sha256:ede4087e640bddba550e090eae701092534b554b42b05ac33f0300b984b31775", _BY,
                {"train2014": "train2014"}, 13_530_000_000,
            ),
        )  # fmt: skip


def karpathy(name: str) -> WebFile:
    """Karpathy and Fei-Fei's captions with their splits, of one dataset."""
    url, file = "https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip", f"dataset_{name}.json"
    return WebFile("caption_datasets.zip", url, 36_745_453, takes={file: file}, unpacked=150_000_000)
