"""Rules, dashboard and metrics, as Prometheus' own tool reads them."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from http_api import ApiCase, requests  # noqa: E402
from nightshift_testing import ROOT, Sim, Worker  # noqa: E402

MONITORING = os.path.join(ROOT, "deploy", "monitoring")
PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool")
# What scripts and dashboards of others are written against.
CONTRACT = """nightshift_requests_total nightshift_attempts_total nightshift_request_latency_seconds
nightshift_time_to_first_token_seconds nightshift_tokens_total nightshift_cost_usd_total
nightshift_backend_concurrency_limit nightshift_backend_in_flight nightshift_lease_requests nightshift_pending_requests
nightshift_backlog_seconds nightshift_duplicate_results_total nightshift_lapsed_leases_total
nightshift_store_commit_seconds nightshift_workers""".split()


def promtool(*words, **options):
    if not PROMTOOL:
        print("SKIPPED LOUDLY: promtool (Debian: prometheus) is absent; this test proves nothing here", file=sys.stderr)
        raise unittest.SkipTest("promtool is absent")
    return subprocess.run([PROMTOOL, *words], capture_output=True, text=True, timeout=60, **options)


def names(text):
    return set(re.findall(r"nightshift_[a-z_]+", text))


class Monitoring(ApiCase):
    def scrape(self, url):
        with urllib.request.urlopen(url, timeout=20) as reply:
            return reply.read().decode()

    def test_metrics_of_both_programs(self):
        sim = self.start(Sim("--models", "m"))
        worker = self.start(Worker(self.coordinator.address, sim.url))
        of_worker = worker.wait_for(r"http://(127\.0\.0\.1:\d+)/healthz").group(1)
        failing = requests(2, '<<{"status":400}>> %d').replace('"custom_id": "r', '"custom_id": "f')
        self.until(self.created(self.uploaded(requests(20) + failing)), "completed")
        self.eventually(lambda: "nightshift_backend_in_flight{" in self.scrape(f"http://{of_worker}/metrics"), "it has reported")
        texts = [self.scrape(f"http://{address}/metrics") for address in (self.http, of_worker)]
        for name in CONTRACT:
            self.assertIn(f"# TYPE {name} ", texts[0])
        values = dict(line.rsplit(" ", 1) for line in texts[1].splitlines() if line and not line.startswith("#"))
        attempts = {name: float(value) for name, value in values.items() if name.startswith("nightshift_attempts_total")}
        self.assertEqual(sorted(attempts.values()), [2, 20], attempts)
        self.assertEqual(float(values["nightshift_worker_connected"]), 1)
        for expression in [panel["expr"] for one in json.load(open(os.path.join(MONITORING, "dashboard.json")))["panels"]
                           for panel in one["targets"]] + [open(os.path.join(MONITORING, "alerts.yml")).read()]:
            for name in names(expression):
                known = re.sub("_(bucket|sum|count)$", "", name)
                self.assertTrue(any(f"# TYPE {known} " in text for text in texts), name)
        for text in texts:
            checked = promtool("check", "metrics", input=text)
            self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))

    # A job is in no label: with many of them there are as many series as with few.
    def test_series_do_not_grow_with_jobs(self):
        self.start_worker()
        file = self.uploaded(requests(1))
        self.until(self.created(file), "completed")

        def series():
            return len([one for one in self.call("GET", "/metrics").body.splitlines() if not one.startswith(b"#")])
        few = series()
        batches = [self.created(file) for _ in range(100)]
        self.until(batches[-1], "completed")
        self.assertEqual(series(), few)

    def test_rules(self):
        for words in (("test", "rules", "alerts_test.yml"), ("check", "config", "prometheus.yml")):
            checked = promtool(*words, cwd=MONITORING)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main()
