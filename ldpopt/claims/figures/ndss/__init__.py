"""What N states about its figures (N V), by the kind of query that they show."""

from ldpopt.claims.figures.ndss import (
    bias_and_variance,
    conclusions,
    full_domain,
    sets,
    top_values,
)

STATEMENTS = (
    *conclusions.STATEMENTS,
    *bias_and_variance.STATEMENTS,
    *full_domain.STATEMENTS,
    *sets.STATEMENTS,
    *top_values.STATEMENTS,
)
"""All statements, in the order of the paper behind its conclusions."""
