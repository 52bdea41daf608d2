#!/usr/bin/env python3
"""Measures kerf, restic, borg, rustic and bupstash on the same files in one run; called by tools/compare.

For each data set, state of the page cache, run and tool in turn (A B C A B C, so that a machine's noise
falls on all): a fresh repository, the first backup, an unchanged backup, a backup after the edits, a
restore. Each backup is restored once more beside it, which is not measured, and everything that was
restored is compared byte for byte with diff: a step whose result is wrong has no time. Before each step
the page cache is brought into its state (compare_cache.py) and what is dirty is written back. Figures are
medians over the runs; kerfd runs beside kerf and its CPU time and memory are shown on their own.

rustic and bupstash are no packages of Debian: tools/compare builds them of their crates, of the versions
that compare_tools.py names, into out/compare_peers.
"""

import argparse
import datetime
import itertools
import json
import os
import pathlib
import platform
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import compare_cache
import compare_data
import compare_tools
from processes import Failed

BACKUPS = ["first backup", "unchanged backup", "edited backup"]
STEPS = [*BACKUPS, "restore"]


def say(text):
    print(f"compare: {text}", flush=True)


def check_restored(folder, restored):
    """No figure of a tool whose files do not come back byte for byte."""
    subprocess.run(["diff", "--brief", "-r", "--no-dereference", str(folder), str(restored)], check=True, stdout=sys.stderr)


def scratch_parent(work, size_bytes):
    """Where what is only compared is restored to: in memory if that has room, for removing it from a disk would slow
    down whoever creates files next."""
    memory = pathlib.Path("/dev/shm")
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 3 * size_bytes
    return memory if roomy else work


def check_backup(tool, data, work):
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="kerf-compare-check-", dir=scratch_parent(work, data.total_bytes)))
    try:
        tool.restore(scratch, data.folder)
        check_restored(data.folder, tool.restored(scratch, data.folder))
    finally:
        remove(scratch)


def remove(folder):
    subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, stderr=subprocess.DEVNULL)
    shutil.rmtree(folder, ignore_errors=True)


def run_once(kind, work, data, cache, log):
    """One tool, one fresh repository: {step: Measurement} and {moment: bytes}."""
    tool = kind(work, log)
    steps, stored, edited = {}, {}, False
    prepare = compare_cache.PREPARE[cache]
    try:
        tool.start()
        for name in BACKUPS:
            if name == "edited backup":
                edited = True
                data.edit()
            prepare([data.folder, work])
            steps[name] = tool.backup(data.folder)
            check_backup(tool, data, work)
            if name != "unchanged backup":
                stored[name] = {"repository": tool.stored_bytes(), "index_or_cache": tool.index_bytes()}
        target = work / "restored"
        prepare([data.folder, work])
        steps["restore"] = tool.restore(target, data.folder)
        check_restored(data.folder, tool.restored(target, data.folder))
    finally:
        tool.stop()
        if edited:
            data.revert()
    return steps, stored


def as_json(steps, stored):
    return {"steps": {name: vars(measurement) for name, measurement in steps.items()}, "stored_bytes": stored}


def measure_all(kinds, data_sets, caches, runs, work):
    """results[data set][cache][tool] = list of as_json, one a run."""
    results = {data.name: {cache: {kind.name: [] for kind in kinds} for cache in caches} for data in data_sets}
    for data, cache in itertools.product(data_sets, caches):
        # ext4 does not use an inode again for minutes after its file is gone, and each creation of a
        # file walks over all of those: who restores next would pay for this removal. So it waits.
        spent = work / "spent"
        spent.mkdir()
        for number in range(runs):
            for kind in kinds:
                place = work / f"{kind.name}-run"
                place.mkdir()
                log_path = work / f"{kind.name}.log"
                try:
                    with open(log_path, "wb") as log:
                        steps, stored = run_once(kind, place, data, cache, log)
                except (subprocess.CalledProcessError, Failed) as error:
                    sys.stderr.write(log_path.read_text(errors="replace")[-4000:])
                    raise SystemExit(f"compare: {kind.name}: {error}") from error
                if data.has_many_files:
                    place.rename(spent / f"{kind.name}-{number}")
                else:
                    remove(place)
                results[data.name][cache][kind.name].append(as_json(steps, stored))
                say(f"{data.name}, {cache}, run {number + 1} of {runs}, {kind.name}: "
                    + ", ".join(f"{name} {steps[name].wall_s:.2f} s" for name in STEPS)
                    + f" (load {os.getloadavg()[0]:.1f})")
        remove(spent)
    return results


def median(runs, read):
    values = [read(run) for run in runs]
    return None if None in values else statistics.median(values)


def rows_of(data):
    """(label, function of one tool's runs -> text)."""
    def seconds(step, field):
        def text(runs):
            value = median(runs, lambda run: run["steps"][step][field])
            return "" if value is None else f"{value:.2f}"
        return text

    def stored(moment, part):
        return lambda runs: f"{median(runs, lambda run: run['stored_bytes'][moment][part]) / 1e6:,.1f}"

    def memory(field):
        def text(runs):
            peaks = [max(run["steps"][step][field] or 0 for step in STEPS) for run in runs]
            return f"{statistics.median(peaks) / 1e6:,.0f}" if any(peaks) else ""
        return text

    def rate(runs):
        value = median(runs, lambda run: run["steps"]["first backup"]["wall_s"])
        return f"{data.total_bytes / 1e6 / value:,.0f}"

    for step in STEPS:
        yield f"{step}, s", seconds(step, "wall_s")
    yield "first backup, MB/s", rate
    for step in STEPS:
        yield f"{step}, CPU s", seconds(step, "cpu_s")
    for step in STEPS:
        yield f"{step}, CPU s of kerfd", seconds(step, "server_cpu_s")
    for moment in ("first backup", "edited backup"):
        yield f"stored after {moment}, MB", stored(moment, "repository")
        yield f"index or cache after {moment}, MB", stored(moment, "index_or_cache")
    yield "peak memory, MB", memory("peak_rss_bytes")
    yield "peak memory of kerfd, MB", memory("server_peak_rss_bytes")


