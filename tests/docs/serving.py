"""`pcme serve` as a page of the documentation starts it: a process on a free port, which its examples then ask."""

import re
import subprocess
import sys
from pathlib import Path

WRITTEN = "http://127.0.0.1:8000"
"""The address in the documentation."""
TOKEN = "$(cat token)"


class Serving:
    """At most one server, which ends with the `with` block."""

    def __init__(self, folder):
        self.folder, self.process, self.address = Path(folder), None, None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=20)
            self.process.stderr.close()

    def start(self, words):
        """Start the server of a line and wait until it says where it is."""
        command = [sys.executable, "-m", *words, "--port", "0"]
        self.process = subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self.process.stderr:
            said.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                self.address = found[0]
                return line
        raise AssertionError(f"{words} has ended:\n{''.join(said)}")

    def turned(self, text):
        """The text with the address of the server that runs."""
        return text.replace(WRITTEN, self.address) if self.address else text

    def curl(self, words):
        """What a line with curl prints, which must not be an error."""
        token = self.folder / "token"
        words = [self.turned(word).replace(TOKEN, token.read_text() if token.exists() else "") for word in words]
        command = [words[0], "--silent", "--show-error", "--fail-with-body", *words[1:]]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
        return done.stdout
