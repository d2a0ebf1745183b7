"""Faults that end a run, and what somebody does who reads its message: each remedy by the words that name it.

A fault is a change to a `Bench`, which has a recipe, its raw files, a store and a lock. A remedy is a pattern that the
message must have, and a function that takes what the pattern matched and does no more than the words say; what it
returns are options of the next run.
"""

import gzip
import json
import re
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from small_recipe import prose
from ugly_folders import docx

from flows.command.cli import run_command_line
from flows.orchestration.run_recipe import run_recipe
from flows.orchestration.run_state import RunState
from flows.recipes.recipe import parse_recipe
from flows.recipes.tables import parse_override
from flows.run.addresses import find_artifacts

RECIPE = """
name = "small"
store = "store"
rules.repetition.enabled = false
language.keep_unknown = true
vocabulary.size = 300
shards.length = 64
[[source]]
kind = "files"
name = "notes"
path = "raw/notes"
"""
OTHER = '[[source]]\nkind = "files"\nname = "other"\npath = "raw/other"\n'
FILES = 12  # good ones
Overrides = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A recipe in a folder, with its raw files. said: what its runs have printed; kept: what a fault has put aside"""

    folder: Path
    home: Path
    said: list[str] = field(default_factory=list)
    kept: dict[Path, bytes] = field(default_factory=dict)

    @property
    def recipe_path(self) -> Path:
        return self.folder / "small.toml"

    @property
    def lock(self) -> Path:
        return self.folder / "small.lock"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def raw(self, name: str = "", source: str = "notes") -> Path:
        path = self.folder / "raw" / source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def run(self, overrides: Overrides = MappingProxyType({})) -> RunState:
        """Run the recipe as `cloze run` does. Raises InputError."""
        recipe = parse_recipe(self.recipe_path.read_text(), self.recipe_path, overrides)
        return run_recipe(recipe, self.home, self.said.append, 1, watch=False)

    def command(self, *arguments: str) -> int:
        return run_command_line([*arguments], self.home)

    def stored(self, pattern: str) -> Path:
        """One file of the store."""
        return sorted(self.store.glob(pattern))[0]

    def set_aside(self, path: Path) -> None:
        """Remove a file or a folder that somebody can bring back."""
        for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
            if file.is_file():
                self.kept[file] = file.read_bytes()
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def bring_back(self) -> None:
        """Bring back what was set aside."""
        for path, data in self.kept.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def edit_recipe(self, old: str, new: str) -> None:
        text = self.recipe_path.read_text()
        assert old in text
        self.recipe_path.write_text(text.replace(old, new))


Do = Callable[[Bench, "re.Match[str]"], Overrides | None]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that ends a run. harm: does it; said: of the message; remedies: what to do, by its words

    overrides: of the run that meets it; ends: for a fault that another command meets
    """

    harm: Callable[[Bench], object]
    said: str
    remedies: Mapping[str, Do]
    overrides: Mapping[str, str] = field(default_factory=dict)
    ends: Callable[[Bench], object] | None = None


def flip(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])


def packed(text: str) -> bytes:
    return gzip.compress((json.dumps({"text": text}) + "\n").encode())


def bring_back(bench: Bench, _: "re.Match[str]") -> None:
    bench.bring_back()


def type_option(bench: Bench, found: "re.Match[str]") -> Overrides:
    """Give the next run the options that the message names."""
    pairs = re.findall(r"--set (?:'([^']+)'|(\S+))", found[0])
    return dict(parse_override(quoted or plain, "--set") for quoted, plain in pairs)


def type_command(bench: Bench, found: "re.Match[str]") -> None:
    """Type what is between backquotes, with the store or the recipe that a person would add."""
    words = found[1].split()[1:]
    if words == ["run"]:
        bench.run()
    else:
        bench.command(*words, *([str(bench.store)] if words == ["verify"] else []))


def run_again(bench: Bench, _: "re.Match[str]") -> None:
    """Do nothing else than run again, which follows."""


def delete_lock(bench: Bench, _: "re.Match[str]") -> None:
    bench.lock.unlink()


# --- faults of raw files


