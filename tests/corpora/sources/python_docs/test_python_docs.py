"""Documentation in a Python installation: units, keys, places, and the prose that is made of docstrings."""

import sys
from pathlib import Path

import pytest
from labelled_cases import cases_of
from source_reading import read

from corpora.errors import InputError
from corpora.sources import python_docs as source_module
from corpora.sources.contract import QUARANTINED, StatCache, Tally, hash_files
from corpora.sources.python_docs import PythonDocsSource, parse_module, parse_topics
from corpora.sources.python_docstrings import docstring_to_text

METADATA = """Metadata-Version: 2.1
Name: Toy.Package
Version: 1.0
License: long text
Classifier: License :: OSI Approved :: MIT License
Description-Content-Type: text/markdown

# Toy

[![Build](https://badge)](https://ci)

The toy package shows how a package describes itself in a sentence that is long enough. A second one says more of it,
so that all of it together is a document that is not too short for the least length that a document must have.

```python
import toy
```
"""
MODULE = '''"""The toy module explains in its first sentence what it holds and for whom."""

import nothing_that_exists

raise RuntimeError("this module must never be run")

def public(x):
    """Return what the caller gave to this function, as it was given."""

def _private():
    """This sentence stands in a private function and must not be found."""

if True:
    class Small:
        """A small class is documented inside of the module's own document."""

        def method(self):
            """A method of the small class follows the docstring of its class."""

class Large:
    """A large class becomes a document of its own, by its length alone. {filler}"""

class Large:
    """A second definition of the class, in the same file as the first one. {filler}"""
'''.replace("{filler}", "It has much to say about itself. " * 70)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed distribution of a few files; the folder it lies in."""
    files = {
        "toy/__init__.py": MODULE,
        "toy/quiet.py": "x = 1\n",
        "toy/old.py": '"""Written for Python 2, as this statement shows."""\nprint "text"\n',
        "toy/tests/test_toy.py": '"""A test is no documentation, however long its docstring may be."""\n',
        "toy/data-template.py": '"""A template is no module, for nothing can import it by this name."""\n',
        "toy/data.txt": "no Python",
        "Toy_Package-1.0.dist-info/METADATA": METADATA,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    record = "".join(f"{name},,\n" for name in files)
    (tmp_path / "Toy_Package-1.0.dist-info" / "RECORD").write_text(record)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_distribution_becomes_records(toy: Path) -> None:
    source = PythonDocsSource(packages=("toy_package",), standard_library=False)
    assert [name for name, _ in source.files()] == [
        "Toy_Package-1.0/Toy_Package-1.0.dist-info/METADATA",
        "Toy_Package-1.0/toy/__init__.py",
        "Toy_Package-1.0/toy/old.py",
        "Toy_Package-1.0/toy/quiet.py",
    ]
    records = read(source)
    assert [(record.key, record.drop.reason if record.drop else None) for record in records] == [
        ("description:toy-package", None),
        ("toy", None),
        ("toy:Large", None),
        ("toy:Large#2", None),
        ("toy.old", "syntax"),
        ("toy.quiet", "no documentation"),
    ]
    assert [record.group for record in records] == [
        "toy-package", "toy-package:toy", "toy-package:toy", "toy-package:toy", "toy-package:toy.old",
        "toy-package:toy.quiet",
    ]  # fmt: skip
    assert {record.license for record in records} == {"MIT License"}
    assert "toy" not in sys.modules


def test_the_text_of_a_module_is_its_documentation_in_order(toy: Path) -> None:
    records = read(PythonDocsSource(packages=("toy-package",), standard_library=False))
    texts = {record.key: record.text for record in records}
    assert texts["toy"].split("\n\n") == [
        "The toy module explains in its first sentence what it holds and for whom.",
        "Return what the caller gave to this function, as it was given.",
        "A small class is documented inside of the module's own document.",
        "A method of the small class follows the docstring of its class.",
    ]
    assert texts["description:toy-package"].startswith("The toy package shows how a package describes itself in a")
    assert texts["description:toy-package"].endswith("must have.")


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_locators_count_lines_as_python_does(toy: Path, end: str) -> None:
    module = ("x = 'ü\x0b\x0c\u2028'\n" + MODULE).replace("\n", end).encode()
    (toy / "toy" / "__init__.py").write_bytes(module)
    source = PythonDocsSource(packages=("toy-package",), standard_library=False)
    paths = dict(source.files())
    found = {r.key: source.raw_record(paths[r.locator.file], r.locator) for r in read(source)}
    assert found["toy"] == module
    large = (found["toy:Large"] + end.encode() + found["toy:Large#2"]).splitlines()
    assert b"\n".join(large).endswith(MODULE[MODULE.index("class Large") :].encode().rstrip())
    assert found["toy:Large#2"].startswith(b"class Large:") and b"A second definition" in found["toy:Large#2"]


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(InputError, match=r"the package 'toy-pakcage' is not installed\. Install it"):
        PythonDocsSource(packages=("toy-pakcage",)).files()


def test_the_standard_library_holds_what_is_known_of_it() -> None:
    source = PythonDocsSource(packages=("pytest",))
    files = dict(source.files())
    assert {"stdlib/json/__init__.py", "stdlib/argparse.py", "stdlib/pydoc_data/topics.py"} <= set(files)
    assert not any("/test/" in name or "site-packages" in name for name in files)
    chosen = ["stdlib/json/decoder.py", "stdlib/textwrap.py", "stdlib/pydoc_data/topics.py"]
    raw = hash_files([(name, files[name]) for name in chosen], StatCache())
    tally = Tally()
    records = {r.key: r for file in raw for r in source.records(source.slices(file)[0], tally)}
    assert tally.records == len(records)
    assert "Reformat the single paragraph in 'text' to fit in lines of no more than" in records["textwrap"].text
    assert records["json.decoder"].license == "PSF-2.0"
    topics = [record for key, record in records.items() if key and key.startswith("topic:")]
    import pydoc_data.topics as known

    assert {record.key for record in topics} == {f"topic:{name}" for name in known.topics}
    assert sum(record.drop is None for record in topics) > len(topics) // 2


def test_module_units_reads_definitions_under_conditions() -> None:
    source = b"""try:
    def f():
        \'\'\'One.\'\'\'
