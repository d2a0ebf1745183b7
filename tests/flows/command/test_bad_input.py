"""Mistakes of a user end as one paragraph and exit code 2, and what was built stays.

Each case fails if the message does not name the thing and its remedy, if a traceback is shown, or if the exit
code is another. The command is run as a user runs it, in a process of its own, but where the words alone are new.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from launched import cloze, new_home

from corpora.store.places.place import Place

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "corpora/samples/wikipedia"
DUMP = "samplewiki-20260101-pages-articles-multistream.xml.bz2"
INDEX = "samplewiki-20260101-pages-articles-multistream-index.txt.bz2"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_home(tmp_path_factory.mktemp("bad-input"))


def assert_one_paragraph(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit code 2, and at the end one paragraph that says all these words."""
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stdout and done.stdout.count("cloze: ") == 1
    paragraph = done.stdout.strip().splitlines()[-1]
    assert paragraph.startswith("cloze: "), done.stdout
    for word in words:
        assert word in paragraph, (word, paragraph)


def write_recipe(folder: Path, dump: Path, *lines: str, store: str = "store") -> Path:
    path = folder / "recipe.toml"
    source = f'[[source]]\nkind = "wikipedia"\npath = "{dump}"\n'
    path.write_text("\n".join([f'store = "{store}"', source, "[vocabulary]", "size = 400", *lines]))
    return path


def test_unknown_key_names_the_nearest(home: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, SAMPLE / DUMP, "[duplicates]", "treshold = 0.7")
    assert_one_paragraph(cloze(home, "run", str(recipe)), "recipe.toml", "treshold", "'threshold'")


def test_no_recipe_and_unknown_command(home: Path, tmp_path: Path) -> None:
    assert_one_paragraph(cloze(home, "run"), "--source")
    assert_one_paragraph(cloze(home, "rum"), "cloze --help")
    assert_one_paragraph(cloze(home, "run", "absent"), "absent", "demo")


@pytest.mark.slow
def test_damaged_records_are_counted_and_bounded(home: Path, tmp_path: Path) -> None:
    """One stream of eight pages with flipped bits: over the default bound the run stops; allowed, it goes on."""
    data = bytearray((SAMPLE / DUMP).read_bytes())
    data[5_000:5_004] = bytes(byte ^ 0xFF for byte in data[5_000:5_004])
    (tmp_path / DUMP).write_bytes(data)
    (tmp_path / INDEX).write_bytes((SAMPLE / INDEX).read_bytes())
    recipe = write_recipe(tmp_path, tmp_path / DUMP)
    stopped = cloze(home, "run", str(recipe), "--workers", "1")
    assert_one_paragraph(stopped, "8 of 52 records are damaged", "max_damaged_share")
    more = ("--workers", "1", "--set", "documents.max_damaged_share=0.5")
    allowed = cloze(home, "run", str(recipe), *more)
    assert allowed.returncode == 0, allowed.stdout
    [documents] = [line for line in allowed.stdout.splitlines() if line.startswith("documents/")]
    assert "reused" in documents, "the bound decides no bytes: nothing is parsed again"
    assert "parse: damaged" in allowed.stdout


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 200 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no small file system can be mounted: run as root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.slow
def test_full_disk_keeps_what_is_done(home: Path, tmp_path: Path, small_disk: Path) -> None:
    recipe = write_recipe(tmp_path, SAMPLE / DUMP, store=str(small_disk / "store"))
    done = cloze(home, "run", str(recipe), "--workers", "1")
    assert_one_paragraph(done, "disk is full", "run the same command again")
    left = Place(str(small_disk / "store")).list_files("documents")
    assert any(path.endswith("manifest.json") for path in left), "the documents were finished and are kept"
    assert not any(path.endswith(".tmp") for path in left)
