import pyarrow as pa
from aiokafka.partitioner import murmur2
from hypothesis import given
from hypothesis import strategies as st

from runnel.client.partitioning import partitions_of


@given(st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=30), st.integers(1, 50), st.integers(0, 5))
def test_a_key_goes_where_kafka_s_own_clients_would_send_it(keys, count, skipped):
    expected = [-1 if key is None else (murmur2(key) & 0x7FFFFFFF) % count for key in keys]
    assert partitions_of(pa.array(keys, pa.binary()), count).tolist() == expected
    part = pa.array([b"x"] * skipped + keys, pa.binary()).slice(skipped)
    assert partitions_of(part, count).tolist() == expected
