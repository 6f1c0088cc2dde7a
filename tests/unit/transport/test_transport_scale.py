"""What thousands of connections ask of a broker's socket."""

from __future__ import annotations

import zmq

from farm.transport.addresses import Domain
from farm.transport.keys import generate_keypair
from farm.transport.sockets import client_socket, new_context, server_socket


def test_no_timer_of_a_broker_s_socket_belongs_to_one_connection() -> None:
    """libzmq looks through the timers of all connections to end one: ten thousand must not have any."""

    context, keys = new_context(), generate_keypair()
    server, address = server_socket(context, "127.0.0.1:0", keys, Domain.CONTROL)
    client = client_socket(context, address, generate_keypair(), keys.public, connect=False)
    try:
        assert server.getsockopt(zmq.HEARTBEAT_IVL) == 0
        assert client.getsockopt(zmq.HEARTBEAT_IVL) > 0, "the dialling end notices a broker that is gone"
        assert client.getsockopt(zmq.HEARTBEAT_TTL) == 0, "and asks for no timer at the other end"
        # What the heartbeat was for at the broker's end, the kernel does.
        for end in (server, client):
            assert end.getsockopt(zmq.TCP_KEEPALIVE) == 1
            assert 0 < end.getsockopt(zmq.TCP_MAXRT) <= 60_000
        assert server.getsockopt(zmq.BACKLOG) >= 4096, "thousands may dial in the same moment"
    finally:
        client.close(0)
        server.close(0)
        context.term()
