"""Parts of the Preview dock; nothing here knows the window."""
