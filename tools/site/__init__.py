"""The documentation site: pages from ``docs/``, from docstrings, and from kept results."""
