"""The newest schema as plain SQL, so that a new farm starts without importing SQLAlchemy.

Generated from the migrations; a test compares.  To make it anew after adding a migration:
``python -c "from farm.storage import upgrade; upgrade.write_ddl()"``
"""

from __future__ import annotations

#: Revision these statements lead to.
HEAD = "0001"

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
  record BLOB NOT NULL,
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
  added_us INTEGER NOT NULL,
  CONSTRAINT pk_keys PRIMARY KEY (public)
)
 STRICT""",
    """CREATE TABLE meta (
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  CONSTRAINT pk_meta PRIMARY KEY (name)
)
 STRICT""",
    """CREATE TABLE nodes (
  id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  "key" TEXT NOT NULL,
  name TEXT NOT NULL,
  pool TEXT NOT NULL,
  site TEXT NOT NULL,
  facts BLOB NOT NULL,
  enabled INTEGER NOT NULL,
  reason TEXT NOT NULL,
  rate_nano_h INTEGER NOT NULL,
  seen_us INTEGER NOT NULL,
  forgotten INTEGER NOT NULL,
  CONSTRAINT pk_nodes PRIMARY KEY (id)
)
 STRICT""",
    """CREATE TABLE stale (
  seq INTEGER NOT NULL,
  attempt_id INTEGER NOT NULL,
  unit INTEGER NOT NULL,
  node_id INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  reason TEXT NOT NULL,
  CONSTRAINT pk_stale PRIMARY KEY (seq)
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
    """CREATE TABLE meters (
  node_id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  running INTEGER NOT NULL,
  origin_us INTEGER NOT NULL,
  metered_us INTEGER NOT NULL,
  rate_nano_h INTEGER NOT NULL,
  total_nano INTEGER NOT NULL,
  idle_nano INTEGER NOT NULL,
  waste_nano INTEGER NOT NULL,
  charges BLOB NOT NULL,
  CONSTRAINT pk_meters PRIMARY KEY (node_id),
  CONSTRAINT fk_meters_node_id_nodes FOREIGN KEY(node_id) REFERENCES nodes (id)
)
 STRICT""",
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
    """CREATE TABLE bulks (
  seq INTEGER NOT NULL,
  step_id INTEGER NOT NULL,
  units TEXT NOT NULL,
  old INTEGER NOT NULL,
  new INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  reason TEXT NOT NULL,
  who TEXT NOT NULL,
  fresh INTEGER NOT NULL,
  CONSTRAINT pk_bulks PRIMARY KEY (seq),
  CONSTRAINT fk_bulks_step_id_steps FOREIGN KEY(step_id) REFERENCES steps (id)
)
 STRICT""",
    """CREATE TABLE leases (
  id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  step_id INTEGER NOT NULL,
  no INTEGER NOT NULL,
  node_id INTEGER NOT NULL,
  nonce INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  units TEXT NOT NULL,
  cores INTEGER NOT NULL,
  ram_mib INTEGER NOT NULL,
  gpus TEXT NOT NULL,
  share_ppm INTEGER NOT NULL,
  gang INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  old INTEGER NOT NULL,
  new INTEGER NOT NULL,
  reason TEXT NOT NULL,
  CONSTRAINT pk_leases PRIMARY KEY (id),
  CONSTRAINT fk_leases_node_id_nodes FOREIGN KEY(node_id) REFERENCES nodes (id),
  CONSTRAINT fk_leases_step_id_steps FOREIGN KEY(step_id) REFERENCES steps (id)
)
 STRICT""",
    """CREATE TABLE specs (
  seq INTEGER NOT NULL,
  step_id INTEGER NOT NULL,
  unit INTEGER NOT NULL,
  specs BLOB NOT NULL,
  CONSTRAINT pk_specs PRIMARY KEY (step_id),
  CONSTRAINT fk_specs_step_id_steps FOREIGN KEY(step_id) REFERENCES steps (id)
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
    """CREATE TABLE verify (
  id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  step_id INTEGER NOT NULL,
  units TEXT NOT NULL,
  purpose TEXT NOT NULL,
  who TEXT NOT NULL,
  at_us INTEGER NOT NULL,
  done INTEGER NOT NULL,
  CONSTRAINT pk_verify PRIMARY KEY (id),
  CONSTRAINT fk_verify_step_id_steps FOREIGN KEY(step_id) REFERENCES steps (id)
)
 STRICT""",
    """CREATE TABLE results (
  seq INTEGER NOT NULL,
  attempt_id INTEGER NOT NULL,
  step_id INTEGER NOT NULL,
  unit INTEGER NOT NULL,
  old INTEGER NOT NULL,
  new INTEGER NOT NULL,
  failure TEXT NOT NULL,
  reason TEXT NOT NULL,
  at_us INTEGER NOT NULL,
  elapsed_us INTEGER NOT NULL,
  ram_mib INTEGER NOT NULL,
  files BLOB NOT NULL,
  warning TEXT NOT NULL,
  closes INTEGER NOT NULL,
  lost INTEGER NOT NULL,
  charge_nano INTEGER NOT NULL,
  waste_nano INTEGER NOT NULL,
  CONSTRAINT pk_results PRIMARY KEY (seq),
  CONSTRAINT fk_results_attempt_id_leases FOREIGN KEY(attempt_id) REFERENCES leases (id),
  CONSTRAINT fk_results_step_id_steps FOREIGN KEY(step_id) REFERENCES steps (id)
)
 STRICT""",
)
