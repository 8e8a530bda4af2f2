// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/service_link.h"

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/back_off.h"
#include "distribute/cluster/connections/host_port.h"
#include "distribute/cluster/coordination/grpc_support.h"
#include "distribute/cluster/coordination/messages.h"
#include "framework/core/log.h"
#include "framework/core/mutex.h"
#include "framework/core/owned_socket.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/thread.h"

namespace mirrorflow {
namespace {

// Long enough for several round trips on a slow network, and for a busy service.
constexpr absl::Duration kConnectTimeout = absl::Seconds(10);
constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(2);
// The longest pause after Keep(), when workers must detect the loss of the service quickly.
constexpr absl::Duration kLongestPauseOfKept = absl::Milliseconds(500);
// How long another job's service may still hold the port.
constexpr absl::Duration kRefusalPatience = absl::Seconds(20);
constexpr absl::Duration kReportInterval = absl::Seconds(5);
// The connection, and both ends of the relay's local socket.
constexpr int kDescriptors = 3;

}  // namespace

absl::StatusOr<std::unique_ptr<ServiceLink>> ServiceLink::Create(Options options) {
  MF_RETURN_IF_ERROR(PrepareGrpc(kDescriptors));
  MF_ASSIGN_OR_RETURN(TlsContext tls, CreateTlsContext(options.tls));
  OwnedSocket wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.fd() < 0) return NetworkError(errno, "coordination: cannot create an eventfd");
  std::unique_ptr<ServiceLink> link(
      new ServiceLink(std::move(options), std::move(tls), std::move(wake)));
  MF_ASSIGN_OR_RETURN(link->thread_,
                      StartThread("coordination", [link = link.get()] { link->Run(); }));
  return link;
}

ServiceLink::~ServiceLink() {
  End(absl::CancelledError("this worker has disconnected from the coordination service"));
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::shared_ptr<const ServiceLink::Connection>> ServiceLink::Get(
    uint64_t broken, MonotonicTime deadline, const std::atomic<bool>& is_cancelled) {
  MutexLock lock(&mu_);
  if (connection_ != nullptr && connection_->number <= broken) {
    connection_ = nullptr;
    eventfd_write(wake_.fd(), 1);
  }
  const bool decided = changed_.WaitUntil(lock, deadline, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return connection_ != nullptr || !end_.ok() || is_cancelled;
  });
  MF_RETURN_IF_ERROR(end_);
  if (is_cancelled) return absl::CancelledError("the call was cancelled");
  if (decided) return connection_;
  if (absl::IsPermissionDenied(last_)) {
    return Annotate(last_, absl::StrCat("coordination service at ", options_.address));
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "cannot reach the coordination service at ", options_.address, " in ",
      absl::FormatDuration(absl::Trunc(MonotonicTime::Now() - since_, absl::Milliseconds(100))),
      " and ", tries_,
      " tries; expected worker 0 or `mirrorflow coordinator` to run it there; last error: ",
      last_.message()));
}

void ServiceLink::Wake() {
  MutexLock lock(&mu_);
  changed_.NotifyAll();
}

void ServiceLink::Keep(absl::Duration heartbeat_timeout) {
  MutexLock lock(&mu_);
  patience_ = heartbeat_timeout;
  is_kept_ = true;
}

void ServiceLink::End(const absl::Status& why) {
  MutexLock lock(&mu_);
  if (!end_.ok()) return;
  end_ = why;
  connection_ = nullptr;
  changed_.NotifyAll();
  eventfd_write(wake_.fd(), 1);
}

absl::Status ServiceLink::end() const {
  MutexLock lock(&mu_);
  return end_;
}

// ---- the thread ---------------------------------------------------------------------------------

void ServiceLink::Run() {
  BackOff back_off(kFirstPause, kLongestPause);
  MonotonicTime next_report = MonotonicTime::Now() + kReportInterval;
  while (end().ok()) {
    const MonotonicTime begin = MonotonicTime::Now();
    absl::StatusOr<std::unique_ptr<Relay>> relay = Connect();
    if (relay.ok()) {
      const MonotonicTime connected = MonotonicTime::Now();
      handshake_ = connected - begin;
      Pass(**relay);
      NoteEnd();
      relay->reset();  // the calls on it fail
      // Keep backing off if connections break right after the handshake.
      if (MonotonicTime::Now() - connected > kLongestPause) back_off.Reset();
    } else if (const absl::Status lost = NoteFailure(relay.status(), &next_report); !lost.ok()) {
      return End(lost);
    }
    MutexLock lock(&mu_);
    const absl::Duration pause =
        std::min(back_off.Next(), is_kept_ ? kLongestPauseOfKept : kLongestPause);
    changed_.WaitFor(lock, pause,
                     [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !end_.ok(); });
  }
}

void ServiceLink::NoteEnd() {
  MutexLock lock(&mu_);
  connection_ = nullptr;
  since_ = MonotonicTime::Now();
  tries_ = 0;
  last_ = absl::UnavailableError("the connection has ended");
}

bool ServiceLink::IsFinal(const absl::Status& why, MonotonicTime now) const {
  if (absl::IsResourceExhausted(why)) return true;
  if (absl::IsPermissionDenied(why)) {
    return num_connections_ > 0 || !was_refused_ || now >= refused_since_ + kRefusalPatience;
  }
  return is_kept_ &&
         now > since_ + (port_is_closed_ ? TimeToReturn(handshake_, patience_) : patience_);
}

