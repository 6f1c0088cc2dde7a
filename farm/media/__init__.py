"""Probe, stitch, verify, preview: everything that touches pixels."""
