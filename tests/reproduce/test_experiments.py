"""Every experiment of the registry: its rows train, its columns are measured, its claims exist."""

import pytest
import torch

from pcme import methods
from pcme.embedding import Gaussian, Points
from pcme.reproduce import registry
from pcme.reproduce.planning import Request, all_jobs
from pcme.reproduce.setups import SETUPS

CASES = [(name, world) for name in registry.names() for world in registry.get(name).setups]
everywhere = pytest.mark.parametrize(("name", "world"), CASES)


def tables(name, world):
    return registry.create(name).tables(SETUPS[world])


def embeddings(recipe):
    """Items as the method of a recipe makes them."""
    heads = methods.create(recipe.method.kind, **recipe.method.params).heads(recipe.dim)
    if heads.covariance == "none":
        return Points(torch.zeros(2, heads.points, 3))
    return Gaussian(torch.zeros(2, 3), torch.zeros(2, 1 if heads.covariance == "isotropic" else 3))


@everywhere
@pytest.mark.parametrize("quick", [False, True])
def test_every_row_is_a_recipe_whose_method_and_score_can_be_made(name, world, quick):
    place = SETUPS[world]
    for table in tables(name, world):
        assert table.split in place.splits
        for row in table.rows:
            recipe = place.recipe(place.assignments(row.method, row.changes, quick=quick))
            method = methods.create(recipe.method.kind, **recipe.method.params)
            score, items = row.scoring.of(method.objective().score()), embeddings(recipe)
            assert score.takes(items), row.label


@everywhere
def test_labels_titles_and_claims_fit_together(name, world):
    for table in tables(name, world):
        labels = [row.label for row in table.rows]
        titles = [column.title for column in table.columns]
        assert len(set(labels)) == len(labels)
        assert len(set(titles)) == len(titles)
        assert set(table.plot.columns) <= set(titles)
        for claim in table.claims:
            assert {claim.above, claim.below} <= set(labels)
            assert {*claim.columns, *claim.than} <= set(titles)
            assert (claim.above, claim.columns) != (claim.below, claim.than or claim.columns)


@everywhere
def test_the_papers_rows_and_columns_are_used(name, world):
    """A source beside a table gives it values: in some column, for every row that names one."""
    for table in tables(name, world):
        for row in table.rows:
            values = [table.paper(row, column) for column in table.columns]
            assert any(value is not None for value in values) == (row.paper is not None), row.label


@everywhere
def test_plots_over_something_have_places_for_it(name, world):
    for table in tables(name, world):
        shown = [c for c in table.columns if c.title in table.plot.columns]
        if table.plot.over == "rows":
            assert all(row.x is not None for row in table.rows)
        if table.plot.over == "columns":
            assert shown
            assert all(column.x is not None for column in shown)


@everywhere
def test_what_an_experiment_is_stands_in_its_class(name, world):
    kind = registry.get(name)
    assert kind.where
    assert registry.summary(name).endswith(".")
    assert kind.differs.endswith(".")


def runs_of(world, tmp_path):
    request = Request(SETUPS[world], True, 1, (), tmp_path, None, "")
    chosen = [name for name in registry.names() if world in registry.get(name).setups]
    return all_jobs(request, chosen)


def test_all_of_aviary_shares_its_runs(tmp_path):
    jobs = runs_of("aviary", tmp_path)
    assert len(jobs) <= 35
    assert len({job.folder for job in jobs}) == len(jobs)
    rows = sum(len(table.rows) for name, world in CASES if world == "aviary" for table in tables(name, world))
    assert rows > 2 * len(jobs)
