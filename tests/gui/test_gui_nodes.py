"""The list of nodes: every state in words, bars that know what they do not know, tiles, why idle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFontMetrics
from pytestqt.qtbot import QtBot

from client_gui.actions.context import ActionContext
from client_gui.delegates.ink import NODE_LOOKS, Ink, mixed
from client_gui.models.column import Level
from client_gui.models.node_heat import GroupBy, Heat
from client_gui.models.order_model import ID_ROLE
from client_gui.style.tokens import LOOKS
from client_gui.views.nodes import NodesView
from client_gui.views.nodetiles import TINT
from farm.model.errors import FarmUnreachable
from farm.model.nodes import GpuLoad
from farm.protocol.client import WhyReply, WhyReq, WhyWork
from tests.support.gui_rig import NOW_US, Rig, job_row, node_row, replaced


def nodes() -> tuple[Any, ...]:
    """Seven nodes, each in another state."""
    idle: dict[str, Any] = {"running": (), "cores_free": 32, "ram_free_mib": 131072}
    return (
        node_row(1, gpu_vram_mib=(49152, 49152), gpu_loads=(GpuLoad(97, 71, 40000), GpuLoad(3, -1, -1))),
        node_row(2, **idle, gpus=0, gpu_names=(), pool="cpu"),
        node_row(3, **idle, enabled=False, reason="drained by bo", pool="cpu"),
        node_row(4, **idle, enabled=False, disabled=True),
        node_row(5, **idle, closed="its hours are 19:00-08:00", site="aws"),
        node_row(6, state="suspect", reason="no word for 40 s"),
        node_row(7, **idle, state="offline", seen_us=NOW_US - 7_200_000_000),
    )


@pytest.fixture
def view(rig: Rig, qtbot: QtBot) -> NodesView:
    found = NodesView(rig.desk)
    qtbot.addWidget(found)
    found.resize(1200, 500)
    found.show()
    rig.snapshot((), nodes())
    return found


def cell(view: NodesView, node: int, column: str, role: Qt.ItemDataRole = Qt.ItemDataRole.DisplayRole) -> str:
    model = view.model
    return str(model.index(model.row_of(node), model.column_of(column)).data(role) or "")


def level(view: NodesView, node: int, column: str) -> Level:
    model = view.model
    found = model.value(model.slot_of_row(model.row_of(node)), model.column_of(column))
    assert isinstance(found, Level)
    return found


def test_every_state_has_its_word(view: NodesView) -> None:
    words = [cell(view, node, "state") for node in range(1, 8)]
    assert words == ["busy", "idle", "drained", "disabled", "closed", "suspect", "offline"]
    assert cell(view, 3, "reason") == "drained by bo"
    assert "19:00-08:00" in cell(view, 5, "state", Qt.ItemDataRole.ToolTipRole)


def test_bars_say_what_is_used_and_what_is_not_known(view: NodesView) -> None:
    assert level(view, 1, "cores") == Level(0.5, "16/32")
    assert level(view, 1, "ram") == Level(0.5, "64/128")
    assert level(view, 1, "vram").text == "39/96"
    assert level(view, 1, "gpu") == Level(0.97, "97 %")
    assert cell(view, 1, "temperature") == "71 °C"
    assert level(view, 6, "gpu") == Level(None, "—"), "nothing is known of its GPUs"
    assert cell(view, 6, "temperature") == "—"
    assert level(view, 2, "gpu") == Level(None, ""), "it has none"
    assert level(view, 7, "cpu") == Level(None, "—"), "it is not there to ask"
    tip = cell(view, 1, "gpu", Qt.ItemDataRole.ToolTipRole)
    assert tip.splitlines() == [
        "0: NVIDIA RTX 6000, 97 %, 71 °C, 39 GiB of 48 GiB",
        "1: NVIDIA RTX 6000, 3 %, — °C",
    ]


def test_memory_that_others_use_counts_and_a_full_bar_is_hot(rig: Rig, view: NodesView) -> None:
    rig.delta(nodes=(replaced(nodes()[0], ram_used_mib=130000),))
    assert level(view, 1, "ram") == Level(130000 / 131072, "127/128", True)


def test_what_runs_is_told_by_the_jobs_name_and_whose_it_is(rig: Rig, view: NodesView) -> None:
    assert cell(view, 1, "work") == "J1/beauty/41", "jobs are not followed by this list"
    rig.client.look("other", jobs=True)
    rig.snapshot((job_row(1, name="sh010_lgt", user="ana"),), nodes())
    assert cell(view, 1, "work") == "sh010_lgt beauty/41"
    assert cell(view, 1, "owner") == "ana"
    rig.delta(nodes=(replaced(nodes()[0], running=("J1/beauty/41", "J9/fx/2")),))
    assert cell(view, 1, "work") == "sh010_lgt beauty/41 +1"


def test_the_filter_speaks_of_nodes(qtbot: QtBot, view: NodesView) -> None:
    view.bar.set_text("state:drained,disabled")
    assert [view.model.order.id_at(row) for row in range(view.model.rowCount())] == [3, 4]
    view.bar.set_text("busy:no pool:cpu enabled:yes")
    assert view.model.order.ids() == [2]
    assert view.bar.counts()["Out of service"] == 2


def test_a_node_that_is_chosen_is_looked_at_and_asked_why(rig: Rig, qtbot: QtBot, view: NodesView) -> None:
    rig.port.answers[WhyReq] = lambda body: WhyReply(
        id=body.id,
        node="rack-002",
        work=(WhyWork("J1/beauty", "it has no GPU", "lower its need"),),
        waiting=3,
    )
    view.table.setFocus()
    view.table.go_to(1)
    qtbot.keyClick(view.table, Qt.Key.Key_Down)
    qtbot.waitUntil(lambda: rig.focus.node == 2)
    rig.settle()
    assert view.why_text() == (
        "rack-002 does not take J1/beauty: it has no GPU (lower its need); 2 other steps wait, too"
    )
    assert rig.port.asked(WhyReq)[-1].node == "2"

    def refuse(body: Any) -> Any:
        raise FarmUnreachable("the broker gave no answer")

    rig.port.answers[WhyReq] = refuse
    rig.focus.set_node(3)
    rig.settle()
    assert "the broker gave no answer" in view.why_text()


def test_nothing_is_asked_while_nobody_looks(rig: Rig, view: NodesView) -> None:
    view.hide()
    rig.focus.set_node(3)
    assert rig.port.asked(WhyReq) == []
    assert rig.followed() == ()


def test_enter_goes_to_what_runs_and_else_to_why(rig: Rig, qtbot: QtBot, view: NodesView) -> None:
    wanted: list[str] = []
    rig.focus.wanted.connect(wanted.append)
    view.table.go_to(1)
    qtbot.keyClick(view.table, Qt.Key.Key_Return)
    assert (rig.focus.node, rig.focus.job, wanted) == (1, 1, ["job"])
    view.table.go_to(2)
    qtbot.keyClick(view.table, Qt.Key.Key_Return)
    assert (rig.focus.node, wanted) == (2, ["job", "why"])


def test_tiles_go_by_keyboard_and_share_the_selection(rig: Rig, qtbot: QtBot, view: NodesView) -> None:
    view.set_tiles(True)
    tiles = view.tiles
    assert tiles.isVisible()
    assert "1 busy" in tiles.accessibleDescription()
    tiles.setFocus()
    qtbot.keyClick(tiles, Qt.Key.Key_Right)
    # Groups in natural order: cpu (2, 3), then gpu (1, 4, 5, 6, 7).
    assert view.action_context() == ActionContext("nodes", nodes=(2,))
    qtbot.keyClick(tiles, Qt.Key.Key_Down)
    assert rig.focus.node == 1, "down goes into the next group"
    qtbot.keyClick(tiles, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert view.model.selection.ids == {1, 4}
    qtbot.keyClick(tiles, Qt.Key.Key_End)
    assert view.model.selection.ids == {7}
    qtbot.keyClick(tiles, Qt.Key.Key_Up)
    assert view.model.selection.current in (2, 3)
    view.set_tiles(False)
    selected = view.table.selectionModel().selectedRows(0)
    assert [index.data(ID_ROLE) for index in selected] == list(view.model.selection.ids)


def test_a_tile_is_chosen_by_the_mouse(qtbot: QtBot, view: NodesView) -> None:
    view.set_tiles(True)
    tiles = view.tiles
    qtbot.mouseClick(tiles.viewport(), Qt.MouseButton.LeftButton, pos=tiles.tile_rect(1).center())
    assert view.model.selection.ids == {3}
    control = Qt.KeyboardModifier.ControlModifier
    qtbot.mouseClick(tiles.viewport(), Qt.MouseButton.LeftButton, control, pos=tiles.tile_rect(2).center())
    assert view.model.selection.ids == {1, 3}
    assert tiles.tip(2).splitlines()[:2] == ["rack-001", "State: busy"]
    assert tiles.tile_at(tiles.viewport().rect().bottomRight()) == -1


@pytest.mark.parametrize("heat", list(Heat))
@pytest.mark.parametrize("look", ["dark", "light"])
def test_tiles_are_painted_by_every_figure(rig: Rig, view: NodesView, heat: Heat, look: str) -> None:
    rig.theme.set_look(look)
    view.set_tiles(True)
    view.tiles.set_heat(heat)
    picture = view.tiles.viewport().grab().toImage()
    first, last = view.tiles.tile_rect(0), view.tiles.tile_rect(6)
    assert picture.pixelColor(first.left() + 2, first.top() + 2) != picture.pixelColor(last.right() + 20, 2)
    assert heat.value in view.tiles.accessibleDescription()


def test_names_on_tiles_keep_what_tells_nodes_apart(rig: Rig, view: NodesView) -> None:
    rig.snapshot((), tuple(node_row(n, name=f"workstation-{n:02d}.studio.example") for n in range(1, 25)))
    view.set_tiles(True)
    tiles = view.tiles
    metrics = QFontMetrics(rig.theme.font(small=True))
    table = view.model.reading.table
    width = metrics.horizontalAdvance("…station-24")
    shown = [tiles.short_name(table.slot(node), width) for node in range(1, 25)]
    assert len(set(shown)) == 24
    assert shown[23].startswith("…")
    assert shown[23].endswith("-24")
    assert tiles.short_name(table.slot(3), metrics.horizontalAdvance("workstation-0003")) == "workstation-03"


def test_tiles_follow_the_filter_and_the_farm(rig: Rig, view: NodesView) -> None:
    view.set_tiles(True)
    view.bar.set_text("pool:cpu")
    assert view.tiles.accessibleDescription() == "2 nodes: 1 idle, 1 drained; by state"
    rig.delta(nodes=(replaced(nodes()[1], running=("J1/beauty/3",)),), gone=("node:3",))
    assert view.tiles.accessibleDescription() == "1 node: 1 busy; by state"
    view.tiles.set_group_by(GroupBy.SITE)
    view.bar.set_text("pool:nowhere")
    assert "hides all 6 nodes" in view.blank.words()
    view.do("clear-filter")
    assert view.tiles.isVisible()


def test_how_tiles_look_is_remembered(rig: Rig, qtbot: QtBot, view: NodesView) -> None:
    view.set_tiles(True)
    again = NodesView(rig.desk)
    qtbot.addWidget(again)
    again.show()
    assert again.page() is again.tiles


def test_no_nodes_says_how_to_add_one(rig: Rig, qtbot: QtBot) -> None:
    found = NodesView(rig.desk)
    qtbot.addWidget(found)
    found.show()
    rig.snapshot()
    assert "No nodes yet" in found.blank.words()
    assert "farm agent" in found.blank.words()


def test_the_foot_says_what_the_farm_has(qtbot: QtBot, view: NodesView) -> None:
    qtbot.waitUntil(lambda: view.foot.words().startswith("7 nodes"))
    assert view.foot.words() == (
        "7 nodes  ·  2 busy  ·  32 of 224 cores at work  ·  5 of 12 GPUs at work  ·  17.50 USD an hour"
    )


def test_many_nodes_are_judged_by_one_of_each_kind(rig: Rig, view: NodesView) -> None:
    rig.delta(nodes=tuple(node_row(n, enabled=n % 2 == 0) for n in range(100, 1100)))
    view.do("select-all")
    assert len(view.action_context().nodes) == 1007
    judged = view.judged_context().nodes
    assert len(judged) < 12
    whole: Callable[[str], str] = rig.actions.judge(view.action_context())
    few = rig.actions.judge(view.judged_context())
    for action in view.likely:
        assert bool(whole(action)) == bool(few(action))


def luminance(colour: QColor) -> float:
    parts = [colour.redF(), colour.greenF(), colour.blueF()]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("look", list(LOOKS))
def test_words_on_tiles_can_be_read_on_every_colour(rig: Rig, look: str) -> None:
    rig.theme.set_look(look)
    raised, text = rig.theme.colour("raised"), rig.theme.colour("text")
    colours = [QColor.fromRgb(argb) for argb in rig.theme.heat_colours()[:254]]
    colours += [Ink(rig.theme).state(word) for word in NODE_LOOKS]
    for colour in colours:
        one, other = sorted((luminance(text), luminance(mixed(raised, colour, TINT))))
        assert (other + 0.05) / (one + 0.05) >= 4.5, (look, colour.name())
