"""What can go wrong with a run, said to whoever started it."""


class ExperimentError(Exception):
    """A run cannot go on; the message says why, what is kept and what to do."""
