// SPDX-License-Identifier: Apache-2.0
//
// Two workers train while strangers connect to all their ports before, during and after the
// rendezvous. The results, the step time and the memory use stay the same.
#include "tests/support/strangers.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "mirrorflow.h"
#include "tests/support/certificates.h"
#include "tests/support/files.h"
#include "tests/support/reserved_port.h"

namespace mirrorflow {
namespace {

constexpr int kSessions = 8, kSteps = 50, kFeatures = 200, kUnits = 50, kRows = 6;

struct Result {
  std::vector<float> values;                       // the losses of all steps and the last weights
  absl::Duration step = absl::InfiniteDuration();  // the shortest step
};

// Trains a linear model in a new session, and updates `result`.
absl::Status Train(const Strategy& strategy, Result* result) {
  Graph graph;
  const Scope root(&graph);
  Output x, loss;
  Operation train;
  {
    const auto scope = strategy.scope();
    x = ops::Placeholder(root, DT_FLOAT, {-1, kFeatures});
    loss = ops::Mean(root, ops::Square(root, layers::Dense(root, x, kUnits)), {0, 1});
    train = GradientDescent({.learning_rate = 0.1}).Minimize(root, loss);
  }
  MF_ASSIGN_OR_RETURN(const auto session, strategy.NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({x}, {loss}, {train}));
  MF_ASSIGN_OR_RETURN(Tensor batch, Tensor::Allocate(DT_FLOAT, Shape({kRows, kFeatures})));
  for (int i = 0; i < kSteps; ++i) {
    float next = static_cast<float>(i);
    for (float& value : batch.flat<float>()) value = next = next < 1 ? next + 3.7f : next * 0.7f;
    const MonotonicTime begin = MonotonicTime::Now();
    MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run({batch}));
    result->step = std::min(result->step, MonotonicTime::Now() - begin);
    result->values.push_back(out[0].scalar<float>());
  }
  for (const std::string& name : session->VariableNames()) {
    MF_ASSIGN_OR_RETURN(const Tensor last, session->ReadVariable(name));
    for (const float value : last.flat<float>()) result->values.push_back(value);
  }
  return absl::OkStatus();
}

Result TrainOnTwoWorkers(MultiWorkerMirroredStrategy::Options options) {
  const ReservedPort port;
  options.cluster = {.num_workers = 2, .coordinator = port.At("localhost")};
  options.join.bind = "127.0.0.1";
  options.join.secret = "0123456789abcdef";
  options.replicas.num_cpu_replicas = 1;
  options.join.connect_timeout = absl::Seconds(60);
  Result results[2];
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 2; ++worker) {
    options.cluster.task_index = worker;
    workers.emplace_back([&result = results[worker], options] {
      const auto strategy = MultiWorkerMirroredStrategy::Create(options);
      ASSERT_TRUE(strategy.ok()) << strategy.status();
      for (int i = 0; i < kSessions; ++i) {
        const absl::Status status = Train(**strategy, &result);
        ASSERT_TRUE(status.ok()) << status;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(results[0].values, results[1].values);
  return results[0];
}

size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

struct Network {
  const char* name;
  CollectiveKind collective;
  bool tls;
};

class StrangersTest : public testing::TestWithParam<Network> {};
INSTANTIATE_TEST_SUITE_P(, StrangersTest,
                         testing::Values(Network{"Tcp", CollectiveKind::kTcp, false},
                                         Network{"TcpWithTls", CollectiveKind::kTcp, true},
                                         Network{"Ucx", CollectiveKind::kUcx, false}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(StrangersTest, LeaveResultsStepTimeAndMemoryUnchanged) {
  MultiWorkerMirroredStrategy::Options options = {.join = {.collective = GetParam().collective}};
  if (GetParam().tls) options.join.tls = WriteCertificate("localhost", TemporaryPath("worker"));
  const Result alone = TrainOnTwoWorkers(options);
  const size_t resident = ResidentBytes();

  testing::internal::CaptureStderr();
  Result disturbed;
  int runs = 0;
  {
    const Strangers strangers;
    // On a busy machine, a run can end before many strangers have called.
    do {
      disturbed = TrainOnTwoWorkers(options);
      ++runs;
    } while (strangers.calls() <= 10);
    // Strangers might find the data ports only after the workers have closed them.
    // data_connections_test covers strangers that find them in time.
    EXPECT_GE(strangers.num_ports(), 1);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(disturbed.values, alone.values);
  EXPECT_LT(disturbed.step, 3 * alone.step + absl::Milliseconds(2));
  EXPECT_LT(ResidentBytes(), resident + (size_t{64} << 20));
  int lines = 0;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    lines += absl::StartsWith(line, "WARNING: data: ");
  }
  EXPECT_LE(lines, 2 * runs) << log;  // one per worker
  std::printf("shortest step: %s alone, %s among strangers\n",
              absl::FormatDuration(alone.step).c_str(),
              absl::FormatDuration(disturbed.step).c_str());
}

}  // namespace
}  // namespace mirrorflow
