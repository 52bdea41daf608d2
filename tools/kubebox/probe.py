"""In the network of one pod: listens, and tries connections to others. network_trial.py starts one in each.

`probe.py ADDRESS '[["TCP", 7461], ["UDP", 53]]'` listens at these ports of its address; those that somebody has are left to
him. It says "ready", then answers each line of stdin, [seconds, list of [protocol, address, port]], with a line: for each of
them whether there was an answer within these seconds. It ends with stdin.
"""

import contextlib
import json
import select
import socket
import sys
import threading
import time

# What a name server answers, whether it knows or not: a question for the root's addresses.
QUESTION = b"\x77\x77\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01"
KINDS = {"TCP": socket.SOCK_STREAM, "UDP": socket.SOCK_DGRAM}


def listen(address, ports):
    listeners = []
    for protocol, port in ports:
        one = socket.socket(socket.AF_INET, KINDS[protocol])
        try:
            if protocol == "TCP":
                # What the last one here has ended is not in the way.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.setblocking(False)
            one.bind((address, port))
            if protocol == "TCP":
                one.listen(256)
        except OSError:
            one.close()
            continue
        listeners.append(one)
    threading.Thread(target=serve, args=[listeners], daemon=True).start()


def serve(listeners):
    while True:
        for one in select.select(listeners, [], [])[0]:
            # Whoever has asked may be gone already.
            with contextlib.suppress(OSError):
                if one.type == socket.SOCK_STREAM:
                    one.accept()[0].close()
                else:
                    one.sendto(*one.recvfrom(512))


def answers(timeout_s, targets):
    """All of them at once."""
    waiting, found = {}, [False] * len(targets)
    poll = select.poll()
    for index, (protocol, address, port) in enumerate(targets):
        one = socket.socket(socket.AF_INET, KINDS[protocol])
        one.setblocking(False)
        one.connect_ex((address, port))
        if protocol == "UDP":
            one.send(QUESTION)
        poll.register(one, select.POLLOUT if protocol == "TCP" else select.POLLIN)
        waiting[one.fileno()] = one, index
    deadline = time.monotonic() + timeout_s
    while waiting and (left_s := deadline - time.monotonic()) > 0:
        for number, _ in poll.poll(1000 * left_s):
            one, index = waiting.pop(number)
            poll.unregister(one)
            found[index] = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            one.close()
    for one, _ in waiting.values():
        one.close()
    return found


if __name__ == "__main__":
    listen(sys.argv[1], json.loads(sys.argv[2]))
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(answers(*json.loads(line))), flush=True)
