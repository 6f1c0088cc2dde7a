"""One message of every kind on the wire, as plain values written by hand.

``tests/fixtures/wire/NAME.hex`` holds the bytes of each, made once and never again: what an agent or a client
in the field sends must be understood as long as its version is spoken.  ``python -m
tests.unit.protocol.wire_samples`` writes the file of a new kind and touches no other.  When a kind grows a
field, its old file moves to ``wire/older/`` (as ``NAME.2.hex`` when it grows again) and stays readable for as
long.  The values stand beside, by whose messages they are: ``wire_agents``, ``wire_clients``, ``wire_bulk``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import msgspec

from farm.protocol import bulk, codec
from farm.protocol.agent import BatchMsg
from tests.unit.protocol.wire_agents import AGENTS
from tests.unit.protocol.wire_bulk import BULK
from tests.unit.protocol.wire_clients import CLIENTS
from tests.unit.protocol.wire_values import TEMPLATE

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "wire"

#: By name: whose codec reads it, and its plain values.
SAMPLES: dict[str, tuple[str, dict[str, Any]]] = {**AGENTS, **CLIENTS, **BULK}

CODECS: dict[str, codec.Codec[Any]] = {
    "broker": codec.broker_codec(),
    "agent": codec.agent_codec(),
    "client": codec.client_codec(),
    "bulk-in": codec.bulk_in_codec(),
    "bulk-out": codec.bulk_out_codec(),
    "join-in": codec.join_in_codec(),
    "join-out": codec.join_out_codec(),
}
UNIONS: dict[str, Any] = {
    "broker": codec.AnyFromPeer,
    "agent": codec.AnyToAgent,
    "client": codec.AnyToClient,
    "bulk-in": bulk.AnyBulkIn,
    "bulk-out": bulk.AnyBulkOut,
    "join-in": bulk.JoinMsg,
    "join-out": bulk.AnyJoinOut,
}


def message_of(reader: str, plain: dict[str, Any]) -> Any:
    """The typed message of plain values, made without the codec."""
    if plain["type"] == "batch":
        leases = [
            {key: value for key, value in lease.items() if key != "template"} for lease in plain["leases"]
        ]
        template = msgspec.Raw(msgpack.packb(TEMPLATE))
        made = msgspec.convert({**plain, "leases": []}, BatchMsg)
        from farm.protocol.agent import LeaseMsg

        typed = []
        for lease in leases:
            # A stand-in for the raw template while the rest is converted.
            # What has its default is left out.
            fields = {name: lease[name] for name in LeaseMsg.__struct_fields__ if name in lease}
            hints = {field.name: field.type for field in msgspec.structs.fields(LeaseMsg)}
            values = {name: msgspec.convert(value, hints[name]) for name, value in fields.items()}
            typed.append(LeaseMsg(template=template, **values))
        return msgspec.structs.replace(made, leases=tuple(typed))
    return msgspec.convert(plain, UNIONS[reader])


def golden(name: str) -> bytes:
    """The bytes of a fixture."""
    return bytes.fromhex((FOLDER / f"{name}.hex").read_text(encoding="ascii"))


def write_missing() -> list[str]:
    """Writes the fixtures that are not there yet; returns their names."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = []
    for name, (reader, plain) in SAMPLES.items():
        path = FOLDER / f"{name}.hex"
        if not path.exists():
            text = codec.encode(message_of(reader, plain)).hex()
            lines = [text[start : start + 96] for start in range(0, len(text), 96)]
            path.write_text("\n".join(lines) + "\n", encoding="ascii")
            made.append(name)
    return made


if __name__ == "__main__":
    print("\n".join(write_missing()))
