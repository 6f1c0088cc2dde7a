"""Parts of the Log dock; nothing here knows the window."""
