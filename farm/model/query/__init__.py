"""The filter language of lists, one for the command line and the client: ``mine state:failed age<2d -proxy``.

What belongs here: the grammar, its meaning for a row, and what helps somebody write it.  What may not: rows
(read by accessors, ``farm.sdk.filters``), clocks, and drawing.
"""

from __future__ import annotations

from farm.model.query.complete import Candidate, Completion, complete
from farm.model.query.fields import FRAMES, JOBS, NODES, VOCABULARIES, Field, Kind, Vocabulary
from farm.model.query.match import Accessor, Context
from farm.model.query.query import Chip, Doubt, Query
from farm.model.query.tree import QueryError

__all__ = [
    "FRAMES",
    "JOBS",
    "NODES",
    "VOCABULARIES",
    "Accessor",
    "Candidate",
    "Chip",
    "Completion",
    "Context",
    "Doubt",
    "Field",
    "Kind",
    "Query",
    "QueryError",
    "Vocabulary",
    "complete",
]
