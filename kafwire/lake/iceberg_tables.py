"""Iceberg tables by the names of a command line. This needs the package pyiceberg."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError

from kafwire.errors import KafkaError
from kafwire.lake.table_errors import table_error


def opened(catalog: str, table: str, schema: pa.Schema) -> Any:
    """Load a table from a catalog of pyiceberg's configuration; create a missing one with these columns.

    Raises:
        KafkaError: the catalog lacks the namespace.
        TableError: the catalog is not configured, not available, or denies access.
    """
    try:
        return load_catalog(catalog).create_table_if_not_exists(table, schema)
    except NoSuchNamespaceError as error:
        raise KafkaError(f"iceberg:{catalog}/{table}: {error}; create the namespace first") from error
    except Exception as error:
        configured = (
            f"pyiceberg reads the catalog {catalog!r} from ~/.pyiceberg.yaml and "
            f"PYICEBERG_CATALOG__{catalog.upper()}__URI"
        )
        raise table_error(error, f"iceberg:{catalog}/{table}", configured) from error
