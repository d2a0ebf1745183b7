"""What all tests share: the folder of real samples that may stand beside the checkout."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real samples beside the checkout; a test that needs it is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"the real samples are not here: {SHARED}")
    return SHARED
