// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/event_reader.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/names.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr int kMaxPort = 65535, kMaxExitCode = 255, kMaxSignal = 64;

// The bytes of the first event, which is the same from every supervisor.
const std::string& Greeting() {
  static const auto* const greeting = [] {
    launch::Event ready;
    ready.mutable_ready();
    return new std::string(SerializeMessage(ready));
  }();
  return *greeting;
}

// The name of an event in launch.proto; both streams are output.
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
  if (order.has_start()) is_start_ordered_ = true;
}

absl::StatusOr<bool> EventReader::Next(launch::Event* event) {
  MF_RETURN_IF_ERROR(status_);
  const auto next = [&]() -> absl::StatusOr<bool> {
    if (stage_ == Stage::kSilent) MF_RETURN_IF_ERROR(CheckGreeting());
    MF_ASSIGN_OR_RETURN(const bool whole, reader_.Next(event));
    if (whole) MF_RETURN_IF_ERROR(Check(*event));
    return whole;
  };
  absl::StatusOr<bool> whole = next();
  status_ = whole.status();
  return whole;
}

// Text in front of the first event would be taken for a length, and the launcher would wait for a
// message that never comes.
absl::Status EventReader::CheckGreeting() const {
  const absl::string_view got = reader_.unread();
  const absl::string_view greeting = Greeting();
  if (absl::StartsWith(got, greeting) || absl::StartsWith(greeting, got)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the remote shell printed '", Printable(got.substr(0, 80)),
                   "'; expected the supervisor's first event, and a shell whose startup files "
                   "print nothing"));
}

absl::Status EventReader::Check(const launch::Event& event) {
  const auto kind = event.event_case();
  const auto refused = [&](absl::string_view expected, absl::string_view got) {
    return Refused(NameOf(kind), expected, got);
  };
  if (stage_ == Stage::kEnded) return refused("nothing after the worker's end", NameOf(kind));
  switch (kind) {
    case launch::Event::kReady:
      if (stage_ != Stage::kSilent) return refused("one", "two");
      stage_ = Stage::kReady;
      return absl::OkStatus();
    case launch::Event::kPorts:
      return CheckPorts(event.ports());
    case launch::Event::kStarted:
      if (!is_start_ordered_) return refused("an order to start before it", "none");
      if (stage_ != Stage::kReady) return refused("one", "two");
      if (event.started() <= 0) return refused("a process id", absl::StrCat(event.started()));
      stage_ = Stage::kStarted;
      return absl::OkStatus();
    case launch::Event::kOutput:
    case launch::Event::kErrors: {
      const size_t size = (kind == launch::Event::kOutput ? event.output() : event.errors()).size();
      if (stage_ != Stage::kStarted) return refused("a worker that has started", "none");
      if (size > 0 && size <= kOutputBytes) return absl::OkStatus();
      return refused(absl::StrCat("1 to ", kOutputBytes, " bytes"), absl::StrCat(size));
    }
    case launch::Event::kSaved:
      if (stage_ != Stage::kStarted) return refused("a worker that has started", "none");
      if (event.saved() <= saved_step_ || event.saved() > kMaxSavedStep) {
        return refused(absl::StrCat("a step from ", saved_step_ + 1, " to ", kMaxSavedStep),
                       absl::StrCat(event.saved()));
      }
      saved_step_ = event.saved();
      return absl::OkStatus();
    case launch::Event::kEnded:
      MF_RETURN_IF_ERROR(CheckEnded(event.ended()));
      stage_ = Stage::kEnded;
      return absl::OkStatus();
    case launch::Event::EVENT_NOT_SET:
      break;
  }
  return absl::DataLossError(
      "the supervisor sent an unknown event; expected the same version of "
      "mirrorflow on all hosts");
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
      return Refused(name, "different ports", absl::StrCat(port, " twice"));
    }
  }
  num_ports_.reset();
  return absl::OkStatus();
}

absl::Status EventReader::CheckEnded(const launch::Ended& ended) const {
  const std::string name = NameOf(launch::Event::kEnded);
  if (ended.exit_code() < 0 || ended.exit_code() > kMaxExitCode) {
    return Refused(name, absl::StrCat("an exit code from 0 to ", kMaxExitCode),
                   absl::StrCat(ended.exit_code()));
  }
  if (ended.signal() < 0 || ended.signal() > kMaxSignal) {
    return Refused(name, absl::StrCat("a signal from 0 to ", kMaxSignal),
                   absl::StrCat(ended.signal()));
  }
  if (stage_ == Stage::kStarted && !ended.not_started().empty()) {
    return Refused(name, "no reason not to start", "one after the worker's start");
  }
  if (stage_ != Stage::kStarted && ended.not_started().empty()) {
    return Refused(name, "a worker that has started, or a reason", "neither");
  }
  if (ended.error_file().size() > kMaxErrorFile) {
    return Refused(name, absl::StrCat("an error file of at most ", kMaxErrorFile, " bytes"),
                   absl::StrCat(ended.error_file().size()));
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
