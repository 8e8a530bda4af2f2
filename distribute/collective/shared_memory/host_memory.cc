// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/shared_memory/host_memory.h"

#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/proto/status.pb.h"
#include "framework/runtime/status_proto.h"

namespace mirrorflow {
namespace {

// The workers of a host connect at about the same time. If that takes longer than this, they use
// the network.
constexpr absl::Duration kMeetTimeout = absl::Seconds(20);

// Returns a name for a worker's socket that is unique on the host.
absl::StatusOr<std::string> RandomName() {
  char bytes[16];
  if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
    return SystemError(errno, "shared memory: cannot get random bytes");
  }
  return absl::StrCat("mirrorflow-",
                      absl::BytesToHexString(absl::string_view(bytes, sizeof(bytes))));
}

std::string SocketKey(int worker) { return absl::StrCat("shared memory of worker ", worker); }

// Returns the key where a worker reports, as a proto::Status, whether it could connect to all
// earlier workers.
std::string ConnectedKey(int worker) {
  return absl::StrCat("shared memory: connections of worker ", worker);
}

// The number of workers that hold a block from Share. It is stored after the block.
using Holders = std::atomic<int>;

Holders* HoldersOf(std::byte* block, size_t bytes) {
  return reinterpret_cast<Holders*>(block + AlignUp(bytes));
}

}  // namespace

// Exchanges heaps between the workers.
class HostMemory::Meeting {
 public:
  // If this worker has no heap, `heap` holds the reason.
  Meeting(absl::Span<const int> workers, int process,
          const absl::StatusOr<std::shared_ptr<SharedHeap>>& heap, WorkerGroup& group,
          MonotonicTime deadline, uid_t user)
      : workers_(workers),
        process_(process),
        heap_(heap),
        group_(group),
        deadline_(std::min(deadline, MonotonicTime::Now() + kMeetTimeout)),
        user_(user) {}

  // Every worker connects to the earlier ones and accepts the later ones. A worker that cannot
  // connect reports this through the group, so the others do not wait for it: a listener cannot
  // tell its closed connection from a stranger's.
  absl::StatusOr<std::vector<Peer>> Run() {
    absl::StatusOr<std::string> name = RandomName();
    absl::StatusOr<UnixSocket> listener =
        name.ok() ? UnixSocket::Listen(*name, user_) : absl::StatusOr<UnixSocket>(name.status());
    // An empty name tells the others not to wait for this worker.
    const bool can_share = heap_.ok() && listener.ok();
    MF_RETURN_IF_ERROR(
        group_.Put(SocketKey(workers_[process_]), can_share ? *name : std::string(), deadline_));
    MF_RETURN_IF_ERROR(heap_.status());
    MF_RETURN_IF_ERROR(listener.status());
    std::vector<std::string> names;
    for (const int worker : workers_) {
      MF_ASSIGN_OR_RETURN(names.emplace_back(), group_.Get(SocketKey(worker), deadline_));
      if (names.back().empty()) {
        return absl::UnavailableError(
            absl::StrCat("shared memory: worker ", worker, " could not set up its heap or socket"));
      }
    }
    std::vector<Peer> peers(workers_.size());
    const absl::Status connected = ConnectToEarlier(names, peers);
    MF_RETURN_IF_ERROR(group_.Put(ConnectedKey(workers_[process_]),
                                  StatusToProto(connected).SerializeAsString(), deadline_));
    MF_RETURN_IF_ERROR(connected);
    for (size_t i = process_ + 1; i < workers_.size(); ++i) {
      MF_ASSIGN_OR_RETURN(const std::string text, group_.Get(ConnectedKey(workers_[i]), deadline_));
      proto::Status other;
      if (!other.ParseFromString(text)) return absl::InternalError("shared memory: invalid status");
      MF_RETURN_IF_ERROR(StatusFromProto(other));
    }
    for (int i = 0; i < process_; ++i) {
      MF_ASSIGN_OR_RETURN(const UnixSocket::Message answer, peers[i].socket.Receive(deadline_));
      MF_ASSIGN_OR_RETURN(peers[i].segment, SharedSegment::Open(answer.fd));
    }
    for (size_t left = workers_.size() - process_ - 1; left > 0; --left) {
      MF_ASSIGN_OR_RETURN(UnixSocket socket, listener->Accept(deadline_));
      MF_ASSIGN_OR_RETURN(const UnixSocket::Message hello, socket.Receive(deadline_));
      MF_ASSIGN_OR_RETURN(auto segment, SharedSegment::Open(hello.fd));
      int i = 0;
      if (!absl::SimpleAtoi(hello.text, &i) || i <= process_ ||
          i >= static_cast<int>(workers_.size()) || peers[i].segment != nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("shared memory: unexpected connection; expected worker ",
                         workers_[process_ + 1], " or later"));
      }
      MF_RETURN_IF_ERROR(SendHeap(socket));
      peers[i] = {std::move(socket), std::move(segment)};
    }
    return peers;
  }

 private:
  absl::Status ConnectToEarlier(const std::vector<std::string>& names,
                                std::vector<Peer>& peers) const {
    for (int i = 0; i < process_; ++i) {
      absl::StatusOr<UnixSocket> socket = UnixSocket::Connect(names[i], user_);
      const absl::Status sent = socket.ok() ? SendHeap(*socket) : socket.status();
      if (!sent.ok()) {
        return Annotate(sent, absl::StrCat("shared memory: worker ", workers_[process_],
                                           " cannot connect to worker ", workers_[i]));
      }
      peers[i].socket = *std::move(socket);
    }
    return absl::OkStatus();
  }

  absl::Status SendHeap(const UnixSocket& socket) const {
    return socket.Send(absl::StrCat(process_), (*heap_)->segment().fd());
  }

  const absl::Span<const int> workers_;
  const int process_;
  const absl::StatusOr<std::shared_ptr<SharedHeap>>& heap_;
  WorkerGroup& group_;
  const MonotonicTime deadline_;
  const uid_t user_;
};