def damaged_document(bench: Bench) -> None:
    bench.raw("good.txt").write_text(prose(50))
    bench.raw("bad.docx").write_bytes(docx(prose(51))[:-60])


def good_document(bench: Bench, _: "re.Match[str]") -> None:
    bench.raw("bad.docx").write_bytes(docx(prose(51)))


def cut_file(bench: Bench, source: str = "notes") -> None:
    bench.raw("cut.jsonl.gz", source).write_bytes(packed(prose(52))[:-20])


def good_file(bench: Bench, _: "re.Match[str]") -> None:
    for source in ("notes", "other"):
        if bench.raw("cut.jsonl.gz", source).exists():
            bench.raw("cut.jsonl.gz", source).write_bytes(packed(prose(52)))


def lost_source(bench: Bench) -> None:
    bench.edit_recipe("[[source]]", f'{OTHER}on_damage = "skip"\n[[source]]')
    cut_file(bench, "other")


def in_shift_jis(bench: Bench) -> None:
    bench.edit_recipe('path = "raw/notes"\n', 'path = "raw/notes"\nencoding = "utf-8"\n')
    for number in range(3):
        bench.raw(f"j{number}.txt").write_bytes(
            ("東京の天気は晴れです。明日も晴れるでしょう。" * 9).encode("shift_jis")
        )


def wide_lines(bench: Bench) -> None:
    bench.edit_recipe('path = "raw/notes"\n', 'path = "raw/notes"\nencoding = "utf-8"\nfields = { text = "text" }\n')
    bench.raw("wide.jsonl").write_bytes((json.dumps({"text": prose(53)}) + "\n").encode("utf-16"))


def convert(bench: Bench, _: "re.Match[str]") -> None:
    path = bench.raw("wide.jsonl")
    path.write_bytes(path.read_bytes().decode("utf-16").encode())


def cut_parquet(bench: Bench) -> None:
    bench.raw("cut.parquet").write_bytes(b"PAR1" + bytes(90))


def closed_files(bench: Bench) -> None:
    bench.edit_recipe("[[source]]", f'{OTHER}on_damage = "skip"\n[[source]]')
    for number in range(2):
        bench.raw(f"closed-{number}.txt", "other").symlink_to("/proc/self/mem")


def open_files(bench: Bench, _: "re.Match[str]") -> None:
    for number in range(2):
        bench.raw(f"closed-{number}.txt", "other").unlink()
        bench.raw(f"closed-{number}.txt", "other").write_text(prose(60 + number))


def short_notes(bench: Bench) -> None:
    for number in range(120):
        bench.raw(f"short-{number}.txt").write_text(f"Call number {number} back, and bring the papers along.")


def large_notes(bench: Bench) -> None:
    for number in range(FILES):
        bench.raw(f"base-{number}.txt").unlink()
    bench.lock.unlink()
    bench.raw("large.txt").write_text(prose(70, 60))


# --- faults of the lock and the store


def gone_raw(bench: Bench) -> None:
    bench.set_aside(bench.raw("base-0.txt"))
    shutil.rmtree(bench.store / "documents")
    shutil.rmtree(bench.store / "corpora")


def damaged_part(bench: Bench) -> None:
    bench.set_aside(bench.raw("base-0.txt"))
    flip(bench.stored("documents/notes/*/*.documents.arrow"))
    for kind in ("corpora", "counts", "tokens"):  # what is made of it is made again
        shutil.rmtree(bench.store / kind)


def flipped_lock(bench: Bench) -> None:
    bench.kept[bench.lock] = bench.lock.read_bytes()
    bench.lock.write_bytes(bench.lock.read_bytes().replace(b'"base-0.txt"', b'"base-O.txt"'))


def reseal_lock(bench: Bench, _: "re.Match[str]") -> None:
    bench.bring_back()
    text = re.sub(r'"digest": "[^"]*"', '"digest": ""', bench.lock.read_text())
    bench.lock.write_text(text)


def foreign_lock(bench: Bench) -> None:
    bench.kept[bench.lock] = bench.lock.read_bytes()
    bench.lock.write_text("{}")


def in_own_store(bench: Bench) -> None:
    bench.edit_recipe('store = "store"', 'store = "raw/notes"')