absl::Status ServiceLink::NoteFailure(const absl::Status& why, MonotonicTime* next_report) {
  const MonotonicTime now = MonotonicTime::Now();
  refused_since_ = was_refused_ ? std::min(refused_since_, now) : MonotonicTime::InfiniteFuture();
  std::string line;
  {
    MutexLock lock(&mu_);
    ++tries_;
    last_ = why;
    if (IsFinal(why, now)) {
      return Annotate(why, absl::StrCat("coordination service at ", options_.address));
    }
    if (now < *next_report || is_kept_) return absl::OkStatus();
    *next_report = now + kReportInterval;
    line = absl::StrCat("waiting for the coordination service at ", options_.address, "; ",
                        absl::ToInt64Seconds(now - since_), " s; ", why.message());
  }
  LogInfo(line);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Relay>> ServiceLink::Connect() {
  MonotonicTime limit = MonotonicTime::InfiniteFuture();
  {
    MutexLock lock(&mu_);
    if (is_kept_) limit = since_ + patience_;
  }
  was_refused_ = port_is_closed_ = false;
  Addresses addresses = addresses_;
  if (addresses == nullptr) {
    MF_ASSIGN_OR_RETURN(const HostPort target, ParseHostPort(options_.address));
    MF_ASSIGN_OR_RETURN(addresses, Resolve(target));
  }
  absl::Status last;
  bool all_refuse = true;
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    absl::StatusOr<std::unique_ptr<Relay>> relay =
        ConnectTo(*one, std::min(limit, MonotonicTime::Now() + kConnectTimeout));
    last = relay.status();
    if (relay.ok()) {
      addresses_ = addresses;
      return relay;
    }
    if (absl::IsPermissionDenied(last) || absl::IsResourceExhausted(last)) return last;
    all_refuse &= absl::IsFailedPrecondition(last);
  }
  port_is_closed_ = all_refuse;
  return absl::UnavailableError(last.message());
}

absl::StatusOr<std::unique_ptr<Relay>> ServiceLink::ConnectTo(const addrinfo& address,
                                                              MonotonicTime deadline) {
  MF_ASSIGN_OR_RETURN(OwnedSocket socket, StartConnect(address));
  const int fd = socket.fd();
  MF_RETURN_IF_ERROR(SetConnectionOptions(fd, kDeadConnection));
  MF_RETURN_IF_ERROR(WaitFor(fd, POLLOUT, deadline));
  MF_RETURN_IF_ERROR(CheckConnected(fd));
  MF_ASSIGN_OR_RETURN(const HostPort target, ParseHostPort(options_.address));
  Conversation conversation(
      TlsStream(std::move(socket), tls_, TlsEnd::kConnecting, kTlsBytesPerKey,
                options_.name.empty() ? target.host : options_.name),
      Handshake::Connecting(options_.cluster, {.connecting = options_.worker, .accepting = 0}));
  for (;;) {
    const absl::Status status = conversation.Advance();
    const bool has_heard = conversation.handshake().has_heard();
    was_refused_ = absl::IsPermissionDenied(status) && has_heard;
    // A service that expects TLS closes plain connections.
    if (absl::IsUnavailable(status) && tls_ == nullptr && !has_heard) {
      return absl::UnavailableError(absl::StrCat(
          status.message(), "; perhaps the service expects TLS, or it has too many callers"));
    }
    MF_RETURN_IF_ERROR(status);
    if (conversation.done()) return Publish(conversation);
    MF_RETURN_IF_ERROR(WaitFor(fd, conversation.event(), deadline));
  }
}

absl::Status ServiceLink::WaitFor(int fd, int16_t event, MonotonicTime deadline) const {
  constexpr int kTickMs = 100;  // how late the deadline may be noticed
  pollfd polled[] = {{.fd = fd, .events = event, .revents = 0},
                     {.fd = wake_.fd(), .events = POLLIN, .revents = 0}};
  for (;;) {
    MF_RETURN_IF_ERROR(end());
    poll(polled, 2, kTickMs);
    ClearWake();
    if (polled[0].revents != 0) return absl::OkStatus();
    if (MonotonicTime::Now() >= deadline) return absl::UnavailableError("no answer in time");
  }
}

absl::StatusOr<std::unique_ptr<Relay>> ServiceLink::Publish(Conversation& conversation) {
  MF_ASSIGN_OR_RETURN(auto relay, Relay::Create(conversation.TakeStream()));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // no limit, for the membership of a large cluster
  auto connection = std::make_shared<Connection>();
  connection->name = conversation.handshake().connection();
  connection->key = conversation.handshake().SessionKey();
  connection->stub = coordination::Coordination::NewStub(
      grpc::CreateCustomInsecureChannelFromFd(options_.address, relay.second.Release(), arguments));
  MutexLock lock(&mu_);
  MF_RETURN_IF_ERROR(end_);
  connection->number = ++num_connections_;
  connection_ = std::move(connection);
  changed_.NotifyAll();
  return std::move(relay.first);
}

void ServiceLink::ClearWake() const {
  eventfd_t count = 0;
  eventfd_read(wake_.fd(), &count);
}

void ServiceLink::Pass(Relay& relay) const {
  std::vector<pollfd> polled;
  const auto is_wanted = [this] {
    MutexLock lock(&mu_);
    return connection_ != nullptr;
  };
  while (is_wanted()) {
    if (!relay.Advance().ok()) return;
    polled = {{.fd = wake_.fd(), .events = POLLIN, .revents = 0}};
    relay.AddPolled(&polled);
    poll(polled.data(), polled.size(), relay.can_go_on() ? 0 : -1);
    ClearWake();
  }
}

}  // namespace mirrorflow
