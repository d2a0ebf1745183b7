"""The first run of a folder without a recipe: its rules fit its texts, are told, and stay as they were decided."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from small_recipe import prose, run_lock

from corpora.errors import InputError
from corpora.sources.contract import StatCache
from corpora.store.places.place import Place
from flows.recipes.guessed_fields import FittedDefaults
from flows.recipes.lock import Lock, read_lock, resolve_raw_files, write_lock
from flows.recipes.recipe import Recipe, parse_recipe, render_folder_recipe, write_recipe
from flows.run.inputs.folder_defaults import build_folder_recipe
from flows.run.inputs.raw_files import describe_inputs

TICKETS = [f"Hello, the printer in room {n} is broken again. Please call {n * 37} back, thanks." for n in range(120)]
JAPANESE = [f"三階の{n}番のプリンターが月曜日から動きません。至急ご確認をお願いいたします。" for n in range(120)]
LOG_LINES = ["\n".join(f"10:{n}:{k} INFO [w{k}] took {n * k}ms status={k * 100}" for k in range(60)) for n in range(30)]
LISTS = ["\n".join(f"* nail {n} {k} mm" for k in range(60)) for n in range(30)]


SMALL = {"vocabulary.size": "600", "rules.repetition.enabled": "false"}  # prose made here says the same again


PATENTS = [
    f"The present invention is a lamp of {n} wicks. In the prior art a lamp had one. FIG. {n} shows an embodiment.\n\n"
    + "\n\n".join(f"{c}. The lamp of claim 1, wherein wick {c} of {n} burns oil." for c in range(1, 20))
    for n in range(5)
]
CHATS = [f"mary: is boat {n} in?\njohn: not yet\nmary: ok, at {n}?\njohn: I think so\n" * 12 for n in range(5)]
NOTES = [
    f"HPI: a {n}0-year-old man with chest pain, denies fever. Allergies: NKDA. Vital signs: BP 120/8{n}. Aspirin 81 mg "
    f"po daily, PRN nitro. He walks {n} miles with his dog and his wife, and has had no pain at night since the visit. "
    "He sleeps well and eats what he likes, which is fish, and he has been told to come back when the pain returns."
    for n in range(1, 6)
]


def folder_of(folder: Path, texts: Sequence[str]) -> Path:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts]
    (folder / "all.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def run(recipe: Recipe) -> int:
    """Run a folder's recipe as a command does; the documents that came of it."""
    assert recipe.lock_path is not None
    resolved = resolve_raw_files(recipe, read_lock(recipe.lock_path), StatCache())
    recipe.lock_path.parent.mkdir(parents=True, exist_ok=True)
    write_lock(recipe.lock_path, resolved.lock)
    done = run_lock(Place(recipe.store), recipe, resolved.lock)
    return sum(manifest.count_rows("documents") for manifest in done.documents().values())


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (TICKETS, "short texts (half of them have 14 words or fewer): rules of the template `tickets`"),
        (JAPANESE, "languages: ja 100%: all languages are kept"),
        (LOG_LINES, "rules switched off that would drop much: gopher.min_stop_words (100% of them)"),
        (LISTS, "gopher.max_bullet_lines (100% of them)"),
        (PATENTS, "patents (half of them have 6 or more of the words of patents): rules of the template `patents`"),
        (CHATS, "chats (of half of them most lines begin with who speaks): rules of the template `chats`"),
        (NOTES, "clinical notes (half of them have 9 or more of the words of clinical notes)"),
        (TICKETS[:1], "rules switched off"),
        ([prose(n, 20) for n in range(20)], ""),
    ],
)
def test_a_first_run_keeps_the_texts_and_says_which_rules_fit(tmp_path: Path, texts: list[str], said: str) -> None:
    """Fails if a folder that holds text ends its first run with an error, or is left without its documents."""
    recipe = build_folder_recipe(folder_of(tmp_path / "f", texts), tmp_path / "store", SMALL)
    lines = " ".join(describe_inputs(recipe, resolve_raw_files(recipe, Lock(), StatCache())))
    assert said in lines and ("by a look at" in lines) == bool(said)
    assert run(recipe) >= 0.9 * len(texts)


def test_a_folder_stays_as_it_was_decided(tmp_path: Path) -> None:
    """Fails if later files, or a lock that decided nothing, change the rules of what is built."""
    folder, store = folder_of(tmp_path / "f", TICKETS), tmp_path / "store"
    first = build_folder_recipe(folder, store, {})
    run(first)
    (folder / "later.txt").write_text("\n\n".join(prose(n, 30) for n in range(9)), encoding="utf-8")
    again = build_folder_recipe(folder, store, {})
    assert again.text == first.text and again.fitted == first.fitted and "min_words = 3" in again.text
    assert first.lock_path is not None
    older = read_lock(first.lock_path)
    write_lock(first.lock_path, replace(older, fitted=None))
    assert build_folder_recipe(folder, store, {}).text == render_folder_recipe(folder, str(store))


