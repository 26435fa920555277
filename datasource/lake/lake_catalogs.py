"""The catalogs of lakes, by pyiceberg, and the errors of what they and their storages use."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark_pravega.client.recent import Recent
from pyspark_pravega.errors import InvalidOptionError, LakeError, PravegaError
from pyspark_pravega.sql import options as o

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_CATALOGS: Recent[str, Any] = Recent(16)
_OPENING = threading.Lock()


def open_catalog(settings: str) -> Catalog:
    """Return the catalog of some settings, a JSON object. Raises InvalidOptionError if there is none."""
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NotInstalledError
    except ImportError:
        raise InvalidOptionError(
            "A table with a lake needs pyiceberg: pip install 'pyspark-pravega[lake]', on the driver and where tasks "
            "run."
        ) from None

    try:
        catalog: Catalog | None = _CATALOGS.find(settings)
        if catalog is None:
            with _OPENING:  # metrics ask for many lakes at once, and each opening makes connections
                catalog = _CATALOGS.get(settings, lambda: load_catalog("lake", **json.loads(settings)))
        return catalog
    except NotInstalledError as error:
        raise InvalidOptionError(
            "The lake's catalog needs a Python package that is missing, on the driver and where tasks run: "
            f"{error.__cause__}. pyiceberg says: {error}."
        ) from error
    except Exception as error:  # pyiceberg's catalogs raise errors of many libraries
        raise InvalidOptionError(
            f"The lake's catalog cannot be opened ({type(error).__name__}) by its properties "
            f"{', '.join(sorted(json.loads(settings)))}. Correct 'spark.sql.catalog.<name>.lake.*', or "
            f"{o.LAKE_CATALOG.env} if no such conf is set: pyiceberg needs 'type', and mostly 'uri'."
        ) from error


@contextmanager
def errors_of_lake(name: str, but: type[Exception] = PravegaError) -> Iterator[None]:
    """Make a LakeError of any error of the body, except for some: libraries of catalogs and storages have many."""
    try:
        yield
    except (PravegaError, but):
        raise
    except Exception as error:
        # pyiceberg adds 1 to the 16th character for the upper bound of a column, and U+D800 is none.
        hint = (
            " A text with U+D7FF is the greatest of a file. Set the property 'write.metadata.metrics.column.<column>' "
            "of the lake's table to 'counts' for its column."
        )
        more = hint if isinstance(error, UnicodeEncodeError) else ""
        raise LakeError(f"The lake's table {name} cannot be used: {type(error).__name__}: {error}.{more}") from error
