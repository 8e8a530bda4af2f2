// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/callers.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/authentication.h"
#include "distribute/collective/tcp/owned_socket.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kHandshakeTimeout = absl::Seconds(5);
// How fast RecentRefusals decays.
constexpr double kForgottenPerSecond = 100;
// The pause after each batch during a flood. TLS handshakes cost much more CPU time.
constexpr absl::Duration kPause = absl::Milliseconds(10);
constexpr absl::Duration kPauseOfTls = absl::Milliseconds(100);

}  // namespace

absl::Status Callers::Start() {
  wake_ = OwnedSocket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return wake_.fd() < 0 ? NetworkError(errno, "connections: eventfd") : absl::OkStatus();
}

absl::Duration Callers::Add(int fd, const std::string& peer) {
  bool is_flooded, was_empty;
  {
    MutexLock lock(&mu_);
    if (callers_.size() >= limit_) DropOne();
    is_flooded = IsFlooded();
    was_empty = callers_.empty();
    callers_.push_back({.peer = peer,
                        .arrival = MonotonicTime::Now(),
                        .conversation = Conversation(
                            tls_ == nullptr ? PlainStream(OwnedSocket(fd))
                                            : TlsStream(OwnedSocket(fd), tls_, TlsEnd::kAccepting),
                            handshake_(fd))});
  }
  if (was_empty || !is_flooded) Wake();
  if (!is_flooded) return absl::ZeroDuration();
  return tls_ == nullptr ? kPause : kPauseOfTls;
}

void Callers::DropOne() {
  std::map<std::string, std::vector<std::list<Caller>::iterator>> by_network;
  for (auto caller = callers_.begin(); caller != callers_.end(); ++caller) {
    by_network[NetworkOf(caller->peer)].push_back(caller);
  }
  auto& busiest = std::max_element(by_network.begin(), by_network.end(), [](auto& a, auto& b) {
                    return a.second.size() < b.second.size();
                  })->second;
  const auto has_heard = [](const auto& caller) {
    return caller->conversation.handshake().has_heard();
  };
  if (!std::all_of(busiest.begin(), busiest.end(), has_heard)) std::erase_if(busiest, has_heard);
  const auto dropped = busiest[RandomNumber() % busiest.size()];
  Refuse(*dropped, "others are waiting");
  callers_.erase(dropped);
}

void Callers::Fail(const absl::Status& why) {
  {
    MutexLock lock(&mu_);
    failure_ = why;
  }
  Wake();
}

absl::Status Callers::failure() {
  MutexLock lock(&mu_);
  return failure_;
}

void Callers::Refuse(const Caller& caller, absl::string_view why) {
  // The cap ends even a long flood's effect within a second.
  refusals_ = std::min(RecentRefusals() + 1, static_cast<double>(limit_) + kForgottenPerSecond);
  last_refusal_ = MonotonicTime::Now();
  if (strangers_ != nullptr) strangers_->Log(caller.peer, absl::StrCat("was refused: ", why));
}

double Callers::RecentRefusals() const {
  const double seconds = absl::ToDoubleSeconds(MonotonicTime::Now() - last_refusal_);
  return std::max(0.0, refusals_ - kForgottenPerSecond * seconds);
}

absl::Status Callers::Advance(const std::function<absl::Status(Proven)>& on_proven) {
  eventfd_t count = 0;
  eventfd_read(wake_.fd(), &count);
  MutexLock lock(&mu_);
  for (auto caller = callers_.begin(); caller != callers_.end();) {
    Conversation& conversation = caller->conversation;
    absl::Status status = conversation.Advance();
    if (status.ok() && !conversation.done()) {
      if (MonotonicTime::Now() < caller->arrival + kHandshakeTimeout) {
        ++caller;
        continue;
      }
      status = absl::DeadlineExceededError("the handshake took too long");
    }
    if (status.ok()) {
      MF_RETURN_IF_ERROR(on_proven({.peer = caller->peer,
                                    .handshake = conversation.handshake(),
                                    .stream = conversation.TakeStream(),
                                    .duration = MonotonicTime::Now() - caller->arrival}));
    } else {
      Refuse(*caller, status.message());
    }
    caller = callers_.erase(caller);
  }
  return absl::OkStatus();
}

bool Callers::empty() const {
  MutexLock lock(&mu_);
  return callers_.empty();
}

void Callers::AddPolled(std::vector<pollfd>* polled) const {
  MutexLock lock(&mu_);
  polled->push_back({.fd = wake_.fd(), .events = POLLIN, .revents = 0});
  if (IsFlooded()) return;
  for (const Caller& caller : callers_) {
    polled->push_back(
        {.fd = caller.conversation.fd(), .events = caller.conversation.event(), .revents = 0});
  }
}

void Callers::Wake() { eventfd_write(wake_.fd(), 1); }

}  // namespace mirrorflow
