"""Imports point one way, heavy packages load late, and protocols are defined in one place."""

import ast
import functools
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import ldpopt

ROOT = Path(ldpopt.__file__).parent
LAYERS = [
    {"columns", "errors", "printable", "style", "descriptors"},
    {"immutable", "frames", "named_values"},
    {
        "validate",
        "storage",
        "executors",
        "progress",
        "covariance",
        "proofs",
        "expressions",
        "tables",
    },
    {"parameter", "protocol"},
    {"estimate"},
    {"adjustable"},
    {"oracles", "datasets", "closed_form", "priors", "channels"},
    {"sources"},
    {"risks"},
    {"losses", "constraints"},
    {"solve"},
    {"group_totals"},
    {"methods", "discovery"},
    {"reports"},
    {"studies"},
    {"__init__"},  # what `import ldpopt` offers; the applications below are built on it
    {"claims", "collection"},
    {"rendering"},
    {"cli"},
    {"__main__"},
]
"""Lowest first. A module may import from its own layer and from those before it; a new module needs
its place here."""

SOLVE_LAYERS = [
    {"own_classes"},
    {"formulation", "joint", "status", "plan", "summary"},
    {"programs"},
    {"feasibility", "certificate", "constrained_intervals"},
    {"acceptance"},
    {"paths"},
    {"polish", "face"},
    {"jacobian"},
    {"planner", "solution", "parameter_path", "implausible_unit"},
    {"second_try", "audit", "usual_path", "kkt"},
    {"problem"},
    {"composition", "coverage"},
]
"""The same for the modules of ldpopt.solve, which hold the way from a problem to its solution."""

CERTIFICATE_LAYERS = [
    {"bounds"},
    {"box", "shown"},
    {"prices", "cones"},
    {"polyhedra", "another_point"},
    {"exact", "duals"},
    {"certificate"},
]
"""And for those of its certificates: from the theorem to the sets that it is used on."""

LATE = [
    "cvxpy",
    "numba",
    "matplotlib",
    "pooch",
    "typer",
    "pyarrow",
    "distributed",
    "pandas",
    "polars",
    "tqdm",
    "sympy",
]


