#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that each house rule reports a tree that violates it and accepts one that does not."""

import pathlib
import tempfile
import unittest

import house_rules

LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"

README = ("Things.\n\nMay depend on: everything.\n\n"
          "Read first: `README.md`, `../tools/setup`, `../ops/relu.cc`.\n")

KERNELS = ("Things.\n\nMay depend on: `framework`, %s.\n\n"
           "Read first: `README.md`, `cpu/relu.cc`, `../tools/setup`.\n")

OPTIONAL = "  bool optional() const override { return true; }\n"
NAME = '  absl::string_view name() const override { return "%s"; }\n};\n#endif\n'

GOOD = {
    "ops/README.md": README,
    "ops/relu.cc": LICENCE + '#include "framework/graph/op.h"\nvoid F() { ops.Define("Relu"); }\n',
    "ops/BUILD": 'f(name = "ops", deps = ["//framework"], visibility = ["//train:t"])\n',
    "ops/passes/fuse_some.h": LICENCE + "#ifndef MIRRORFLOW_OPS_PASSES_FUSE_SOME_H_\n"
                                       "#define MIRRORFLOW_OPS_PASSES_FUSE_SOME_H_\n"
                                       "class FuseSome final : public Pass {\n"
                                       + OPTIONAL + NAME % "fuse_some",
    "kernels/README.md": KERNELS % "\nCUDA",
    "kernels/cpu/relu.cc": LICENCE + '#include "framework/graph/op.h"\n'
                                     'void G() { kernels.Register("Relu"); }  // not "Add"\n',
    "kernels/cuda/formulas.cc": LICENCE + 'const char* kOps[] = {"Relu", "Add"};\n',
    "kernels/cuda/relu.cu": LICENCE + "#include <cuda_runtime.h>\n#if CUDA_VERSION\n#endif\n",
    "framework/README.md": README,
    "framework/core/BUILD": 'package(default_visibility = ["//:__subpackages__"])\n',
    "framework/graph/BUILD": 'f(name = "graph", deps = ["//framework/core:core"])\n',
    "framework/graph/op.h": LICENCE + "#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_OP_H_\n"
                                      "#define MIRRORFLOW_FRAMEWORK_GRAPH_OP_H_\n#endif\n",
    "framework/compiler/passes/prune.cc": LICENCE + '#include "framework/compiler/pass.h"\n',
    "framework/session/session.cc": LICENCE + '#include "framework/compiler/passes/prune.h"\n',
    "ops/control_flow/if.cc": LICENCE + '#include "ops/relu.h"\n',
    "ops/all/all_ops.cc": LICENCE + '#include "ops/all/ops.h"\n#include "ops/control_flow/if.h"\n',
    "kernels/cuda/move.cc": LICENCE + '#include "kernels/cuda/code/move.cuh"\n',
    "distribute/README.md": README,
    "distribute/all_reduce.h": LICENCE + "#ifndef MIRRORFLOW_DISTRIBUTE_ALL_REDUCE_H_\n"
                                         "#define MIRRORFLOW_DISTRIBUTE_ALL_REDUCE_H_\n"
                                         'constexpr char kAllReduce[] = "AllReduce";\n#endif\n',
    "distribute/all_reduce.cc": LICENCE + "void H() { ops.Define(kAllReduce); }\n",
    "train/README.md": README,
    "train/summary/event.cc": LICENCE + "event.set_wall_time(Seconds(absl::Now()));\n",
    "train/trainer/loop.cc": LICENCE + '#include "absl/time/time.h"\n'
                                       '#include "distribute/strategy.h"\n'
                                       "Log(absl::FormatTime(kFormat, absl::Now(), utc));\n",
    "train/trainer/BUILD": 'f(name = "loop", deps = ["//distribute"])\n',
    "docs/benchmarks.md": "| pass | gain |\n| `fuse_some`, small | 1.1 |\n",
    "tests/README.md": README,
    "tests/ops/relu_test.cc": LICENCE + '#include "gmock/gmock.h"\n#include "ops/relu.h"\n'
                              'const char* op = "Relu";\n'
                              'EXPECT_THAT(Parse("a graph of more than four words"),\n'
                              '            IsError(kInvalid, "line 1:", "got the end"))\n'
                              '    << "why this graph is an error";\n'
                              'EXPECT_THAT(text, HasSubstr("a text that is not an error"));\n'
                              'EXPECT_THAT(std::string(e.message()), Not(HasSubstr("b")));\n'
                              'EXPECT_THAT(e.message(), StartsWith(path));\n',
    "tests/cuda/gpu.h": LICENCE + "#ifndef MIRRORFLOW_TESTS_CUDA_GPU_H_\n"
                                  "#define MIRRORFLOW_TESTS_CUDA_GPU_H_\n#endif\n",
    "tests/references/cases/add.txt": "case Add {T=float}\n",
    "tools/README.md": README,
    "tools/print.cc": LICENCE + 'std::fputs("a %s\\n",\n  stderr);\nputs(\n  "b");\n'
                                'write(fd, c, 1);\nstd::snprintf(d, 2, "%s", e);\n'
                                'std::fprintf(stderr,\n  "%d\\n", 1);\n',
    "tools/setup": "packages=(\n  libabsl-dev zlib1g-dev\n)\n",
    "bazel/workspace.bzl": 'pkg_config_repo(\n  name = "com_google_absl", apt = "libabsl-dev")\n',
}

