import re
from xml.etree import ElementTree

import pytest

from gagar_cli.core.svg import DotPanel, LinePanel, Series, draw_svg

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*panels: LinePanel | DotPanel) -> ElementTree.Element:
    return ElementTree.fromstring(draw_svg(panels))


def test_line_goes_through_its_points_between_round_ticks() -> None:
    panel = LinePanel("moved", "limit", [Series("bounded", [(1.0, 0.0), (2.0, 0.5), (3.0, 1.0)])])
    tree = drawn(panel)
    [line] = tree.findall(f"{SVG}polyline")
    points = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    assert points == [(150.0, 254.0), (360.0, 144.0), (570.0, 34.0)]
    texts = [text.text for text in tree.findall(f"{SVG}text")]
    assert texts[:2] == ["moved", "0"]
    assert {"0.2", "1", "1.5", "3", "limit", "bounded"} <= set(texts)


def test_band_surrounds_its_line() -> None:
    series = Series("a", [(0, 1), (1, 2)], band=[(0, 2), (1, 3)])
    [area] = drawn(LinePanel("t", "x", [series])).findall(f"{SVG}polygon")
    assert len(area.attrib["points"].split()) == 4


def test_dots_lie_on_a_common_scale_one_row_a_name() -> None:
    tree = drawn(DotPanel("tau", "τ-b", [("gentle", [1.0]), ("strict", [0.0, 0.5])]))
    dots = [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in tree.findall(f"{SVG}circle")]
    assert dots == [(570.0, 44.0), (150.0, 64.0), (360.0, 64.0)]


def test_panels_stand_below_each_other() -> None:
    first = DotPanel("one", "x", [("a", [1.0])])
    tree = drawn(first, LinePanel("two", "x", [Series("b", [(0, 0)])]))
    assert int(tree.attrib["height"]) == first.height + 34 + 220 + 40
    titles = [text for text in tree.findall(f"{SVG}text") if text.attrib["font-weight"] == "bold"]
    assert float(titles[1].attrib["y"]) - float(titles[0].attrib["y"]) == first.height


@pytest.mark.parametrize(
    "values", [[], [float("nan")], [float("inf"), 1.0], [3.0, 3.0], [0.0], [1e-9, 2e-9], [-4e8, 1]]
)
def test_odd_values_still_make_a_plot(values: list[float]) -> None:
    points = [(float(number), value) for number, value in enumerate(values)]
    text = draw_svg([DotPanel("d", "x", [("a", values)]), LinePanel("l", "x", [Series("a", points)])])
    ElementTree.fromstring(text)
    assert not re.search(r"nan|inf", text)


def test_names_are_text_and_nothing_else() -> None:
    tree = drawn(DotPanel("<b>&", "x", [("</svg><script>", [1.0])]))
    assert next(text.text for text in tree.findall(f"{SVG}text")) == "<b>&"
    assert not tree.findall(f".//{SVG}script")


def test_colours_follow_a_dark_scheme() -> None:
    tree = drawn(LinePanel("l", "x", [Series("a", [(0, 1), (1, 2)])]))
    style = str(tree.findtext(f"{SVG}style"))
    light, _, dark = style.partition("@media(prefers-color-scheme:dark)")
    assert ".page{fill:#fff}" in light
    assert ".page{fill:#0d1117}" in dark
    assert not [each for each in tree.iter() if {"#fff", "#000000"} & set(each.attrib.values())]


def test_lines_on_each_other_are_told_apart_by_their_dashes() -> None:
    same = [(0.0, 1.0), (1.0, 2.0)]
    tree = drawn(LinePanel("l", "x", [Series("a", same), Series("b", same)]))
    dashes = [line.attrib["stroke-dasharray"] for line in tree.findall(f"{SVG}polyline")]
    named = [line.attrib for line in tree.findall(f"{SVG}line") if "stroke-dasharray" in line.attrib]
    assert dashes == ["", "7 3"]
    assert [line["stroke-dasharray"] for line in named] == dashes


@pytest.mark.parametrize(("n_points", "n_marks"), [(12, 12), (13, 0)])
def test_all_points_of_a_line_are_marked_or_none(n_points: int, n_marks: int) -> None:
    series = Series("a" * 30, [(float(x), 1.0) for x in range(n_points)])
    tree = drawn(LinePanel("l", "x", [series]))
    assert len(tree.findall(f"{SVG}circle")) == n_marks
    assert "a" * 21 + "…" in [text.text for text in tree.findall(f"{SVG}text")]