def module_name(path, root):
    parts = ["ldpopt", *path.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def nodes_of(source):
    """Return all nodes of a source text, which several tests look through."""
    return list(ast.walk(ast.parse(source)))


def dotted(node):
    """Return "a.b.c" of an expression of this form; "" of any other, which names no module."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def called(node):
    """Return the last word of what a call calls: "exp" of both ``exp(x)`` and ``np.exp(x)``."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def imported(source, name, modules, *, is_package=False):
    """Return which of the package's modules a source text imports, for type checking too.

    Modules that it names count as well: as attributes of the package, which every import of one of
    its modules binds, and as strings for ``import_module``.
    """
    targets = set()
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = name.split(".") if is_package else name.split(".")[:-1]
            base = ".".join(parents[: len(parents) - node.level + 1]) if node.level else ""
            base = ".".join(filter(None, [base, node.module]))
            children = {f"{base}.{alias.name}" for alias in node.names}
            targets |= (children & modules) | ({base} if children - modules else set())
        elif isinstance(node, ast.Attribute):
            targets.add(dotted(node))
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__"):
            targets |= {str(part.value) for part in node.args[:1] if isinstance(part, ast.Constant)}
    return targets & modules


def graph_of(sources):
    """Return module -> imported modules for a mapping of module -> (source, is_package)."""
    return {
        name: imported(source, name, set(sources), is_package=is_package) - {name}
        for name, (source, is_package) in sources.items()
    }


def unit(module, package="ldpopt"):
    """Return the file or folder directly under a package that a module belongs to."""
    inside = module.removeprefix(package).removeprefix(".")
    return inside.split(".")[0] or "__init__"


def within(module, package):
    return module == package or module.startswith(f"{package}.")


def layer_of(layers):
    return {unit: number for number, units in enumerate(layers) for unit in units}


def against_the_flow(graph, layers=LAYERS, package="ldpopt"):
    """Return the imports from one layer of a package into a later one."""
    layer = layer_of(layers)
    return [
        f"{module} imports {target}"
        for module, targets in graph.items()
        for target in sorted(targets)
        if within(module, package)
        and within(target, package)
        and layer.get(unit(target, package), len(layers))
        > layer.get(unit(module, package), len(layers))
    ]


def picture(graph, layers=LAYERS, package="ldpopt"):
    """Return the imports between the units of a package in the DOT language, lowest layer first.

    Arrows against the flow are red: `python -m tests.test_architecture | dot -Tsvg`.
    """
    layer = layer_of(layers)
    arrows = {
        (unit(module, package), unit(target, package))
        for module, targets in graph.items()
        for target in targets
        if within(module, package) and within(target, package)
    }
    lines = ["digraph {", "  rankdir=BT; node [shape=box];"]
    for units in layers:
        names = " ".join(f'"{name}";' for name in sorted(units))
        lines.append(f"  {{ rank=same; {names} }}")
    for source, target in sorted(arrows):
        if source != target:
            wrong = layer.get(target, 0) > layer.get(source, len(layers))
            lines.append(f'  "{source}" -> "{target}"{" [color=red]" if wrong else ""};')
    return "\n".join([*lines, "}"])


def cycle(graph):
    """Return a cycle of imports, or None: modules with all imports resolved are taken away."""
    left = {module: set(targets) for module, targets in graph.items()}
    while ready := {module for module, targets in left.items() if not targets & left.keys()}:
        for module in ready:
            del left[module]
    return sorted(left) or None


SOLVE = "ldpopt.solve"
CERTIFICATE = f"{SOLVE}.certificate"
SOURCES = {
    module_name(path, ROOT): (path.read_text(encoding="utf-8"), path.name == "__init__.py")
    for path in ROOT.rglob("*.py")
}


@functools.cache
def the_graph():
    """Return the imports of the package, read when a test first needs them."""
    return graph_of(SOURCES)


def with_line(module, line):
    """Return the graph of the package with one more line in a module."""
    source, is_package = SOURCES[module]
    more = imported(f"{source}\n{line}\n", module, set(SOURCES), is_package=is_package)
    return the_graph() | {module: more - {module}}


def test_every_module_has_its_place_in_the_layers():
    assert {unit(module) for module in SOURCES} == set().union(*LAYERS)
    inside = {unit(module, SOLVE) for module in SOURCES if within(module, SOLVE)}
    assert inside - {"__init__"} == set().union(*SOLVE_LAYERS)
    inside = {unit(module, CERTIFICATE) for module in SOURCES if within(module, CERTIFICATE)}
    assert inside - {"__init__"} == set().union(*CERTIFICATE_LAYERS)


def test_no_import_points_against_the_flow():
    assert against_the_flow(the_graph()) == []
    assert against_the_flow(the_graph(), SOLVE_LAYERS, SOLVE) == []
    assert against_the_flow(the_graph(), CERTIFICATE_LAYERS, CERTIFICATE) == []


def test_no_import_cycle():
    assert cycle(the_graph()) is None


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
        ("losses.base", "import ldpopt.validate\nldpopt.methods.METHODS"),
        ("losses.base", "import_module('ldpopt.methods')"),
        ("losses.base", "importlib.import_module('ldpopt.methods')"),
        ("losses.base", "__import__('ldpopt.methods')"),
        ("collection.files", "from ldpopt.cli import app"),
        ("claims.engine.run", "from ldpopt.rendering import claims_table"),
    ],
)
def test_an_import_against_the_flow_would_be_found(module, line):
    assert against_the_flow(with_line(f"ldpopt.{module}", line))


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
    assert f"ldpopt.{module}" in cycle(with_line(f"ldpopt.{module}", line))


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("formulation", "from ldpopt.solve.problem import Problem"),
        ("plan", "from ldpopt.solve import planner"),
        ("certificate.box", "from ldpopt.solve.paths import conic"),
        ("programs.program", "def f():\n    from ldpopt.solve import feasibility"),
        ("paths.conic", "from ldpopt.solve.solution import Solution"),
        ("plan", "from ldpopt.solve import Problem"),
    ],
)
def test_an_import_against_the_flow_of_solve_would_be_found(module, line):
    graph = with_line(f"{SOLVE}.{module}", line)
    assert len(against_the_flow(graph, SOLVE_LAYERS, SOLVE)) == 1


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("bounds.dual", "from ldpopt.solve.certificate.box import total_prices"),
        ("cones.ranges", "from ldpopt.solve.certificate.polyhedra import rows"),
        ("exact.rows", "from ldpopt.solve.certificate.certificate import certify"),
    ],
)
def test_an_import_against_the_flow_of_certificates_would_be_found(module, line):
    graph = with_line(f"{CERTIFICATE}.{module}", line)
    assert len(against_the_flow(graph, CERTIFICATE_LAYERS, CERTIFICATE)) == 1


def test_imports_for_type_checking_count():
    block = "if TYPE_CHECKING:\n    from ldpopt.methods import METHODS\n"
    assert imported(block, "ldpopt.errors", set(SOURCES)) == {"ldpopt.methods"}


def test_the_picture_shows_every_layer_and_marks_an_arrow_against_the_flow():
    drawn = picture(the_graph())
    assert drawn.count("rank=same") == len(LAYERS)
    assert '"solve" -> "losses";' in drawn
    assert "red" not in drawn
    wrong = with_line("ldpopt.validate", "import ldpopt.methods")
    assert '"validate" -> "methods" [color=red];' in picture(wrong)


