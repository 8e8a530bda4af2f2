// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/host_supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/core/end_requests.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/thread.h"
#include "tools/flags/command_line.h"
#include "tools/launch/descendants.h"
#include "tools/launch/launch.pb.h"
#include "tools/launch/placement.h"
#include "tools/launch/wire.h"
#include "tools/launch/worker_supervisor.h"

namespace mirrorflow {
namespace {

// How long the descendants of a worker can take to end after its supervisor was killed.
constexpr absl::Duration kOrphanTimeout = absl::Seconds(1);

class HostSupervisor {
 public:
  explicit HostSupervisor(int num_slots) : slots_(num_slots) {}

  absl::Status Run() {
    BecomeSubreaper();
    MF_ASSIGN_OR_RETURN(signals_, BlockSignals({SIGINT, SIGTERM, SIGHUP, SIGUSR1}));
    launch::Event ready;
    ready.mutable_ready();
    MF_RETURN_IF_ERROR(WriteMessage(STDOUT_FILENO, ready));
    while (!is_over()) MF_RETURN_IF_ERROR(Serve());
    return absl::OkStatus();
  }

 private:
  struct Slot {
    pid_t supervisor = -1;  // the worker's supervisor
    int channel = -1;       // the supervisor's stdin and stdout; -1 while it is not running
    MessageReader reader;
    launch::Event end;  // how the worker has ended; sent once the slot is free
    bool has_run = false;
    bool ended = false;  // whether the launcher knows that the worker has ended
  };

  // Never true while the launcher's orders are open, because the launcher can still restart a
  // worker.
  bool is_over() const {
    return !has_launcher_ &&
           absl::c_all_of(slots_, [](const Slot& slot) { return slot.channel < 0; });
  }

  // Waits for an event and handles it.
  absl::Status Serve() {
    std::vector<pollfd> fds = {
        {.fd = has_launcher_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0},
        {.fd = signals_, .events = POLLIN, .revents = 0}};
    for (const Slot& slot : slots_) {
      fds.push_back({.fd = slot.channel, .events = POLLIN, .revents = 0});
    }
    if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return SystemError(errno, "poll");
    for (size_t s = 0; s < slots_.size(); ++s) {
      if (fds[2 + s].revents != 0) TakeEvents(static_cast<int>(s));
    }
    if (fds[1].revents != 0) TakeSignals();
    return fds[0].revents != 0 ? TakeOrders() : absl::OkStatus();
  }

  absl::Status TakeOrders() {
    const absl::StatusOr<bool> more = reader_.ReadSome(STDIN_FILENO);
    if (!more.ok() || !*more) {
      LoseLauncher();
      return absl::OkStatus();
    }
    while (true) {
      launch::Order order;
      MF_ASSIGN_OR_RETURN(const bool whole, reader_.Next(&order));
      if (!whole) return absl::OkStatus();
      MF_RETURN_IF_ERROR(Obey(order));
    }
  }

  absl::Status Obey(const launch::Order& order) {
    switch (order.order_case()) {
      case launch::Order::kFindPorts: {
        launch::Event event;
        MF_ASSIGN_OR_RETURN(const std::vector<int> ports, FreePorts(order.find_ports()));
        for (const int port : ports) event.mutable_ports()->add_ports(port);
        Send(event);
        return absl::OkStatus();
      }
      case launch::Order::kStart: {
        const int slot = order.start().slot();
        if (slot < 0 || slot >= static_cast<int>(slots_.size()) || slots_[slot].channel >= 0) {
          return absl::InvalidArgumentError(
              absl::StrCat("supervisor: wrong slot; expected a free slot below ", slots_.size(),
                           ", got ", slot));
        }
        // If a signal arrived first, Signal() has already reported a worker that never ran. A
        // restarted worker still needs an end event.
        if (signal_ != 0) {
          if (slots_[slot].has_run) End(slot, StoppedBy(signal_));
          return absl::OkStatus();
        }
        const absl::Status started = Start(slots_[slot], order.start());
        if (!started.ok()) End(slot, NotStarted(started));
        return absl::OkStatus();
      }
      case launch::Order::kSignal:
        Signal(order.signal());
        return absl::OkStatus();
      case launch::Order::kReport:
        for (const Slot& slot : slots_) PassOn(order, slot);
        return absl::OkStatus();
      case launch::Order::ORDER_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError("supervisor: unknown command from the launcher");
  }

  absl::Status Start(Slot& slot, const launch::Start& start) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return SystemError(errno, "socketpair");
    }
    const pid_t process = fork();
    if (process == 0) {
      // Inherited channels would keep other supervisors from noticing that this process has ended.
      for (const Slot& other : slots_) {
        if (other.channel >= 0) close(other.channel);
      }
      dup2(ends[1], STDIN_FILENO);
      dup2(ends[1], STDOUT_FILENO);
      for (const int fd : {ends[0], ends[1], signals_}) close(fd);
      const absl::Status status = SuperviseWorker(start);
      _exit(status.ok() ? kExitOk : ExitWithError(status, kExitInternal));
    }
    close(ends[1]);
    if (process < 0) {
      close(ends[0]);
      return ThreadLimitError("supervisor");
    }
    slot = {.supervisor = process, .channel = ends[0], .has_run = true};
    return absl::OkStatus();
  }

