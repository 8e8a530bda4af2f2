// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/coordination_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/authentication.h"
#include "distribute/cluster/connections/back_off.h"
#include "distribute/cluster/connections/handshake.h"
#include "distribute/cluster/coordination/failure_listener.h"
#include "distribute/cluster/coordination/grpc_support.h"
#include "distribute/cluster/coordination/members.h"
#include "distribute/cluster/coordination/messages.h"
#include "distribute/cluster/coordination/service_link.h"
#include "distribute/cluster/coordination/value_list.h"
#include "distribute/cluster/coordination/worker_process.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/core/thread.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/status_proto.h"

namespace mirrorflow {
namespace {

using coordination::Reply;
using coordination::Request;
using coordination::Signed;

constexpr absl::Duration kFirstRetry = absl::Milliseconds(25);
constexpr absl::Duration kLongestRetry = absl::Milliseconds(500);
// Within this time, the service detects that another process has died, even if its host has died
// too.
const absl::Duration kEndOfOther = 2 * kDeadConnection;
// How long Leave waits after a failure. The other workers have received the failure, but their
// answers may still be in flight.
constexpr absl::Duration kLeaveAfterFailure = absl::Seconds(1);
// The service answers most calls by their deadlines. If a call has no answer this long after its
// deadline, the service is considered lost.
constexpr absl::Duration kGrace = absl::Seconds(2);

}  // namespace

// This process's session with the service. Keeps the pending calls, and sends heartbeats.
// Thread-safe.
class CoordinationClient::Connection {
 public:
  explicit Connection(Options options) : options_(std::move(options)) {}
  ~Connection() { StopHeartbeats(); }

  int worker() const { return options_.member.worker(); }
  int num_workers() const { return options_.member.num_workers(); }

  // Must have succeeded before any other function is called.
  absl::Status Start() {
    MF_ASSIGN_OR_RETURN(
        link_, ServiceLink::Create({.address = options_.coordinator,
                                    .name = options_.name,
                                    .cluster = {.secret = options_.secret,
                                                .job = options_.job,
                                                .incarnation = RandomNumber(),
                                                .purpose = Handshake::Purpose::kCoordination},
                                    .worker = worker(),
                                    .tls = options_.tls}));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<coordination::Member>> Register(MonotonicTime deadline) {
    BackOff back_off(kFirstRetry, kLongestRetry);
    MonotonicTime last_refusal = MonotonicTime::InfiniteFuture();
    for (;;) {
      absl::StatusOr<std::vector<coordination::Member>> members = TryRegister(deadline);
      const absl::Status& status = members.status();
      const MonotonicTime now = MonotonicTime::Now();
      if (absl::IsAborted(status)) {  // another process, perhaps a dead one, has registered
        last_refusal = std::min(last_refusal, now + kEndOfOther);
        if (now >= last_refusal) return absl::AlreadyExistsError(status.message());
      } else if (!absl::IsUnavailable(status) && !absl::IsCancelled(status)) {
        return members;  // retry if Cancelled, which a service returns while it shuts down
      }
      const absl::Duration pause = back_off.Next();
      if (now + pause >= deadline) {
        return absl::IsAborted(status) ? absl::AlreadyExistsError(status.message())
                                       : absl::DeadlineExceededError(absl::StrCat(
                                             "cannot register with the coordination service at ",
                                             options_.coordinator, ": ", status.message()));
      }
      absl::SleepFor(pause);
    }
  }

  // Returns the number of a new call, which Cancel takes. Every later request lists the call as
  // pending until Perform or Forget ends it.
  uint64_t NewCall() {
    MutexLock lock(&mu_);
    return NewCallLocked();
  }
  void Forget(uint64_t call) {
    MutexLock lock(&mu_);
    calls_.erase(call);
  }
  void Cancel(uint64_t call) {
    {
      MutexLock lock(&mu_);
      const auto found = calls_.find(call);
      if (found == calls_.end()) return;
      found->second.cancelled = true;
      if (found->second.context != nullptr) found->second.context->TryCancel();
    }
    link_->Wake();
  }

  // Performs the call and returns the answer. Repeats it on a new connection if the current one
  // ends before the answer arrives.
  absl::StatusOr<std::string> Perform(Request request, MonotonicTime deadline, uint64_t call) {
    absl::StatusOr<std::string> result = Repeat(request, deadline, call);
    Forget(call);
    return result;
  }
  absl::StatusOr<std::string> Perform(Request request, MonotonicTime deadline) {
    return Perform(std::move(request), deadline, NewCall());
  }

  void SetProgress(std::shared_ptr<const RunProgress> progress) {
    MutexLock lock(&mu_);
    progress_ = std::move(progress);
  }

  void OnStopRequest(std::function<void(int)> call) {
    MutexLock lock(&mu_);
    on_stop_request_ = std::move(call);
    if (on_stop_request_ && stop_request_ != 0) on_stop_request_(stop_request_);
  }
  void SetStopped(std::string why) {
    MutexLock lock(&mu_);
    stopped_ = std::move(why);
  }
  std::string stopped() {
    MutexLock lock(&mu_);
    return stopped_;
  }

  // Records that this worker has reported or received a failure of the cluster.
  void SetFailed() { failed_ = true; }
  bool has_failed() const { return failed_; }

  void StopHeartbeats() {
    uint64_t beat;
    {
      MutexLock lock(&mu_);
      over_ = true;
      beat = beat_;
      stop_.NotifyAll();
    }
    if (!heart_.joinable()) return;
    Cancel(beat);  // the call may be waiting for a connection
    heart_.join();
  }

 private:
  struct Pending {
    grpc::ClientContext* context = nullptr;  // null while no attempt is in flight
    std::atomic<bool> cancelled{false};
  };

  uint64_t NewCallLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    calls_[++sequence_];
    return sequence_;
  }