def move_texts(bench: Bench, found: "re.Match[str]") -> Overrides:
    shutil.copytree(bench.raw(), bench.folder / "texts", dirs_exist_ok=True)
    return {f"source.notes.{found[1]}": f'"{bench.folder / "texts"}"'}


def damaged_list(bench: Bench) -> None:
    (bench.store / "damaged.json").write_text("{}")


def nothing(bench: Bench) -> None: ...


def release(bench: Bench) -> None:
    bench.command("release", str(bench.recipe_path), "--name", "own")


def damaged_shards(bench: Bench) -> None:
    flip(bench.stored("shards/small/*/*.arrow"))


def verify_and_run(bench: Bench, _: "re.Match[str]") -> None:
    assert bench.command("verify", str(bench.store)) == 1
    bench.run()


def gone_shards(bench: Bench) -> None:
    release(bench)
    shutil.rmtree(bench.store / "shards")


def run_while_it_grows(bench: Bench) -> None:
    """Run while somebody writes a file, which `kept` remembers."""
    path, over = bench.raw("log.txt"), threading.Event()
    if path.exists() and not bench.kept:
        bench.run()
        return
    path.write_text(prose(80))
    bench.kept[path] = b""

    def write() -> None:
        while not over.wait(0.002):
            with path.open("a") as file:
                file.write("One more line of the log.\n")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        bench.run()
    finally:
        over.set()
        writer.join()


def set_key(key: str) -> Do:
    """Set a key to what the message says, in the pattern's first group."""
    return lambda bench, found: {key: found[1]}


