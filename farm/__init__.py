"""Overcrank: a render farm manager for video and 3D frames."""

__version__ = "0.1.0"
