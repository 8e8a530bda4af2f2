// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/callers.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kHandshakeTimeout = absl::Seconds(5);

template <typename List>
typename List::iterator OldestOfBusiestHost(List& list) {
  const auto host = [](const auto& caller) {
    return caller.peer.substr(0, caller.peer.rfind(':'));
  };
  std::map<std::string, int> count;
  for (const auto& caller : list) ++count[host(caller)];
  return std::max_element(list.begin(), list.end(), [&](const auto& a, const auto& b) {
    return count[host(a)] < count[host(b)];
  });
}

}  // namespace

absl::Status Callers::Start() {
  wake_ = OwnedSocket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return wake_.fd() < 0 ? NetworkError(errno, "connections: eventfd") : absl::OkStatus();
}

void Callers::Add(int fd, const std::string& peer) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (arrived_.size() >= limit_) arrived_.erase(OldestOfBusiestHost(arrived_));
    arrived_.push_back({OwnedSocket(fd), peer});
  }
  Wake();
}

void Callers::Fail(const absl::Status& why) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    failure_ = why;
  }
  Wake();
}

absl::Status Callers::failure() {
  std::lock_guard<std::mutex> lock(mu_);
  return failure_;
}

std::list<Callers::Arrival> Callers::TakeArrivals() {
  eventfd_t count = 0;
  eventfd_read(wake_.fd(), &count);
  std::lock_guard<std::mutex> lock(mu_);
  return std::exchange(arrived_, {});
}

void Callers::Accept(Arrival arrival) {
  if (callers_.size() >= limit_) {
    const auto dropped = OldestOfBusiestHost(callers_);
    LogRefused(*dropped, "others are waiting");
    callers_.erase(dropped);
  }
  const int fd = arrival.socket.fd();
  callers_.push_back(
      {.peer = std::move(arrival.peer),
       .deadline = MonotonicTime::Now() + kHandshakeTimeout,
       .conversation = Conversation(
           tls_ == nullptr ? PlainStream(std::move(arrival.socket))
                           : TlsStream(std::move(arrival.socket), tls_, TlsEnd::kAccepting),
           handshake_(fd))});
}

void Callers::LogRefused(const Caller& caller, absl::string_view why) const {
  if (strangers_ != nullptr) strangers_->Log(caller.peer, absl::StrCat("was refused: ", why));
}

absl::Status Callers::Advance(const std::function<absl::Status(Proven)>& on_proven) {
  for (Arrival& arrival : TakeArrivals()) Accept(std::move(arrival));
  for (auto caller = callers_.begin(); caller != callers_.end();) {
    Conversation& conversation = caller->conversation;
    absl::Status status = conversation.Advance();
    if (status.ok() && !conversation.done()) {
      if (MonotonicTime::Now() < caller->deadline) {
        ++caller;
        continue;
      }
      status = absl::DeadlineExceededError("the handshake took too long");
    }
    if (status.ok()) {
      MF_RETURN_IF_ERROR(
          on_proven({caller->peer, conversation.handshake(), conversation.TakeStream()}));
    } else {
      LogRefused(*caller, status.message());
    }
    caller = callers_.erase(caller);
  }
  return absl::OkStatus();
}

void Callers::AddPolled(std::vector<pollfd>* polled) const {
  polled->push_back({.fd = wake_.fd(), .events = POLLIN, .revents = 0});
  for (const Caller& caller : callers_) {
    polled->push_back(
        {.fd = caller.conversation.fd(), .events = caller.conversation.event(), .revents = 0});
  }
}

void Callers::Wake() { eventfd_write(wake_.fd(), 1); }

}  // namespace mirrorflow
