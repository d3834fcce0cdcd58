"""What the README shows is what happens, and what pages point to is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


PRINTING = re.findall(r"```python\n([^`]*?)```\n\nIt prints\n\n```\n([^`]*?)```", README)


@pytest.mark.parametrize("code, output", PRINTING, ids=["compiled", "device"])
def test_programs_print_what_the_readme_says(code: str, output: str) -> None:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == output, run.stderr


def test_the_readme_names_targets_that_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def anchors(page: Path) -> set[str]:
    """What `#` may name in `page`, as GitHub makes it of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", page.read_text()):
        to = page.parent / path if path else page
        assert to.exists(), path
        assert not anchor or anchor in anchors(to), f"{path}#{anchor}"


def test_tables_that_benches_write_have_a_place() -> None:
    benches = "".join(bench.read_text() for bench in (ROOT / "benches").glob("*.py"))
    names = re.findall(r'between_marks\([\w.]+, "([\w-]+)"', benches)
    assert names
    text = "".join(page.read_text() for page in PAGES)
    for name in names:
        assert f"<!-- {name} -->" in text and f"<!-- /{name} -->" in text, name
