"""`[notify]`: whom a run notifies, and of what.

No address is in a recipe, because it is copied into the store and its report: the recipe names the environment variable
that holds it. None of this decides a byte, so it is in no fingerprint.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from corpora.errors import InputError
from corpora.store.settings import bind_settings, check_choice, check_range, parse_toml
from flows.recipes.tables import override

EVENTS = ("failure", "stall", "bounds", "damage", "approval")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifySettings:
    """Notifications that a run failed, stalls, crosses a bound or sets damage aside, or a release waits for approval.

    webhook:         the name of an environment variable with the address: of http, to which a JSON object is posted, or
                     another that Apprise knows (mailto://, slack://)
    command:         a program and its arguments, which reads the same JSON object on its standard input
    on:              of what: failure, stall, bounds, damage, approval
    stall_seconds:   without a finished part, a record or a step of training after which a run is said to stand still
    command_seconds: that the command may take
    """

    webhook: str = ""
    command: tuple[str, ...] = ()
    on: tuple[str, ...] = EVENTS
    stall_seconds: float = 3600.0
    command_seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.webhook and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.webhook):
            raise InputError(
                "notify.webhook must be the name of an environment variable that holds the address, as in "
                'webhook = "CLOZE_WEBHOOK": an address may be a secret, and a recipe is copied into its store.'
            )
        if self.command and not self.command[0]:
            raise InputError("notify.command begins with an empty text: name a program, then its arguments.")
        for event in self.on:
            check_choice("notify.on", event, EVENTS)
        check_range("notify.stall_seconds", self.stall_seconds, 1.0, 1e7)
        check_range("notify.command_seconds", self.command_seconds, 0.1, 600.0)

    @property
    def somebody(self) -> bool:
        """Return whether anybody is notified of anything."""
        return bool((self.webhook or self.command) and self.on)


def notify_of_text(text: str, overrides: Mapping[str, str]) -> NotifySettings:
    """Return whom to notify of a recipe that cannot be read: its `[notify]` table, whatever the rest says.

    >>> notify_of_text("[shards" + chr(10) + "[notify]" + chr(10) + "webhook = 'HOOK'", {}).webhook
    'HOOK'
    """
    section = re.search(r"^\[notify\].*?(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    try:
        table = parse_toml(section[0] if section else "")
        for key, value in overrides.items():
            if key.startswith("notify."):
                override(table, key, value)
        return bind_settings(NotifySettings, table.get("notify", {}), "notify")
    except ValueError:
        return NotifySettings()
