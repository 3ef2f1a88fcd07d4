"""The notebooks with fresh outputs.

Run as ``python -m experiments.notebooks`` after a change of a notebook or of what it shows; names
select notebooks.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat

FOLDER = Path(__file__).parent.parent / "notebooks"
_PATIENCE = 600  # seconds a cell may take before it counts as hung


def paths() -> list[Path]:
    """Return every notebook of the repository."""
    return sorted(FOLDER.glob("*.ipynb"))


def execute(path: Path) -> nbformat.NotebookNode:
    """Run a notebook from its first cell to its last by this interpreter, and return it.

    An error in a cell is raised. Kernels, start-up files and configuration of the user are not
    used, and nothing of the run remains but its outputs.
    """
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    # Where it finds no kernel, jupyter_client starts ipykernel in this interpreter.
    kernels = KernelSpecManager(kernel_dirs=[])
    with tempfile.TemporaryDirectory() as home:
        NotebookClient(
            notebook,
            km=AsyncKernelManager(kernel_name="python3", kernel_spec_manager=kernels),
            # At lower levels it warns of its local socket.
            extra_arguments=[f"--ipython-dir={home}", "--log-level=ERROR"],
            timeout=_PATIENCE,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": str(FOLDER)}},
        ).execute(cleanup_kc=True)  # else a kernel manager that is not its own stays open
    notebook.metadata.language_info = {"name": "python"}  # the kernel adds its version
    return notebook


def main(names: list[str]) -> None:
    """Execute the notebooks, all or those named, and store them with their outputs."""
    for path in paths():
        # Each is stored when it is done: an error in one leaves the fresh outputs of those before
        # it.
        if not names or path.stem in names:
            nbformat.write(execute(path), path)


if __name__ == "__main__":
    main(sys.argv[1:])
