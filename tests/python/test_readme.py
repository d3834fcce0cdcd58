"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()


PRINTING = re.findall(r"```python\n([^`]*?)```\n\nIt prints\n\n```\n([^`]*?)```", README)


@pytest.mark.parametrize("code, output", PRINTING, ids=["compiled", "device"])
def test_programs_print_what_the_readme_says(code: str, output: str) -> None:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == output, run.stderr


def test_the_readme_names_targets_that_exist():
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    for target in re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
