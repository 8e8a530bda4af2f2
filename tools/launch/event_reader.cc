// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/event_reader.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/names.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr int kMaxPort = 65535, kMaxExitCode = 255, kMaxSignal = 64;

// Returns the bytes of the first event, which is the same for every supervisor.
const std::string& Greeting() {
  static const auto* const greeting = [] {
    launch::Event ready;
    ready.mutable_ready();
    return new std::string(SerializeMessage(ready));
  }();
  return *greeting;
}

// Returns the name of an event in launch.proto. Events of both output streams are named `output`.
std::string NameOf(launch::Event::EventCase event) {
  if (event == launch::Event::EVENT_NOT_SET) return "an unknown event";
  if (event == launch::Event::kErrors) event = launch::Event::kOutput;
  return std::string(launch::Event::descriptor()->FindFieldByNumber(event)->name());
}

absl::Status Refused(absl::string_view event, absl::string_view expected, absl::string_view got) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the supervisor's event '", event, "' is refused; expected ", expected, ", got ", got));
}

}  // namespace

void EventReader::Expect(const launch::Order& order) {
  if (order.has_find_ports()) num_ports_ = order.find_ports();
  if (order.has_start()) slots_[order.start().slot()] = {.is_start_ordered = true};
}

absl::StatusOr<bool> EventReader::Next(launch::Event* event) {
  MF_RETURN_IF_ERROR(status_);
  const auto next = [&]() -> absl::StatusOr<bool> {
    if (!is_ready_) MF_RETURN_IF_ERROR(CheckGreeting());
    MF_ASSIGN_OR_RETURN(const bool whole, reader_.Next(event));
    if (whole) MF_RETURN_IF_ERROR(Check(*event));
    return whole;
  };
  absl::StatusOr<bool> whole = next();
  status_ = whole.status();
  return whole;
}

// Checks the first event byte by byte: text in front of it would be parsed as a length, and the
// launcher would wait for a message that never arrives.
absl::Status EventReader::CheckGreeting() const {
  const absl::string_view got = reader_.unread();
  const absl::string_view greeting = Greeting();
  if (absl::StartsWith(got, greeting) || absl::StartsWith(greeting, got)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the remote shell printed '", Printable(got.substr(0, 80)),
                   "'; expected the supervisor's first event; the shell's startup files must "
                   "print nothing"));
}

absl::Status EventReader::Check(const launch::Event& event) {
  if (event.slot() < 0 || event.slot() >= static_cast<int>(slots_.size())) {
    return Refused(NameOf(event.event_case()), absl::StrCat("a slot below ", slots_.size()),
                   absl::StrCat(event.slot()));
  }
  switch (event.event_case()) {
    case launch::Event::kReady:
      if (std::exchange(is_ready_, true)) return Refused(NameOf(event.event_case()), "one", "two");
      return absl::OkStatus();
    case launch::Event::kPorts:
      return CheckPorts(event.ports());
    case launch::Event::EVENT_NOT_SET:
      return absl::DataLossError(
          "the supervisor sent an unknown event; expected the same version of "
          "mirrorflow on all hosts");
    default:
      break;
  }
  return CheckOfWorker(event, slots_[event.slot()]);
}

absl::Status EventReader::CheckOfWorker(const launch::Event& event, Slot& slot) {
  const auto kind = event.event_case();
  const auto refused = [&](absl::string_view expected, absl::string_view got) {
    return Refused(NameOf(kind), expected, got);
  };
  if (slot.has_ended) return refused("no event after the worker's end", NameOf(kind));
  if (kind == launch::Event::kEnded) {
    slot.has_ended = true;
    return CheckEnded(event.ended(), slot);
  }
  if (kind == launch::Event::kStarted) {
    if (!slot.is_start_ordered) return refused("an earlier order to start", "none");
    if (std::exchange(slot.has_started, true)) return refused("one such event", "two");
    if (event.started() <= 0) return refused("a process id", absl::StrCat(event.started()));
    return absl::OkStatus();
  }
  if (!slot.has_started) return refused("a worker that has started", "none");
  if (kind == launch::Event::kSaved) {
    if (event.saved() <= slot.saved_step || event.saved() > kMaxSavedStep) {
      return refused(absl::StrCat("a step from ", slot.saved_step + 1, " to ", kMaxSavedStep),
                     absl::StrCat(event.saved()));
    }
    slot.saved_step = event.saved();
    return absl::OkStatus();
  }
  const size_t size = (kind == launch::Event::kOutput ? event.output() : event.errors()).size();
  if (size > 0 && size <= kOutputBytes) return absl::OkStatus();
  return refused(absl::StrCat("1 to ", kOutputBytes, " bytes"), absl::StrCat(size));
}

absl::Status EventReader::CheckPorts(const launch::Ports& ports) {
  const std::string name = NameOf(launch::Event::kPorts);
  if (!num_ports_.has_value()) return Refused(name, "an unanswered order to find ports", "none");
  if (ports.ports_size() != *num_ports_) {
    return Refused(name, absl::StrCat(*num_ports_, " ports"), absl::StrCat(ports.ports_size()));
  }
  std::set<int> different;
  for (const int port : ports.ports()) {
    if (port < 1 || port > kMaxPort) {
      return Refused(name, absl::StrCat("ports from 1 to ", kMaxPort), absl::StrCat(port));
    }
    if (!different.insert(port).second) {
      return Refused(name, "distinct ports", absl::StrCat(port, " twice"));
    }
  }
  num_ports_.reset();
  return absl::OkStatus();
}

absl::Status EventReader::CheckEnded(const launch::Ended& ended, const Slot& slot) {
  const std::string name = NameOf(launch::Event::kEnded);
  if (ended.exit_code() < 0 || ended.exit_code() > kMaxExitCode) {
    return Refused(name, absl::StrCat("an exit code from 0 to ", kMaxExitCode),
                   absl::StrCat(ended.exit_code()));
  }
  if (ended.signal() < 0 || ended.signal() > kMaxSignal) {
    return Refused(name, absl::StrCat("a signal from 0 to ", kMaxSignal),
                   absl::StrCat(ended.signal()));
  }
  if (!slot.has_started && ended.reason().empty()) {
    return Refused(name, "a worker that has started, or a reason", "neither");
  }
  if (ended.error_file().size() > kMaxErrorFile) {
    return Refused(name, absl::StrCat("an error file of at most ", kMaxErrorFile, " bytes"),
                   absl::StrCat(ended.error_file().size()));
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