  // Sends heartbeats until the connection ends. If the service does not answer them in time, it is
  // considered lost, and all calls end.
  void SendHeartbeats() {
    const absl::Duration timeout = options_.heartbeat_timeout;
    const absl::Duration interval = std::min(timeout, options_.progress_timeout) / 4;
    MonotonicTime answered = MonotonicTime::Now(), awake = answered;
    MutexLock lock(&mu_);
    while (!stop_.WaitFor(lock, interval,
                          [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return over_; })) {
      // Do not count the time during which this process itself was stopped.
      const MonotonicTime begin = MonotonicTime::Now();
      if (begin - awake > timeout / 2) answered = begin;
      const std::shared_ptr<const RunProgress> progress = progress_;
      const uint64_t call = beat_ = NewCallLocked();
      lock.Unlock();
      const absl::StatusOr<int> beat = SendHeartbeat(progress.get(), answered + timeout, call);
      lock.Lock();
      if (beat.ok() && *beat != 0 && stop_request_ == 0) {
        stop_request_ = *beat;
        if (on_stop_request_) on_stop_request_(stop_request_);
      }
      if (!link_->end().ok()) return;
      awake = MonotonicTime::Now();
      const bool was_stopped = awake - begin > 2 * timeout;
      if (beat.ok() || was_stopped) answered = awake;
      if (awake - answered < timeout) continue;
      link_->End(absl::UnavailableError(absl::StrCat(
          "no answer from the coordination service at ", options_.coordinator, " for ",
          absl::FormatDuration(absl::Trunc(awake - answered, absl::Milliseconds(100))))));
      for (const auto& [number, call] : calls_) {
        if (call.context != nullptr) call.context->TryCancel();
      }
      return;
    }
  }

  // Returns the signal that made the service stop all workers, or 0 if they are not to stop.
  absl::StatusOr<int> SendHeartbeat(const RunProgress* progress, MonotonicTime deadline,
                                    uint64_t call) {
    Request request;
    request.set_operation(Request::HEARTBEAT);
    if (progress != nullptr) {
      const RunProgress::Position at = progress->position();
      coordination::Heartbeat& heartbeat = *request.mutable_heartbeat();
      heartbeat.set_step(at.step);
      heartbeat.set_running(at.running);
      heartbeat.set_runs(at.runs);
      heartbeat.set_collectives(at.collectives);
      heartbeat.set_collective(at.collective);
      heartbeat.set_in_runs_us(absl::ToInt64Microseconds(progress->in_runs()));
      heartbeat.set_waited_us(absl::ToInt64Microseconds(progress->waited()));
    }
    MF_ASSIGN_OR_RETURN(const std::string text, Perform(std::move(request), deadline, call));
    int signal = 0;
    if (!text.empty() && !absl::SimpleAtoi(text, &signal)) {
      return absl::InternalError("coordination: malformed signal");
    }
    return signal;
  }

