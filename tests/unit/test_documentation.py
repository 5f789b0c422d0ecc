"""The documents cannot go stale: targets are described, pages are listed, links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))

LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
TARGET = re.compile(r"^([a-z-]+):.*## ", re.MULTILINE)


def links(page: Path) -> set[Path]:
    """The files that a page links to, without those on other hosts."""
    found = LINK.findall(page.read_text(encoding="utf-8"))
    return {(page.parent / link).resolve() for link in found if "://" not in link}


def test_every_target_of_the_makefile_is_described():
    targets = TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8"))
    reference = (DOCS / "reference" / "make.md").read_text(encoding="utf-8")
    assert [target for target in targets if f"`make {target}`" not in reference] == []
    assert "test" in targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file(page):
    assert [link for link in sorted(links(page)) if not link.exists()] == []


def test_every_page_is_listed_in_the_index_or_in_the_index_of_its_folder():
    indexes = [page for page in PAGES if page.name == "README.md"]
    listed = set().union(*(links(index) for index in indexes))
    missing = [page for page in PAGES if page not in listed and page != DOCS / "README.md"]
    assert [str(page.relative_to(ROOT)) for page in missing] == []
