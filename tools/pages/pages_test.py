#!/usr/bin/env python3
"""Each fault that tools/site is to find is made once, and has to be found: run it with tools/site --test."""

import pathlib
import re
import shutil
import tempfile
import unittest

import build_site
import figures
import help_text
import links
import named
import prose
import references
import repository
import runbooks
import speed_plot
import undocumented

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HELP = """Back up files
Usage: prog [OPTIONS] [paths...]

Positionals:
  paths PATH ...              What to back up

Options:
  -h,--help                   Print this help message and exit
  --store DIR REQUIRED (Env:KERF_STORE)
                              The folder in which chunks
                              are kept
  --retry-for TIME=5m         How long
  -q,--quiet                  Only results

Subcommands:
  list                        Show all

Examples:
  prog --store /backup
"""


def tree_with(root, folder):
    """What the checks of runbooks and reasons read, copied."""
    for name in ("server/errors/errors.cc", "base/limits.h", "docs/spec/protocol.md", "docs/metrics.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, folder / name)
    for name in ("docs/runbooks", "deploy/components", "docs/reference", "e2e/runbooks"):
        shutil.copytree(root / name, folder / name)


class HelpTextTest(unittest.TestCase):
    def test_is_taken_apart(self):
        verb = help_text.parse("prog", HELP)
        options = {option.name: option for option in verb.options}
        self.assertEqual(["paths", "--help", "--store", "--retry-for", "--quiet"], list(options))
        self.assertEqual("KERF_STORE", options["--store"].environment)
        self.assertEqual("The folder in which chunks are kept", options["--store"].description)
        self.assertEqual(("TIME", "5m"), (options["--retry-for"].kind, options["--retry-for"].default))
        self.assertEqual("-q", options["--quiet"].short)
        self.assertEqual((("list", "Show all"),), verb.verbs)

    def test_a_program_that_fails_is_no_empty_page(self):
        with self.assertRaises(help_text.ProgramFailed):
            help_text.run("false")


class ProseTest(unittest.TestCase):
    def test_a_long_paragraph_is_found(self):
        self.assertEqual([(3, 130)], list(prose.long_paragraphs("# A\n\n" + "word " * 130)))
        self.assertEqual([(1, 130)], list(prose.long_paragraphs("- " + "word\n  " * 130)))

    def test_one_of_120_words_a_table_and_code_are_none(self):
        text = "word " * 120 + "\n\n| a |\n| --- |\n| " + "word " * 130 + "|\n\n```\n" + "word " * 130 + "\n```\n"
        self.assertEqual([], list(prose.long_paragraphs(text)))


    def test_what_a_page_is_for_is_in_its_first_two_sentences(self):
        for text in ("# A\n\nThis page is for you. More.\n", "# A\n\nA store is a folder. This page says\nwhich.\n", "# A\n\nHow to do `it`.\n",
                     "# A\n\nEvery flag. Look here for one.\n"):
            self.assertTrue(prose.says_what_for(text), text)
        for text in ("# A\n\nOne. Two. This page is for you.\n", "# A\n\nA page.\n\nThis page is for you.\n", "# This page is for you\n",
                     "# A\n\nMade by `kerfd`; a test holds this page to it.\n", "# A\n\nOne [of](these.md). `two` goes on. This page is for you.\n"):
            self.assertFalse(prose.says_what_for(text), text)

    def test_today_all_pages_say_it(self):
        texts = {name: text for name, text in build_site.pages(ROOT).items() if name.startswith(build_site.WITH_PURPOSE)}
        missing = {name for name, text in texts.items() if not prose.says_what_for(text)}
        left_out = {name for name in missing if name.startswith((*build_site.WITHOUT_PURPOSE, *build_site.FOR_ENGINEERS))}
        self.assertEqual(set(), missing - left_out)


class RunbooksTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        tree_with(ROOT, self.root)

    def change(self, name, before, after):
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        self.assertIn(before, text)
        path.write_text(text.replace(before, after), encoding="utf-8")

    def found(self):
        return "\n".join(runbooks.findings(self.root))

    def test_today_all_is_well(self):
        self.assertEqual("", self.found())

    def test_an_alert_without_a_runbook(self):
        (self.root / runbooks.ALERTS / "KerfNoWorkers.md").unlink()
        self.assertIn("the alert KerfNoWorkers has no runbook", self.found())

    def test_a_runbook_without_an_alert(self):
        self.change("deploy/components/monitoring/alerts.yaml", "alert: KerfGpuLost", "alert: KerfGpuGone")
        self.assertIn("KerfGpuLost.md: there is no alert KerfGpuLost", self.found())

    def test_a_reason_without_a_runbook_and_one_that_is_gone(self):
        self.change("server/errors/errors.cc", '"NO_WORKER"', '"NOBODY_THERE"')
        self.assertIn("the reason NOBODY_THERE has no runbook", self.found())
        self.assertIn("reasons/NO_WORKER.md: there is no", self.found())

    def test_an_alert_that_names_another_page(self):
        self.change("deploy/components/redis-metrics/alerts.yaml", "alerts/KerfRedisDown.html", "alerts/KerfRedisMissing.html")
        self.assertIn("runbook_url of KerfRedisDown is not", self.found())

    def test_a_runbook_without_a_section(self):
        self.change(f"{runbooks.REASONS}/DRAINING.md", "## What to do", "## Do this")
        self.assertIn("DRAINING.md: its sections are not", self.found())

    def test_a_runbook_that_nothing_tries_and_a_trial_of_none(self):
        self.change("e2e/runbooks/fronts_test.py", "def test_NO_WORKER(", "def test_NOBODY(")
        self.assertIn("no test_NO_WORKER tries that runbook", self.found())
        self.assertIn("e2e/runbooks: there is no runbook NOBODY", self.found())

    def test_a_runbook_that_is_said_not_to_be_tried(self):
        self.change("docs/runbooks/README.md", "| KerfGpuLost, KerfGpuWrong |", "| KerfGpuLost, KerfNoWorkers |")
        self.assertIn("no test_KerfGpuWrong tries that runbook", self.found())
        self.assertIn("README.md: KerfNoWorkers is tried by e2e/runbooks", self.found())

    def test_a_reason_that_the_protocol_does_not_tell_of(self):
        self.change("docs/spec/protocol.md", "| NO_WORKER | UNAVAILABLE |", "| NO_WORKERS | UNAVAILABLE |")
        with self.assertRaises(KeyError):
            references.errors_page(repository.reasons(self.root), repository.meanings_of_reasons(self.root))


class FiguresTest(unittest.TestCase):
    def found_with(self, before, after):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in ("docs/comparison.md", "docs/performance.md", "docs/profiles.md", "docs/adr/0007-default-profile.md"):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text((ROOT / name).read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
            return "\n".join(figures.findings(root))

    def test_those_of_today_are_those_that_were_measured(self):
        self.assertEqual("", self.found_with("x", "x"))

    def test_others_are_found(self):
        self.assertIn("has no row 'restore, s", self.found_with("| restore, s | 3.89 / 9.64 / 12.81 | 7.85 / 9.60 / 11.02 |\n| stored",
                                                               "| restore, s | 3.09 / 9.64 / 12.81 | 7.85 / 9.60 / 11.02 |\n| stored"))
        self.assertIn("no figures under 'Savings, measured'", self.found_with("## Savings, measured", "## Savings"))


class SpeedPlotTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "docs/img").mkdir(parents=True)
        for name in (speed_plot.SHOWN_BY, speed_plot.DATA, speed_plot.PLOT, "docs/performance.md"):
            shutil.copyfile(ROOT / name, self.root / name)

    def found_with(self, name, before, after):
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        self.assertIn(before, text)
        path.write_text(text.replace(before, after), encoding="utf-8")
        return "\n".join(speed_plot.findings(self.root))

    def test_today_it_is_what_was_measured(self):
        self.assertEqual([], list(speed_plot.findings(self.root)))

    def test_figures_that_are_not_those_of_the_page(self):
        found = self.found_with(speed_plot.DATA, "3.89 / 9.64", "3.09 / 9.64")
        self.assertIn("'restore, s' of 'small files: 65,000, 866 MB; inserts in 1,950' is 3.09 / 9.64 / 12.81, and 3.89 / 9.64 / 12.81 in", found)
        self.assertIn("speed.svg: not what is made of", found)
        self.assertIn("is 7.85 / 9.60 / 11.02, and nothing in", self.found_with("docs/performance.md", "| restore, s | 3.89", "| restored, s | 3.89"))

    def test_where_and_when_that_are_not_those_of_the_page(self):
        for before, after, said in (('date = "2026-11-22"', 'date = "2026-11-29"', "does not say '2026-11-29'"),
                                    ("cores of an AMD", "cores of a faster AMD", "has no machine '2 virtual cores of a faster AMD EPYC'"),
                                    ('"restic 0.14.0"', '"restic 0.18.0"', "does not name restic 0.18.0"),
                                    ("Beside restic and borg", "Beside tar", "has no section 'Beside tar'")):
            self.assertIn(said, self.found_with(speed_plot.DATA, before, after))
            shutil.copyfile(ROOT / speed_plot.DATA, self.root / speed_plot.DATA)

    def test_a_plot_that_somebody_has_drawn_over(self):
        self.assertIn("speed.svg: not what is made of", self.found_with(speed_plot.PLOT, ">6.07<", ">0.07<"))

    def test_a_readme_that_shows_it_late(self):
        found = self.found_with(speed_plot.SHOWN_BY, "# kerf\n", "# kerf\n" + "\n" * speed_plot.FIRST_LINES)
        self.assertIn("do not show docs/img/speed.svg", found)
        self.assertIn("do not say how to start", found)

    def test_bars_are_as_long_as_their_figures(self):
        drawn = speed_plot.draw(speed_plot.read(ROOT))
        of_a_second = set()
        for kind in ("p0", "p1", "p2"):
            bars = [float(width) for width in re.findall(rf'<rect class="{kind}"[^>]* width="([0-9.]+)" height="11"', drawn)]
            figures = [float(cell.split(" / ")[int(kind[1])]) for panel in speed_plot.read(ROOT)["panels"] for cell in panel["rows"].values()]
            self.assertEqual(len(figures), len(bars))
            of_a_second |= {(round((bar - 0.05) / figure, 2), round((bar + 0.05) / figure, 2)) for bar, figure in zip(bars, figures)}
        # Each is rounded to a tenth: some scale suits all.
        self.assertLessEqual(max(low for low, _ in of_a_second), min(high for _, high in of_a_second) + 0.01)


class UndocumentedTest(unittest.TestCase):
    """The programs and commands of today, and pages that leave something out or make something up."""

    def found_with(self, page, before, after):
        texts = build_site.pages(ROOT)
        self.assertIn(before, texts[page])
        texts[page] = texts[page].replace(before, after)
        return list(undocumented.findings(ROOT, texts))

    def test_today_all_is_told(self):
        self.assertEqual([], self.found_with("README.md", "kerf", "kerf"))

    def test_a_type_of_message_that_is_left_out_and_one_that_is_made_up(self):
        self.assertEqual(["docs/json.md: does not tell of the type of message store_made", "docs/json.md: there is no type of message store_gone"],
                         self.found_with("docs/json.md", "| `store_made` |", "| `store_gone` |"))

    def test_a_key_of_json_that_is_made_up(self):
        self.assertEqual(["docs/json.md: nothing prints the key bytes_each_pass"],
                         self.found_with("docs/json.md", "`bytes_per_pass`", "`bytes_each_pass`"))

    def test_a_key_of_the_file_of_access(self):
        self.assertEqual(["docs/spec/access.md: does not tell of the key expires", "docs/spec/access.md: there is no key ends"],
                         self.found_with("docs/spec/access.md", "expires", "ends"))

    def test_words_that_kerfd_never_says(self):
        self.assertEqual(["docs/runbooks/alerts/KerfNotReady.md: kerfd never says: nobody is alive"],
                         self.found_with("docs/runbooks/alerts/KerfNotReady.md", "`no worker is alive`", "`nobody is alive`"))

    def test_a_variable_that_is_left_out(self):
        found = self.found_with("deploy/README.md", "`KERF_REDIS_PAUSE_S`", "that")
        self.assertEqual(["deploy/components/redis/keeper.sh: no page tells of the variable KERF_REDIS_PAUSE_S"], found)

    def test_a_path_that_is_not_there(self):
        self.assertIn("there is no deploy/bases", "".join(self.found_with("deploy/README.md", "`deploy/drain SECONDS`", "`deploy/bases`")))

    def test_a_command_that_is_left_out_and_one_that_is_made_up(self):
        self.assertEqual(["docs/hacking.md: does not tell of the command tools/kube"], self.found_with("docs/hacking.md", "tools/kube ", "kube "))
        self.assertEqual(["README.md: there is no tools/sites"], self.found_with("README.md", "`tools/site` builds", "`tools/sites` builds"))
        self.assertEqual([], self.found_with("README.md", "`tools/site` builds", "`out/tools/anything` builds"))

    def test_a_function_of_c_that_is_left_out(self):
        self.assertEqual(["docs/c_client.md: does not tell of the function kerf_upload_write"],
                         self.found_with("docs/c_client.md", "`kerf_upload_write`", "`write`"))


class LinksTest(unittest.TestCase):
    def found_in(self, body):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "there.html").write_text('<h1 id="place">x</h1>', encoding="utf-8")
            (pathlib.Path(folder) / "page.html").write_text(body, encoding="utf-8")
            return "\n".join(links.findings(pathlib.Path(folder)))

    def test_good_ones(self):
        self.assertEqual("", self.found_in('<a href="there.html#place"><a href="#"><a href="https://example.org/x"><p id="here"><a href="#here">'))

    def test_dead_ones(self):
        self.assertIn("leads nowhere", self.found_in('<a href="gone.html">'))
        self.assertIn("no such place", self.found_in('<a href="there.html#gone">'))
        self.assertIn("not over https", self.found_in('<a href="http://example.org">'))
        self.assertIn("is fetched from elsewhere", self.found_in('<script src="https://example.org/x.js">'))


