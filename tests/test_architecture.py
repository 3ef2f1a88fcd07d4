"""Imports point one way, heavy packages load late, and protocols are defined in one place."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ldpopt

ROOT = Path(ldpopt.__file__).parent
LAYERS = [
    {"errors"},
    {"validate", "storage", "immutable"},
    {"covariance"},
    {"protocol"},
    {"estimate"},
    {"oracles", "datasets", "closed_form", "priors"},
    {"losses", "constraints"},
    {"solve"},
    {"methods"},
    {"studies"},
    {"__init__"},  # what `import ldpopt` offers; the applications below are built on it
    {"claims", "rendering", "collection", "cli", "__main__"},
]
"""Lowest first. A module may import from its own layer and from those before it; a new module needs its place here."""

LAYER_OF = {unit: number for number, units in enumerate(LAYERS) for unit in units}
LATE = ["cvxpy", "numba", "matplotlib", "pooch", "typer", "pyarrow", "distributed"]


def module_name(path, root):
    parts = ["ldpopt", *path.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) in (
        "TYPE_CHECKING",
        "typing.TYPE_CHECKING",
    )


def statements(tree):
    """Walk a tree without its TYPE_CHECKING blocks; imports inside functions count."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if is_type_checking(node):
            waiting += node.orelse
            continue
        yield node
        waiting += ast.iter_child_nodes(node)


def imported(source, name, modules, *, is_package=False):
    """Return which of the package's modules a source text imports."""
    found = set()
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = name.split(".") if is_package else name.split(".")[:-1]
            base = ".".join(parents[: len(parents) - node.level + 1]) if node.level else ""
            base = ".".join(filter(None, [base, node.module]))
            children = {f"{base}.{alias.name}" for alias in node.names}
            found |= (children & modules) | ({base} if children - modules else set())
    return found & modules


def graph_of(sources):
    """Return module -> imported modules for a mapping of module -> (source, is_package)."""
    return {
        name: imported(source, name, set(sources), is_package=is_package) - {name}
        for name, (source, is_package) in sources.items()
    }


def unit(module):
    """Return the file or folder directly under the package that a module belongs to."""
    return module.split(".")[1] if "." in module else "__init__"


def against_the_flow(graph):
    return [
        f"{module} imports {target}"
        for module, targets in graph.items()
        for target in sorted(targets)
        if LAYER_OF.get(unit(target), 0) > LAYER_OF.get(unit(module), len(LAYERS))
    ]


def cycle(graph):
    """Return a cycle of imports, or None: modules whose imports are all resolved are taken away until none is left."""
    left = {module: set(targets) for module, targets in graph.items()}
    while ready := {module for module, targets in left.items() if not targets & left.keys()}:
        for module in ready:
            del left[module]
    return sorted(left) or None


SOURCES = {
    module_name(path, ROOT): (path.read_text(encoding="utf-8"), path.name == "__init__.py")
    for path in ROOT.rglob("*.py")
}


def test_every_module_has_its_place_in_the_layers():
    assert {unit(module) for module in SOURCES} - LAYER_OF.keys() == set()


def test_no_import_points_against_the_flow():
    assert against_the_flow(graph_of(SOURCES)) == []


def test_no_import_cycle():
    assert cycle(graph_of(SOURCES)) is None


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("errors", "from ldpopt import validate"),
        ("protocol", "from ldpopt.estimate import FrequencyEstimate"),
        ("closed_form.simplex", "from ldpopt.losses import LeastSquares"),
        ("losses", "def f():\n    from ldpopt import conic"),
        ("solve.certificate", "import ldpopt.methods"),
        ("solve.problem", "import ldpopt.methods"),
        ("estimate", "from ldpopt import postprocess"),
        ("estimate.sets", "from ldpopt import oracles"),
    ],
)
def test_an_import_against_the_flow_would_be_found(module, line):
    module = f"ldpopt.{module}"
    source, is_package = SOURCES[module]
    assert against_the_flow(graph_of(SOURCES | {module: (f"{source}\n{line}\n", is_package)}))


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("validate", "from ldpopt.estimate import FrequencyEstimate"),
        ("closed_form.simplex", "from ldpopt.closed_form.thresholds import base_pos"),
        ("oracles.randomness", "from . import grr"),
        ("constraints", "import ldpopt.solve.paths.conic"),
    ],
)
def test_a_cycle_would_be_found(module, line):
    module = f"ldpopt.{module}"
    source, is_package = SOURCES[module]
    assert module in cycle(graph_of(SOURCES | {module: (f"{source}\n{line}\n", is_package)}))


def test_imports_for_type_checking_do_not_count():
    block = "if TYPE_CHECKING:\n    from ldpopt.methods import METHODS\n"
    assert imported(block, "ldpopt.errors", set(SOURCES)) == set()


def test_importing_the_package_does_not_load_what_only_some_need():
    script = f"import sys, ldpopt; print([name for name in {LATE} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_public_name_and_submodule_is_there_after_a_bare_import():
    script = (
        "import ldpopt\n"
        "assert all(getattr(ldpopt, name) is not None for name in ldpopt.__all__)\n"
        "assert ldpopt.priors.PowerLaw and ldpopt.estimate and ldpopt.solve and ldpopt.studies\n"
        "assert not hasattr(ldpopt, 'no_such_name') and set(ldpopt.__all__) <= set(dir(ldpopt))"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


# --- p and q are computed in one place ------------------------------------------------------------


def protocol_arithmetic(source):
    """Return the lines that set p or q, pass them by keyword, or take an exponential of epsilon."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {
                getattr(part, "id", getattr(part, "attr", None))
                for t in targets
                for part in ast.walk(t)
            }
            if names & {"p", "q"}:
                lines.append(node.lineno)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).split(".")[-1]
            mentioned = " ".join(map(ast.unparse, node.args))
            if {keyword.arg for keyword in node.keywords} & {"p", "q"} or (
                called == "exp" and "epsilon" in mentioned
            ):
                lines.append(node.lineno)
    return lines


HOME = {
    "oracles",
    "protocol",
    "claims",
}  # verify restates formulas as the papers print them, to compare them with the oracles


def test_no_module_outside_the_oracles_computes_p_or_q():
    elsewhere = {
        name: protocol_arithmetic(source)
        for name, (source, _) in SOURCES.items()
        if unit(name) not in HOME
    }
    assert {name: lines for name, lines in elsewhere.items() if lines} == {}


def test_the_oracles_do_compute_p_and_q():
    for name in ("grr", "unary", "hashing", "subset", "hadamard"):
        assert protocol_arithmetic(SOURCES[f"ldpopt.oracles.{name}"][0])


@pytest.mark.parametrize(
    "line",
    [
        "p = 0.5",
        "p, q = 0.5, 0.2",
        "self.q = 1 - p",
        "x = PureProtocol(1, 2, p=1, q=0)",
        "w = np.exp(oracle.epsilon / 2)",
    ],
)
def test_protocol_arithmetic_would_be_found(line):
    assert protocol_arithmetic(line) == [1]
