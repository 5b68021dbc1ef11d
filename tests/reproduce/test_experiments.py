"""Every experiment of the registry: its rows train, its columns are measured, its claims exist."""

import re
from dataclasses import replace

import pytest
import torch

from pcme import analysis, methods
from pcme.embedding import Gaussian, Points
from pcme.reproduce import registry
from pcme.reproduce.planning import Request, all_jobs, select, setup_of
from pcme.reproduce.setups import SETUPS
from pcme.reproduce.sheets import Sheet
from tests.docs.test_paper import NUMBERED

ELSEWHERE = {"Fig. 1"}
"""The idea, which `pcme demo` shows."""
CASES = {
    f"{name} {world} {number}": (setup_of(name, SETUPS[world]), table)
    for name in registry.names()
    for world in registry.get(name).setups
    for number, table in enumerate(registry.create(name).tables(setup_of(name, SETUPS[world])))
}
everywhere = pytest.mark.parametrize(("setup", "table"), CASES.values(), ids=CASES)


def embeddings(recipe):
    """Items as the method of a recipe makes them."""
    heads = methods.create(recipe.method.kind, **recipe.method.params).heads(recipe.dim)
    if heads.covariance == "none":
        return Points(torch.zeros(2, heads.points, 3))
    return Gaussian(torch.zeros(2, 3), torch.zeros(2, 1 if heads.covariance == "isotropic" else 3))


@everywhere
@pytest.mark.parametrize("quick", [False, True])
def test_every_row_is_a_recipe_whose_method_and_score_can_be_made(setup, table, quick):
    assert table.split in setup.splits
    for row in table.rows:
        recipe = setup.recipe(setup.assignments(row.method, row.changes, quick=quick))
        method = methods.create(recipe.method.kind, **recipe.method.params)
        assert row.scoring.of(method.objective().score()).takes(embeddings(recipe)), row.label


@everywhere
def test_labels_titles_values_of_the_paper_claims_and_plots_fit_together(setup, table):
    labels, titles = [row.label for row in table.rows], [column.title for column in table.columns]
    assert len(set(labels)) == len(labels)
    assert len(set(titles)) == len(titles)
    for row in table.rows:  # a source beside a table gives values to every row that names one
        values = [table.paper(row, column) for column in table.columns]
        assert any(value is not None for value in values) == (row.paper is not None), row.label
    for claim in table.claims:
        assert {claim.above, claim.below} <= set(labels)
        assert {*claim.columns, *claim.than} <= set(titles)
        assert (
            claim.least is not None
            or claim.most is not None
            or (claim.above, claim.columns) != (claim.below, claim.than or claim.columns)
        )


@everywhere
def test_a_table_has_a_plot_of_what_it_has_or_an_analysis_that_draws_it(setup, table):
    asked = [column for column in table.columns if column.measure == "analysis"]
    assert bool(asked) == (table.drawn is not None)
    if table.plot is None:
        assert analysis.create(table.drawn.name, **table.drawn.params)
        return
    assert set(table.plot.columns) <= {column.title for column in table.columns}
    shown = [column for column in table.columns if column.title in table.plot.columns]
    points = {"rows": table.rows, "columns": shown, "bars": table.rows}[table.plot.over]
    assert points
    assert table.plot.over == "bars" or all(point.x is not None for point in points)


@pytest.mark.parametrize(("kind", "name"), [("Fig.", "fig"), ("Table", "table")])
def test_everything_that_the_paper_numbers_is_a_name_or_an_alias(kind, name):
    numbers = [number for number in NUMBERED[kind] if f"{kind} {number}" not in ELSEWHERE]
    names = [name + (number if number.isdigit() else f"-{number.lower().replace('.', '')}") for number in numbers]
    for asked, number in zip(names, numbers, strict=True):
        assert re.search(rf"\b{number}\b", registry.get(asked).where), asked
        assert registry.get(asked).setups


def test_an_experiment_has_tables_or_is_a_sheet():
    for name in registry.names():
        experiment = registry.create(name)
        for world in experiment.setups:
            assert bool(experiment.tables(SETUPS[world])) != isinstance(experiment, Sheet)
        assert not isinstance(experiment, Sheet) or (experiment.title and experiment.reading.endswith("."))


@pytest.mark.parametrize("name", registry.names())
def test_what_an_experiment_is_stands_in_its_class(name):
    kind = registry.get(name)
    assert kind.where
    assert registry.summary(name).endswith(".")
    assert kind.differs.endswith(".")


def test_all_of_aviary_shares_its_runs(tmp_path):
    request = Request(SETUPS["aviary"], True, 1, (), tmp_path, None, "")
    jobs = all_jobs(request, select(["all"], SETUPS["aviary"]))
    assert len(jobs) <= 43
    assert len({job.folder for job in jobs}) == len(jobs)
    rows = sum(len(table.rows) for setup, table in CASES.values() if setup.name == "aviary")
    assert rows > 2 * len(jobs)
    seeds = [job.recipe.seed for job in all_jobs(replace(request, seeds=2), ["dof", "regularisation"])]
    assert seeds == sorted(seeds), "whole seeds first"


@pytest.mark.parametrize(("name", "world"), [("hnm", "cub"), ("table2", "cub"), ("table3", "coco")])
def test_the_papers_hardest_negatives_are_beside_those_with_a_warm_start(name, world):
    for table in registry.create(name).tables(SETUPS[world]):
        starts = {}
        for row in table.rows:
            method = methods.registry.from_record(row.method)
            if row.paper and getattr(method, "negatives", "all") == "hardest":
                starts.setdefault(row.paper, []).append(method.warm_start)
        assert starts
        assert all(sorted(found) == [0.0, 0.5] for found in starts.values()), starts
