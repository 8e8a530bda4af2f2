// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/coordination_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/authentication.h"
#include "distribute/cluster/coordination/coordination.grpc.pb.h"
#include "distribute/cluster/coordination/messages.h"
#include "distribute/cluster/coordination/prepare_grpc.h"
#include "distribute/cluster/coordination/tls.h"
#include "distribute/cluster/coordination_state.h"
#include "distribute/cluster/failure_listener.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/thread.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/status_proto.h"

namespace mirrorflow {
namespace {

using coordination::Reply;
using coordination::Request;
using coordination::Signed;

constexpr absl::Duration kFirstRetry = absl::Milliseconds(50);
constexpr absl::Duration kLongestRetry = absl::Milliseconds(500);
constexpr absl::Duration kHelloTimeout = absl::Seconds(2);
constexpr absl::Duration kReportInterval = absl::Seconds(5);
// The others have received the failure, but their answers may be on the way.
constexpr absl::Duration kLeaveAfterFailure = absl::Seconds(1);
// The service answers at a call's deadline; this long after it, the service is considered gone.
constexpr absl::Duration kGrace = absl::Seconds(2);

void SetDeadline(MonotonicTime deadline, grpc::ClientContext* context) {
  context->set_deadline(GrpcDeadline(deadline + kGrace));
}

}  // namespace

// The channel, and the session after registration. Thread-safe.
class CoordinationClient::Connection {
 public:
  explicit Connection(Options options) : options_(std::move(options)) {}
  ~Connection() { StopHeartbeats(); }

  int worker() const { return options_.member.worker(); }
  int num_workers() const { return options_.member.num_workers(); }

