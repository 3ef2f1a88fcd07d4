"""The papers' data sets by figure, and those of ours that stand in for some of them."""

STAND_INS = {
    "emoji": "736 emoji of today for the paper's 1,573",
    "us-cities": "US cities of today for the paper's 1940 census sample",
}
"""Data sets of ours in the place of one that is gone or not free, with what differs."""

NAMES = {
    "zipf": "Zipf's",
    "emoji": "Emoji",
    "us-cities": "IPUMS",
    "beta": "Beta",
    "pos": "POS",
    "fire": "Fire",
    "kosarak": "Kosarak",
    "kosarak-sessions": "Kosarak",
    "retail": "Retail",
}
"""Data sets as the papers call them, by their names in the tables."""

# Groups of data sets that several figures share.
_ZIPF = ("zipf",)
_NDSS = ("zipf", "emoji")
_EMOJI = ("emoji",)
_DRAFT = ("zipf", "us-cities")
_APPENDIX = ("beta", "pos", "fire", "kosarak-sessions")

DATA: dict[str, tuple[str, ...]] = {
    "ndss-fig1": _ZIPF,
    "ndss-fig2": _ZIPF,
    "ndss-fig3": _ZIPF,
    "ndss-fig4": _NDSS,
    "ndss-fig5": _ZIPF,
    "ndss-fig6": _NDSS,
    "ndss-fig7": _NDSS,
    "ndss-fig8": _EMOJI,
    "ndss-fig9": _EMOJI,
    "ndss-fig10": _NDSS,
    "draft-fig1": _DRAFT,
    "draft-fig2": _DRAFT,
    "draft-fig3": _DRAFT,
    "draft-fig4": ("us-cities",),
    "draft-fig5": _DRAFT,
    # It shows the data sets themselves.
    "draft-fig6": ("us-cities", "kosarak-sessions", "pos", "fire", "beta", "zipf"),
    "draft-fig7": _APPENDIX,
    "draft-fig8": _APPENDIX,
    "draft-fig9": _APPENDIX,
    "calibrate-fig3": ("kosarak", "retail"),
    "calibrate-fig4": ("kosarak",),
    "calibrate-fig5": ("kosarak",),
    "calibrate-fig6": ("retail",),
    "calibrate-fig7": ("kosarak", "retail"),
    "calibrate-fig8": ("kosarak",),
    "calibrate-fig9": ("retail",),
}
"""The data sets of every figure in its paper, by their names in the tables."""
