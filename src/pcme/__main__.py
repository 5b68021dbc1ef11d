"""``python -m pcme``: the command line without an installed script."""

from pcme.cli import main

if __name__ == "__main__":
    main()