# (rule, file that violates it, contents)
PLANTED = [
    ("includes_go_down", "framework/a.cc", '#include "ops/relu.h"\n'),
    ("includes_go_down", "ops/a.cc", '#include "kernels/cpu/relu.h"\n'),
    ("includes_go_down", "ops/a.h", '  #  include "distribute/strategy.h"\n'),
    ("includes_go_down", "kernels/cpu/a.cc", '#include "distribute/all_reduce.h"\n'),
    ("includes_go_down", "distribute/a.cc", '#include "train/optimizers/optimizer.h"\n'),
    ("includes_go_down", "train/a.cc", '#include "tools/flags.h"\n'),
    ("includes_go_down", "train/a.cc", '#include "mirrorflow.h"\n'),
    ("includes_go_down", "train/optimizers/optimizer.cc", '#include "distribute/strategy.h"\n'),
    ("includes_go_down", "examples/a.cc", '#include "tests/support/device.h"\n'),
    ("readmes_name_what_folders_use", "kernels/a.cc", '#include <openssl/sha.h>\n'),
    ("readmes_name_what_folders_use", "kernels/a.cc", '#include "ops/relu.h"\n'),
    ("readmes_name_what_folders_use", "kernels/README.md", KERNELS % "CUDA, zlib"),
    ("readmes_name_what_folders_use", "bazel/workspace.bzl", 'pkg_config_repo(name = "lz4")\n'),
    ("examples_can_be_copied", "examples/a.cc", '#include "ops/relu.h"\n'),
    ("examples_can_be_copied", "examples/a.cc", "namespace mirrorflow {\n"),
    ("build_deps_go_down", "framework/core/BUILD", 'cc_library(name = "a", deps = ["//ops"])\n'),
    ("build_deps_go_down", "ops/BUILD", 'cc_library(name = "a", deps = ["//:mirrorflow"])\n'),
    ("build_deps_go_down", "kernels/BUILD", 'f(name = "a", data = ["//tools:mirrorflow"])\n'),
    ("build_deps_go_down", "train/BUILD", 'f(name = "adam", deps = ["//distribute/strategy"])\n'),
    ("visibility_goes_up", "ops/BUILD", 'package(default_visibility = ["//:__subpackages__"])\n'),
    ("visibility_goes_up", "ops/a/BUILD", 'f(name = "a", visibility = ["//visibility:public"])\n'),
    ("no_two_folders_include_each_other", "kernels/cuda/code/a.cuh",
     '#include "kernels/cuda/moves.h"\n'),
    ("no_two_folders_include_each_other", "framework/compiler/a.cc",
     '#include "framework/session/session.h"\n'),
    ("no_two_folders_include_each_other", "ops/a.cc", '#include "ops/all/ops.h"\n'),
    ("no_two_folders_include_each_other", "framework/core/BUILD",
     'cc_library(name = "a", deps = ["//framework/graph"])\n'),
    ("folders_keep_their_rows", "framework/graph/a.h", '#include "framework/runtime/plan.h"\n'),
    ("folders_keep_their_rows", "framework/workers/a.cc", '#include "framework/compiler/a.h"\n'),
    ("folders_keep_their_rows", "ops/control_flow/a.cc", '#include "ops/all/all_ops.h"\n'),
    ("folders_keep_their_rows", "ops/passes/a.cc", '#include "ops/control_flow/passes/a.h"\n'),
    ("folders_keep_their_rows", "distribute/passes/BUILD",
     'cc_library(name = "a", deps = ["//distribute:pipeline"])\n'),
    ("folders_keep_their_rows", "framework/utilities/a.cc", "int a;\n"),
    ("folders_keep_their_rows", "kernels/cuda/device/a.cc",
     '#include "kernels/cuda/libraries/program.h"\n'),
    ("folders_keep_their_rows", "tools/flags/a.cc", '#include "tools/bench.h"\n'),
    ("folders_keep_their_rows", "tests/support/a.cc", '#include "tests/train/loop.h"\n'),
    ("folders_keep_their_rows", "tests/ops/a.cc", '#include "tests/train/loop.h"\n'),
    ("visibility_goes_up", "train/BUILD", 'f(name = "a", visibility = ["//ops:__pkg__"])\n'),
    ("libraries_use_the_macro", "ops/BUILD", 'cc_library(name = "a")\n'),
    ("precompiled_headers_are_included", "ops/a.cc", "absl::StatusOr<int> F();\n"),
    ("precompiled_headers_are_included", "bazel/rules/cc_library.bzl",
     'COMMON_HEADERS = [\n    "deque",\n]\n'),
    ("precompiled_headers_are_included", "ops/a.cc",
     '#include "framework/graph/op.h"\nstd::vector<int> v;\n'),
    ("devices_stay_in_their_rooms", "framework/a.cc", "#include <cuda_runtime_api.h>\n"),
    ("devices_stay_in_their_rooms", "distribute/a.cc", '#include "nccl.h"\n'),
    ("devices_stay_in_their_rooms", "kernels/cpu/a.cc", "#include <cub/device/device_reduce.cuh>\n"),
    ("devices_stay_in_their_rooms", "train/a.cc", "#ifdef MIRRORFLOW_CUDA\n#endif\n"),
    ("devices_stay_in_their_rooms", "train/a.cc", "# if defined(__CUDA_ARCH__)\n#endif\n"),
    ("devices_stay_in_their_rooms", "tools/BUILD", 'f(name = "a", deps = ["@local_cuda//:nccl"])\n'),
    ("an_op_is_named_by_its_stem_alone", "framework/a.cc", 'if (op == "Relu") {}\n'),
    ("an_op_is_named_by_its_stem_alone", "kernels/cpu/a.cc", 'const char* op = "Relu";\n'),
    ("an_op_is_named_by_its_stem_alone", "ops/passes/a.cc", 'const char* op = "Relu";\n'),
    ("an_op_is_named_by_its_stem_alone", "train/a.cc", 'const char* op = "AllReduce";\n'),
    ("an_op_is_named_by_its_stem_alone", "tools/a.cc", 'const char* op = "Add";\n'),
    ("dangerous_calls_have_one_owner", "tools/a.cc", "x = Json::parse(text, nullptr, false);\n"),
    ("dangerous_calls_have_one_owner", "tools/a.cc", "nlohmann::json::sax_parse(a, b, &c);\n"),
    ("dangerous_calls_have_one_owner", "tools/a.cc", "x = nlohmann::ordered_json::parse(text);\n"),
    ("dangerous_calls_have_one_owner", "tools/a.cc", "x = OrderedJson::parse(text);\n"),
    ("dangerous_calls_have_one_owner", "tools/a.cc", "if (nlohmann::json::accept(text)) return;\n"),
    ("dangerous_calls_have_one_owner", "tools/a.cc", "std::cin >> json;\n"),
    ("dangerous_calls_have_one_owner", "train/a.cc", "creat(path, 0666);\n"),
    ("dangerous_calls_have_one_owner", "train/a.cc", 'freopen(path, "w", stderr);\n'),
    ("dangerous_calls_have_one_owner", "tools/a.cc", 'std::printf("%d; "\n  "%-8s", 1, x.c_str());\n'),
    ("dangerous_calls_have_one_owner", "train/a.cc",
     'std::fprintf(stderr, "%s\\n", path.c_str());\n'),
    ("dangerous_calls_have_one_owner", "tools/a.cc", "std::fputs(text.c_str(), stdout);\n"),
    ("dangerous_calls_have_one_owner", "tools/a.cc", "std::puts(name);\n"),
    ("dangerous_calls_have_one_owner", "tools/a.cc", "fwrite(text, 1, size, stdout);\n"),
    ("dangerous_calls_have_one_owner", "tools/a.cc", "std::cerr << text;\n"),
    ("dangerous_calls_have_one_owner", "tools/a.cc", 'absl::PrintF("%s", text);\n'),
    ("dangerous_calls_have_one_owner", "tools/a.cc",
     "write(STDERR_FILENO, text.data(), text.size());\n"),
    ("dangerous_calls_have_one_owner", "tools/a.cc", "std::fprintf(stderr,\n  text.c_str());\n"),
    ("dangerous_calls_have_one_owner", "train/a.cc", "std::ofstream(path) << text;\n"),
    ("dangerous_calls_have_one_owner", "train/a.cc", 'fopen(path, "we");\n'),
    ("dangerous_calls_have_one_owner", "train/a.cc", "open(path, O_WRONLY | O_TRUNC);\n"),
    ("dangerous_calls_have_one_owner", "train/a.cc", "  mutable std::mutex mu_;\n"),
    ("dangerous_calls_have_one_owner", "tools/a.cc", "std::unique_lock<std::mutex> lock(mu_);\n"),
    ("the_library_logs", "train/a.cc", 'std::fprintf(stderr, "a");\n'),
    ("the_library_logs", "distribute/a.cc", "options.log = PrintErrorLine;\n"),
    ("the_library_logs", "train/a.cc", "PrintErrorReport(severity, text);\n"),
    ("deadlines_are_monotonic", "distribute/a.cc", "  const auto now = absl::Now();\n"),
    ("deadlines_are_monotonic", "framework/a.cc", "  while (absl::Now() < deadline) {\n"),
    ("deadlines_are_monotonic", "tools/a.cc", "  const absl::Time end = absl::Now() + grace;\n"),
    ("deadlines_are_monotonic", "train/a.cc", "  const auto now = absl::Now();\n"),
    ("numbers_belong_to_an_object", "train/a.cc",
     "int Next() {\n  static std::atomic<int> last{0};\n  return ++last;\n}\n"),
    ("numbers_belong_to_an_object", "framework/a.cc",
     "std::atomic<uint64_t> last = 0;\nuint64_t Next() { return last.fetch_add(1); }\n"),
    ("numbers_belong_to_an_object", "distribute/a.h",
     "  static inline int64_t last = 0;\n  const int64_t number = last++;\n"),
    ("tests_pin_no_sentence", "tests/ops/a_test.cc",
     'EXPECT_THAT(status, IsError(kInvalid, "a: ", "expected one of "\n"the two"));\n'),
    ("tests_pin_no_sentence", "tests/ops/a_test.cc",
     'EXPECT_EQ(status.message(), "a: wrong; expected no value, got 3");\n'),
    ("tests_pin_no_sentence", "tests/ops/a_test.cc",
     'EXPECT_THAT(Error("a;"), HasSubstr("expected no value of it"));\n'),
    ("tests_pin_no_sentence", "tests/ops/a_test.cc",
     'EXPECT_EQ(status, absl::InternalError("this must never happen here"));\n'),
    ("tests_pin_no_sentence", "tests/ops/a_test.cc",
     'EXPECT_DEATH(Run(), "this must never happen here");\n'),
    ("tests_pin_codes", "tests/ops/a_test.cc",
     'EXPECT_THAT(std::string(status.message()),\n            HasSubstr("a: "));\n'),
    ("tests_pin_codes", "tests/ops/a_test.cc",
     'EXPECT_THAT(Run().status().message(), testing::AllOf(HasSubstr("a"), HasSubstr("b")));\n'),
    ("tests_pin_codes", "tests/ops/a_test.cc",
     'EXPECT_THAT(Run().status().ToString(), HasSubstr("a: "));\n'),
    ("tests_pin_codes", "tests/ops/a_test.cc",
     'EXPECT_TRUE(absl::StrContains(Run().message(), "a: "));\n'),
    ("tests_pin_codes", "tests/ops/a_test.cc",
     'ASSERT_NE(status.message().find("a: "), absl::string_view::npos);\n'),
    ("tests_pin_codes", "tests/ops/a_test.cc", 'EXPECT_EQ(status.message(), "a: wrong");\n'),
    ("tests_pin_codes", "tests/ops/a_test.cc", "EXPECT_FALSE(\n    Run().ok());\n"),
    ("tests_pin_codes", "tests/ops/a_fixture.h",
     "  return std::string(Run().status().message());\n"),
    ("a_pass_has_the_name_of_its_file", "ops/passes/a.h",
     "class FuseSome final : public Pass {\n" + NAME % "a"),
    ("a_pass_has_the_name_of_its_file", "ops/passes/a.h",
     "class A final : public Pass {\n" + NAME % "fuse_some"),
    ("an_optional_pass_shows_its_gain", "ops/passes/fuse_more.h", OPTIONAL),
    ("files_are_short", "ops/a.cc", "\n" * 801),
    ("files_are_short", "tools/a.py", "\n" * 801),
    ("folders_say_what_they_are", "ops/README.md", "x\n" * 24 + README),
    ("folders_say_what_they_are", "ops/README.md", ""),
    ("folders_say_what_they_are", "ops/README.md", "Things.\n\nRead first: `relu.cc`.\n"),
    ("folders_say_what_they_are", "ops/README.md", README.replace("relu", "elu")),
    ("folders_say_what_they_are", "examples/a.cc", ""),
    ("no_path_of_one_machine", "tools/run", "cd /wo" "rk/main\n"),
    ("no_path_of_one_machine", "docs/a.md", "see `/ho" "me/me/notes`\n"),
    ("files_begin_with_the_licence", "ops/a.cc", "#include <vector>\n"),
    ("files_begin_with_the_licence", "kernels/cuda/a.cu", "// Copyright\n"),
    ("headers_are_guarded_by_their_path", "ops/a.h", "#pragma once\n"),
    ("headers_are_guarded_by_their_path", "ops/a.h", "#ifndef MIRRORFLOW_OPS_B_H_\n"
                                                     "#define MIRRORFLOW_OPS_B_H_\n"),
    ("setup_installs_what_the_build_names", "bazel/workspace.bzl", 'repo(apt = "zlib1g")\n'),
]


def check(rule, files):
    """Returns the paths that `rule` reports in a tree of these files."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            file = pathlib.Path(root, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return [violation.where for violation in rule(house_rules.Tree(root))]


class HouseRulesTest(unittest.TestCase):
    def test_good_tree_violates_no_rule(self):
        for rule in house_rules.RULES:
            with self.subTest(rule.__name__):
                self.assertEqual(check(rule, GOOD), [])

    def test_planted_violation_is_reported_at_its_place(self):
        for name, path, text in PLANTED:
            with self.subTest(name, path=path, text=text[:60]):
                found = check(getattr(house_rules, name), {**GOOD, path: text})
                place = path if name != "folders_say_what_they_are" else "README.md"
                self.assertTrue(any(where.endswith(place) for where in found), found)

    def test_every_rule_has_planted_violation(self):
        self.assertEqual({rule.__name__ for rule in house_rules.RULES}, {p[0] for p in PLANTED})

    def test_build_outputs_are_not_sources(self):
        files = {"bin/a.cc": "", "bazel-out/a.cc": "", ".git/a.cc": "", "ops/__pycache__/a.cc": ""}
        self.assertEqual(check(house_rules.files_begin_with_the_licence, files), [])


if __name__ == "__main__":
    unittest.main()
