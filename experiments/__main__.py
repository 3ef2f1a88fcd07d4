"""``python -m experiments``; an interruption ends in one line and status 130, that of the slow imports too."""

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
        # sys.exit may end in death by signal: Python remembers an interruption of exec, which dataclasses and numba use.
        os._exit(130)
