// SPDX-License-Identifier: Apache-2.0
#include "tests/support/test_workers.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distribute/all_kernels.h"
#include "distribute/pipeline.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "kernels/cpu/cpu_device.h"
#include "ops/registry.h"

namespace mirrorflow {

absl::StatusOr<std::unique_ptr<TestWorkers>> TestWorkers::Create(
    const std::function<const Graph&(int worker)>& graph_of, const TestWorkersOptions& options) {
  std::unique_ptr<TestWorkers> workers(new TestWorkers(options));
  Topology topology;
  for (int w = 0; w < options.workers; ++w) {
    for (int r = 0; r < options.replicas; ++r) {
      topology.replicas.push_back(
          {.worker = w, .domain = options.one_domain ? 0 : w, .device = absl::StrCat("CPU:", r)});
    }
  }
  MF_RETURN_IF_ERROR(workers->OnAll([&](int w) -> absl::Status {
    SessionBackend backend;
    for (int r = 0; r < options.replicas; ++r) backend.devices.push_back(CreateCpuDevice(r));
    backend.ops = &AllOps();
    backend.kernels = &AllKernels();
    backend.compile = CompileProgram;
    backend.compile_plan = CompilePlan;
    backend.topology = topology;
    backend.has_teams = true;
    backend.workers = workers->cluster_.worker_group(w);
    backend.connect = [cluster = &workers->cluster_](
                          const Topology& topology, absl::Span<const int> ranks, WorkerGroup* group,
                          uint64_t incarnation, MonotonicTime deadline) {
      return cluster->Connect(topology, ranks, group, incarnation, deadline);
    };
    SessionOptions session = options.session;
    session.pin_threads = false;
    session.compile.verify = true;
    session.compile.check_plan = true;
    if (options.change) options.change(w, &session, &backend);
    MF_ASSIGN_OR_RETURN(workers->sessions_[w],
                        Session::Create(graph_of(w), std::move(backend), session));
    return absl::OkStatus();
  }));
  return workers;
}

TestWorkers::~TestWorkers() {
  OnEach([&](int w) {
    sessions_[w] = nullptr;
    return absl::OkStatus();
  });
}

std::vector<absl::Status> TestWorkers::OnEach(const std::function<absl::Status(int worker)>& work) {
  std::vector<absl::Status> statuses(size());
  std::vector<std::thread> threads;
  for (int w = 0; w < size(); ++w) {
    threads.emplace_back([&, w] { statuses[w] = work(w); });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

absl::Status TestWorkers::OnAll(const std::function<absl::Status(int worker)>& work) {
  for (const absl::Status& status : OnEach(work)) MF_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace mirrorflow
