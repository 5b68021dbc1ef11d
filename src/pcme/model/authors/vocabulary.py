"""The authors' vocabularies: words and ids, from a checkpoint or from a pickle, never executed.

A pickle is a program. This unpickler lets it make dicts, lists, strings and numbers; any other name in it is an error
before it is called. Their own class becomes an inert stand-in.
"""

import pickle
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pcme.data.text.tokens import SPECIALS
from pcme.errors import DataError, FormatError

Ids = Mapping[str, int]


class _Inert:
    """Stands in for the authors' Vocabulary: it holds its fields and does nothing."""


class _Plain(pickle.Unpickler):
    """Makes plain containers and nothing else."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - the base class has it so
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        # Saved by their script as __main__, by an import as vocab or datasets.vocab.
        if name == "Vocabulary" and module.rpartition(".")[2] in ("__main__", "vocab"):
            return _Inert
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def read(path: Path) -> Ids:
    """{word: id} of a vocabulary file, `coco_vocab.pkl` or any their scripts write."""
    try:
        with path.open("rb") as file:
            content = _Plain(file).load()
    except OSError as error:
        raise DataError(f"{path}: cannot be read, got {error.strerror or error}.") from error
    except Exception as error:  # damaged bytes can make it raise nearly anything
        raise FormatError(
            f"{path}: not a vocabulary of plain words and ids, got {error}; nothing in it was executed. "
            "Take the file from the authors' repository."
        ) from error
    if isinstance(content, _Inert):
        words = vars(content).get("word2idx")
    else:
        inner = content.get("word2idx") if isinstance(content, dict) else None
        words = inner if isinstance(inner, dict) else content  # the words themselves, perhaps with "word2idx"
    return checked(words, f"{path}: word2idx")


def checked(words: object, where: str) -> Ids:
    """{word: id} whose ids are 0, 1, 2, ... and whose words include the four specials."""
    if not isinstance(words, dict) or not words:
        raise FormatError(f"{where} must be a dict of words and ids, got {type(words).__name__}.")
    if not all(type(word) is str and type(number) is int for word, number in words.items()):
        raise FormatError(f"{where} must have words as keys and whole numbers as ids.")
    if "" in words:
        raise FormatError(f'{where} has an empty word, "". Is it damaged?')
    if sorted(words.values()) != list(range(len(words))):
        raise FormatError(f"{where} must have each id from 0 to {len(words) - 1} once.")
    if missing := [special for special in SPECIALS if special not in words]:
        raise FormatError(f"{where} lacks {', '.join(missing)}. Is it of another model?")
    return words
