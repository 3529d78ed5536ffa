"""A broker under mixed load for minutes or days: no acknowledged record may be lost, and what it holds must stay flat.

usage: soak.py --pelton BINARY [--minutes 60] [--seed N] [--out DIR] [--kill-every MINUTES] [--kafka SCRIPT]

Producers of every kind, a log that keeps all, one that rolls and is cut, a compacted one, transactions that commit, abort and are
fenced, groups whose members come and go (kafka-python; kcat and Java's consumer with KIP-848, where there are such), topics that come
and go, connections good and bad. Every five seconds memory, descriptors, threads, processor time and disk are written to samples.csv in
the folder of --out; every ten a line tells how it goes. With --kill-every the broker is killed and started again about so often.

In the end the group must have seen every acknowledged record; then the broker is killed with kill -9 and started again, everything that
was acknowledged is read back, and it must stop cleanly. The first thing that must never be ends the soak: exit status 1, with the
seed. 0: all was well. 2: it could not be run.
"""

import argparse
import csv
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

import soak_load as load
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

SETTINGS = [
    # A producer that still knows a topic would make it again after its deletion, and the topics would be ever more.
    "auto.create.topics.enable=false",
    "log.retention.check.interval.ms=5000",
    "log.cleaner.backoff.ms=5000",
    "group.initial.rebalance.delay.ms=500",
    # Coordinators' and metadata's own logs roll, are compacted and replaced by snapshots within minutes.
    "offsets.topic.num.partitions=8",
    "offsets.topic.segment.bytes=1048576",
    "transaction.state.log.num.partitions=8",
    "transaction.state.log.segment.bytes=1048576",
    "metadata.log.max.record.bytes.between.snapshots=262144",
    "metadata.log.segment.bytes=8388608",
]
SAMPLE_S, TELL_S, DISK_S = 5, 10, 30
KINDS = {"rss_mb": "resident MB", "anon_mb": "of it anonymous MB", "fds": "descriptors", "threads": "threads", "cpu": "% of a core", "disk_mb": "disk MB"}
# How much more there may be at the end than after warming up, by the line through all samples: so much, or this share of the median.
FLAT = {"rss_mb": (16, 0.15), "anon_mb": (8, 0.10), "fds": (24, 0.10), "threads": (2, 0.10)}
TICKS = os.sysconf("SC_CLK_TCK")


def fail(what):
    print(f"soak: {what}", file=sys.stderr)
    sys.exit(2)


class Broker:
    """The process under test, on one port and one folder."""

    def __init__(self, binary, folder):
        self.binary, self.folder, self.process, self.disk = binary, folder, None, 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"

    def start(self):
        settings = [word for each in SETTINGS for word in ("--set", each)]
        command = [self.binary, "serve", "--listen", self.address, "--advertise", self.address, "--data-dir", f"{self.folder}/data", "--log", "warn", *settings]
        log = f"{self.folder}/broker.log"
        begin = time.monotonic()
        with open(log, "ab") as out:
            told = out.tell()
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        self.ticks, self.ticks_at = 0, begin
        # What it says, and not its port: a connection to a port of one's own range may meet itself.
        while self.process.poll() is None and time.monotonic() < begin + 60:
            with open(log, "rb") as text:
                text.seek(told)
                if b"listening on" in text.read():
                    return time.monotonic() - begin
            time.sleep(0.02)
        raise load.Violation(f"the broker does not start:\n{self.said()}")

    def end(self, number, patience):
        """Ends the process; gives its exit code, or None when it had to be killed for not ending."""
        self.process.send_signal(number)
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

    def said(self):
        with open(f"{self.folder}/broker.log", errors="replace") as log:
            return "".join(log.readlines()[-20:])

    def sample(self):
        """What the process holds now, by the names of KINDS; None when it ended meanwhile."""
        proc = f"/proc/{self.process.pid}"
        try:
            with open(f"{proc}/status") as lines:
                status = dict(line.split(":", 1) for line in lines)
            with open(f"{proc}/stat") as line:
                ticks = sum(map(int, line.read().rsplit(")", 1)[1].split()[11:13]))
            fds = len(os.listdir(f"{proc}/fd"))
        except (OSError, KeyError, ValueError):
            return None
        now = time.monotonic()
        cpu = 100 * (ticks - self.ticks) / TICKS / (now - self.ticks_at)
        self.ticks, self.ticks_at = ticks, now
        kb = lambda name: int(status[name].split()[0]) / 1024
        return {"rss_mb": kb("VmRSS"), "anon_mb": kb("RssAnon"), "fds": fds, "threads": int(status["Threads"]), "cpu": cpu, "disk_mb": self.disk}

    def measure_disk(self):
        total = 0
        for folder, _, files in os.walk(f"{self.folder}/data"):
            for file in files:
                try:
                    total += os.stat(os.path.join(folder, file)).st_blocks * 512
                except OSError:
                    pass  # deleted meanwhile
        self.disk = total / 1e6


