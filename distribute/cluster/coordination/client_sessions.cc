// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/client_sessions.h"

#include <algorithm>
#include <utility>

#include "distribute/cluster/coordination/messages.h"
#include "distribute/cluster/coordination/worker_process.h"
#include "framework/core/mutex.h"

namespace mirrorflow {
namespace {

// How much time the service may need for the handshake with one process.
constexpr absl::Duration kTimeOfHandshake = absl::Milliseconds(10);

void Deliver(const ClientSessions::OnAnswer& on_answer, const std::string& key, uint64_t sequence,
             const std::shared_ptr<const Body>& body) {
  const ClientSessions::SignedAnswer answer = {
      .sequence = sequence, .body = body, .mac = MacOf(key, Role::kServer, sequence, *body)};
  on_answer(&answer);
}

}  // namespace

std::vector<ClientSessions::OnAnswer> ClientSessions::TakeWaiting(Session* session) {
  std::vector<OnAnswer> waiting;
  for (auto& [sequence, call] : session->calls) {
    if (call.on_answer) waiting.push_back(std::exchange(call.on_answer, nullptr));
  }
  return waiting;
}

ClientSessions::Session* ClientSessions::SessionOf(const std::string& connection) {
  const auto process = processes_.find(connection);
  return process == processes_.end() ? nullptr : &sessions_[process->second];
}

std::string ClientSessions::Connect(const WorkerProcess& process, const std::string& connection,
                                    const std::string& key) {
  std::vector<OnAnswer> waiting;
  std::string earlier;
  {
    MutexLock lock(&mu_);
    Session& session = sessions_[process];
    waiting = TakeWaiting(&session);
    earlier = std::exchange(session.connection, connection);
    session.key = key;
    session.lost = MonotonicTime::InfiniteFuture();
    processes_.erase(earlier);
    processes_[connection] = process;
  }
  for (const OnAnswer& on_answer : waiting) on_answer(nullptr);
  return earlier;
}

void ClientSessions::Disconnect(
    const std::string& connection,
    const std::function<absl::Duration(const WorkerProcess&)>& patience) {
  std::vector<OnAnswer> waiting;
  {
    MutexLock lock(&mu_);
    Session* const session = SessionOf(connection);
    if (session == nullptr) return;  // another connection has replaced this one
    waiting = TakeWaiting(session);
    session->connection.clear();
    session->lost = MonotonicTime::Now() + patience(processes_[connection]);
    processes_.erase(connection);
  }
  for (const OnAnswer& on_answer : waiting) on_answer(nullptr);
}

std::vector<WorkerProcess> ClientSessions::TakeLost(MonotonicTime now) {
  MutexLock lock(&mu_);
  const auto count = std::ranges::count_if(
      sessions_, [](const auto& session) { return session.second.connection.empty(); });
  const absl::Duration others = kTimeOfHandshake * (std::max<int64_t>(count, 1) - 1);
  std::vector<WorkerProcess> lost;
  for (auto it = sessions_.begin(); count > 0 && it != sessions_.end();) {
    const auto session = it++;
    if (now < session->second.lost + others) continue;
    lost.push_back(session->first);
    sessions_.erase(session);
  }
  return lost;
}

std::vector<WorkerProcess> ClientSessions::TakeReplaced(const WorkerProcess& by) {
  MutexLock lock(&mu_);
  std::vector<WorkerProcess> taken;
  auto it = sessions_.lower_bound({.worker = by.worker, .number = 0});
  while (it != sessions_.end() && it->first.worker == by.worker) {
    const auto session = it++;
    if (session->first == by || !session->second.connection.empty()) continue;
    taken.push_back(session->first);
    sessions_.erase(session);
  }
  return taken;
}

absl::StatusOr<std::optional<ClientSessions::Call>> ClientSessions::Receive(
    const coordination::Signed& request, OnAnswer on_answer) {
  const auto refused = [](absl::string_view why) { return absl::UnauthenticatedError(why); };
  const auto repeated = [] { return absl::FailedPreconditionError("the request is a replay"); };
  std::string key;
  {
    MutexLock lock(&mu_);
    const Session* const session = SessionOf(request.connection());
    if (session == nullptr) return refused("the connection has ended or was replaced");
    key = session->key;
  }
  if (!HasValidMac(key, Role::kWorker, request)) return refused("the request was forged");
  Call call{.sequence = request.sequence()};
  if (!call.request.ParseFromString(request.body())) return refused("malformed request");

  MutexLock lock(&mu_);
  Session* const session = SessionOf(request.connection());
  if (session == nullptr) return refused("the connection has ended or was replaced");
  call.process = processes_[request.connection()];
  // Drop the answers that the process has received.
  const auto& pending = call.request.pending();
  std::erase_if(session->calls, [&](const auto& made) {
    return made.second.reply != nullptr && made.first < call.sequence &&
           std::find(pending.begin(), pending.end(), made.first) == pending.end();
  });
  if (const auto made = session->calls.find(call.sequence); made != session->calls.end()) {
    const std::shared_ptr<const Body> made_reply = made->second.reply;
    if (made_reply == nullptr) {
      // The process repeats calls only on a new connection, so this one is a replay.
      if (made->second.on_answer) return repeated();
      made->second.on_answer = std::move(on_answer);
      return std::nullopt;
    }
    lock.Unlock();
    Deliver(on_answer, key, call.sequence, made_reply);
    return std::nullopt;
  }
  if (!session->sequences.Add(call.sequence)) return repeated();
  session->calls[call.sequence].on_answer = std::move(on_answer);
  return call;
}

void ClientSessions::Answer(const WorkerProcess& process, uint64_t sequence,
                            std::shared_ptr<const Body> reply) {
  OnAnswer on_answer;
  std::string key;
  {
    MutexLock lock(&mu_);
    const auto session = sessions_.find(process);
    if (session == sessions_.end()) return;
    const auto call = session->second.calls.find(sequence);
    if (call == session->second.calls.end()) return;
    call->second.reply = reply;
    if (!call->second.on_answer) return;
    on_answer = std::exchange(call->second.on_answer, nullptr);
    key = session->second.key;
  }
  Deliver(on_answer, key, sequence, reply);
}

}  // namespace mirrorflow
