#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the seed corpora: a graph for every op in tests/references/cases (op_*) and
hand-written files (hand_*). Does not generate inputs that the fuzzers found (found_*).

    bazel build --config=opt //tools:mirrorflow
    tests/fuzz/make_seeds.py bazel-bin/tools/mirrorflow
"""

import gzip
import io
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

HERE = pathlib.Path(__file__).resolve().parent
TENSOR = re.compile(r"(?P<kind>in|var) (?P<dtype>\w+)(?P<shape><[\d,]*>)")
FLOATS = ("float", "double", "half", "bfloat16")


def cases():
    """Yields (op, attributes, operand lines) for every case that succeeds."""
    for path in sorted((HERE.parent / "references/cases").glob("*.txt")):
        for block in path.read_text().split("\n\n"):
            lines = [line for line in block.splitlines() if not line.startswith("#")]
            if lines and lines[0].startswith("case ") and "error" not in lines:
                op, _, attrs = lines[0][len("case "):].partition(" ")
                yield op, attrs, [line for line in lines if TENSOR.match(line)]


def graph(op, attrs, operands):
    """Returns the case in text form: floats are fed, other operands are variables or constants."""
    lines, names = [], []
    for i, operand in enumerate(operands):
        parts = TENSOR.match(operand).groupdict()
        name, typed = f"x{i}", f"dtype={parts['dtype']}, shape={parts['shape']}"
        if parts["kind"] == "var":
            lines.append(f"{name} = VarHandleOp() {{{typed}, _initializer=\"i{i}\"}}")
            lines.append(f"i{i} = Const() {{dtype={parts['dtype']}, value={operand[4:]}}}")
        elif parts["dtype"] in FLOATS:
            lines.append(f"{name} = Placeholder() {{{typed}}}")
        else:
            lines.append(f"{name} = Const() {{dtype={parts['dtype']}, value={operand[3:]}}}")
        names.append(name)
    lines.append(f"y = {op}({', '.join(names)}) {attrs}")
    return "\n".join(lines) + "\n"


FLOAT = "attr { key: 'T' value { type: DT_FLOAT } }"
INT = "attr { key: 'T' value { type: DT_INT32 } }"
X = """node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } }
  attr { key: 'shape' value { shape { dim { size: -1 } dim { size: 3 } } } } }"""
VERSIONS = "versions { producer: 1087 }"
CALL = "attr { key: 'f' value { func { name: '%s' attr { key: 'A' value { %s } } } } }"
ARGUMENT = "input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT }"

# GraphDefs in protobuf's text format.
GRAPH_DEFS = {
    # Nested calls, an attribute that only the call provides, and a node that must always run.
    "calls": X + f"""
node {{ name: 'c' op: 'PartitionedCall' input: 'x' {CALL % ("f", "type: DT_FLOAT")}
  attr {{ key: 'Tin' value {{ list {{ type: DT_FLOAT }} }} }}
  attr {{ key: 'Tout' value {{ list {{ type: DT_FLOAT }} }} }} }}
node {{ name: 'y' op: 'Neg' input: 'c' {FLOAT} }}
library {{
  function {{ signature {{ name: 'f' {ARGUMENT} attr {{ name: 'A' type: 'type' }} }}
    node_def {{ name: 'g' op: 'g' input: 'a' }}
    node_def {{ name: 'n' op: 'Neg' input: 'g:r:0'
      attr {{ key: 'T' value {{ placeholder: 'A' }} }} }}
    ret {{ key: 'r' value: 'n:y:0' }} control_ret {{ key: 'n' value: 'n' }} }}
  function {{ signature {{ name: 'g' {ARGUMENT} }}
    node_def {{ name: 's' op: 'Square' input: 'a' {FLOAT} }} ret {{ key: 'r' value: 's:y:0' }} }} }}
""",
    # A branch with a loop in its else function.
    "branch": X + f"""
node {{ name: 'p' op: 'Placeholder' attr {{ key: 'dtype' value {{ type: DT_BOOL }} }}
  attr {{ key: 'shape' value {{ shape {{}} }} }} }}
