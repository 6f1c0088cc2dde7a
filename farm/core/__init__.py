"""The scheduler, pure: events in, changes and commands out."""
