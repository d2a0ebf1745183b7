"""The licences of what Cloze needs: `.venv/bin/python docs/third_party_licences.py` writes the page; `--check` looks.

The table has a row for each version of constraints.txt, with the licences that pip-licenses reads from the installed
package. A package that is not installed here in that version keeps its row: torch, or what another Python needs. One
that has no row yet is asked for. Cost: two seconds.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "third-party-licences.md"
HEAD = "| package | version | licence, as the package names it |\n| --- | --- | --- |\n"


def main(arguments: Sequence[str], page: Path = PAGE) -> int:
    """Write the table, or with `--check` only look; 1 if it lags or a row is missing, 2 for another argument."""
    if [*arguments] not in ([], ["--check"]):
        return 2
    text = page.read_text(encoding="utf-8")
    rows = {row.rpartition(" | ")[0]: row for row in re.findall(r"^\| \S+ \| \d.* \|$", text, re.MULTILINE)}
    rows |= {row.rpartition(" | ")[0]: row for row in installed_rows()}
    pins = re.findall(r"^(\S+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    wanted = sorted(f"| {canonical(name)} | {version}" for name, version in pins)
    absent = [pin for pin in wanted if pin not in rows]
    for pin in absent:
        print(f"{pin} | is not installed as constraints.txt has it: run `make develop`", file=sys.stderr)
    new = text.partition(HEAD)[0] + HEAD + "".join(f"{rows[pin]}\n" for pin in wanted if pin in rows)
    if arguments and new != text:
        print(f"{page.name} lags behind the packages: run `python docs/third_party_licences.py`", file=sys.stderr)
    elif not arguments and not absent:
        page.write_text(new, encoding="utf-8")
    return 1 if absent or (arguments and new != text) else 0


def installed_rows() -> list[str]:
    """Return a row for each installed package; of a licence that is a whole text, its first line."""
    command = [sys.executable, "-m", "piplicenses", "--with-system", "--from=mixed", "--format=json"]
    packages = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [
        f"| {canonical(each['Name'])} | {each['Version'].removesuffix('+cpu')} | {each['License'].splitlines()[0]} |"
        for each in packages
        if each["Name"] != "torch" or each["Version"].endswith("+cpu")  # builds for GPUs have other licences
    ]


def canonical(name: str) -> str:
    """Return a package's name as it is compared.

    >>> canonical("ruamel.yaml.clib")
    'ruamel-yaml-clib'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