node {{ name: 'y' op: 'StatelessIf' input: 'p' input: 'x'
  attr {{ key: 'Tcond' value {{ type: DT_BOOL }} }}
  attr {{ key: 'Tin' value {{ list {{ type: DT_FLOAT }} }} }}
  attr {{ key: 'Tout' value {{ list {{ type: DT_FLOAT }} }} }}
  attr {{ key: 'then_branch' value {{ func {{ name: 'f' }} }} }}
  attr {{ key: 'else_branch' value {{ func {{ name: 'g' }} }} }} }}
library {{
  function {{ signature {{ name: 'f' {ARGUMENT} }}
    node_def {{ name: 's' op: 'Square' input: 'a' {FLOAT} }} ret {{ key: 'r' value: 's:y:0' }} }}
  function {{ signature {{ name: 'g' {ARGUMENT} }}
    node_def {{ name: 'i' op: 'Const' attr {{ key: 'dtype' value {{ type: DT_INT32 }} }}
      attr {{ key: 'value' value {{ tensor {{ dtype: DT_INT32 int_val: 3
        tensor_shape {{}} }} }} }} }}
    node_def {{ name: 'w' op: 'StatelessWhile' input: 'i:output:0' input: 'a'
      attr {{ key: 'T' value {{ list {{ type: [DT_INT32, DT_FLOAT] }} }} }}
      attr {{ key: 'cond' value {{ func {{ name: 'c' }} }} }}
      attr {{ key: 'body' value {{ func {{ name: 'b' }} }} }} }}
    ret {{ key: 'r' value: 'w:output:1' }} }}
  function {{ signature {{ name: 'c' input_arg {{ name: 'i' type: DT_INT32 }}
      input_arg {{ name: 'a' type: DT_FLOAT }} output_arg {{ name: 'r' type: DT_BOOL }} }}
    node_def {{ name: 'z' op: 'ZerosLike' input: 'i' {INT} }}
    node_def {{ name: 'l' op: 'Less' input: 'z:y:0' input: 'i' {INT} }}
    ret {{ key: 'r' value: 'l:z:0' }} }}
  function {{ signature {{ name: 'b' input_arg {{ name: 'i' type: DT_INT32 }}
      input_arg {{ name: 'a' type: DT_FLOAT }} output_arg {{ name: 'n' type: DT_INT32 }}
      output_arg {{ name: 'r' type: DT_FLOAT }} }}
    node_def {{ name: 'o' op: 'OnesLike' input: 'i' {INT} }}
    node_def {{ name: 's' op: 'Sub' input: 'i' input: 'o:y:0' {INT} }}
    node_def {{ name: 't' op: 'Tanh' input: 'a' {FLOAT} }}
    ret {{ key: 'n' value: 's:z:0' }} ret {{ key: 'r' value: 't:y:0' }} }} }}
""",
    # Four functions that expand to 2^8 calls.
    "multiplies": X + "node { name: 'c' op: 'f0' input: 'x' } library {" + "".join(
        f"function {{ signature {{ name: 'f{i}' {ARGUMENT} }} " + "".join(
            f"node_def {{ name: 'n{k}' op: 'f{i + 1}' input: 'a' }} " for k in range(4))
        + "ret { key: 'r' value: 'n0:r:0' } }" for i in range(4))
    + f"function {{ signature {{ name: 'f4' {ARGUMENT} }} ret {{ key: 'r' value: 'a' }} }} }}",
    # Each call doubles the size of the attribute.
    "attribute_grows": "node { name: 'c' op: 'f0' attr { key: 'A' value { s: 'a' } } } library {" +
    "".join(f"""function {{ signature {{ name: 'f{i}' }} node_def {{ name: 'n' op: 'f{i + 1}'
  attr {{ key: 'A' value {{ func {{ name: 'b' attr {{ key: 'l' value {{ placeholder: 'A' }} }}
    attr {{ key: 'r' value {{ placeholder: 'A' }} }} }} }} }} }} }}""" for i in range(5))
    + "function { signature { name: 'f5' } } }",
    "circle": """node { name: 'a' op: 'Neg' input: 'b' } node { name: 'b' op: 'Neg' input: 'a' }
library { function { signature { name: 'f' } node_def { name: 'n' op: 'f' } } }""",
    "errors": X + """node { name: 'x' op: 'NoOp' } node { name: 'a' op: 'Sqare' input: 'x' }