  absl::StatusOr<coordination::Membership> Register(MonotonicTime deadline) {
    MF_RETURN_IF_ERROR(PrepareGrpc(/*num_connections=*/1));
    MF_ASSIGN_OR_RETURN(const auto credentials, ClientCredentials(options_.tls));
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);  // the membership of a large cluster
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 500);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMilliseconds);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    if (!options_.tls.empty() && !options_.name.empty()) {
      arguments.SetSslTargetNameOverride(options_.name);
    }
    const std::shared_ptr<grpc::Channel> channel =
        grpc::CreateCustomChannel(options_.coordinator, credentials, arguments);
    stub_ = coordination::Coordination::NewStub(channel);
    const MonotonicTime start = MonotonicTime::Now();
    absl::Duration pause = kFirstRetry;
    MonotonicTime next_report = start + kReportInterval;
    for (int tries = 1;; ++tries) {
      const absl::StatusOr<coordination::Membership> membership = TryRegister(deadline);
      // A service that is about to end cancels calls.
      const bool may_come_back =
          absl::IsUnavailable(membership.status()) || absl::IsCancelled(membership.status());
      if (!may_come_back) return membership;
      const MonotonicTime now = MonotonicTime::Now();
      if (now + pause >= deadline) {
        return absl::DeadlineExceededError(absl::StrCat(
            "cannot reach the coordination service at ", options_.coordinator, " in ",
            absl::FormatDuration(absl::Trunc(now - start, absl::Milliseconds(100))), " and ", tries,
            " tries; expected worker 0, or `mirrorflow coordinator`, to serve it there; last "
            "error: ",
            membership.status().message(), MaybeTls(membership.status())));
      }
      if (options_.log != nullptr && now >= next_report) {
        next_report = now + kReportInterval;
        options_.log(absl::StrCat("waiting for the coordination service at ", options_.coordinator,
                                  "; ", absl::ToInt64Seconds(now - start), " s of ",
                                  absl::ToInt64Seconds(deadline - start), " s; ",
                                  membership.status().message()));
      }
      // Not a sleep: gRPC makes progress with a connection only while a thread waits in it.
      if (channel->WaitForConnected(GrpcDeadline(now + pause))) {
        absl::SleepFor(absl::Milliseconds(1));
      }
      pause = std::min(2 * pause, kLongestRetry);
    }
  }

  // `context` lets another thread cancel the call.
  absl::StatusOr<std::string> Perform(Request request, MonotonicTime deadline,
                                      grpc::ClientContext* context) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      MF_RETURN_IF_ERROR(lost_);
      calls_.insert(context);
    }
    request.set_deadline_ms(MillisecondsUntil(deadline));
    SetDeadline(deadline, context);
    const absl::StatusOr<Signed> answer = Call(kPerform, request.SerializeAsString(), context);
    {
      std::lock_guard<std::mutex> lock(mu_);
      calls_.erase(context);
      if (!answer.ok() && !lost_.ok()) return lost_;
    }
    MF_RETURN_IF_ERROR(answer.status());
    return Open(*answer);
  }
  absl::StatusOr<std::string> Perform(Request request, MonotonicTime deadline) {
    grpc::ClientContext context;
    return Perform(std::move(request), deadline, &context);
  }

  void SetProgress(std::shared_ptr<const RunProgress> progress) {
    std::lock_guard<std::mutex> lock(mu_);
    progress_ = std::move(progress);
  }

  void OnStopRequest(std::function<void(int)> call) {
    std::lock_guard<std::mutex> lock(mu_);
    on_stop_request_ = std::move(call);
    if (on_stop_request_ && stop_request_ != 0) on_stop_request_(stop_request_);
  }
  void SetStopped(std::string why) {
    std::lock_guard<std::mutex> lock(mu_);
    stopped_ = std::move(why);
  }
  std::string stopped() {
    std::lock_guard<std::mutex> lock(mu_);
    return stopped_;
  }

  // A failure of the cluster has been reported by this worker or to it.
  void SetFailed() { failed_ = true; }
  bool has_failed() const { return failed_; }

  void StopHeartbeats() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      over_ = true;
      stop_.notify_all();
    }
    if (heart_.joinable()) heart_.join();
  }

 private:
  // Sends heartbeats until the connection ends. If none is answered in time, the service is gone:
  // ends all calls.
  void SendHeartbeats() {
    const absl::Duration timeout = options_.heartbeat_timeout;
    const absl::Duration interval = std::min(timeout, options_.progress_timeout) / 4;
    MonotonicTime answered = MonotonicTime::Now(), awake = answered;
    std::unique_lock<std::mutex> lock(mu_);
    while (!stop_.wait_for(lock, absl::ToChronoNanoseconds(interval), [&] { return over_; })) {
      // A process that was stopped itself has not listened.
      const MonotonicTime begin = MonotonicTime::Now();
      if (begin - awake > timeout / 2) answered = begin;
      const std::shared_ptr<const RunProgress> progress = progress_;
      lock.unlock();
      const absl::StatusOr<int> beat = SendHeartbeat(progress.get(), answered + timeout);
      lock.lock();
      if (beat.ok() && *beat != 0 && stop_request_ == 0) {
        stop_request_ = *beat;
        if (on_stop_request_) on_stop_request_(stop_request_);
      }
      awake = MonotonicTime::Now();
      const bool was_stopped = awake - begin > 2 * timeout;
      if (beat.ok() || was_stopped) answered = awake;
      if (awake - answered < timeout) continue;
      lost_ = WithFailure(
          absl::UnavailableError(absl::StrCat(
              IsGone(), "no answer from the coordination service at ", options_.coordinator,
              " for ",
              absl::FormatDuration(absl::Trunc(awake - answered, absl::Milliseconds(100))))),
          {.worker = 0});
      for (grpc::ClientContext* const call : calls_) call->TryCancel();
      return;
    }
  }

  // Returns the signal by which the service has been asked to stop all workers, or 0.
  absl::StatusOr<int> SendHeartbeat(const RunProgress* progress, MonotonicTime deadline) {
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
    }
    grpc::ClientContext context;
    context.set_deadline(GrpcDeadline(deadline));
    MF_ASSIGN_OR_RETURN(const Signed answer, Call(kPerform, request.SerializeAsString(), &context));
    MF_ASSIGN_OR_RETURN(const std::string text, Open(answer));
    int signal = 0;
    if (!text.empty() && !absl::SimpleAtoi(text, &signal)) {
      return absl::InternalError("coordination: malformed signal");
    }
    return signal;
  }

  // Both ends of the connection that has ended: perhaps only the network between them has.
  std::string IsGone() const {
    return absl::StrCat(server_, " is gone, says worker ", worker(), ": ");
  }

  std::string IsRefused() const {
    return absl::StrCat("the coordination service at ", options_.coordinator, " refused worker ",
                        worker());
  }

  absl::StatusOr<coordination::Membership> TryRegister(MonotonicTime deadline) {
    coordination::HelloRequest hello;
    hello.set_protocol(kCoordinationProtocol);
    hello.set_worker(worker());
    hello.set_job(options_.job);
    hello.set_client_nonce(RandomBytes(kNonceBytes));
    coordination::HelloReply challenge;
    {
      grpc::ClientContext context;
      context.set_deadline(GrpcDeadline(std::min(deadline, MonotonicTime::Now() + kHelloTimeout)));
      const grpc::Status status = stub_->Hello(&context, hello, &challenge);
      // A service that does not answer may be another program, or one that starts.
      if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
        return absl::UnavailableError(status.error_message());
      }
      if (coordination::Identity service;
          status.error_code() == grpc::StatusCode::FAILED_PRECONDITION &&
          service.ParseFromString(status.error_details())) {
        coordination::Identity own;
        own.set_protocol(hello.protocol());
        own.set_job(hello.job());
        return absl::PermissionDeniedError(
            absl::StrCat(IsRefused(), ": ", DifferenceOf(service, own)));
      }
      MF_RETURN_IF_ERROR(ToStatus(status));
    }
    if (!EqualSecrets(challenge.proof(),
                      ServerProof(options_.secret, hello, challenge.server_nonce()))) {
      return absl::PermissionDeniedError(
          absl::StrCat("the coordination service at ", options_.coordinator,
                       options_.secret.empty() ? " has a secret, and this worker has none"
                                               : " does not know the secret of this worker"));
    }
    session_ = challenge.server_nonce();
    key_ = SessionKey(options_.secret, options_.job, worker(), hello.client_nonce(), session_);
    coordination::RegisterRequest request;
    request.set_client_nonce(hello.client_nonce());
    request.set_deadline_ms(MillisecondsUntil(deadline));
    *request.mutable_member() = options_.member;
    if (options_.heartbeat_timeout < absl::InfiniteDuration()) {
      request.mutable_member()->set_heartbeat_timeout_ms(
          absl::ToInt64Milliseconds(options_.heartbeat_timeout));
    }
    if (options_.progress_timeout < absl::InfiniteDuration()) {
      request.mutable_member()->set_progress_timeout_ms(
          absl::ToInt64Milliseconds(options_.progress_timeout));
    }
    if (options_.prepare_timeout < absl::InfiniteDuration()) {
      request.mutable_member()->set_prepare_timeout_ms(
          absl::ToInt64Milliseconds(options_.prepare_timeout));
    }
    grpc::ClientContext context;
    SetDeadline(deadline, &context);
    MF_ASSIGN_OR_RETURN(const Signed answer,
                        Call(kRegister, request.SerializeAsString(), &context));
    MF_ASSIGN_OR_RETURN(const std::string text, Open(answer));
    coordination::Membership membership;
    if (!membership.ParseFromString(text) || membership.members_size() != num_workers()) {
      return absl::InternalError("coordination: malformed membership");
    }
    server_ = options_.external ? "`mirrorflow coordinator`" : NameOf(membership.members(0));
    registered_ = true;
    if (options_.heartbeat_timeout < absl::InfiniteDuration()) {
      MF_ASSIGN_OR_RETURN(heart_, StartThread("heartbeats", [this] { SendHeartbeats(); }));
    }
    return membership;
  }

  absl::StatusOr<Signed> Call(absl::string_view method, std::string body,
                              grpc::ClientContext* context) {
    Signed request, answer;
    request.set_worker(worker());
    request.set_session(session_);
    request.set_sequence(++sequence_);
    request.set_body(std::move(body));
    Sign(key_, Role::kWorker, method, &request);
    MF_RETURN_IF_ERROR(ToStatus(method == kRegister ? stub_->Register(context, request, &answer)
                                                    : stub_->Perform(context, request, &answer)));
    if (answer.sequence() != request.sequence() ||
        !HasValidMac(key_, Role::kServer, method, answer)) {
      return absl::PermissionDeniedError(absl::StrCat(
          "coordination service at ", options_.coordinator, ": the answer was forged"));
    }
    return answer;
  }

  static absl::StatusOr<std::string> Open(const Signed& answer) {
    Reply reply;
    if (!reply.ParseFromString(answer.body())) {
      return absl::InternalError("coordination: malformed reply");
    }
    MF_RETURN_IF_ERROR(StatusFromProto(reply.status()));
    return std::move(*reply.mutable_value());
  }

  // A service with TLS closes a connection without it.
  absl::string_view MaybeTls(const absl::Status& status) const {
    return options_.tls.empty() && absl::StrContains(status.message(), "Socket closed")
               ? "; perhaps the service expects TLS"
               : "";
  }

  absl::Status ToStatus(const grpc::Status& status) const {
    if (status.ok()) return absl::OkStatus();
    if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
      // A service of an older version does not say why.
      return absl::PermissionDeniedError(absl::StrCat(
          IsRefused(), "; expected the same secret on all workers, or the same job and version"));
    }
    // gRPC tells why it cannot connect only in words. Trying again would not help.
    if (absl::StrContains(status.error_message(), "Ssl handshake failed")) {
      return absl::PermissionDeniedError(absl::StrCat(
          "no TLS connection to the coordination service at ", options_.coordinator,
          "; expected certificates on both sides, signed by the authorities that the other side "
          "knows; got: ",
          status.error_message()));
    }
    const bool is_gone = registered_ && status.error_code() == grpc::StatusCode::UNAVAILABLE;
    return WithFailure(
        absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                     absl::StrCat(is_gone ? IsGone() : "", "coordination service at ",
                                  options_.coordinator, ": ", status.error_message())),
        {.worker = 0});
  }

  const Options options_;
  std::unique_ptr<coordination::Coordination::Stub> stub_;
  // Set before there are other threads:
  std::string session_, key_;
  std::string server_;  // the process that serves the service
  bool registered_ = false;
  std::atomic<uint64_t> sequence_{0};
  std::atomic<bool> failed_{false};

  std::mutex mu_;
  std::condition_variable stop_;
  // Guarded by mu_:
  bool over_ = false;
  absl::Status lost_;                            // the service does not answer any more
  std::set<grpc::ClientContext*> calls_;         // in progress
  std::shared_ptr<const RunProgress> progress_;  // of the latest session
  std::function<void(int)> on_stop_request_;
  int stop_request_ = 0;  // a signal
  std::string stopped_;   // why this worker leaves before its work is done
  std::thread heart_;
};

