"""``python -m experiments``; an interruption ends in one line and status 130, that of the slow imports too."""

import os
import sys

if __name__ == "__main__":
    try:
        from experiments.command import main

        main()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr, flush=True)
        os._exit(130)  # sys.exit may yet end in death by signal, where exec was interrupted as dataclasses call it
