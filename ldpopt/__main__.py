"""``python -m ldpopt`` is the command ``ldpopt``."""

import os
import sys
import traceback

from ldpopt.errors import MissingPackageError, extra_needed

# As in ldpopt.cli.app, which is not yet imported.
_INTERRUPTED = 130  # 128 + SIGINT
_FAILED = 2
_DEFECT = 70


def main() -> None:
    """Run the command line. Ctrl-C, even during the imports, prints one line; the status is 130."""
    try:
        with extra_needed():
            from ldpopt.cli import main as run
        run()
    except MissingPackageError as error:
        # As ldpopt.cli.app prints errors, which is what is missing here.
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(_FAILED)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
    except SystemExit as stop:
        if stop.code != _INTERRUPTED:
            raise
    except Exception:
        # Of the imports: a package that is missing or broken is not a check that failed.
        traceback.print_exc()
        sys.exit(_DEFECT)
    else:
        return
    # CPython raises SIGINT again at exit if exec() was interrupted, which imports, dataclasses and
    # numba call. os._exit avoids that, but does not flush.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
