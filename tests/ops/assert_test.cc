// SPDX-License-Identifier: Apache-2.0
//
// Tests Assert in graphs written by TensorFlow, where most of its data operands are strings.
#include "ops/assert.h"

#include <string>

#include "framework/graph/graph_def.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "ops/registry.h"
#include "tests/support/is_error.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

// Computes y = x after Assert(all(x > 0), "x must be positive", x).
constexpr char kGuarded[] = R"pb(
  node {
    name: "x"
    op: "Placeholder"
    attr {
      key: "dtype"
      value { type: DT_FLOAT }
    }
    attr {
      key: "shape"
      value { shape { dim { size: -1 } } }
    }
  }
  node {
    name: "zero"
    op: "Const"
    attr {
      key: "dtype"
      value { type: DT_FLOAT }
    }
    attr {
      key: "value"
      value {
        tensor {
          dtype: DT_FLOAT
          tensor_shape {}
          float_val: 0
        }
      }
    }
  }
  node {
    name: "axis"
    op: "Const"
    attr {
      key: "dtype"
      value { type: DT_INT32 }
    }
    attr {
      key: "value"
      value {
        tensor {
          dtype: DT_INT32
          tensor_shape {}
          int_val: 0
        }
      }
    }
  }
  node {
    name: "greater"
    op: "Greater"
    input: "x"
    input: "zero"
    attr {
      key: "T"
      value { type: DT_FLOAT }
    }
  }
  node { name: "all" op: "All" input: "greater" input: "axis" }
  node {
    name: "text"
    op: "Const"
    attr {
      key: "dtype"
      value { type: DT_STRING }
    }
    attr {
      key: "value"
      value {
        tensor {
          dtype: DT_STRING
          tensor_shape {}
          string_val: "x must be positive"
        }
      }
    }
  }
  node { name: "guard/Assert" op: "Assert" input: "all" input: "text" DATA }
  node {
    name: "y"
    op: "Identity"
    input: "x"
    input: "^guard/Assert"
    attr {
      key: "T"
      value { type: DT_FLOAT }
    }
  })pb";

constexpr char kTextAlone[] = R"pb(attr {
                                     key: "T"
                                     value { list { type: [ DT_STRING ] } }
                                   })pb";
constexpr char kTextAndTensor[] = R"pb(
  input: "x"
  attr {
    key: "T"
    value { list { type: [ DT_STRING, DT_FLOAT ] } }
  })pb";

absl::StatusOr<Graph> GraphOf(absl::string_view data) {
  std::string text = kGuarded;
  text.replace(text.find("DATA"), 4, std::string(data));
  proto::GraphDef def;
  if (!google::protobuf::TextFormat::ParseFromString(text, &def)) {
    return absl::InternalError("the text is not a GraphDef");
  }
  return FromGraphDef(def, AllOps());
}

absl::StatusOr<std::vector<Tensor>> RunGuarded(const Graph& graph, const Tensor& x, int replicas) {
  auto session = CreateTestSession(graph, {.replicas = replicas});
  if (!session.ok()) return session.status();
  return (*session)->Run({{graph.FindNode("x")->output(0), x}}, {graph.FindNode("y")->output(0)});
}

TEST(Assert, StepSucceedsIfConditionIsTrue) {
  for (const char* data : {kTextAlone, kTextAndTensor}) {
    const auto graph = GraphOf(data);
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (const int replicas : {1, 2}) {
      const auto y = RunGuarded(*graph, Tensor::Vector<float>({1, 2, 3}), replicas);
      ASSERT_TRUE(y.ok()) << y.status();
      EXPECT_TRUE(Tensor::Identical((*y)[0], Tensor::Vector<float>({1, 2, 3})));
    }
  }
}

TEST(Assert, StepFailsWithNameAndDataIfConditionIsFalse) {
  const auto graph = GraphOf(kTextAndTensor);
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const int replicas : {1, 2}) {
    const absl::Status status =
        RunGuarded(*graph, Tensor::Vector<float>({1, -2, 3}), replicas).status();
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "guard/Assert",
                                "float<3>{1.0, -2.0, 3.0}"));
  }
}

TEST(Assert, WrittenGraphAlwaysHasData) {
  const auto graph = GraphOf(kTextAlone);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto def = ToGraphDef(*graph);
  ASSERT_TRUE(def.ok()) << def.status();
  for (const proto::NodeDef& node : def->node()) {
    if (node.op() != "Assert") continue;
    EXPECT_EQ(node.input_size(), 2);
    EXPECT_EQ(node.input(1), "all");
    ASSERT_EQ(node.attr().at("T").list().type_size(), 1);
    EXPECT_EQ(node.attr().at("T").list().type(0), proto::DT_BOOL);
  }
}

}  // namespace
}  // namespace mirrorflow
