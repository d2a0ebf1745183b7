"""`cloze new`: each template is a recipe that runs as it is, and keeps what its kind of text is like."""

from pathlib import Path

import pytest
from launched import cloze, new_home
from small_recipe import Run, prose, run_lock

from corpora.errors import InputError
from corpora.sources.contract import StatCache
from corpora.store.places.place import Place
from flows.recipes.lock import Lock, resolve_raw_files
from flows.recipes.recipe import read_recipe
from flows.recipes.recipe_templates import describe_next_steps, read_templates, write_new_recipe

SMALL = {
    "vocabulary.size": "300",
    "shards.length": "32",
    "duplicates.threshold": "0.95",
    "rules.repetition.enabled": "false",
}
SIGNATURE = "Kind regards\nJo Tallow, Harbour Office, Quay Road 3"
TICKETS = [
    "Printer on the second floor is out of toner again.",
    "Please reset my password, jo.tallow@harbour-office.org",
    "The gate camera shows nothing since Monday. Could someone look?",
    "Radio 4 does not charge.",
    "Where do I find last year's tide tables?",
]  # fmt: skip
CONTRACT = [
    "AGREEMENT made on the 3rd day of May between the Harbour Office (the Owner) and the Tenant named below.",
    *(f"{n}. The Tenant shall {what} of berth {n} at the cost of the Tenant, subject to clause {n + 1}."
      for n, what in enumerate(("keep the lamp", "mend the rope", "paint the rail", "clear the steps"), 1)),
    "Name ............................\nDate ............................",
    "The Owner has signed this and the Tenant has signed it with the witness who is named under it.",
]  # fmt: skip
ABSTRACT = (
    "Chloride channelopathies were characterised electrophysiologically in 12 patients (mean age 34.5 +/- 2.1 y). "
    "Whole-cell recordings with 5-nitro-2-(3-phenylpropylamino)benzoate showed a 37% reduction of the current."
)


def pubmed(number: int) -> str:
    return (
        f"<PubmedArticle><MedlineCitation><PMID Version='1'>{number}</PMID><Article><ArticleTitle>Chloride currents "
        f"{number}</ArticleTitle><Abstract><AbstractText>{ABSTRACT}</AbstractText></Abstract></Article>"
        "</MedlineCitation></PubmedArticle>"
    )


def ticket(number: int) -> str:
    """The text of a ticket; most have numbers of their own."""
    text = TICKETS[number % 5]
    return f"{text if number < 5 else f'{text} Case {number}, berth {number * 7}.'}\n\n{SIGNATURE}\n"


CLAIMS = [f"{n}. The lamp of claim 1, wherein the lamp has {n} wicks and a rim." for n in range(2, 30)]
CHAPTERS = [f"CHAPTER {n}\n\n" + "\n\n".join(prose(40 * n + k) for k in range(20)) for n in range(1, 4)]
RAW: dict[str, dict[str, str]] = {  # by template: files of its kind of text, each a document
    "biomedical": {"pubmed26n0001.xml": f"<PubmedArticleSet>{pubmed(7)}</PubmedArticleSet>"},
    "books": {"tides.txt": "\n\n".join(CHAPTERS)},
    "chats": {"chat.txt": "mary: hi\njohn: hi\nmary: is the boat in?\njohn: no\nmary: ok\njohn: ok\n" * 3},
    "clinical": {"note.txt": "HPI: 67 y/o male, c/o chest pain. BP 120/80, HR 72, afebrile.\nA/P: d/c home."},
    "general": {"page.txt": prose(1)},
    "legal": {"lease.txt": "\n\n".join(CONTRACT)},
    "patents": {"lamp.txt": "\n\n".join(["A lamp", "1. A lamp that burns oil.", *CLAIMS])},
    "tickets": {f"{number:02}.txt": ticket(number) for number in range(60)},
}


def fill(template: str, raw: Path) -> None:
    """Write raw text of a template's kind."""
    raw.mkdir(parents=True)
    for name, text in RAW[template].items():
        (raw / name).write_text(text)


def run(path: Path) -> Run:
    recipe = read_recipe(path, SMALL)
    return run_lock(Place(recipe.store), recipe, resolve_raw_files(recipe, Lock(), StatCache()).lock)


@pytest.mark.parametrize("template", sorted(read_templates()))
def test_a_template_keeps_text_of_its_kind(template: str, tmp_path: Path) -> None:
    """Fails if a template is no recipe, or its rules throw away what they are for."""
    path = write_new_recipe("own", template, tmp_path)
    fill(template, tmp_path / "raw" / "own")
    manifest = run(path).of("documents")[0].manifest
    outcomes = manifest.ledger.find_account("records").outcomes
    assert outcomes["documents"] == len(RAW[template]), outcomes


def test_tickets_lose_signatures_and_addresses_and_no_note(tmp_path: Path) -> None:
    path = write_new_recipe("own", "tickets", tmp_path)
    fill("tickets", tmp_path / "raw" / "own")
    ended = run(path)
    figures = ended.of("documents")[0].manifest.ledger.figures
    assert figures["lines removed: repeated"] == 120 and figures["masked: email"] == 12
    texts = [document.text for document in ended.corpus.iter_documents()]
    assert TICKETS[3] in texts and not any("Quay Road" in text or "harbour-office.org" in text for text in texts)


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    path = write_new_recipe("own", "general", tmp_path)
    path.write_text("# mine\n")
    with pytest.raises(InputError, match="is left as it is"):
        write_new_recipe("own", "books", tmp_path)
    assert path.read_text() == "# mine\n"


@pytest.mark.parametrize(("name", "template", "said"), [("../own", "general", "letters"), ("own", "poems", "'books'")])
def test_a_wrong_name_or_template_is_refused(name: str, template: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        write_new_recipe(name, template, tmp_path)
    assert not list(tmp_path.rglob("*.toml"))


def test_the_command_writes_a_recipe_and_says_how_to_go_on(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    done = cloze(home, "new", "notes", "--template", "tickets")
    assert done.returncode == 0 and "cloze preview notes --recipe notes.toml" in done.stdout
    assert 'name = "notes"' in (home / "notes.toml").read_text()


def test_what_is_not_fetched_yet_is_named_with_the_command_that_fetches_it(tmp_path: Path) -> None:
    """Fails if `cloze plan` of a fresh recipe tells a user to set a path, where its raw files are to be fetched."""
    path = write_new_recipe("own", "bert-base", tmp_path)
    recipe = read_recipe(path)
    books = Path(recipe.sources[0].source.path)
    books.mkdir(parents=True)
    (books / "tides.txt").write_text(prose(1))
    with pytest.raises(InputError, match=r"nothing is fetched yet.*`cloze fetch \S*own\.toml` brings"):
        resolve_raw_files(recipe, Lock(), StatCache())
    assert "cloze fetch own.toml\n" in describe_next_steps(path, "bert-base")
    assert "cloze fetch" not in describe_next_steps(path, "modernbert-base")
