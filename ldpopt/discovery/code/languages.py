"""The languages in which closed forms are written."""

from __future__ import annotations

from ldpopt.discovery.code.c_language import C
from ldpopt.discovery.code.language import Language
from ldpopt.discovery.code.script_languages import JavaScript, NumPy

LANGUAGES: dict[str, type[Language]] = {"numpy": NumPy, "c": C, "javascript": JavaScript}
"""Each language by its name."""
