#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests untrusted files from a user's point of view: a program prints one line that says what is
wrong and where, and exits with code 3, quickly and without taking the memory that the file asks
for. Each table covers one kind of fault; the tests of the readers have more cases."""

import functools
import gzip
import json
import os
import random
import re
import struct
import subprocess
import unittest
import zipfile
import zlib

from programs import (BAD_INPUT, FASHION_MNIST, MIRRORFLOW, ProgramTest, RESOURCES, TRAIN_TINY,
                      VERSIONS, crc32c, floats, main, node, safetensors)

SECONDS = 5  # limit on CPU time
MEBIBYTES = 64  # limit on resident memory; an idle program uses a third of this

X = """node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } }
  attr { key: 'shape' value { shape { dim { size: -1 } dim { size: 2 } } } } }
"""


def const(name, dtype, value):
    return f"{name} = Const() {{dtype={dtype}, value={value}}}\n"


def placeholder(name, shape, dtype="float"):
    return f"{name} = Placeholder() {{dtype={dtype}, shape=<{shape}>}}\n"


def u8(begin, end, shape=None, dtype="U8"):
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape,
            "data_offsets": [begin, end]}


def varint(number):
    if number < 128:
        return bytes([number])
    return bytes([number & 127 | 128]) + varint(number >> 7)


def field(number, contents):
    """Returns a length-delimited field of a protocol buffer."""
    return varint(number << 3 | 2) + varint(len(contents)) + contents


@functools.lru_cache(maxsize=1)
def record(contents):
    """Returns a record of an event file."""
    def masked(data):
        crc = crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)
    length = struct.pack("<Q", len(contents))
    return length + masked(length) + contents + masked(contents)


def png(*chunks):
    """Returns an image of one black pixel, with additional chunks before the data."""
    def chunk(name, data):
        return (struct.pack(">I", len(data)) + name + data
                + struct.pack(">I", zlib.crc32(name + data)))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
            + b"".join(chunk(*c) for c in chunks)
            + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b""))


class HostileFilesTest(ProgramTest):

    def run_within(self, args, exit_code, mebibytes=None):
        """Runs `args` and returns its standard error."""
        with open(self.root / "stderr", "wb") as stderr:
            process = subprocess.Popen(args, cwd=self.root, stdout=subprocess.DEVNULL,
                                       stderr=stderr)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        errors = (self.root / "stderr").read_text(errors="replace")
        self.assertEqual(process.returncode, exit_code, errors)  # negative: killed by a signal
        self.assertLess(usage.ru_utime + usage.ru_stime, SECONDS)
        if mebibytes is not None:
            self.assertLess(usage.ru_maxrss / 1024, mebibytes)
        return errors

    def refused(self, args, code, where, what, mebibytes=None):
        """Runs `args`, which must fail as expected."""
        with self.subTest(" ".join(args)):
            errors = self.run_within(
                args, RESOURCES if code == "RESOURCE_EXHAUSTED" else BAD_INPUT, mebibytes)
            self.assertTrue(errors.startswith(f"ERROR {code} {where}: "), errors)
            self.assertIn(what, errors)
            return errors

    def inspect_refuses(self, name, contents, what, **options):
        self.write(name, contents)
        return self.refused([MIRRORFLOW, "inspect", name], "INVALID_ARGUMENT", name, what,
                            **options)

    def test_truncated_graphs_are_rejected(self):
        self.write("whole.txt", placeholder("x", "?,2") + "y = Neg(x) {T=float}\n")
        for form in "graph.pb", "graph.pbtxt", "graph.txt":
            self.run_program(MIRRORFLOW, "inspect", "whole.txt", f"--output={form}",
                             new_files=[form])
            whole = (self.root / form).read_bytes().rstrip(b"\n")
            # graph_file_test.cc truncates at every byte.
            for size in sorted({0, 1, 2, *range(3, len(whole), 17), len(whole) - 1}):
                self.inspect_refuses(f"cut_{form}", whole[:size], "")

    def test_random_bytes_are_rejected(self):
        for seed in range(5):
            for form in "pb", "pbtxt", "txt":
                self.inspect_refuses(f"noise.{form}", random.Random(seed).randbytes(1 << 16), "")

    def test_deep_nesting_is_rejected(self):
        bytes_ = b""
        for i in range(1000):  # attr { key "" value { func { … } } }
            for tag in b"\x52", b"\x12", b"\x12" if i < 999 else b"\x2a":
                length, n = b"", len(bytes_)
                while n > 127:
                    length, n = length + bytes([n & 127 | 128]), n >> 7
                bytes_ = tag + length + bytes([n]) + bytes_
        self.inspect_refuses("deep.pb", bytes_, "")
        self.inspect_refuses("deep.pbtxt", "node { attr { key: 'a' value { " + 200000 *
                             "func { attr { key: 'a' value { ", "deep")
        self.inspect_refuses("deep.txt", "x = NoOp() {_a=" + 200000 * "[", "nesting deeper than 50")
        self.inspect_refuses("deep2.txt", "x = NoOp() {_a=" + 200000 * "@f{a=", "nesting deeper")

    def test_invalid_structure_is_rejected(self):
        for name, broken, what in [
            ("duplicate", node("x", "NoOp"), "NoOp(x): a node with this name already exists"),
            ("unknown_op", node("y", "Sqare", "x", T="DT_FLOAT"), "did you mean Square?"),
            ("attribute", node("y", "Neg", "x", T="DT_FLOAT", U="DT_FLOAT"),
             "Neg(y): op Neg has no attribute 'U'"),
            ("input", node("y", "Neg", "xx", T="DT_FLOAT"),
             "Neg(y): input 0 ('xx')"),
            ("output", node("y", "Neg", "x:7", T="DT_FLOAT"), "expected an index below 1, got 7"),
            ("control", node("y", "Neg", "^x", "x", T="DT_FLOAT"),
             "Neg(y): input 1 ('x') is a data input after a control input"),
            ("dtype", node("y", "Neg", "x", T="DT_INT32"),
             "Neg(y): input 0 (x): expected dtype int32, got float"),
        ]:
            self.inspect_refuses(f"{name}.pbtxt", X + broken + VERSIONS, what)
        many = "".join(node(f"y{i}", "Neg", f"z{i}", T="DT_FLOAT") for i in range(100))
        errors = self.inspect_refuses("many.pbtxt", X + many + VERSIONS, "Neg(y19)")
        self.assertEqual(len(errors.splitlines()), 21)
        self.assertTrue(errors.endswith("stopped after 20 errors\n"), errors)

    def test_cycles_are_rejected(self):
        many = 100000
        ring = "".join(f"n{i} = Neg(n{(i + 1) % many}) {{T=float}}\n" for i in range(many))
        self.inspect_refuses("ring.txt", ring, "the graph has a cycle: n0 -> n99999 -> n99998 ->")
        self.inspect_refuses("self.txt", "x = Neg(x) {T=float}\n", "the graph has a cycle: x -> x")
        library = "".join(
            f"function {{ signature {{ name: 'f{i}' }} "
            f"node_def {{ name: 'n' op: 'f{(i + 1) % many}' }} }}\n" for i in range(many))
        for name, functions in [
            ("function", "function { signature { name: 'f' } node_def { name: 'n' op: 'f' } }"),
            ("functions", library),
        ]:
            self.inspect_refuses(
                f"{name}.pbtxt", node("a", "NoOp") + f"library {{ {functions} }} {VERSIONS}",
                "library functions call each other in a cycle: f")

    def test_invalid_shapes_are_rejected(self):
        huge = 1 << 40
        for name, graph, what in [
            ("negative", placeholder("x", "-3"), "expected a dimension or '?'"),
            ("negative_reshape", placeholder("x", "4") + const("s", "int32", "int32<1>{-3}")
             + "y = Reshape(x, s) {T=float, Tshape=int32}\n", "Reshape(y)"),
            ("rank", placeholder("x", ",".join("1" * 300)), "at most 8, got 300"),
            ("product", placeholder("x", f"{huge},{huge}"), f"[{huge},{huge}] overflows"),
            # 2^62 elements fit, but their 2^64 bytes do not.
            ("bytes", placeholder("x", f"{1 << 31},{1 << 31}"), "float[2147483648,2147483648]"),
            ("variable", f"v = VarHandleOp() {{dtype=double, shape=<{huge},{huge}>}}\n",
             "overflows"),
            ("fill", const("d", "int64", f"int64<2>{{{huge}, {huge}}}")
             + const("z", "float", "float<>{1}") + "f = Fill(d, z) {T=float, index_type=int64}\n",
             f"[{huge},{huge}] overflows"),
            ("tile", placeholder("x", "4,4") + const("m", "int64", f"int64<2>{{{huge}, {huge}}}")
             + "y = Tile(x, m) {T=float, Tmultiples=int64}\n", "Tile(y)"),
            ("pad", placeholder("x", "4") + const("p", "int64", f"int64<1,2>{{{(1 << 63) - 1}, 5}}")
             + "y = Pad(x, p) {T=float, Tpaddings=int64}\n", "Pad(y)"),
            ("range", const("a", "int64", "int64<>{0}") + const("c", "int64", "int64<>{1}")
             + const("b", "int64", f"int64<>{{{1 << 62}}}") + "y = Range(a, b, c) {Tidx=int64}\n",
             "Range(y)"),
        ]:
            self.inspect_refuses(f"{name}.txt", graph, what, mebibytes=MEBIBYTES)
        self.inspect_refuses("negative.pbtxt", X.replace("-1", "-3") + VERSIONS,
                             "Placeholder(x): attribute 'shape': dimensions must be >= 0")

    def test_invalid_attributes_are_rejected(self):
        image, filter_ = placeholder("x", "2,8,8,4"), placeholder("w", "3,3,4,5")
        pool = "y = MaxPool(x) {T=float, ksize=[%s], strides=[%s], padding=\"SAME\"}\n"
        conv = "y = Conv2D(x, w) {T=float, strides=[%s], padding=\"%s\"%s}\n"
        matrix, ones = placeholder("x", "2,3"), "1, 1, 1, 1"
        for name, graph, what in [
            ("stride", image + filter_ + conv % ("1, 0, 1, 1", "SAME", ""), "stride"),
            ("dilation", image + filter_ + conv % (ones, "SAME", ", dilations=[1, 0, 1, 1]"),
             "dilation"),
            ("padding", image + filter_ + conv % (ones, "EXPLICIT", ""), "explicit_paddings"),
            ("groups", image + placeholder("w", "3,3,3,5") + conv % (ones, "SAME", ""),
             "channels"),
            ("ksize", image + pool % ("1, 0, 1, 1", "1, 1, 1, 1"), "ksize"),
            ("pool_stride", image + pool % ("1, 2, 2, 1", "1, 0, 1, 1"), "stride"),
            ("axis", matrix + const("a", "int32", "int32<>{2}")
             + "y = Sum(x, a) {T=float, Tidx=int32}\n", "[-2, 2)"),
            ("low_axis", matrix + const("a", "int32", "int32<>{-3}")
             + "y = ConcatV2(x, x, a) {N=2, T=float, Tidx=int32}\n", "[-2, 2)"),
            ("count", matrix + "y = Unpack(x) {T=float, num=1000000000, axis=0}\n", "Unpack(y)"),
            ("split", const("a", "int32", "int32<>{1}") + matrix
             + "y = Split(a, x) {T=float, num_split=1000000000}\n", "Split(y)"),
            ("mirror", matrix + const("p", "int32", "int32<2,2>{0, 0, 3, 3}")
             + "y = MirrorPad(x, p) {T=float, Tpaddings=int32, mode=\"REFLECT\"}\n",
             "MirrorPad(y)"),
        ]:
            self.inspect_refuses(f"{name}.txt", graph, what, mebibytes=MEBIBYTES)

    def test_constants_of_wrong_size_are_rejected(self):
        for dims, content in (2, 4), (2, 12), (1 << 40, 8), (0, 4):
            graph = f"""node {{ name: 'c' op: 'Const'
  attr {{ key: 'dtype' value {{ type: DT_FLOAT }} }}
  attr {{ key: 'value' value {{ tensor {{ dtype: DT_FLOAT
    tensor_shape {{ dim {{ size: {dims} }} }} tensor_content: '{content * 'a'}' }} }} }} }}
