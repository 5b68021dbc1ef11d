"""Every relative link and anchor of every page resolves; every page can be reached."""

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, links, name


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page):
    for target, anchor in links(page):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{name(page)} links to {target}, which is not there"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{name(page)} links to {target}#{anchor}"


def test_the_index_reaches_every_page():
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / target).resolve() for target, _ in links(index) if target}
    missing = {page for page in PAGES if page.is_relative_to(ROOT / "docs")} - linked - {index}
    assert not missing, f"docs/index.md does not link to {sorted(map(name, missing))}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200
