"""Values and algebra: ids, states, frame ranges, resources, records, money, errors.

Everything here is pure: no sockets, threads, files, clock, randomness or logging handlers.
"""
