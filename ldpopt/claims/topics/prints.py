"""Printed numbers that contradict each other, or the arithmetic beside them."""

from __future__ import annotations

import math

from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet

TITLE = "Print against print: numbers that contradict each other"
ORDER = 130

_SHOWN = 0.05  # relative departure that a number of two digits may have from what it rounds


@claim(
    "kosarak-size",
    "D Table 2, D C.1; K IV-A",
    "Kosarak has 42,178 values (D), which K counts as 41,270 pages.",
    Verdict.FAILS,
)
def kosarak_size(instances: InstanceSet) -> Finding:
    """Compare both papers' number of values of the same public file.

    Red if they agree within a page: then there would be nothing to say.
    """
    # As printed: there is nothing to compute.
    of_draft = 42_178
    of_calibrate = 41_270
    return Finding(
        holds=of_draft == of_calibrate,
        instances=2,
        evidence={
            "D Table 2": of_draft,
            "K IV-A": of_calibrate,
            "more values in D": of_draft - of_calibrate,
            "the published file": "41,270 pages, 8,019,015 clicks and 990,002 sessions, by the "
            "checksum and the counts of datasets.load('kosarak'): K's number is right",
        },
    )


@claim(
    "area-sizes",
    "D 4.3",
    "370 economic areas have ρ d = 0.2 % × 951 = 2 cities each on average, 49 states ρ = 2, 9 "
    "regions ρ = 11.",
    Verdict.CORRECTED,
)
def area_sizes(instances: InstanceSet) -> Finding:
    """Divide the domain, 915 cities by D 4.1, by the number of areas of each kind.

    Red if all printed numbers follow to _SHOWN (then the statement holds), or if those of states
    and regions do not.
    """
    # D 4.1's number; 951 in D 4.3 is one of the two things in question.
    cities = 915
    shares = {areas: 100 / areas for areas in (370, 49, 9)}
    states_follow = math.isclose(shares[49], 2, rel_tol=_SHOWN)
    regions_follow = math.isclose(shares[9], 11, rel_tol=_SHOWN)
    areas_follow = math.isclose(shares[370], 0.2, rel_tol=_SHOWN) and cities == 951
    return Finding(
        holds=areas_follow and states_follow and regions_follow,
        corrected=states_follow and regions_follow,
        instances=len(shares),
        evidence={
            **{f"ρ of {areas} areas, per cent": share for areas, share in shares.items()},
            "cities per economic area": cities / 370,
            "correction": "0.27 % × 915 = 2.5 cities: 951 is 915 with its last digits "
            "exchanged, and 0.27 is cut off to 0.2",
        },
    )


@claim(
    "emoji-categories",
    "N V-D",
    "The 1,573 emoji have 68 categories with a mean of 10.4 items.",
    Verdict.INCONCLUSIVE,
)
def emoji_categories(instances: InstanceSet) -> Finding:
    """Multiply the number of categories by their mean size, and compare with the domain.

    Red if they account for nine tenths of the emoji or more (then the statement holds), or for more
    than there are: then it fails.
    """
    emoji = 1_573
    # A mean of one decimal: the product is right to half a per cent.
    in_categories = 68 * 10.4
    fits = in_categories > 0.9 * emoji
    return Finding(
        holds=None if 0 < in_categories < 0.9 * emoji else fits and in_categories < 1.1 * emoji,
        instances=1,
        evidence={
            "emoji in categories": in_categories,
            "emoji": emoji,
            "share": in_categories / emoji,
            "so": "either the categories leave out more than half of the emoji, of which N says "
            "nothing, or a number is misprinted; the file of categories is not here",
        },
    )
