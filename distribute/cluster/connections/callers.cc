// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/callers.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/authentication.h"
#include "distribute/cluster/connections/tcp_socket.h"
#include "framework/core/mutex.h"
#include "framework/core/owned_socket.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kHandshakeTimeout = absl::Seconds(5);
// The rate at which RecentRefusals decays.
constexpr double kForgottenPerSecond = 100;
// The pause after each batch during a flood. It is longer with TLS, because TLS handshakes cost far
// more CPU time.
constexpr absl::Duration kPause = absl::Milliseconds(10);
constexpr absl::Duration kPauseOfTls = absl::Milliseconds(100);

}  // namespace

absl::Status Callers::Start() {
  wake_ = OwnedSocket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return wake_.fd() < 0 ? NetworkError(errno, "connections: cannot create an eventfd")
                        : absl::OkStatus();
}

void Callers::Expect(const std::map<std::string, size_t>& callers, size_t max_handshakes) {
  MutexLock lock(&mu_);
  for (const auto& [address, count] : callers) sources_[address].expected = count;
  max_concurrent_handshakes_ = max_handshakes;
}

absl::Duration Callers::Add(int fd, const std::string& peer) {
  Waiting caller = {.peer = peer, .socket = OwnedSocket(fd)};
  const std::string address = SourceOf(fd).value_or("");
  bool is_flooded, was_empty, can_serve = true;
  {
    MutexLock lock(&mu_);
    was_empty = callers_.empty();
    const auto found = sources_.find(address);
    Source* const source = found == sources_.end() ? nullptr : &found->second;
    if (source != nullptr && source->present() < source->expected) {
      source->silent.push_back(std::move(caller));
      ++num_waiting_;
      can_serve = num_served_ < max_concurrent_handshakes_;
    } else {
      if (callers_.size() - num_served_ >= limit_) EvictStranger();
      Serve(std::move(caller), source, /*is_stranger=*/true);
    }
    is_flooded = IsFlooded();
  }
  if (can_serve && (was_empty || !is_flooded)) Wake();
  if (!is_flooded) return absl::ZeroDuration();
  return tls_ == nullptr ? kPause : kPauseOfTls;
}

void Callers::Serve(Waiting caller, Source* source, bool is_stranger) {
  const int fd = caller.socket.fd();
  std::unique_ptr<Stream> stream = TlsStream(std::move(caller.socket), tls_, TlsEnd::kAccepting);
  callers_.push_back({.peer = std::move(caller.peer),
                      .source = source,
                      .is_stranger = is_stranger,
                      .begin = MonotonicTime::Now(),
                      .conversation = Conversation(std::move(stream), handshake_(fd))});
}

// Moves callers that have sent something or closed their connections from `silent` to `ready`.
void Callers::MoveReady() {
  std::vector<pollfd> polled;
  for (const auto& [address, source] : sources_) {
    for (const Waiting& caller : source.silent) {
      polled.push_back({.fd = caller.socket.fd(), .events = POLLIN, .revents = 0});
    }
  }
  if (polled.empty() || poll(polled.data(), polled.size(), /*timeout=*/0) <= 0) return;
  auto event = polled.begin();
  for (auto& [address, source] : sources_) {
    std::deque<Waiting> silent;
    for (Waiting& caller : source.silent) {
      if ((event++)->revents == 0) {
        silent.push_back(std::move(caller));
      } else {
        source.ready.push_back(std::move(caller));
      }
    }
    source.silent = std::move(silent);
  }
}

bool Callers::ServeWaiting() {
  if (num_waiting_ == 0 || num_served_ >= max_concurrent_handshakes_) return false;
  MoveReady();
  bool served = false;
  for (; num_served_ < max_concurrent_handshakes_; served = true) {
    Source* next = nullptr;
    for (auto& [address, source] : sources_) {
      if (source.ready.empty()) continue;
      if (next == nullptr ||
          std::tie(source.served, source.turn) < std::tie(next->served, next->turn)) {
        next = &source;
      }
    }
    if (next == nullptr) break;
    Serve(std::move(next->ready.front()), next, /*is_stranger=*/false);
    next->ready.pop_front();
    next->turn = ++turns_;
    ++next->served;
    ++num_served_;
    --num_waiting_;
  }
  return served;
}

