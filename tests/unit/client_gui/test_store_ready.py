"""Getting ready to sort by names while nobody is in a hurry gives the order that a hurry gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from client_gui.store.natural import Ranks, natural_key
from client_gui.store.order import Order, SortKey
from client_gui.store.table import Column, Kind, Table

texts = st.lists(st.text("aB0129_\0", max_size=6), max_size=60)


@given(texts, st.integers(1, 7), texts)
def test_prepared_numbers_stand_in_natural_order(known: list[str], at_once: int, later: list[str]) -> None:
    ranks = Ranks()
    for _ in ranks.prepare(known, at_once):
        pass
    assert len(ranks) == len(set(known))
    everything = list(dict.fromkeys([*known, *later]))
    numbers = ranks.of(everything)
    found = [everything[place] for place in np.argsort(numbers).tolist()]
    assert found == sorted(everything, key=natural_key)
    assert len(set(numbers.tolist())) == len(everything)


def test_what_was_sorted_in_the_meantime_counts() -> None:
    ranks = Ranks()
    steps = ranks.prepare(["b", "a", "c"], 1)
    next(steps)
    before = ranks.of(["c", "a10", "a9"]).tolist()
    for _ in steps:
        pass
    assert ranks.of(["c", "a10", "a9"]).tolist() == before


def test_an_order_gets_ready_while_its_table_changes() -> None:
    table: Table[int] = Table((Column("name", Kind.TEXT), Column("count", Kind.INT)))
    order: Order[int] = Order(table, [SortKey("count")])
    order.settle(order.apply(table.apply(range(3000), [(f"n{n % 977}", -n) for n in range(3000)])))
    steps = order.prepare(["name", "count"])
    for n in range(20):
        next(steps, None)
        gone = [n, n + 100]
        order.settle(order.apply(table.apply([5000 + n], [(f"new{n}", n)], gone)))
    for _ in steps:
        pass
    order.settle(order.set_sort([SortKey("name")]))
    names = [table.get(slot, "name") for slot in order.view.tolist()]
    assert names == sorted(names, key=natural_key)
    assert len(names) == len(table)
    order.settle(order.set_sort([SortKey("count")]))
    order.settle(order.apply(table.apply([1], [("zz", 5)])))
    order.settle(order.set_sort([SortKey("name", descending=True)]))
    assert order.id_at(0) == 1
