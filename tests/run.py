"""Runs the tests of one or more builds and adds them up.

    python3 tests/run.py [-j N] [WORD...] BUILD...      # BUILD: build/release

For each BUILD: every program of tests/t_*.c, and every tests/**/test_*.py with pytest.
A WORD picks the files whose name contains it.  Output is shown of what fails.  The last
line is "N passed, N failed", with ", N skipped" behind it when there are any; the exit
code is 1 when something failed or nothing ran.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from toolchain import ROOT, find_ptxas

# Programs that take long start first, so that the last worker is not left alone.
LONG_FIRST = ("sweep", "cli", "fault", "golden")
LAST_LINE = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
PYTEST_WORDS = {"passed": 0, "failed": 1, "error": 1, "errors": 1, "skipped": 2,
                "xfailed": 0, "xpassed": 1}


class Job:
    def __init__(self, build, path, command, read):
        self.build, self.path, self.command, self.read = build, path, command, read
        self.name = f"{build.name} {path.stem}"
        self.counts = [0, 0, 0]
        self.output, self.seconds = "", 0.0

    def run(self):
        env = dict(os.environ, FP4GEN_BUILD=str(self.build),
                   FP4GEN_BIN=str(self.build / "bin"), FP4GEN_LIB=str(self.build / "lib"))
        if find_ptxas():  # C tests look where a toolkit is
            env["CUDA_HOME"] = str(find_ptxas().parent.parent)
        if "-san" in self.build.name:
            env["FP4GEN_SAN"] = "1"
            # Signals and leaks are told by the sanitizer; cmocka would hide the former.
            env.setdefault("ASAN_OPTIONS", "handle_segv=2:handle_abort=1:"
                           "allocator_may_return_null=1:detect_leaks=1")
            env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
        start = time.monotonic()
        done = subprocess.run(self.command, cwd=ROOT, env=env, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, errors="replace", check=False)
        self.seconds = time.monotonic() - start
        self.output = done.stdout
        self.counts = self.read(self.output, done.returncode)
        return self


def read_program(output, code):
    """Counts of a t_*.c; one failure when it died before its last line."""
    lines = output.strip().splitlines()
    match = LAST_LINE.match(lines[-1]) if lines else None
    if not match:
        return [0, 1, 0]
    counts = [int(n or 0) for n in match.groups()]
    if code != 0 and counts[1] == 0:
        counts[1] = 1
    return counts


def read_pytest(output, code):
    counts = [0, 0, 0]
    lines = output.strip().splitlines()
    for number, word in re.findall(r"(\d+) (\w+)", lines[-1] if lines else ""):
        if word in PYTEST_WORDS:
            counts[PYTEST_WORDS[word]] += int(number)
    if code not in (0, 5) and counts[1] == 0:  # 5: no test in the file
        counts[1] = 1
    return counts


def collect(builds, words):
    jobs = []
    for build in builds:
        for source in sorted(ROOT.glob("tests/t_*.c")):
            program = build / "tests" / source.stem
            jobs.append(Job(build, source, [str(program)], read_program))
        for source in sorted(ROOT.glob("tests/**/test_*.py")):
            command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p",
                       "no:cacheprovider", "--tb=short", str(source)]
            jobs.append(Job(build, source, command, read_pytest))
    if words:
        jobs = [j for j in jobs if any(w in j.path.stem for w in words)]

    def rank(job):
        place = [i for i, w in enumerate(LONG_FIRST) if w in job.path.stem]
        return (place or [len(LONG_FIRST)])[0]
    return sorted(jobs, key=rank)


class Progress:
    """One line for each finished program; on a terminal a bar below them."""

    def __init__(self, total):
        self.total, self.done = total, 0
        self.running = []
        self.lock = threading.Lock()
        self.terminal = sys.stderr.isatty()

    def draw(self):
        if not self.terminal:
            return
        width = 24
        full = width * self.done // max(self.total, 1)
        text = (f"[{'#' * full}{'.' * (width - full)}] {self.done}/{self.total} "
                + ", ".join(self.running))
        columns = shutil.get_terminal_size().columns
        sys.stderr.write("\r\033[K" + text[:columns - 1])
        sys.stderr.flush()

    def start(self, job):
        with self.lock:
            self.running.append(job.name)
            self.draw()

    def finish(self, job):
        with self.lock:
            self.running.remove(job.name)
            self.done += 1
            if self.terminal:
                sys.stderr.write("\r\033[K")
                sys.stderr.flush()
            passed, failed, skipped = job.counts
            state = "FAILED" if failed else "ok"
            counts = f"{passed} passed" + (f", {failed} failed" if failed else "") + (
                f", {skipped} skipped" if skipped else "")
            print(f"{state:6} {job.name:44} {counts}, {job.seconds:.1f} s")
            if failed:
                print("\n".join("    " + line for line in job.output.splitlines()[-200:]))
            elif skipped:
                for line in sorted(set(re.findall(r".*(?:skipped: |SKIPPED).*",
                                                  job.output))):
                    print("       " + line.strip())
            sys.stdout.flush()
            self.draw()


def main(args):
    jobs_at_once = os.cpu_count() or 1
    words, builds = [], []
    while args:
        arg = args.pop(0)
        if arg.startswith("-j"):
            jobs_at_once = int(arg[2:] or args.pop(0))
        elif (ROOT / arg / "tests").is_dir():
            builds.append(ROOT / arg)
        elif "/" in arg:
            sys.exit(f"tests/run.py: {arg} holds no built tests: run make tests first")
        else:
            words.append(arg)
    jobs = collect(builds, words)
    progress = Progress(len(jobs))

    def work(job):
        progress.start(job)
        try:
            job.run()
        except OSError as e:
            job.output, job.counts = str(e), [0, 1, 0]
        progress.finish(job)
        return job

    with ThreadPoolExecutor(max_workers=jobs_at_once) as pool:
        done = list(pool.map(work, jobs))
    if progress.terminal:
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()
    passed, failed, skipped = (sum(j.counts[i] for j in done) for i in range(3))
    bad = [j.name for j in done if j.counts[1]]
    if bad:
        print("failed: " + ", ".join(bad))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
