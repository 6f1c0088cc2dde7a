"""The shell round the core: loop, effects, routes, auth, composition root."""
