"""Pages: which encoding they are in, and what is their text, title and date."""

import codecs
import json

import pytest
from labelled_cases import cases_of

from corpora.errors import InputError
from corpora.sources.web.charset import CODECS, PRESCAN_BYTES, decode_html, find_codec
from corpora.sources.web.page import WebPage, extract_page, split_paragraphs
from corpora.sources.web.tree import PageLimits, Refused

CASES = cases_of(__file__, "pages")

TEXT = "<p>caf\u00e9 \u201cna\u00efve\u201d</p>"
JAPANESE = "<p>\u65b0\u805e\u306e\u8a18\u4e8b</p>"
META = '<html><head><meta charset="{}"></head>'
OLD_META = "<html><head><META content='text/html; CHARSET={}' http-equiv=Content-Type></head>"


def read_page(html: str, url: str, last_day: str) -> WebPage | None:
    """A page, or None where it is refused."""
    page = extract_page(html, url, last_day)
    return page if isinstance(page, WebPage) else None


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
    rare = {"gb2312": "\u9555", "big5": "\u7ca7", "ks_c_5601-1987": "\ubdc1"}[label].encode(find_codec(label) or "")
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
        assert find_codec(f" {label.upper()}\n") == codec
    assert {find_codec(label) for label in ("utf-7", "hz-gb-2312", "iso-2022-kr", "")} == {None}


ARTICLE = (
    "<article><h1>Rain\n in <em>Ayr</em></h1>"
    "<p>It rained in Ayr all week, and by Friday the river had risen to the arches of the old bridge.</p>"
    "<p>The bridge was closed to all traffic in the night,<br>and the council asked people to stay at home.</p>"
    "<ul><li>The road to Troon is open again, but slow.</li><li>The road to Maybole is still closed.</li></ul>"
    "<p>More rain is expected on Sunday, when the tide will be at its highest for the year.</p></article>"
)
COMMENTS = '<div id="comments"><div class="comment"><p>What a comment by some reader that was.</p></div></div>'
HEAD = "<head><title>Rain in Ayr - T</title></head>"
PAGE = f"<html>{HEAD}<body><nav>Menu of the page</nav>{ARTICLE}{COMMENTS}</body></html>"


def test_the_main_text_is_left() -> None:
    page = read_page(PAGE, "https://a.example/", "2024-01-01")
    assert page is not None
    assert page.text.split("\n\n") == [
        "It rained in Ayr all week, and by Friday the river had risen to the arches of the old bridge.",
        "The bridge was closed to all traffic in the night,\nand the council asked people to stay at home.",
        "The road to Troon is open again, but slow.",
        "The road to Maybole is still closed.",
        "More rain is expected on Sunday, when the tide will be at its highest for the year.",
    ]
    assert page.title == "Rain in Ayr"  # which is not said again in the text
    for gone in ("Menu of", "comment by", "Rain\n in"):
        assert gone in PAGE and gone not in page.text


@pytest.mark.parametrize("sign", ["¶", "#", "&#xf0c1;"])
def test_the_sign_of_a_link_to_a_heading_is_left_out(sign: str) -> None:
    link = f'<a class="headerlink" href="#rain">{sign}</a>'
    html = PAGE.replace("</h1>", f"{link}</h1>").replace("<ul>", f"<h2>Roads in C#{link}</h2><h2>Of C#</h2><ul>")
    page = read_page(html, "https://a.example/", "2024-01-01")
    assert page is not None and page.text.startswith("It rained in Ayr all week")
    assert page.text.split("\n\n")[2:4] == ["Roads in C#", "Of C#"]


@pytest.mark.parametrize(
    "html", ["", " ", "text", "<html></html>", "<html><body><script>x</script></body></html>", "\0<p"]
)
def test_what_has_no_text_is_none(html: str) -> None:
    page = read_page(html, "https://a.example/", "2024-01-01")
    assert page is None or page.text == html.strip()


@pytest.mark.parametrize(("head", "title"), CASES["titles"])
def test_titles(head: str, title: str | None) -> None:
    assert facts(head).title == title


def facts(head: str, html: str = "<html>", url: str = "https://a.example/x/", last_day: str = "2024-05-06") -> WebPage:
    """Return the facts of a page with this head."""
    page = read_page(f"{html}<head>{head}</head><body>{ARTICLE.replace('h1', 'h2')}</body></html>", url, last_day)
    assert page is not None
    return page


@pytest.mark.parametrize(
    ("head", "date"),
    [
        ('<meta property="article:published_time" content="2023-11-12T09:00:00+01:00">', "2023-11-12"),
        ("<meta content='12.11.2023' name=DC.date.issued>", "2023-11-12"),
        ('<meta name="date" content="November 12th, 2023">', "2023-11-12"),
        ('<meta name="pub_date" content="20231112">', "2023-11-12"),
        ('<meta name="date" content="Sun, 12 Nov 2023 08:00 GMT">', "2023-11-12"),
        ('<meta name="date" content="2023-02-30">', None),
        ('<meta name="date" content="2024-05-07">', None),  # after the crawl
        ('<meta name="date" content="1066-10-14">', None),
        ('<script type="application/ld+json">{"datePublished":"2023-11-12"}</script>', "2023-11-12"),
        ("<script>{'datePublished':'2023-11-12'}</script>", None),
        ("</head><body><time datetime='2023-11-12'>then</time>", "2023-11-12"),
        ("</head><body><time datetime='2023-11-11'></time><time pubdate datetime='2023-11-12'></time>", "2023-11-12"),
        ("</head><body><p>On 12 November 2023 it began.</p>", None),  # prose is not asked
    ],
)  # fmt: skip
def test_dates(head: str, date: str | None) -> None:
    assert facts(head).date == date


