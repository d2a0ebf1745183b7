"""Pages: which encoding they are in, and what is their text, title and date."""

import codecs

import pytest

from corpora.sources.html import page_title, paragraphs, read_page
from corpora.sources.html_charset import CODECS, PRESCAN_BYTES, codec_of, decode_html

TEXT = "<p>caf\u00e9 \u201cna\u00efve\u201d</p>"
JAPANESE = "<p>\u65b0\u805e\u306e\u8a18\u4e8b</p>"
META = '<html><head><meta charset="{}"></head>'
OLD_META = "<html><head><META content='text/html; CHARSET={}' http-equiv=Content-Type></head>"


@pytest.mark.parametrize(
    ("codec", "declared", "before"),
    [
        ("utf-8", "", ""),
        ("utf-8", "utf-8", ""),
        ("utf-8", "UTF8", META.format("shift_jis")),  # the head goes before the page
        ("cp1252", "", ""),
        ("cp1252", "iso-8859-1", ""),
        ("cp1252", "", META.format("latin1")),
        ("cp1252", "no-such-thing", OLD_META.format("us-ascii")),
        ("utf-8", "iso-8859-1", ""),  # what servers say of every page
        ("cp1250", "", META.format("windows-1250")),
        ("cp1250", "", '<?xml version="1.0" encoding="windows-1250"?><html>'),
        ("mac_roman", "macintosh", ""),
        ("utf-16-le", "utf-16", ""),
    ],
)
def test_an_encoding_is_found(codec: str, declared: str, before: str) -> None:
    text = before + (TEXT if codec != "cp1250" else TEXT.replace("\u00ef", "\u0159"))
    found = decode_html(text.encode(codec), declared)
    assert (found.text, found.codec, found.num_replaced) == (text, codec, 0)


@pytest.mark.parametrize(
    ("codec", "label"),
    [("shift_jis", "Shift_JIS"), ("shift_jis", "x-sjis"), ("euc_jp", "euc-jp"), ("iso2022_jp", "iso-2022-jp")],
)
def test_japanese_encodings_by_meta(codec: str, label: str) -> None:
    text = OLD_META.format(label) + JAPANESE
    assert decode_html(text.encode(codec)).text == text


@pytest.mark.parametrize(("codec", "label"), [("gb2312", "gb2312"), ("big5", "big5"), ("euc_kr", "ks_c_5601-1987")])
def test_a_label_means_the_larger_set(codec: str, label: str) -> None:
    text = "\u4e2d\u6587"
    assert decode_html(text.encode(codec), label).text == text
    rare = {"gb2312": "\u9555", "big5": "\u7ca7", "ks_c_5601-1987": "\ubdc1"}[label].encode(codec_of(label) or "")
    with pytest.raises(UnicodeDecodeError):
        rare.decode(codec)  # it is not in the set of that name
    assert decode_html(rare, label).num_replaced == 0


