"""Reports the cluster that a run would have, for `cloze plan` and `cloze doctor`."""

from corpora.errors import InputError
from flows.command.doctor import Finding, fail, ok
from flows.recipes.run_settings import LOCAL_ENGINE, parse_engine


def engine_lines(address: str) -> list[str]:
    """Return a line on the engine, and one where something must be done first; none for local processes."""
    lines = []
    for finding in engine_findings(address):
        lines += [f"Engine {finding.fact}.", *([f"Before a run: {finding.remedy}."] if finding.remedy else [])]
    return lines


def engine_findings(address: str | None) -> list[Finding]:
    """Return the engine as `cloze doctor` judges it. Raises InputError if the address is not one."""
    if address is None or parse_engine(address) == LOCAL_ENGINE:
        return []
    from flows.engines.open_engine import engine_seen  # with the pool

    try:
        fact, remedy = engine_seen(address)
    except InputError as error:
        fact, remedy = address, str(error).removesuffix(".")
    return [fail("engine", fact, remedy) if remedy else ok("engine", fact)]
