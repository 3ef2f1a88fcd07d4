"""``python -m experiments``: Ctrl-C, even during imports, prints one line and exits with 130."""

import os
import sys

if __name__ == "__main__":
    try:
        from experiments.command import main

        main()
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop, SystemExit) and stop.code != 130:
            raise
        if isinstance(stop, KeyboardInterrupt):
            print("Interrupted.", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        # CPython re-raises SIGINT at exit if it interrupted exec(), which dataclasses and numba
        # call; os._exit avoids that.
        os._exit(130)
