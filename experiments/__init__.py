"""Experiments: what the papers drew (``python -m experiments``), and how fast this library is (``... .bench``)."""

import os

# One thread for linear algebra, unless the user says otherwise: the cells are what runs side by side, and sums that threads
# split differ in their last bits with the number of threads. It must be said before numpy is imported.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