"""
            self.inspect_refuses(
                "const.pbtxt", graph + VERSIONS,
                f"expected {4 * dims} bytes for float[{dims}], got {content}", mebibytes=MEBIBYTES)

    def test_invalid_safetensors_are_rejected(self):
        self.write("v.txt", "v = VarHandleOp() {dtype=uint8, shape=<2>}\n"
                            "r = ReadVariableOp(v) {dtype=uint8}\n")
        kibibyte = bytes(1000)
        for name, contents, what in [
            ("header", struct.pack("<Q", 1 << 63) + b"{}", "HeaderTooLarge"),
            ("gibibyte", safetensors({"v": u8(0, 1 << 30)}, kibibyte), "do not cover the data"),
            ("exbibyte", safetensors({"v": u8(0, 1 << 60)}, kibibyte), "do not cover the data"),
            ("elements", safetensors({"v": u8(0, 8, [1 << 57], "F64")}, bytes(8)),
             "tensor \"v\""),
            ("overlap", safetensors({"v": u8(0, 2), "w": u8(1, 3)}, bytes(3)),
             "\"w\" overlaps \"v\""),
            ("hole", safetensors({"v": u8(0, 1), "w": u8(2, 3)}, bytes(3)),
             "\"w\" leaves a hole after \"v\""),
            ("twice", safetensors(b'{"v":%s,"v":%s}' % (2 * (json.dumps(u8(0, 1)).encode(),)),
                                  b"\0"),
             "key \"v\" appears twice"),
            ("size", safetensors({"v": u8(0, 2, [1])}, bytes(2)), "tensor \"v\""),
        ]:
            self.write(f"{name}.safetensors", contents)
            self.refused([MIRRORFLOW, "run", "--graph=v.txt", "--fetch=r",
                          f"--variables={name}.safetensors"], "DATA_LOSS", f"{name}.safetensors",
                         what, mebibytes=MEBIBYTES)

    def test_texts_of_files_cannot_control_the_terminal(self):
        evil, shown = "\x1b[2J\x1b]0;owned\x07", r"\033[2J\033]0;owned\007"
        subprocess.run([FASHION_MNIST, *TRAIN_TINY, "--model=mlp", "--checkpoint_dir=saved"],
                       cwd=self.root, check=True, capture_output=True)
        (path,) = (self.root / "saved").glob("step-*/manifest.json")
        manifest = json.loads(path.read_text())["manifest"]
        body = json.dumps({**manifest, "time": evil}, separators=(",", ":")).encode()
        path.write_bytes(b'{"crc32c":"%08x","manifest":%s}\n' % (crc32c(body), body))
        self.assertIn(shown, self.run_program(MIRRORFLOW, "checkpoint", "saved").stdout)

        self.write(f"images/{evil}/a.png", png())
        self.assertIn(shown, self.run_program(MIRRORFLOW, "data", "images").stdout)
        with zipfile.ZipFile(self.root / "a.npz", "w") as archive:
            archive.writestr(f"{evil}.npy", floats((1,), 0.5))
        self.assertIn(shown, self.run_program(MIRRORFLOW, "data", "a.npz").stdout)

        octal = "".join(f"\\{ord(c):03o}" for c in evil)
        self.write("g.pbtxt", "node { name: 'v' op: 'VarHandleOp' attr { key: 'dtype' value { type: "
                   "DT_FLOAT } } attr { key: 'shape' value { shape { } } } attr { key: 'shared_name' "
                   f"value {{ s: '{octal}' }} }} }}" + VERSIONS)
        self.assertIn(shown, self.run_program(MIRRORFLOW, "run", "--graph=g.pbtxt").stdout)
        self.assertIn("owned", self.run_program(MIRRORFLOW, "inspect", "g.pbtxt", "--all").stdout)
        self.write(f"{evil}.csv", b"a,b\n1,2\n3\n")
        self.assertIn(f"WARNING: {shown}.csv: skipped 1 bad record", self.run_program(
            MIRRORFLOW, "data", f"{evil}.csv", "--skip_bad_records=1").stderr)
        self.write(f"{evil}/a/b.gif", b"")
        self.write(f"{evil}/a/b.png", png())
        self.assertIn(f"WARNING: {shown}: skipped 1 images",
                      self.run_program(MIRRORFLOW, "data", evil).stderr)

    def test_messages_are_refused_before_they_take_memory(self):
        many = 500_000  # empty messages take 120 MB
        function = 'x = NoOp()\n@f = "' + r"\x1a\0" * many + '"\n'
        for name, contents in [
            ("nodes.pb", b"\x0a\0" * many),
            ("nodes.pbtxt", "node{}" * many),
            ("functions.pbtxt", "library{" + "function{}" * many + "}"),
            ("function.txt", function),
        ]:
            self.write(name, contents)
            self.refused([MIRRORFLOW, "inspect", name, "--max_memory=64"], "RESOURCE_EXHAUSTED",
                         name, "too large in memory; expected at most 67108864 bytes, got",
                         mebibytes=MEBIBYTES)

    def test_chunks_of_images_take_no_memory(self):
        text = zlib.compress(b"a" * 7_900_000)
        for name, chunk in [("text", (b"zTXt", b"k\0\0" + text)),
                            ("international", (b"iTXt", b"k\0\1\0\0\0" + text))]:
            with self.subTest(name):
                self.write(f"{name}/a/a.png", png(*40 * [chunk]))
                self.run_within([MIRRORFLOW, "data", name], 0, MEBIBYTES)

    def test_traces_take_little_memory(self):
        most = (1 << 21) - 10
        for name, event, count, what, mebibytes in [
            ("too_many", "{},", 10_000_000, "too many values", 150),
            ("objects", '{"":{"":[]}},', most // 4, "the trace has no step", 300),
            ("texts", '"abcdefghijklmnopqrst",', most, "the trace has no step", 400),
        ]:
            # Write in pieces, because this process's peak memory counts towards the programs it
            # starts.
            self.write(f"{name}/trace.json", '{"traceEvents":[')
            with open(self.root / name / "trace.json", "a", encoding="utf-8") as file:
                for _ in range(count):
                    file.write(event)
                file.write("{}]}")
            self.refused([MIRRORFLOW, "report", name], "INVALID_ARGUMENT", name, what,
                         mebibytes=mebibytes)

    def test_event_files_take_little_memory(self):
        half = 2 << 20  # half the maximum size of an event; an empty value takes two bytes
        one = b"\x15\0\0\x80?"  # simple_value: 1
        for name, events, copies, what, mebibytes in [
            ("empty_values", [field(5, (half - 8) * field(1, b""))], 100, "are too large", 300),
            ("long_event", [field(5, half * field(1, b""))], 2, "skipped 2 records", 100),
            ("scalars", 10_000 * [field(5, field(1, field(1, b"tag") + one))], 800,
             "take too much memory", 400),
            ("tags", [field(5, field(1, field(1, b"%d" % i + (1 << 20) * b"<") + one))
                      for i in range(3)], 1, None, 100),
        ]:
            with self.subTest(name):
                path = f"{name}/events.out.tfevents.1"
                member = gzip.compress(b"".join(map(record, events)))
                self.write(path, copies * member)
                self.run_within([MIRRORFLOW, "report", name], 0, mebibytes)
                # The notes are at the end of the page.
                with open(self.root / name / "report.html", "rb") as page:
                    self.assertLess(page.seek(0, os.SEEK_END), 2 << 20)
                    page.seek(-1000, os.SEEK_END)
                    end = page.read().decode(errors="replace")
                notes = re.findall('<p class="bad">([^<]*)', end)
                self.assertEqual(len(notes), 0 if what is None else 1, end)
                for note in notes:
                    self.assertRegex(note, f"{path}: .*{what}")

    def test_invalid_npy_feeds_are_rejected(self):
        def floats(dims):
            text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({dims}), }}\n".encode()
            return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(1000)

        self.write("x.txt", placeholder("x", "?") + "y = Neg(x) {T=float}\n")
        for name, contents, code in [
            ("length", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", "DATA_LOSS"),
            ("gibibyte", floats("268435456,"), "DATA_LOSS"),
            ("exbibyte", floats(f"{1 << 58},"), "DATA_LOSS"),
            ("product", floats(f"{1 << 40}, {1 << 40}"), "DATA_LOSS"),
        ]:
            self.write(f"{name}.npy", contents)
            self.refused([MIRRORFLOW, "run", "--graph=x.txt", "--fetch=y", f"--feed=x={name}.npy"],
                         code, "--feed x", f"{name}.npy: ", mebibytes=MEBIBYTES)

    def test_oversized_idx_images_are_rejected(self):
        for dims in [1 << 30, 28, 28], [0xFFFFFFFF] * 3:
            huge = bytes([0, 0, 8, 3]) + struct.pack(">3I", *dims) + bytes(1000)
            self.write_data("huge", train_images_idx3_ubyte=huge)
            self.refused([FASHION_MNIST, "--data_dir=huge"], "DATA_LOSS",
                         "huge/train-images-idx3-ubyte", "", mebibytes=MEBIBYTES)


if __name__ == "__main__":
    main()
