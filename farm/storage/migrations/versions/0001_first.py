"""Every table of the first version."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

# 64 bits everywhere; SQLite makes a key the row id only when it is declared INTEGER.
_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("id", _INT, autoincrement=False, nullable=False),
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("at_us", _INT, autoincrement=False, nullable=False),
        sa.Column("extra", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_checkpoints")),
        sqlite_strict=True,
    )
    op.create_table(
        "history",
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("at_us", _INT, autoincrement=False, nullable=False),
        sa.Column("job_id", _INT, autoincrement=False, nullable=False),
        sa.Column("what", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("old", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("new", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("who", sa.Text(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_history")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_history_job_id"), "history", ["job_id"], unique=False)
    op.create_table(
        "invites",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_invites")),
        sqlite_strict=True,
    )
    op.create_table(
        "jobs",
        sa.Column("id", _INT, autoincrement=False, nullable=False),
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("user", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("project", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("priority", _INT, autoincrement=False, nullable=False),
        sa.Column("token", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("paused", _INT, autoincrement=False, nullable=False),
        sa.Column("submitted_us", _INT, autoincrement=False, nullable=False),
        sa.Column("spec", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sqlite_strict=True,
    )
    op.create_table(
        "keys",
        sa.Column("public", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("site", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("revoked", _INT, nullable=False),
        sa.Column("added_us", _INT, nullable=False),
        sa.PrimaryKeyConstraint("public", name=op.f("pk_keys")),
        sqlite_strict=True,
    )
    op.create_table(
        "meta",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_meta")),
        sqlite_strict=True,
    )
    op.create_table(
        "nodes",
        sa.Column("id", _INT, autoincrement=False, nullable=False),
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("key", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("pool", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("site", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("facts", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("enabled", _INT, autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("rate_nano_h", _INT, autoincrement=False, nullable=False),
        sa.Column("seen_us", _INT, autoincrement=False, nullable=False),
        sa.Column("forgotten", _INT, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
        sqlite_strict=True,
    )
    op.create_table(
        "stale",
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("attempt_id", _INT, autoincrement=False, nullable=False),
        sa.Column("unit", _INT, autoincrement=False, nullable=False),
        sa.Column("node_id", _INT, autoincrement=False, nullable=False),
        sa.Column("at_us", _INT, autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_stale")),
        sqlite_strict=True,
    )
    op.create_table(
        "job_states",
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("job_id", _INT, autoincrement=False, nullable=False),
        sa.Column("at_us", _INT, autoincrement=False, nullable=False),
        sa.Column("what", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("old", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("new", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("who", sa.Text(), autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_states_job_id_jobs")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_job_states")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_job_states_job_id"), "job_states", ["job_id"], unique=False)
    op.create_table(
        "meters",
        sa.Column("node_id", _INT, autoincrement=False, nullable=False),
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("running", _INT, autoincrement=False, nullable=False),
        sa.Column("origin_us", _INT, autoincrement=False, nullable=False),
        sa.Column("metered_us", _INT, autoincrement=False, nullable=False),
        sa.Column("rate_nano_h", _INT, autoincrement=False, nullable=False),
        sa.Column("total_nano", _INT, autoincrement=False, nullable=False),
        sa.Column("idle_nano", _INT, autoincrement=False, nullable=False),
        sa.Column("waste_nano", _INT, autoincrement=False, nullable=False),
        sa.Column("charges", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_meters_node_id_nodes")),
        sa.PrimaryKeyConstraint("node_id", name=op.f("pk_meters")),
        sqlite_strict=True,
    )
    op.create_table(
        "steps",
        sa.Column("id", _INT, autoincrement=False, nullable=False),
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("job_id", _INT, autoincrement=False, nullable=False),
        sa.Column("idx", _INT, autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("app", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("whole", _INT, autoincrement=False, nullable=False),
        sa.Column("units", _INT, autoincrement=False, nullable=False),
        sa.Column("state", _INT, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_steps_job_id_jobs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_steps")),
        sqlite_strict=True,
    )
    op.create_table(
        "bulks",
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("step_id", _INT, autoincrement=False, nullable=False),
        sa.Column("units", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("old", _INT, autoincrement=False, nullable=False),
        sa.Column("new", _INT, autoincrement=False, nullable=False),
        sa.Column("at_us", _INT, autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("who", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("fresh", _INT, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name=op.f("fk_bulks_step_id_steps")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_bulks")),
        sqlite_strict=True,
    )
    op.create_table(
        "leases",
        sa.Column("id", _INT, autoincrement=False, nullable=False),
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("step_id", _INT, autoincrement=False, nullable=False),
        sa.Column("no", _INT, autoincrement=False, nullable=False),
        sa.Column("node_id", _INT, autoincrement=False, nullable=False),
        sa.Column("nonce", _INT, autoincrement=False, nullable=False),
        sa.Column("kind", _INT, autoincrement=False, nullable=False),
        sa.Column("units", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("cores", _INT, autoincrement=False, nullable=False),
        sa.Column("ram_mib", _INT, autoincrement=False, nullable=False),
        sa.Column("gpus", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("share_ppm", _INT, autoincrement=False, nullable=False),
        sa.Column("gang", _INT, autoincrement=False, nullable=False),
        sa.Column("at_us", _INT, autoincrement=False, nullable=False),
        sa.Column("old", _INT, autoincrement=False, nullable=False),
        sa.Column("new", _INT, autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text(), autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_leases_node_id_nodes")),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name=op.f("fk_leases_step_id_steps")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leases")),
        sqlite_strict=True,
    )
    op.create_table(
        "specs",
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("step_id", _INT, autoincrement=False, nullable=False),
        sa.Column("unit", _INT, autoincrement=False, nullable=False),
        sa.Column("specs", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name=op.f("fk_specs_step_id_steps")),
        sa.PrimaryKeyConstraint("step_id", name=op.f("pk_specs")),
        sqlite_strict=True,
    )
    op.create_table(
        "step_maps",
        sa.Column("step_id", _INT, autoincrement=False, nullable=False),
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("state", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("tries", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("extra", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name=op.f("fk_step_maps_step_id_steps")),
        sa.PrimaryKeyConstraint("step_id", name=op.f("pk_step_maps")),
        sqlite_strict=True,
    )
    op.create_table(
        "verify",
        sa.Column("id", _INT, autoincrement=False, nullable=False),
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("step_id", _INT, autoincrement=False, nullable=False),
        sa.Column("units", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("purpose", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("who", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("at_us", _INT, autoincrement=False, nullable=False),
        sa.Column("done", _INT, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name=op.f("fk_verify_step_id_steps")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verify")),
        sqlite_strict=True,
    )
    op.create_table(
        "results",
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("attempt_id", _INT, autoincrement=False, nullable=False),
        sa.Column("step_id", _INT, autoincrement=False, nullable=False),
        sa.Column("unit", _INT, autoincrement=False, nullable=False),
        sa.Column("old", _INT, autoincrement=False, nullable=False),
        sa.Column("new", _INT, autoincrement=False, nullable=False),
        sa.Column("failure", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("at_us", _INT, autoincrement=False, nullable=False),
        sa.Column("elapsed_us", _INT, autoincrement=False, nullable=False),
        sa.Column("ram_mib", _INT, autoincrement=False, nullable=False),
        sa.Column("files", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("warning", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("closes", _INT, autoincrement=False, nullable=False),
        sa.Column("lost", _INT, autoincrement=False, nullable=False),
        sa.Column("charge_nano", _INT, autoincrement=False, nullable=False),
        sa.Column("waste_nano", _INT, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["leases.id"], name=op.f("fk_results_attempt_id_leases")),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name=op.f("fk_results_step_id_steps")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_results")),
        sqlite_strict=True,
    )