class Soak:
    """One run. Workers tell violation() and error(); run() gives the exit status."""

    def __init__(self, options, folder):
        self.seed, self.minutes, self.kill_every = options.seed, options.minutes, options.kill_every
        self.broker = Broker(options.pelton, folder)
        self.address, self.folder, self.patience = self.broker.address, folder, 240
        self.errors, self.lives, self.kills = Counter(), [[]], 0
        self.lock, self.violations = threading.Lock(), []
        self.log = load.Log(self)
        self.group = load.Group(self, self.log)
        self.workers = [self.log, load.Ring(self), load.Compact(self), load.Transactions(self), self.group, load.Topics(self), load.Connections(self)]
        if shutil.which("kcat"):
            self.workers.append(load.Processes(self, "kcat", ["kcat", "-q", "-b", self.address, "-X", "auto.offset.reset=latest", "-G", "soak-kcat", load.Log.topic], (5, 30)))
        if options.kafka:
            command = [options.kafka, "console-consumer", "--bootstrap-server", self.address, "--topic", load.Log.topic, "--group", "soak-848", "--command-property", "group.protocol=consumer"]
            self.workers.append(load.Processes(self, "java-848", command, (60, 120)))

    def violation(self, what):
        with self.lock:
            self.violations.append(what)

    def error(self, who, error):
        with self.lock:
            self.errors[f"{who}: {type(error).__name__}: {str(error)[:100]}"] += 1

    def check(self):
        if self.violations:
            raise load.Violation(self.violations[0])
        if self.broker.process.poll() is not None:
            raise load.Violation(f"the broker ended with {self.broker.process.returncode}:\n{self.broker.said()}")
        now = time.monotonic()
        for worker in self.workers:
            if worker.is_alive() and worker.stands_still(now):
                raise load.Violation(f"{worker.name} stands still for {self.patience} s; errors: {dict(self.errors)}")

    def run(self):
        begin = time.monotonic()
        try:
            self.broker.start()
            load.fill_memory(self.address, len(os.sched_getaffinity(0)))
            self.create_topics()
            begin = time.monotonic()
            print(f"soak: seed {self.seed}, {self.minutes:g} minutes, broker {self.address} (process {self.broker.process.pid}), data and samples in {self.folder}", flush=True)
            with open(f"{self.folder}/samples.csv", "w", newline="") as file:
                self.load_until(begin, begin + self.minutes * 60, file)
            return self.end_and_verify(begin)
        except load.Violation as what:
            print(f"\nsoak: VIOLATION after {time.monotonic() - begin:.0f} s, seed {self.seed}: {what}\nsoak: data and samples are kept in {self.folder}", flush=True)
            return 1
        finally:
            for worker in self.workers:
                worker.stop.set()

    def create_topics(self):
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        for worker in self.workers:
            for name, (partitions, configs) in worker.topics.items():
                admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs)])
        admin.close()

    def load_until(self, begin, end, file):
        rows = csv.DictWriter(file, ["seconds", "life", *KINDS, "errors"])
        rows.writeheader()
        for worker in self.workers:
            worker.start()
        sampled = told = measured = 0.0
        kill_at = self.next_kill()
        while (now := time.monotonic()) < end:
            self.check()
            if kill_at < now:
                self.kill_and_start()
                kill_at = self.next_kill()
            if measured + DISK_S < now:
                measured = now
                self.broker.measure_disk()
            if sampled + SAMPLE_S < now and (sample := self.broker.sample()):
                sampled = now
                self.lives[-1].append((now, sample))
                rows.writerow({"seconds": round(now - begin), "life": len(self.lives), **{name: round(value, 1) for name, value in sample.items()}, "errors": self.errors.total()})
                file.flush()
                if told + TELL_S < now:
                    told = now
                    self.tell(begin, now, sample)
            time.sleep(0.2)

    def tell(self, begin, now, sample):
        did = "  ".join(worker.told() for worker in self.workers)
        holds = f"{sample['rss_mb']:.0f} MB ({sample['anon_mb']:.0f} anonymous)  {sample['fds']} descriptors  {sample['threads']} threads  {sample['cpu']:.0f} %  disk {sample['disk_mb']:.0f} MB"
        print(f"{now - begin:7.0f} s  {holds}  |  {did}  |  errors {self.errors.total()}" + (f"  kills {self.kills}" if self.kill_every else ""), flush=True)

    def next_kill(self):
        return time.monotonic() + self.kill_every * 60 * self.log.random.uniform(0.5, 1.5) if self.kill_every else float("inf")

    def kill_and_start(self):
        self.broker.end(signal.SIGKILL, 30)
        self.kills += 1
        print(f"soak: killed; served again after {self.broker.start():.2f} s", flush=True)
        self.lives.append([])

    def stop_workers(self, workers):
        for worker in workers:
            worker.stop.set()
        for worker in workers:
            worker.join(120)
            if worker.is_alive():
                raise load.Violation(f"{worker.name} does not end: a client waits without end")
        self.check()

    def end_and_verify(self, begin):
        print(f"soak: load ends after {time.monotonic() - begin:.0f} s; verifying", flush=True)
        self.stop_workers([worker for worker in self.workers if worker is not self.group])
        deadline = time.monotonic() + 90
        while missing := self.group.missing():
            self.check()
            if deadline < time.monotonic():
                raise load.Violation(f"{load.Group.name_of_group} did not see {len(missing)} acknowledged records, the first is offset {missing[0][1]} of {load.Log.topic}-{missing[0][0]}")
            time.sleep(1)
        self.stop_workers([self.group])
        self.broker.end(signal.SIGKILL, 30)
        seconds = self.broker.start()
        told = [text for worker in self.workers if (text := worker.verify())]
        code = self.broker.end(signal.SIGTERM, 90)
        load.want(code == 0, f"the broker did not stop cleanly: {'it had to be killed' if code is None else code}\n{self.broker.said()}")
        print(f"\nafter kill -9 the broker served again within {seconds:.2f} s, and stopped cleanly in the end")
        for text in told:
            print(f"  {text}")
        self.tell_errors()
        flat = self.judge()
        if flat:
            raise load.Violation("; ".join(flat))
        print("\nsoak: passed", flush=True)
        return 0

    def tell_errors(self):
        print(f"\n{self.errors.total()} errors that clients told and got over" + (f", {self.kills} kills" if self.kill_every else ""))
        for text, count in self.errors.most_common(20):
            print(f"  {count:5} {text}")

    def judge(self):
        """Prints what the longest life of the broker held; gives what was not flat in it."""
        life = max(self.lives, key=len)
        span = life[-1][0] - life[0][0] if life else 0
        rows = [each for each in life if life[0][0] + max(60.0, span / 5) <= each[0]]
        if len(rows) < 2:
            print("\ntoo short to tell what it held")
            return []
        times = [at for at, _ in rows]
        span, bad = times[-1] - times[0], []
        judged = span >= 300
        print(f"\n{span:.0f} s after warming up{'' if judged else ' (too short to judge: under 300)'}\n{'':22}{'min':>10}{'median':>10}{'max':>10}{'growth':>10}{'allowed':>10}")
        for name, text in KINDS.items():
            values = [sample[name] for _, sample in rows]
            median = statistics.median(values)
            growth = statistics.linear_regression(times, values).slope * span
            allowed = max(FLAT[name][0], FLAT[name][1] * median) if name in FLAT else None
            print(f"  {text:20}{min(values):10.1f}{median:10.1f}{max(values):10.1f}{growth:+10.1f}" + (f"{allowed:10.1f}" if allowed else ""))
            if judged and allowed and growth > allowed:
                bad.append(f"{text} grew by {growth:.1f}, allowed are {allowed:.1f}")
        return bad


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parse.add_argument("--pelton", required=True)
    parse.add_argument("--minutes", type=float, default=60)
    parse.add_argument("--seed", type=int, default=int(time.time()))
    parse.add_argument("--out")
    parse.add_argument("--kill-every", type=float, default=0)
    parse.add_argument("--kafka")
    options = parse.parse_args()
    if not os.access(options.pelton, os.X_OK):
        fail(f"{options.pelton} is no program")
    folder = options.out or tempfile.mkdtemp(prefix="pelton-soak-")
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(f"{folder}/data"):
        fail(f"{folder}/data is there already")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    soak = Soak(options, folder)
    status = 2
    try:
        status = soak.run()
    except KeyboardInterrupt:
        status = 130
    except SystemExit as end:
        status = end.code
    finally:
        for worker in soak.workers:
            worker.stop.set()
            if isinstance(worker, load.Processes) and worker.ident:
                worker.join(30)
        if soak.broker.process and soak.broker.process.poll() is None:
            soak.broker.end(signal.SIGTERM, 30)
    if status == 0:
        shutil.rmtree(f"{folder}/data")
        if not options.out:
            shutil.rmtree(folder)
    # Clients' threads may still wait for the broker that is gone.
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
