"""Every recipe of CONTRIBUTING.md works as it is written, and in as few places as it claims."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.test_methods import TABLE_I

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

MAX_PLACES = {
    "A constraint with its own closed form": 3,
    "An oracle": 4,
    "A solver": 1,
    "A method": 2,
    "A loss": 2,
    "A claim": 1,
    "A theorem": 1,
}
COPIED = ("ldpopt", "docs")
BLOCK = re.compile(r"^(?P<lead>[^\n]*):\n\n```\w+\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
TRIAL = re.compile(r"^Try it:\n\n```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.M | re.S)


@dataclass
class Recipe:
    """What a section of CONTRIBUTING.md adds, and what its last block prints."""

    title: str
    new_files: dict[str, str] = field(default_factory=dict)
    insertions: list[tuple[str, str, bool, str]] = field(default_factory=list)
    code: str = ""
    printed: str = ""

    @classmethod
    def of(cls, title, section):
        recipe = cls(title)
        for block in BLOCK.finditer(section):
            lead = block["lead"]
            code = block["code"]
            if new := re.fullmatch(r"New file `(.+)`", lead):
                recipe.new_files[new[1]] = code
            elif place := re.fullmatch(r"In `(.+?)`, after the line `(.+)`", lead):
                recipe.insertions.append((place[1], place[2], True, code))
            elif place := re.fullmatch(
                r"In `(.+?)`, after the line that starts with `` (.+) ``", lead
            ):
                recipe.insertions.append((place[1], place[2], False, code))
        recipe.code, recipe.printed = TRIAL.search(section).groups()
        return recipe

    @property
    def places(self):
        return {*self.new_files, *(path for path, *_ in self.insertions)}

    def apply(self, root):
        for path, code in self.new_files.items():
            assert not (root / path).exists()
            (root / path).write_text(code, encoding="utf-8")
        for path, anchor, whole, code in self.insertions:
            lines = (root / path).read_text(encoding="utf-8").splitlines(keepends=True)
            (at,) = [
                number
                for number, line in enumerate(lines)
                if (line.rstrip("\n") == anchor if whole else line.startswith(anchor))
            ]
            lines.insert(at + 1, code)
            (root / path).write_text("".join(lines), encoding="utf-8")


def recipes():
    _, *parts = re.split(r"^## (.+)\n", TEXT, flags=re.MULTILINE)
    return [Recipe.of(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]


RECIPES = recipes()
NAMES = [recipe.title for recipe in RECIPES]
SEPARATOR = "~~~ next recipe ~~~"


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the package to which all recipes are applied."""
    root = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, root / name)
    for recipe in RECIPES:
        recipe.apply(root)
    return root


@pytest.fixture(scope="module")
def printed(extended):
    """What the last block of each recipe prints."""
    # A block may end in the exit of a command.
    script = "\n".join(
        f"try:\n    exec({recipe.code!r}, {{}})\nexcept SystemExit as stop:\n"
        f"    assert not stop.code, stop.code\nprint({SEPARATOR!r}, flush=True)"
        for recipe in RECIPES
    )
    return dict(zip(NAMES, ran(extended, script).split(f"{SEPARATOR}\n"), strict=False))


def ran(root, script, *further):
    """Return what a script prints that imports the package of a folder, and further folders."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=root,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(map(str, [root, *further])), "COLUMNS": "100"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_is_a_recipe_for_each_kind_of_extension():
    assert list(MAX_PLACES) == NAMES


@pytest.mark.parametrize("recipe", RECIPES, ids=NAMES)
def test_recipe_runs_and_prints_what_it_says(recipe, printed):
    assert printed[recipe.title].strip() == recipe.printed.strip()


@pytest.mark.parametrize("recipe", RECIPES, ids=NAMES)
def test_recipe_touches_few_places(recipe):
    assert 0 < len(recipe.places) <= MAX_PLACES[recipe.title]
    assert len(recipe.insertions) + len(recipe.new_files) == len(recipe.places)


def test_every_block_of_a_recipe_is_applied():
    blocks = len(re.findall(r"^```\w", TEXT, flags=re.MULTILINE))
    applied = sum(len(recipe.insertions) + len(recipe.new_files) + 2 for recipe in RECIPES)
    assert blocks == applied


def test_a_method_by_the_recipe_keeps_the_order_of_the_table_and_of_its_page(extended):
    """Tests of the package ask for both: who follows a recipe sees none of them fail."""
    script = (
        "from ldpopt.methods import METHODS, markdown_table; "
        "print(*list(METHODS)[:12]); print(markdown_table())"
    )
    first, table = ran(extended, script).split("\n", 1)
    assert first.split() == TABLE_I
    page = (extended / "docs" / "explanation" / "methods.md").read_text("utf-8")
    assert table.strip() in page


def test_a_claim_by_the_recipe_states_what_it_shows_and_when_it_is_red(extended):
    script = (
        "from ldpopt.claims import LEDGER; from tests.test_claims import shown_and_red; "
        "print(*map(len, shown_and_red(LEDGER['norm-sub-idempotent'])))"
    )
    words, reds = map(int, ran(extended, script, ROOT).split())
    assert words >= 8
    assert reds == 1


def test_the_looks_by_the_recipes_are_those_of_no_other(extended):
    script = (
        "from tests import test_style as t; "
        "t.test_every_method_has_a_look_of_its_own(); t.test_every_solver_has_a_look_of_its_own(); "
        "t.test_a_method_of_a_user_has_a_colour_and_a_marker_that_no_method_has()"
    )
    ran(extended, script, ROOT)
