"""Databases that a log leaves out."""

import pytest

from runnel.capture.mariadb.readiness import left_out
from runnel.capture.mariadb.spelling import Letters


@pytest.mark.parametrize(
    ("only", "without", "letters", "setting"),
    [
        ("", "", Letters.AS_WRITTEN, None),
        ("other,Shop", "", Letters.AS_WRITTEN, None),
        ("other", "", Letters.AS_WRITTEN, "binlog_do_db"),
        ("shop", "", Letters.AS_WRITTEN, "binlog_do_db"),
        ("shop", "", Letters.LOWERED, None),
        ("Shop", "Shop", Letters.AS_WRITTEN, None),  # what is to be logged goes before what is not
        ("", "other,Shop", Letters.AS_WRITTEN, "binlog_ignore_db"),
        ("", "shop", Letters.AS_WRITTEN, None),
        ("Shop", "", Letters.LOWERED, "binlog_do_db"),
        ("", "Shop", Letters.LOWERED, None),
        ("", "Shop", Letters.KEPT, "binlog_ignore_db"),
    ],
)
def test_a_database_is_left_out_by_one_setting_or_the_other(only, without, letters, setting):
    found = left_out("Shop", only, without, letters)
    assert (found and found[0]) == setting
