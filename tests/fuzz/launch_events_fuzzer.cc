// SPDX-License-Identifier: Apache-2.0
//
// Reads, as the launcher does, the bytes that a host sends. The input is a sequence of launcher
// orders and of bytes from the host. An event that no order requested must have no effect.
#include <string>
#include <utility>
#include <vector>

#include "framework/core/status.h"
#include "framework/core/terminal.h"
#include "tests/fuzz/fuzz_input.h"
#include "tools/flags/command_line.h"
#include "tools/launch/event_reader.h"
#include "tools/launch/launch_report.h"
#include "tools/launch/placement.h"
#include "tools/launch/wire.h"

namespace mirrorflow {
namespace {

constexpr int kNumWorkers = 2;  // on the host
constexpr uint8_t kStartSecond = 255;

// Processes events like the launcher, but without starting processes.
class Launcher {
 public:
  void Order(uint8_t kind) {
    launch::Order order;
    if (kind == 0) order.set_find_ports(NumPorts(kNumWorkers));
    if (kind == 1) order.mutable_start();
    if (kind == 2) order.set_signal(15);
    if (kind == kStartSecond) order.mutable_start()->set_slot(1);
    if (order.has_start()) {
      Worker& worker = workers_[order.start().slot()];
      if (worker.is_ordered && !worker.has_ended) return;  // the worker is still running
      worker = {.is_ordered = true};
    }
    reader_.Expect(order);
    finds_ports_ |= kind == 0;
  }

  void Receive(const std::string& bytes) {
    reader_.Add(bytes);
    launch::Event event;
    while (true) {
      const absl::StatusOr<bool> whole = reader_.Next(&event);
      if (!whole.ok()) {
        MF_CHECK(absl::IsDataLoss(whole.status()) || absl::IsFailedPrecondition(whole.status()));
        MF_CHECK(ForTerminal(whole.status().message()) == whole.status().message());
        has_failed_ = true;
      }
      if (!whole.ok() || !*whole) return;
      MF_CHECK(!has_failed_);
      Take(event);
    }
  }

 private:
  struct Worker {
    bool is_ordered = false, has_started = false, has_ended = false;
    int64_t saved_step = 0;
  };

  void Take(const launch::Event& event) {
    MF_CHECK(event.has_ready() != std::exchange(is_ready_, true));
    if (event.has_ports()) {
      MF_CHECK(std::exchange(finds_ports_, false));
      const std::vector<int> ports(event.ports().ports().begin(), event.ports().ports().end());
      const LaunchHost host = {.name = "a", .address = "::1", .slots = kNumWorkers};
      const auto workers = PlaceWorkers({host}, kNumWorkers);
      MF_CHECK(!VariablesOfWorker(*workers, 1, ports).empty());
    }
    MF_CHECK(event.slot() >= 0 && event.slot() < kNumWorkers);
    if (!event.has_ready() && !event.has_ports()) Take(event, workers_[event.slot()]);
  }

  static void Take(const launch::Event& event, Worker& worker) {
    MF_CHECK(!worker.has_ended);
    if (event.has_started()) {
      MF_CHECK(worker.is_ordered && event.started() > 0);
      MF_CHECK(!std::exchange(worker.has_started, true));
    }
    if (event.has_output() || event.has_errors()) MF_CHECK(worker.has_started);
    if (event.has_saved()) {
      MF_CHECK(worker.has_started);
      MF_CHECK(event.saved() > std::exchange(worker.saved_step, event.saved()));
      MF_CHECK(event.saved() <= kMaxSavedStep);
    }
    if (event.has_ended()) Report(event.ended(), worker);
    worker.has_ended = event.has_ended();
  }

  static void Report(const launch::Ended& ended, const Worker& worker) {
    WorkerEnd end = {.exit_code = ended.exit_code(), .signal = ended.signal()};
    end.message = ended.reason();
    end.process = worker.has_started ? 7 : 0;
    TakeErrorFile(ended.error_file(), &end);
    const std::string report = FailureReport(end, {end}, absl::ZeroDuration(), {end.message});
    MF_CHECK(OutputForTerminal(report) == report);
    EndText(end);
    MF_CHECK(HostAtFault({end}).empty());
    MF_CHECK(HasStopped({end}, /*launcher_was_asked=*/false) == (end.exit_code == kExitPreempted));
  }

  EventReader reader_{kNumWorkers};
  bool finds_ports_ = false;  // whether ports were ordered but have not arrived
  Worker workers_[kNumWorkers];
  bool is_ready_ = false, has_failed_ = false;
};

}  // namespace
}  // namespace mirrorflow

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  FuzzInput input(data, size);
  Launcher launcher;
  while (!input.empty()) {
    const auto action = input.Take<uint8_t>();
    if (action < 3 || action == kStartSecond) {
      launcher.Order(action);
    } else {
      launcher.Receive(input.TakeBytes(action));
    }
  }
  return 0;
}
