"""Durable state: SQLite embedded; logs and previews on disk."""