// ---- the group of a session -------------------------------------------------------------------

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
    if (listening_.joinable()) listening_.join();  // its call ended with the last incarnation
    incarnation_ = incarnation;
    listener_.Reset();
    Listen();
    return incarnation;
  }

  absl::Status Put(absl::string_view key, std::string value, MonotonicTime deadline) override {
    return PutForReaders(key, /*readers=*/0, std::move(value), deadline);
  }
  // A long value is put in parts, the first of them last, under the key itself. It begins with the
  // number of parts.
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
    MF_ASSIGN_OR_RETURN(std::string value, GetPart(key, 0, deadline));
    const size_t space = value.find(' ');
    size_t parts = 0;
    if (space == std::string::npos || !absl::SimpleAtoi(value.substr(0, space), &parts)) {
      return absl::InternalError(absl::StrCat("coordination: malformed value of '", key, "'"));
    }
    value.erase(0, space + 1);
    for (size_t i = 1; i < parts; ++i) {
      MF_ASSIGN_OR_RETURN(const std::string part, GetPart(key, i, deadline));
      value += part;
    }
    return value;
  }

  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view name, std::string value,
                                                     MonotonicTime deadline) override {
    if (value.size() > kMaxValueBytes) {
      return absl::InvalidArgumentError(absl::StrCat("all-gather '", name, "': expected at most ",
                                                     kMaxValueBytes, " bytes of each worker, got ",
                                                     value.size()));
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
    // If the service is gone, a peer has closed its connection because of that.
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

  absl::StatusOr<std::string> GetPart(absl::string_view key, size_t part, MonotonicTime deadline) {
    Request request = NewRequest(Request::GET);
    request.set_name(PartOf(key, part));
    return connection_->Perform(std::move(request), deadline);
  }

  void Listen() {
    context_ = std::make_unique<grpc::ClientContext>();
    absl::StatusOr<std::thread> listening = StartThread("failures of other workers", [this] {
      const absl::Status failure = connection_
                                       ->Perform(NewRequest(Request::WAIT_FOR_FAILURE),
                                                 MonotonicTime::InfiniteFuture(), context_.get())
                                       .status();
      if (failure.ok() || absl::IsCancelled(failure)) return;
      connection_->SetFailed();
      listener_.Notify(failure);
    });
    if (listening.ok()) {
      listening_ = *std::move(listening);
    } else {
      listener_.Notify(listening.status());
    }
  }

  // Ends the call of the listening thread by a request, because the service would take a cancelled
  // call for the end of this worker.
  void StopListening() {
    if (!listening_.joinable()) return;
    const bool told =
        connection_->Perform(NewRequest(Request::CANCEL), MonotonicTime::Now() + kGrace).ok();
    if (!told) context_->TryCancel();
    listening_.join();
  }

  const std::shared_ptr<Connection> connection_;
  const int group_;
  std::atomic<uint64_t> incarnation_{0};
  FailureListener listener_;
  std::unique_ptr<grpc::ClientContext> context_;  // of the listening thread's call
  std::thread listening_;
};

// ---- CoordinationClient -----------------------------------------------------------------------

CoordinationClient::CoordinationClient(std::shared_ptr<Connection> connection)
    : connection_(std::move(connection)) {}
CoordinationClient::~CoordinationClient() = default;

absl::StatusOr<std::unique_ptr<CoordinationClient>> CoordinationClient::Connect(
    const Options& options, MonotonicTime deadline) {
  std::unique_ptr<CoordinationClient> client(
      new CoordinationClient(std::make_shared<Connection>(options)));
  MF_ASSIGN_OR_RETURN(const coordination::Membership membership,
                      client->connection_->Register(deadline));
  client->members_ = {membership.members().begin(), membership.members().end()};
  return client;
}

std::unique_ptr<WorkerGroup> CoordinationClient::NewGroup() {
  return std::make_unique<Group>(connection_, num_groups_++);
}

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
