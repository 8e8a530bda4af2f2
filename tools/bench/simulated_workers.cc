// SPDX-License-Identifier: Apache-2.0
//
// Measures the coordination service of a large cluster on one machine. The clients use the real
// protocol, but each is only a few threads of this process, so thousands of clients fit.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <barrier>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "distribute/cluster/coordination/coordination_client.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/thread.h"
#include "nlohmann/json.hpp"
#include "tools/bench/benchmarks.h"
#include "tools/bench/machine.h"
#include "tools/launch/placement.h"

namespace mirrorflow {
namespace {

constexpr int kReplicas = 8;  // per worker
constexpr int kRounds = 5;    // all-gathers per kind
constexpr size_t kValueBytes = 120;
constexpr absl::Duration kDeadline = absl::Minutes(5);

// Runs `mirrorflow coordinator` in a separate process, and measures its resources.
class ServiceProcess {
 public:
  static absl::StatusOr<std::unique_ptr<ServiceProcess>> Start(int num_workers) {
    MF_ASSIGN_OR_RETURN(const std::string program, ThisProgram());
    MF_ASSIGN_OR_RETURN(const std::vector<int> ports, FreePorts(1));
    std::unique_ptr<ServiceProcess> service(new ServiceProcess(ports[0]));
    const std::string words[] = {program, "coordinator", "--bind=" + service->address(),
                                 absl::StrCat("--num_workers=", num_workers)};
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const int error =
        posix_spawn(&service->process_, argv[0], nullptr, nullptr, argv.data(), environ);
    if (error != 0) return SystemError(error, "cannot start the coordination service");
    return service;
  }
  ~ServiceProcess() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // Returns the CPU time that the service has used, in seconds.
  double CpuSeconds() const {
    clockid_t clock;
    timespec time = {};
    if (clock_getcpuclockid(process_, &clock) == 0) clock_gettime(clock, &time);
    return absl::ToDoubleSeconds(absl::DurationFromTimespec(time));
  }
  int64_t PeakBytes() const { return MemoryFigure(absl::StrCat(process_), "VmHWM").value_or(0); }

 private:
  explicit ServiceProcess(int port) : port_(port) {}

