"""The fake server as a program: `tools/conformance fake`."""

import json
import sys
import time

import grpc

from fake import Fake, fail, go_away, kill, silence
from kerf.v1 import chunking_pb2 as pb

ACTS = {"kill": kill, "go_away": go_away, "silence": silence}
VERDICTS = {"new": pb.VERDICT_NEW, "duplicate": pb.VERDICT_DUPLICATE, "unverified": pb.VERDICT_UNVERIFIED, "unknown": 9}
EVENTS = ("open", "opened", "data", "chunks", "end", "commit", "committed", "report", "half_close", "GetIndexStats", "CommitChunks", "ForgetChunks",
          "ForgetOlderChunks", "AdvanceEpoch", "Locate")
HELP = """a fault, EVENT:N=ACT: at the N-th EVENT (%s), ACT: kill, go_away, silence, answer_unknown, slow=SECONDS,
index_epoch=E (a collection has raised it), or CODE[/REASON[/DELAY_S]] of docs/spec/protocol.md, as UNAVAILABLE/DRAINING/1""" % ", ".join(EVENTS)


def wrong(chunk, what):
    made = pb.Chunk()
    made.CopyFrom(chunk)
    if what == "check":
        made.check ^= 1
    elif what == "digest":
        made.digest = bytes(byte ^ 1 for byte in made.digest)
    else:
        made.end_offset -= 1
    return made


def act_of(text, fake):
    name, _, value = text.partition("=")
    if name == "index_epoch":
        epoch = int(value)
        return lambda _: setattr(fake.index, "epoch", epoch)
    if name == "answer_unknown":
        return lambda stream: stream._answers.append(pb.UploadAnswer.FromString(b"\xa2\x06\x03new"))
    if name == "slow":
        return lambda _: time.sleep(float(value))
    if text in ACTS:
        return ACTS[text]
    code, _, rest = text.partition("/")
    reason, _, delay = rest.partition("/")
    if not hasattr(grpc.StatusCode, code):
        raise ValueError(f"'{text}' is no act")
    return fail(code, reason, delay_s=float(delay) if delay else None)


def fault_of(text, fake):
    moment, _, act = text.partition("=")
    event, _, number = moment.partition(":")
    if event not in EVENTS or not number.isdigit() or not act:
        raise ValueError(f"'{text}' is no fault: EVENT:N=ACT, as data:3=kill")
    return (event, int(number)), act_of(act, fake)


class Told(list):
    """What happens is printed as it does."""

    def append(self, event):
        super().append(event)
        print(json.dumps({"event": event}), flush=True)


def run(arguments):
    fake = Fake(Told(), arguments.listen, chunk_bytes=arguments.chunk_bytes)
    fake.violation = lambda text: print(json.dumps({"violation": text}), flush=True)
    fake.index.epoch = arguments.index_epoch
    try:
        fake.faults = dict(fault_of(text, fake) for text in arguments.fault or ())
    except ValueError as error:
        print(f"fake: {error}", file=sys.stderr)
        return 2
    if arguments.verdict:
        fake.verdict = lambda digest, verdict: VERDICTS[arguments.verdict]
    if arguments.wrong:
        what, _, number = arguments.wrong.partition(":")
        count = 0

        def change(chunk):
            nonlocal count
            count += 1
            return wrong(chunk, what) if not number or count == int(number) else chunk
        fake.change = change
    for limit in ("max_message_bytes", "max_uncommitted_chunks", "max_commit_entries"):
        if getattr(arguments, limit):
            setattr(fake.limits, limit, getattr(arguments, limit))
    print(json.dumps({"listening": fake.address}), flush=True)
    try:
        sys.stdin.read()
    except KeyboardInterrupt:
        pass
    fake.close()
    return 0


def add(verbs):
    verb = verbs.add_parser("fake", help="a kerfd with a switch for each verdict and failure, until standard input ends")
    verb.add_argument("--listen", default="127.0.0.1:0", help="HOST:PORT or unix:PATH (127.0.0.1:0)")
    verb.add_argument("--fault", action="append", help=HELP.replace("%", "%%"))
    verb.add_argument("--verdict", choices=sorted(VERDICTS), help="of each chunk")
    verb.add_argument("--wrong", help="check, digest or range of each chunk, or of the N-th alone, as digest:4")
    verb.add_argument("--chunk-bytes", type=int, default=1024, help="where it cuts")
    verb.add_argument("--index-epoch", type=int, default=0)
    for limit in ("message-bytes", "uncommitted-chunks", "commit-entries"):
        verb.add_argument(f"--max-{limit}", type=int, default=0)
    verb.set_defaults(run=run)
