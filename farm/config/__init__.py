"""Every option once: type, default, unit, help."""
