// SPDX-License-Identifier: Apache-2.0
//
// Tests the limits on a whole GraphDef. graph_def_test.cc covers versions, recursive functions and
// errors in single nodes.
#include "framework/graph/validate_graph_def.h"

#include <google/protobuf/text_format.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/graph/graph_def.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/support/test_ops.h"

namespace mirrorflow {
namespace {

proto::GraphDef Def(const std::string& text) {
  proto::GraphDef def;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &def));
  return def;
}

// Returns a graph in which f0 references f1 twice, f1 references f2 twice, and so on: 2^depth nodes
// in a few kilobytes. `node` is the referencing node; `@` stands for the function's name.
proto::GraphDef Doubling(int depth, const std::string& node) {
  std::string library;
  for (int i = 0; i < depth; ++i) {
    absl::StrAppend(&library, "function { signature { name: 'f", i, "' } ");
    for (const char* name : {"a", "b"}) {
      std::string mention = absl::StrCat("node_def { name: '", name, "' ", node, " } ");
      mention.replace(mention.find('@'), 1, absl::StrCat("f", i + 1));
      absl::StrAppend(&library, mention);
    }
    absl::StrAppend(&library, "} ");
  }
  return Def(absl::StrCat("node { name: 'first' op: 'NoOp' } node { name: 'call' op: 'f0' } ",
                          "library { ", library, "function { signature { name: 'f", depth,
                          "' } node_def { name: 'n' op: 'NoOp' } } }"));
}

TEST(ValidateGraphDefTest, ExponentialExpansionIsRejectedBeforeInlining) {
  for (const char* node :
       {"op: '@'", "op: 'PartitionedCall' attr { key: 'f' value { func { name: '@' } } }",
        "op: 'If' attr { key: 'then_branch' value { func { name: '@' } } }",
        "op: 'Case' attr { key: 'branches' value { list { func { name: '@' } } } }"}) {
    for (const int depth : {30, 60, 1000}) {
      const absl::Status status = FromGraphDef(Doubling(depth, node), TestOps()).status();
      EXPECT_THAT(status, IsError(absl::StatusCode::kResourceExhausted, "f0(call)",
                                  "at most 4194304 nodes", "2147483648 bytes"))
          << node;
    }
    EXPECT_TRUE(ValidateGraphDef(Doubling(10, node)).ok()) << node;
  }
}

TEST(ValidateGraphDefTest, NumberOfNodesIsLimited) {
  const proto::GraphDef def = Def("node { name: 'a' op: 'NoOp' } node { name: 'b' op: 'NoOp' }");
  EXPECT_TRUE(ValidateGraphDef(def, {.max_nodes = 2}).ok());
  EXPECT_THAT(ValidateGraphDef(def, {.max_nodes = 1, .max_bytes = 1000}),
              IsError(absl::StatusCode::kResourceExhausted, "NoOp(b)", "1 nodes and 1000 bytes",
                      "got 2 and 18"));
}

TEST(ValidateGraphDefTest, ByteLimitCountsReferencedFunctions) {
  const proto::GraphDef def = Def(
      "node { name: 'a' op: 'f' } node { name: 'b' op: 'f' } library { function { signature { name:"
      " 'f' } node_def { name: 'n' op: 'NoOp' attr { key: '_a' value { s: '0123456789' } } } } }");
  const int64_t call = static_cast<int64_t>(def.node(0).ByteSizeLong());
  const int64_t body = static_cast<int64_t>(def.library().function(0).node_def(0).ByteSizeLong());
  EXPECT_TRUE(ValidateGraphDef(def, {.max_bytes = 2 * (call + body)}).ok());
  EXPECT_THAT(ValidateGraphDef(def, {.max_bytes = 2 * (call + body) - 1}),
              IsError(absl::StatusCode::kResourceExhausted, "f(b): "));
}

TEST(ValidateGraphDefTest, ManyFunctionsTakeLinearTime) {
  constexpr int kFunctions = 100000;  // a quadratic algorithm would take 10^10 steps
  proto::GraphDef def;
  for (int i = 0; i < kFunctions; ++i) {
    proto::FunctionDef* function = def.mutable_library()->add_function();
    function->mutable_signature()->set_name(absl::StrCat("f", i));
    proto::NodeDef* node = def.add_node();
    node->set_name(absl::StrCat("n", i));
    node->set_op(function->signature().name());
  }
  EXPECT_TRUE(ValidateGraphDef(def).ok());
}

}  // namespace
}  // namespace mirrorflow
