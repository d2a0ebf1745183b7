"""Waiting before the next attempt: twice as long each time, and what a server asks for, up to a bound.

None of it reaches any bytes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Waiting times, in seconds.

    first_seconds: before the second attempt; doubled for each one after
    most_seconds:  bound of every wait, also of one that a server asks for
    now:           the time of day that a date in `Retry-After` is compared with, in seconds since 1970
    """

    first_seconds: float = 1.0
    most_seconds: float = 300.0
    now: Callable[[], float] = time.time

    def step(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row.

        >>> [Patience().step(failures) for failures in (1, 2, 3, 99)]
        [1.0, 2.0, 4.0, 300.0]
        """
        return min(self.most_seconds, self.first_seconds * 2.0 ** min(failures - 1, 60))

    def asked_for(self, header: str | None) -> float | None:
        """Seconds that a `Retry-After` header asks for, bounded; None where it gives none (RFC 9110, 10.2.3).

        >>> Patience().asked_for("120"), Patience(now=lambda: 0.0).asked_for("Thu, 01 Jan 1970 00:00:07 GMT")
        (120.0, 7.0)
        """
        if header is None:
            return None
        text = header.strip()
        if text.isascii() and text.isdigit():
            return min(float(text), self.most_seconds)
        try:
            seconds = parsedate_to_datetime(text).timestamp() - self.now()
        except (ValueError, OverflowError):
            return None
        return min(max(seconds, 0.0), self.most_seconds)
