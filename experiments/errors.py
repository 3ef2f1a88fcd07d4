"""The error of a run: its message is one sentence for the person at the command line."""


class ExperimentError(Exception):
    """A run cannot go on; the message says why, what is kept and what to do."""
