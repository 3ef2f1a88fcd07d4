"""Kosarak and Retail, read from the folder in LDPOPT_DATA or downloaded on first use.

Downloads are kept in a cache folder.
"""

from __future__ import annotations

import hashlib
import io
import zlib
from dataclasses import dataclass
from pathlib import Path

from ldpopt.datasets import folder
from ldpopt.datasets.dataset import Dataset
from ldpopt.datasets.readers import Transactions, decompress, parse_transactions, read_bytes
from ldpopt.errors import DataUnavailableError

# A copy: the address of the FIMI repository itself is dead.
_FIMI = "https://www.cs.rpi.edu/~zaki/Workshops/FIMI/data"


@dataclass(frozen=True)
class Published:
    """A file of transactions on the web; its checksum is that of the decompressed file."""

    name: str
    sha256: str
    source: str

    @property
    def file(self) -> str:
        """Name of the decompressed file."""
        return f"{self.name}.dat"

    @property
    def address(self) -> str:
        """Where the compressed file is."""
        return f"{_FIMI}/{self.file}.gz"


KOSARAK = Published(
    "kosarak",
    "b7855ba155567d52390aa2a9eb09bb91ca27b5c737d358010501038f42d13dcf",
    "Kosarak: clicks on a Hungarian news portal, provided by F. Bodon (FIMI repository)",
)
RETAIL = Published(
    "retail",
    "d967431ba522e32f0fbb243f2ee113ecd4cb374cb0234c1b0858dae1d499a055",
    "Retail: T. Brijs et al. 1999, baskets of a Belgian supermarket (FIMI repository), "
    "any use with acknowledgement",
)


def kosarak() -> Dataset:
    """Return how often each page of a news portal was clicked.

    These are all 8,019,015 clicks of 990,002 sessions on 41,270 pages.

    Returns
    -------
    The data set, by ascending page id. Studies in which each session is one user who holds one page
    derive it from `read_transactions`.

    Raises
    ------
    DataUnavailableError
        If the file is missing from the folder in ``LDPOPT_DATA``, cannot be downloaded, or has
        another checksum.

    Notes
    -----
    Cost: about a second and 0.5 GB, after the download.

    Examples
    --------
    >>> kosarak().d  # doctest: +SKIP
    41270
    """
    return _load(KOSARAK)


def retail() -> Dataset:
    """Return how often each product of a supermarket was bought.

    These are all 908,576 items of 88,162 baskets, of 16,470 products.

    Returns
    -------
    The data set, by ascending product id.

    Raises
    ------
    DataUnavailableError
        If the file is missing from the folder in ``LDPOPT_DATA``, cannot be downloaded, or has
        another checksum.

    Notes
    -----
    Cost: about 0.1 seconds, after the download.

    Examples
    --------
    >>> retail().d  # doctest: +SKIP
    16470
    """
    return _load(RETAIL)


def _load(published: Published) -> Dataset:
    return transactions(published).to_dataset(published.name, published.source)


def transactions(published: Published) -> Transactions:
    """Return the lines of a published file; errors are those of its data set."""
    data_folder = folder.data_folder()
    if data_folder is None:
        path = _download(published)
    else:
        remedy = f"put the file there, or unset {folder.VARIABLE} to download it"
        path = folder.locate(data_folder, published.file, remedy)
    content = read_bytes(path)
    # Downloads were verified by pooch; a file in the user's folder was verified by nobody.
    checksum = hashlib.sha256(content).hexdigest()
    if checksum != published.sha256:
        raise DataUnavailableError(
            f"{path}: the sha256 of the decompressed file is {checksum}, expected "
            f"{published.sha256}; get it again from {published.address}"
        )
    return parse_transactions(content, path)


def _download(published: Published) -> Path:
    """Return the decompressed file in the cache folder, downloading it if it is not there."""
    import pooch  # here, so that importing ldpopt.datasets stays fast

    def fetch(url: str, output_file: str, pooch_: object) -> None:
        # pooch calls this with a temporary name, verifies the checksum of what is there, and only
        # then renames it. Decompressing here makes that the checksum of the decompressed file, and
        # its appearance in the cache atomic.
        compressed = io.BytesIO()
        pooch.HTTPDownloader(progressbar=True)(url, compressed, pooch_)
        Path(output_file).write_bytes(decompress(compressed.getvalue()))

    cache = pooch.os_cache("ldpopt")
    try:
        return Path(
            pooch.retrieve(
                published.address,
                f"sha256:{published.sha256}",
                fname=published.file,
                path=cache,
                downloader=fetch,
            )
        )
    # Whatever requests raises is an OSError; a checksum that differs is pooch's ValueError.
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DataUnavailableError(
            f"{published.name} is not on this machine: get {published.file}.gz by other means, put "
            f"it into a folder and set the environment variable {folder.VARIABLE} to that folder "
            f"(could not download {published.address} to {cache / published.file}: "
            f"{type(error).__name__})"
        ) from None
