"""CUB Captions: images, captions and the lists of the splits, from three places. Paper: §4.1, §C.1."""

from collections.abc import Sequence
from dataclasses import dataclass

from pcme.data.fetch.base import Download, Item, registry
from pcme.data.fetch.web import WebFile

_LISTS_AT = (
    "https://raw.githubusercontent.com/naver-ai/pcme/4947684954ffa7884680424bf019f14b2ab43ee2/datasets/annotations/cub"
)
_LISTS = {
    "trainvalclasses.txt": (3_058, "54fc017c4c0cd2ad40fa13143f70e19b51fa18c61cd64b7783af1b9d1b74baa3"),
    "testclasses.txt": (1_074, "2adcf5ae19ee338ef46ae938c13c4a94d36c30dfc75981edf4fc6dd7f856ef3c"),
    "seen_test_images.txt": (92_652, "730c15fcdd2a3324f998dea2a3a25ec777aa1e1c22626302fa8256e1f6c127a0"),
    "trainclasses1.txt": (2_044, "96c67047dec6dae6c53aa133208dbdc71878f5c0cc0b8e2d68d62f18da007100"),
    "trainclasses2.txt": (2_038, "b229e843940cc23f1e1aa75a3c4c4753866d5e77f8775e0e45ee30fa67bef193"),
    "trainclasses3.txt": (1_999, "72a2e3214b8989e457a13f477aadf3fd15ffac8e271590a6e950dbc50ba7de07"),
    "valclasses1.txt": (1_014, "bdc962ffe489355946602ad8deceb48485c4d25ab3c8f349be64281532b559b9"),
    "valclasses2.txt": (1_020, "55995af119cda67993f3953b0f0b731b7472627ebcba07bcf424bbe4d7540c86"),
    "valclasses3.txt": (1_059, "cb0b3c14fccff17ce521d614d0adaf6207dba7962a68a1adaaf5e8c59cea3c08"),
}
"""{list: its bytes and sha256}, of the one version of the authors' repository that `_LISTS_AT` names."""

_CAPTIONS = (
    "Google Drive asks a person to confirm: open https://drive.google.com/open?id=0B0ywwgffWnLLZW9uVHNjb2JmNlE, which "
    "https://github.com/reedscot/cvpr2016 links to as its birds."
)


@registry.register("cub")
@dataclass(frozen=True)
class CubCaptions(Download):
    """CUB Captions: 11,788 images of 200 species, ten captions each, and the splits of the authors."""

    about = "CUB Captions: CUB-200-2011 (Wah et al. 2011), ten captions an image (Reed et al. 2016), splits"
    terms = (
        "images: non-commercial research and education, their photographers'; captions: no licence is stated; lists of "
        "the splits (Xian et al. 2017): in the authors' repository, MIT"
    )
    page = "https://www.vision.caltech.edu/datasets/cub_200_2011/, https://github.com/naver-ai/pcme"
    dataset = "cub"

    @property
    def items(self) -> Sequence[Item]:
        """Lists, captions, images."""
        images = {f"CUB_200_2011/{name}": name for name in ("images", "images.txt", "train_test_split.txt")}
        return (
            *_lists(),
            WebFile(
                "cvpr2016_cub.tar.gz", takes={"cvpr2016_cub/text_c10": "text_c10"}, unpacked=1_000_000_000,
                by_hand=_CAPTIONS,
            ),
            WebFile(
                "CUB_200_2011.tgz", "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz?download=1",
                1_150_585_339, "md5:97eceeb196236b17998738112f37df78", "CaltechDATA", images, 1_200_000_000,
            ),
        )  # fmt: skip


def _lists() -> list[WebFile]:
    return [
        WebFile(f"splits/{name}", f"{_LISTS_AT}/{name}", size, f"sha256:{digest}", "recorded here")
        for name, (size, digest) in _LISTS.items()
    ]