def test_importing_the_package_does_not_load_what_only_some_need():
    script = f"import sys, ldpopt; print([name for name in {LATE} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_first_solve_of_a_process_says_what_took_its_time():
    """Cvxpy is loaded by it, which takes a hundred times longer than the solver."""
    script = """import ldpopt
problem = ldpopt.Problem(ldpopt.losses.LeastSquares(), [ldpopt.constraints.SumsTo(1.0)])
solution = problem.solve([0.7, 0.4], path="conic")
print(solution.seconds, solution.compile_seconds, solution.solver_seconds)"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    seconds, compiling, solving = map(float, done.stdout.split())
    assert seconds / 2 < compiling + solving <= seconds


def test_a_process_that_counts_reports_does_not_load_what_it_does_not_call():
    """Each worker starts one: these take longer to import than all else that counting needs."""
    script = "import sys, ldpopt.collection.aggregation; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    unused = {"scipy.special", "scipy.sparse", "scipy.optimize", "cvxpy", "numba"}
    assert "pyarrow" in done.stdout.split()
    assert unused & set(done.stdout.split()) == set()


def test_every_public_name_and_submodule_is_there_after_a_bare_import():
    script = (
        "import ldpopt\n"
        "assert all(getattr(ldpopt, name) is not None for name in ldpopt.__all__)\n"
        "assert ldpopt.priors.PowerLaw and ldpopt.estimate and ldpopt.solve and ldpopt.studies\n"
        "assert not hasattr(ldpopt, 'no_such_name')\n"
        # Completion lists nothing else: no import, and no module that was loaded on the way.
        "assert {name for name in dir(ldpopt) if name[0] != '_'} <= set(ldpopt.__all__)\n"
        "assert set(ldpopt.__all__) <= set(dir(ldpopt)) and '_HOMES' not in dir(ldpopt)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


# --- losses and constraints answer for themselves -------------------------------------------------

FAMILIES = ("ldpopt.losses", "ldpopt.constraints")


def defined_classes(sources):
    """Return the names of all classes of losses and constraints but the two base classes.

    That an argument is a loss or a constraint at all is for its border to check.
    """
    return {
        node.name
        for module, (source, _) in sources.items()
        if module.startswith(FAMILIES)
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
    } - {"Loss", "Constraint"}


def asked_classes(source, classes):
    """Return the lines with a call of isinstance for one of the classes, or such a comparison."""
    lines = []
    for node in nodes_of(source):
        classes_in = []
        if isinstance(node, ast.Call) and called(node) == "isinstance":
            classes_in = node.args[1:]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(isinstance(side, ast.Call) and called(side) == "type" for side in sides):
                classes_in = sides
        parts = [part for side in classes_in for part in ast.walk(side)]
        if {getattr(part, "attr", getattr(part, "id", None)) for part in parts} & classes:
            lines.append(node.lineno)
    return lines


def places_that_ask(sources):
    """Return how often each unit asks, the parts of solve by themselves."""
    classes = defined_classes(SOURCES)
    counts = Counter()
    for module, (source, _) in sources.items():
        if not module.startswith(FAMILIES):
            parts = module.split(".")
            place = ".".join(parts[1:3] if parts[1:2] == ["solve"] else parts[1:2])
            counts[place] += len(asked_classes(source, classes))
    return {place: count for place, count in counts.items() if count}


def test_no_code_outside_asks_losses_and_constraints_for_their_class():
    # A new one touches few places only if the others do not ask: what these need it states itself,
    # as ``Constraint.ball`` or ``Loss.is_likelihood``. Tables by type register beside a function.
    assert places_that_ask(SOURCES) == {}


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(loss, LeastSquares)",
        "isinstance(constraint, constraints.Near)",
        "isinstance(x, (int, SumsTo))",
        "isinstance(x, LeastSquares | SumsTo)",
        "type(x) is SumsTo",
        "type(x) is not losses.LeastSquares",
        "type(x) in (LeastSquares, SumsTo)",
    ],
)
def test_a_question_is_seen(line):
    source, is_package = SOURCES["ldpopt.solve.joint"]
    asking = {"ldpopt.solve.joint": (f"{source}\n{line}\n", is_package)}
    assert places_that_ask(asking) == {"solve.joint": 1}


# --- p and q are computed in one place ------------------------------------------------------------


def protocol_arithmetic(source):
    """Return the lines that set p or q, pass them by keyword, or take an exponential of epsilon."""
    lines = []
    for node in nodes_of(source):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {
                getattr(part, "id", getattr(part, "attr", None))
                for t in targets
                for part in ast.walk(t)
            }
            if names & {"p", "q"}:
                lines.append(node.lineno)
        elif isinstance(node, ast.Call) and (_passes_p_or_q(node) or _is_exp_of_epsilon(node)):
            lines.append(node.lineno)
    return lines


def _passes_p_or_q(call):
    return bool({keyword.arg for keyword in call.keywords} & {"p", "q"})


def _is_exp_of_epsilon(call):
    return called(call) == "exp" and "epsilon" in " ".join(map(ast.unparse, call.args))


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


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else "ldpopt"
    print(picture(the_graph(), SOLVE_LAYERS if chosen == SOLVE else LAYERS, chosen))
