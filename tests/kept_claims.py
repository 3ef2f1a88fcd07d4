"""Keep the ids of all claims, after a deliberate change: ``python -m tests.kept_claims``."""

from pathlib import Path

from ldpopt.claims import LEDGER

if __name__ == "__main__":
    Path(__file__).with_suffix(".txt").write_text("\n".join(sorted(LEDGER)) + "\n", "utf-8")
