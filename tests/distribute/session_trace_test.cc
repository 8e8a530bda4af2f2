// SPDX-License-Identifier: Apache-2.0
//
// Reads the trace of training steps back from its JSON, as a viewer would, and checks its events.
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/runtime/trace.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "ops/all/ops.h"
#include "tests/support/check_trace.h"
#include "tests/support/test_session.h"
#include "train/layers/layers.h"
#include "train/optimizers/optimizers.h"

namespace mirrorflow {
namespace {

using nlohmann::json;

constexpr int kSteps = 3;
constexpr int kLayers = 4;

struct Setting {
  int replicas;
  bool queued;
};

struct Interval {
  double begin;
  double end;
  bool Contains(const Interval& other) const { return begin <= other.begin && other.end <= end; }
  bool Overlaps(const Interval& other) const { return begin < other.end && other.begin < end; }
};

// Returns the event's interval in whole nanoseconds. The file has microseconds in double precision,
// so the ends of adjacent spans would differ by rounding.
Interval TimeOf(const json& event) {
  const double begin = std::round(event["ts"].get<double>() * 1e3);
  const double duration = event.contains("dur") ? event["dur"].get<double>() : 0;
  return {begin, begin + std::round(duration * 1e3)};
}

class SessionTraceTest : public testing::TestWithParam<Setting> {
 protected:
  // Traces a few training steps.
  void SetUp() override {
    Graph graph;
    const Scope root(&graph);
    const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 16});
    Output y = x;
    for (int i = 0; i < kLayers; ++i) y = layers::Dense(root, y, 16, ops::Tanh);
    const Output loss = ops::Mean(root, ops::Square(root, y), {0, 1});
    const Operation train = GradientDescent({.learning_rate = 0.1}).Minimize(root, loss);
    auto session =
        CreateTestSession(graph, {.replicas = GetParam().replicas, .queued = GetParam().queued});
    ASSERT_TRUE(session.ok()) << session.status();
    auto step = (*session)->Prepare({x}, {loss}, {train});
    ASSERT_TRUE(step.ok()) << step.status();
    ASSERT_EQ((*session)->TraceTo(&trace_), absl::OkStatus());
    const Tensor rows = Tensor::Allocate(DT_FLOAT, Shape({6, 16})).value();
    for (int i = 0; i < kSteps; ++i) {
      const auto out = step->Run({rows});
      ASSERT_TRUE(out.ok()) << out.status();
    }
    const json parsed = json::parse(trace_.ToJson(), nullptr, /*allow_exceptions=*/false);
    ASSERT_FALSE(parsed.is_discarded());
    for (const json& event : parsed["traceEvents"]) {
      if (event["ph"] == "M") {
        metadata_.push_back(event);
      } else {
        (event["cat"] == "step" ? steps_ : events_).push_back(event);
      }
    }
  }

  std::vector<json> OfCategory(absl::string_view category) const {
    std::vector<json> found;
    for (const json& event : events_) {
      if (event["ph"] == "X" && event["cat"] == std::string(category)) found.push_back(event);
    }
    return found;
  }

  TraceWriter trace_;
  std::vector<json> metadata_, steps_, events_;
};

INSTANTIATE_TEST_SUITE_P(Replicas, SessionTraceTest,
                         testing::Values(Setting{1, false}, Setting{2, false}, Setting{3, false},
                                         Setting{2, true}),
                         [](const auto& info) {
                           return absl::StrCat(info.param.replicas,
                                               info.param.queued ? "Queued" : "Inline");
                         });

TEST_P(SessionTraceTest, TraceIsWellFormed) {
  const absl::Status status = CheckTrace(trace_);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(SessionTraceTest, EachReplicaHasItsLanesAndOneSpanPerStep) {
  std::map<int, std::set<std::string>> steps, lanes;
  for (const json& event : metadata_) {
    if (event["name"] == "thread_name") lanes[event["pid"]].insert(event["args"]["name"]);
  }
  for (const json& event : steps_) steps[event["pid"]].insert(event["name"]);
  EXPECT_EQ(steps.size(), GetParam().replicas);
  EXPECT_EQ(lanes.size(), GetParam().replicas);
  for (const auto& [replica, names] : steps) EXPECT_EQ(names.size(), kSteps) << replica;
  for (const auto& [replica, names] : lanes) {
    EXPECT_EQ(names, (std::set<std::string>{"communicate", "compute", "copy"})) << replica;
  }
}

TEST_P(SessionTraceTest, EachEventLiesWithinOneStepOfItsReplica) {
  for (const json& event : events_) {
    int holders = 0;
    for (const json& step : steps_) {
      holders += step["pid"] == event["pid"] && TimeOf(step).Contains(TimeOf(event));
    }
    EXPECT_EQ(holders, 1) << event;
  }
}

TEST_P(SessionTraceTest, KernelSpansNameOpAndBytes) {
  std::set<std::string> ops;
  for (const json& event : OfCategory("kernel")) {
    ops.insert(event["args"]["op"]);
    EXPECT_GT(std::stoll(event["args"]["bytes"].get<std::string>()), 0) << event;
  }
  EXPECT_TRUE(ops.count("_FusedMatMulTanh") == 1 && ops.count("TanhGrad") == 1);
  std::set<std::string> names;
  for (const json& event : OfCategory("kernel")) names.insert(event["name"]);
  EXPECT_EQ(names.count("dense/Tanh_1"), 1);  // fused with its product and bias
}

TEST_P(SessionTraceTest, WaitsDoNotOverlapKernels) {
  const bool one_thread = !GetParam().queued;  // one thread runs all lanes of a replica
  for (const json& wait : OfCategory("wait")) {
    for (const json& kernel : OfCategory("kernel")) {
      if (wait["pid"] != kernel["pid"] || (!one_thread && wait["tid"] != kernel["tid"])) continue;
      EXPECT_FALSE(TimeOf(wait).Overlaps(TimeOf(kernel))) << wait << kernel;
    }
  }
}

TEST_P(SessionTraceTest, ConcurrentCollectivesHaveSeparateTracks) {
  std::map<std::string, Interval> flights;  // by the fields that identify a track in a viewer
  std::set<std::string> begun;
  for (const json& event : events_) {
    const std::string track =
        absl::StrCat(event["pid"].get<int>(), "/", event.value("id", std::string()));
    if (event["ph"] == "b") {
      EXPECT_TRUE(begun.insert(track).second) << event;
      EXPECT_GE(std::stoll(event["args"]["bytes"].get<std::string>()), 4) << event;
      flights[track] = TimeOf(event);
    } else if (event["ph"] == "e") {
      ASSERT_EQ(begun.count(track), 1) << event;
      flights[track].end = TimeOf(event).end;
    }
  }
  if (GetParam().replicas == 1) {
    EXPECT_TRUE(flights.empty());
    return;
  }
  // The loss, and the weights and biases of each layer.
  EXPECT_EQ(flights.size(), kSteps * GetParam().replicas * (2 * kLayers + 1));
  // Each replica updates its part of the weights. Not every replica has a part of the biases,
  // because the biases of a layer fit in one cache line.
  EXPECT_GE(OfCategory("update").size(), kSteps * GetParam().replicas * kLayers);
  EXPECT_EQ(OfCategory("collective").size(), flights.size());
  EXPECT_GE(OfCategory("wait").size(), flights.size());
  int together = 0;
  for (const auto& [a, first] : flights) {
    for (const auto& [b, second] : flights) together += a < b && first.Overlaps(second);
  }
  EXPECT_GT(together, 0);
}

}  // namespace
}  // namespace mirrorflow
