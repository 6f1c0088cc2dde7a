"""``python -m farm`` is the `farm` command."""

from farm.cli.main import entry

if __name__ == "__main__":
    entry()