except ImportError:
    pass
else:
    def g():
        \'\'\'Two.\'\'\'
"""
    assert parse_module(source)[0].docs == ["One.", "Two."]
    assert parse_module(b"def f():\n    'Single quotes are no docstring as PEP 257 writes it.'\n")[0].docs == []


@pytest.mark.parametrize("nested", ["not " * 50_000 + "1", "a" + ".b" * 100_000, "(" * 300, "\0"])
def test_module_units_refuses_what_the_parser_cannot_hold(nested: str) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        parse_module(b"'''A docstring.'''\nx = " + nested.encode())


def test_half_a_character_in_a_docstring_is_none() -> None:
    """Fails if an escape puts what no UTF-8 can hold into a text."""
    (module,) = parse_module(b'''"""A tide \\ud800 rose."""\n''')
    assert module.docs == ["A tide \ufffd rose."]


def test_topic_units_refuses_another_file() -> None:
    assert [unit.name for unit in parse_topics(b"topics = {'a': 'x', 'b': 'y'}")] == ["a", "b"]
    with pytest.raises(ValueError, match="no dictionary"):
        parse_topics(b"x = 1")


CASES = cases_of(__file__, "docstrings")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_docstring_to_text(case: dict[str, str]) -> None:
    assert docstring_to_text(case["docstring"]) == case["text"]


def test_a_module_in_quarantine_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the parser, which may be what ended the worker, sees the module before it is looked for there."""
    path = tmp_path / "toy.py"
    path.write_text(MODULE)
    monkeypatch.setattr(source_module, "parse_module", lambda data: pytest.fail("it is parsed"))
    (file,) = hash_files([("stdlib/toy.py", path)], StatCache())
    source, tally = PythonDocsSource(), Tally([f"{file.sha256} -1 0"])
    (record,) = source.records(source.slices(file)[0], tally)
    assert record.drop == QUARANTINED and record.key == "toy" and not record.text and tally.records == 1