  // Returns the end event of a worker that did not start because of a signal.
  static launch::Event StoppedBy(int signal) {
    launch::Event event = NotStarted(absl::CancelledError(
        absl::StrCat("signal ", signal, " arrived before the worker started")));
    event.mutable_ended()->set_exit_code(128 + signal);
    return event;
  }

  // Forwards a signal to all workers.
  void Signal(int signal) {
    // This process, the launcher and each worker's supervisor can all receive the same request.
    if (requests_.Take(signal) == EndRequests::Kind::kRepeated) return;
    signal_ = signal;
    launch::Order order;
    order.set_signal(signal);
    for (size_t s = 0; s < slots_.size(); ++s) {
      if (PassOn(order, slots_[s]) || slots_[s].ended) continue;
      End(static_cast<int>(s), StoppedBy(signal));
    }
  }

  // Returns false if no supervisor runs in the slot.
  static bool PassOn(const launch::Order& order, const Slot& slot) {
    if (slot.channel < 0) return false;
    const std::string bytes = SerializeMessage(order);
    // Never block: a supervisor that is stuck or has exited must not delay the orders of the
    // others. After a partial write, the rest of the stream would be garbage, so close it. The
    // supervisor then ends its worker.
    const ssize_t sent =
        send(slot.channel, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(bytes.size())) shutdown(slot.channel, SHUT_WR);
    return true;
  }

  void TakeSignals() {
    signalfd_siginfo info;
    while (read(signals_, &info, sizeof(info)) == sizeof(info)) {
      // If the terminal interrupts all processes at once, only the launcher's orders count.
      if (info.ssi_signo == SIGTERM) Signal(SIGTERM);
      if (info.ssi_signo == SIGHUP) LoseLauncher();
    }
  }

  // Closes the orders of the workers' supervisors, which then end the workers.
  void LoseLauncher() {
    has_launcher_ = false;
    for (Slot& slot : slots_) {
      if (slot.channel >= 0) shutdown(slot.channel, SHUT_WR);
    }
  }

  void TakeEvents(int index) {
    Slot& slot = slots_[index];
    const absl::StatusOr<bool> more = slot.reader.ReadSome(slot.channel);
    absl::StatusOr<bool> whole = true;
    while (true) {
      launch::Event event;
      whole = slot.reader.Next(&event);
      if (!whole.ok() || !*whole) break;
      if (event.has_ended()) {
        slot.end = std::move(event);
      } else {
        event.set_slot(index);
        Send(event);
      }
    }
    if (more.ok() && *more && whole.ok()) return;
    close(std::exchange(slot.channel, -1));
    kill(slot.supervisor, SIGKILL);  // unless it is already ending
    int status = 0;
    waitpid(slot.supervisor, &status, 0);
    if (!slot.end.has_ended()) {
      KillOrphans();
      const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      slot.end.mutable_ended()->set_exit_code(code == 0 ? 1 : code);
      slot.end.mutable_ended()->set_reason("its supervisor has ended");
    }
    End(index, std::move(slot.end));
  }

  // Kills the descendants of workers whose supervisor was killed.
  void KillOrphans() const {
    std::vector<pid_t> supervisors;
    for (const Slot& slot : slots_) {
      if (slot.channel >= 0) supervisors.push_back(slot.supervisor);
    }
    // Meanwhile, the other workers wait for their orders, and the launcher waits for this event.
    KillDescendants(supervisors, kOrphanTimeout);
  }

  // Records that the slot's worker has ended, as `event` describes.
  void End(int slot, launch::Event event) {
    slots_[slot].ended = true;
    event.set_slot(slot);
    Send(event);
  }

  void Send(const launch::Event& event) {
    if (!WriteMessage(STDOUT_FILENO, event).ok()) LoseLauncher();
  }

  std::vector<Slot> slots_;
  MessageReader reader_;
  bool has_launcher_ = true;
  int signals_ = -1;
  EndRequests requests_;
  int signal_ = 0;  // the last signal that was forwarded, or 0
};

}  // namespace

absl::Status Supervise(const std::vector<std::string>& arguments) {
  int num_slots = 0;
  if (arguments.size() != 1 || !absl::SimpleAtoi(arguments[0], &num_slots) || num_slots < 1 ||
      num_slots > kMaxWorkers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "supervise: wrong arguments; expected a worker count from 1 to ", kMaxWorkers));
  }
  return HostSupervisor(num_slots).Run();
}

}  // namespace mirrorflow
