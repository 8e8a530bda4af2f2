// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/graph_file.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "framework/graph/text_form.h"
#include "framework/graph/verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/support/test_ops.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

constexpr char kText[] = R"(x = Placeholder() {dtype=float, shape=<?,3>}
c = Const() {dtype=float, value=float<3>{1.0, 2.0, 3.0}}
sum = AddV2(x, c) {T=float, _note="\xff"}
done = NoOp(^sum)
)";

std::string Path(absl::string_view name) { return absl::StrCat(::testing::TempDir(), "/", name); }

void Put(const std::string& path, absl::string_view contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

std::string Get(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

absl::Status ReadError(const std::string& path) {
  absl::Status error = ReadGraphFile(path, TestOps()).status();
  EXPECT_THAT(std::string(error.message()), StartsWith(path));
  return error;
}

const char* const kNames[] = {"graph.pb", "graph.pbtxt", "graph.pb.txt", "graph.txt"};

TEST(GraphFileTest, EveryFormatRoundTripsToSameBytes) {
  const absl::StatusOr<Graph> graph = ParseGraph(kText, TestOps());
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const char* name : kNames) {
    ASSERT_TRUE(WriteGraphFile(*graph, Path(name)).ok());
    const absl::StatusOr<Graph> copy = ReadGraphFile(Path(name), TestOps());
    ASSERT_TRUE(copy.ok()) << copy.status();
    EXPECT_EQ(GraphToText(*copy), kText) << name;
    ASSERT_TRUE(WriteGraphFile(*copy, Path(absl::StrCat("again_", name))).ok());
    EXPECT_EQ(Get(Path(name)), Get(Path(absl::StrCat("again_", name))));
  }
  EXPECT_THAT(Get(Path("graph.pbtxt")), HasSubstr("op: \"Placeholder\""));
  EXPECT_THAT(Get(Path("graph.txt")), HasSubstr("sum = AddV2(x, c)"));
}

TEST(GraphFileTest, ErrorForFileTruncatedAtAnyByteNamesPath) {
  const absl::StatusOr<Graph> graph = ParseGraph(kText, TestOps());
  for (const char* name : {"graph.pb", "graph.pbtxt", "graph.txt"}) {
    ASSERT_TRUE(WriteGraphFile(*graph, Path(name)).ok());
    std::string whole = Get(Path(name));
    while (whole.back() == '\n') whole.pop_back();
    const std::string path = Path(absl::StrCat("cut_", name));
    int num_read = 0;
    for (size_t size = 0; size < whole.size(); ++size) {
      Put(path, whole.substr(0, size));
      const absl::StatusOr<Graph> read = ReadGraphFile(path, TestOps());
      // A GraphDef that is cut between two nodes looks like one from an old writer, without
      // versions.
      if (read.ok() && !absl::EndsWith(name, ".txt")) {
        ++num_read;
        continue;
      }
      ASSERT_THAT(read.status(), IsError(kInvalid, path)) << name << " cut at byte " << size;
    }
    EXPECT_LE(num_read, 2 * graph->num_nodes()) << name;  // cut before or after a node's line break
  }
}

TEST(GraphFileTest, ErrorsOfBinaryFileNameByteAndCause) {
  const std::string path = Path("bad.pb");
  Put(path, "");
  EXPECT_THAT(ReadError(path), IsError(kInvalid, path, "empty"));
  Put(path, std::string("\x0a\x06\x0a\x01x\x12\x01N\x0a\x09\x0a", 11));
  EXPECT_THAT(ReadError(path), IsError(kInvalid, path, "byte 8 of 11"));
  Put(path, "node { name: \"x\" }");
  EXPECT_THAT(ReadError(path), IsError(kInvalid, path, ".pbtxt"));
}

TEST(GraphFileTest, GraphDefWithoutVersionsIsReadWithoutWarning) {
  const std::string path = Path("old.pb");
  Put(path, std::string("\x0a\x09\x0a\x01x\x12\x04NoOp", 11));
  ::testing::internal::CaptureStderr();
  const absl::StatusOr<Graph> graph = ReadGraphFile(path, TestOps());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_NE(graph->FindNode("x"), nullptr);
}

// Returns `text` with the line endings and encodings of other operating systems.
std::vector<std::string> WrittenElsewhere(const std::string& text) {
  const auto with_ends = [&](absl::string_view end) {
    return absl::StrReplaceAll(text, {{"\n", end}});
  };
  std::string little = "\xff\xfe", big = "\xfe\xff";
  for (const char c : with_ends("\r\n")) {
    little += std::string({c, '\0'});
    big += std::string({'\0', c});
  }
  return {with_ends("\r\n"),
          with_ends("\r"),
          absl::StrCat("\xef\xbb\xbf", with_ends("\r\n")),
          absl::StrCat(text, "\x1a"),
          absl::StrCat(text, "\n\n\n"),
          little,
          big};
}

TEST(GraphFileTest, TextFromOtherSystemsIsReadUnchanged) {
  const absl::StatusOr<Graph> graph = ParseGraph(kText, TestOps());
  for (const char* name : {"graph.pbtxt", "graph.txt"}) {
    ASSERT_TRUE(WriteGraphFile(*graph, Path(name)).ok());
    const std::string path = Path(absl::StrCat("elsewhere_", name));
    for (const std::string& text : WrittenElsewhere(Get(Path(name)))) {
      Put(path, text);
      const absl::StatusOr<Graph> read = ReadGraphFile(path, TestOps());
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(GraphToText(*read), kText);
    }
    Put(path, absl::StrCat(Get(Path(name)), std::string(3, '\0')));
    EXPECT_THAT(ReadError(path), IsError(kInvalid, path, "zero byte"));
  }
}

TEST(GraphFileTest, UnprintableOpNameIsRejectedAndEscaped) {
  const std::string path = Path("op.pbtxt");
  Put(path, "node { name: \"x\" op: \"Bad\\nERROR \\033[31mfake\" } versions { producer: 1 }");
  EXPECT_THAT(ReadError(path), IsError(kInvalid, "illegal op name", "Bad\\nERROR \\x1b[31mfake"));
}

TEST(GraphFileTest, TensorFlow1LoopIsNamed) {
  const std::string path = Path("loop.pbtxt");
  Put(path,
      "node { name: \"merge\" op: \"Merge\" input: \"next\" }"
      "node { name: \"next\" op: \"NextIteration\" input: \"merge\" } versions { producer: 1 }");
  EXPECT_THAT(ReadError(path), IsError(kInvalid, path, "'merge'", "loop"));
}

TEST(GraphFileTest, ErrorsOfTextFileNameLine) {
  Put(Path("bad.pbtxt"), "node {\n  name: 7\n}\n");
  EXPECT_THAT(ReadError(Path("bad.pbtxt")),
              IsError(kInvalid, Path("bad.pbtxt"), "line 2, column 9:", "string"));
  Put(Path("bad.pbtxt"), "node { nam: \"x\" }\n");
  EXPECT_THAT(ReadError(Path("bad.pbtxt")),
              IsError(kInvalid, Path("bad.pbtxt"), "line 1, column 11:"));
  Put(Path("bad.txt"), "x = NoOp()\ny = NoOp(^z)\n");
  EXPECT_THAT(ReadError(Path("bad.txt")),
              IsError(kInvalid, Path("bad.txt"), "line 2: NoOp(y)", "input 0 ('^z')", "exist"));
  Put(Path("bad.txt"), "# mirrorflow graph, nodes: 2\nx = NoOp()\n");
  EXPECT_THAT(ReadError(Path("bad.txt")),
              IsError(kInvalid, Path("bad.txt"), "expected 2 nodes", "got 1"));
  Put(Path("bad.txt"), "# mirrorflow gra");
  EXPECT_THAT(ReadError(Path("bad.txt")), IsError(kInvalid, Path("bad.txt"), "cut off"));
}

TEST(GraphFileTest, RejectsDeepNestingInEveryFormat) {
  // Encodes attr { key: "a" value { func { attr { key: "a" value { func { … } } } } } }.
  std::string bytes;
  for (int i = 0; i < 2000; ++i) {
    const auto wrap = [&](char tag) {
      std::string length;
      for (size_t n = bytes.size(); length.empty() || n > 0; n >>= 7) {
        length += static_cast<char>((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
      }
      bytes = absl::StrCat(std::string(1, tag), length, bytes);
    };
    wrap(0x52);                        // func
    wrap(0x12);                        // value of the map entry
    wrap(i + 1 < 2000 ? 0x12 : 0x2a);  // attr of a function or, outermost, of the node
  }
  const size_t size = bytes.size();
  std::string node = "\x0a";
  for (size_t n = size; n > 0; n >>= 7) {
    node += static_cast<char>((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
  }
  Put(Path("deep.pb"), absl::StrCat(node, bytes));
  EXPECT_THAT(ReadError(Path("deep.pb")), IsError(kInvalid, Path("deep.pb"), "cannot be read"));

  std::string text = "node { attr { key: 'a' value { ";
  for (int i = 0; i < 200000; ++i) text += "func { attr { key: 'a' value { ";
  Put(Path("deep.pbtxt"), text);
  EXPECT_THAT(ReadError(Path("deep.pbtxt")),
              IsError(kInvalid, Path("deep.pbtxt"), "recursion limit"));

  text = "debug_info ";
  for (int i = 0; i < 200000; ++i) text += "{ a ";
  Put(Path("deep.pbtxt"), text);
  EXPECT_THAT(ReadError(Path("deep.pbtxt")),
              IsError(kInvalid, Path("deep.pbtxt"), "recursion limit"));

  Put(Path("deep.txt"), absl::StrCat("x = NoOp() {_a=", std::string(200000, '[')));
  EXPECT_THAT(ReadError(Path("deep.txt")),
              IsError(kInvalid, Path("deep.txt"), "line 1, column 66:", "nesting"));
}

std::string Times(int count, absl::string_view text) {
  std::string all;
  for (int i = 0; i < count; ++i) absl::StrAppend(&all, text);
  return all;
}

// Each file is smaller than 100 KiB, but its parsed messages take more than 1 MiB.
TEST(GraphFileTest, MessagesThatTakeMuchMemoryAreRejectedBeforeParsing) {
  constexpr int kMany = 16000;  // of 2 bytes each: 32000 bytes, which is \x80\xfa\x01 as a varint
  std::string attrs;
  for (int i = 0; i < 9000; ++i) {
    attrs += std::string("\x2a\x04\x0a\x02", 4) + static_cast<char>(i / 95 + 32) +
             static_cast<char>(i % 95 + 32);
  }
  const std::string shapes = Times(kMany, "\\x3a\\0"), nodes = Times(kMany, "\\x1a\\0");
  for (const auto& [name, contents] : {
           std::pair<std::string, std::string>  //
           {"nodes.pb", Times(kMany, std::string("\x0a\0", 2))},
           {"attributes.pb", absl::StrCat("\x0a\xf0\xa5\x03", attrs)},
           {"functions.pb",
            absl::StrCat("\x12\x80\xfa\x01", Times(kMany, std::string("\x0a\0", 2)))},
           {"function.pb", absl::StrCat("\x12\x84\xfa\x01\x0a\x80\xfa\x01",
                                        Times(kMany, std::string("\x1a\0", 2)))},
           {"nodes.pbtxt", Times(kMany, "node{}")},
           {"list.pbtxt", absl::StrCat("node[<>", Times(kMany, ",{}"), "]")},
           {"functions.pbtxt",
            absl::StrCat("library{function{", Times(kMany / 2, "node_def{}"), "}}")},
           {"function.txt", absl::StrCat("x = NoOp()\n@f = \"", nodes, "\"\n")},
           {"gradients.txt", absl::StrCat("x = NoOp()\n@ = \"", nodes, "\"\n")},
           {"attribute.txt",
            absl::StrCat("x = NoOp() {_proto_a=\"\\x0a\\x80\\xfa\\x01", shapes, "\"}\n")},
       }) {
    Put(Path(name), contents);
    EXPECT_LT(contents.size(), 100u << 10) << name;
    EXPECT_THAT(ReadGraphFile(Path(name), TestOps(), {.max_bytes = 1 << 20}).status(),
                IsError(absl::StatusCode::kResourceExhausted, Path(name), "memory"));
  }
}

TEST(GraphFileTest, DebugInfoInTextFileIsSkipped) {
  Put(Path("debug.pbtxt"),
      "node { name: 'x' op: 'NoOp' }\n"
      "debug_info { files: 'a.py' traces { key: 'x' value { frame_id: 1 } } }\n"
      "versions { producer: 2000 }\n");
  const absl::StatusOr<Graph> graph = ReadGraphFile(Path("debug.pbtxt"), TestOps());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_NE(graph->FindNode("x"), nullptr);
}

TEST(GraphFileTest, FileSystemErrorsNamePath) {
  EXPECT_THAT(ReadError(Path("none.pb")),
              IsError(absl::StatusCode::kNotFound, Path("none.pb"), "No such file"));
  EXPECT_THAT(ReadError(::testing::TempDir()), IsError(absl::StatusCode::kFailedPrecondition,
                                                       ::testing::TempDir(), "got a directory"));
  EXPECT_THAT(WriteGraphFile(Graph(), Path("no_folder/graph.pb")),
              IsError(absl::StatusCode::kNotFound, Path("no_folder/graph.pb"), "No such file"));
}

TEST(GraphFileTest, FailedWriteLeavesExistingFileUnchanged) {
  const std::string path = Path("kept.pb");
  Put(path, "before");
  Graph graph;
  graph.Fail(absl::InvalidArgumentError("MatMul(y): no"));
  EXPECT_EQ(WriteGraphFile(graph, path),
            absl::InvalidArgumentError(absl::StrCat(path, ": MatMul(y): no")));
  EXPECT_EQ(Get(path), "before");
}

TEST(GraphFileTest, TensorFlowTrainingGraphRoundTripsDespiteUnknownOps) {
  // Most of this graph's ops are not in the test registry.
  const absl::StatusOr<Graph> graph =
      ReadGraphFile("tests/references/training/mlp_momentum.pb", TestOps());
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Node* unknown = graph->FindNode("dense/BiasAdd");
  ASSERT_NE(unknown, nullptr);
  EXPECT_EQ(unknown->op().role, OpRole::kUnknown);
  EXPECT_EQ(unknown->op().name, "BiasAdd");
  EXPECT_TRUE(VerifyGraph(*graph).ok()) << VerifyGraph(*graph);
  for (const char* name : {"copy.pb", "copy.pbtxt", "copy.txt"}) {
    ASSERT_TRUE(WriteGraphFile(*graph, Path(name)).ok());
    const absl::StatusOr<Graph> again = ReadGraphFile(Path(name), TestOps());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(GraphToText(*again), GraphToText(*graph));
  }
}

}  // namespace
}  // namespace mirrorflow