node { name: 'b' op: 'Square' input: 'xx' } node { name: 'c' op: 'Square' input: '^x' input: 'x' }
node { name: 'd' op: 'Square' input: 'x:7' } node { name: 'e' op: 'Unknown' input: 'x:0' }""",
    "huge": X + """node { name: 'v' op: 'VarHandleOp' attr { key: 'dtype' value { type: DT_FLOAT } }
  attr { key: 'shape' value { shape {
    dim { size: 1099511627776 } dim { size: 1099511627776 } } } } }
node { name: 'c' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value'
  value { tensor { dtype: DT_FLOAT float_val: 1 tensor_shape { dim { size: 1099511627776 } } } } } }
node { name: 'd' op: 'Const' attr { key: 'dtype' value { type: DT_INT32 } } attr { key: 'value'
  value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 268435456 } } } }
node { name: 'e' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value'
  value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 2 } } } }
node { name: 'f' op: 'Fill' input: 'd' input: 'e' attr { key: 'T' value { type: DT_FLOAT } }
  attr { key: 'index_type' value { type: DT_INT32 } } }""",
}

TEXTS = {
    "literals": r"""# every kind of value
x = Placeholder() {dtype=float, shape=<?,3>}
c = Const() {dtype=float, value=float<2,2>{1, -2.5e-3, nan(0x7fc00001), -inf}}
h = Const() {dtype=half, value=half<2>{15360, 0}}
b = Const() {dtype=bool, value=bool<>{true}} # a comment
n = NoOp(^x, ^b) {_a=[1, -2], _b=[], _c="\x00\"", _d=<*>, _e=@f{a=[half, int8]}, _f=-0.0, _g=false}
u = Nobody(x:0, u2:1, ^n) {T=[float, resource]}
u2 = Nobody(c)
""",
    "functions": '@f = "\\n\\003\\n\\001f"\n@ = ""\n'
                 'x = NoOp() {_f=@f, _g=@"odd name"{"odd attr"=1}}\n',
    "errors": "x = NoOp(\ny = NoOp()\ny = NoOp()\nz = Neg(w) {T=float\n"
              "a = Const() {value=float<9>{1}}\n",
    "counted": "# mirrorflow graph, nodes: 2\nx = NoOp()\ny = NoOp(^x)\n",
}


def npy(descr, shape, elements, version=1, order=False):
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + elements


def npz(method, arrays, zip64=False):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, contents in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy")  # dated the first day of 1980
            info.compress_type = method
            with archive.open(info, "w", force_zip64=zip64) as member:
                member.write(contents)
    return file.getvalue()


def manifest(**changed):
    """Returns the body of a checkpoint manifest."""
    body = {"format": "mirrorflow checkpoint", "version": 1, "step": 4, "epoch": 0, "batch": 4,
            "session_step": 4, "seed": 7, "num_workers": 1, "num_replicas": 2, "time": "t",
            "settings": {"global_batch_size": "10"},
            "data": {"file": "variables.safetensors", "bytes": 96, "header_bytes": 64,
                     "header_crc32c": "0123abcd"},
            "tensors": [{"name": "w", "dtype": "float", "shape": [2, 4], "crc32c": "89abcdef"}]}
    return json.dumps({**body, **changed}).encode()


def safetensors(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def idx(kind, dims, data):
    return bytes([0, 0, kind, len(dims)]) + b"".join(struct.pack(">I", d) for d in dims) + data


def frame(sequence, part, payload, flags=0, fields=b""):
    """Returns a command for frame_fuzzer.cc: the other end sends a frame."""
    return struct.pack("<BBBBH", 1, flags, sequence, part, len(payload)) + payload + fields


def expect(sequence, part, size):
    return struct.pack("<BBBH", 2, sequence, part, size)


RECEIVE = b"\3"


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data):
    length = struct.pack("<Q", len(data))
    return (length + struct.pack("<I", masked_crc32c(length)) + data
            + struct.pack("<I", masked_crc32c(data)))


def field(number, data):
    """Returns a protocol buffer field."""
    return bytes([number << 3 | 2, len(data)]) + data


def example(**features):
    entries = (field(1, field(1, name.encode()) + field(2, feature))
               for name, feature in features.items())
    return field(1, b"".join(entries))


EXAMPLE = example(f=field(2, field(1, bytes(8))), l=field(3, field(1, b"\x05")),
                  i=field(3, field(1, b"\x01\x96\x01")), v=field(2, b"\x0d\0\0\x80\x3f"),
                  b=field(1, field(1, b"abc")))


def reference(name):
    return (HERE.parent / "references/formats" / name).read_bytes()



def with_exif(image):
    """Returns the image with the EXIF orientation that a camera writes when it is held sideways."""
    exif = b"II*\0" + struct.pack("<IHHHIII", 8, 1, 0x112, 3, 1, 6, 0)
    if image[0] == 0xff:
        segment = b"Exif\0\0" + exif
        return image[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + image[2:]
    chunk = b"eXIf" + exif
    return (image[:33] + struct.pack(">I", len(exif)) + chunk + struct.pack(">I", zlib.crc32(chunk))
            + image[33:])


def records(*events):
    """Returns records for the event file fuzzer, which adds the checksums."""
    return b"".join(struct.pack("<H", len(e)) + e for e in events)


def component(dtype, dims, data):
    return struct.pack("<ii", dtype, len(dims)) + struct.pack(f"<{len(dims)}q", *dims) + data


def cached_row(number, *components):
    """Returns a row as train/data/file_cache.cc writes it for Dataset::Cache(path)."""
    return struct.pack("<qi", number, len(components)) + b"".join(components)


def event(step, *values, start=False):
    """Returns an event with these summary values. If `start`, the event starts a session."""
    summary = b"".join(field(1, value) for value in values)
    return (b"\x09" + struct.pack("<d", 1.5e9 + step) + b"\x10" + bytes([step])
            + (field(5, summary) if values else b"") + (field(7, b"\x08\x01") if start else b""))


def scalar(tag, value):
    return field(1, tag) + b"\x15" + struct.pack("<f", value)


def plugin(tag, name, content=b"", text=b""):
    """Returns a value for one of TensorBoard's plugins; its tensor is the text."""
    tensor = field(8, b"\x08\x07" + field(8, text)) if text else b""
    return field(1, tag) + tensor + field(9, field(1, field(1, name) + field(2, content)))


