"""Settings: what determines bytes, and recipes read strictly."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.errors import InputError
from corpora.store.settings import bind_settings, check_choice, check_range, later_field, limit_field, to_settings_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    rate: float = 0.15
    patience: int = limit_field(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    size: int
    name: str = "plain"
    enabled: bool = True
    keep: tuple[str, ...] = ("en",)
    span: tuple[int, float] = (0, 1.0)
    language: str | None = None
    inner: Inner = field(default_factory=Inner)
    stages: tuple[Inner, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    workers: int = limit_field(4)
    newer: float = later_field(neutral=1.0)


def bound(**table: Any) -> Outer:
    return bind_settings(Outer, {"size": 3, **table}, "stage")


def test_a_table_becomes_settings() -> None:
    plain = {"size": 7, "name": "other", "enabled": False, "language": "en", "fields": {"text": "body"}}
    nested = {"keep": ["en", "de"], "span": [1, 2], "inner": {"rate": 1}, "stages": [{"rate": 0.5}, {"patience": 1}]}
    settings = bind_settings(Outer, {**plain, **nested}, "stage")
    stages = (Inner(rate=0.5), Inner(patience=1))
    assert settings == Outer(**plain, keep=("en", "de"), span=(1, 2.0), inner=Inner(rate=1.0), stages=stages)
    assert isinstance(settings.inner.rate, float) and isinstance(settings.span[1], float)
    assert bound() == Outer(size=3)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"nmae": "x"}, "stage has no key 'nmae': did you mean 'name'?"),
        ({"zzz": 1}, "stage has no key 'zzz': it must be one of 'size', 'name'"),
        ({"inner": {"rat": 1.0}}, "stage.inner has no key 'rat': did you mean 'rate'?"),
        ({"stages": [{}, {"patienc": 1}]}, "stage.stages[1] has no key 'patienc': did you mean 'patience'?"),
        ({"size": "7"}, "stage.size = '7' is of the wrong type: it must be a whole number."),
        ({"size": 7.0}, "stage.size = 7.0 is of the wrong type: it must be a whole number."),
        ({"size": True}, "stage.size = True is of the wrong type: it must be a whole number."),
        ({"size": None}, "stage.size = None is of the wrong type: it must be a whole number."),
        ({"name": 1}, "stage.name = 1 is of the wrong type: it must be a text."),
        ({"enabled": 1}, "stage.enabled = 1 is of the wrong type: it must be true or false."),
        ({"language": 5}, "stage.language = 5 is of the wrong type: it must be a text."),
        ({"inner": {"rate": "0.15"}}, "stage.inner.rate = '0.15' is of the wrong type: it must be a number."),
        ({"inner": {"rate": True}}, "stage.inner.rate = True is of the wrong type: it must be a number."),
        ({"inner": {"rate": math.nan}}, "stage.inner.rate = nan is not a number to count with: give a finite one."),
        ({"newer": math.inf}, "stage.newer = inf is not a number to count with: give a finite one."),
        ({"newer": 10**400}, "stage.newer is a number of 401 digits, which nothing here counts with: lower it."),
        ({"inner": 0.15}, "stage.inner must be a table of settings, not 0.15."),
        ({"keep": "en"}, "stage.keep must be a list, not 'en'."),
        ({"keep": ["en", 2]}, "stage.keep[1] = 2 is of the wrong type: it must be a text."),
        ({"span": [1]}, "stage.span must be a list of 2 values, not of 1."),
        ({"span": ["a", 1]}, "stage.span[0] = 'a' is of the wrong type: it must be a whole number."),
        ({"fields": ["text"]}, "stage.fields must be a table, not ['text']."),
        ({"fields": {"text": 1}}, "stage.fields.text = 1 is of the wrong type: it must be a text."),
    ],
    ids=str,
)
def test_a_mistake_is_named_with_its_place_and_remedy(table: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        bound(**table)
    assert str(raised.value).startswith(message)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(InputError, match="stage lacks the key 'size': it has no default, so it must be given"):
        bind_settings(Outer, {}, "stage")


def test_a_range_may_have_no_upper_bound_and_words_of_its_own() -> None:
    check_range("min_words", 10**9, 0, remedy=": use 0 (rule off) or more.")
    with pytest.raises(InputError, match=r"^min_words is -1: use 0 \(rule off\) or more\.$"):
        check_range("min_words", -1, 0, remedy=": use 0 (rule off) or more.")


@given(st.floats(allow_nan=True))
def test_a_range_is_closed_and_holds_only_numbers(value: float) -> None:
    if 0.0 <= value <= 1.0:
        check_range("rate", value, 0.0, 1.0)
    else:
        with pytest.raises(InputError):
            check_range("rate", value, 0.0, 1.0)


def test_a_choice_is_one_of_its_words() -> None:
    check_choice("kind", "static", ("static", "dynamic"))
    with pytest.raises(InputError, match=r"kind = 'Static' is not known: did you mean 'static'\? It must be"):
        check_choice("kind", "Static", ("static", "dynamic"))


def test_limits_and_neutral_additions_enter_no_fingerprint() -> None:
    plain = to_settings_json(Outer(size=3))
    defaults = {"name": "plain", "enabled": True, "keep": ["en"], "span": [0, 1.0], "language": None}
    assert plain == {"size": 3, **defaults, "inner": {"rate": 0.15}, "stages": [], "fields": {}}
    assert to_settings_json(Outer(size=3, workers=9, inner=Inner(patience=9))) == plain
    assert to_settings_json(Outer(size=3, newer=2.0)) == {**plain, "newer": 2.0}


def test_settings_inside_tables_and_lists_are_written_out() -> None:
    @dataclass(frozen=True)
    class Nested:
        by_name: Mapping[str, Any] = field(default_factory=dict)

    nested = Nested({"a": Inner(patience=9), "b": (Inner(rate=1.0),), "c": {"d": Inner()}})
    assert to_settings_json(nested) == {
        "by_name": {"a": {"rate": 0.15}, "b": [{"rate": 1.0}], "c": {"d": {"rate": 0.15}}}
    }
