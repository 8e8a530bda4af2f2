// SPDX-License-Identifier: Apache-2.0
//
// SupervisorProcess: the launcher's handle to the supervisor of one host. It spawns the supervisor,
// locally or through a remote shell, sends it orders and reads its events.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_SUPERVISOR_PROCESS_H_
#define MIRRORFLOW_TOOLS_LAUNCH_SUPERVISOR_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/launch/event_reader.h"
#include "tools/launch/launch.pb.h"
#include "tools/launch/placement.h"

namespace mirrorflow {

class SupervisorProcess {
 public:
  // Runs the supervisor on the host for `num_workers` workers, through the remote shell unless the
  // host is this machine.
  static absl::StatusOr<std::unique_ptr<SupervisorProcess>> Spawn(
      const LaunchHost& host, int num_workers, absl::Span<const std::string> remote_shell);
  ~SupervisorProcess();
  SupervisorProcess(const SupervisorProcess&) = delete;
  SupervisorProcess& operator=(const SupervisorProcess&) = delete;

  // Returns the descriptor of the events, for poll(); -1 once closed.
  int events() const { return events_; }
  int errors() const { return errors_; }
  // Returns the descriptor that SendMore() writes to; -1 if nothing is left to send.
  int unsent() const { return unsent_.empty() ? -1 : orders_; }

  // Sends without waiting: a host that does not answer must not keep the launcher from serving the
  // others. SendMore() sends the rest.
  void Send(const launch::Order& order);
  void SendMore();
  // Closes the supervisor's input, so it ends its workers.
  void CloseOrders();

  // Reads once. Returns false at the end of the events.
  absl::StatusOr<bool> ReadEvents() { return reader_.ReadSome(events_); }
  // Same as EventReader::Next.
  absl::StatusOr<bool> NextEvent(launch::Event* event) { return reader_.Next(event); }
  // Reads what is available on the remote shell's stderr. Returns an empty string if nothing is.
  std::string ReadErrors();
  // Closes this end of the stderr pipe: a process that the remote shell left behind may keep the
  // other end open.
  void CloseErrors();

  // Sends SIGKILL to the supervisor, or to the remote shell that runs it, and to its children. A
  // supervisor on another host ends its workers once its input ends.
  void Kill() const;
  // Waits until the supervisor ends, and kills it if it takes too long after its workers. Returns
  // its status, as waitpid() does.
  int Reap();

 private:
  explicit SupervisorProcess(int num_workers) : reader_(num_workers) {}

  pid_t process_ = -1;  // -1 once reaped
  int orders_ = -1;     // its standard input; non-blocking
  std::string unsent_;  // orders that are not yet written
  int events_ = -1;     // its standard output
  int errors_ = -1;     // its standard error; non-blocking
  EventReader reader_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_SUPERVISOR_PROCESS_H_
