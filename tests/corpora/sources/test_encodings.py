"""Encodings by how texts look: UTF-16 of every script, older encodings; what cannot be told is named, never guessed."""
# ruff: noqa: RUF001 - texts of many scripts

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_reading import read, reasons
from tiers import count_examples

from corpora.errors import InputError
from corpora.sources.bytes.text_encodings import UNKNOWN, guess_encoding, guess_wide_encoding
from corpora.sources.files.source import FilesSource

TEXTS = {
    "ja": "渡し舟は霧のために遅れた。みんなは港で待っていた。",
    "zh": "渡船因为大雾迟到了。船长对在港口等候的人们说他很抱歉。这个问题我们已经讨论过了，没有新的意见。",
    "zh-tw": "渡船因為大霧遲到了。船長對在港口等候的人們說他很抱歉。這個問題我們已經討論過了，沒有新的意見。",
    "ko": "이 배는 안개 때문에 늦었다. 선장은 항구에서 기다리던 사람들에게 미안하다고 말했다.",
    "ru": "Паром опоздал из-за тумана. Никто не знал, почему пропала одна лодка, и все ждали на берегу.",
    "fr": "Le bac était en retard à cause du brouillard : « on attendait » sur la côte, où personne ne bougeait.",
    "ar": "تأخرت العبارة بسبب الضباب في الميناء وكان الناس ينتظرون.",
    "he": "המעבורת איחרה בגלל הערפל בנמל וכולם חיכו שם.",
    "pl": "Prom spóźnił się z powodu mgły. Wszyscy czekali w porcie, bo łódź zginęła i ktoś ją gdzieś widział.",
    "el": "Το πλοίο άργησε λόγω της ομίχλης στο λιμάνι.",
}
LEGACY = [
    *[
        ("ja", "shift_jis", "cp932"),
        ("ja", "euc_jp", "euc_jp"),
        ("zh", "gb2312", "gb18030"),
        ("zh-tw", "big5", "big5hkscs"),
    ],
    *[("ko", "euc_kr", "cp949"), ("ru", "cp1251", "cp1251"), ("ru", "koi8_r", "koi8_r"), ("ru", "cp866", "cp866")],
    *[("fr", "cp1252", "cp1252"), ("ar", "cp1256", UNKNOWN), ("he", "cp1255", UNKNOWN), ("pl", "cp1250", UNKNOWN)],
]


@pytest.mark.parametrize(("language", "codec", "name"), LEGACY)
def test_an_older_encoding_is_recognised_or_said_to_be_unknown(
    tmp_path: Path, language: str, codec: str, name: str
) -> None:
    """Fails if a text is read in an encoding that it is not in."""
    text = TEXTS[language]
    data = text.encode(codec)
    assert guess_encoding(data) == name
    assert guess_wide_encoding(data) == ""
    (tmp_path / "a.txt").write_bytes(data)
    (tmp_path / "b.jsonl").write_bytes(json.dumps({"text": text}, ensure_ascii=False).encode(codec) + b"\n")
    source = FilesSource(name="own", path=str(tmp_path / "a.txt"), encoding="auto")
    lines = FilesSource(name="own", path=str(tmp_path / "b.jsonl"), encoding="auto")
    if name == UNKNOWN:
        assert reasons(read(source)) == ["damaged"]
        with pytest.raises(InputError, match=r"its encoding cannot be told\. Set the source's `encoding`"):
            read(lines)
        return
    assert [record.text for record in [*read(source), *read(lines)]] == [text, text]
    named = FilesSource(name="own", path=str(tmp_path), encoding=codec)
    assert [record.text for record in read(named)] == [text, text]


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_a_text_of_utf_16_needs_no_mark(tmp_path: Path, language: str, codec: str) -> None:
    (tmp_path / "a.txt").write_bytes(TEXTS[language].encode(codec))
    (record,) = read(FilesSource(name="own", path=str(tmp_path), encoding="auto"))
    assert record.text == TEXTS[language]


def test_a_bad_byte_in_an_older_encoding_is_a_bad_line(tmp_path: Path) -> None:
    """Fails if one byte costs the file, or goes unseen."""
    good = json.dumps({"text": TEXTS["ja"]}, ensure_ascii=False).encode("euc_jp") + b"\n"
    (tmp_path / "a.jsonl").write_bytes(good + good.replace("渡".encode("euc_jp"), b"\xff") + good)
    source = FilesSource(name="own", path=str(tmp_path), encoding="auto")
    assert reasons(read(source)) == [None, "damaged", None]


def test_utf_8_with_a_few_bad_bytes_stays_utf_8(tmp_path: Path) -> None:
    """Fails if a file of UTF-8 is read as another encoding for the sake of one byte."""
    (tmp_path / "a.txt").write_bytes(TEXTS["ja"].encode() + b"\xff")
    (tmp_path / "b.jsonl").write_bytes(
        b"".join(json.dumps({"text": TEXTS["ja"]}, ensure_ascii=False).encode() + b"\n" for _ in "ab")
        + b'{"text": "\xff"}\n'
    )
    records = read(FilesSource(name="own", path=str(tmp_path), encoding="auto"))
    assert [record.text for record in records[1:3]] == [TEXTS["ja"]] * 2
    assert reasons(records[:1]) == ["damaged"]


@given(st.text(min_size=1, max_size=60))
def test_utf_8_is_never_taken_for_another(text: str) -> None:
    data = text.encode(errors="replace")
    assert guess_encoding(data) == "utf-8"
    assert guess_wide_encoding(data) == "" or b"\0" in data


@pytest.mark.long
@pytest.mark.parametrize(("language", "codec", "name"), LEGACY)
def test_sentences_of_treebanks(shared: Path, language: str, codec: str, name: str) -> None:
    """Fails if of three sentences over a tenth are not recognised, or any are taken for another encoding."""
    path = shared / "data" / "languages" / "sentences" / f"{language[:2]}.jsonl"
    if not path.exists() or language == "zh":  # those in Chinese are in traditional characters
        pytest.skip("no sentences of this language")
    sentences = [each for line in path.read_text().splitlines() for each in json.loads(line)["sentences"]]
    random, names = Random(1), []
    for _ in range(count_examples(300)):
        at = random.randrange(len(sentences) - 3)
        data = "\n".join(sentences[at : at + 3]).encode(codec, "ignore")
        names += [] if data.isascii() else [guess_encoding(data)]
    assert names.count(name) >= 0.9 * len(names)
    assert name == UNKNOWN or set(names) <= {name, UNKNOWN}
