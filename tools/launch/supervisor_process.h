// SPDX-License-Identifier: Apache-2.0
//
// SupervisorProcess: the launcher's end of the supervisor of one host. It spawns the supervisor,
// here or through a remote shell, sends it orders and reads its events.
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
  // Runs it on the host, for `num_workers` there, through the remote shell if that is not this
  // machine.
  static absl::StatusOr<std::unique_ptr<SupervisorProcess>> Spawn(
      const LaunchHost& host, int num_workers, absl::Span<const std::string> remote_shell);
  ~SupervisorProcess();
  SupervisorProcess(const SupervisorProcess&) = delete;
  SupervisorProcess& operator=(const SupervisorProcess&) = delete;

  // For poll(); -1 once closed.
  int events() const { return events_; }
  int errors() const { return errors_; }
  // The file to which SendMore() can write; -1 if nothing is left to send.
  int unsent() const { return unsent_.empty() ? -1 : orders_; }

  // Does not wait: a host that does not answer must not keep the launcher from serving the others.
  // What is left is sent by SendMore().
  void Send(const launch::Order& order);
  void SendMore();
  // Ends its input; the supervisor then ends its workers.
  void CloseOrders();

  // Reads once. False at the end of the events.
  absl::StatusOr<bool> ReadEvents() { return reader_.ReadSome(events_); }
  // As EventReader::Next.
  absl::StatusOr<bool> NextEvent(launch::Event* event) { return reader_.Next(event); }
  // Reads once from its standard error: messages of the remote shell. Empty if there is nothing.
  std::string ReadErrors();
  // Something that the remote shell has left behind may keep its standard error open.
  void CloseErrors();

  // Ends the supervisor, or the remote shell that runs it, and its children by SIGKILL. A
  // supervisor on another host ends its workers once its orders end.
  void Kill() const;
  // Waits for its end, as long as it may take after that of its workers, and then kills it. Returns
  // its status, as waitpid() does.
  int Reap();

 private:
  explicit SupervisorProcess(int num_workers) : reader_(num_workers) {}

  pid_t process_ = -1;  // -1 once reaped
  int orders_ = -1;     // its standard input; writes do not wait
  std::string unsent_;  // orders that it has not yet read
  int events_ = -1;     // its standard output
  int errors_ = -1;     // its standard error; reads do not wait
  EventReader reader_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_SUPERVISOR_PROCESS_H_
