"""What a run must reach, from a file (slo.toml), and whether it did."""

import collections
import tomllib

from locust.stats import calculate_response_time_percentile

WRONG = "WRONG: "
EXIT_MISSED, EXIT_WRONG_ANSWER = 1, 6
# A commit that was answered and is gone: it costs an agent a second upload, and no data.
FORGOTTEN = "WRONG: forgotten"
KEYS = {"failures", "forgotten", "wrong_answers", "at_least", "p95_ms"}
ANY_USER = "any"


def read(path):
    """{user or "any": {event: number}} of `at_least` and `p95_ms`, and three limits."""
    with open(path, "rb") as file:
        levels = tomllib.load(file)
    if unknown := levels.keys() - KEYS:
        raise ValueError(f"{path}: unknown: {', '.join(sorted(unknown))}; want {', '.join(sorted(KEYS))}")
    return levels


class Events:
    """Locust's figures of some entries as one."""

    def __init__(self, entries):
        self.count = sum(entry.num_requests - entry.num_failures for entry in entries)
        self.all_count = sum(entry.num_requests for entry in entries)
        self.times = collections.Counter()
        for entry in entries:
            self.times.update(entry.response_times)

    def p95_ms(self):
        return calculate_response_time_percentile(self.times, self.all_count, 0.95)


def judge(levels, stats, mistake_count=0):
    """[(what, limit, measured, whether it is reached)], and the exit code. `mistake_count`: how often the
    load test itself has failed, which no limit allows."""
    entries = list(stats.entries.values())
    failed = collections.Counter()
    for entry in entries:
        is_wrong = entry.name.startswith(WRONG)
        kind = "forgotten" if entry.name == FORGOTTEN else "wrong_answers" if is_wrong else "failures"
        failed[kind] += entry.num_failures
    rows = [(kind.replace("_", " "), levels.get(kind, 0), failed[kind], failed[kind] <= levels.get(kind, 0))
            for kind in ["wrong_answers", "forgotten", "failures"]]
    is_wrong = not (rows[0][3] and rows[1][3])
    rows.append(("mistakes of the load test", 0, mistake_count, mistake_count == 0))
    for key in ["at_least", "p95_ms"]:
        for user, limits in levels.get(key, {}).items():
            for event, limit in limits.items():
                events = Events([entry for entry in entries
                                 if entry.name == event and user in (ANY_USER, entry.method)])
                name = event if user == ANY_USER else f"{user}: {event}"
                if key == "at_least":
                    rows.append((f"{name}, at least", limit, events.count, events.count >= limit))
                elif events.all_count:
                    p95_ms = events.p95_ms()
                    rows.append((f"{name}, p95 in ms", limit, round(p95_ms), p95_ms <= limit))
    is_missed = not all(reached for _, _, _, reached in rows)
    return rows, EXIT_WRONG_ANSWER if is_wrong else EXIT_MISSED if is_missed else 0


def table(rows):
    lines = [f"{'service level':44} {'limit':>10} {'measured':>10}"]
    for what, limit, measured, reached in rows:
        lines.append(f"{what:44} {limit:>10} {measured:>10}  {'ok' if reached else 'MISSED'}")
    return "\n".join(lines)
