"""``python -m ldpopt`` is the command ``ldpopt``."""

import os
import sys


def main() -> None:
    """Run the command line; an interruption ends in one line and status 130, that of the slow imports too."""
    try:
        from ldpopt.cli import main as run

        run()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr, flush=True)
        os._exit(130)  # sys.exit may yet end in death by signal, where exec was interrupted as dataclasses call it


if __name__ == "__main__":
    main()
