"""The errors this package raises on purpose: one tree, so that one ``except`` catches them all.

::

    PcmeError
    ├── ConfigError    a name, option or parameter that does not exist or cannot be used
    ├── DataError      input that cannot be used: empty, non-finite, missing, inconsistent
    ├── FormatError    a file that is not what it should be: wrong kind, version or contents
    └── ShapeError     arrays whose shapes, or types, do not fit together

A message has three parts: *what is wrong*, *what was given*, *what to do*. It names the file, flag or field, and where
a name was wrong it suggests the valid ones. The command line prints the message without a traceback and exits with
status 2; any other exception is a defect of this package.
"""

__all__ = ["ConfigError", "DataError", "FormatError", "PcmeError", "ShapeError"]


class PcmeError(Exception):
    """The base of every error a user of this package can fix.

    >>> try:
    ...     raise ShapeError("images and captions differ in dim: 512 and 256. Encode both alike.")
    ... except PcmeError as error:
    ...     print(error)
    images and captions differ in dim: 512 and 256. Encode both alike.
    """


class ConfigError(PcmeError):
    """A name, option or parameter that does not exist or cannot be used."""


class DataError(PcmeError):
    """Input that cannot be used: empty, non-finite, missing or inconsistent."""


class FormatError(PcmeError):
    """A file that is not what it should be: wrong kind, version or contents."""


class ShapeError(PcmeError):
    """Arrays whose shapes, or types, do not fit together."""
