"""ZeroMQ adapters (CURVE, ZAP); the only room that imports zmq."""