def known():
    result = named.Known.__new__(named.Known)
    result.verbs = {"kerf": help_text.parse("kerf", HELP), "kerf list": help_text.parse("kerf list", "List\n\nOptions:\n  --long  x\n")}
    result.kerfd_flags = {"--listen"}
    result.kit_flags = {"--fault"}
    result.everywhere = {"--json"}
    result.kerf_flags = {"--store", "--long", "--json"}
    result.metrics = {"kerf_streams": "", "kerf_stage_seconds": "`stage`: cut (cutting), gpu_hash; `reason`: OK, or a reason of docs/spec/protocol.md"}
    result.functions = {"kerf_client_open"}
    result.reasons = {"NO_WORKER"}
    result.values = {"VERDICT_NEW"}
    result.variables = {"KERF_STORE", "KERFD_LISTEN"}
    return result


class NamedTest(unittest.TestCase):
    def found_in(self, text):
        return [what for _, what in named.wrong_in(known(), text)]

    def test_what_is_there(self):
        self.assertEqual([], self.found_in("`kerf list --long --json`, `--store DIR`, `kerf_streams`, `kerf_stage_seconds_bucket`, `kerf_st...`, "
                                           "`kerf_client_open`, "
                                           'NO_WORKER, VERDICT_NEW, KERF_STORE, `kerf_stage_seconds{stage="cut"}`, '
                                           '`kerf_stage_seconds_sum{reason="NO_WORKER"}`\n\n'
                                           "    out/kerfd --listen unix:/x | kubectl -n kerf get pods --all\n"))

    def test_what_is_not(self):
        for text, what in (("    kerf list --short\n", "kerf list has no flag --short"), ("`kerfd --port`", "kerfd has no flag --port"),
                           ("    kerf lists\n", "there is no kerf lists"), ("`--stores`", "there is no flag --stores"),
                           ("`kerf_stream`", "there is no metric, and no function of C, kerf_stream"), ("NO_WORKERS", "there is no reason NO_WORKERS"),
                           ("`KERF_STORES`", "there is no variable KERF_STORES"),
                           ('`kerf_streams{role="a"}`', 'kerf_streams has no role="a"'),
                           ('`kerf_stage_seconds{stage=~"cut|hash"}`', 'kerf_stage_seconds has no stage="hash"')):
            self.assertEqual([what], self.found_in(text), text)


