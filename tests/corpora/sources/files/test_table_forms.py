"""Tables as programs write them: delimiters, one column, no names, encodings; the text is found in each."""

from dataclasses import replace
from pathlib import Path

import pytest
from source_reading import raw_file, read_and_find

from corpora.sources.files.guessing import guess_text_columns
from corpora.sources.files.source import FilesSource

LINE, OTHER = "The ferry was late, because of fog.", "Nobody knew; so they waited | and slept."
JAPANESE = "渡し舟は霧のために遅れた。みんなは港で待っていた。"
FORMS = {
    "semicolons and decimal commas": f'id;price, EUR;note\n1;1,5;{LINE}\n2;2,5;"{OTHER}"\n',
    "stated": f'sep=;\r\nid;note\r\n1;{LINE}\r\n2;"{OTHER}"\r\n',
    "stated with a mark": f"\ufeffsep=\t\nid\tnote\n1\t{LINE}\n2\t{OTHER}\n",
    "bars": f'id|note\n1|{LINE}\n2|"{OTHER}"\n',
    "tabs": f"id\tnote\n1\t{LINE}\n2\t{OTHER}\n",
    "one column": f"note\n{LINE}\n{OTHER}\n",
    "one column without a name": f"{LINE}\n{OTHER}\n",
    "no names": f'1,"{LINE}",5\n2,"{OTHER}",4\n',
}


def texts(path: Path) -> list[str]:
    """The texts of a table, with the column guessed."""
    source = FilesSource(name="own", path=str(path), encoding="auto")
    names = guess_text_columns(source, [raw_file(source)]).names
    return [record.text for record in read_and_find(replace(source, fields={"text": names}))]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("codec", ["utf-8", "utf-16"])
def test_the_text_is_read_from_each_form(tmp_path: Path, form: str, codec: str) -> None:
    (tmp_path / "a.csv").write_bytes(FORMS[form].encode(codec))
    assert texts(tmp_path / "a.csv") == [LINE, OTHER]


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "shift_jis", "euc_jp"])
def test_tables_in_other_encodings(tmp_path: Path, codec: str) -> None:
    """Fails if a sign of two bytes cuts a row, or an encoding is not recognised."""
    (tmp_path / "a.csv").write_bytes(f'番号,本文\n1,"{JAPANESE}\n表示"\n'.encode(codec))
    assert texts(tmp_path / "a.csv") == [f"{JAPANESE}\n表示"]


@pytest.mark.parametrize("header", [",0,1", "0,1,2", "city,2019,2020", "id,text,n"])
def test_names_that_are_numbers_stay_names(tmp_path: Path, header: str) -> None:
    """Fails if the first row of a table of numbers is taken for a record."""
    (tmp_path / "a.csv").write_text(f"{header}\n7,{OTHER},9\n8,{OTHER},9\n")
    source = FilesSource(name="own", path=str(tmp_path), fields={"text": header.split(",")[1]})
    assert [record.text for record in read_and_find(source)] == [OTHER, OTHER]
