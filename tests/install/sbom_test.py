#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/sbom on a small installation whose files depend on the libraries that the test links them with."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import check_sbom

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = (ROOT / "packaging/VERSION").read_text(encoding="utf-8").strip()


def packages_from_system(*names):
    text = subprocess.check_output(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *names], text=True)
    return dict(line.split() for line in text.splitlines())


class SbomTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        for folder in ("lib", "bin"):
            (cls.root / folder).mkdir()
        (cls.root / "empty.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")
        cls.compile("-shared", "-fPIC", "-lz", "-lssl", to=f"lib/libmirrorflow.so.{VERSION}")
        cls.compile("-lz", to="bin/mirrorflow")
        cls.compile(to="bin/fashion_mnist")
        (cls.root / "lib/libmirrorflow.a").write_bytes(b"!<arch>\n")
        cls.bill = cls.read_bill()

    @classmethod
    def compile(cls, *flags, to):
        subprocess.check_call(["gcc", cls.root / "empty.c", "-Wl,--no-as-needed", *flags, "-o", cls.root / to])

    @classmethod
    def read_bill(cls):
        return json.loads(subprocess.check_output([ROOT / "tools/sbom", f"--prefix={cls.root}"], text=True))

    def test_bill_has_what_the_specification_requires(self):
        check_sbom.check(self.bill)

    def test_equal_installations_have_equal_bills(self):
        self.assertEqual(self.read_bill(), self.bill)

    def test_packages_and_users_match_the_files(self):
        bill = self.bill
        by_name = {component["name"]: component for component in bill["components"]}
        for name, version in packages_from_system("zlib1g", "libssl3", "libgrpc-dev", "libprotobuf-dev").items():
            self.assertEqual(by_name[name]["version"], version)
        users = {name: {item["ref"] for item in bill["dependencies"] if by_name[name]["bom-ref"] in item["dependsOn"]}
                 for name in ("zlib1g", "libssl3", "libgrpc-dev", "libeigen3-dev")}
        library = f"lib/libmirrorflow.so.{VERSION}"
        self.assertEqual(users["zlib1g"], {library, "bin/mirrorflow"})
        self.assertEqual(users["libssl3"], {library})
        self.assertEqual(users["libgrpc-dev"], {library})
        self.assertEqual(users["libeigen3-dev"],
                         {library, "lib/libmirrorflow.a", "bin/mirrorflow", "bin/fashion_mnist"})

    def test_missing_dpkg_is_a_one_line_error(self):
        python = pathlib.Path(os.sys.executable)
        result = subprocess.run([python, ROOT / "tools/sbom", f"--prefix={self.root}"], capture_output=True, text=True,
                                check=False, env={"PATH": str(self.root)})
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn("dpkg-query", result.stderr)

    def test_missing_file_is_named(self):
        result = subprocess.run([ROOT / "tools/sbom", f"--prefix={self.root}", "--libdir=bin"], capture_output=True,
                                text=True, check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(f"bin/libmirrorflow.so.{VERSION}", result.stderr)

    def test_debian_field_lists_the_contained_packages(self):
        """Checks Static-Built-Using, which tools/package-deb writes."""
        for kinds in (["static", "headers"], ["headers"]):
            text = subprocess.check_output([ROOT / "packaging/static_built_using", *kinds], text=True)
            field = dict(re.fullmatch(r"(\S+) \(= (\S+)\)", item).groups() for item in text.strip().split(", "))
            contained = dict(check_sbom.source(component) for component in self.bill["components"]
                             if set(check_sbom.linkage(component)) & set(kinds))
            self.assertEqual(field, contained)
        script = (ROOT / "tools/package-deb").read_text(encoding="utf-8")
        packages = len(re.findall(r"^MULTI_ARCH=\w+ build ", script, re.MULTILINE))
        self.assertEqual(script.count("nStatic-Built-Using: $(packaging/static_built_using "), packages)


if __name__ == "__main__":
    unittest.main()
