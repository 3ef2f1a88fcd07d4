"""What N's statements share: groups of methods, and a reason that several of them have."""

ALL = (
    "base",
    "base-pos",
    "post-pos",
    "norm",
    "norm-mul",
    "norm-sub",
    "mle-apx",
    "base-cut",
    "norm-cut",
    "power",
    "power-ns",
)
# Those whose answers sum to 1, Norm-Cut's almost.
NORMALISED = ("norm", "norm-mul", "norm-sub", "mle-apx", "norm-cut", "power-ns")
FREE = ("base", "base-pos", "post-pos", "base-cut", "power")
OTHER_EMOJI = "Emoji as N had it is gone; what 736 emoji of today show decides nothing."


def without(*names: str) -> tuple[str, ...]:
    """Return all methods but these."""
    return tuple(m for m in ALL if m not in names)
