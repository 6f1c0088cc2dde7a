"""The tables as SQLAlchemy metadata: what migrations lead to, checked against the row records.

What belongs here: types and constraints.  What must not: connections.  Only migrations and tests import
this module, never the broker's hot path (see ``farm.storage.tables``).
"""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, MetaData, Text
from sqlalchemy import Table as SqlTable
from sqlalchemy.types import TypeEngine

from farm.broker.ports import KeyRecord
from farm.storage.journal import Segment
from farm.storage.tables import TABLES, Table

#: Names of constraints, fixed so that a later migration can drop them on every database.
NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


def _type(python: type) -> TypeEngine[Any]:
    if python in (int, bool):
        # 64 bits everywhere; SQLite makes a key the row id only when it is declared INTEGER.
        return BigInteger().with_variant(Integer(), "sqlite")
    if python is str:
        return Text()
    if python is bytes:
        return LargeBinary()
    raise TypeError(f"no column type for {python}")


def _add(metadata: MetaData, table: Table) -> None:
    refers = dict(table.refers)
    keys = {other.name: other.key for other in TABLES}
    columns = [
        Column(
            name,
            _type(python),
            *([ForeignKey(f"{refers[name]}.{keys[refers[name]]}")] if name in refers else []),
            primary_key=name == table.key,
            autoincrement=False,
            nullable=False,
        )
        for name, python in zip(table.columns, table.types, strict=True)
    ]
    made = SqlTable(table.name, metadata, *columns, sqlite_strict=True)
    for name in table.indexes:
        Index(None, made.c[name])


def _plain(metadata: MetaData, name: str, columns: dict[str, type], indexes: tuple[str, ...] = ()) -> None:
    first = next(iter(columns))
    made = SqlTable(
        name,
        metadata,
        *(
            Column(column, _type(python), primary_key=column == first, autoincrement=False, nullable=False)
            for column, python in columns.items()
        ),
        sqlite_strict=True,
    )
    for column in indexes:
        Index(None, made.c[column])


def build() -> MetaData:
    """The metadata of the newest schema."""
    metadata = MetaData(naming_convention=NAMES)
    for table in TABLES:
        _add(metadata, table)
    _plain(metadata, "journal", {"id": int, "seq_last": int, "at_us": int, "blob": bytes})
    segment = {field.name: field.type for field in msgspec.structs.fields(Segment)}
    _plain(metadata, "segments", segment, ("step_id",))
    _plain(metadata, "meta", {"name": str, "value": str})
    key = {field.name: field.type for field in msgspec.structs.fields(KeyRecord)}
    _plain(metadata, "keys", {**key, "n": int})
    _plain(metadata, "invites", {"name": str, "record": bytes, "n": int})
    return metadata
