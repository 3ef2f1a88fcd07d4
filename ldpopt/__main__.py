"""``python -m ldpopt`` is the command ``ldpopt``."""

from ldpopt.cli import main

main()
