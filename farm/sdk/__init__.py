"""Typed client used by CLI, GUI and scripts; job files read, written, validated."""
