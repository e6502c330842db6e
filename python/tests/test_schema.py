"""The outputs of `--json` match their schemas in docs/schema."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema")

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SCHEMAS = {path.stem: json.loads(path.read_text()) for path in (ROOT / "docs/schema").glob("*.json")}
RECORDINGS = sorted(path for path in EXAMPLES.iterdir() if ".pickle" in path.name)
OOM = EXAMPLES / "oom.pickle"
LEAK = EXAMPLES / "leak.pickle"

OUTPUTS = [
    *[(name, [name, file]) for file in RECORDINGS for name in ("report", "info", "replay")],
    *[("diff", ["diff", OOM, file]) for file in RECORDINGS],
    *[("check", ["check", file, "--max-peak", "1GiB", "--no-leaks", "--no-oom"]) for file in RECORDINGS],
    ("check", ["check", OOM, "--baseline", LEAK, "--max-category", "activation=1GiB"]),
    ("replay", ["replay", OOM, "--find-capacity"]),
    ("replay", ["replay", OOM, "--conf", "max_split_size_mb:32", "--capacity", "7GiB"]),
    ("report", ["report", OOM, "--at", "100", "--by", "line"]),
    ("report-range", ["report", OOM, "--at", "10..99"]),
    ("report-samples", ["report", EXAMPLES / "tracker.csv.zst"]),
    ("phantom-list", ["phantom", "list"]),
    ("export", ["export", OOM, "-o", "{folder}/run.csv"]),
    ("export-dataset", ["export", "{ranks}", "--format", "parquet", "-o", "{folder}/data"]),
    ("view-html", ["view", OOM, "--html", "{folder}/page.html"]),
    ("fleet", ["fleet", "{ranks}", "--no-cache"]),
    ("fleet", ["fleet", "{ranks}", "--no-cache", "--max-peak", "1GiB", "--max-imbalance", "5%", "--gpu", "a100-80gb"]),
    ("top", ["top"]),
]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recordings of two ranks, and an unreadable file of a third."""
    folder = tmp_path_factory.mktemp("ranks")
    shutil.copy(OOM, folder / "rank0.pickle")
    shutil.copy(LEAK, folder / "rank1.pickle")
    (folder / "rank2.pickle").write_text("no recording")
    return folder


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_each_schema_is_a_schema_and_forbids_wrong_types(name: str):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    assert not jsonschema.Draft202012Validator(SCHEMAS[name]).is_valid("text")


@pytest.mark.parametrize(("name", "arguments"), OUTPUTS, ids=[f"{n}-{i}" for i, (n, _) in enumerate(OUTPUTS)])
def test_outputs_match_their_schema(tmp_path: Path, ranks: Path, name: str, arguments: list[object]):
    words = [str(word).format(folder=tmp_path, ranks=ranks) for word in arguments]
    done = subprocess.run([sys.executable, "-m", "vramscope", *words, "--json"], capture_output=True, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    output = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMAS[name]).validate(output)
    # No key is missing in the schema.
    closed = jsonschema.Draft202012Validator(closing(SCHEMAS[name]))
    assert [error.message for error in closed.iter_errors(output)] == []


def closing(schema: object, *, is_alternative: bool = False) -> object:
    """The schema, with every object limited to its keys. Alternatives add to the keys of the object around them."""
    if isinstance(schema, list):
        return [closing(item, is_alternative=is_alternative) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: closing(value, is_alternative=key == "anyOf") for key, value in schema.items()}
    if "properties" in schema and schema.get("type") == "object" and not is_alternative:
        closed["unevaluatedProperties"] = False
    return closed