FAULTS: dict[str, Fault] = {
    "one damaged document among two new ones": Fault(
        harm=damaged_document,
        said=r"Source 'notes': 1 of 14 records are damaged",
        remedies={
            r"get the raw files again": good_document,
            r"or take them away": lambda bench, _: bench.raw("bad.docx").unlink(),
            r"more than (documents\.max_damaged_share) = .* or raise the bound": lambda bench, found: {found[1]: "1"},
            r"`(cloze inspect [^`]+)` shows": type_command,
        },
    ),
    "files in another encoding than the recipe says": Fault(
        harm=in_shift_jis,
        said=r"records are damaged",
        remedies={r'(source\.notes\.encoding) = ("shift_jis")': lambda bench, found: {found[1]: found[2]}},
    ),
    "lines in UTF-16": Fault(
        harm=wide_lines,
        said=r"wide\.jsonl is UTF-16",
        remedies={
            r"Set the source's `encoding` to (\"auto\")": set_key("source.notes.encoding"),
            r"convert the file to UTF-8": convert,
        },
    ),
    "a packed file that is cut off": Fault(
        harm=cut_file,
        said=r"cut\.jsonl\.gz cannot be read",
        remedies={
            r"Get it again": good_file,
            r'set on_damage = ("skip") in the \[\[source\]\] \'notes\'': set_key("source.notes.on_damage"),
        },
    ),
    "a Parquet file without its end": Fault(
        harm=cut_parquet,
        said=r"cut\.parquet is damaged or no Parquet file",
        remedies={
            r"Get the file again": lambda bench, _: bench.raw("cut.parquet").unlink(),
            r'set on_damage = ("skip")': set_key("source.notes.on_damage"),
        },
    ),
    "a source of which nothing is left": Fault(
        harm=lost_source,
        said=r"Source 'other': none of its raw files can be read",
        remedies={
            r"Fix the source's settings or its files": good_file,
            r"or remove it": lambda bench, _: bench.edit_recipe(f'{OTHER}on_damage = "skip"\n', ""),
        },
    ),
    "most files of a source closed": Fault(
        harm=closed_files,
        said=r"Source 'other': 2 of 2 raw files cannot be opened",
        remedies={r"Check their permissions and the disk, then run again": open_files},
    ),
    "a rule that drops much": Fault(
        harm=short_notes,
        said=r"rules: gopher\.min_words drops",
        remedies={
            r"switch the rules off:\n(.*)\n": type_option,
            r"\((documents\.max_rule_share)\).*raise that bound": lambda bench, found: {found[1]: "1"},
            r"`(cloze inspect [^`]+)`": type_command,
        },
    ),
    "documents larger than the bound": Fault(
        harm=large_notes,
        said=r"none of 1 records is left",
        overrides={"documents.max_document_bytes": "2000", "source.notes.max_record_bytes": "2000"},
        remedies={
            r"Raise (documents\.max_document_bytes) and the source's (max_record_bytes)": lambda bench, found: {
                found[1]: "1000000",
                f"source.notes.{found[2]}": "1000000",
            },
            r"or cut the files": lambda bench, _: (
                [
                    bench.raw("large.txt").unlink(),
                    bench.raw("cut.txt").write_text(prose(70)),
                ]
                and None
            ),
            r"add text": lambda bench, _: bench.raw("more.txt").write_text(prose(71)) and None,
        },
    ),
    "raw files and their documents gone": Fault(
        harm=gone_raw,
        said=r"Source 'notes': 1 raw file of an older generation is gone \(first: base-0\.txt\)",
        remedies={r"Bring the files back": bring_back, r"delete the lock next to the recipe": delete_lock},
    ),
    "a damaged part whose raw file is gone": Fault(
        harm=damaged_part,
        said=r"files of part .* are missing or damaged, and the raw files that it was made from are gone",
        remedies={r"Bring them back, then run again": bring_back},
    ),
    "a lock with a flipped bit": Fault(
        harm=flipped_lock,
        said=r"small\.lock is not as it was written",
        remedies={
            r"Restore it from version control": bring_back,
            r'if it was edited on purpose, make its last field "digest": ""': reseal_lock,
        },
    ),
    "a lock that is none": Fault(
        harm=foreign_lock,
        said=r"is not a lock that this program can read",
        remedies={r"Restore it": bring_back, r"delete it to start again": delete_lock},
    ),
    "a source in its own store": Fault(
        harm=in_own_store,
        said=r"is in the recipe's own store",
        remedies={
            r"Give `(store)` or .* another folder": lambda bench, found: {found[1]: f'"{bench.folder / "elsewhere"}"'},
            r"the source's `(path)` another folder": move_texts,
        },
    ),
    "a damaged list of damaged files": Fault(
        harm=damaged_list,
        said=r"the list of damaged files, is damaged itself",
        remedies={r"Check the whole store with `(cloze verify)`": type_command},
    ),
    "a release that is not there": Fault(
        harm=nothing,
        said=r"There is no release 'own'",
        ends=lambda bench: bench.command("releases", str(bench.store), "--name", "own"),
        remedies={
            r"`(cloze release)` makes one": lambda bench, found: (
                bench.command(*found[1].split()[1:], str(bench.recipe_path), "--name", "own") and None
            )
        },
    ),
}
FAULTS |= {
    "a release before the first run": Fault(
        harm=lambda bench: shutil.rmtree(bench.store),
        said=r"No run of 'small' in .* is complete",
        ends=release,
        remedies={r"`(cloze run)` comes first": type_command},
    ),
    "a release of damaged shards": Fault(
        harm=damaged_shards,
        said=r"is damaged, so it is not released",
        ends=release,
        remedies={
            r"`cloze verify` on the store lists what is damaged, and the next `cloze run` builds it": verify_and_run
        },
    ),
    "a release whose artifact is gone": Fault(
        harm=gone_shards,
        said=r"is gone, which the release 'own' \(number 1\) names",
        ends=lambda bench: find_artifacts(f"{bench.store}@own", "shards"),
        remedies={r"Run its recipe again, which builds the same artifact": run_again},
    ),
    "a raw file that grows": Fault(
        harm=nothing,
        said=r"log\.txt changed while it was read",
        ends=run_while_it_grows,
        remedies={r"Run again when nothing writes it any more": lambda bench, _: bench.kept.clear()},
    ),
}
CASES = [(name, words) for name, fault in FAULTS.items() for words in fault.remedies]
QUICK = {  # those of `make test`
    ("one damaged document among two new ones", r"or take them away"),
    ("a packed file that is cut off", r"Get it again"),
    ("a rule that drops much", r"switch the rules off:\n(.*)\n"),
}
