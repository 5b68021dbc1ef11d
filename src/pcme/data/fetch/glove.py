"""GloVe 840B: the word vectors of the paper. Paper: §4.1."""

from collections.abc import Sequence
from dataclasses import dataclass

from pcme.data.fetch.base import Download, Item, registry
from pcme.data.fetch.web import WebFile

_FILE = "glove.840B.300d.txt"


@registry.register("glove")
@dataclass(frozen=True)
class GloVe(Download):
    """GloVe 840B: 2.2 million words with 300 numbers each, of Common Crawl."""

    about = "GloVe 840B, 2.2 million words with 300 numbers each (Pennington et al. 2014)"
    terms = "Public Domain Dedication and License 1.0"
    page = "https://nlp.stanford.edu/projects/glove/"

    @property
    def items(self) -> Sequence[Item]:
        """One archive with one file."""
        url = "https://nlp.stanford.edu/data/glove.840B.300d.zip"
        return (WebFile("glove.840B.300d.zip", url, 2_176_768_927, takes={_FILE: _FILE}, unpacked=5_650_000_000),)
