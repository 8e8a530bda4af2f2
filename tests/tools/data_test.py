#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mirrorflow data` shows the rows of files and reports what is wrong with bad files."""

import gzip

from programs import BAD_INPUT, MIRRORFLOW, ProgramTest, USAGE, floats, main


class DataTest(ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("table.csv", "x,y,kind\n" + "".join(f"{i},{i / 2},{i % 3}\n" for i in range(200)))
        cls.write("bad.csv", "x,y\n1,2\nthree,4\n5,6\n" + "7,8\n" * 10)
        cls.write("x.npy", floats([3, 2], 1, 2, 3, 4, 5, 6))

    def show(self, *args):
        result = self.run_program(MIRRORFLOW, "data", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.splitlines()

    def test_rows_and_rate_are_printed(self):
        for threads in ("1", "2"):
            lines = self.show("table.csv", "--label=kind", "--rows=2", f"--data_threads={threads}")
            self.assertEqual(lines[:3], ["table.csv: CSV, 200 rows",
                                         "     0  float[2] {0, 0} | 0",
                                         "     1  float[2] {1, 0.5} | 1"])
            self.assertRegex(lines[3], r"^\S+ rows/s, \S+ MB/s in batches of 64 with \d thread")
            self.assertEqual(len(lines), 4)
        self.assertEqual(self.show("x.npy", "--rows=1", "--shuffle")[:2],
                         ["x.npy: npy, 3 rows", "     0  float[2] {1, 2}"])
        (self.root / "table.csv.gz").write_bytes(gzip.compress((self.root / "table.csv").read_bytes()))
        self.assertEqual(self.show("table.csv.gz", "--rows=1")[1], "     0  0 | 0 | 0")

    def test_bad_records_are_counted(self):
        columns = r"line 3, column 'x': .*expected .*, got "
        self.check_fails(MIRRORFLOW, ["data", "bad.csv"], BAD_INPUT, "DATA_LOSS", "bad.csv: line 3, column 'x'",
                         "expected a number, got 'three'")
        result = self.run_program(MIRRORFLOW, "data", "bad.csv", "--skip_bad_records=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("bad.csv: CSV, 12 rows", result.stdout)
        self.assertRegex(result.stderr, "skipped 1 bad record; first error: .*" + columns)

    def test_bad_usage_and_files_are_named(self):
        self.check_fails(MIRRORFLOW, ["data"], USAGE, "INVALID_ARGUMENT", "data",
                         "expected a file or a folder")
        self.check_fails(MIRRORFLOW, ["data", "--rows=-1", "x.npy"], USAGE, "INVALID_ARGUMENT", "--rows")
        self.check_fails(MIRRORFLOW, ["data", "no.csv"], BAD_INPUT, "NOT_FOUND", "no.csv")
        self.check_fails(MIRRORFLOW, ["data", "x.txt"], BAD_INPUT, "INVALID_ARGUMENT",
                         "data: 'x.txt'", "unknown format")


if __name__ == "__main__":
    main()
