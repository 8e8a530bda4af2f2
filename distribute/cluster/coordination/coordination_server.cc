// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/coordination_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "distribute/cluster/coordination/authentication.h"
#include "distribute/cluster/coordination/coordination.grpc.pb.h"
#include "distribute/cluster/coordination/messages.h"
#include "distribute/cluster/coordination/tls.h"
#include "distribute/cluster/coordination_state.h"
#include "distribute/cluster/host_port.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/status_proto.h"

namespace mirrorflow {
namespace {

using coordination::Request;
using coordination::Signed;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

constexpr absl::Duration kTick = absl::Milliseconds(20);  // how late a deadline may be noticed
constexpr absl::Duration kNonceLifetime = absl::Seconds(30);
constexpr absl::Duration kShutdownTimeout = absl::Seconds(1);
constexpr absl::Duration kLogInterval = absl::Minutes(1);      // of one peer
constexpr absl::Duration kWaitingInterval = absl::Seconds(5);  // between reports of missing workers
constexpr size_t kMaxLoggedPeers = 256;
constexpr uint64_t kSequenceWindow = 1024;
constexpr int kMaxGroups = 4096;
// How long a difference between workers is remembered for those that start later.
constexpr absl::Duration kMismatchLifetime = absl::Milliseconds(1500);
constexpr size_t kBytesForConnections = size_t{256} << 20;

// Why this process cannot listen on HOST:PORT, which gRPC does not tell; empty if it can.
std::string ReasonNotToListen(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return "";
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(parsed->port);
  if (const int error = getaddrinfo(parsed->host.c_str(), port.c_str(), &hints, &found)) {
    return absl::StrCat(": ", gai_strerror(error));
  }
  const absl::Cleanup free_addresses = [found] { freeaddrinfo(found); };
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const absl::Cleanup close_socket = [fd] { close(fd); };
  const int on = 1;  // as gRPC does, to ignore connections that have just ended
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd, found->ai_addr, found->ai_addrlen) == 0) return "";
  return absl::StrCat(": ", std::strerror(errno));
}

// Raises the limit on open files, of which each connection takes one, as far as this process may.
void UseAllFileDescriptors() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// A call whose answer may come later, from any thread.
class Call final : public ServerUnaryReactor {
 public:
  explicit Call(Signed* reply) : reply_(reply) {}

  Signed* reply() const { return reply_; }
  // `call` runs if the client goes away before the call is answered. Call before that can happen:
  // in the handler that creates this object.
  void OnLost(std::function<void()> call) { on_lost_ = std::move(call); }

 private:
  void OnCancel() override {
    if (on_lost_) on_lost_();
  }
  void OnDone() override { delete this; }

  Signed* const reply_;
  std::function<void()> on_lost_;
};

// A worker that has registered.
struct Registered {
  coordination::Member member;
  std::string session;
  std::string key;
  std::set<uint64_t> sequences;  // the latest
};

class Server final : public CoordinationServer, public coordination::Coordination::CallbackService {
 public:
  explicit Server(Options options)
      : options_(std::move(options)),
        server_key_(RandomBytes(kNonceBytes)),
        registration_(options_.num_workers),
        leaving_(options_.num_workers) {}

  ~Server() override {
    WaitForLateWorkers();
    // If worker 0 gives up, the others learn why, or which workers it has waited for.
    const absl::Status timeout = Timeout();
    registration_.Fail(
        timeout.ok() ? WithFailure(absl::UnavailableError("the coordination service has ended "
                                                          "before all workers had registered"),
                                   {.worker = 0})
                     : timeout);
    SetState(
        State::kStopping);  // the ticker ends all other calls, for whose answers Shutdown waits
    if (server_ != nullptr) {
      server_->Shutdown(absl::ToChronoTime(absl::Now() + kShutdownTimeout));
    }
    SetState(State::kStopped);
    if (ticker_.joinable()) ticker_.join();
  }

