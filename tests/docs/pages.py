"""The pages of the documentation and their fenced blocks."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))
SHELL = ("sh", "bash", "console")


@dataclass(frozen=True)
class Block:
    """A fenced block: the line it begins on, its language, its text."""

    page: str
    line: int
    language: str
    text: str

    @property
    def is_shell(self):
        return self.language in SHELL

    def commands(self):
        """The words of every command of a shell block, without comments."""
        joined = self.text.replace("\\\n", " ")
        found = (shlex.split(line, comments=True) for line in joined.splitlines())
        return [words for words in found if words]


def name(page):
    return str(page.relative_to(ROOT))


def blocks(page):
    """Every fenced block of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(name(page), text[: match.start()].count("\n") + 1, match[1], match[2])
        for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


def inline(page):
    """The commands of a page that stand within a line, as their words."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    found = re.findall(r"`(pcme [^`]+)`", text)
    return [shlex.split(line) for code in found for line in code.split(" · ")]


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {"".join(c for c in heading.lower() if c.isalnum() or c in " -_").replace(" ", "-") for heading in headings}


def links(page):
    """Every (target, anchor) of a page that points into the repository."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    return [tuple(target.partition("#")[::2]) for target in local]