@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_goes_before_all(codec: str) -> None:
    mark = {"utf-8": codecs.BOM_UTF8, "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}[codec]
    text = META.format("shift_jis") + TEXT
    assert decode_html(mark + text.encode(codec), "windows-1252").text == text


def test_where_a_page_may_say_its_encoding() -> None:
    late = " " * 2_000 + META.format("koi8-r") + "\u043f\u0440"
    assert decode_html(late.encode("koi8_r")).text == late
    too_late = " " * PRESCAN_BYTES + late
    assert decode_html(too_late.encode("koi8_r")).codec == "cp1252"
    hidden = "<!-- " + META.format("koi8-r") + " -->" + META.format("windows-1251") + "\u043f\u0440"
    assert decode_html(hidden.encode("cp1251")).text == hidden
    read_at_all = META.format("utf-16") + TEXT  # so it cannot be what it says
    assert decode_html(read_at_all.encode()).text == read_at_all


def test_what_cannot_be_decoded_is_replaced_and_counted() -> None:
    assert decode_html(b"a\xffb\xfe \xef\xbf\xbd", "utf-8")[::2] == ("a\ufffdb\ufffd \ufffd", 2)
    assert decode_html(b"a\x81b", "windows-1252")[::2] == ("a\ufffdb", 1)
    assert decode_html(b"\x82\xa0\x82", "shift_jis").num_replaced == 1


def test_every_label_has_a_decoder() -> None:
    assert len(CODECS) > 210
    for label, codec in CODECS.items():
        assert label == label.lower() and codecs.lookup(codec)
        assert codec_of(f" {label.upper()}\n") == codec
    assert {codec_of(label) for label in ("utf-7", "hz-gb-2312", "iso-2022-kr", "")} == {None}


ARTICLE = (
    "<article><h1>Rain\n in <em>Ayr</em></h1>"
    "<p>It rained in Ayr all week, and by Friday the river had risen to the arches of the old bridge.</p>"
    "<p>The bridge was closed to all traffic in the night,<br>and the council asked people to stay at home.</p>"
    "<ul><li>The road to Troon is open again, but slow.</li><li>The road to Maybole is still closed.</li></ul>"
    "<table><tr><td>Cell of a table</td><td>12</td></tr></table>"
    "<p>More rain is expected on Sunday, when the tide will be at its highest for the year.</p></article>"
)
COMMENTS = '<div id="comments"><div class="comment"><p>What a comment by some reader that was.</p></div></div>'
PAGE = f"<html><head><title>T</title></head><body><nav>Menu of the page</nav>{ARTICLE}{COMMENTS}</body></html>"


def test_the_main_text_is_left() -> None:
    page = read_page(PAGE, "https://a.example/", "2024-01-01")
    assert page is not None
    assert page.text.split("\n\n") == [
        "Rain in Ayr",
        "It rained in Ayr all week, and by Friday the river had risen to the arches of the old bridge.",
        "The bridge was closed to all traffic in the night,",
        "and the council asked people to stay at home.",
        "- The road to Troon is open again, but slow.",
        "- The road to Maybole is still closed.",
        "More rain is expected on Sunday, when the tide will be at its highest for the year.",
    ]
    for gone in ("Menu of", "comment by", "Cell of"):
        assert gone in PAGE and gone not in page.text


@pytest.mark.parametrize(
    "html", ["", " ", "text", "<html></html>", "<html><body><script>x</script></body></html>", "\0<p"]
)
def test_what_has_no_text_is_none(html: str) -> None:
    page = read_page(html, "https://a.example/", "2024-01-01")
    assert page is None or page.text == html.strip()


@pytest.mark.parametrize(
    ("head", "title"),
    [
        ("<title> One \n two </title>", "One two"),
        ('<title>One | Site</title><meta property="og:title" content="One">', "One"),
        ("<title>One | Site</title></head><body><h1>The <b>one</b></h1>", "The one"),
        ("<title>One | Site</title></head><body><h1>The one</h1><h1>The other</h1>", "One | Site"),
        ("<title></title></head><body><h1></h1>", None),
    ],
)
def test_titles(head: str, title: str | None) -> None:
    from lxml.html import document_fromstring

    assert page_title(document_fromstring(f"<html><head>{head}<p>x</body></html>")) == title


def test_dates_are_found_in_markup_and_bounded_by_the_crawl() -> None:
    def date(html: str, url: str = "https://a.example/", last_day: str = "2024-05-06") -> str | None:
        page = read_page(html, url, last_day)
        assert page is not None
        return page.date

    said = PAGE.replace("<title>", '<meta name="date" content="2024-05-06T22:00:00"><title>')
    assert date(PAGE) is None
    assert date(said) == "2024-05-06"
    assert (date(said, last_day="2024-05-05") or "") <= "2024-05-05"
    assert date(PAGE, "https://a.example/2023/11/12/rain") == "2023-11-12"


def test_nesting_without_end_is_no_error() -> None:
    for tag in ("div", "span", "ul><li", "table><tr><td", "blockquote"):
        read_page(f"<html><body>{f'<{tag}>text ' * 50_000}</body></html>", "https://a.example/", "2024-01-01")


def test_a_page_whose_root_the_search_for_dates_takes_away_has_none() -> None:
    for root in ("object", "video", "svg"):
        page = read_page(f"<{root}>{ARTICLE}<p>2024-01-01</p></{root}>", "https://a.example/", "2024-01-01")
        assert page is not None and "the river had risen" in page.text and page.date is None


def test_paragraphs_are_lines_with_something_in_them() -> None:
    assert paragraphs("\n a \n\n\nb\r\nc\u2028d ") == "a\n\nb\n\nc\n\nd"
    assert paragraphs(" \n\t\n") == ""