@pytest.mark.parametrize(("url", "date"), CASES["dates in addresses"])
def test_dates_in_addresses(url: str, date: str | None) -> None:
    assert facts("", url=url).date == date


@pytest.mark.parametrize(("html", "head", "language"), CASES["languages"])
def test_languages(html: str, head: str, language: str | None) -> None:
    assert facts(head, html).language == language


@pytest.mark.parametrize(("head", "canonical"), CASES["canonical addresses"])
def test_canonical_addresses(head: str, canonical: str | None) -> None:
    assert facts(head).canonical == canonical


def test_the_licence_a_page_links_to() -> None:
    assert (
        facts("</head><body><a rel=license href='https://l.example/by/4.0/'>CC</a>").license
        == "https://l.example/by/4.0/"
    )
    assert facts("<link rel=license href='https://l.example/by/4.0/'>").license == "https://l.example/by/4.0/"
    assert facts("<a href='https://l.example/license'>license</a>").license is None


HUGE = 50_000
BOMBS = {
    "nested too deep": [f"<html><body>{'<div>text ' * HUGE}", "<table><tr><td>" * HUGE, "<blockquote>x" * HUGE],
    "too many elements": ["<br>" * 200_001],
    "too long a text": [f"<p>{'word ' * 300_000}</p>", "a" * 10_000_000],
    "too many characters": ["<p>text</p>" + " " * 20_000_000],
}


@pytest.mark.parametrize(("reason", "html"), [(reason, html) for reason, pages in BOMBS.items() for html in pages])
def test_a_page_out_of_bounds_is_refused(reason: str, html: str) -> None:
    found = extract_page(html, "https://a.example/", "2024-01-01")
    assert isinstance(found, Refused) and found.reason == reason and found.detail.startswith("over ")
    assert read_page(html, "https://a.example/", "2024-01-01") is None


def test_a_text_however_deep_is_found() -> None:
    deep = "<div>" * 1_999 + ARTICLE
    found = extract_page(deep, "https://a.example/", "2024-01-01", PageLimits(max_depth=2_010))
    assert isinstance(found, WebPage) and "the river had risen" in found.text


def test_bounds_are_kept_to_the_last_element() -> None:
    def read(**bounds: int) -> WebPage | Refused:
        return extract_page(PAGE, "https://a.example/", "2024-01-01", PageLimits(**bounds))

    longest = len("It rained in Ayr all week, and by Friday the river had risen to the arches of the old bridge.")
    assert isinstance(read(max_characters=len(PAGE)), WebPage)
    assert read(max_characters=len(PAGE) - 1) == Refused("too many characters", f"over {len(PAGE) - 1}")
    assert isinstance(read(max_text=longest + 50), WebPage) and isinstance(read(max_text=longest - 1), Refused)
    with pytest.raises(InputError, match="max_depth"):
        PageLimits(max_depth=0)


@pytest.mark.parametrize("root", ["object", "video", "font", "td", "center"])
def test_text_is_found_whatever_the_root(root: str) -> None:
    page = read_page(f"<{root}>{ARTICLE}<p>2024-01-01</p></{root}>", "https://a.example/", "2024-01-01")
    assert page is not None and "the river had risen" in page.text and page.date is None


@pytest.mark.parametrize(("stop", "comma"), [("\u3002", "\u3001"), ("\u3002", "\uff0c")])
def test_text_without_spaces_is_found(stop: str, comma: str) -> None:
    paragraphs = [f"{JAPANESE[3:8] * count}{comma}{JAPANESE[3:8] * 4}{stop}" for count in (5, 6, 7, 8, 9)]
    menu = "".join(f"<li><a href=/{number}>{JAPANESE[3:5]}{number}</a></li>" for number in range(9))
    html = f"<body><ul class=menu>{menu}</ul><div>{''.join(f'<p>{text}</p>' for text in paragraphs)}</div></body>"
    page = read_page(html, "https://a.example/", "2024-01-01")
    assert page is not None and page.text.split("\n\n") == paragraphs


def test_a_shell_gives_what_its_data_holds() -> None:
    body = " ".join(f"The harbour was closed for the {number}th day." for number in range(10))
    data = json.dumps({"@type": "NewsArticle", "articleBody": f"{body}<br>\n{body} &amp; more"})
    head = f"<script type='application/ld+json'>{data}</script>"
    page = read_page(f"{head}<div id=app>Loading</div><script src=app.js></script>", "https://a.example/", "2024-01-01")
    assert page is not None and page.text == f"{body}\n\n{body} & more"
    whole = read_page(
        f"{head}<article><p>{body}</p><p>{body.upper()}</p></article>", "https://a.example/", "2024-01-01"
    )
    assert whole is not None and whole.text.startswith(body) and "more" not in whole.text
    broken = head.replace("<br>", "\\x")
    assert read_page(f"{broken}<p>Loading</p>", "https://a.example/", "2024-01-01") != page


@pytest.mark.parametrize(
    ("html", "reason"),
    [
        ("<div id=app></div><script src=app.js></script>", "needs scripts"),
        ("<body><SCRIPT>start()</SCRIPT></body>", "needs scripts"),
        ("<body><img src=a.png></body>", "no main text"),
    ],
)
def test_a_page_without_text_says_whether_scripts_would_give_it(html: str, reason: str) -> None:
    assert extract_page(html, "https://a.example/", "2024-01-01") == Refused(reason)


def test_paragraphs_are_lines_with_something_in_them() -> None:
    assert split_paragraphs("\n a \n\n\nb\r\nc\u2028d ") == "a\n\nb\n\nc\n\nd"
    assert split_paragraphs(" \n\t\n") == ""
