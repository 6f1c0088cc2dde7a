"""Alembic's environment: runs migrations on the connection that ``farm.storage.upgrade`` hands over."""

from __future__ import annotations

from alembic import context

from farm.storage.schema import build

# SQLite cannot alter most things in place: batch mode copies the table.
context.configure(
    connection=context.config.attributes["connection"], target_metadata=build(), render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
