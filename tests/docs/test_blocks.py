"""Every Python block and every shell line of README, CONTRIBUTING and docs runs."""

import contextlib
import importlib.util
import io
import re
import shlex
import shutil
import tomllib

import pytest
import typer

from bench.__main__ import PARTS
from pcme.cli import app
from tests.docs.pages import PAGES, ROOT, blocks, inline, name
from tests.docs.serving import Serving
from tests.docs.shortened import CHECKED, PARSED, REDUCED
from tests.helpers import call

LANGUAGES = {"python", "sh", "bash", "console", "text", "toml", "json", ""}
WITH_CODE = [page for page in PAGES if any(b.language in ("python", "sh") for b in blocks(page))]


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_blocks_run(page, workspace, server, monkeypatch, capsys):
    """Python blocks share one namespace; shell lines and Python run in one folder, in order.

    A block that begins with the name of a file is saved under that name. What `pcme serve` serves runs on a free port.
    """
    monkeypatch.chdir(workspace)
    space = {"__name__": "documentation"}
    printed = ""
    for block in blocks(page):
        where = f"{block.page}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: a block of {block.language!r}"
        if block.is_shell:
            printed = "\n".join(run(words, where, server) for words in block.commands())
        elif file := re.match(r"# (\w+\.py)\n", block.text):
            (workspace / file[1]).write_text(block.text)
        elif block.language == "python":
            printed = execute(server.turned(block.text), block, where, space)
        elif block.language == "text":
            assert shape(printed) == shape(block.text), f"{where} shows another output:\n{printed}"


def execute(text, block, where, space):
    """What a Python block prints."""
    code = compile("\n" * block.line + text, where, "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, space)
    return printed.getvalue()


def shape(text):
    """Lines without their numbers: a tiny model does not give those of a trained one."""
    masked = re.sub(r"True|False|[-−+]?\d[\d.,]*(e[-+]?\d+)?", "#", text)
    return [" ".join(line.split()) for line in masked.strip().splitlines()]


def run(words, where, server):
    """What a shell line prints: executed, or in the form that shortened.py gives it."""
    line = shlex.join(words)
    if line in PARSED:
        parse(words)
        return ""
    if words[:2] == ["pcme", "serve"]:
        return server.start(words)
    if words[0] == "curl":
        return server.curl(words)
    if words[0] != "pcme":
        assert words[0] in CHECKED, f"{where}: {line} is neither executed nor listed"
        CHECKS[words[0]](words, where)
        return ""
    if line in REDUCED:
        words = shlex.split(REDUCED[line][0])
    done = call(*words[1:])
    assert done.exit_code == 0, f"{where}: {line}\n{done.output}"
    return done.stdout


def parse(words):
    """Let the command line read a line without running it."""
    command, context, rest = typer.main.get_command(app), None, words[1:]
    while hasattr(command, "commands"):
        context = command.make_context(command.name, list(rest), parent=context)
        _, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
    command.make_context(command.name, list(rest), parent=context)


def check_make(words, where):
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(words[1:]) <= set(targets), f"{where}: {words}"


def check_pip(words, where):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extras in re.findall(r"pcme\[([\w,-]+)\]", " ".join(words)):
        assert set(extras.split(",")) <= set(project["optional-dependencies"]), f"{where}: {words}"


def check_python(words, where):
    assert words[1] == "-m", f"{where}: {words}"
    assert importlib.util.find_spec(words[2]), f"{where}: no module {words[2]}"
    if words[2] == "bench":
        assert set(words[3:]) <= set(PARTS), f"{where}: bench has {', '.join(PARTS)}"


CHECKS = {"make": check_make, "pip": check_pip, "python": check_python}


def test_commands_in_the_table_of_the_readme_are_read_by_the_command_line():
    for words in inline(ROOT / "README.md"):
        parse(words)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_verbs_and_options_within_a_line_exist(page):
    for words in inline(page):
        command = typer.main.get_command(app)
        known = {option for parameter in command.params for option in parameter.opts}
        for word in words[1:]:
            command = getattr(command, "commands", {}).get(word, command)
        known |= {option for parameter in command.params for option in parameter.opts}
        verb = hasattr(command, "commands") and words[1] not in (command.name, "--plugin", "VERB")
        assert not verb, f"{name(page)}: {shlex.join(words)} has no such verb"
        unknown = {word for word in words if word.startswith("--")} - known
        assert not unknown, f"{name(page)}: {shlex.join(words)} has no {unknown}"


def test_the_tables_list_nothing_else():
    lines = {
        shlex.join(words) for page in PAGES for block in blocks(page) if block.is_shell for words in block.commands()
    }
    assert set(REDUCED) | set(PARSED) <= lines
    assert not set(REDUCED) & set(PARSED)


@pytest.fixture
def workspace(tmp_path, prepared):
    """A copy of the prepared folder for one page."""
    return shutil.copytree(prepared, tmp_path / "work", symlinks=True)


@pytest.fixture
def server(workspace):
    """What a page serves; it ends with the page."""
    with Serving(workspace) as serving:
        yield serving
