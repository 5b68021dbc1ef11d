"""Flickr8k and Flickr30k: a form must be filled in for the images; the rest is done here."""

from collections.abc import Sequence
from dataclasses import dataclass

from pcme.data.fetch.base import Download, Item, registry
from pcme.data.fetch.coco import karpathy
from pcme.data.fetch.web import WebFile

_TERMS = (
    "non-commercial research and education; the images are their photographers', under Flickr's terms. The University "
    "of Illinois asks for a form"
)
_TEXTS = ("Flickr8k.token.txt", *(f"Flickr_8k.{split}Images.txt" for split in ("train", "dev", "test")))


@registry.register("flickr8k")
@dataclass(frozen=True)
class Flickr8kFiles(Download):
    """Flickr8k: 8,091 images, five captions each; both archives come by e-mail after a form."""

    about = "Flickr8k: 8,091 images with five captions each (Hodosh et al. 2013)"
    terms = _TERMS
    page = "http://nlp.cs.illinois.edu/HockenmaierGroup/8k-pictures.html"
    dataset = "flickr8k"

    @property
    def items(self) -> Sequence[Item]:
        """Two archives that the person has asked for."""
        ask = "Fill in https://forms.illinois.edu/sec/1713398; the links come by e-mail."
        images, texts = {"Flicker8k_Dataset": "Flicker8k_Dataset"}, {name: name for name in _TEXTS}
        return (
            WebFile("Flickr8k_text.zip", takes=texts, unpacked=10_000_000, by_hand=ask),
            WebFile("Flickr8k_Dataset.zip", takes=images, unpacked=1_200_000_000, by_hand=ask),
        )


@registry.register("flickr30k")
@dataclass(frozen=True)
class Flickr30kFiles(Download):
    """Flickr30k: 31,783 images, five captions each, with Karpathy's splits; the images come after a form."""

    about = "Flickr30k: 31,783 images with five captions each (Young et al. 2014), and Karpathy's splits"
    terms = f"{_TERMS}; Karpathy's splits state no licence"
    page = "https://shannon.cs.illinois.edu/DenotationGraph/"
    dataset = "flickr30k"

    @property
    def items(self) -> Sequence[Item]:
        """The images that the person has asked for; captions and splits."""
        ask = "Fill in https://forms.illinois.edu/sec/229675; the link comes by e-mail."
        images = {"flickr30k-images": "flickr30k-images"}
        return (
            WebFile("flickr30k-images.tar", takes=images, unpacked=4_500_000_000, by_hand=ask),
            karpathy("flickr30k"),
        )
