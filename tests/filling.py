"""How a test fills a topic of a broker that is well: in order, and without librdkafka's first half second, for which an
idempotent producer waits before it asks for its id.
"""

AT_ONCE = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
