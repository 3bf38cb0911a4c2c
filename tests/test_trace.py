"""FP4EMU_TRACE: valid JSON, tracks for each warp, engine and barrier, spans that do not
overlap on them, the same whatever the number of host threads; and the text about stalls."""

import json
import re

import pytest

from conftest import gen

RUN = ("run", "--tile", "128x64x128", "--stages", "3", "-m", "172", "-n", "152", "-k", "1056",
       "--ctas", "2", "--driver", "emu")


def traced(path, *args, **env):
    code, out, err = gen(*RUN, *args, env={"FP4EMU_TRACE": str(path), **env})
    assert code == 0, err
    return json.loads(path.read_text(encoding="utf-8")), err


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return traced(tmp_path_factory.mktemp("trace") / "t.json")


def names(events, what):
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events
            if e["ph"] == "M" and e["name"] == what}


def spans(events, pid, tid):
    return sorted((e["ts"], e["ts"] + e["dur"], e["name"]) for e in events
                  if e["ph"] == "X" and (e["pid"], e["tid"]) == (pid, tid))


def test_tracks(trace):
    events = trace[0]["traceEvents"]
    processes = names(events, "process_name")
    assert len(processes) == 2
    assert {re.search(r"block \(\d,0,0\)", n)[0] for n in processes.values()} == {
        "block (0,0,0)", "block (1,0,0)"}
    threads = names(events, "thread_name")
    for pid, _ in processes:
        own = [n for (p, _), n in threads.items() if p == pid]
        for wanted in ("warp 0 EPILOGUE", "warp 3 EPILOGUE", "warp 4 LOAD", "warp 5 MMA",
                       "tensor pipe"):
            assert sum(n.startswith(wanted) for n in own) == 1, wanted
        assert own.count("TMA loads") == own.count("TMA stores") == 1
        assert sum(n.startswith("barrier 0x") for n in own) == 3 + 3 + 2 + 2
    # Every span lies on a track that has a name.
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"} <= set(threads)


def test_spans_of_a_track_do_not_overlap(trace):
    """Viewers drop spans that overlap without one lying in the other."""
    events = trace[0]["traceEvents"]
    for (pid, tid), name in names(events, "thread_name").items():
        last = 0
        for start, end, what in spans(events, pid, tid):
            assert start >= last - 1e-9 and end >= start, (name, what)
            last = end


def test_copies_at_the_same_time_lie_side_by_side(trace):
    """Each on the first track that is free, and no track without a copy but the first."""
    events = trace[0]["traceEvents"]
    threads = names(events, "thread_name")
    for kind in ("loads", "stores"):
        for pid in {p for p, _ in threads}:
            tracks = sorted((int(n.split()[2]) if n != f"TMA {kind}" else 1, tid)
                            for (p, tid), n in threads.items()
                            if p == pid and n.startswith(f"TMA {kind}"))
            assert [i for i, _ in tracks] == list(range(1, len(tracks) + 1))
            assert all(spans(events, pid, tid) for _, tid in tracks)
        if kind == "loads":
            assert len(tracks) > 3  # A, B and two scales are under way at once


def test_counts_and_costs(trace):
    events = trace[0]["traceEvents"]
    spans_of = [e for e in events if e["ph"] == "X"]
    mmas = [e for e in spans_of if e["name"].startswith("mma")]
    # 2 x 3 tiles, 9 steps of K with two MMAs of N = 64 each: 32 cycles.
    assert len(mmas) == 6 * 9 * 2
    assert all(abs(e["dur"] - 0.032) < 1e-9 for e in mmas)
    loads = [e for e in spans_of if e["name"].startswith("load")]
    assert len(loads) == 6 * 9 * 4
    assert all(e["dur"] >= 0.7 for e in loads)
    assert any(e["name"] == "wait: copies in" for e in spans_of)
    assert all(e["args"]["line"] > 0 for e in spans_of)


def test_nothing_is_used_before_it_is_there(trace):
    """A phase of full[] ends when its last copy does, and the MMAs behind it come later."""
    events = trace[0]["traceEvents"]
    pid = min(e["pid"] for e in events)
    full = min(tid for (p, tid), n in names(events, "thread_name").items()
               if p == pid and n.startswith("barrier"))
    first_phase = spans(events, pid, full)[0]
    assert first_phase[1] >= 0.7
    first_mma = min(e["ts"] for e in events if e["ph"] == "X" and e["pid"] == pid
                    and e["name"].startswith("mma"))
    assert first_mma > first_phase[1]


def test_summary(trace):
    lines = trace[1].splitlines()
    start = next(i for i, l in enumerate(lines) if l.startswith("virtual time of"))
    rows = {l.split(",")[0].strip(): re.findall(r"(\d+)%", l) for l in lines[start + 2:start + 5]}
    assert set(rows) == {"EPILOGUE", "LOAD", "MMA"}
    for shares in rows.values():
        assert 97 <= sum(map(int, shares)) <= 103


def test_host_threads_do_not_show(tmp_path):
    one = traced(tmp_path / "1.json", FP4EMU_THREADS="1")[0]
    assert one == traced(tmp_path / "4.json", FP4EMU_THREADS="4")[0]


def test_several_launches_follow_each_other(tmp_path):
    events = traced(tmp_path / "t.json", "--repeat", "3")[0]["traceEvents"]
    launches = {}
    for (pid, _), name in names(events, "process_name").items():
        launches.setdefault(re.search(r"launch (\d+)", name)[1], []).append(pid)
    assert len(launches) == 3
    ends = 0
    for number in sorted(launches, key=int):
        own = [e for e in events if e["ph"] == "X" and e["pid"] in launches[number]]
        assert min(e["ts"] for e in own) >= ends
        ends = max(e["ts"] + e["dur"] for e in own)


def test_size_is_bounded(tmp_path):
    code, _, err = gen("run", "--tile", "128x64x128", "-m", "256", "-n", "128", "-k", "300000",
                       "--ctas", "1", "--driver", "emu",
                       env={"FP4EMU_TRACE": str(tmp_path / "t.json")})
    assert code == 0, err
    assert "trace is cut" in err
    assert (tmp_path / "t.json").stat().st_size < 50 << 20
    assert json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["otherData"]["cut"]


def test_quiet(tmp_path):
    _, err = traced(tmp_path / "t.json", FP4EMU_QUIET="1")
    assert err == ""