  absl::StatusOr<std::vector<coordination::Member>> TryRegister(MonotonicTime deadline) {
    Request request;
    request.set_operation(Request::REGISTER);
    coordination::Member& member = *request.mutable_member();
    member = options_.member;
    const auto ms = [](absl::Duration timeout) {  // 0 means infinite
      return timeout == absl::InfiniteDuration() ? 0 : absl::ToInt64Milliseconds(timeout);
    };
    member.set_heartbeat_timeout_ms(ms(options_.heartbeat_timeout));
    member.set_progress_timeout_ms(ms(options_.progress_timeout));
    member.set_prepare_timeout_ms(ms(options_.prepare_timeout));
    MF_ASSIGN_OR_RETURN(const std::string text, Perform(std::move(request), deadline));
    coordination::Membership membership;
    if (!membership.ParseFromString(text)) {
      return absl::InternalError("coordination: malformed membership");
    }
    MF_ASSIGN_OR_RETURN(std::vector<coordination::Member> members,
                        SplitMembers(membership, num_workers()));
    server_ = options_.external ? "`mirrorflow coordinator`" : NameOf(members[0]);
    registered_ = true;
    link_->Keep(options_.heartbeat_timeout);
    if (options_.heartbeat_timeout < absl::InfiniteDuration()) {
      MF_ASSIGN_OR_RETURN(heart_, StartThread("heartbeats", [this] { SendHeartbeats(); }));
    }
    return members;
  }

  absl::StatusOr<std::string> Repeat(Request& request, MonotonicTime deadline, uint64_t call) {
    const std::atomic<bool>& is_cancelled = PendingOf(call).cancelled;
    for (uint64_t broken = 0;;) {
      const auto connection = link_->Get(broken, deadline, is_cancelled);
      if (!connection.ok()) return WithServer(connection.status());
      request.set_deadline_ms(MillisecondsUntil(deadline));
      Signed answer;
      const grpc::Status status = Send(**connection, request, deadline, call, &answer);
      if (is_cancelled) return absl::CancelledError("the call was cancelled");
      switch (status.error_code()) {
        case grpc::StatusCode::OK:
          return Open(**connection, call, answer);
        case grpc::StatusCode::UNAVAILABLE:
        case grpc::StatusCode::CANCELLED:
        case grpc::StatusCode::UNAUTHENTICATED:  // the service has a newer connection
          broken = (*connection)->number;
          break;
        default:
          return WithFailure(
              absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                           absl::StrCat("coordination service at ", options_.coordinator, ": ",
                                        status.error_message())),
              {.worker = 0});
      }
    }
  }

  grpc::Status Send(const ServiceLink::Connection& connection, Request& request,
                    MonotonicTime deadline, uint64_t call, Signed* answer) {
    grpc::ClientContext context;
    const bool at_once = request.operation() == Request::HEARTBEAT;
    context.set_deadline(GrpcDeadline(at_once ? deadline : deadline + kGrace));
    {
      MutexLock lock(&mu_);
      calls_[call].context = &context;
      if (calls_[call].cancelled || !link_->end().ok()) context.TryCancel();
      request.clear_pending();
      for (const auto& [number, other] : calls_) request.add_pending(number);
    }
    const Body body(request.SerializeAsString());
    Signed message;
    message.set_connection(connection.name);
    message.set_sequence(call);
    message.set_body(body.bytes);
    message.set_mac(MacOf(connection.key, Role::kWorker, call, body));
    const grpc::Status status = connection.stub->Perform(&context, message, answer);
    MutexLock lock(&mu_);
    calls_[call].context = nullptr;
    return status;
  }

  // The reference is valid until Forget.
  const Pending& PendingOf(uint64_t call) {
    MutexLock lock(&mu_);
    return calls_[call];
  }

  absl::StatusOr<std::string> Open(const ServiceLink::Connection& connection, uint64_t call,
                                   const Signed& answer) const {
    if (answer.sequence() != call || !HasValidMac(connection.key, Role::kServer, answer)) {
      return absl::PermissionDeniedError(absl::StrCat("coordination service at ",
                                                      options_.coordinator,
                                                      ": the answer has an invalid signature"));
    }
    Reply reply;
    if (!reply.ParseFromString(answer.body())) {
      return absl::InternalError("coordination: malformed reply");
    }
    MF_RETURN_IF_ERROR(StatusFromProto(reply.status()));
    return std::move(*reply.mutable_value());
  }

  // Returns the error for the loss of the service. It names both ends, because the network between
  // them may be at fault. Returns any other error unchanged.
  absl::Status WithServer(const absl::Status& why) const {
    if (!registered_ || !absl::IsUnavailable(why)) return why;
    return WithFailure(absl::UnavailableError(absl::StrCat(server_, " is lost according to worker ",
                                                           worker(), ": ", why.message())),
                       {.worker = 0});
  }

  const Options options_;
  // Set before other threads start:
  std::unique_ptr<ServiceLink> link_;
  std::string server_;  // names the process that runs the service
  bool registered_ = false;
  std::atomic<bool> failed_{false};

