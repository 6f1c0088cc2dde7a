"""The headless render agent: state machine, link, outbox, process tree, probe, outputs."""
