"""States that a Redis Cluster never leaves by itself: keeper.sh does not let it come there, and gets it out."""

from redis_pods import COUNT, Pod, check


def nodes(pod):
    """What it knows of each node, by id: its words in CLUSTER NODES."""
    return {words[0]: words for words in map(str.split, pod.ask("CLUSTER", "NODES").splitlines()) if len(words) > 7}


def epoch_of(pod, node):
    return int(nodes(pod).get(node, ["0"] * 8)[6])


def check_epochs(cluster):
    """Each master has the epoch of its line in `peers`, or a later one by a vote of the others; what lies between is that of
    a master that met another one with the same."""
    for pod in filter(Pod.is_master, cluster.pods):
        epoch = epoch_of(pod, pod.ask("CLUSTER", "MYID"))
        check(epoch == pod.number + 1 or epoch > COUNT, f"{pod.number}, a new master, has the epoch {epoch}")