  absl::Status Listen() {
    grpc::ServerBuilder builder;
    MF_ASSIGN_OR_RETURN(const auto credentials, ServerCredentials(options_.tls));
    builder.AddListeningPort(options_.address, credentials, &port_);
    builder.RegisterService(this);
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    // Strangers can neither take all memory nor stay: a worker always has a call in flight.
    builder.SetResourceQuota(
        grpc::ResourceQuota("coordination").Resize(kBytesForConnections).SetMaxThreads(64));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 10000);
    UseAllFileDescriptors();
    // A second server on the port is an error, not a silent share of its connections.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5000);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8192);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      return absl::UnavailableError(absl::StrCat(
          options_.address, ": cannot listen on this address", ReasonNotToListen(options_.address),
          "; expected an address of this host with a port that no other process uses"));
    }
    started_ = absl::Now();
    ticker_ = std::thread([this] { Tick(); });
    return absl::OkStatus();
  }

  int port() const override { return port_; }

  absl::Status WaitUntilOver(absl::Time start_deadline) override {
    std::unique_lock<std::mutex> lock(mu_);
    const auto is_complete = [&] { return complete_; };
    if (start_deadline == absl::InfiniteFuture()) {
      over_.wait(lock, is_complete);
    } else if (!over_.wait_until(lock, absl::ToChronoTime(start_deadline), is_complete)) {
      return absl::DeadlineExceededError(WaitingText(absl::Now()));
    }
    over_.wait(lock, [&] {
      const auto has_left = [&](const auto& member) { return HasLeft(member.first); };
      return std::all_of(members_.begin(), members_.end(), has_left);
    });
    for (const auto& [worker, why] : left_) {
      if (absl::IsUnavailable(why)) return why;
    }
    return absl::OkStatus();
  }

  // ---- handlers -------------------------------------------------------------------------------

  ServerUnaryReactor* Hello(CallbackServerContext* context,
                            const coordination::HelloRequest* request,
                            coordination::HelloReply* reply) override {
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    if (request->protocol() != kCoordinationProtocol || request->job() != options_.job ||
        request->client_nonce().size() != kNonceBytes) {
      reactor->Finish(Refuse(context->peer(), "another protocol or job"));
      return reactor;
    }
    const std::string time = absl::StrCat(absl::ToUnixSeconds(absl::Now()));
    reply->set_server_nonce(
        absl::StrCat(time, " ", NonceProof(time, request->worker(), request->client_nonce())));
    reply->set_proof(ServerProof(options_.secret, *request, reply->server_nonce()));
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  ServerUnaryReactor* Register(CallbackServerContext* context, const Signed* request,
                               Signed* reply) override {
    Call* const call = new Call(reply);
    coordination::RegisterRequest body;
    if (!body.ParseFromString(request->body()) ||
        !IsOwnNonce(request->session(), request->worker(), body.client_nonce())) {
      call->Finish(Refuse(context->peer(), "no valid Hello before its registration"));
      return call;
    }
    const std::string key = SessionKey(options_.secret, options_.job, request->worker(),
                                       body.client_nonce(), request->session());
    if (!HasValidMac(key, Role::kWorker, kRegister, *request) ||
        body.member().worker() != request->worker()) {
      call->Finish(Refuse(context->peer(), "it does not know the secret"));
      return call;
    }
    const int worker = request->worker();
    reply->set_sequence(request->sequence());
    const auto finish = [this, call, key, worker,
                         session = request->session()](absl::StatusOr<std::string> result) {
      coordination::Reply answer;
      if (absl::IsDeadlineExceeded(result.status())) SetTimeout(result.status());
      const absl::Status mismatch = Mismatch();
      if (!mismatch.ok() || !result.ok()) Forget(worker, session, mismatch);
      *answer.mutable_status() = StatusToProto(mismatch.ok() ? result.status() : mismatch);
      if (mismatch.ok() && result.ok()) answer.set_value(MembershipText());
      FinishSigned(call, key, kRegister, answer);
    };
    const absl::Status admitted =
        Admit(context->peer(), {body.member(), request->session(), key, {}});
    if (!admitted.ok()) {
      // A difference between workers ends the registration of all.
      if (const absl::Status mismatch = Mismatch(); !mismatch.ok()) registration_.Fail(mismatch);
      finish(admitted);
    } else {
      call->OnLost([this, worker] { Lose(worker); });
      registration_.Join(worker, DeadlineIn(body.deadline_ms()), finish);
    }
    return call;
  }

  ServerUnaryReactor* Perform(CallbackServerContext* context, const Signed* request,
                              Signed* reply) override {
    Call* const call = new Call(reply);
    Request body;
    const absl::StatusOr<std::string> key = Authenticate(*request);
    if (!key.ok() || !body.ParseFromString(request->body())) {
      call->Finish(
          Refuse(context->peer(), key.ok() ? "a malformed request" : key.status().message()));
      return call;
    }
    reply->set_sequence(request->sequence());
    Perform(call, request->worker(), body,
            [this, call, key = *key](absl::StatusOr<std::string> result) {
              coordination::Reply answer;
              *answer.mutable_status() = StatusToProto(result.status());
              if (result.ok()) answer.set_value(*std::move(result));
              FinishSigned(call, key, kPerform, answer);
            });
    return call;
  }

 private:
  enum class State { kServing, kStopping, kStopped };
  void SetState(State state) {
    std::lock_guard<std::mutex> lock(mu_);
    state_ = state;
    stop_.notify_all();
  }

  void Perform(Call* call, int worker, const Request& body, CoordinationState::Done done) {
    const absl::Time deadline = DeadlineIn(body.deadline_ms());
    if (body.operation() == Request::LEAVE) return Leave(worker, deadline, std::move(done));
    CoordinationState* const group = GroupOf(body.group());
    if (group == nullptr) {
      done(absl::InvalidArgumentError(absl::StrCat("group out of range; expected 0 to ",
                                                   kMaxGroups - 1, ", got ", body.group())));
      return;
    }
    const uint64_t incarnation = body.incarnation();
    switch (body.operation()) {
      case Request::JOIN:
        return group->Join(worker, deadline, std::move(done));
      case Request::PUT:
        return done(ToResult(group->Put(worker, incarnation, body.name(), body.value())));
      case Request::GET:
        return group->Get(worker, incarnation, body.name(), deadline, std::move(done));
      case Request::BARRIER:
        return group->Barrier(worker, incarnation, body.name(), deadline, std::move(done));
      case Request::REPORT_FAILURE:
        // The first failure is the answer, not an error of the call.
        return done(
            StatusToProto(group->ReportFailure(incarnation, StatusFromProto(body.failure())))
                .SerializeAsString());
      case Request::WAIT_FOR_FAILURE:
        call->OnLost([this, worker] { Lose(worker); });
        return group->WaitForFailure(worker, incarnation, std::move(done));
      case Request::CANCEL:
        group->Cancel(worker);
        return done("");
      default:
        return done(absl::UnimplementedError(
            absl::StrCat("unknown operation ", static_cast<int>(body.operation()))));
    }
  }

  static absl::StatusOr<std::string> ToResult(const absl::Status& status) {
    if (!status.ok()) return status;
    return std::string();
  }

  void FinishSigned(Call* call, const std::string& key, absl::string_view method,
                    const coordination::Reply& answer) {
    call->reply()->set_body(answer.SerializeAsString());
    Sign(key, Role::kServer, method, call->reply());
    call->Finish(grpc::Status::OK);
  }

  // ---- who may call ---------------------------------------------------------------------------

  std::string NonceProof(absl::string_view time, int worker, absl::string_view client_nonce) const {
    return Hmac(server_key_, {time, absl::StrCat(worker), client_nonce});
  }

  bool IsOwnNonce(absl::string_view nonce, int worker, absl::string_view client_nonce) const {
    const size_t space = nonce.find(' ');
    int64_t seconds = 0;
    if (space == absl::string_view::npos || !absl::SimpleAtoi(nonce.substr(0, space), &seconds)) {
      return false;
    }
    const absl::Duration age = absl::Now() - absl::FromUnixSeconds(seconds);
    return age < kNonceLifetime && age > -kNonceLifetime &&
           EqualSecrets(nonce.substr(space + 1),
                        NonceProof(nonce.substr(0, space), worker, client_nonce));
  }

  absl::Status Admit(const std::string& peer, Registered candidate) {
    std::lock_guard<std::mutex> lock(mu_);
    const coordination::Member& member = candidate.member;
    const int worker = member.worker();
    const auto differ = [&](absl::string_view what, auto own, auto other) {
      if (mismatch_.ok()) {
        mismatch_time_ = absl::Now();
        mismatch_ = WithFailure(
            absl::InvalidArgumentError(absl::StrCat(
                "workers differ; worker ", members_.empty() ? 0 : members_.begin()->first, " has `",
                what, " = ", own, "`, worker ", worker, " has `", what, " = ", other, "`")),
            {.worker = worker});
      }
      return mismatch_;
    };
    // Later, these are workers that have been started again.
    if (members_.empty() && absl::Now() > mismatch_time_ + kMismatchLifetime) {
      mismatch_ = absl::OkStatus();
      know_mismatch_.clear();
    }
    if (!mismatch_.ok()) return mismatch_;
    if (member.num_workers() != options_.num_workers) {
      return differ("number of workers", options_.num_workers, member.num_workers());
    }
    if (worker < 0 || worker >= options_.num_workers) {
      return absl::InvalidArgumentError(
          absl::StrCat("worker ", worker, ": expected 0 to ", options_.num_workers - 1));
    }
    const auto present = members_.find(worker);
    if (present != members_.end()) {
      Log(peer, absl::StrCat("refused a second worker ", worker));
      return absl::AlreadyExistsError(absl::StrCat(
          "worker ", worker, " has already registered, from ", present->second.member.host(),
          " (process ", present->second.member.pid(), "); expected one process for each worker"));
    }
    if (!members_.empty()) {
      const auto& first = members_.begin()->second.member.settings();
      for (int i = 0; i < std::max(first.size(), member.settings_size()); ++i) {
        const coordination::Setting own = i < first.size() ? first[i] : coordination::Setting();
        const coordination::Setting other =
            i < member.settings_size() ? member.settings(i) : coordination::Setting();
        if (own.name() != other.name()) return differ("setting", own.name(), other.name());
        if (own.value() != other.value()) return differ(own.name(), own.value(), other.value());
      }
    }
    members_.emplace(worker, std::move(candidate));
    complete_ = complete_ || static_cast<int>(members_.size()) == options_.num_workers;
    if (complete_) over_.notify_all();
    return absl::OkStatus();
  }

  // Frees the place of a worker whose registration has failed, so that it can start again.
  void Forget(int worker, const std::string& session, const absl::Status& mismatch) {
    std::lock_guard<std::mutex> lock(mu_);
    const auto found = members_.find(worker);
    if (found != members_.end() && found->second.session == session) members_.erase(found);
    if (mismatch.ok()) return;
    know_mismatch_.insert(worker);
    over_.notify_all();
  }

  // Workers that start a moment later learn of the mismatch, too, instead of finding no service.
  void WaitForLateWorkers() {
    std::unique_lock<std::mutex> lock(mu_);
    if (mismatch_.ok()) return;
    over_.wait_until(lock, absl::ToChronoTime(mismatch_time_ + kMismatchLifetime), [&] {
      return static_cast<int>(know_mismatch_.size()) == options_.num_workers;
    });
  }

  // Returns the key of the session.
  absl::StatusOr<std::string> Authenticate(const Signed& request) {
    std::lock_guard<std::mutex> lock(mu_);
    const auto found = members_.find(request.worker());
    if (found == members_.end() || found->second.session != request.session() ||
        !HasValidMac(found->second.key, Role::kWorker, kPerform, request)) {
      return absl::UnauthenticatedError("a request of no session");
    }
    std::set<uint64_t>& sequences = found->second.sequences;
    const bool too_old =
        sequences.size() >= kSequenceWindow && request.sequence() < *sequences.begin();
    if (too_old || !sequences.insert(request.sequence()).second) {
      return absl::UnauthenticatedError("a request that was made before");
    }
    if (sequences.size() > kSequenceWindow) sequences.erase(sequences.begin());
    return found->second.key;
  }

  grpc::Status Refuse(const std::string& peer, absl::string_view why) {
    std::lock_guard<std::mutex> lock(mu_);
    Log(peer, absl::StrCat("refused a caller: ", why));
    return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "refused");
  }

  // Logs at most one line a minute for each host. REQUIRES: mu_.
  void Log(const std::string& peer, absl::string_view what) {
    const std::string host = peer.substr(0, peer.rfind(':'));  // without the port
    const absl::Time now = absl::Now();
    if (logged_.size() >= kMaxLoggedPeers && !logged_.contains(host)) logged_.clear();
    absl::Time& last = logged_.try_emplace(host, absl::InfinitePast()).first->second;
    if (now - last < kLogInterval || options_.log == nullptr) return;
    last = now;
    options_.log(absl::StrCat("coordination: ", Printable(peer), ": ", what));
  }

  // ---- the cluster ----------------------------------------------------------------------------

  absl::Status Mismatch() {
    std::lock_guard<std::mutex> lock(mu_);
    return mismatch_;
  }

  absl::Status Timeout() {
    std::lock_guard<std::mutex> lock(mu_);
    return timeout_;
  }
  void SetTimeout(const absl::Status& timeout) {
    std::lock_guard<std::mutex> lock(mu_);
    timeout_ = timeout;
  }

  std::string MembershipText() {
    std::lock_guard<std::mutex> lock(mu_);
    coordination::Membership membership;
    for (const auto& [worker, registered] : members_) {
      *membership.add_members() = registered.member;
    }
    return membership.SerializeAsString();
  }

  CoordinationState* GroupOf(int number) {
    if (number < 0 || number >= kMaxGroups) return nullptr;
    std::lock_guard<std::mutex> lock(mu_);
    std::unique_ptr<CoordinationState>& group = groups_[number];
    if (group == nullptr) {
      group = std::make_unique<CoordinationState>(options_.num_workers);
      for (const auto& [worker, why] : left_) group->Leave(worker, why);
    }
    return group.get();
  }

  std::vector<CoordinationState*> Groups() {
    std::lock_guard<std::mutex> lock(mu_);
    std::vector<CoordinationState*> groups;
    for (const auto& [number, group] : groups_) groups.push_back(group.get());
    return groups;
  }

  // Worker 0 waits until the others have left or are gone: it may serve this service for them. The
  // others need not wait.
  void Leave(int worker, absl::Time deadline, CoordinationState::Done done) {
    const absl::Status why =
        WithFailure(absl::FailedPreconditionError(absl::StrCat(
                        "worker ", worker,
                        " has left the cluster; expected all workers to run the same steps")),
                    {.worker = worker});
    {
      std::lock_guard<std::mutex> lock(mu_);
      left_.emplace_back(worker, why);
    }
    over_.notify_all();
    for (CoordinationState* const group : Groups()) group->Leave(worker, why);
    if (worker == 0) return leaving_.Join(worker, deadline, std::move(done));
    leaving_.Join(worker, absl::InfiniteFuture(), [](const auto&) {});
    done("");
  }

  // The process of the worker is gone, or the network between it and this process.
  void Lose(int worker) {
    absl::Status why;
    bool complete = false;
    {
      std::lock_guard<std::mutex> lock(mu_);
      complete = complete_;
      const auto found = members_.find(worker);
      if (found == members_.end()) return;
      if (HasLeft(worker)) return;
      why = WithFailure(absl::UnavailableError(absl::StrCat(
                            "worker ", worker, " (process ", found->second.member.pid(), " on ",
                            found->second.member.host(),
                            ") is gone: its connection to the coordination service "
                            "has ended")),
                        {.worker = worker});
      members_.erase(found);
      // Until all workers have registered, it may start again.
      if (complete) left_.emplace_back(worker, why);
    }
    over_.notify_all();
    EndCallsOf(worker);
    if (complete) leaving_.Join(worker, absl::InfiniteFuture(), [](const auto&) {});
    for (CoordinationState* const group : Groups()) {
      group->Fail(why);
      if (complete) group->Leave(worker, why);
    }
  }

  void EndCallsOf(int worker) {
    registration_.Cancel(worker);
    leaving_.Cancel(worker);
    for (CoordinationState* const group : Groups()) group->Cancel(worker);
  }

  // Ends calls at their deadlines, and reports missing workers.
  void Tick() {
    absl::Time next_report = started_ + kWaitingInterval;
    std::unique_lock<std::mutex> lock(mu_);
    while (!stop_.wait_for(lock, absl::ToChronoNanoseconds(kTick),
                           [&] { return state_ == State::kStopped; })) {
      const absl::Time now = absl::Now();
      const bool stopping = state_ == State::kStopping;
      if (now >= next_report && static_cast<int>(members_.size()) < options_.num_workers &&
          !complete_ && options_.log != nullptr) {
        next_report = now + kWaitingInterval;
        options_.log(WaitingText(now));
      }
      lock.unlock();
      registration_.Expire(now);
      leaving_.Expire(now);
      for (CoordinationState* const group : Groups()) group->Expire(now);
      for (int w = 0; stopping && w < options_.num_workers; ++w) EndCallsOf(w);
      lock.lock();
    }
  }

  // REQUIRES: mu_.
  bool HasLeft(int worker) const {
    return std::any_of(left_.begin(), left_.end(),
                       [&](const auto& left) { return left.first == worker; });
  }

  // REQUIRES: mu_.
  std::string WaitingText(absl::Time now) const {
    std::vector<std::string> missing;
    for (int w = 0; w < options_.num_workers; ++w) {
      if (members_.contains(w)) continue;
      const bool known = w < static_cast<int>(options_.worker_addresses.size());
      missing.push_back(known ? absl::StrCat(w, " (", options_.worker_addresses[w], ")")
                              : absl::StrCat(w));
    }
    return absl::StrCat("waiting for workers: ", members_.size(), "/", options_.num_workers,
                        " joined; missing worker ", absl::StrJoin(missing, ", "), "; ",
                        absl::ToInt64Seconds(now - started_), " s");
  }

  const Options options_;
  const std::string server_key_;
  int port_ = 0;
  absl::Time started_;
  CoordinationState registration_;
  CoordinationState leaving_;
  std::mutex mu_;
  std::condition_variable stop_, over_;
  // Guarded by mu_:
  State state_ = State::kServing;
  bool complete_ = false;  // all workers have registered
  std::map<int, Registered> members_;
  // The workers that have left or are gone, in this order, and why.
  std::vector<std::pair<int, absl::Status>> left_;
  absl::Status mismatch_;  // the first difference between workers
  absl::Time mismatch_time_ = absl::InfinitePast();
  std::set<int> know_mismatch_;  // the workers that have received it
  absl::Status timeout_;         // of the last registration that has waited too long
  std::map<int, std::unique_ptr<CoordinationState>> groups_;
  std::map<std::string, absl::Time> logged_;  // by host: its last line in the log

  std::thread ticker_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinationServer>> CoordinationServer::Start(
    const Options& options) {
  auto server = std::make_unique<Server>(options);
  MF_RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace mirrorflow
