// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/coordination_server.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/authentication.h"
#include "distribute/cluster/connections/handshake.h"
#include "distribute/cluster/coordination/answer.h"
#include "distribute/cluster/coordination/client_sessions.h"
#include "distribute/cluster/coordination/cluster_status.h"
#include "distribute/cluster/coordination/coordination.grpc.pb.h"
#include "distribute/cluster/coordination/coordination_state.h"
#include "distribute/cluster/coordination/failure_attribution.h"
#include "distribute/cluster/coordination/membership.h"
#include "distribute/cluster/coordination/messages.h"
#include "distribute/cluster/coordination/service_port.h"
#include "distribute/cluster/coordination/worker_process.h"
#include "framework/core/log.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/state_report.h"
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
// Each tick visits all workers. With more than 200 workers, ticks are less frequent, to keep their
// load below 1 % of a core.
constexpr absl::Duration kTickOfWorker = absl::Microseconds(100);
// If the time between ticks exceeds the tick by more than this, this process was suspended.
constexpr absl::Duration kLongestPause = absl::Milliseconds(500);
constexpr absl::Duration kWaitingInterval = absl::Seconds(5);  // between reports of missing workers
constexpr absl::Duration kListenRetry = absl::Milliseconds(250);
constexpr int kMaxGroups = 4096;
constexpr int kMaxWorkersInReport = 64;

// Serializes the answer as a coordination::Signed. Does not copy the body, so thousands of workers'
// copies of the same answer take the memory of one.
grpc::ByteBuffer ToByteBuffer(const ClientSessions::SignedAnswer& answer) {
  Signed head;
  head.set_sequence(answer.sequence);
  head.set_mac(answer.mac);
  std::string bytes = head.SerializeAsString();
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream output(&stream);
    constexpr uint32_t kLengthDelimited = 2;  // wire type of bytes
    output.WriteTag(Signed::kBodyFieldNumber << 3 | kLengthDelimited);
    output.WriteVarint32(static_cast<uint32_t>(answer.body->bytes.size()));
  }
  using Shared = std::shared_ptr<const Body>;
  const grpc::Slice slices[] = {
      grpc::Slice(bytes),
      grpc::Slice(
          const_cast<char*>(answer.body->bytes.data()), answer.body->bytes.size(),
          [](void* shared) { delete static_cast<Shared*>(shared); }, new Shared(answer.body))};
  return grpc::ByteBuffer(slices, std::size(slices));
}

using RawService =
    coordination::Coordination::WithRawCallbackMethod_Perform<coordination::Coordination::Service>;

class Server final : public CoordinationServer, public RawService {
 public:
  explicit Server(Options options)
      : options_(std::move(options)),
        membership_(options_.num_workers, options_.worker_addresses),
        registration_(options_.num_workers),
        leaving_(options_.num_workers) {}

  ~Server() override {
    membership_.WaitUntilMismatchIsKnown();
    // If worker 0 stopped waiting for workers to register, the others receive its error, which
    // names the missing workers.
    const absl::Status timeout = membership_.timeout();
    registration_.Fail(
        timeout.ok() ? WithFailure(absl::UnavailableError("the coordination service has ended "
                                                          "before all workers had registered"),
                                   {.worker = 0})
                     : timeout);
    SetState(
        State::kStopping);  // the ticker ends all other calls; Shutdown waits for their answers
    port_ = nullptr;
    SetState(State::kStopped);
    if (ticker_.joinable()) ticker_.join();
  }

  absl::Status Start() {
    MF_ASSIGN_OR_RETURN(
        port_,
        ServicePort::Open(
            {.address = options_.address,
             .num_workers = options_.num_workers,
             .cluster = {.secret = options_.secret,
                         .job = options_.job,
                         .purpose = Handshake::Purpose::kCoordination},
             .tls = options_.tls,
             .on_connected =
                 [this](const Handshake& handshake) {
                   return sessions_.Connect({handshake.ranks().connecting, handshake.incarnation()},
                                            handshake.connection(), handshake.SessionKey());
                 },
             .on_disconnected =
                 [this](const std::string& connection, absl::Duration handshake,
                        bool network_failed) {
                   sessions_.Disconnect(connection, [&](const WorkerProcess& process) {
                     if (process.worker == kObserver) return absl::ZeroDuration();
                     const absl::Duration timeout = membership_.HeartbeatTimeout(process.worker);
                     return network_failed ? timeout : TimeToReturn(handshake, timeout);
                   });
                 }},
            this));
    MF_ASSIGN_OR_RETURN(ticker_, StartThread("coordination", [this] { Tick(); }));
    return absl::OkStatus();
  }

