"""Which servers may lack a part that a test needs."""

from pathlib import Path

import pytest

from tests.contract.capture.captured_postgres import skip_without
from tests.contract.views.postgres_package import PACKAGES
from tests.contract.views.postgres_server import Postgres


def test_a_part_that_an_installed_server_lacks_fails_its_test():
    server = Postgres(0, Path("/tmp"), Path("/usr/lib/postgresql/15/bin"))
    with pytest.raises(AssertionError, match="does not have ICU: install it whole"):
        skip_without(server, "ICU")


def test_a_part_that_a_server_of_a_package_lacks_skips_it():
    server = Postgres(0, Path("/tmp"), Path(f"/var/tmp/runnel/{PACKAGES['18']}/bin"))
    with pytest.raises(pytest.skip.Exception, match="does not have ICU"):
        skip_without(server, "ICU")
