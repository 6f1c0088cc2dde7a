"""The `farm` command."""
