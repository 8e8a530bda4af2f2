// SPDX-License-Identifier: Apache-2.0
//
// Tests MultiWorkerMirroredStrategy with workers that are threads of one process.
// //tests/tools:workers_test runs workers as processes.
#include "distribute/strategy/multi_worker_mirrored_strategy.h"

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/coordination/coordination_server.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow.h"
#include "tests/support/certificates.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/support/reserved_port.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

int NumThreads() {
  std::ifstream status("/proc/self/status");
  int threads = 0;
  for (std::string word; status >> word;) {
    if (word == "Threads:" && status >> threads) break;
  }
  return threads;
}

// Returns the sum of the global batch, which all workers compute together in a new session.
absl::StatusOr<float> SumInNewSession(const Strategy& strategy) {
  Graph graph;
  const Scope root(&graph);
  const auto scope = strategy.scope();
  const Output x = ops::Placeholder(root, DT_FLOAT, {-1});
  const Output sum = ops::Sum(root, x, {0});
  MF_ASSIGN_OR_RETURN(const auto session, strategy.NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({x}, {sum}, {}));
  MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run({Tensor::Vector<float>({1, 2, 3, 4})}));
  return out[0].scalar<float>();
}

// Runs work(strategy, worker) for two workers, each on its own thread.
void OnTwoWorkers(MultiWorkerMirroredStrategy::Options options,
                  const std::function<void(const Strategy&, int worker)>& work) {
  options.cluster.num_workers = 2;
  options.replicas.num_cpu_replicas = 1;
  options.join.connect_timeout = absl::Seconds(20);
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 2; ++worker) {
    options.cluster.task_index = worker;
    workers.emplace_back([&work, options, worker] {
      const auto strategy = MultiWorkerMirroredStrategy::Create(options);
      ASSERT_TRUE(strategy.ok()) << strategy.status();
      work(**strategy, worker);
    });
  }
  for (std::thread& worker : workers) worker.join();
}

TEST(MultiWorkerMirroredStrategyTest, ManySessionsLeaveNothingBehind) {
  constexpr int kSessions = 100;
  int threads_after_first = 0, threads_at_end = 0;
  const ReservedPort port;
  OnTwoWorkers({.cluster = {.coordinator = port.At("127.0.0.1")}},
               [&](const Strategy& strategy, int worker) {
                 for (int i = 0; i < kSessions; ++i) {
                   const auto sum = SumInNewSession(strategy);
                   ASSERT_TRUE(sum.ok()) << "session " << i << ": " << sum.status();
                   ASSERT_EQ(*sum, 10);
                   if (i == 0 && worker == 0) threads_after_first = NumThreads();
                 }
                 if (worker == 0) threads_at_end = NumThreads();
               });
  EXPECT_LT(threads_at_end, threads_after_first + kSessions / 2);
}

// Returns the cluster as seen by worker `worker` of a SLURM job with two workers on one host.
Cluster WorkerOfSlurm(int job, int worker) {
  return *ClusterResolver::FromEnvironment({{"SLURM_JOB_ID", absl::StrCat(job)},
                                            {"SLURM_STEP_ID", "0"},
                                            {"SLURM_PROCID", absl::StrCat(worker)},
                                            {"SLURM_NTASKS", "2"},
                                            {"SLURM_STEP_NODELIST", "n1"}});
}

TEST(MultiWorkerMirroredStrategyTest, JobsOnOnePortDoNotMix) {
  const Cluster first = WorkerOfSlurm(1000, 0);
  int other = 1001;
  while (WorkerOfSlurm(other, 1).coordinator != first.coordinator) ++other;
  const auto create = [](const Cluster& cluster, absl::Duration timeout = absl::Seconds(20)) {
    return MultiWorkerMirroredStrategy::Create({.cluster = cluster,
                                                .replicas = {.num_cpu_replicas = 1},
                                                .join = {.connect_timeout = timeout}});
  };
  absl::Status statuses[2];
  std::thread worker_0([&] { statuses[0] = create(first).status(); });
  // The other job's worker retries, because its own worker 0 might still take over the port.
  const absl::Status refused = create(WorkerOfSlurm(other, 1), absl::Seconds(2)).status();
  std::thread worker_1([&] { statuses[1] = create(WorkerOfSlurm(1000, 1)).status(); });
  worker_0.join();
  worker_1.join();
  EXPECT_THAT(refused, IsError(absl::StatusCode::kPermissionDenied, "SLURM step 1000.0",
                               absl::StrCat("SLURM step ", other, ".0")));
  for (const absl::Status& status : statuses) EXPECT_EQ(status, absl::OkStatus());
}

