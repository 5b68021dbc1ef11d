"""Filters from clients: expressions over columns, and nothing else that the engine's SQL has.

The engine reads a filter as one expression of DataFusion, so that it cannot write or read elsewhere; but some of its
functions make long texts of short ones (`repeat`), and a bracket too many would end the filter early. Here a filter is
split into its words: only known functions, no comments, brackets in pairs and not deeply nested.
"""

import re

from pcme.errors import ConfigError

FUNCTIONS = frozenset(
    {
        "abs", "array_contains", "array_has", "array_has_all", "array_has_any", "array_length", "ceil", "coalesce",
        "contains", "date_part", "ends_with", "floor", "length", "lower", "regexp_like", "regexp_match", "round",
        "starts_with", "trim", "upper",
    }
)  # fmt: skip
KEYWORDS = frozenset(
    {"and", "between", "date", "ilike", "in", "interval", "is", "like", "not", "null", "or", "timestamp"}
)
"""Words before a bracket that are no functions."""
DEEPEST = 16
"""Brackets within brackets."""
TERMS = 256
"""Words, numbers and signs."""

_WORDS = re.compile(
    r"""(?P<space>\s+)
    | (?P<text>'(?:[^']|'')*')
    | (?P<column>"(?:[^"]|"")+" | `[^`]+`)
    | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<open>\() | (?P<close>\))
    | (?P<sign><>|<=|>=|!=|[-=<>+*/%,.\[\]])""",
    re.VERBOSE,
)


def checked(where: str | None) -> str | None:
    """The filter, if it can do nothing but filter; a ConfigError says what else is in it.

    >>> checked("year > 2015 AND (place = 'Oslo' OR lower(place) LIKE 'b%')")
    "year > 2015 AND (place = 'Oslo' OR lower(place) LIKE 'b%')"
    >>> checked("id = repeat('a', 1000000000)")
    Traceback (most recent call last):
    pcme.errors.ConfigError: where: has the function "repeat". Use one of: abs, array_contains, ..., upper.
    """
    if where is None:
        return None
    position, depth, before, terms = 0, 0, "", 0
    while position < len(where):
        found = _WORDS.match(where, position)
        if found is None or where.startswith(("--", "/*"), position):
            raise _refused(f"has {where[position : position + 10]!r} at character {position + 1}")
        position, kind, text = found.end(), found.lastgroup, found[0]
        if kind == "space":
            continue
        if kind == "word" and text.lower() == "select":
            raise _refused("has a query within it")
        depth += (kind == "open") - (kind == "close")
        terms += 1
        if not 0 <= depth <= DEEPEST or terms > TERMS:
            raise _refused(f"must have brackets in pairs, at most {DEEPEST} deep, and at most {TERMS} words and signs")
        if kind == "open" and before not in KEYWORDS | FUNCTIONS | {""}:
            raise ConfigError(f'where: has the function "{before:.40}". Use one of: {", ".join(sorted(FUNCTIONS))}.')
        before = text.lower() if kind in ("word", "column") else ""
    if depth or not terms:
        raise _refused("must be an expression with its brackets in pairs")
    return where


def _refused(fault: str) -> ConfigError:
    return ConfigError(f"where: {fault}. Write a comparison of columns (docs/guide/search.md).")