def print_table(title, data, results):
    names = list(results)
    rows = [[label, *(text(results[name]) for name in names)] for label, text in rows_of(data)]
    rows = [["", *names], *(row for row in rows if any(row[1:]))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(names) + 1)]
    print(f"\n{title}")
    for row in rows:
        print("  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                        for column, (cell, width) in enumerate(zip(row, widths))))


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def describe_machine():
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{len(os.sched_getaffinity(0))} cores, {cpu_model()}, {memory_bytes / 2**30:.0f} GiB, {platform.release()}"


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tools/compare", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="of each tool on each data set (default 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the data: 0.05 for a quick trial (default 1)")
    parser.add_argument("--tools", default=",".join(compare_tools.TOOLS),
                        help="comma-separated (default %(default)s)")
    parser.add_argument("--before", type=pathlib.Path, metavar="FOLDER",
                        help="of another build's kerf and kerfd, which are measured beside the others, by turns like these")
    parser.add_argument("--data", default="files,tars", help="comma-separated: files, tars, releases (default files,tars)")
    parser.add_argument("--releases", type=pathlib.Path, nargs="+", default=[], metavar="FILE",
                        help="for --data releases: successive versions of one file, such as tar files of releases, of "
                             "which the last one comes with the edited backup")
    parser.add_argument("--cache", default="warm,cold",
                        help="comma-separated: state of the page cache before each step; cold needs root to drop more than "
                             "contents (default warm,cold)")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of files and edits (default 1)")
    parser.add_argument("--work-dir", type=pathlib.Path, default=pathlib.Path("/var/tmp"),
                        help="a folder of this run is made in it and removed (default /var/tmp)")
    parser.add_argument("--json", type=pathlib.Path, help="write every run's figures to this file")
    arguments = parser.parse_args()
    unknown = set(arguments.tools.split(",")) - set(compare_tools.TOOLS)
    if unknown:
        parser.error(f"--tools: {', '.join(sorted(unknown))} is not one of {', '.join(compare_tools.TOOLS)}")
    unknown = set(arguments.data.split(",")) - {"files", "tars", "releases"}
    if unknown:
        parser.error(f"--data: {', '.join(sorted(unknown))} is not one of files, tars, releases")
    unknown = set(arguments.cache.split(",")) - set(compare_cache.PREPARE)
    if unknown:
        parser.error(f"--cache: {', '.join(sorted(unknown))} is not one of warm, cold")
    if ("releases" in arguments.data.split(",")) != (len(arguments.releases) >= 2):
        parser.error("--data releases and --releases FILE FILE... go together, with two files or more")
    if arguments.before is not None:
        arguments.before = arguments.before.absolute()
        missing = [name for name in ("kerf", "kerfd") if not os.access(arguments.before / name, os.X_OK)]
        if missing:
            parser.error(f"--before: there is no {' and no '.join(missing)} in {arguments.before}")
    if arguments.runs < 1 or not 0 < arguments.scale <= 100:
        parser.error("--runs is at least 1 and --scale in (0, 100]")
    return arguments


def present_tools(names):
    """Says which of them are not here: a table without a column must not look like a choice."""
    present = [name for name in names if compare_tools.TOOLS[name].is_present()]
    for name in names:
        if name not in present:
            print(f"compare: {name} IS NOT MEASURED: it is not installed here ({compare_tools.TOOLS[name].WHERE})",
                  file=sys.stderr, flush=True)
    if not present:
        raise SystemExit("compare: none of the tools is here")
    return [compare_tools.TOOLS[name] for name in present]


def run(arguments, work):
    compare_tools.build_peers(arguments.tools.split(","))
    kinds = present_tools(arguments.tools.split(","))
    if arguments.before is not None:
        kinds.insert(1, compare_tools.kerf_of(arguments.before))
    wanted, caches = arguments.data.split(","), arguments.cache.split(",")
    data_sets = []
    if set(wanted) & {"files", "tars"}:
        say(f"making the data in {work}")
        small_files = compare_data.SmallFiles(work, arguments.scale, arguments.seed)
        if "files" in wanted:
            data_sets.append(small_files)
        if "tars" in wanted:
            data_sets.append(compare_data.Tars(work, small_files, arguments.seed))
    if "releases" in wanted:
        data_sets.append(compare_data.Releases(work, arguments.releases))
    for data in data_sets:
        say(f"{data.name}: {data.description}")
    results = measure_all(kinds, data_sets, caches, arguments.runs, work)
    report = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "command": shlex.join(["tools/compare", *sys.argv[1:]]),
        "versions": {kind.name: kind.version() for kind in kinds},
        "conditions": {cache: compare_cache.describe(cache) for cache in caches},
        "data": {data.name: data.description for data in data_sets},
        "runs": results,
    }
    print(f"\n{report['date']}; {report['machine']}\n{report['command']}\n"
          "each backup restored and compared byte for byte, each restore, too; medians")
    for version in report["versions"].values():
        print(version)
    for data, cache in itertools.product(data_sets, caches):
        print_table(f"{data.name}: {data.description}; {compare_cache.describe(cache)}; median of {arguments.runs}",
                    data, results[data.name][cache])
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("compare: ended by SIGTERM"))
    work = pathlib.Path(tempfile.mkdtemp(prefix="kerf-compare-", dir=arguments.work_dir))
    try:
        run(arguments, work)
    finally:
        remove(work)


if __name__ == "__main__":
    main()