  const int port_;
  pid_t process_ = -1;
};

// The figures of a phase, measured from the first worker's call to the last worker's answer.
struct Phase {
  double seconds = 0;
  double cpu_seconds = 0;  // CPU time of the service
};
enum PhaseIndex { kRegistration, kDifferentValues, kEqualValues, kNumPhases };

struct Figures {
  Phase phases[kNumPhases];
  int64_t peak_bytes = 0;
  int failed = 0;     // number of workers that failed
  std::string error;  // the error of one of these workers
};

CoordinationClient::Options OptionsOf(int worker, int count, const std::string& address) {
  CoordinationClient::Options options{.coordinator = address, .external = true};
  coordination::Member& member = options.member;
  member.set_worker(worker);
  member.set_num_workers(count);
  member.set_host(absl::StrFormat("node%05d.cluster.example", worker));
  member.set_pid(100'000 + worker);
  member.set_host_id(absl::StrFormat("2f8a1c1e-9d53-4d8a-b2f5-%012d", worker));
  member.set_cores("0-63");
  for (int i = 0; i < kReplicas; ++i) member.add_devices(absl::StrCat("CPU:", i));
  for (const auto& [name, value] :
       {std::pair("build", "crc32c 1a2b3c4d, 11904176 bytes"), {"type of devices", "CPU"}}) {
    coordination::Setting& setting = *member.add_settings();
    setting.set_name(name);
    setting.set_value(value);
  }
  return options;
}

absl::StatusOr<Figures> Simulate(int count) {
  MF_ASSIGN_OR_RETURN(const std::unique_ptr<ServiceProcess> service, ServiceProcess::Start(count));
  Figures figures;
  MonotonicTime begin = MonotonicTime::Now();
  double cpu = service->CpuSeconds();
  int phase = 0;
  // Called when all workers have finished a phase.
  const auto end_phase = [&]() noexcept {
    const MonotonicTime now = MonotonicTime::Now();
    const double cpu_now = service->CpuSeconds();
    if (phase < kNumPhases) {
      figures.phases[phase++] = {absl::ToDoubleSeconds(now - begin), cpu_now - cpu};
    }
    figures.peak_bytes = service->PeakBytes();
    begin = now;
    cpu = cpu_now;
  };
  std::barrier barrier(count, end_phase);
  std::vector<absl::Status> results(count);
  const auto work = [&](int worker) {
    absl::Status& result = results[worker];
    const MonotonicTime deadline = MonotonicTime::Now() + kDeadline;
    auto client =
        CoordinationClient::Connect(OptionsOf(worker, count, service->address()), deadline);
    result = client.status();
    std::unique_ptr<WorkerGroup> group = result.ok() ? (*client)->NewGroup() : nullptr;
    if (group != nullptr) result = group->Join(deadline).status();
    barrier.arrive_and_wait();
    for (const bool equal : {false, true}) {
      for (int round = 0; round < kRounds && result.ok(); ++round) {
        std::string value = equal ? std::string() : absl::StrCat(worker);
        value.resize(kValueBytes, 'x');
        result = group->AllGather(absl::StrCat(equal, " ", round), value, deadline).status();
      }
      barrier.arrive_and_wait();
    }
    group = nullptr;
    if (client.ok()) (*client)->Leave(deadline).IgnoreError();
  };
  std::vector<std::thread> threads;
  for (int worker = 1; worker < count; ++worker) {
    absl::StatusOr<std::thread> thread =
        StartThread("simulated worker", [&work, worker] { work(worker); });
    if (thread.ok()) {
      threads.push_back(*std::move(thread));
    } else {
      results[worker] = thread.status();
      barrier.arrive_and_drop();  // the others fail at their deadline
    }
  }
  work(0);
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) {
    if (result.ok()) continue;
    ++figures.failed;
    figures.error = std::string(result.message());
  }
  return figures;
}

}  // namespace

absl::Status BenchSimulatedWorkers(int max_workers, Report* report) {
  for (int count = kFirstSimulatedWorkers; count <= max_workers; count *= 2) {
    MF_ASSIGN_OR_RETURN(const Figures figures, Simulate(count));
    const auto& [registration, different, equal] = figures.phases;
    const auto per_round_ms = [](double seconds) { return seconds * 1e3 / kRounds; };
    const double peak_mb = static_cast<double>(figures.peak_bytes) / 1e6;
    report->AddLine(
        absl::StrFormat("simulated  workers=%-5d registered_s=%.2f service_cpu_s=%.2f  "
                        "gather_ms=%.0f service_cpu_ms=%.0f  equal_gather_ms=%.0f "
                        "service_cpu_ms=%.0f  service_peak_mb=%.0f failed=%d%s",
                        count, registration.seconds, registration.cpu_seconds,
                        per_round_ms(different.seconds), per_round_ms(different.cpu_seconds),
                        per_round_ms(equal.seconds), per_round_ms(equal.cpu_seconds), peak_mb,
                        figures.failed, figures.failed > 0 ? " " + figures.error : ""),
        {{"case", "simulated_workers"},
         {"workers", count},
         {"registered_s", registration.seconds},
         {"registration_cpu_s", registration.cpu_seconds},
         {"gather_ms", per_round_ms(different.seconds)},
         {"gather_cpu_ms", per_round_ms(different.cpu_seconds)},
         {"equal_gather_ms", per_round_ms(equal.seconds)},
         {"equal_gather_cpu_ms", per_round_ms(equal.cpu_seconds)},
         {"service_peak_bytes", figures.peak_bytes},
         {"failed", figures.failed}});
    if (figures.failed > 0) {
      return absl::UnavailableError(
          absl::StrCat(count, " simulated workers: ", figures.failed, " failed; ", figures.error));
    }
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
