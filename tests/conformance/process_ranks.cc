// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/process_ranks.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/coordination/coordination_server.h"
#include "distribute/cluster/join_cluster.h"
#include "distribute/collective/address_space.h"
#include "distribute/collective/check_collective.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/status_proto.h"
#include "tests/conformance/remote_rank.pb.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(30);

// --- messages, each preceded by its size ---------------------------------------------------------

bool SendAll(int fd, const void* bytes, size_t size) {
  for (const char* next = static_cast<const char*>(bytes); size > 0;) {
    const ssize_t sent = send(fd, next, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    next += sent;
    size -= sent;
  }
  return true;
}

bool ReceiveAll(int fd, void* bytes, size_t size) {
  return size == 0 || recv(fd, bytes, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

template <typename Message>
bool Send(int fd, const Message& message) {
  const std::string text = message.SerializeAsString();
  const uint64_t size = text.size();
  return SendAll(fd, &size, sizeof(size)) && SendAll(fd, text.data(), text.size());
}

template <typename Message>
bool Receive(int fd, Message* message) {
  uint64_t size = 0;
  if (!ReceiveAll(fd, &size, sizeof(size))) return false;
  std::string text(size, '\0');
  return ReceiveAll(fd, text.data(), size) && message->ParseFromString(text);
}

// --- the process of a rank -----------------------------------------------------------------------

using Operation = decltype(Collective::operation);

Operation OperationOf(const remote::Call& call) {
  const auto reduction = static_cast<Reduction>(call.reduction());
  const absl::Span<const int64_t> counts(call.counts().data(), call.counts_size());
  switch (call.operation()) {
    case 1:
      return AllReduce{reduction, call.count()};
    case 2:
      return ReduceScatter{reduction, counts};
    case 3:
      return AllGather{counts};
    case 4:
      return mirrorflow::Broadcast{call.count(), call.root()};
    default:
      return Barrier{};
  }
}

// A collective in flight and its memory.
struct InFlight {
  remote::Call call;
  std::shared_ptr<std::byte> out;
  Collective collective;
};

class Rank {
 public:
  Rank(Communicator& communicator, AddressSpace& memory)
      : communicator_(communicator), memory_(memory) {}

  remote::Answer Answer(const remote::Call& call) {
    remote::Answer answer;
    *answer.mutable_status() = StatusToProto(Perform(call, &answer));
    return answer;
  }

 private:
  absl::Status Perform(const remote::Call& call, remote::Answer* answer) {
    switch (call.method()) {
      case remote::Call::START:
        return Start(call);
      case remote::Call::FINISH:
        return Finish(call, answer);
      case remote::Call::ABORT:
        communicator_.Abort(StatusFromProto(call.why()));
        return absl::OkStatus();
      default:
        return communicator_.status();
    }
  }

  absl::StatusOr<std::unique_ptr<InFlight>> Make(const remote::Call& call) {
    auto made = std::make_unique<InFlight>();
    made->call = call;
    const size_t bytes = std::max<size_t>(call.out_bytes(), call.in().size());
    MF_ASSIGN_OR_RETURN(made->out, memory_.Allocate(bytes));
    if (call.in_place() && !call.in().empty()) {
      std::memcpy(made->out.get(), call.in().data(), call.in().size());
    }
    made->collective = {.operation = OperationOf(made->call),
                        .dtype = static_cast<DataType>(call.dtype()),
                        .name = made->call.name(),
                        .sequence = call.sequence()};
    // Memory that is only read is private to this process; other processes cannot access it.
    if (call.has_in()) made->collective.in = made->call.in().data();
    if (call.in_place()) made->collective.in = made->out.get();
    if (call.has_out()) made->collective.out = made->out.get();
    return made;
  }

  absl::Status Start(const remote::Call& call) {
    MF_ASSIGN_OR_RETURN(auto made, Make(call));
    in_flight_.push_back(std::move(made));
    return communicator_.Start(in_flight_.back()->collective, nullptr);
  }

  absl::Status Finish(const remote::Call& call, remote::Answer* answer) {
    std::unique_ptr<InFlight> finished;
    if (!in_flight_.empty() && in_flight_.front()->call.name() == call.name() &&
        in_flight_.front()->call.operation() == call.operation()) {
      finished = std::move(in_flight_.front());
      in_flight_.pop_front();
    } else {
      MF_ASSIGN_OR_RETURN(finished, Make(call));  // out of order
    }
    MF_RETURN_IF_ERROR(communicator_.Finish(finished->collective, nullptr));
    answer->set_out(finished->out.get(), call.out_bytes());
    return absl::OkStatus();
  }

  Communicator& communicator_;
  AddressSpace& memory_;
  std::deque<std::unique_ptr<InFlight>> in_flight_;
};

// Sockets between the test and a rank's process: one for calls from the rank's thread, one for all
// other calls.
struct Sockets {
  int calls = -1;
  int others = -1;
};

absl::Status RunRank(int rank, int world_size, int port, CollectiveKind kind,
                     absl::Duration timeout, const Sockets& sockets) {
  const Cluster cluster = {.num_workers = world_size,
                           .task_index = rank,
                           .coordinator = absl::StrCat("127.0.0.1:", port)};
  MF_ASSIGN_OR_RETURN(
      auto joined,
      JoinCluster(
          cluster, {.devices = {"CPU:0"}, .collective_timeout = timeout},
          {.external_coordinator = true, .collective = kind, .connect_timeout = kConnectTimeout}));
  MF_ASSIGN_OR_RETURN(const auto communicators,
                      joined->ConnectReplicas(MonotonicTime::Now() + kConnectTimeout));
  std::shared_ptr<AddressSpace> memory = joined->host_memory();
  if (memory == nullptr) memory = AddressSpace::OfThisProcess();
  // The ranks form no session, so they no longer need the coordination service. It exits once its
  // clients have left.
  joined.reset();
  Rank served(*communicators[0], *memory);
  const auto serve = [&served](int socket) {
    for (remote::Call call; Receive(socket, &call);) {
      if (!Send(socket, served.Answer(call))) return;
    }
  };
  Send(sockets.calls, remote::Answer());  // connected
  std::thread others([&] { serve(sockets.others); });
  serve(sockets.calls);
  others.join();
  return absl::OkStatus();
}

// --- the test's process --------------------------------------------------------------------------

// Forks a process that runs `work` and exits.
template <typename Work>
pid_t Fork(const Work& work) {
  const pid_t process = fork();
  if (process != 0) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const absl::Status status = work();
  if (!status.ok()) std::fprintf(stderr, "process of a rank: %s\n", status.ToString().c_str());
  std::fflush(nullptr);
  _exit(status.ok() ? 0 : 1);
}

// Closes the files that a forked process has inherited, except its standard streams and these two.
// The sockets of other ranks would otherwise stay open when the test closes its ends.
void CloseAllBut(int a, int b) {
  const auto [first, second] = std::minmax(a, b);
  if (first > 3) close_range(3, first - 1, 0);
  if (second > first + 1) close_range(first + 1, second - 1, 0);
  close_range(second + 1, ~0u, 0);
}

class Proxy final : public Communicator {
 public:
  Proxy(int rank, int world_size, pid_t process, const Sockets& sockets)
      : rank_(rank), world_size_(world_size), process_(process), sockets_(sockets) {}
  ~Proxy() override {
    close(sockets_.calls);
    close(sockets_.others);
    waitpid(process_, nullptr, 0);
  }

  absl::Status WaitUntilConnected() const {
    remote::Answer connected;
    return Receive(sockets_.calls, &connected)
               ? absl::OkStatus()
               : absl::UnavailableError(absl::StrCat("rank ", rank_, " has not connected"));
  }
  pid_t process() const { return process_; }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  absl::Status Start(const Collective& collective, Lane*) override {
    return Perform(sockets_.calls, Describe(collective, remote::Call::START)).status();
  }
  absl::Status Finish(const Collective& collective, Lane*) override {
    MF_ASSIGN_OR_RETURN(const remote::Answer answer,
                        Perform(sockets_.calls, Describe(collective, remote::Call::FINISH)));
    if (!answer.out().empty()) {
      std::memcpy(collective.out, answer.out().data(), answer.out().size());
    }
    return absl::OkStatus();
  }
  absl::Status status() const override {
    remote::Call call;
    call.set_method(remote::Call::STATUS);
    const std::lock_guard<std::mutex> lock(mu_);
    return Perform(sockets_.others, call).status();
  }
  void Abort(absl::Status why) override {
    remote::Call call;
    call.set_method(remote::Call::ABORT);
    *call.mutable_why() = StatusToProto(why);
    const std::lock_guard<std::mutex> lock(mu_);
    Perform(sockets_.others, call).status().IgnoreError();
  }

 private:
  remote::Call Describe(const Collective& c, remote::Call::Method method) const {
    remote::Call call;
    call.set_method(method);
    call.set_operation(static_cast<int>(c.operation.index()));
    if (const auto* a = std::get_if<AllReduce>(&c.operation)) {
      call.set_reduction(static_cast<int>(a->reduction));
      call.set_count(a->count);
    } else if (const auto* r = std::get_if<ReduceScatter>(&c.operation)) {
      call.set_reduction(static_cast<int>(r->reduction));
      call.mutable_counts()->Add(r->counts.begin(), r->counts.end());
    } else if (const auto* g = std::get_if<AllGather>(&c.operation)) {
      call.mutable_counts()->Add(g->counts.begin(), g->counts.end());
    } else if (const auto* b = std::get_if<mirrorflow::Broadcast>(&c.operation)) {
      call.set_count(b->count);
      call.set_root(b->root);
    }
    call.set_dtype(c.dtype);
    call.set_name(std::string(c.name));
    call.set_sequence(c.sequence);
    call.set_has_in(c.in != nullptr);
    call.set_has_out(c.out != nullptr);
    call.set_in_place(c.in != nullptr && c.in == c.out);
    // The process reports what is wrong with an invalid collective.
    if (!CheckCollective(c, rank_, world_size_).ok()) return call;
    const auto size = static_cast<int64_t>(DataTypeSize(c.dtype));
    call.set_out_bytes(OutputElements(c, rank_) * size);
    if (c.in != nullptr && method == remote::Call::START) {
      call.set_in(c.in, InputElements(c, rank_) * size);
    }
    return call;
  }

  absl::StatusOr<remote::Answer> Perform(int socket, const remote::Call& call) const {
    remote::Answer answer;
    if (!Send(socket, call) || !Receive(socket, &answer)) {
      return absl::UnavailableError(absl::StrCat("the process of rank ", rank_, " has ended"));
    }
    MF_RETURN_IF_ERROR(StatusFromProto(answer.status()));
    return answer;
  }

  const int rank_;
  const int world_size_;
  const pid_t process_;
  const Sockets sockets_;
  mutable std::mutex mu_;
};

}  // namespace

absl::StatusOr<Communicators> ConnectProcesses(int world_size, CollectiveKind kind,
                                               absl::Duration timeout) {
  // gRPC and UCX run only in the forked processes, so this process can fork again.
  int port_pipe[2];
  if (pipe(port_pipe) != 0) return absl::ErrnoToStatus(errno, "pipe");
  const pid_t server = Fork([&]() -> absl::Status {
    MF_ASSIGN_OR_RETURN(const auto service, CoordinationServer::Start({.address = "127.0.0.1:0",
                                                                       .num_workers = world_size}));
    const int port = service->port();
    if (write(port_pipe[1], &port, sizeof(port)) != sizeof(port)) return absl::UnknownError("pipe");
    return service->WaitUntilOver(MonotonicTime::InfiniteFuture());
  });
  int port = 0;
  const bool serves = read(port_pipe[0], &port, sizeof(port)) == sizeof(port);
  close(port_pipe[0]);
  close(port_pipe[1]);
  if (!serves) return absl::UnavailableError("no coordination service");
  std::vector<std::unique_ptr<Proxy>> proxies;
  for (int rank = 0; rank < world_size; ++rank) {
    int calls[2], others[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, calls) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM, 0, others) != 0) {
      return absl::ErrnoToStatus(errno, "socketpair");
    }
    const pid_t process = Fork([&] {
      CloseAllBut(calls[1], others[1]);
      return RunRank(rank, world_size, port, kind, timeout, {calls[1], others[1]});
    });
    close(calls[1]);
    close(others[1]);
    proxies.push_back(
        std::make_unique<Proxy>(rank, world_size, process, Sockets{calls[0], others[0]}));
  }
  absl::Status status;
  for (const auto& proxy : proxies) status.Update(proxy->WaitUntilConnected());
  kill(server, SIGKILL);  // it may be waiting for a rank that could not connect
  waitpid(server, nullptr, 0);
  MF_RETURN_IF_ERROR(status);
  Communicators communicators;
  for (auto& proxy : proxies) communicators.push_back(std::move(proxy));
  return communicators;
}

pid_t ProcessOf(const Communicator& proxy) { return static_cast<const Proxy&>(proxy).process(); }

}  // namespace mirrorflow
