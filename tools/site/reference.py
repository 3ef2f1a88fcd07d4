"""The reference: one page per public object, from its docstring."""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

MODULES = (
    "ldpopt",
    "ldpopt.oracles",
    "ldpopt.constraints",
    "ldpopt.losses",
    "ldpopt.closed_form",
    "ldpopt.priors",
    "ldpopt.estimate",
    "ldpopt.channels",
    "ldpopt.datasets",
    "ldpopt.discovery",
    "ldpopt.collection",
    "ldpopt.studies.audit",
    "ldpopt.studies.comparison",
    "ldpopt.studies.poisoning",
    "ldpopt.claims",
    "ldpopt.style",
    "ldpopt.errors",
)
"""In the order of the page: what every user needs first."""


def write(folder: Path) -> None:
    """Write a page of contents and one per module; Sphinx makes the pages of objects from these."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "# Reference",
        "",
        "Every public object, by module. Signatures show defaults; the sections of each page give",
        "shapes, units, errors, cost and source.",
        "",
    ]
    listed: set[object] = set()
    for module in MODULES:
        # An object that two modules export has one page, and is listed with the first.
        names = [n for n in public_names(module) if _object(module, n) not in listed]
        listed.update(_object(module, name) for name in names)
        page = "\n".join(_page(module, names))
        (folder / f"{module}.md").write_text(page, encoding="utf-8")
        lines += _entry(module, names)
    toctree = ["```{toctree}", ":hidden:", "", *MODULES, "```", ""]
    (folder / "index.md").write_text("\n".join([*lines, *toctree]), encoding="utf-8")


def _object(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name)


def _first_sentence(name: str) -> str:
    """Return the first line of a module's docstring."""
    return (importlib.import_module(name).__doc__ or "").strip().splitlines()[0]


def _entry(name: str, names: list[str]) -> Iterator[str]:
    """Yield a module's line in the page of contents, and links to its objects."""
    links = (f"{{py:obj}}`{public} <{name}.{public}>`" for public in names)
    yield from (f"## [`{name}`]({name}.md)", "", _first_sentence(name), "")
    yield from (", ".join(links) + ".", "")


def _page(name: str, names: list[str]) -> Iterator[str]:
    """Yield a module's page: the first sentence of its docstring, and a table of its objects."""
    yield from (f"# `{name}`", "", _first_sentence(name), "")
    yield from ("```{eval-rst}", f".. currentmodule:: {name}", "")
    yield from (".. autosummary::", "   :toctree: generated", "   :nosignatures:", "")
    yield from (f"   {public}" for public in names)
    yield from ("```", "")


def public_names(name: str) -> list[str]:
    """Return the functions and classes that a module offers, as it lists or defines them."""
    module = importlib.import_module(name)
    names = getattr(module, "__all__", None)
    if names is None:
        names = [key for key, value in vars(module).items() if _is_public(key, value, name)]
    objects = {key: getattr(module, key) for key in names}
    # Submodules have sections of their own, and constants no docstring to show.
    return [
        key for key, value in objects.items() if inspect.isclass(value) or inspect.isroutine(value)
    ]


def _is_public(key: str, value: object, module: str) -> bool:
    return not key.startswith("_") and getattr(value, "__module__", "") == module
