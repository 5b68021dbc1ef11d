"""`python -m tests.docs.reference` writes docs/reference/cli.md and api.md from the code."""

import inspect
import re

import typer

import pcme
from pcme.cli import app
from tests.docs.pages import ROOT

HEAD = "Written by `python -m tests.docs.reference`."


def cli_page():
    """Every command with its arguments and options, from the texts of --help."""
    program = typer.main.get_command(app)
    parts = [f"# Command line\n\n{HEAD}\n\nOptions before the verb:\n\n{options(program)}"]
    for words, command in commands(program, ("pcme",)):
        parts.append(f"## {' '.join(words)}\n\n{plain(command.help)}\n\n{options(command)}")
        if example := re.search(r"Examples?:\S* (.*)", plain(command.epilog or "")):
            parts[-1] += f"\nExample: `{example[1]}`\n"
    return "\n".join(parts)


def commands(group, words):
    """Every (words, command) below a group, in the order of --help."""
    for verb, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, verb))
        else:
            yield (*words, verb), command


def options(command):
    """A table of a command's parameters."""
    rows = ["| option | meaning |", "|---|---|"]
    for parameter in command.params:
        if "--help" in parameter.opts:
            continue
        option = parameter.param_type_name == "option"
        label = ", ".join(parameter.opts) if option else (parameter.metavar or parameter.name).strip("{}. ").upper()
        help_text = plain(getattr(parameter, "help", None) or "").replace("|", "\\|")
        rows.append(f"| `{label}` | {help_text}{default(parameter)} |")
    return "\n".join(rows) + "\n" if len(rows) > 2 else ""


def default(parameter):
    """The default of an option that shows one."""
    shown = parameter.default is not None and getattr(parameter, "show_default", False)
    flag = getattr(parameter, "is_flag", False) or callable(parameter.default)
    empty = parameter.default in ((), [], "", False)
    return f" Default: `{parameter.default}`." if shown and not flag and not empty else ""


def plain(text):
    """A help text in one paragraph, without rich's markup."""
    return " ".join(re.sub(r"\[/?(bold|dim|italic)\]", "", text or "").split())


def api_page():
    """The public names, with the first line of each docstring, and the methods of the classes."""
    rows = [f"| `pcme.{name}` | {summary(getattr(pcme, name))} |" for name in sorted(pcme.__all__)]
    table = "\n".join(["| name | meaning |", "|---|---|", *rows])
    parts = [f"# Python\n\n{HEAD}\n\n`import pcme` gives {len(rows)} names.\n\n{table}\n"]
    for name in sorted(pcme.__all__):
        cls = getattr(pcme, name)
        if inspect.isclass(cls) and not issubclass(cls, Exception):
            parts.append(f"## pcme.{name}\n\n{summary(cls)}\n\n{members(cls)}")
    return "\n".join(parts)


def members(cls):
    """A table of a class's own public methods and properties."""
    rows = ["| member | meaning |", "|---|---|"]
    for name, member in vars(cls).items():
        described = getattr(member, "__func__", getattr(member, "fget", member))
        described = getattr(described, "func", described)
        if name.startswith("_") or not (callable(described) and inspect.getdoc(described)):
            continue
        called = "" if isinstance(member, property) or hasattr(member, "func") else "()"
        rows.append(f"| `{name}{called}` | {summary(described)} |")
    return "\n".join(rows) + "\n"


def summary(value):
    """The first paragraph of a docstring."""
    return plain((inspect.getdoc(value) or "").split("\n\n")[0]).replace("|", "\\|")


PAGES = {"cli.md": cli_page, "api.md": api_page}


if __name__ == "__main__":
    for page, made in PAGES.items():
        (ROOT / "docs" / "reference" / page).write_text(made(), encoding="utf-8")
