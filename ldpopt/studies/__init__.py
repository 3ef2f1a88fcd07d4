"""Studies built on estimates and problems: choice of methods, audits, poisoning, comparisons."""