  int port() const override { return port_->port(); }

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

  ServerUnaryReactor* Perform(CallbackServerContext* context, const grpc::ByteBuffer* request,
                              grpc::ByteBuffer* reply) override {
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    Signed message;
    grpc::ByteBuffer bytes = *request;  // shares the memory
    if (const grpc::Status parsed =
            grpc::SerializationTraits<Signed>::Deserialize(&bytes, &message);
        !parsed.ok()) {
      reactor->Finish(parsed);
      return reactor;
    }
    absl::StatusOr<std::optional<ClientSessions::Call>> call =
        sessions_.Receive(message, [reactor, reply](const ClientSessions::SignedAnswer* answer) {
          if (answer != nullptr) *reply = ToByteBuffer(*answer);
          reactor->Finish(answer != nullptr ? grpc::Status::OK : grpc::Status::CANCELLED);
        });
    if (!call.ok()) {
      reactor->Finish(grpc::Status(static_cast<grpc::StatusCode>(call.status().code()),
                                   std::string(call.status().message())));
    } else if (call->has_value()) {
      Dispatch(**call,
               [this, process = (*call)->process, sequence = (*call)->sequence](
                   const Answer& answer) { sessions_.Answer(process, sequence, answer.reply()); });
    }
    return reactor;
  }

 private:
  enum class State { kServing, kStopping, kStopped };
  void SetState(State state) {
    MutexLock lock(&mu_);
    state_ = state;
    stop_.NotifyAll();
  }

