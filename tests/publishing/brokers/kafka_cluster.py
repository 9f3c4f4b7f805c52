"""A Kafka cluster in a process: librdkafka's own stand-in, which speaks the protocol, by its C functions.

Called as `python -m tests.publishing.brokers.kafka_cluster TOPIC`; prints its address, then does what it is told line
by line: down, up, `error CODE` (of the topic; 0 for none), `refuse CODE` (the next message).
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import confluent_kafka

BROKERS, PARTITIONS = 1, 3
PRODUCER, PRODUCE_REQUEST = 0, 0


def library() -> ctypes.CDLL:
    (path,) = (Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka-*.so*")
    found = ctypes.CDLL(str(path))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(found, name).restype = ctypes.c_void_p
    found.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return found


def main() -> None:
    topic, kafka = sys.argv[1].encode(), library()
    message = ctypes.create_string_buffer(512)
    handle = kafka.rd_kafka_new(PRODUCER, ctypes.c_void_p(kafka.rd_kafka_conf_new()), message, len(message))
    assert handle, message.value
    cluster = ctypes.c_void_p(kafka.rd_kafka_mock_cluster_new(ctypes.c_void_p(handle), BROKERS))
    assert kafka.rd_kafka_mock_topic_create(cluster, topic, PARTITIONS, BROKERS) == 0
    print(kafka.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
    for line in sys.stdin:
        match line.split():
            case ["down"]:
                kafka.rd_kafka_mock_broker_set_down(cluster, 1)
            case ["up"]:
                kafka.rd_kafka_mock_broker_set_up(cluster, 1)
            case ["error", code]:
                kafka.rd_kafka_mock_topic_set_error(cluster, topic, int(code))
            case ["refuse", code]:
                codes = (ctypes.c_int * 1)(int(code))
                kafka.rd_kafka_mock_push_request_errors_array(cluster, PRODUCE_REQUEST, 1, codes)
            case _:
                raise ValueError(line)
        print("done", flush=True)


if __name__ == "__main__":
    main()
