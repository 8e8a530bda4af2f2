// SPDX-License-Identifier: Apache-2.0
//
// Several workers in one process, each with a session, over a MemoryCluster.
//
//   MF_ASSIGN_OR_RETURN(auto workers, TestWorkers::Create(
//       [&](int) -> const Graph& { return graph; }, {.workers = 2}));
//   const auto statuses = workers->OnEach([&](int w) { return workers->session(w)…; });
#ifndef MIRRORFLOW_TESTS_SUPPORT_TEST_WORKERS_H_
#define MIRRORFLOW_TESTS_SUPPORT_TEST_WORKERS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/session/session.h"
#include "framework/session/session_backend.h"
#include "tests/fakes/cluster/memory_cluster.h"

namespace mirrorflow {

struct TestWorkersOptions {
  int workers = 2;
  int replicas = 2;         // per worker
  bool one_domain = false;  // whether all workers share one memory domain, instead of one each
  absl::Duration collective_timeout = absl::Seconds(60);
  SessionOptions session = {};
  // Changes the options or the backend of one worker.
  std::function<void(int worker, SessionOptions*, SessionBackend*)> change = nullptr;
};

class TestWorkers {
 public:
  // `graph_of(w)` is worker w's graph. Creates the sessions concurrently, because they wait for one
  // another.
  static absl::StatusOr<std::unique_ptr<TestWorkers>> Create(
      const std::function<const Graph&(int worker)>& graph_of, const TestWorkersOptions& options);
  // Also destroys the sessions concurrently.
  ~TestWorkers();

  int size() const { return static_cast<int>(sessions_.size()); }
  Session& session(int worker) { return *sessions_[worker]; }
  MemoryCluster& cluster() { return cluster_; }

  // Calls work(w) for each worker, on a separate thread. Returns the results by worker.
  std::vector<absl::Status> OnEach(const std::function<absl::Status(int worker)>& work);
  // Like OnEach, but returns the first error.
  absl::Status OnAll(const std::function<absl::Status(int worker)>& work);

 private:
  explicit TestWorkers(const TestWorkersOptions& options)
      : cluster_(options.workers, options.collective_timeout), sessions_(options.workers) {}

  MemoryCluster cluster_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_TEST_WORKERS_H_
