// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/coordination_server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/authentication.h"
#include "distribute/cluster/connections/stranger_log.h"
#include "distribute/cluster/coordination/coordination.grpc.pb.h"
#include "distribute/cluster/coordination/listen.h"
#include "distribute/cluster/coordination/membership.h"
#include "distribute/cluster/coordination/messages.h"
#include "distribute/cluster/coordination/suspicions.h"
#include "distribute/cluster/coordination_state.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/thread.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/status_proto.h"

namespace mirrorflow {
namespace {

using coordination::Request;
using coordination::Signed;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

constexpr absl::Duration kTick = absl::Milliseconds(20);  // how late a deadline may be noticed
// A longer pause between ticks means that this process was stopped.
constexpr absl::Duration kLongestPause = absl::Milliseconds(500);
constexpr absl::Duration kShutdownTimeout = absl::Seconds(1);
constexpr absl::Duration kWaitingInterval = absl::Seconds(5);  // between reports of missing workers
constexpr absl::Duration kListenRetry = absl::Milliseconds(250);
constexpr int kMaxGroups = 4096;
constexpr size_t kMaxJobInDetails = 1000;  // gRPC limits the details of an error

// Random, because processes of an earlier cluster may still be there and count as well.
uint64_t RandomIncarnation() {
  const std::string bytes = RandomBytes(sizeof(uint32_t));
  uint32_t incarnation = 0;
  std::memcpy(&incarnation, bytes.data(), sizeof incarnation);
  return incarnation;
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

class Server final : public CoordinationServer, public coordination::Coordination::CallbackService {
 public:
  explicit Server(Options options)
      : options_(std::move(options)),
        strangers_("coordination", options_.log),
        membership_(options_.num_workers, options_.worker_addresses),
        registration_(options_.num_workers),
        leaving_(options_.num_workers) {}

  ~Server() override {
    membership_.WaitUntilMismatchIsKnown();
    // If worker 0 gives up, the others learn why, or which workers it has waited for.
    const absl::Status timeout = membership_.timeout();
    registration_.Fail(
        timeout.ok() ? WithFailure(absl::UnavailableError("the coordination service has ended "
                                                          "before all workers had registered"),
                                   {.worker = 0})
                     : timeout);
    SetState(
        State::kStopping);  // the ticker ends all other calls, for whose answers Shutdown waits
    listening_.listener = nullptr;
    if (listening_.server != nullptr) {
      listening_.server->Shutdown(GrpcDeadline(MonotonicTime::Now() + kShutdownTimeout));
    }
    SetState(State::kStopped);
    if (ticker_.joinable()) ticker_.join();
  }

  absl::Status Start() {
    MF_ASSIGN_OR_RETURN(
        listening_,
        Listen(
            options_.address, options_.num_workers, options_.tls, this,
            [this](const std::string& peer) { strangers_.Connected(peer); },
            [this](const absl::Status& why) { strangers_.Log(options_.address, why.message()); }));
    MF_ASSIGN_OR_RETURN(ticker_, StartThread("coordination", [this] { Tick(); }));
    return absl::OkStatus();
  }

  int port() const override { return listening_.listener->port(); }

  void RequestStop(int signal) override {
    stop_signal_ = signal;
    membership_.CancelStart();
  }

  absl::Status WaitUntilOver(MonotonicTime start_deadline) override {
    const absl::Status over = membership_.WaitUntilOver(start_deadline);
    if (absl::IsDeadlineExceeded(over) || absl::IsCancelled(over)) return over;
    for (CoordinationState* const group : Groups()) {
      const absl::Status failure = group->failure();
      if (!failure.ok()) return absl::UnavailableError(failure.message());
    }
    return over;
  }

  // ---- handlers -------------------------------------------------------------------------------

  ServerUnaryReactor* Hello(CallbackServerContext* context,
                            const coordination::HelloRequest* request,
                            coordination::HelloReply* reply) override {
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    strangers_.Called(context->peer());
    coordination::Identity own, worker;
    own.set_protocol(kCoordinationProtocol);
    own.set_job(options_.job);
    worker.set_protocol(request->protocol());
    worker.set_job(request->job());
    if (const std::string difference = DifferenceOf(own, worker); !difference.empty()) {
      strangers_.Log(context->peer(), absl::StrCat("refused a caller: ", difference));
      own.set_job(options_.job.substr(0, kMaxJobInDetails));
      reactor->Finish(
          grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, difference, own.SerializeAsString()));
      return reactor;
    }
    if (request->client_nonce().size() != kNonceBytes) {
      reactor->Finish(Refuse(context->peer(), "a malformed hello"));
      return reactor;
    }
    reply->set_server_nonce(nonces_.Issue(request->worker(), request->client_nonce()));
    reply->set_proof(ServerProof(options_.secret, *request, reply->server_nonce()));
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  ServerUnaryReactor* Register(CallbackServerContext* context, const Signed* request,
                               Signed* reply) override {
    Call* const call = new Call(reply);
    strangers_.Called(context->peer());
    coordination::RegisterRequest body;
    if (!body.ParseFromString(request->body()) ||
        !nonces_.HasIssued(request->session(), request->worker(), body.client_nonce())) {
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
      const absl::Status mismatch = membership_.mismatch();
      const absl::Status registered = mismatch.ok() ? result.status() : mismatch;
      coordination::Reply answer;
      *answer.mutable_status() = StatusToProto(registered);
      if (registered.ok()) {
        answer.set_value(membership_.members().SerializeAsString());
      } else {
        membership_.Forget(worker, session, registered);
      }
      FinishSigned(call, key, kRegister, answer);
    };
    const absl::Status admitted = membership_.Admit({body.member(), request->session(), key});
    if (!admitted.ok()) {
      if (absl::IsAlreadyExists(admitted)) {
        strangers_.Log(context->peer(), absl::StrCat("refused a second worker ", worker));
      }
      // A difference between workers ends the registration of all.
      const absl::Status mismatch = membership_.mismatch();
      if (!mismatch.ok()) registration_.Fail(mismatch);
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
    strangers_.Called(context->peer());
    Request body;
    const absl::StatusOr<std::string> key = membership_.Authenticate(*request);
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
    const MonotonicTime deadline = DeadlineIn(body.deadline_ms());
    if (body.operation() == Request::LEAVE) {
      return Leave(worker, body.name(), deadline, std::move(done));
    }
    if (body.operation() == Request::HEARTBEAT) {
      membership_.Beat(worker, body.heartbeat());
      const int signal = stop_signal_;
      return done(signal == 0 ? "" : absl::StrCat(signal));
    }
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
        return done(ToResult(group->Put(worker, incarnation, body.name(), body.value(),
                                        std::max(body.readers(), 0))));
      case Request::GET:
        return group->Get(worker, incarnation, body.name(), deadline, std::move(done));
      case Request::ALL_GATHER:
        return group->AllGather(worker, incarnation, body.name(), body.value(), deadline,
                                std::move(done));
      case Request::REPORT_FAILURE:
        return ReportFailure(group, incarnation, StatusFromProto(body.failure()), std::move(done));
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

  // The first failure is the answer, not an error of the call.
  void ReportFailure(CoordinationState* group, uint64_t incarnation, const absl::Status& failure,
                     CoordinationState::Done done) {
    if (absl::IsDeadlineExceeded(failure) || absl::IsUnavailable(failure)) {
      return suspicions_.Add(group, incarnation, failure, std::move(done));
    }
    done(StatusToProto(group->ReportFailure(incarnation, failure)).SerializeAsString());
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

  grpc::Status Refuse(const std::string& peer, absl::string_view why) {
    strangers_.Log(peer, absl::StrCat("refused a caller: ", why));
    return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "refused");
  }

  // ---- the cluster ----------------------------------------------------------------------------

  CoordinationState* GroupOf(int number) {
    if (number < 0 || number >= kMaxGroups) return nullptr;
    std::lock_guard<std::mutex> lock(mu_);
    std::unique_ptr<CoordinationState>& group = groups_[number];
    if (group == nullptr) {
      group = std::make_unique<CoordinationState>(options_.num_workers, RandomIncarnation());
      for (const auto& [worker, why] : membership_.left()) group->Leave(worker, why);
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
  // others need not wait. `stopped`: why it has not done its work; empty if it has.
  void Leave(int worker, absl::string_view stopped, MonotonicTime deadline,
             CoordinationState::Done done) {
    const std::string left = absl::StrCat("worker ", worker, " has left the cluster");
    const absl::Status why =
        WithFailure(stopped.empty() ? absl::FailedPreconditionError(absl::StrCat(
                                          left, "; expected all workers to run the same steps"))
                                    : absl::UnavailableError(absl::StrCat(left, ": ", stopped)),
                    {.worker = worker});
    membership_.Leave(worker, why);
    for (CoordinationState* const group : Groups()) group->Leave(worker, why);
    if (worker == 0) return leaving_.Join(worker, deadline, std::move(done));
    leaving_.Join(worker, MonotonicTime::InfiniteFuture(), [](const auto&) {});
    done("");
  }

  // The process of the worker is gone, or the network between it and this process.
  void Lose(int worker) { End(worker, membership_.Lose(worker)); }

  void End(int worker, const std::optional<Membership::Loss>& loss) {
    if (!loss.has_value()) return;
    // Its own calls get the reason, too: it may only have been stopped, and must not go on.
    for (CoordinationState* const group : Groups()) {
      group->Fail(loss->why);
      if (loss->is_final) group->Leave(worker, loss->why);
    }
    EndCallsOf(worker);
    if (loss->is_final) leaving_.Join(worker, MonotonicTime::InfiniteFuture(), [](const auto&) {});
  }

  void EndCallsOf(int worker) {
    registration_.Cancel(worker);
    leaving_.Cancel(worker);
    for (CoordinationState* const group : Groups()) group->Cancel(worker);
  }

  // Ends calls at their deadlines, and reports missing workers.
  void Tick() {
    MonotonicTime next_report = MonotonicTime::Now() + kWaitingInterval,
                  last = MonotonicTime::Now();
    std::unique_lock<std::mutex> lock(mu_);
    while (!stop_.wait_for(lock, absl::ToChronoNanoseconds(kTick),
                           [&] { return state_ == State::kStopped; })) {
      const MonotonicTime now = MonotonicTime::Now();
      const absl::Duration pause = now - std::exchange(last, now);
      if (pause > kLongestPause) membership_.ForgiveSilence(pause);
      const bool stopping = state_ == State::kStopping;
      lock.unlock();
      if (now >= next_report) {
        next_report = now + kWaitingInterval;
        const std::string missing = membership_.WaitingText(now);
        if (!missing.empty() && options_.log != nullptr) options_.log(missing);
      }
      for (const int worker : membership_.SilentWorkers(now)) {
        End(worker, membership_.LoseSilent(worker, now));
      }
      const std::string slow = membership_.SlowWorkerText(now);
      if (!slow.empty() && options_.log != nullptr) options_.log(slow);
      std::set<int> waiting;
      for (CoordinationState* const group : Groups()) group->AddWaiting(&waiting);
      const std::string late = membership_.LateWorkerText(now, waiting);
      if (!late.empty() && options_.log != nullptr) options_.log(late);
      const absl::Status standstill = membership_.Standstill(now, waiting);
      if (!standstill.ok()) {
        for (CoordinationState* const group : Groups()) {
          suspicions_.Add(group, group->incarnation(), standstill, [](const auto&) {});
        }
      }
      suspicions_.Decide(membership_, stopping ? MonotonicTime::InfiniteFuture() : now);
      strangers_.LogSilent(now);
      registration_.Expire(now);
      leaving_.Expire(now);
      for (CoordinationState* const group : Groups()) group->Expire(now);
      for (int w = 0; stopping && w < options_.num_workers; ++w) EndCallsOf(w);
      lock.lock();
    }
  }

  const Options options_;
  const NonceIssuer nonces_;
  StrangerLog strangers_;
  Membership membership_;
  Suspicions suspicions_;
  CoordinationState registration_;
  CoordinationState leaving_;
  std::atomic<int> stop_signal_{0};
  std::mutex mu_;
  std::condition_variable stop_;
  // Guarded by mu_:
  State state_ = State::kServing;
  std::map<int, std::unique_ptr<CoordinationState>> groups_;

  std::thread ticker_;
  ListeningServer listening_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinationServer>> CoordinationServer::Start(
    const Options& options, MonotonicTime deadline) {
  const MonotonicTime start = MonotonicTime::Now();
  for (MonotonicTime next_report = start;;) {
    auto server = std::make_unique<Server>(options);
    const absl::Status status = server->Start();
    if (status.ok()) return server;
    if (!absl::IsUnavailable(status) || deadline == MonotonicTime::InfinitePast()) return status;
    const MonotonicTime now = MonotonicTime::Now();
    if (now + kListenRetry >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          status.message(), "; tried for ",
          absl::FormatDuration(absl::Trunc(now - start, absl::Milliseconds(100)))));
    }
    if (options.log != nullptr && now >= next_report) {
      next_report = now + kWaitingInterval;
      options.log(absl::StrCat("waiting for the address of the coordination service; ",
                               absl::ToInt64Seconds(now - start), " s of ",
                               absl::ToInt64Seconds(deadline - start), " s; ", status.message()));
    }
    absl::SleepFor(kListenRetry);
  }
}

}  // namespace mirrorflow