def test_what_the_user_sets_counts(tmp_path: Path) -> None:
    """Fails if a fitted setting is put over the one on the command line."""
    recipe = build_folder_recipe(
        folder_of(tmp_path / "f", TICKETS), tmp_path / "store", {"rules.gopher.min_words": "7", "language.keep": "[]"}
    )
    documents = recipe.sources[0].documents
    assert documents.rules.gopher.min_words == 7 and not documents.rules.repetition.enabled
    assert documents.language.keep == ()


def test_what_was_set_for_a_folder_is_remembered(tmp_path: Path) -> None:
    """Fails if `--set` is forgotten by the next run or plan, cannot be replaced or dropped, or is not in the recipe
    that is kept."""
    folder, store = folder_of(tmp_path / "f", TICKETS), tmp_path / "store"
    assert run(build_folder_recipe(folder, store, {"vocabulary.size": "600", "source.f.fields.key": "text"}))
    plain = build_folder_recipe(folder, store, {})
    assert plain.chosen == {"vocabulary.size": "600", "source.fields.key": "text"}
    assert plain.path is not None
    assert "# Set with --set, and remembered: vocabulary.size=600\n" in plain.text
    for kept in (plain, parse_recipe(plain.text, plain.path, {})):
        assert kept.vocabularies[0].settings == plain.vocabularies[0].settings
        assert kept.sources == plain.sources and kept.sources[0].source.settings()["fields"] == {"key": "text"}
    [line] = [
        line for line in describe_inputs(plain, resolve_raw_files(plain, Lock(), StatCache())) if "remembered" in line
    ]
    assert "vocabulary.size=600, source.fields.key=text. To forget one: --set vocabulary.size=." in line
    changed = build_folder_recipe(folder, store, {"vocabulary.size": "700", "source.1.fields.key": ""})
    assert changed.chosen == {"vocabulary.size": "700"}
    write_recipe(plain)
    write_recipe(changed)
    assert plain.path.read_text(encoding="utf-8") == changed.text != plain.text
    plain.path.write_text("# mine\n", encoding="utf-8")
    write_recipe(changed)
    assert plain.path.read_text(encoding="utf-8") == "# mine\n", "what a person wrote stays"
    run(changed)
    assert build_folder_recipe(folder, store, {}).chosen == {"vocabulary.size": "700"}
    with pytest.raises(InputError, match=r"--set seed= forgets .* remembered is vocabulary\.size\."):
        build_folder_recipe(folder, store, {"seed": " "})
    dropped = build_folder_recipe(folder, store, {"vocabulary.size": ""})
    assert dropped.chosen == {} and dropped.vocabularies != changed.vocabularies and "# Set with" not in dropped.text


def test_two_folders_of_one_name_have_a_recipe_each(tmp_path: Path) -> None:
    """Fails if what was set for one is taken for the other, or forgotten where the folder has moved."""
    store = tmp_path / "store"
    folders = [folder_of(tmp_path / side / "f", TICKETS) for side in ("a", "b") if (tmp_path / side).mkdir() is None]
    first, other = (build_folder_recipe(folder, store, {}) for folder in folders)
    assert first.path == other.path, "neither has run"
    first = build_folder_recipe(folders[0], store, {"vocabulary.size": "600"})
    write_recipe(first)
    run(first)
    other = build_folder_recipe(folders[1], store, {})
    assert other.path != first.path and not other.chosen
    assert build_folder_recipe(folders[0], store, {}).chosen == {"vocabulary.size": "600"}
    moved = folders[0].rename(tmp_path / "f")
    assert build_folder_recipe(moved, store, {}).chosen == {"vocabulary.size": "600"}


def test_what_was_fitted_is_said_in_the_recipe_and_the_lock(tmp_path: Path) -> None:
    fitted = FittedDefaults(
        looked_at=7, why=("short texts",), tables={"rules": {"gopher": {"min_words": 3}}, "language": {}}
    )
    recipe = parse_recipe(render_folder_recipe(tmp_path, "there", fitted), tmp_path / "r.toml", {})
    assert recipe.sources[0].documents.rules.gopher.min_words == 3
    assert "# By a look at 7 of its documents: short texts." in recipe.text
    lock = Lock(fitted=fitted)
    assert Lock.from_bytes(lock.to_bytes(), tmp_path) == lock and Lock.from_bytes(Lock().to_bytes(), tmp_path) == Lock()


def test_a_folder_without_text_says_what_became_of_it(tmp_path: Path) -> None:
    """Fails if nothing is left and the message does not say by which step."""
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "a.txt").write_text(" \n")
    with pytest.raises(InputError, match=r"none of 1 records is left \(parse: empty 1\)"):
        run(build_folder_recipe(folder, tmp_path / "store", {}))
    (folder / "b.txt").write_text(TICKETS[0], encoding="utf-8")
    assert run(build_folder_recipe(folder, tmp_path / "store", {})) == 1  # nothing was decided by the empty one
    for file in sorted(folder.iterdir()):
        file.rename(file.with_suffix(".dat"))
    with pytest.raises(InputError, match=r"can be read: it holds 2 \.dat\. Set its `path`"):
        build_folder_recipe(folder, tmp_path / "other", {})
