"""docs/science/paper.md: what a row names exists, its status has its grounds, nothing the paper numbers is missing."""

import ast
import re
from collections import Counter
from dataclasses import dataclass

import pytest

from pcme import analysis, recipes
from pcme.reproduce import registry as experiments
from tests.docs.pages import ROOT
from tests.docs.test_references import exists

PAGE = ROOT / "docs" / "science" / "paper.md"
HEAD = "| id | the paper | symbol | test | result | status |"
STATUSES = ("yes", "partly", "no", "not here")
NUMBERED = {
    "Eq.": ("1", "2", "3", "4", "5", "A.1", "B.1", "B.2", "B.3", "B.4", "B.5", "B.6", "E.1", "F.1"),
    "Fig.": (
        *"12345678", "C.1", "C.2", "D.1", "D.2", "D.3", "E.1", "E.2", "E.3", "F.1", "F.2", "F.3", "F.4",
    ),
    "Table": (*"123", "D.1", "D.2", "D.3", "E.1", "E.2", "E.3", "E.4", "E.5"),
}  # fmt: skip
"""All that the paper and its supplement number, in the order of the LaTeX."""
SECTIONS = ("§3.1.1", "§3.1.2", "§3.2.1", "§3.2.2", "§3.2.3", "§4.1", "§4.1.1", "§4.1.2", "§4.2", "§4.3", "§4.4")
SUPPLEMENT = ("§A.1", "§A.2", "§B", "§C.1", "§C.2", "§C.3", "§D", "§E.1", "§E.2", "§E.3", "§F.1", "§F.2", "§F.3")


@dataclass(frozen=True)
class Row:
    """A row of the table: cells as they are written."""

    id: str
    said: str
    symbol: str
    test: str
    result: str
    status: str

    @property
    def kind(self):
        """The status without its reason."""
        return self.status.partition(":")[0]

    @property
    def reason(self):
        return self.status.partition(":")[2].strip()


def read_rows():
    """All rows, of all tables with this head."""
    inside, found = False, []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        inside = line == HEAD or (inside and line.startswith("|"))
        if inside and line != HEAD and not line.startswith("|---"):
            found.append(Row(*(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])))
    return found


ROWS = read_rows()


def test_a_status_has_its_grounds():
    """`yes` has a symbol and a test, all others a reason, and `not here` the command that does it elsewhere."""
    faults = [row.id for row in ROWS if row.kind not in STATUSES]
    faults += [row.id for row in ROWS if row.kind == "yes" and ("–" in (row.symbol, row.test) or row.reason)]
    faults += [row.id for row in ROWS if row.kind != "yes" and not row.reason]
    faults += [row.id for row in ROWS if row.kind == "not here" and "`pcme " not in row.reason]
    assert not faults


def test_named_symbols_and_tests_exist():
    faults = [
        (row.id, name)
        for row in ROWS
        for names, is_there in ((row.symbol, exists), (row.test, is_a_test))
        for name in names.split(", ")
        if name != "–" and not is_there(name.strip("`"))
    ]
    assert not faults


def is_a_test(name):
    """Whether "tests/x/test_y.py::test_z" is a function of that file."""
    file, _, function = name.partition("::")
    path = ROOT / file
    if not path.is_file() or not function.startswith("test_"):
        return False
    return function in {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", ["tests/docs/test_paper.py::test_z", "tests/docs/test_z.py::test_a", "test_a", ""])
def test_a_test_that_is_not_there_is_noticed(name):
    assert not is_a_test(name)


@pytest.mark.parametrize("kind", NUMBERED)
def test_nothing_that_the_paper_numbers_is_missing(kind):
    rows = {match[1] for row in ROWS if (match := re.match(rf"{re.escape(kind)} ([\w.]+)", row.id))}
    assert rows == set(NUMBERED[kind])


def test_every_section_has_a_row_and_every_row_an_id_of_its_own():
    begun = {row.id.partition(",")[0] for row in ROWS}
    assert not set(SECTIONS + SUPPLEMENT) - begun
    assert [name for name, count in Counter(row.id for row in ROWS).items() if count > 1] == []


def test_the_count_is_that_of_the_rows():
    count = Counter(row.kind for row in ROWS)
    yes, partly, no, elsewhere = (count[kind] for kind in STATUSES)
    line = f"Of {len(ROWS)} rows {yes} are yes, {partly} partly, {no} no and {elsewhere} not here."
    assert line in PAGE.read_text().splitlines(), line


def test_commands_name_experiments_analyses_and_recipes_that_exist():
    known = {"reproduce": (2, experiments.names()), "analyze": (3, analysis.names()), "train": (2, recipes.names())}
    commands = [words.split() for words in re.findall(r"`(pcme [^`]+)`", PAGE.read_text())]
    assert commands
    assert [words for words in commands if (place := known.get(words[1])) and words[place[0]] not in place[1]] == []


def test_figures_stand_on_the_linked_pages_only():
    """A figure typed here would be one more that nobody compares with its record."""
    text = [re.sub(r"`[^`]*`|§[\w.]+|[A-F]\.\d", "", f"{row.result} {row.status}") for row in ROWS]
    assert [part for part in text if re.search(r"\d\.\d|\d ?%", part)] == []


def test_docstrings_cite_what_the_paper_has():
    patterns = {"Eq.": r"\bEq\. \(([\w.]+)\)", "Fig.": r"\bFig\. ([A-F]\.\d|\d)", "Table": r"\bTable ([A-F]\.\d|\d)"}
    faults = [
        (path.name, kind, number)
        for path in sorted((ROOT / "src").rglob("*.py"))
        for kind, pattern in patterns.items()
        for number in re.findall(pattern, path.read_text())
        if number not in NUMBERED[kind]
    ]
    assert not faults