def line(**fields):
    return json.dumps({"time": "2026-01-05T12:00:00Z", **fields}) + "\n"


def trace(*events):
    return json.dumps({"traceEvents": list(events)})


def span(name, category, ts, dur, pid=0, tid=0, **args):
    return {"ph": "X", "name": name, "cat": category, "ts": ts, "dur": dur, "pid": pid, "tid": tid,
            "args": args}


def order(kind):
    """Returns a launcher order: 0 finds ports, 1 starts, 2 ends, 255 starts the second worker."""
    return bytes([kind])


def from_host(*events):
    """Returns bytes that a host sends, in the chunks that the fuzzer reads."""
    message = b"".join(bytes([len(e)]) + e for e in events)
    parts = [message[i:i + 200] for i in range(0, len(message), 200)]
    return b"".join(bytes([len(p)]) + p for p in parts)


READY = field(6, b"")
PORTS = field(1, field(1, b"\x01\x02\x03\x04"))
STARTED = b"\x10\x07"
SECOND = b"\x40\x01"  # precedes an event of the second worker


def chunks(*parts, size=(2, 2), header=b"\x08\0\0\0\0"):
    """Returns an input for the PNG fuzzer. Each part is (type index, action, data)."""
    return bytes(size) + header + b"".join(
        bytes([kind, action]) + struct.pack("<H", len(data)) + data for kind, action, data in parts)


PIXELS, END = (0, 1, b"\0\1\2\0\3\4"), (3, 0, b"")