  Mutex mu_;
  CondVar stop_;
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t sequence_ ABSL_GUARDED_BY(mu_) = 0;              // the last call's number
  uint64_t beat_ ABSL_GUARDED_BY(mu_) = 0;                  // the last heartbeat's call number
  std::map<uint64_t, Pending> calls_ ABSL_GUARDED_BY(mu_);  // in progress
  std::shared_ptr<const RunProgress> progress_ ABSL_GUARDED_BY(mu_);  // of the latest session
  std::function<void(int)> on_stop_request_ ABSL_GUARDED_BY(mu_);
  int stop_request_ ABSL_GUARDED_BY(mu_) = 0;  // a signal
  std::string stopped_ ABSL_GUARDED_BY(mu_);   // why this worker leaves with its work unfinished
  std::thread heart_;
};

// ---- a session's group --------------------------------------------------------------------------

class CoordinationClient::Group final : public WorkerGroup {
 public:
  Group(std::shared_ptr<Connection> connection, int group)
      : connection_(std::move(connection)), group_(group) {}
  ~Group() override {
    OnFailure(nullptr);
    StopListening();
  }

  int worker() const override { return connection_->worker(); }
  int num_workers() const override { return connection_->num_workers(); }

  absl::StatusOr<uint64_t> Join(MonotonicTime deadline) override {
    MF_ASSIGN_OR_RETURN(const std::string number,
                        connection_->Perform(NewRequest(Request::JOIN), deadline));
    uint64_t incarnation = 0;
    if (!absl::SimpleAtoi(number, &incarnation)) {
      return absl::InternalError("coordination: malformed incarnation");
    }
    if (listening_.joinable()) listening_.join();  // its call has ended with the last incarnation
    incarnation_ = incarnation;
    listener_.Reset();
    Listen();
    return incarnation;
  }

  absl::Status Put(absl::string_view key, std::string value, MonotonicTime deadline) override {
    return PutForReaders(key, /*readers=*/0, std::move(value), deadline);
  }
  // Splits a long value into parts. The first part begins with the number of parts. It is stored
  // last, under the key itself, so a reader that finds it finds all parts.
  absl::Status PutForReaders(absl::string_view key, int readers, std::string value,
                             MonotonicTime deadline) override {
    const size_t parts = std::max<size_t>((value.size() + kMaxValueBytes - 1) / kMaxValueBytes, 1);
    for (size_t i = parts; i-- > 0;) {
      Request request = NewRequest(Request::PUT);
      request.set_name(PartOf(key, i));
      request.set_readers(readers);
      request.set_value(
          absl::StrCat(i == 0 ? absl::StrCat(parts, " ") : "",
                       absl::string_view(value).substr(i * kMaxValueBytes, kMaxValueBytes)));
      MF_RETURN_IF_ERROR(connection_->Perform(std::move(request), deadline).status());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Get(absl::string_view key, MonotonicTime deadline) override {
    return GetParts(key, deadline, /*in_background=*/false);
  }
  absl::StatusOr<std::string> Watch(absl::string_view key) override {
    return GetParts(key, MonotonicTime::InfiniteFuture(), /*in_background=*/true);
  }

  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view name, std::string value,
                                                     MonotonicTime deadline) override {
    if (value.size() > kMaxValueBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("all-gather '", name, "': expected at most ", kMaxValueBytes,
                       " bytes from each worker, got ", value.size()));
    }
    Request request = NewRequest(Request::ALL_GATHER);
    request.set_name(std::string(name));
    request.set_value(std::move(value));
    MF_ASSIGN_OR_RETURN(const std::string joined,
                        connection_->Perform(std::move(request), deadline));
    return SplitValues(joined, num_workers());
  }

  absl::Status ReportFailure(const absl::Status& cause, MonotonicTime deadline) override {
    connection_->SetFailed();
    Request request = NewRequest(Request::REPORT_FAILURE);
    *request.mutable_failure() = StatusToProto(cause);
    const absl::StatusOr<std::string> answer = connection_->Perform(std::move(request), deadline);
    proto::Status first;
    if (answer.ok() && first.ParseFromString(*answer)) return StatusFromProto(first);
    // If the service is lost, its loss is also the reason why a peer has closed its connection.
    return absl::IsUnavailable(cause) && absl::IsUnavailable(answer.status()) ? answer.status()
                                                                              : cause;
  }

