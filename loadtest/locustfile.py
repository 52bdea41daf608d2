"""What Locust loads: users and shape as the settings say, and the verdict at the end. run.py starts it."""

import collections
import os
import secrets
import sys

import grpc.experimental.gevent
import locust
import locust.runners
import locust.stats
from locust.runners import WorkerRunner

import ledger
import service_levels
import settings
import shapes
import timeline
import users

SLO_KEY = "KERF_LOAD_SLO"
TIMELINE_KEY = "KERF_LOAD_TIMELINE"
REPORT_POINTS = 400

_settings = settings.from_environment()
# A dip of seconds must be seen in a short run's report, and one of hours must stay small.
locust.stats.HISTORY_STATS_INTERVAL_SEC = max(1, _settings.load.time_s / REPORT_POINTS)
# What processes tell the one that reports.
locust.runners.WORKER_REPORT_INTERVAL = 1.0
# Heartbeats, one a second, that a process may miss: one that judges many chunks on a full machine is late, not gone.
locust.runners.HEARTBEAT_LIVENESS = 30
# Of all processes.
_totals = collections.Counter()
_timeline = timeline.Timeline()

for _name, _class in users.ALL.items():
    if _weight := getattr(_settings.users, _name):
        globals()[_class.__name__] = type(_class.__name__, (_class,), {"weight": _weight, "__module__": __name__})
Shape = shapes.shape_class(_settings.load)


@locust.events.init_command_line_parser.add_listener
def add_options(parser):
    # An option, because a master tells its workers its own: all of a run have one name for it.
    parser.add_argument("--kerf-run", default=_settings.target.run, include_in_web_ui=False)


@locust.events.init.add_listener
def begin(environment, **_):
    """In each process: with --processes this file is loaded before they part."""
    grpc.experimental.gevent.init_gevent()
    users.Agent.settings = _settings


@locust.events.test_start.add_listener
def begin_run(environment, **_):
    """Before the first user; workers know what their master has told them."""
    _settings.target.run = environment.parsed_options.kerf_run
    users.Agent.ledger = ledger.Ledger(_settings.target.run, secrets.randbits(32))


@locust.events.report_to_master.add_listener
def report_totals(client_id, data):
    data["kerf_totals"] = dict(users.Agent.totals)
    users.Agent.totals.clear()
    data["kerf_timeline"] = users.Agent.timeline.take()


@locust.events.worker_report.add_listener
def take_totals(client_id, data):
    _totals.update(data.get("kerf_totals", {}))
    _timeline.add(data.get("kerf_timeline", {}))


@locust.events.quitting.add_listener
def judge(environment, **_):
    if isinstance(environment.runner, WorkerRunner):
        return
    _totals.update(users.Agent.totals)
    _timeline.add(users.Agent.timeline.take())
    _timeline.write(os.environ[TIMELINE_KEY])
    mistakes = environment.runner.exceptions.values()
    rows, code = service_levels.judge(service_levels.read(os.environ[SLO_KEY]), environment.stats,
                                      sum(mistake["count"] for mistake in mistakes))
    size, new = _totals["bytes"], _totals["new bytes"]
    print(f"\n{size / 2**20:,.0f} MiB of finished files were sent, {new / 2**20:,.0f} MiB of them new "
          f"({1 - new / size if size else 0:.1%} saved), in {_totals['chunks']:,} chunks, each checked; "
          f"{_totals['streams lost']} streams lost, {_totals['streams broken on purpose']} of them broken on purpose\n")
    print(service_levels.table(rows))
    for mistake in mistakes:
        print(f"{mistake['count']} x {mistake['msg']}\n{mistake['traceback']}", file=sys.stderr)
    for error in environment.stats.errors.values():
        print(f"{error.occurrences} x {error.method}: {error.name}: {error.error}", file=sys.stderr)
    sys.stdout.flush()
    environment.process_exit_code = code
