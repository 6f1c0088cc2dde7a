"""Simulated farms under a virtual clock: they drive the very core that the broker drives."""
