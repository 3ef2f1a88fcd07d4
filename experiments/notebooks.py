"""The notebooks with fresh outputs.

Run as ``python -m experiments.notebooks`` after a change of a notebook or of what it shows; names
select notebooks.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat

FOLDER = Path(__file__).parent.parent / "notebooks"
_PATIENCE = 600  # seconds a cell may take before it counts as hung
# Not %reset, which also takes __spec__, without which no process can be started.
_RESET = """import sys
if "matplotlib" in sys.modules:
    sys.modules["matplotlib"].rcdefaults()
%reset_selective -f .
"""


def paths() -> list[Path]:
    """Return every notebook of the repository."""
    return sorted(FOLDER.glob("*.ipynb"))


@contextmanager
def kernel() -> Iterator[Callable[[Path], nbformat.NotebookNode]]:
    """Start a kernel in this interpreter, and give the function that runs a notebook in it.

    The libraries are loaded once for all notebooks of a kernel. Every notebook starts without names
    and with matplotlib's defaults; a change inside another library would reach the next notebook.
    Kernels, start-up files and configuration of the user are not used.
    """
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from jupyter_core.utils import run_sync
    from nbclient import NotebookClient

    # Where no kernel is found, jupyter_client starts ipykernel in this interpreter.
    kernels = KernelSpecManager(kernel_dirs=[])
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=kernels)
    with tempfile.TemporaryDirectory() as home:
        client = NotebookClient(
            nbformat.v4.new_notebook(),
            km=manager,
            # At its usual level of messages it warns of its local socket.
            extra_arguments=[f"--ipython-dir={home}", "--log-level=ERROR"],
            timeout=_PATIENCE,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": str(FOLDER)}},
        )
        # A bar appears in slow runs only: outputs would depend on the machine. The kernel alone has
        # none: what runs in this process afterwards may want its bars.
        environment = os.environ | {"TQDM_DISABLE": "1"}

        def run(path: Path) -> nbformat.NotebookNode:
            # Not before the first one, which may be stored: cells are numbered as they run.
            if client.kc is not None:
                client.nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(_RESET)])
                client.execute(cleanup_kc=False, env=environment)
            client.nb = nbformat.read(path, as_version=4)
            client.execute(cleanup_kc=False, env=environment)
            client.nb.metadata.language_info = {"name": "python"}  # the kernel adds its version
            return client.nb

        try:
            yield run
        finally:
            # The client leaves a manager that was given to it open.
            if client.kc is not None:
                client.kc.stop_channels()
            if manager.has_kernel:
                run_sync(manager.shutdown_kernel)(now=True)


def execute(path: Path) -> nbformat.NotebookNode:
    """Run a notebook from its first cell to its last in a kernel of its own, and return it.

    An error in a cell is raised, and nothing of the run remains but its outputs.
    """
    with kernel() as run:
        return run(path)


def main(names: list[str]) -> None:
    """Execute the notebooks, all or those named, and store them with their outputs."""
    for path in paths():
        # Each is stored when it is done: an error in one leaves the fresh outputs of those before
        # it.
        if not names or path.stem in names:
            nbformat.write(execute(path), path)


if __name__ == "__main__":
    main(sys.argv[1:])
