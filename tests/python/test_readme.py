"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_ten_lines_print_what_the_readme_says():
    match = re.search(r"## Ten lines\n\n```python\n(.*?)```\n\nIt prints\n\n```\n(.*?)```", README, re.DOTALL)
    assert match
    code, output = match.groups()
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == output, run.stderr


def test_the_readme_names_targets_that_exist():
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    for target in re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
