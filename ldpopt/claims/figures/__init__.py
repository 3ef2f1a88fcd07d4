"""The papers' statements on their figures, judged on the tables of a run of the figures.

``python -m experiments run all --out DIR`` writes the tables; `read_figure_run` judges them. Each
paper has a module with its statements (``ndss``, ``draft``, ``calibrate``): bounds, expected
verdicts and reasons are code, and nothing of them is read from the run.
"""

from ldpopt.claims.figures.run import STATEMENTS, FigureRun, read_figure_run

__all__ = ["STATEMENTS", "FigureRun", "read_figure_run"]
