"""``python -m ldpopt`` is the command ``ldpopt``."""

import os
import sys


def main() -> None:
    """Run the command line; an interruption ends in one line and status 130, that of the slow imports too."""
    try:
        from ldpopt.cli import main as run

        run()
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop, SystemExit) and stop.code != 130:
            raise
        if isinstance(stop, KeyboardInterrupt):
            print("Interrupted.", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        # sys.exit may end in death by signal: Python remembers an interruption of exec, which dataclasses and numba use.
        os._exit(130)


if __name__ == "__main__":
    main()
