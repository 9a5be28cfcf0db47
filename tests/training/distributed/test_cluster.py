"""What `TF_CONFIG` may be, and that faults in it are named."""

import json

import pytest

from training.distributed.cluster import Cluster, read_cluster

BOTH = ["a:1", "b:2"]
FIRST = {"type": "worker", "index": 0}


def test_who_is_who():
    assert read_cluster("") == read_cluster("{}") == Cluster()
    assert read_cluster(json.dumps({"cluster": {}, "task": FIRST})) == Cluster()
    text = json.dumps({"cluster": {"worker": BOTH}, "task": FIRST | {"index": 1}})
    assert read_cluster(text) == Cluster(("a:1", "b:2"), "b:2")
    jobs = {"worker": BOTH, "chief": ["[::1]:65535"]}
    text = json.dumps({"cluster": jobs, "task": {"type": "chief", "index": 0}})
    assert read_cluster(text) == Cluster(("[::1]:65535", "a:1", "b:2"), "[::1]:65535")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "Expecting property name"),
        ("[]", "not an object"),
        ({"cluster": [1]}, "the cluster is not an object"),
        ({"cluster": {"worker": "a:1,b:2"}, "task": FIRST}, "'worker' is not a list"),
        ({"cluster": {"worker": []}, "task": FIRST}, "'worker' is not a list"),
        ({"cluster": {"worker": ["a:1", "b"]}, "task": FIRST}, "'b' is not HOST:PORT"),
        ({"cluster": {"worker": ["a:1", "b:0"]}, "task": FIRST}, "'b:0' is not HOST:PORT"),
        ({"cluster": {"worker": ["a:1", "b:65536"]}, "task": FIRST}, "is not HOST:PORT"),
        ({"cluster": {"worker": ["a:1", 2]}, "task": FIRST}, "2 is not HOST:PORT"),
        ({"cluster": {"worker": ["a:1", "a:1"]}, "task": FIRST}, "an address comes twice"),
        ({"cluster": {"worker": BOTH, "ps": ["c:3"]}, "task": FIRST}, "only chief and worker, not"),
        ({"cluster": {"worker": BOTH, "chief": ["c:3", "d:4"]}, "task": FIRST}, "more than one"),
        ({"cluster": {"worker": BOTH}}, "there is no task"),
        ({"cluster": {"worker": BOTH}, "task": {"index": 0}}, "type None is not in the cluster"),
        ({"cluster": {"worker": BOTH}, "task": FIRST | {"type": "evaluator"}}, "type 'evaluator'"),
        ({"cluster": {"worker": BOTH}, "task": FIRST | {"index": 2}}, "index 2 is not one of 0 to"),
        ({"cluster": {"worker": BOTH}, "task": FIRST | {"index": "0"}}, "index '0' is not one of"),
        ({"cluster": {"worker": BOTH}, "task": {"type": "worker"}}, "index None is not one of"),
    ],
)
def test_faults_are_named(text, fault):
    text = text if isinstance(text, str) else json.dumps(text)
    with pytest.raises(ValueError) as raised:
        read_cluster(text)
    message = str(raised.value)
    assert message.startswith("the environment variable TF_CONFIG: ")
    assert fault in message and message.endswith(f"Received: {text}") and "\n" not in message
