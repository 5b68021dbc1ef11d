"""python -m pcme.reproduce FOLDER: do the job that lies in a folder, in a process of its own."""

import signal
import sys
from pathlib import Path

from pcme.errors import PcmeError
from pcme.reproduce.jobs import perform, read_job

if __name__ == "__main__":
    # Whoever started this may ignore interrupts; here they are how it is told to keep its state.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        perform(read_job(Path(sys.argv[1])))
    except PcmeError as error:
        sys.exit(f"pcme: {error}")