  void OnFailure(std::function<void(const absl::Status&)> call) override {
    listener_.Set(std::move(call));
  }
  void OnStopRequest(std::function<void(int)> call) override {
    connection_->OnStopRequest(std::move(call));
  }
  void SetStopped(std::string why) override { connection_->SetStopped(std::move(why)); }
  void ShareProgress(std::shared_ptr<const RunProgress> progress) override {
    connection_->SetProgress(std::move(progress));
  }

 private:
  Request NewRequest(Request::Operation operation) const {
    Request request;
    request.set_operation(operation);
    request.set_group(group_);
    request.set_incarnation(incarnation_);
    return request;
  }

  static std::string PartOf(absl::string_view key, size_t part) {
    return part == 0 ? std::string(key) : absl::StrCat(key, "\n", part);
  }

  absl::StatusOr<std::string> GetParts(absl::string_view key, MonotonicTime deadline,
                                       bool in_background) {
    const auto get = [&](size_t part) {
      Request request = NewRequest(Request::GET);
      request.set_name(PartOf(key, part));
      request.set_in_background(in_background);
      return connection_->Perform(std::move(request), deadline);
    };
    MF_ASSIGN_OR_RETURN(std::string value, get(0));
    const size_t space = value.find(' ');
    size_t parts = 0;
    if (space == std::string::npos || !absl::SimpleAtoi(value.substr(0, space), &parts)) {
      return absl::InternalError(absl::StrCat("coordination: malformed value for '", key, "'"));
    }
    value.erase(0, space + 1);
    for (size_t i = 1; i < parts; ++i) {
      MF_ASSIGN_OR_RETURN(const std::string part, get(i));
      value += part;
    }
    return value;
  }

  void Listen() {
    listening_call_ = connection_->NewCall();
    absl::StatusOr<std::thread> listening = StartThread("failures of other workers", [this] {
      const absl::Status failure = connection_
                                       ->Perform(NewRequest(Request::WAIT_FOR_FAILURE),
                                                 MonotonicTime::InfiniteFuture(), listening_call_)
                                       .status();
      if (failure.ok() || absl::IsCancelled(failure)) return;
      connection_->SetFailed();
      listener_.Notify(failure);
    });
    if (listening.ok()) {
      listening_ = *std::move(listening);
    } else {
      connection_->Forget(listening_call_);
      listener_.Notify(listening.status());
    }
  }

  // Ends the listening thread's call. Sends a request for this, so the service also forgets the
  // call.
  void StopListening() {
    if (!listening_.joinable()) return;
    const bool told =
        connection_->Perform(NewRequest(Request::CANCEL), MonotonicTime::Now() + kGrace).ok();
    if (!told) connection_->Cancel(listening_call_);
    listening_.join();
  }

  const std::shared_ptr<Connection> connection_;
  const int group_;
  std::atomic<uint64_t> incarnation_{0};
  FailureListener listener_;
  uint64_t listening_call_ = 0;
  std::thread listening_;
};

// ---- CoordinationClient -----------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<CoordinationClient>> CoordinationClient::Connect(
    const Options& options, MonotonicTime deadline) {
  std::unique_ptr<CoordinationClient> client(
      new CoordinationClient(std::make_shared<Connection>(options)));
  MF_RETURN_IF_ERROR(client->connection_->Start());
  MF_ASSIGN_OR_RETURN(client->members_, client->connection_->Register(deadline));
  return client;
}

absl::StatusOr<coordination::ClusterStatus> CoordinationClient::GetStatus(const Options& options,
                                                                          MonotonicTime deadline) {
  Options observer = options;
  observer.member.set_worker(kObserver);
  Connection connection(std::move(observer));
  MF_RETURN_IF_ERROR(connection.Start());
  Request request;
  request.set_operation(Request::STATUS);
  MF_ASSIGN_OR_RETURN(const std::string text, connection.Perform(std::move(request), deadline));
  coordination::ClusterStatus status;
  if (!status.ParseFromString(text)) {
    return absl::InternalError("coordination: malformed status");
  }
  return status;
}

std::unique_ptr<WorkerGroup> CoordinationClient::NewGroup() {
  return std::make_unique<Group>(connection_, num_groups_++);
}

bool CoordinationClient::is_stopped() const { return !connection_->stopped().empty(); }

absl::Status CoordinationClient::Leave(MonotonicTime deadline) {
  connection_->StopHeartbeats();
  if (connection_->has_failed())
    deadline = std::min(deadline, MonotonicTime::Now() + kLeaveAfterFailure);
  Request request;
  request.set_operation(Request::LEAVE);
  request.set_name(connection_->stopped());
  return connection_->Perform(std::move(request), deadline).status();
}

}  // namespace mirrorflow