FILES = {
    "event_file": {
        "scalars": records(event(1, scalar(b"loss", 2), scalar(b"lr", 0.1)),
                           event(2, scalar(b"loss", 1))),
        "starts": records(event(1, scalar(b"loss", 2)), event(5, scalar(b"loss", 1)),
                          event(3, start=True), event(3, scalar(b"loss", float("nan"))),
                          event(1, start=True)),
        "plugins": records(event(0, plugin(b"notes", b"text", text=b"<hello>"),
                                 plugin(b"h", b"hparams", field(2, field(1, field(1, b"lr") + field(
                                     2, b"\x11" + struct.pack("<d", 0.5))))))),
        "tensors": records(event(1, field(1, b"x") + field(8, b"\x08\x01" + field(4, bytes(4)))),
                           event(2, field(1, b"x") + field(8, b"\x08\x02" + field(4, bytes(8))))),
        "other": records(b"\xff", b"", b"\x2a\xff"),
    },
    "log_lines": {
        "progress": line(worker=0, event="start", replicas=2)
        + line(worker=0, epoch=1, step=4, steps=5, loss=2.25, ms_per_step=2.5)
        + line(worker=0, epoch=2, step=1, steps=5, loss=None)
        + line(worker=0, warning="loss nan") + line(worker=0, event="end", total_s=2.0),
        "events": "[worker 1] " + line(event="lost", workers=[1, 2], why={"a": "<b>"})
        + line(message="m") + "other text\n",
        "losses": "1 2.5\n2 nan\n3 1e-400\n",
        "huge": line(worker=0, epoch=2 ** 62, step=2 ** 62, steps=2 ** 62, loss=1e308)
        + line(worker=-1, epoch=-1, step=-1, loss=-1e308),
        "deep": '{"time":"t","event":"e","a":' + "[" * 200,
    },
    "trace": {
        "steps": trace(
            {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "replica 0"}},
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": 0, "args": {"name": "compute"}},
            *(e for i in range(3) for e in (
                span(f"step {i}", "step", 100 * i, 90 + i),
                span("dense", "kernel", 100 * i + 5, 40, op="MatMul"),
                span("wait", "wait", 100 * i + 50, 10, tid=1),
                {"ph": "b", "name": "g", "cat": "collective", "ts": 100 * i + 40, "id": str(i)},
                {"ph": "e", "name": "g", "cat": "collective", "ts": 100 * i + 60, "id": str(i)}))),
        "extreme": trace(span("s", "step", -1e308, 1.7e308), span("k", "kernel", 1e308, -1e308),
                         span("k", "kernel", 0, 1e308, pid=1e300, tid=-5)),
        "no_step": trace(span("k", "kernel", 0, 1)),
        "deep": '{"traceEvents":' + "[" * 200,
    },
    "launch_events": {
        "whole": order(0) + from_host(READY) + from_host(PORTS) + order(1)
        + from_host(STARTED, field(3, b"out"), field(4, b"err\n"))
        + from_host(field(5, b"\x08\x04" + field(3, b'{"code":"C","message":"m\\u001b"}'))),
        "not_started": from_host(READY) + order(1) + from_host(field(5, field(4, b"no file"))),
        "asked_to_end": order(2) + from_host(READY, field(5, b"\x08\x8f\x01" + field(4, b"signal 15"))),
        "saved": order(1) + from_host(READY, STARTED, b"\x38\x64", b"\x38\xc8\x01", field(5, b"\x10\x09")),
        "saved_too_late": order(1) + from_host(READY, STARTED, b"\x38" + b"\xff" * 8 + b"\x7f"),
        "profile": from_host(b"Welcome to this host!\n"),
        "early": from_host(PORTS),
        "few_ports": order(0) + from_host(READY, field(1, field(1, b"\x01"))),
        "negative_port": order(0)
        + from_host(READY, field(1, field(1, b"\1\2\3" + b"\xff" * 9 + b"\1"))),
        "twice": order(0) + from_host(READY, PORTS, PORTS),
        "deep": order(1) + from_host(READY, STARTED, field(5, field(3, b"[" * 120))),
        "two_workers": order(1) + order(255) + from_host(
            READY, STARTED, SECOND + STARTED, SECOND + b"\x38\x64", field(5, b"\x08\x04"),
            SECOND + field(4, b"err\n"), SECOND + field(5, b"\x10\x09")),
        "third_of_two": order(1) + from_host(READY, b"\x40\x02" + STARTED),
        "ports_of_no_worker": order(0) + from_host(READY, b"\x40" + b"\xff" * 9 + b"\1" + PORTS),
    },
    "pbtxt": {name: text + VERSIONS for name, text in GRAPH_DEFS.items()} | {
        "deep": "node { attr { key: 'a' value { " + 60 * "func { attr { key: 'a' value { ",
        "utf_16": ("node { name: 'x' op: 'NoOp' }\r\n" + VERSIONS).encode("utf-16"),
        "any": "library { [type.googleapis.com/mirrorflow.proto.GraphDef] {} }",
        "escapes": "node { name: '\\x78\\101\\u00e9' \"op\" 'NoOp' } # comment\n" + VERSIONS,
        "numbers": "versions { producer: 0x7fffffff min_consumer: -99999999999999999999 }",
    },
    "png": {
        "grey": chunks(PIXELS, END),
        "rgba_interlaced": chunks((0, 1, bytes(64)), END, header=b"\x08\6\0\0\1"),
        "palette": chunks((1, 0, bytes(12)), (2, 0, b"\0\xff"), (0, 1, b"\0\1\0\2"), END,
                          header=b"\2\3\0\0\0"),
        "texts": chunks((5, 1, b"key\0\0text"), (6, 0, b"k\0\1\0\0\0x"), (7, 0, b"k\0text"), PIXELS,
                        END),
        "colours": chunks((8, 0, b"p\0\0"), (11, 0, bytes(4)), (12, 0, bytes(32)), (13, 0, b"\1"),
                          (14, 0, b"\5"), (15, 0, b"\0\1"), PIXELS, END),
        "exif": chunks((10, 0, b"II*\0" + struct.pack("<IHHHIII", 8, 1, 0x112, 3, 1, 6, 0)), PIXELS,
                       END),
        # 256 texts that inflate to 8 MB each, before and after the pixels.
        "text_bombs": chunks((5, 6, b"k\0\0"), size=(1, 1)) + b"\xff" + chunks(PIXELS)[7:],
        "late_text_bombs": chunks(PIXELS, (5, 6, b"k\0\0"), size=(1, 1)) + b"\xff",
        "profile_bomb": chunks((8, 2, b"p\0\0"), (9, 6, b"s\0\x08"), size=(1, 1)) + b"\xff",
        "pixel_bomb": chunks((0, 6, b""), size=(1, 1)) + b"\xff",
        "unknown_bombs": chunks((22, 2, b""), (23, 6, b""), size=(1, 1)) + b"\xff",
    },
    "gzip": {
        "plain": b"\0text",
        "member": b"\0" + gzip.compress(b"text" * 100, mtime=0),
        "members": b"\x10" + gzip.compress(b"a", mtime=0) + gzip.compress(b"", mtime=0),
        "cut": b"\0" + gzip.compress(b"text" * 100, mtime=0)[:-5],
        "named": b"\0\x1f\x8b\x08\x1f" + bytes(6) + b"\x02\0xyname\0comment\0",
        "garbage_after": b"\0" + gzip.compress(b"a", mtime=0) + b"abc",
        "bomb": b"\0" + gzip.compress(bytes(1 << 22), mtime=0),
        "zlib": b"\1" + zlib.compress(b"text" * 100),
        "zlib_bomb": b"\xff" + zlib.compress(bytes(1 << 22)),
        "zlib_dictionary": b"\1\x78\xbb" + bytes(8),
        "stored": b"\1" + zlib.compress(b"text", 0),
    },
    "frame": {
        "expected": expect(1, 0, 5) + frame(1, 0, b"hello") + RECEIVE,
        "early": frame(1, 0, b"hello") + expect(0, 0, 1) + RECEIVE + expect(1, 0, 5) + RECEIVE,
        "two_parts": expect(1, 1, 3) + expect(1, 0, 2) + frame(1, 0, b"ab") + frame(1, 1, b"cde")
        + RECEIVE,
        "wrong_crc": expect(1, 0, 5) + frame(1, 0, b"hello", flags=4) + RECEIVE,
        "huge": expect(1, 0, 5) + frame(2, 0, b"", flags=3, fields=struct.pack("<QI", 1 << 62, 1 << 18))
        + RECEIVE,
        "wrong_number": expect(1, 0, 5) + frame(1, 0, b"hello", flags=8, fields=bytes(8))
        + frame(1, 0, b"hello", flags=8, fields=bytes(8)) + RECEIVE,
        "other_incarnation": expect(1, 0, 5) + frame(1, 0, b"hello", flags=16, fields=bytes(8))
        + RECEIVE,
        "garbage": expect(1, 0, 5) + b"\0\xff" + b"x" * 255 + RECEIVE,
    },
    "handshake": {
        "honest": b"\0",
        "honest_coordination": b"\x80",
        "hello_changed": b"\0" + bytes(5) + b"\1",
        "version_changed": b"\x80" + bytes(4) + b"\1",
        "proof_changed": b"\0" + bytes(69 + 68) + b"\1",
        "welcome_changed": b"\0" + bytes(69 + 69 + 32) + b"\1",
        "hello": b"\1MFDC\2" + struct.pack("<IIQ", 3, 1, 5) + bytes(16 + 32 + 32),
        "hello_coordination": b"\x81MFCO\4" + struct.pack("<IIQ", 3, 0, 5) + bytes(16 + 32 + 32),
        "other_incarnation": b"\1MFDC\2" + struct.pack("<IIQ", 3, 1, 4) + bytes(16 + 32),
        "preface": b"\x81PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(45),
        "challenge": b"\2MFDC\2" + bytes(64),
        "challenge_coordination": b"\x82MFCO\4" + bytes(64),
    },
    "npy": {
        "float": npy("<f4", (2, 3), bytes(range(24))),
        "column_major": npy(">i8", (2, 2), bytes(32), version=2, order=True),
        "scalar": npy("|b1", (), b"\x01", version=3),
        "empty": npy("<f8", (0, 5), b""),
        "objects": npy("|O", (1,), bytes(8)),
        "huge": npy("<f8", (1 << 40, 1 << 40), bytes(8)),
        "long_header": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
    },
    "npz": {
        "stored": npz(zipfile.ZIP_STORED,
                      {"a": npy("<f4", (2,), bytes(8)), "b": npy("|b1", (), b"\1")}),
        "deflated": npz(zipfile.ZIP_DEFLATED, {"a": npy("<i8", (3, 2), bytes(48))}),
        "zip64": npz(zipfile.ZIP_STORED, {"a": npy("<i2", (1,), b"ab")}, zip64=True),
        "empty": npz(zipfile.ZIP_STORED, {}),
        "bomb": npz(zipfile.ZIP_DEFLATED, {"a": npy("<f4", (2,), bytes(1 << 16))}),
        "path": npz(zipfile.ZIP_STORED, {"../a": npy("|u1", (1,), b"a")}),
    },
    "csv": {
        "numbers": b"\1a,b\n1,2.5\n-3,1e5\n",
        "quotes": b"\x35a,b\r\n\"b\",1\r\n\"x\n\"\"y\",\r\n",
        "bad": b"\x0d1,2\n1\nx,2\n\"1\"2,3\n3,4\n",
        "semicolons": b"\x62\xef\xbb\xbfa;7\nb;NA\n",
        "gzip": b"\1" + gzip.compress(b"a\n1\n2\n", mtime=0),
        "mac": b"\1a,b\r1,2\r\r\"x\ry\",3\r\x1a",
        "utf16": b"\1\xff\xfe" + "a,b\r\n1,2\n".encode("utf-16-le"),
        "long_numbers": b"\0" + b"9" * 30 + b",0." + b"0" * 30 + b"1\n1e-400,1e400\n",
    },
    "tf_record": {
        "two": record(b"first") + record(b""),
        "example": record(EXAMPLE),
        "gzip": gzip.compress(record(b"a") + record(b"b"), mtime=0),
        "zlib": zlib.compress(record(b"a") + record(b"b")),
        "bad_bytes": record(b"abc")[:-1] + b"\0" + record(b"d"),
        "huge": struct.pack("<QI", 1 << 62, masked_crc32c(struct.pack("<Q", 1 << 62))),
    },
    "row_cache": {
        "rows": records(cached_row(0, component(1, [2], bytes(8)), component(3, [], b"\1\0\0\0")),
                        cached_row(1, component(1, [2], bytes(8)), component(3, [], b"\2\0\0\0"))),
        "none": b"",
        "empty": records(cached_row(0, component(1, [0, 1 << 62, 1 << 62], b""))),
        "huge": records(cached_row(0, component(2, [1 << 31, 1 << 31], b""))),
        "rank": records(cached_row(0, component(4, [1] * 9, b"\1"))),
        "dtype": records(cached_row(0, component(-1, [1], bytes(4)))),
        "cut": records(cached_row(0, component(1, [2], bytes(8)))[:-1]),
    },
    "example": {
        "all": EXAMPLE,
        "unpacked": example(i=field(3, b"\x08\x05\x08\x06"), b=field(1, field(1, b""))),
        "merged": example(i=field(3, field(1, b"\1"))) + example(i=field(3, field(1, b"\2"))),
        "cut_varint": example(i=field(3, field(1, b"\x80"))),
    },
    "image": {name.replace(".", "_"): reference(name) for name in
              ("grey.png", "palette.png", "bits.png", "deep.png", "rgba.png", "grey.jpg",
               "rgb_420.jpg", "progressive.jpg", "cmyk.jpg")} | {
        "exif_jpg": with_exif(reference("rgb_420.jpg")),
        "exif_png": with_exif(reference("grey.png")),
    },
    "manifest": {
        "one": manifest(),
        "state": manifest(version=2, reading_step=3, state={"trainer/loss_sum": "nan"},
                          state_data={"file": "state.safetensors", "bytes": 96,
                                      "header_bytes": 64, "header_crc32c": "0123abcd"},
                          state_tensors=[{"name": "parts/1/w", "dtype": "double", "shape": [],
                                          "crc32c": "89abcdef"}]),
        "link": manifest(data={"file": "../x", "bytes": 1, "header_bytes": 1,
                               "header_crc32c": "00000000"}),
        "negative": manifest(step=-1),
        "huge": manifest(epoch=2 ** 64 - 1),
        "nested": b"[" * 1000,
    },
    "safetensors": {
        "two": safetensors({"__metadata__": {"a": "b"}, "x": entry("F32", [2], 0, 8),
                            "y": entry("BOOL", [], 8, 9)}, bytes(9)),
        "float8": safetensors({"x": entry("F32", [1], 0, 4), "y": entry("F8_E4M3", [1], 4, 5)},
                              bytes(5)),
        "hole": safetensors({"x": entry("U8", [1], 0, 1), "y": entry("U8", [1], 2, 3)}, bytes(3)),
        "overlap": safetensors({"x": entry("U8", [2], 0, 2), "y": entry("U8", [2], 1, 3)},
                               bytes(3)),
        "huge": safetensors({"x": entry("F64", [1 << 57], 0, 1 << 60)}, bytes(8)),
        "long_header": struct.pack("<Q", 1 << 63) + b"{}",
        "twice": safetensors(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                             b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"\0"),
        "escapes": safetensors(b'{"\\u00e9\\ud83d\\ude00":{"dtype":"I64","shape":[0],'
                               b'"data_offsets":[0,0],"more":[1e9,null,{"a":-0.5}]}}', b""),
    },
    "idx": {
        "bytes": idx(8, [2, 3], bytes(range(6))),
        "floats": idx(13, [2], bytes(8)),
        "gzip": gzip.compress(idx(9, [3, 1], b"abc"), mtime=0),
        "huge": idx(14, [0xFFFFFFFF] * 4, bytes(8)),
        "bomb": gzip.compress(idx(8, [4], bytes(1 << 16)), mtime=0),
    },
}


