// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/file.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/proto/graph.pb.h"
#include "mirrorflow_debug.h"
#include "nlohmann/json.hpp"
#include "tools/bench/benchmarks.h"
#include "tools/bench/machine.h"
#include "tools/bench/temporary_directory.h"
#include "tools/flags/command_line.h"

ABSL_FLAG(int64_t, max_nodes, 1000000, "bench graphs: number of nodes of the largest graph");

namespace mirrorflow {
namespace {

// Resets the peak resident set size.
void ForgetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }

Output Chain(const Scope& root, Output x, int64_t nodes) {
  for (int64_t i = 1; i < nodes; ++i) x = ops::Sin(root, x);
  return x;
}

Output AddInPairs(const Scope& root, std::vector<Output> level) {
  while (level.size() > 1) {
    std::vector<Output> sums;
    for (size_t i = 0; i + 1 < level.size(); i += 2) {
      sums.push_back(ops::AddV2(root, level[i], level[i + 1]));
    }
    if (level.size() % 2 == 1) sums.push_back(level.back());
    level = std::move(sums);
  }
  return level[0];
}

// Builds a constant and a product for each leaf, and a tree of sums. There are about 3 nodes per
// leaf.
Output Wide(const Scope& root, Output x, int64_t nodes) {
  std::vector<Output> leaves;
  for (int64_t leaf = 0; leaf < nodes / 3; ++leaf) {
    const Output factor = ops::Const(root, Tensor::Scalar<float>(static_cast<float>(leaf)));
    leaves.push_back(ops::Mul(root, x, factor));
  }
  return AddInPairs(root, std::move(leaves));
}

Output Equal(const Scope& root, Output x, int64_t nodes) {
  std::vector<Output> leaves;
  for (int64_t leaf = 0; leaf < nodes / 2; ++leaf) leaves.push_back(ops::Sin(root, x));
  return AddInPairs(root, std::move(leaves));
}

// Builds y = f_0(x), where f_i(x) = f_i+1(sin(x)). Calls are nested as deep as there are functions,
// and each function contributes two nodes when inlined.
absl::StatusOr<proto::GraphDef> Functions(int64_t nodes) {
  Graph sample;
  const Scope root(&sample);
  ops::Sin(root.WithName("sin"), ops::Placeholder(root.WithName("x"), DT_FLOAT, {}));
  MF_ASSIGN_OR_RETURN(const proto::GraphDef sample_def, sample.ToGraphDef());
  proto::GraphDef def;
  *def.mutable_versions() = sample_def.versions();
  const int64_t functions = nodes / 2;
  for (int64_t i = 0; i < functions; ++i) {
    proto::FunctionDef& function = *def.mutable_library()->add_function();
    function.mutable_signature()->set_name(absl::StrCat("f", i));
    auto& x = *function.mutable_signature()->add_input_arg();
    auto& y = *function.mutable_signature()->add_output_arg();
    x.set_name("x");
    y.set_name("y");
    x.set_type(proto::DT_FLOAT);
    y.set_type(proto::DT_FLOAT);
    *function.add_node_def() = sample_def.node(1);
    const bool last = i + 1 == functions;
    (*function.mutable_ret())["y"] = last ? "sin:y:0" : "call:y:0";
    if (last) break;
    proto::NodeDef& call = *function.add_node_def();
    call.set_name("call");
    call.set_op(absl::StrCat("f", i + 1));
    call.add_input("sin:y:0");
  }
  *def.add_node() = sample_def.node(0);
  proto::NodeDef& call = *def.add_node();
  call.set_name("y");
  call.set_op("f0");
  call.add_input("x");
  return def;
}

// The names of the feed and the fetch.
struct Ends {
  std::string x;
  std::string y;
};

absl::StatusOr<Ends> WriteGraph(absl::string_view shape, int64_t nodes, const std::string& path) {
  if (shape == "functions") {
    MF_ASSIGN_OR_RETURN(const proto::GraphDef def, Functions(nodes));
    MF_RETURN_IF_ERROR(WriteFileAtomically(path, {def.SerializeAsString()}));
    return Ends{"x", "y"};
  }
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {});
  const Output y = shape == "chain"  ? Chain(root, x, nodes)
                   : shape == "wide" ? Wide(root, x, nodes)
                                     : Equal(root, x, nodes);
  MF_RETURN_IF_ERROR(graph.status());
  MF_RETURN_IF_ERROR(WriteGraphFile(graph, path));
  return Ends{x.ToString(), y.ToString()};
}

void ReportGraph(absl::string_view shape, const GraphCost& cost, Report* report) {
  const double nodes = static_cast<double>(cost.nodes);
  report->AddLine(
      absl::StrFormat("graphs/%-6s nodes=%-8d load_ms=%.1f session_ms=%.1f compile_ms=%.1f "
                      "run_ms=%.2f us_a_node=%.2f bytes_a_node=%.0f",
                      shape, cost.nodes, cost.load_ms, cost.session_ms, cost.compile_ms,
                      cost.run_ms, cost.total_ms() * 1e3 / nodes,
                      static_cast<double>(cost.peak_bytes) / nodes),
      {{"case", absl::StrCat("graphs/", shape)},
       {"nodes", cost.nodes},
       {"load_ms", cost.load_ms},
       {"session_ms", cost.session_ms},
       {"compile_ms", cost.compile_ms},
       {"run_ms", cost.run_ms},
       {"peak_bytes", cost.peak_bytes}});
}

}  // namespace

absl::StatusOr<GraphCost> MeasureGraph(absl::string_view shape, int64_t nodes) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/graph.pb";
  MF_ASSIGN_OR_RETURN(const Ends ends, WriteGraph(shape, nodes, path));
  malloc_trim(0);
  const int64_t before = MemoryFigure("self", "VmRSS").value_or(0);
  ForgetPeak();

  GraphCost cost;
  MonotonicTime last = MonotonicTime::Now();
  auto lap = [&last] {
    const MonotonicTime now = MonotonicTime::Now();
    const double ms = absl::ToDoubleMilliseconds(now - last);
    last = now;
    return ms;
  };
  MF_ASSIGN_OR_RETURN(const Graph graph, ReadGraphFile(path, AllOps()));
  cost.nodes = graph.num_nodes();
  cost.load_ms = lap();
  MF_ASSIGN_OR_RETURN(const auto strategy, OneDeviceStrategy::Create());
  MF_ASSIGN_OR_RETURN(const auto session, strategy->NewSession(graph));
  cost.session_ms = lap();
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({graph.FindNode(ends.x)->output(0)},
                                                  {graph.FindNode(ends.y)->output(0)}));
  MF_RETURN_IF_ERROR(CompileStep(step, {Shape()}).status());
  cost.compile_ms = lap();
  MF_RETURN_IF_ERROR(step.Run({Tensor::Scalar<float>(0.5f)}).status());
  cost.run_ms = lap();
  cost.peak_bytes = MemoryFigure("self", "VmHWM").value_or(0) - before;
  return cost;
}

absl::Status BenchGraphs(Report* report) {
  const int64_t most = absl::GetFlag(FLAGS_max_nodes);
  for (const absl::string_view shape : {"chain", "wide", "equal", "functions"}) {
    for (int64_t nodes = 1000; nodes <= most; nodes *= 10) {
      MF_ASSIGN_OR_RETURN(const GraphCost cost, MeasureGraph(shape, nodes));
      ReportGraph(shape, cost, report);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGraphsFlag() {
  return CheckFlagRange("max_nodes", absl::GetFlag(FLAGS_max_nodes), 1000, 100000000);
}

}  // namespace mirrorflow
