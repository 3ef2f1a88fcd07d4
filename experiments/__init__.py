"""Experiments: the papers' figures (``python -m experiments``) and benchmarks (``... .bench``)."""

import os

# One thread for linear algebra, unless the user sets another number: cells run side by side, and
# sums that are split over threads differ in their last bits with the number of threads. The
# variables must be set before numpy is imported.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
