"""Material of `farm demo`: scenes as scripts, and a soundtrack made by arithmetic."""
