"""The wire: one message schema, msgpack codec, sans-I/O session."""
