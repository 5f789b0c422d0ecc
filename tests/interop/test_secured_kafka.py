"""The raw client against a real Apache Kafka that asks for TLS, for a login, or for both."""

import pickle
import time

import pytest

from runnel import Raw, Reading
from runnel.client import Admin, TimedOut, Unreachable, positions
from runnel.client.bodies import bodies
from runnel.client.cluster import Cluster
from runnel.client.errors import InsecureConnection, LoginFailed
from runnel.client.fetch import Fetcher
from runnel.client.security import Security
from runnel.client.transaction import Transaction
from runnel.client.writing import write
from runnel.pipeline.source.spec import Spec
from runnel.records import Record
from tests.contract.raw_reading import records_in
from tests.contract.source.bench import Bench
from tests.interop.certificates import PASSWORD, make_certificates
from tests.interop.kafka_server import HOST, kafka_server
from tests.ports import free_port

pytestmark = pytest.mark.servers

TOPIC = "secured"
USER, USER_PASSWORD = "shop=1", "tea and milk"  # a name may have what SCRAM gives a meaning to
LOGIN_SECONDS = 5
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
JAAS_PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="broker" password="unused" user_plain="{USER_PASSWORD}";'
)
JAAS_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def ports(tmp_path_factory, certificates):
    """Where each protocol of one broker listens."""
    ports = {name: free_port() for name in ("SSL", "SASL_PLAINTEXT", "SASL_SSL")}
    settings = {
        "ssl.keystore.location": str(certificates.keystore),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(certificates.truststore),
        "ssl.truststore.password": PASSWORD,
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connections.max.reauth.ms": str(LOGIN_SECONDS * 1_000),
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        settings[f"listener.name.{listener}.plain.sasl.jaas.config"] = JAAS_PLAIN
        for mechanism in MECHANISMS[1:]:
            settings[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = JAAS_SCRAM
    users = [
        argument
        for mechanism in MECHANISMS[1:]
        for argument in ("--add-scram", f'{mechanism}=[name="{USER}",password="{USER_PASSWORD}"]')
    ]
    place = tmp_path_factory.mktemp("kafka")
    with kafka_server(place, settings, listeners=ports, formatting=users) as kafka:
        with Admin(kafka.bootstrap) as admin:
            admin.create(TOPIC, partitions=1)
        yield ports


def login(protocol, mechanism, certificates, **changed):
    settings = {
        "security.protocol": protocol,
        "ssl.ca.location": str(certificates.ca),
        "sasl.mechanism": mechanism,
        "sasl.username": "plain" if mechanism == "PLAIN" else USER,
        "sasl.password": USER_PASSWORD,
    }
    return Security.of(settings | {name.replace("_", "."): value for name, value in changed.items()})


def written_and_read(port, security, name):
    """A transaction, and what a reader finds of it."""
    with Cluster(f"{HOST}:{port}", security=security, timeout=60) as cluster:
        place = TOPIC, 0
        before = positions.latest(cluster, [place])[place]
        transaction = Transaction(cluster, name)
        ticket = transaction.begin([place])
        with pickle.loads(pickle.dumps(cluster)) as elsewhere:
            write(elsewhere, ticket, {place: bodies([Record(name.encode())] * 1_000)})
        transaction.commit()
        deadline = time.monotonic() + 60
        while (end := positions.latest(cluster, [place])[place]) <= before:
            assert time.monotonic() < deadline, "the transaction is still open"
        found = [record.value for each in Fetcher(cluster).read(*place, before, end) for record in records_in(each)]
        assert found == [name.encode()] * 1_000


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_login_lets_a_client_write_and_read(ports, certificates, protocol, mechanism):
    written_and_read(ports[protocol], login(protocol, mechanism, certificates), f"{protocol} {mechanism}")


def test_a_certificate_lets_a_client_write_and_read(ports, certificates):
    settings = {
        "security.protocol": "ssl",
        "ssl.ca.location": certificates.ca,
        "ssl.certificate.location": certificates.client_certificate,
        "ssl.key.location": certificates.client_key,
    }
    written_and_read(ports["SSL"], Security.of(settings), "by certificate")


def test_a_source_reads_over_tls_with_a_login(ports, certificates, tmp_path):
    security = login("SASL_SSL", "SCRAM-SHA-512", certificates)
    address = f"{HOST}:{ports['SASL_SSL']}"
    source = Bench(address, tmp_path, TOPIC, security, schema=Raw(), read=Reading(start="latest"))
    assert Spec.from_text(source.spec.to_text()) == source.spec
    assert USER_PASSWORD not in repr(source.spec)
    start = source.planner.first()
    written_and_read(ports["SASL_SSL"], security, "for a source")
    assert [row["value"] for row in source.read(start=start)[0]] == [b"for a source"] * 1_000
    source.cluster.close()


def test_a_login_that_ends_is_renewed(ports, certificates):
    security = login("SASL_SSL", "SCRAM-SHA-512", certificates)
    with Cluster(f"{HOST}:{ports['SASL_SSL']}", security=security, timeout=60) as cluster:
        start = time.monotonic()
        while time.monotonic() < start + 2 * LOGIN_SECONDS:
            assert positions.earliest(cluster, [(TOPIC, 0)]) == {(TOPIC, 0): 0}
            time.sleep(0.5)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told(ports, certificates, mechanism):
    security = login("SASL_SSL", mechanism, certificates, sasl_password="guessed")
    with Cluster(f"{HOST}:{ports['SASL_SSL']}", security=security) as cluster, pytest.raises(LoginFailed) as told:
        cluster.reach()
    assert f'does not let "{security.username}" in, by {mechanism}: ' in told.value.what
    assert "guessed" not in str(told.value)


def test_an_authority_that_is_not_trusted_is_told(ports, certificates):
    security = login("SASL_SSL", "PLAIN", certificates, ssl_ca_location=str(certificates.stranger))
    with (
        Cluster(f"{HOST}:{ports['SASL_SSL']}", security=security) as cluster,
        pytest.raises(InsecureConnection) as told,
    ):
        cluster.reach()
    assert "ssl.ca.location" in told.value.hint


def test_a_broker_under_another_name_is_told(ports, certificates):
    security = login("SASL_SSL", "PLAIN", certificates)
    with (
        Cluster(f"localhost:{ports['SASL_SSL']}", security=security) as cluster,
        pytest.raises(InsecureConnection, match="localhost"),
    ):
        cluster.reach()
    trusting = login("SASL_SSL", "PLAIN", certificates, ssl_endpoint_identification_algorithm="none")
    with Cluster(f"localhost:{ports['SASL_SSL']}", security=trusting) as cluster:
        cluster.reach()


def test_a_client_without_a_certificate_is_told_where_one_is_asked_for(ports, certificates):
    security = Security.of({"security.protocol": "SSL", "ssl.ca.location": str(certificates.ca)})
    with (
        Cluster(f"{HOST}:{ports['SSL']}", security=security) as cluster,
        pytest.raises((InsecureConnection, Unreachable)),
    ):
        cluster.reach()


def test_a_plain_client_at_a_listener_with_tls_is_told(ports):
    with (
        Cluster(f"{HOST}:{ports['SSL']}") as cluster,
        pytest.raises(InsecureConnection, match="it asks for TLS") as told,
    ):
        cluster.reach()
    assert "security.protocol" in told.value.hint


def test_a_client_with_tls_at_a_plain_listener_is_told(ports, certificates):
    security = Security.of({"security.protocol": "SSL", "ssl.ca.location": str(certificates.ca)})
    with (
        Cluster(f"{HOST}:{ports['SASL_PLAINTEXT']}", security=security, timeout=5) as cluster,
        pytest.raises((InsecureConnection, Unreachable, TimedOut)),
    ):
        cluster.reach()
