"""Every option once: type, default, unit, help; and the places a farm's files live in."""