HostMemory::HostMemory(absl::Span<const int> workers, int process, std::shared_ptr<SharedHeap> heap,
                       std::vector<Peer> peers)
    : AddressSpace(SegmentsOf(*heap, peers)),
      workers_(workers.begin(), workers.end()),
      process_(process),
      heap_(std::move(heap)),
      peers_(std::move(peers)) {}

HostMemory::~HostMemory() {
  // Workers end at different times. A team's state, for example, must outlive the first worker.
  for (const Lent& lent : lent_) {
    if (lent.holders->load() > 0) heap_->KeepContents();
  }
}

std::vector<AddressSpace::Segment> HostMemory::SegmentsOf(const SharedHeap& own,
                                                          const std::vector<Peer>& peers) {
  std::vector<Segment> segments(1);  // the first is for addresses private to this process
  for (const Peer& peer : peers) {
    const SharedSegment& segment = peer.segment == nullptr ? own.segment() : *peer.segment;
    segments.push_back({segment.data(), segment.size()});
  }
  return segments;
}

absl::StatusOr<std::shared_ptr<HostMemory>> HostMemory::Connect(absl::Span<const int> workers,
                                                                WorkerGroup& group,
                                                                MonotonicTime deadline,
                                                                uid_t user) {
  const auto self = std::find(workers.begin(), workers.end(), group.worker());
  const auto process = static_cast<int>(self - workers.begin());
  auto heap = SharedHeap::Create(static_cast<int>(workers.size()));
  MF_ASSIGN_OR_RETURN(std::vector<Peer> peers,
                      Meeting(workers, process, heap, group, deadline, user).Run());
  return std::shared_ptr<HostMemory>(
      new HostMemory(workers, process, *std::move(heap), std::move(peers)));
}

absl::StatusOr<std::shared_ptr<std::byte>> HostMemory::Allocate(size_t bytes) {
  return heap_->Allocate(bytes);
}

bool HostMemory::IsAlive(int process) const {
  return process == process_ || peers_[process].socket.IsOpen();
}

absl::StatusOr<std::shared_ptr<std::byte>> HostMemory::Share(size_t bytes, absl::string_view name,
                                                             WorkerGroup& group,
                                                             MonotonicTime deadline) {
  const std::string key = absl::StrCat(name, " of worker ", workers_[0]);
  std::byte* block = nullptr;
  if (process_ == 0) {
    MF_ASSIGN_OR_RETURN(block, Lend(bytes));
    const auto position = static_cast<uint64_t>(PositionOf(block));
    MF_RETURN_IF_ERROR(group.Put(key, absl::StrCat(position), deadline));
  } else {
    MF_ASSIGN_OR_RETURN(const std::string text, group.Get(key, deadline));
    uint64_t position = 0;
    if (!absl::SimpleAtoi(text, &position)) {
      return absl::InternalError(absl::StrCat(key, ": expected a position, got '", text, "'"));
    }
    block = AddressOf(static_cast<Position>(position));
  }
  return std::shared_ptr<std::byte>(block, [self = shared_from_this(), bytes](std::byte* held) {
    HoldersOf(held, bytes)->fetch_sub(1);
  });
}

absl::StatusOr<std::byte*> HostMemory::Lend(size_t bytes) {
  MutexLock lock(&mu_);
  const auto is_free = [](const Lent& lent) { return lent.holders->load() == 0; };
  lent_.erase(std::remove_if(lent_.begin(), lent_.end(), is_free), lent_.end());
  MF_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory,
                      heap_->Allocate(AlignUp(bytes) + sizeof(Holders)));
  std::byte* const block = memory.get();
  Holders* const holders = HoldersOf(block, bytes);
  holders->store(num_processes());
  lent_.push_back({std::move(memory), holders});
  return block;
}

}  // namespace mirrorflow
