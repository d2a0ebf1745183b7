"""What a user got wrong ends as one paragraph and exit code 2, and what was built stays.

Each case fails if the message does not name the thing and its remedy, if a traceback is shown, or if the exit
code is another. The command is run as a user runs it, in a process of its own, but where the words alone are new.
"""

import bz2
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from launched import LONG, PATIENCE, Site, environment, new_home
from small_recipe import World

from corpora.errors import InputError
from corpora.store.places import Place

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "corpora/samples/wikipedia"
DUMP = "samplewiki-20260101-pages-articles-multistream.xml.bz2"
INDEX = "samplewiki-20260101-pages-articles-multistream-index.txt.bz2"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_home(tmp_path_factory.mktemp("bad-input"))


@pytest.fixture
def api(site: Site) -> str:
    """A server for the runs that get as far as to need one: nothing here is about its start or its end."""
    return site.api


def cloze(home: Path, folder: Path, *arguments: str, api: str | None = None) -> subprocess.CompletedProcess[str]:
    one_worker = ("--workers", "1") if api else ()  # a run that gets as far; a second one takes seconds to start
    command = [sys.executable, "-m", "flows.launch", *arguments, *one_worker]
    return subprocess.run(
        command, cwd=folder, env=environment(home, api), capture_output=True, text=True, timeout=LONG, check=False
    )


def assert_one_paragraph(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit code 2, and one paragraph that says all these words."""
    assert done.returncode == 2, done.stderr
    paragraph = done.stderr.strip()
    assert "Traceback" not in paragraph
    assert paragraph.startswith("cloze: ")
    assert len(paragraph.splitlines()) == 1, paragraph
    for word in words:
        assert word in paragraph, (word, paragraph)


def write_recipe(folder: Path, dump: Path, *lines: str, store: str = "store") -> Path:
    path = folder / "recipe.toml"
    source = f'[[source]]\nkind = "wikipedia"\npath = "{dump}"\n'
    path.write_text("\n".join([f'store = "{store}"', source, "[vocabulary]", "size = 400", *lines]))
    return path


def test_missing_file(home: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, tmp_path / "absent.xml.bz2")
    assert_one_paragraph(cloze(home, tmp_path, "run", str(recipe)), "absent.xml.bz2", "path")


def test_unknown_key_names_the_nearest(home: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, SAMPLE / DUMP, "[duplicates]", "treshold = 0.7")
    assert_one_paragraph(cloze(home, tmp_path, "run", str(recipe)), "recipe.toml", "treshold", "'threshold'")


def test_wrong_type(home: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, SAMPLE / DUMP, "[duplicates]", 'bands = "many"')
    assert_one_paragraph(cloze(home, tmp_path, "run", str(recipe)), "duplicates.bands", "a whole number")


def test_not_toml(home: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("name = \n")
    assert_one_paragraph(cloze(home, tmp_path, "run", str(recipe)), "recipe.toml", "line 1")


def test_no_recipe_and_unknown_command(home: Path, tmp_path: Path) -> None:
    assert_one_paragraph(cloze(home, tmp_path, "run"), "--source")
    assert_one_paragraph(cloze(home, tmp_path, "rum"), "cloze --help")
    assert_one_paragraph(cloze(home, tmp_path, "run", "absent"), "absent", "demo")


def test_unwritable_store(home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    recipe = write_recipe(tmp_path, SAMPLE / DUMP, store=str(tmp_path / "file" / "store"))
    assert_one_paragraph(cloze(home, tmp_path, "run", str(recipe)), "Cannot write", "choose another store")


def refusal(recipe: Path) -> str:
    """What a run in this process refuses. A refusal of a worker's as the command ends with it: see damaged records."""
    world = World(folder=recipe.parent, text=recipe.read_text())
    with pytest.raises(InputError) as refused:
        world.run()
    assert len(str(refused.value).splitlines()) == 1
    return str(refused.value)


def test_truncated_bz2(tmp_path: Path) -> None:
    dump = tmp_path / DUMP
    dump.write_bytes((SAMPLE / DUMP).read_bytes()[:-700])
    said = refusal(write_recipe(tmp_path, dump))
    assert DUMP in said and "again" in said


def test_not_a_dump(tmp_path: Path) -> None:
    page = tmp_path / "page.xml.bz2"
    page.write_bytes(bz2.compress(b"<html><body>not a dump</body></html>"))
    said = refusal(write_recipe(tmp_path, page))
    assert "page.xml.bz2" in said and "dump" in said


@pytest.mark.slow
@pytest.mark.server
def test_damaged_records_are_counted_and_bounded(home: Path, api: str, tmp_path: Path) -> None:
    """One stream of eight pages with flipped bits: over the default bound the run stops; allowed, it goes on."""
    data = bytearray((SAMPLE / DUMP).read_bytes())
    data[5_000:5_004] = bytes(byte ^ 0xFF for byte in data[5_000:5_004])
    (tmp_path / DUMP).write_bytes(data)
    (tmp_path / INDEX).write_bytes((SAMPLE / INDEX).read_bytes())
    recipe = write_recipe(tmp_path, tmp_path / DUMP)
    stopped = cloze(home, tmp_path, "run", str(recipe), api=api)
    assert_one_paragraph(stopped, "8 of 52 records are damaged", "max_damaged_share")
    allowed = cloze(home, tmp_path, "run", str(recipe), "--set", "documents.max_damaged_share=0.5", api=api)
    assert allowed.returncode == 0, allowed.stderr
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
        pytest.skip("no small file system can be mounted here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.slow
@pytest.mark.server
def test_full_disk_keeps_what_is_done(home: Path, api: str, tmp_path: Path, small_disk: Path) -> None:
    recipe = write_recipe(tmp_path, SAMPLE / DUMP, store=str(small_disk / "store"))
    assert_one_paragraph(
        cloze(home, tmp_path, "run", str(recipe), api=api), "disk is full", "run the same command again"
    )
    left = Place(str(small_disk / "store")).sizes("documents")
    assert any(path.endswith("manifest.json") for path in left), "the documents were finished and are kept"
    assert not any(path.endswith(".tmp") for path in left)


def test_a_profile_whose_server_is_gone(home: Path, tmp_path: Path) -> None:
    """The user's own Prefect address is respected, so a dead one is said, with the way around it."""
    recipe = write_recipe(tmp_path, SAMPLE / DUMP)
    command = [sys.executable, "-m", "flows.launch", "run", str(recipe)]
    nobody = environment(home, api="http://127.0.0.1:9/api")
    done = subprocess.run(
        command, env=nobody, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert_one_paragraph(done, "http://127.0.0.1:9/api", "--own-server")
