"""`make figures` shows lines by room, the dearest test files and how the code reads. It judges nothing.

A line of code is one that holds a token: no blank line, no comment, no docstring. Test files are those of the last
`make test`. A function begins with a verb if the first word of its name is one of `VERBS`, which are those of this
code; dunder methods and properties are left out. Look at what stands out, and leave what reads well.
Cost: seven seconds of one core.
"""

import ast
import io
import json
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("corpora", "tokenizers_train", "shards", "trainer", "flows", "cloze")
ROOMS = (*PACKAGES, "benchmarks", "docs", "examples", "tests", "bootstrap.py", "conftest.py")
SECONDS = Path(".pytest_cache", "v", "cloze", "cpu_seconds")  # as tests/cpu_seconds.py writes it
NUM_FILES, LONG = 10, 40
LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)
VERBS = frozenset(
    """adapt add adjust advance align allocate answer append apply arrange ask assemble assign attend begin bind build
    calculate call cancel change check choose clean clear close collect combine compare compile compute connect convert
    copy count cover create cut decide decode decorate delete derive describe draw drop dump edit embed encode end enter
    estimate evaluate expand expect explain export extend extract fetch fill find finetune finish fit fix flush follow
    forward freeze gather generate get give go group guess hash hold import index insert install iterate join judge keep
    kill launch learn leave limit list load look make mark mask match mean measure meet mend merge mix move name note
    notify open pack pad parse pass perform pick place plan predict prepare print publish put raise rank read record
    recover refuse register release remove rename render repair repeat replace report request reset resolve restore
    resume retry return reverse round run sample save scan score search seek select send serve set settle shard shift
    ship show sign skip sort spawn spell split spread start stop store stream submit sum survey swap take tell test
    tidy tokenize trace train transform translate trim truncate try unpack update use validate verify visit wait walk
    warm watch weigh wrap write yield
    are can has is may must needs should was from to as with main""".split()
)
PARTICIPLE = re.compile(
    r"\w+ed|begun|bought|brought|built|chosen|drawn|found|given|grown|held|kept|known|laid|learnt|left|lost|made|meant|"
    r"met|said|seen|sent|shown|spent|stood|sought|taken|taught|told|torn|written"
)
NO_PARTICIPLES = {"embed", "feed", "need", "seed", "shed", "speed"}


def main(root: Path = ROOT) -> None:
    """Print all figures of a checkout."""
    packages = [root / name for name in PACKAGES if (root / name).is_dir()]
    print("Lines of code")
    for path in (path for name in ROOMS if (path := root / name).exists()):
        print(f"{count_room(path):9,}  {path.name}")
        inner = {room: count_room(room) for room in path.iterdir() if room.is_dir()} if path in packages else {}
        for room in sorted((room for room in inner if inner[room]), key=lambda room: (-inner[room], room)):
            print(f"{inner[room]:17,}  {room.name}")
    print(f"\nCPU seconds of the {NUM_FILES} dearest test files in the last `make test`")
    print("\n".join(dearest_files(root / SECONDS)) or "    not measured yet")
    print("\nHow the packages read: functions, those that begin with a verb and with a participle, their lines (the")
    print(f'median, how many have over {LONG}, the longest), and "where" in 1,000 words of docstrings')
    for path in packages:
        print(describe_reading(sorted(path.rglob("*.py"))) + f"  {path.name}")


def count_lines(text: str) -> int:
    r"""Return how many lines of a Python file are code.

    >>> count_lines('"' + '""A docstring."' + '""\n\nx = 1  # one\n# a comment\n')
    1
    """
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {line for token in tokens if token.type not in LAYOUT for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            lines -= {*range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}
    return len(lines)


def count_room(path: Path) -> int:
    """Return the lines of code of a file, or of a folder with all below it."""
    return sum(map(count_file, sorted(path.rglob("*.py")) if path.is_dir() else [path]))


@cache
def count_file(path: Path) -> int:
    """Return the lines of code of a file."""
    return count_lines(path.read_text(encoding="utf-8"))


def dearest_files(path: Path) -> Iterator[str]:
    """Yield a line for each of the test files that took most in the last `make test`."""
    seconds = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    files = [(name, number) for name, number in seconds.items() if name.endswith(".py")]
    for name, number in sorted(files, key=lambda entry: -entry[1])[:NUM_FILES]:
        yield f"{number:9.1f}  {name}"


def describe_reading(files: Iterable[Path]) -> str:
    """Return how functions of some files are named, how long they are, and how their docstrings are written."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    functions = [function for tree in trees for function in functions_of(tree)]
    kinds = Counter(kind_of_name(function.name) for function in functions)
    lengths = sorted((function.end_lineno or function.lineno) - function.lineno + 1 for function in functions)
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, DOCUMENTED))
    words = [word for node in nodes for word in re.findall(r"[a-z]+", (ast.get_docstring(node) or "").lower())]
    return (
        f"{len(functions):9,} {kinds['verb'] / len(functions):5.0%} {kinds['participle']:5} "
        f"{median(lengths):4.0f} {sum(length > LONG for length in lengths):4} {lengths[-1]:4} "
        f"{1000 * words.count('where') / len(words):6.1f}"
    )


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions and methods of a module that have a name of their own and are no properties."""
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS) and not node.name.startswith("__"):
            if not any("property" in ast.unparse(decorator) for decorator in node.decorator_list):
                yield node


def kind_of_name(name: str) -> str:
    """Return "verb", "participle" or "other", for what the name of a function begins with.

    >>> [kind_of_name(name) for name in ("_read_table", "is_open", "joined_rows", "rows_of", "feed")]
    ['verb', 'verb', 'participle', 'other', 'other']
    """
    first = name.strip("_").split("_")[0]
    if first in VERBS:
        return "verb"
    return "participle" if PARTICIPLE.fullmatch(first) and first not in NO_PARTICIPLES else "other"


if __name__ == "__main__":
    main()
