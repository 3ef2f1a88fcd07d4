"""Every reader and every command against hostile files: a result, or an error in a sentence.

`make torture` runs fifty times as many cases, new ones each time.
"""

import contextlib
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ldpopt.cli.problem_file import read_problem
from ldpopt.collection import Schema, aggregate, write_reports
from ldpopt.collection.counts import is_counts, read_counts
from ldpopt.collection.files import open_reports
from ldpopt.collection.header import Header
from ldpopt.collection.labels import Labels, read_values
from ldpopt.errors import LdpoptError
from tests.commands import run
from tests.hostile import CORPUS, changed, edited, edits, fields, resealed
from tests.reports_world import MAKERS, header_of, reports_of, rewrite

TIMES = int(os.environ.get("LDPOPT_TORTURE", "1"))
D = 4
NAMES = ("grr", "oue", "olh", "ss")
LABELS = Labels(D)


SCHEMA = Schema(MAKERS["grr"](D), ["value"], client_id="count")


def cases(number):
    """Return the settings of a test with so many cases; other ones each time under torture."""
    return settings(
        max_examples=number * TIMES,
        derandomize=TIMES == 1,
        database=None,
        # The files of a case replace those of the one before.
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder with one valid file of every kind; its contents never change."""
    folder = tmp_path_factory.mktemp("world")
    (folder / "edited").mkdir()
    for name in NAMES:
        oracle = MAKERS[name](D)
        ids = [f"c{i}" for i in range(12)]
        write_reports(folder / f"{name}.csv", oracle, reports_of(oracle, 12), client_ids=ids)
        write_reports(folder / f"{name}.parquet", oracle, reports_of(oracle, 12), client_ids=ids)
    for suffix in ("json", "csv"):
        out = folder / f"counts-{suffix}.{suffix}"
        assert run("aggregate", folder / "grr.csv", "--out", out).status == 0
    (folder / "problem.toml").write_text('loss = "LeastSquares"\nconstraints = ["NonNegative"]\n')
    (folder / "plain.csv").write_text("value,count\n0,5\n1,4\n2,2\n3,1\n")
    (folder / "labels.txt").write_text("red\ngreen\nblue\nwhite\n")
    (folder / "labels.json").write_text('["red", "green", "blue", "white"]')
    (folder / "sets.json").write_text('{"some": [0, 1], "one": [3]}')
    (folder / "values.csv").write_text("client_id,value\na,0\nb,1\nc,3\n")
    return folder


def survives(function, *arguments):
    """Return what a function returns, or None after an error of this library; others go on."""
    try:
        return function(*arguments)
    except LdpoptError:
        return None


def numbers(path):
    """Read a file as whatever it may be, as ``ldpopt estimate`` does."""
    counted = read_counts(path, None, None, None) if is_counts(path) else aggregate(path)
    return counted.header.protocol, counted.counts.tolist(), counted.n, counted.rejected


def check_accounts(path, result):
    """Check that every row of a file of reports was counted or set aside."""
    protocol, counts, n, rejected = result
    assert n + sum(rejected.values()) == sum(open_reports(path).group_rows)
    assert len(counts) == protocol["d"]
    assert 0 <= min(counts) <= max(counts) <= n


# --- readers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CORPUS)
def test_every_reader_survives_the_corpus(name, tmp_path):
    state = tmp_path / "state"
    write_reports(tmp_path / "r.csv", MAKERS["grr"](D), [0, 1])
    state.write_bytes(CORPUS[name])
    assert survives(lambda: aggregate(tmp_path / "r.csv", state=state)) is None
    for suffix in ("csv", "json", "parquet", "txt"):
        path = tmp_path / f"x.{suffix}"
        path.write_bytes(CORPUS[name])
        survives(numbers, path)
        survives(aggregate, path)
        survives(read_counts, path, MAKERS["grr"](D), LABELS, None)
        survives(Labels.read, str(path))
        survives(LABELS.sets, path)
        survives(lambda path: list(read_values(path, LABELS)), path)
        survives(lambda path: aggregate(path, schema=SCHEMA), path)
    for suffix in ("toml", "yaml"):
        path = tmp_path / f"p.{suffix}"
        path.write_bytes(CORPUS[name])
        survives(read_problem, path, LABELS)


@given(st.sampled_from(NAMES), fields)
@cases(450)
def test_any_header_is_read_or_refused(name, changes):
    record = changed(Header(MAKERS[name](D)).record(), changes)
    header = survives(Header.from_record, record, "here")
    if header is not None:
        assert header.oracle.d <= 2**24


@pytest.mark.parametrize("name", ["grr.csv", "oue.csv", "counts-json.json", "counts-csv.csv"])
@given(pieces=edits)
@cases(150)
def test_no_edit_of_a_text_file_goes_unnoticed(name, pieces, world):
    content = (world / name).read_bytes()
    other = edited(content, pieces)
    path = world / "edited" / name
    path.write_bytes(other)
    result = survives(numbers, path)
    assert other == content or result is None
    # A forger knows of the checksum: nothing is lost, and nothing counts twice.
    path.write_bytes(resealed(other))
    result = survives(numbers, path)
    if result is not None and not name.startswith("counts"):
        check_accounts(path, result)


@pytest.mark.parametrize("name", NAMES)
@given(pieces=edits)
@cases(60)
def test_no_edit_of_a_parquet_file_goes_unnoticed(name, pieces, world):
    content = (world / f"{name}.parquet").read_bytes()
    path = world / "edited" / f"{name}.parquet"
    path.write_bytes(edited(content, pieces))
    # An edit may hit what nobody needs, as the magic in front.
    result = survives(numbers, path)
    assert result is None or result == numbers(world / f"{name}.parquet")
    path.write_bytes(resealed(path.read_bytes()))
    result = survives(numbers, path)
    if result is not None:
        check_accounts(path, result)


CELLS = {
    pa.uint8(): st.integers(0, 255),
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 5),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.floats(),
    pa.float16(): st.none(),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=4).filter(lambda text: text.isascii()),
    pa.large_string(): st.just("é" * 600),
    pa.binary(): st.binary(max_size=4),
    pa.binary(1): st.binary(min_size=1, max_size=1),
    pa.null(): st.none(),
    pa.timestamp("us"): st.integers(0, 10**9),
    pa.decimal128(5, 2): st.none(),
    pa.list_(pa.int64()): st.lists(st.integers(-1, 5), max_size=3),
    pa.list_(pa.uint8(), 1): st.lists(st.integers(0, 5), min_size=1, max_size=1),
    pa.large_list(pa.string()): st.lists(st.just("x"), max_size=2),
    pa.struct([("a", pa.int64())]): st.none(),
    pa.list_(pa.list_(pa.int64())): st.none(),
    pa.map_(pa.string(), pa.int64()): st.none(),
}


@st.composite
def columns(draw, rows):
    kind = draw(st.sampled_from(list(CELLS)))
    cells = draw(st.lists(CELLS[kind] | st.none(), min_size=rows, max_size=rows))
    column = pa.array(cells, kind)
    may_repeat = pa.types.is_integer(kind) or pa.types.is_string(kind) or kind == pa.binary()
    return column.dictionary_encode() if may_repeat and draw(st.booleans()) else column


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@cases(50)
def test_columns_of_any_type_are_counted_or_refused(name, data, world):
    header = json.dumps(header_of(world / f"{name}.parquet"))
    needed = ["seed", "bucket"] if name == "olh" else ["report"]
    names = [*needed, *data.draw(st.sampled_from([[], ["client_id"], ["report"], ["x"]]))]
    table = pa.table([data.draw(columns(3)) for _ in names], names=names)
    path = world / "edited" / "columns.parquet"
    rewrite(path, table, header, row_group_size=data.draw(st.integers(1, 3)))
    result = survives(numbers, path)
    if result is not None:
        check_accounts(path, result)


@given(data=st.data())
@cases(60)
def test_columns_of_any_type_in_files_of_others_are_read_or_refused(data, world):
    path = world / "edited" / "service.parquet"
    pq.write_table(pa.table({name: data.draw(columns(3)) for name in ("value", "count")}), path)
    result = survives(lambda: aggregate(path, schema=SCHEMA))
    assert result is None or result.n + sum(result.rejected.values()) == 3
    batches = survives(lambda: list(read_values(path, LABELS)))
    assert all(((values >= 0) & (values < D)).all() for values, _ in batches or [])


@pytest.mark.parametrize(
    "name", ["labels.txt", "labels.json", "sets.json", "values.csv", "plain.csv", "problem.toml"]
)
@given(pieces=edits)
@cases(80)
def test_any_file_of_an_analyst_is_read_or_refused(name, pieces, world):
    path = world / "edited" / name
    path.write_bytes(edited((world / name).read_bytes(), pieces))
    if name.startswith("labels"):
        survives(Labels.read, str(path))
    elif name == "sets.json":
        survives(LABELS.sets, path)
    elif name == "problem.toml":
        survives(read_problem, path, LABELS)
    elif name == "values.csv":
        batches = survives(lambda: list(read_values(path, LABELS)))
        assert all(((values >= 0) & (values < D)).all() for values, _ in batches or [])
    else:
        survives(read_counts, path, MAKERS["grr"](D), LABELS, None)


@pytest.fixture(scope="module")
def unfinished(world):
    """The state of a run over a file that was interrupted after its last part."""
    state = world / "edited" / "state"

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        aggregate(world / "grr.csv", state=state, on_partition=stop)
    return json.loads(state.read_bytes())


@given(fields, st.booleans())
@cases(120)
def test_any_state_is_taken_up_rightly_or_refused(world, unfinished, changes, is_forged):
    state = world / "edited" / "state"
    content = json.dumps(changed(unfinished, changes)).encode()
    state.write_bytes(resealed(content) if is_forged else content)
    result = survives(lambda: aggregate(world / "grr.csv", state=state))
    if result is not None:
        # What a forger writes is believed where it adds up.
        assert result.n + sum(result.rejected.values()) == 12
        assert is_forged or json.loads(content) == unfinished


# --- commands -------------------------------------------------------------------------------------


OUTPUTS = ["out.csv", "out.json", "out.parquet", "deep/out.json"]
ODD = ["nowhere.csv", "x" * 300, ".", "/dev/null", "é\udcff.csv", "loop.csv", "gone.parquet"]
AMOUNTS = ["1", "0", "-1", "nan", "1e400", "0.5", "x", "9" * 5000]
DOMAINS = ["4", "1", "0", "9" * 5000, "-3", "²"]
FOREIGN = {
    "--oracle": ["grr", "oue", "x"],
    "--epsilon": AMOUNTS,
    "--domain": DOMAINS,
    "--column": ["value", "report", "x"],
    "--client-id": ["client_id", "count"],
}
OPTIONS = {
    "aggregate": {
        "--rejects": OUTPUTS,
        "--max-reject-rate": AMOUNTS,
        "--workers": AMOUNTS[1:],
        **FOREIGN,
    },
    "merge": {},
    "select": {"--seed": AMOUNTS, "--fit": ["norm-sub", "x"], **FOREIGN},
    "risk": {
        **FOREIGN,
        "--problem": ["problem.toml"],
        "--query": [],
        "--n": AMOUNTS,
        "--level": AMOUNTS,
        "--by": ["auto", "sure", "x"],
        "--seed": AMOUNTS,
        "--out": OUTPUTS,
    },
    "estimate": {
        **FOREIGN,
        "--problem": ["problem.toml"],
        "--alpha": AMOUNTS,
        "--n": AMOUNTS,
        "--query": [],
        "--answers": OUTPUTS,
        "--out": OUTPUTS,
        "--interval": AMOUNTS,
        "--top": AMOUNTS,
    },
    "perturb": {"--seed": AMOUNTS},
}
NEEDED = {
    "aggregate": {"--out": OUTPUTS},
    "merge": {"--out": OUTPUTS},
    "select": {"--query": ["sets.json"], "--trials": ["2"], "--candidates": ["base,norm-sub"]},
    "risk": {"--methods": ["base,norm-sub"]},
    "estimate": {},
    "perturb": {
        "--oracle": ["grr", "olh"],
        "--epsilon": ["1"],
        "--domain": DOMAINS,
        "--out": OUTPUTS,
    },
}
FLAGS = {
    "aggregate": "--keep-going",
    "merge": "--json",
    "select": "--json",
    "risk": "--json",
    "estimate": "--json",
    "perturb": "--json",
}
OF_FILES = ("--query", "--domain", "--out", "--answers", "--rejects", "--problem")
READ = ("--query", "--domain", "--problem")


class Arena:
    """A folder with the world, the corpus, links, a pipe and a folder; commands run in it."""

    def __init__(self, folder, world):
        self.folder = folder
        for path in world.glob("*.*"):
            (folder / path.name).write_bytes(path.read_bytes())
        for number, content in enumerate(CORPUS.values()):
            suffix = ("csv", "json", "parquet", "txt")[number % 4]
            (folder / f"hostile{number}.{suffix}").write_bytes(content)
        # Names of files are bytes, which need not be text.
        (folder / "r\udcff.parquet").write_bytes((world / "grr.parquet").read_bytes())
        (folder / "r\udcff.csv").write_bytes((world / "grr.csv").read_bytes())
        (folder / "folder").mkdir()
        write_reports(folder / "folder" / "part.parquet", MAKERS["grr"](D), [0, 1, 2])
        self.contents = {path: path.read_bytes() for path in self.files()}
        (folder / "also.csv").symlink_to("grr.csv")
        (folder / "loop.csv").symlink_to("loop.csv")
        (folder / "gone.parquet").symlink_to("nowhere.parquet")
        os.mkfifo(folder / "pipe.csv")
        self.names = sorted(path.name for path in folder.iterdir())

    def files(self):
        """Return all files that are no links."""
        paths = [Path(parent, name) for parent, _, names in os.walk(self.folder) for name in names]
        return [path for path in paths if path.is_file() and not path.is_symlink()]

    def stamps(self):
        """Return what changes with the content of each file."""
        status = {path: path.stat() for path in self.files()}
        return {path: (one.st_ino, one.st_size, one.st_mtime_ns) for path, one in status.items()}

    def restore(self, before):
        """Undo what a command did; return the files that it changed, and those that it made."""
        after = self.stamps()
        altered = {path for path, stamp in before.items() if after.get(path) != stamp}
        for path in altered:
            path.write_bytes(self.contents[path])
        for path in after.keys() - before.keys():
            path.unlink()
        # A link that was written over is a file now.
        if not (self.folder / "also.csv").is_symlink():
            (self.folder / "also.csv").symlink_to("grr.csv")
        return altered, after.keys() - before.keys()


@pytest.fixture(scope="module")
def arena(world, tmp_path_factory):
    return Arena(tmp_path_factory.mktemp("arena"), world)


choices = st.integers(0, 10**6)


def line_of(names, numbers):
    """Return a line of arguments, chosen by numbers: a command, its needs, and some options."""
    numbers = iter(numbers)

    def choose(among):
        return among[next(numbers) % len(among)]

    command = choose(list(OPTIONS))
    inputs = [*names, *ODD]
    line = [command, choose(inputs)]
    if command == "merge":
        line.append(choose([*inputs, "counts-json.json", "counts-csv.csv"]))
    some = [name for name in OPTIONS[command] if next(numbers) % 3 == 0]
    for name, values in {
        **NEEDED[command],
        **{name: OPTIONS[command][name] for name in some},
    }.items():
        # Files of any kind where files are meant; the likely values as often.
        other = inputs if name in OF_FILES and next(numbers) % 2 else values
        line += [name, choose(other or inputs)]
    return [*line, FLAGS[command]] if next(numbers) % 4 == 0 else line


@given(st.lists(choices, min_size=40, max_size=40))
@cases(150)
def test_no_line_of_arguments_ends_in_a_traceback_or_loses_its_inputs(arena, numbers):
    line = line_of(arena.names, numbers)
    before = arena.stamps()
    with contextlib.chdir(arena.folder):
        result = run(*line)
        read = [line[1], *(line[line.index(o) + 1] for o in READ if o in line)]
        read += line[2:3] if line[0] == "merge" else []
        inputs = {os.path.realpath(name) for name in read if len(name) < 255}
    altered, new = arena.restore(before)
    assert result.status in (0, 2, 3), (line, result.err)
    assert "Traceback" not in result.err
    assert not {str(path) for path in altered} & inputs, line
    assert not [path for path in new if path.suffix in (".part", ".lock")], line