  void Dispatch(const ClientSessions::Call& call, CoordinationState::Done done) {
    const int worker = call.process.worker;
    const Request& body = call.request;
    const MonotonicTime deadline = DeadlineIn(body.deadline_ms());
    if (body.operation() == Request::REGISTER && worker != kObserver) {
      return Register(call.process, body.member(), deadline, std::move(done));
    }
    if (body.operation() == Request::STATUS) return done(Status().SerializeAsString());
    if (const absl::Status member = membership_.CheckMember(call.process); !member.ok()) {
      return done(member);
    }
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
      return done(absl::InvalidArgumentError(absl::StrCat("group out of range; expected 0 to ",
                                                          kMaxGroups - 1, ", got ", body.group())));
    }
    const uint64_t incarnation = body.incarnation();
    switch (body.operation()) {
      case Request::JOIN:
        return group->Join(worker, deadline, std::move(done));
      case Request::PUT:
        return done(group->Put(worker, incarnation, body.name(), body.value(),
                               std::max(body.readers(), 0)));
      case Request::GET:
        return group->Get(worker, incarnation, body.name(), deadline, std::move(done),
                          body.in_background());
      case Request::ALL_GATHER:
        return group->AllGather(worker, incarnation, body.name(), body.value(), deadline,
                                std::move(done));
      case Request::REPORT_FAILURE:
        return ReportFailure(group, incarnation, StatusFromProto(body.failure()), std::move(done));
      case Request::WAIT_FOR_FAILURE:
        return group->WaitForFailure(worker, incarnation, std::move(done));
      case Request::CANCEL:
        group->Cancel(worker);
        return done("");
      default:
        return done(absl::UnimplementedError(
            absl::StrCat("unknown operation ", static_cast<int>(body.operation()))));
    }
  }

  void Register(const WorkerProcess& process, const coordination::Member& member,
                MonotonicTime deadline, CoordinationState::Done done) {
    const auto finish = [this, process, done = std::move(done)](const Answer& joined) {
      const absl::Status mismatch = membership_.mismatch();
      const absl::Status registered = mismatch.ok() ? joined.status() : mismatch;
      if (registered.ok()) {
        done(membership_.members());
        // Answering thousands of workers takes a while, so each worker's heartbeat timeout starts
        // when its own answer is sent.
        return membership_.Begin(process.worker);
      }
      membership_.Forget(process, registered);
      done(registered);
    };
    Lose(sessions_.TakeReplaced(process));
    const absl::Status admitted =
        member.worker() == process.worker
            ? membership_.Admit(process, member)
            : absl::InvalidArgumentError(absl::StrCat(
                  "worker ", process.worker, " tried to register as worker ", member.worker()));
    if (!admitted.ok()) {
      if (absl::IsAborted(admitted)) LogRefusal(process);
      // A difference between two workers ends the registration of all workers.
      const absl::Status mismatch = membership_.mismatch();
      if (!mismatch.ok()) registration_.Fail(mismatch);
      return finish(admitted);
    }
    registration_.Join(process.worker, deadline, finish);
  }

  // Logs a refused process once, although it retries.
  void LogRefusal(const WorkerProcess& process) {
    {
      MutexLock lock(&mu_);
      if (std::exchange(last_refused_, process) == process) return;
    }
    LogWarning(absl::StrCat("coordination: refused a second process for worker ", process.worker));
  }

  // Answers with the first failure. The answer is OK and holds the failure as its value, because
  // the call itself has not failed.
  void ReportFailure(CoordinationState* group, uint64_t incarnation, const absl::Status& failure,
                     CoordinationState::Done done) {
    if (failure.ok()) {
      return done(absl::InvalidArgumentError("failure report: expected an error, got OK"));
    }
    if (absl::IsDeadlineExceeded(failure) || absl::IsUnavailable(failure)) {
      return failure_attribution_.Add(group, incarnation, failure, std::move(done));
    }
    done(StatusToProto(group->ReportFailure(incarnation, failure)).SerializeAsString());
  }

  // ---- the cluster ----------------------------------------------------------------------------

  CoordinationState* GroupOf(int number) {
    if (number < 0 || number >= kMaxGroups) return nullptr;
    MutexLock lock(&mu_);
    std::unique_ptr<CoordinationState>& group = groups_[number];
    if (group == nullptr) {
      // A random number, because processes of an earlier cluster may still be running and using
      // that cluster's numbers.
      const auto last = static_cast<uint32_t>(RandomNumber());
      group = std::make_unique<CoordinationState>(options_.num_workers, last);
      for (const auto& [worker, why] : membership_.left()) group->Leave(worker, why);
    }
    return group.get();
  }

  std::vector<CoordinationState*> Groups() {
    MutexLock lock(&mu_);
    std::vector<CoordinationState*> groups;
    for (const auto& [number, group] : groups_) groups.push_back(group.get());
    return groups;
  }

  // Returns a summary and, unless the cluster is large, one line for each worker.
  std::vector<std::string> Report() {
    const coordination::ClusterStatus status = Status();
    std::vector<std::string> lines;
    if (options_.num_workers <= kMaxWorkersInReport) lines = LinesOf(status);
    lines.insert(lines.begin(), SummaryOf(status));
    return lines;
  }

  coordination::ClusterStatus Status() {
    std::vector<std::string> calls(options_.num_workers);
    for (CoordinationState* const group : Groups()) group->AddWaitTexts(&calls);
    return membership_.Status(MonotonicTime::Now(), std::move(calls));
  }

  // Handles a worker that leaves. Worker 0 waits until the other workers have left or are lost,
  // because it may run this service for them; the others need not wait. `stopped`: why the worker
  // has not finished its work; empty if it has.
  void Leave(int worker, absl::string_view stopped, MonotonicTime deadline,
             CoordinationState::Done done) {
    const std::string left = absl::StrCat("worker ", worker, " has left the cluster");
    const absl::Status why =
        WithFailure(stopped.empty() ? absl::FailedPreconditionError(absl::StrCat(
                                          left, "; expected all workers to run the same steps"))
                                    : absl::UnavailableError(absl::StrCat(left, ": ", stopped)),
                    {.worker = worker});
    if (!membership_.Leave(worker, why)) return done("");
    for (CoordinationState* const group : Groups()) group->Leave(worker, why);
    if (worker == 0) return leaving_.Join(worker, deadline, std::move(done));
    leaving_.Join(worker, MonotonicTime::InfiniteFuture(), [](const auto&) {});
    done("");
  }

  // Handles processes that have died or cannot be reached.
  void Lose(const std::vector<WorkerProcess>& processes) {
    for (const WorkerProcess& process : processes) End(process.worker, membership_.Lose(process));
  }

  void End(int worker, const std::optional<Membership::Loss>& loss) {
    if (!loss.has_value()) return;
    // The lost worker's own calls also fail: it may only have been suspended, and must not
    // continue.
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

  // Runs the ticker thread: detects lost, silent and hung workers, ends calls at their deadlines,
  // and logs missing, slow and late workers.
  void Tick() {
    MonotonicTime next_report = MonotonicTime::Now() + kWaitingInterval,
                  last = MonotonicTime::Now();
    MutexLock lock(&mu_);
    const absl::Duration tick = std::max(kTick, options_.num_workers * kTickOfWorker);
    for (State last_state = State::kServing;;) {
      // A service that is stopping must send its last answers promptly.
      stop_.WaitFor(lock, last_state == State::kServing ? tick : kTick,
                    [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return state_ != last_state; });
      last_state = state_;
      if (last_state == State::kStopped) return;
      const MonotonicTime now = MonotonicTime::Now();
      const absl::Duration pause = now - std::exchange(last, now);
      if (pause > tick + kLongestPause) membership_.ForgiveSilence(pause);
      const bool stopping = last_state == State::kStopping;
      lock.Unlock();
      if (now >= next_report) {
        next_report = now + kWaitingInterval;
        const std::string missing = membership_.WaitingText(now);
        if (!missing.empty()) LogInfo(missing);
      }
      Lose(sessions_.TakeLost(now));
      for (const int worker : membership_.SilentWorkers(now)) {
        End(worker, membership_.LoseSilent(worker, now));
      }
      std::vector<bool> waiting(options_.num_workers);
      for (CoordinationState* const group : Groups()) group->AddWaiting(&waiting);
      membership_.SetWaiting(now, waiting);
      for (const std::string& line :
           {membership_.SlowWorkersText(now), membership_.LateWorkerText(now),
            membership_.StragglerText(now)}) {
        if (!line.empty()) LogWarning(line);
      }
      const absl::Status stall = membership_.FindStall(now);
      if (!stall.ok()) {
        for (CoordinationState* const group : Groups()) {
          failure_attribution_.Add(group, group->incarnation(), stall, [](const auto&) {});
        }
      }
      failure_attribution_.Decide(membership_, stopping ? MonotonicTime::InfiniteFuture() : now);
      registration_.Expire(now);
      leaving_.Expire(now);
      for (CoordinationState* const group : Groups()) group->Expire(now);
      for (int w = 0; stopping && w < options_.num_workers; ++w) EndCallsOf(w);
      lock.Lock();
    }
  }

  const Options options_;
  ClientSessions sessions_;
  Membership membership_;
  FailureAttribution failure_attribution_;
  CoordinationState registration_;
  CoordinationState leaving_;
  std::atomic<int> stop_signal_{0};
  Mutex mu_;
  CondVar stop_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kServing;
  std::map<int, std::unique_ptr<CoordinationState>> groups_ ABSL_GUARDED_BY(mu_);
  std::optional<WorkerProcess> last_refused_ ABSL_GUARDED_BY(mu_);

  const StateReport report_{[this] { return Report(); }};
  std::thread ticker_;
  std::unique_ptr<ServicePort> port_;
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
      return absl::DeadlineExceededError(
          absl::StrCat(status.message(), "; tried for ",
                       absl::FormatDuration(absl::Trunc(now - start, absl::Milliseconds(100)))));
    }
    if (now >= next_report) {
      next_report = now + kWaitingInterval;
      LogInfo(absl::StrCat("waiting for the address of the coordination service to become usable; ",
                           absl::ToInt64Seconds(now - start), " s of ",
                           absl::ToInt64Seconds(deadline - start), " s; ", status.message()));
    }
    absl::SleepFor(kListenRetry);
  }
}

}  // namespace mirrorflow