def write(corpus, name, contents):
    path = HERE / "corpus" / corpus / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    return path


def main(mirrorflow):
    smallest = {}
    for op, attrs, operands in cases():
        text = graph(op, attrs, operands)
        if len(text) < len(smallest.get(op, text + "x")):
            smallest[op] = text
    for op, text in smallest.items():
        output = write("graph_def", f"op_{op}", "")
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(text)
            file.flush()
            subprocess.run([mirrorflow, "inspect", file.name, f"--output={output}"], check=True)
    protos = HERE.parents[1]
    for name, text in GRAPH_DEFS.items():
        encoded = subprocess.run(
            ["protoc", f"-I{protos}", "--encode=mirrorflow.proto.GraphDef",
             "framework/proto/graph.proto"], input=(text + VERSIONS).encode(), check=True,
            capture_output=True)
        write("graph_def", f"hand_{name}", encoded.stdout)
    for op in ["Conv2D", "ConcatV2", "ResourceApplyMomentum", "Einsum", "StridedSlice", "Where"]:
        if op in smallest:
            write("text_form", f"op_{op}", smallest[op])
    for name, text in TEXTS.items():
        write("text_form", f"hand_{name}", text)
    for corpus, files in FILES.items():
        for name, contents in files.items():
            write(corpus, f"hand_{name}", contents)


if __name__ == "__main__":
    main(*sys.argv[1:])
