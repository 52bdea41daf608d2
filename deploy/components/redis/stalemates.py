"""States that a Redis Cluster never leaves by itself: keeper.sh does not let it come there, and gets it out."""

import shutil
import signal

from redis_pods import COUNT, Pod, check, wait_until


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


def crowd(cluster, rng):
    """A replica follows a master that has one already, as when two choose at once, and its own has none. A master sends what
    it has 5 s after it was asked for it, as by default, so that the link is not up at once."""
    ids = {pod.ask("CLUSTER", "MYID"): pod for pod in cluster.pods}
    view = nodes(cluster.pods[0])
    moved_id, stays_id = rng.sample([node for node in ids if "slave" in view[node][2]], 2)
    for pod in cluster.pods:
        check(pod.ask("CONFIG", "SET", "repl-diskless-sync-delay", "5") == "OK", "CONFIG SET")
    # Whichever of the two keeper.sh thinks should go over.
    for node in (moved_id, stays_id):
        ids[node].processes[1].send_signal(signal.SIGSTOP)
    check(ids[moved_id].ask("CLUSTER", "REPLICATE", view[stays_id][3]) == "OK", "CLUSTER REPLICATE")
    wait_until(lambda: all(nodes(pod)[moved_id][3] == view[stays_id][3] for pod in cluster.pods), "all know of two replicas")
    wait_until(lambda: "master_link_status:up" in ids[moved_id].ask("INFO", "replication"), "it has what its new master has")
    for node in (moved_id, stays_id):
        ids[node].signal(signal.SIGCONT)
    cluster.wait_until_whole(f"{ids[moved_id].number} and {ids[stays_id].number} followed the same master")
    for pod in cluster.pods:
        check(pod.ask("CONFIG", "SET", "repl-diskless-sync-delay", "0") == "OK", "CONFIG SET")


def be_denied(cluster):
    """A master takes a later epoch, and dies before its replica hears of it. The other masters deny the replica."""
    ids = {pod.ask("CLUSTER", "MYID"): pod for pod in cluster.pods}
    view = nodes(cluster.pods[0])
    # Not the one that has the latest epoch already.
    lost = min((words[0] for words in view.values() if "master" in words[2]), key=lambda node: int(view[node][6]))
    heirs_id = next(node for node, words in view.items() if words[3] == lost)
    master, heir = ids[lost], ids[heirs_id]
    others = [pod for node, pod in ids.items() if "master" in view[node][2] and node != lost]
    # It hears nothing, and its master tells it nothing that it could hear later.
    heir.signal(signal.SIGSTOP)
    check(master.ask("CLUSTER", "FORGET", heirs_id) == "OK", "CLUSTER FORGET")
    said = master.ask("CLUSTER", "BUMPEPOCH").split()
    check(said[0] == "BUMPED", f"CLUSTER BUMPEPOCH: {said}")
    wait_until(lambda: all(epoch_of(pod, lost) == int(said[1]) for pod in others), "the other masters hear of the epoch")
    master.stop(signal.SIGKILL)
    heir.processes[0].send_signal(signal.SIGCONT)
    denied = f"denied to {heirs_id}: slot"
    wait_until(lambda: any(denied in pod.log("redis") for pod in others), "the replica is denied a vote")
    check(epoch_of(heir, lost) < int(said[1]), "the replica knows the epoch before keeper.sh has done anything")
    heir.signal(signal.SIGCONT)
    wait_until(heir.is_master, f"{heir.number}, which was denied, takes over from {master.number}")
    check(epoch_of(heir, heirs_id) > int(said[1]), "it has no later epoch than its master had: nobody voted")
    check(all(f"granted to {heirs_id}" in pod.log("redis") for pod in others), "it took over without the votes of all others")
    master.start()
    cluster.wait_until_whole(f"{heir.number} has taken over from {master.number}, of whose last epoch it had not heard")


def lose_disk(cluster, rng, is_renumbered, is_last):
    """All are stopped, and one that was a master comes back without its disk. Its replica has not followed it since."""
    lost = rng.choice([pod for pod in cluster.pods if pod.is_master()])
    lost_id = lost.ask("CLUSTER", "MYID")
    for pod in cluster.pods:
        pod.stop()
    shutil.rmtree(lost.disk)
    lost.disk.mkdir()
    if is_renumbered:
        cluster.renumber()
    others = [pod for pod in cluster.pods if pod != lost]
    lost.successor_s = 3
    for pod in others if is_last else [lost]:
        pod.start()
    if is_last:
        wait_until(lambda: nodes(others[0]).get(lost_id, [""] * 3)[2].endswith("fail"), f"{lost.number} is missed")
    else:
        # Nobody can tell it that somebody looks for its data.
        wait_until(lambda: lost.ask("PING") == "PONG", f"{lost.number}, whose disk is empty, answers")
    for pod in [lost] if is_last else others:
        pod.start()
    cluster.wait_until_whole(f"all at once, {lost.number}, a master, {'last' if is_last else 'first'} and without its disk, "
                             f"{'all' if is_renumbered else 'none'} with a new address")


def hear_of_address(cluster, rng):
    """All get new addresses, and a replica hears of its master's from others before its master finds it."""
    ids = {pod.ask("CLUSTER", "MYID"): pod for pod in cluster.pods}
    view = nodes(cluster.pods[0])
    replica_id = rng.choice([node for node in ids if "slave" in view[node][2]])
    replica, master_id = ids[replica_id], view[replica_id][3]
    master = ids[master_id]
    others = [pod for pod in cluster.pods if pod not in (replica, master)]
    for pod in cluster.pods:
        pod.stop()
    old = cluster.addresses[master.number]
    cluster.renumber()
    new = f"{cluster.addresses[master.number]}:{cluster.port}@"

    def is_known_by(pod):
        words = nodes(pod).get(master_id, [""] * 8)
        return words[1].startswith(new) and "fail" not in words[2] and words[7] == "connected"

    for pod in [master, *others]:
        pod.start()
    wait_until(lambda: all(map(is_known_by, others)), f"{master.number} is known at its new address")
    # For a minute it does not hear of its replica, nor does its keeper.sh introduce them.
    master.processes[1].send_signal(signal.SIGSTOP)
    check(master.ask("CLUSTER", "FORGET", replica_id) == "OK", "CLUSTER FORGET")
    replica.start()
    replica.processes[1].send_signal(signal.SIGSTOP)
    wait_until(lambda: is_known_by(replica), f"{replica.number} hears of its master's new address")
    check(f"master_host:{old}" in replica.ask("INFO", "replication"), "Redis itself connects to a new address of which it heard")
    for pod in (master, replica):
        pod.signal(signal.SIGCONT)
    cluster.wait_until_whole(f"all with new addresses at once, {replica.number} has heard of its master's from others")
