"""Studies built on estimates and problems: which method to choose, who lies, how solvers compare."""
