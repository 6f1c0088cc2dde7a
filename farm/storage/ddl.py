"""The newest schema as plain SQL, so that a new farm starts without importing SQLAlchemy.

Generated from the migrations; a test compares.  To make it anew after adding a migration:
``python -c "from farm.storage import upgrade; upgrade.write_ddl()"``
"""

from __future__ import annotations

#: Revision these statements lead to.
HEAD = "0002"

STATEMENTS: tuple[str, ...] = (
    """CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)""",
    """CREATE TABLE checkpoints (
  id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  extra BLOB NOT NULL,
  CONSTRAINT pk_checkpoints PRIMARY KEY (id)
)
 STRICT""",
    """CREATE TABLE history (
  seq INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  job_id INTEGER NOT NULL,
  what TEXT NOT NULL,
  old TEXT NOT NULL,
  new TEXT NOT NULL,
  reason TEXT NOT NULL,
  who TEXT NOT NULL,
  CONSTRAINT pk_history PRIMARY KEY (seq)
)
 STRICT""",
    """CREATE INDEX ix_history_job_id ON history (job_id)""",
    """CREATE TABLE invites (
  name TEXT NOT NULL,
  record BLOB NOT NULL, n INTEGER DEFAULT '0' NOT NULL,
  CONSTRAINT pk_invites PRIMARY KEY (name)
)
 STRICT""",
    """CREATE TABLE jobs (
  id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  name TEXT NOT NULL,
  user TEXT NOT NULL,
  project TEXT NOT NULL,
  priority INTEGER NOT NULL,
  token TEXT NOT NULL,
  paused INTEGER NOT NULL,
  submitted_us INTEGER NOT NULL,
  spec BLOB NOT NULL,
  CONSTRAINT pk_jobs PRIMARY KEY (id)
)
 STRICT""",
    """CREATE TABLE keys (
  public TEXT NOT NULL,
  role TEXT NOT NULL,
  user TEXT NOT NULL,
  pool TEXT NOT NULL,
  site TEXT NOT NULL,
  label TEXT NOT NULL,
  revoked INTEGER NOT NULL,
  added_us INTEGER NOT NULL, n INTEGER DEFAULT '0' NOT NULL,
  CONSTRAINT pk_keys PRIMARY KEY (public)
)
 STRICT""",
    """CREATE TABLE meta (
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  CONSTRAINT pk_meta PRIMARY KEY (name)
)
 STRICT""",
    """CREATE TABLE job_states (
  seq INTEGER NOT NULL,
  job_id INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  what TEXT NOT NULL,
  old TEXT NOT NULL,
  new TEXT NOT NULL,
  reason TEXT NOT NULL,
  who TEXT NOT NULL,
  CONSTRAINT pk_job_states PRIMARY KEY (seq),
  CONSTRAINT fk_job_states_job_id_jobs FOREIGN KEY(job_id) REFERENCES jobs (id)
)
 STRICT""",
    """CREATE INDEX ix_job_states_job_id ON job_states (job_id)""",
    """CREATE TABLE steps (
  id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  job_id INTEGER NOT NULL,
  idx INTEGER NOT NULL,
  name TEXT NOT NULL,
  app TEXT NOT NULL,
  whole INTEGER NOT NULL,
  units INTEGER NOT NULL,
  state INTEGER NOT NULL,
  CONSTRAINT pk_steps PRIMARY KEY (id),
  CONSTRAINT fk_steps_job_id_jobs FOREIGN KEY(job_id) REFERENCES jobs (id)
)
 STRICT""",
    """CREATE TABLE step_maps (
  step_id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  state BLOB NOT NULL,
  tries BLOB NOT NULL,
  extra BLOB NOT NULL,
  CONSTRAINT pk_step_maps PRIMARY KEY (step_id),
  CONSTRAINT fk_step_maps_step_id_steps FOREIGN KEY(step_id) REFERENCES steps (id)
)
 STRICT""",
    """CREATE TABLE journal (
  id INTEGER NOT NULL,
  seq_last INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  blob BLOB NOT NULL,
  CONSTRAINT pk_journal PRIMARY KEY (id)
)
 STRICT""",
    """CREATE TABLE segments (
  id INTEGER NOT NULL,
  step_id INTEGER NOT NULL,
  seq_first INTEGER NOT NULL,
  unit_low INTEGER NOT NULL,
  unit_high INTEGER NOT NULL,
  rows INTEGER NOT NULL,
  bulks INTEGER NOT NULL,
  blob BLOB NOT NULL,
  CONSTRAINT pk_segments PRIMARY KEY (id)
)
 STRICT""",
    """CREATE INDEX ix_segments_step_id ON segments (step_id)""",
    """CREATE TABLE node_maps (
  node_id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  node BLOB NOT NULL,
  meter BLOB NOT NULL,
  CONSTRAINT pk_node_maps PRIMARY KEY (node_id)
)
 STRICT""",
    """CREATE TABLE policies (
  seq INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  policy BLOB NOT NULL,
  reason TEXT NOT NULL,
  who TEXT NOT NULL,
  CONSTRAINT pk_policies PRIMARY KEY (seq)
)
 STRICT""",
    """CREATE TABLE step_edits (
  seq INTEGER NOT NULL,
  step_id INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  spec BLOB NOT NULL,
  reason TEXT NOT NULL,
  who TEXT NOT NULL,
  CONSTRAINT pk_step_edits PRIMARY KEY (seq),
  CONSTRAINT fk_step_edits_step_id_steps FOREIGN KEY(step_id) REFERENCES steps (id)
)
 STRICT""",
    """CREATE TABLE shelf (
  seq INTEGER NOT NULL,
  job_id INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  name TEXT NOT NULL,
  user TEXT NOT NULL,
  project TEXT NOT NULL,
  priority INTEGER NOT NULL,
  token TEXT NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  submitted_us INTEGER NOT NULL,
  started_us INTEGER NOT NULL,
  ended_us INTEGER NOT NULL,
  units INTEGER NOT NULL,
  done INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  spend_nano INTEGER NOT NULL,
  waste_nano INTEGER NOT NULL,
  busy_us INTEGER NOT NULL,
  steps TEXT NOT NULL,
  CONSTRAINT pk_shelf PRIMARY KEY (seq),
  CONSTRAINT fk_shelf_job_id_jobs FOREIGN KEY(job_id) REFERENCES jobs (id)
)
 STRICT""",
    """CREATE INDEX ix_shelf_job_id ON shelf (job_id)""",
    """CREATE TABLE deleted (
  seq INTEGER NOT NULL,
  job_id INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  name TEXT NOT NULL,
  user TEXT NOT NULL,
  project TEXT NOT NULL,
  token TEXT NOT NULL,
  shelved INTEGER NOT NULL,
  done INTEGER NOT NULL,
  spend_nano INTEGER NOT NULL,
  waste_nano INTEGER NOT NULL,
  busy_us INTEGER NOT NULL,
  reason TEXT NOT NULL,
  who TEXT NOT NULL,
  CONSTRAINT pk_deleted PRIMARY KEY (seq)
)
 STRICT""",
    """CREATE INDEX ix_deleted_job_id ON deleted (job_id)""",
    """CREATE INDEX ix_steps_job_id ON steps (job_id)""",
    """CREATE INDEX ix_step_edits_step_id ON step_edits (step_id)""",
)
