"""Looking at this machine and saying what is missing: the checks of `farm doctor`, by subject."""
