"""Fixtures of the trainer's tests."""

from types import ModuleType

import pytest


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """transformers, which asks its hub for nothing; a test that needs it is skipped where it is not installed."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    module: ModuleType = pytest.importorskip("transformers")
    return module
