"""Prepares what a run needs: one folder for caches and the orchestrator's home, and an environment that points there.

All of it is under `CLOZE_HOME` (default: `.cloze` in the checkout; compiled kernels, which all checkouts of a user
share, are then in the user's own folder for caches, as is all of an installed wheel). What libraries take from it is
set here, before anything heavy is imported, because Prefect reads its own when it is; `CLOZE_HOME` is read once more
by `corpora.kernels.compiling`.
"""

import os
import tomllib
from collections.abc import MutableMapping
from pathlib import Path

from corpora.errors import InputError
from corpora.kernels.compiling import find_default_home, make_private_folder

ROOT = Path(__file__).resolve().parents[1]
PROBE_BYTES = 1 << 20  # a full disk takes names, and even a block
LOOPBACK = ("127.0.0.1", "localhost", "::1")

QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
# What Prefect logs goes to its server and the UI; the terminal has lines of our own.
DEFAULTS = {
    "PREFECT_LOGGING_LEVEL": "INFO",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    # `flows.orchestration.recording` waits for an absent server; a single request must not wait for minutes.
    # If one hangs, two requests and the pause between them take half a minute.
    "PREFECT_API_REQUEST_TIMEOUT": "14",
    "PREFECT_CLIENT_MAX_RETRIES": "1",
}


def prepare_environment(environment: MutableMapping[str, str]) -> Path:
    """Create the CLOZE_HOME folder, and set environment variables so that libraries keep their caches in it.

    The folder also holds the Prefect database. If the user has configured a Prefect API, its URL is kept in
    `CLOZE_PREFECT_API`.

    Args:
        environment: The environment variables, which are changed in place.

    Returns:
        The absolute path of the folder.

    Raises:
        InputError: If the folder cannot be written, or cannot be made private.
    """
    home = make_home(environment)
    user_home = Path(environment.get("HOME", "/nonexistent"))
    ambient = find_ambient_api(environment, user_home)
    if ambient is not None:
        environment["CLOZE_PREFECT_API"] = ambient
        if environment.get("PREFECT_UI_URL"):
            environment["CLOZE_PREFECT_UI"] = environment["PREFECT_UI_URL"]
    environment["CLOZE_HOME"] = str(home)  # absolute, for processes that start in another folder
    environment["PREFECT_HOME"] = str(home / "prefect")
    environment["PREFECT_PROFILES_PATH"] = str(home / "prefect" / "profiles.toml")
    environment["HF_HOME"] = str(home / "huggingface")
    environment.update(QUIET)
    for name, value in DEFAULTS.items():
        environment.setdefault(name, value)
    exclude_loopback_from_proxy(environment)
    return home


def make_home(environment: MutableMapping[str, str]) -> Path:
    """Create the CLOZE_HOME folder (for caches and the Prefect database) if needed, and return its absolute path.

    If `CLOZE_HOME` is not set, the default of `find_default_home` is used. Other users get no access to the folder,
    because run records contain text from documents. If `CLOZE_HOME` names a folder that already exists, only its
    subfolder `prefect` is made private.

    Args:
        environment: The environment variables.

    Raises:
        InputError: If the folder cannot be written, or cannot be made private.
    """
    given = environment.get("CLOZE_HOME")
    home = Path(given or find_default_home(environment)).resolve()
    try:
        exists = given and home.exists()  # then it may be any folder, and its permissions are not ours
        for folder in (home / "prefect",) if exists else (home, home / "prefect"):
            make_private_folder(folder)
        _check_writable(home / f".probe-{os.getpid()}")
    except OSError as error:
        raise InputError(
            f"The cache folder {home} cannot be written, or not be kept from other users ({error.strerror}). Set "
            "CLOZE_HOME to a folder of your own."
        ) from error
    return home


def _check_writable(path: Path) -> None:
    """Write a file of PROBE_BYTES zero bytes at a path and remove it. Raises OSError if it cannot be written."""
    try:
        path.write_bytes(bytes(PROBE_BYTES))
    finally:
        path.unlink(missing_ok=True)


def find_ambient_api(environment: MutableMapping[str, str], user_home: Path) -> str | None:
    """Find the Prefect API that is set in the user's environment variables or active Prefect profile.

    Environment variables take precedence over the profile. Credentials for the profile's API, and its UI URL, are
    copied into the environment variables unless they are already set there.

    Args:
        environment: The environment variables, which are changed in place.
        user_home: The user's home folder, which may contain `.prefect`.

    Returns:
        The URL of the API, or None if none is set or the profile cannot be read.
    """
    if environment.get("PREFECT_API_URL"):
        return environment["PREFECT_API_URL"]
    prefect_home = Path(environment.get("PREFECT_HOME") or user_home / ".prefect")
    profiles = Path(environment.get("PREFECT_PROFILES_PATH") or prefect_home / "profiles.toml")
    try:
        table = tomllib.loads(profiles.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None  # an unreadable profile counts as none
    active = environment.get("PREFECT_PROFILE") or table.get("active")
    profile = table.get("profiles", {}).get(active, {})
    for name in ("PREFECT_API_KEY", "PREFECT_API_AUTH_STRING", "PREFECT_UI_URL"):
        if name in profile and "PREFECT_API_URL" in profile:
            environment.setdefault(name, str(profile[name]))
    address = profile.get("PREFECT_API_URL")
    return str(address) if address else None


def exclude_loopback_from_proxy(environment: MutableMapping[str, str]) -> None:
    """Add the loopback addresses to `no_proxy` and `NO_PROXY`, because the embedded Prefect server listens there.

    Args:
        environment: The environment variables, which are changed in place.
    """
    for name in ("no_proxy", "NO_PROXY"):
        hosts = [host for host in environment.get(name, "").split(",") if host]
        environment[name] = ",".join([*hosts, *(host for host in LOOPBACK if host not in hosts)])