void Callers::EvictStranger() {
  std::map<std::string, std::vector<std::list<Caller>::iterator>> by_network;
  for (auto caller = callers_.begin(); caller != callers_.end(); ++caller) {
    if (caller->is_stranger) by_network[NetworkOf(caller->peer)].push_back(caller);
  }
  const auto size_of = [](const auto& network) { return network.second.size(); };
  auto& busiest = std::ranges::max_element(by_network, {}, size_of)->second;
  const auto has_heard = [](const auto& caller) {
    return caller->conversation.handshake().has_heard();
  };
  if (!std::all_of(busiest.begin(), busiest.end(), has_heard)) std::erase_if(busiest, has_heard);
  const auto dropped = busiest[RandomNumber() % busiest.size()];
  Refuse(dropped->peer, "too many callers; a new caller takes its slot");
  callers_.erase(dropped);
}

void Callers::ExpectOneFewerCaller(Source& source) {
  if (source.expected == 0) return;
  --source.expected;
  if (source.present() <= source.expected || source.present() == source.served) return;
  // Prefer to drop a silent caller: an honest caller is silent only briefly, and retries.
  std::deque<Waiting>& waiting = source.silent.empty() ? source.ready : source.silent;
  Refuse(waiting.front().peer, "no more callers are expected from its address");
  waiting.pop_front();
  --num_waiting_;
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

void Callers::Refuse(const std::string& peer, absl::string_view why) {
  // Cap the count, so even a long flood has no effect beyond one second after its end.
  refusals_ = std::min(RecentRefusals() + 1, static_cast<double>(limit_) + kForgottenPerSecond);
  last_refusal_ = MonotonicTime::Now();
  if (log_ != nullptr) log_->Log(peer, absl::StrCat("was refused: ", why));
}

double Callers::RecentRefusals() const {
  const double seconds = absl::ToDoubleSeconds(MonotonicTime::Now() - last_refusal_);
  return std::max(0.0, refusals_ - kForgottenPerSecond * seconds);
}

absl::Status Callers::Advance(const std::function<absl::Status(Proven)>& on_proven) {
  eventfd_t count = 0;
  eventfd_read(wake_.fd(), &count);
  MutexLock lock(&mu_);
  ServeWaiting();
  do {
    for (auto caller = callers_.begin(); caller != callers_.end();) {
      Conversation& conversation = caller->conversation;
      absl::Status status = conversation.Advance();
      if (status.ok() && !conversation.done()) {
        if (MonotonicTime::Now() < caller->begin + kHandshakeTimeout) {
          ++caller;
          continue;
        }
        status = absl::DeadlineExceededError("the handshake took too long");
      }
      if (status.ok()) {
        MF_RETURN_IF_ERROR(on_proven({.peer = caller->peer,
                                      .handshake = conversation.handshake(),
                                      .stream = conversation.TakeStream(),
                                      .duration = MonotonicTime::Now() - caller->begin}));
      } else {
        Refuse(caller->peer, status.message());
      }
      if (!caller->is_stranger) {
        --caller->source->served;
        --num_served_;
      }
      if (status.ok() && caller->source != nullptr) ExpectOneFewerCaller(*caller->source);
      caller = callers_.erase(caller);
    }
  } while (ServeWaiting());
  return absl::OkStatus();
}

bool Callers::empty() const {
  MutexLock lock(&mu_);
  return callers_.empty() && num_waiting_ == 0;
}

void Callers::AddPolled(std::vector<pollfd>* polled) const {
  MutexLock lock(&mu_);
  polled->push_back({.fd = wake_.fd(), .events = POLLIN, .revents = 0});
  if (IsFlooded()) return;
  for (const Caller& caller : callers_) {
    polled->push_back(
        {.fd = caller.conversation.fd(), .events = caller.conversation.event(), .revents = 0});
  }
  if (num_served_ >= max_concurrent_handshakes_) return;
  for (const auto& [address, source] : sources_) {
    for (const Waiting& caller : source.silent) {
      polled->push_back({.fd = caller.socket.fd(), .events = POLLIN, .revents = 0});
    }
  }
}

void Callers::Wake() { eventfd_write(wake_.fd(), 1); }

}  // namespace mirrorflow
