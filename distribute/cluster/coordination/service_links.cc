// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/service_links.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "distribute/cluster/connections/tcp_socket.h"
#include "framework/core/system_error.h"

namespace mirrorflow {

static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR);

absl::Status ServiceLinks::Start() {
  epoll_ = OwnedSocket(epoll_create1(EPOLL_CLOEXEC));
  return epoll_.fd() < 0 ? NetworkError(errno, "coordination: cannot create an epoll descriptor")
                         : absl::OkStatus();
}

void ServiceLinks::Add(const std::string& name, int worker, absl::Duration handshake,
                       std::unique_ptr<Relay> relay) {
  std::unique_ptr<Link>& link = links_[name];
  link = std::make_unique<Link>(Link{.name = name,
                                     .worker = worker,
                                     .handshake = handshake,
                                     .relay = std::move(relay),
                                     .network = {.link = nullptr},
                                     .local = {.link = nullptr}});
  link->network.link = link->local.link = link.get();
  ++counts_[worker];
  SetReady(link.get());  // the stream may already hold the first call
}

void ServiceLinks::Remove(const std::string& name) {
  const auto found = links_.find(name);
  if (found == links_.end()) return;
  Link* const link = found->second.get();
  for (End* const end : {&link->network, &link->local}) Watch(end, end->fd, 0);
  if (link->is_ready) std::erase(ready_, link);
  const auto count = counts_.find(link->worker);
  if (--count->second == 0) counts_.erase(count);
  links_.erase(found);
}

int ServiceLinks::CountOf(int worker) const {
  const auto count = counts_.find(worker);
  return count == counts_.end() ? 0 : count->second;
}

void ServiceLinks::SetReady(Link* link) {
  if (std::exchange(link->is_ready, true)) return;
  ready_.push_back(link);
}

bool ServiceLinks::Watch(End* end, int fd, int16_t events) {
  if (events == end->events) return true;
  epoll_event event = {.events = static_cast<uint32_t>(events), .data = {.ptr = end}};
  // Unregister an end that waits for no event, because epoll would keep reporting that it is
  // closed.
  const int operation = events == 0        ? EPOLL_CTL_DEL
                        : end->events == 0 ? EPOLL_CTL_ADD
                                           : EPOLL_CTL_MOD;
  if (epoll_ctl(epoll_.fd(), operation, fd, &event) != 0) return false;
  end->events = events;
  end->fd = fd;
  return true;
}

bool ServiceLinks::Watch(Link* link) {
  std::vector<pollfd> polled;
  link->relay->AddPolled(&polled);
  const int network = polled[0].fd >= 0 ? polled[0].fd : link->network.fd;
  const int local = polled[1].fd >= 0 ? polled[1].fd : link->local.fd;
  return Watch(&link->network, network, polled[0].events) &&
         Watch(&link->local, local, polled[1].events);
}

bool ServiceLinks::Advance(const OnEnd& on_end) {
  std::array<epoll_event, 256> events;
  const int count = epoll_wait(epoll_.fd(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    End* const end = static_cast<End*>(events[i].data.ptr);
    if (end == &end->link->network && (events[i].events & EPOLLERR) != 0) {
      // Check before the link advances, because a read clears the error.
      end->link->network_failed = HasNetworkFailed(end->fd);
    }
    SetReady(end->link);
  }
  for (Link* const link : std::exchange(ready_, {})) {
    link->is_ready = false;
    if (link->relay->Advance().ok()) {
      if (link->relay->can_go_on()) {
        SetReady(link);
        continue;
      }
      if (Watch(link)) continue;
    }
    const std::string name = link->name;
    const absl::Duration handshake = link->handshake;
    const bool network_failed = link->network_failed;
    Remove(name);
    on_end(name, handshake, network_failed);
  }
  // More events may be pending than one call returns.
  return !ready_.empty() || count == static_cast<int>(events.size());
}

}  // namespace mirrorflow