// The external coordinator does not see SLURM's environment.
TEST(MultiWorkerMirroredStrategyTest, WorkersOfExternalCoordinatorHaveNoDefaultJob) {
  const auto server = CoordinationServer::Start({.address = "127.0.0.1:0", .num_workers = 2});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string coordinator = absl::StrCat("127.0.0.1:", (*server)->port());
  OnTwoWorkers(
      {.cluster = {.coordinator = coordinator, .job = "SLURM step 7.0"},
       .join = {.external_coordinator = true}},
      [](const Strategy& strategy, int) { EXPECT_EQ(strategy.topology().num_workers(), 2); });
}

// The certificate is for the name in the cluster, not for the address that worker 0 listens on.
TEST(MultiWorkerMirroredStrategyTest, WorkersUseTlsWithBoundService) {
  const ReservedPort port;
  OnTwoWorkers({.cluster = {.coordinator = port.At("localhost")},
                .join = {.tls = WriteCertificate("localhost", TemporaryPath("worker")),
                         .bind = "127.0.0.1"}},
               [](const Strategy& strategy, int) {
                 const auto sum = SumInNewSession(strategy);
                 ASSERT_TRUE(sum.ok()) << sum.status();
                 EXPECT_EQ(*sum, 10);
               });
}

TEST(MultiWorkerMirroredStrategyTest, WorkersReportHowDataIsProtected) {
  const std::string secret = "0123456789abcdef";
  const TlsFiles tls = WriteCertificate("localhost", TemporaryPath("worker"));
  const struct {
    CollectiveKind collective;
    std::string secret;
    TlsFiles tls;
    const char* message;
    bool insecure = false;
  } cases[] = {
      {CollectiveKind::kTcp, "", {}, "over TCP on lo, neither authenticated nor encrypted"},
      {CollectiveKind::kTcp, secret, {}, "lo, authenticated but not encrypted"},
      {CollectiveKind::kTcp, secret, tls, "over TCP on lo, authenticated and encrypted\n"},
      {CollectiveKind::kUcx, secret, {}, "lo, neither authenticated nor encrypted"},
      {CollectiveKind::kUcx, secret, tls, "lo, neither authenticated nor encrypted", true},
  };
  for (const auto& c : cases) {
    testing::internal::CaptureStderr();
    const ReservedPort port;
    OnTwoWorkers({.cluster = {.coordinator = port.At("localhost")},
                  .join = {.secret = c.secret,
                           .insecure = c.insecure,
                           .tls = c.tls,
                           .bind = "127.0.0.1",
                           .collective = c.collective}},
                 [](const Strategy& strategy, int) {
                   const auto sum = SumInNewSession(strategy);
                   ASSERT_TRUE(sum.ok()) << sum.status();
                   EXPECT_EQ(*sum, 10);
                 });
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(c.message));
  }
}

TEST(MultiWorkerMirroredStrategyTest, InvalidOptionsAreRejected) {
  const Cluster near = {.num_workers = 2, .coordinator = "127.0.0.1:1"};
  const Cluster far = {.num_workers = 2, .coordinator = "192.0.2.1:1"};
  Cluster without_secret = far;
  without_secret.secret_file = "/nonexistent";
  const TlsFiles tls = WriteCertificate("localhost", TemporaryPath("worker"));
  const struct {
    MultiWorkerMirroredStrategy::Options options;
    const char* token;
    absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  } cases[] = {
      {{.cluster = far}, "reach at 192.0.2.1:1"},
      {{.cluster = without_secret},
       "MIRRORFLOW_SECRET_FILE: /nonexistent",
       absl::StatusCode::kNotFound},
      {{.cluster = near, .join = {.bind = "[::1"}}, "bind: '[::1'"},
      {{.cluster = near, .join = {.bind = "0.0.0.0"}}, "reach at 0.0.0.0"},
      {{.cluster = near, .join = {.advertise = "a:x"}}, "advertise: 'a:x'"},
      {{.cluster = near, .replicas = {.devices = {"GPU:0"}}},
       "device 'GPU:0'",
       absl::StatusCode::kUnimplemented},
      {{.cluster = near,
        .join = {.tls = tls,
                 .collective = CollectiveKind::kUcx,
                 .connect_timeout = absl::Seconds(1)}},
       "--insecure"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(MultiWorkerMirroredStrategy::Create(c.options).status(), IsError(c.code, c.token));
  }
}

TEST(MultiWorkerMirroredStrategyTest, LoneWorkerNeedsNoCoordinationService) {
  const auto strategy = MultiWorkerMirroredStrategy::Create({.replicas = {.num_cpu_replicas = 2}});
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  EXPECT_EQ((*strategy)->num_replicas_in_sync(), 2);
  EXPECT_EQ(*SumInNewSession(**strategy), 10);
}

}  // namespace
}  // namespace mirrorflow