class ReferencesTest(unittest.TestCase):
    """With programs that say what they are told to."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "docs").mkdir()
        (self.root / "docs/metrics.md").write_text("metrics\n", encoding="utf-8")

    def kerfd(self, flag, key):
        program = self.root / f"kerfd-{flag}-{key}"
        program.write_text(f"#!/bin/sh\ncase $1 in --help) printf 'kerfd\\n\\nOptions:\\n  --{flag} DIR  x\\n' ;; --print-metrics) echo metrics ;; "
                           f"*) printf '# {key} = []\\n' ;; esac\n", encoding="utf-8")
        program.chmod(0o755)
        return program

    def test_a_page_that_is_old(self):
        made = {f"{references.FOLDER}/kerf.md": "new\n"}
        (self.root / references.FOLDER).mkdir()
        self.assertIn("kerf.md: not what the programs say", "\n".join(references.findings(self.root, made, self.kerfd("redis", "redis"))))
        (self.root / references.FOLDER / "kerf.md").write_text("new\n", encoding="utf-8")
        self.assertEqual([], list(references.findings(self.root, made, self.kerfd("redis", "redis"))))
        (self.root / references.FOLDER / "other.md").write_text("x\n", encoding="utf-8")
        self.assertIn("other.md: nothing makes it", "\n".join(references.findings(self.root, made, self.kerfd("redis", "redis"))))

    def test_today_the_header_of_libkerf_is_a_page(self):
        self.assertEqual(references.c_page(ROOT), (ROOT / references.FOLDER / "c.md").read_text(encoding="utf-8"))

    def test_a_flag_that_is_no_key_and_a_key_that_is_no_flag(self):
        found = "\n".join(references.findings(self.root, {}, self.kerfd("redis", "workers")))
        self.assertIn("'redis' is a flag that --print-config leaves out", found)
        self.assertIn("'workers' is a key of --print-config and no flag", found)

    def test_metrics_that_are_old(self):
        (self.root / "docs/metrics.md").write_text("older\n", encoding="utf-8")
        self.assertIn("docs/metrics.md: not what kerfd says", "\n".join(references.findings(self.root, {}, self.kerfd("redis", "redis"))))


class BuildTest(unittest.TestCase):
    def said_of(self, page):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "source"
            (source / "docs").mkdir(parents=True)
            (source / "docs/index.md").write_text(page, encoding="utf-8")
            return "\n".join(build_site.build(source, pathlib.Path(folder) / "html"))

    def test_a_page(self):
        self.assertEqual("", self.said_of("# A page\n\nText, and [itself](index.md#a-page).\n"))

    def test_dead_links_stop_it(self):
        self.assertIn("gone.md", self.said_of("# A page\n\n[gone](gone.md)\n"))
        self.assertIn("no-such-place", self.said_of("# A page\n\n[gone](index.md#no-such-place)\n"))


if __name__ == "__main__":
    unittest.main()
