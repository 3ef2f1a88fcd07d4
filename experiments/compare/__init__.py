"""The papers' printed numbers and statements beside what the figures measured.

The statements and the rule that judges them are those of `ldpopt.claims.figures`.
"""

from pathlib import Path

RESULTS = Path(__file__).parent.parent / "results"
"""The results of a full run that the repository keeps."""
