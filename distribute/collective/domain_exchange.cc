// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/domain_exchange.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distribute/collective/check_collective.h"
#include "distribute/collective/shard_pieces.h"
#include "framework/core/buffer.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/reduce_in_rank_order.h"

namespace mirrorflow {
namespace {

// How long a wait polls for progress before it sleeps until data can move: a peer on a fast network
// answers in microseconds.
constexpr absl::Duration kSpin = absl::Microseconds(50);
constexpr absl::Duration kMaxSleep = absl::Milliseconds(50);

// A wait for bytes that the peer only forwards times out later, by this factor. A rank that waits
// directly for the missing rank therefore times out first and names it.
constexpr double kPassedOn = 1.25;

constexpr int kNotAll = 0;

// Reduces the parts of several domains to `out`. A mean is divided by the number of ranks only
// once, when the parts of all domains are present.
void ReduceDomains(Reduction reduction, DataType dtype, absl::Span<const void* const> parts,
                   void* out, int64_t count, int64_t ranks) {
  ReduceInRankOrder(WithinDomain(reduction), dtype, parts, {&out, 1}, count);
  if (reduction == Reduction::kMean && ranks != kNotAll) DivideSums(dtype, out, count, ranks);
}

}  // namespace

// The transfers of one piece of work in flight. Later work with the same layout reuses the memory.
struct DomainExchange::Flight {
  struct Piece {
    int values = 0, result = 0;  // unfinished transfers that the piece still waits for
    bool reduced = false, taken = false;
  };
  Layout* layout = nullptr;
  DomainWork* work = nullptr;
  DomainShard shard;
  MessageTag tag;
  const std::byte* own = nullptr;   // this rank's values in wire format
  std::vector<std::byte> narrowed;  // float32 values that travel as bfloat16
  std::vector<std::byte> received;
  std::vector<Piece> pieces;
  size_t first_waiting = 0;  // all pieces before this index have been taken
  int sends = 0;             // unfinished sends
  int left = 0;              // pieces not yet taken, plus one for all sends together
};

// The layout of all reductions of one size, or of one broadcast.
struct DomainExchange::Layout {
  std::vector<ShardPiece> pieces;
  Shard shard;
  int64_t wire_bytes = 0;  // per element
  // For each piece of a reduction, the offset in Flight::received of the other domains' values, in
  // domain order. The sum may overwrite the first of them. If another rank computes the result, the
  // result is stored after the values.
  std::vector<size_t> offset;
  size_t received_bytes = 0;
  std::vector<std::unique_ptr<Flight>> flights;
  std::vector<Flight*> free;

  int64_t bytes(const ShardPiece& piece) const { return piece.count * wire_bytes; }
  int64_t offset_of_own(const ShardPiece& piece) const {
    return (piece.first - shard.first) * wire_bytes;
  }
};

DomainExchange::DomainExchange(const Topology& topology, int rank,
                               std::unique_ptr<Transport> transport, absl::Duration timeout,
                               const ExchangeOptions& options)
    : topology_(topology),
      rank_(rank),
      partners_(topology),
      domain_(partners_.DomainOf(rank)),
      served_(partners_.RanksWithPartner(rank)),
      transport_(std::move(transport)),
      timeout_(timeout),
      options_(options),
      parts_(partners_.num_domains()),
      scattered_(partners_.num_domains()) {}

DomainExchange::~DomainExchange() { CancelTransfers(); }

void DomainExchange::CancelTransfers() {
  MutexLock lock(&mu_);
  if (!transport_->pending().has_value()) return;
  transport_->Abort(absl::CancelledError(absl::StrCat("rank ", rank_, " has closed")));
  transport_->Progress().IgnoreError();  // returns the failure, and no memory is accessed
}

std::byte* DomainExchange::Scratch(int64_t bytes) {
  if (static_cast<int64_t>(scratch_.size()) < bytes) scratch_.resize(bytes);
  return scratch_.data();
}

MessageTag DomainExchange::NextTag(uint64_t fingerprint) {
  return {.step = step_.load(std::memory_order_relaxed),
          .sequence = ++sequence_,
          .fingerprint = fingerprint};
}

// --- reductions of shards -----------------------------------------------------------------------

DataType DomainExchange::WireTypeOf(const DomainShard& shard) const {
  const bool is_large = shard.count * int64_t{sizeof(float)} > kOneRoundBytes;
  const bool may_round = shard.root == kNoRoot && shard.dtype == DT_FLOAT && is_large;
  return may_round ? options_.wire_dtype : shard.dtype;
}

DomainExchange::Layout& DomainExchange::LayoutOf(const DomainShard& shard) {
  const bool is_broadcast = shard.root != kNoRoot;
  const auto element_bytes = static_cast<int64_t>(DataTypeSize(shard.dtype));
  const auto wire_bytes = static_cast<int64_t>(DataTypeSize(WireTypeOf(shard)));
  std::unique_ptr<Layout>& layout = is_broadcast
                                        ? broadcasts_.emplace_back()
                                        : layouts_[{shard.count, element_bytes, wire_bytes}];
  if (layout != nullptr) return *layout;
  layout = std::make_unique<Layout>();
  layout->wire_bytes = wire_bytes;
  layout->shard = ShardOf(shard.count, element_bytes, partners_.IndexOf(rank_),
                          static_cast<int>(partners_.RanksOf(domain_).size()));
  if (is_broadcast) {
    layout->pieces = PiecesOfBroadcast(topology_, rank_, shard.count, element_bytes, shard.root);
    return *layout;
  }
  layout->pieces = PiecesOfShard(topology_, rank_, shard.count, element_bytes,
                                 RouteOf(num_domains(), shard.count * element_bytes, options_));
  for (const ShardPiece& piece : layout->pieces) {
    layout->offset.push_back(layout->received_bytes);
    const size_t messages = piece.values_from.size() + (piece.result_from >= 0 ? 1 : 0);
    layout->received_bytes += messages * layout->bytes(piece);
  }
  return *layout;
}

std::byte* DomainExchange::Received(Flight& flight, size_t p) {
  const Layout& layout = *flight.layout;
  if (flight.shard.root == kNoRoot) return flight.received.data() + layout.offset[p];
  // A broadcast receives in place.
  return const_cast<std::byte*>(flight.own) + layout.offset_of_own(layout.pieces[p]);
}

absl::Status DomainExchange::Start(Flight& flight, size_t p, int domain, bool sends, bool is_result,
                                   std::byte* memory) {
  const ShardPiece& piece = flight.layout->pieces[p];
  Flight::Piece& state = flight.pieces[p];
  Transfer transfer = {.peer = piece.ranks[domain],
                       .tag = flight.tag,
                       .urgency = flight.shard.urgency,
                       .unfinished = &flight.sends,
                       .name = flight.work->offer().name};
  transfer.tag.part = 2 * piece.parts[domain] + (is_result ? 1 : 0);
  const int root = flight.shard.root;
  if (is_result) {
    transfer.passed_on = root == kNoRoot || domain != topology_.replicas[root].domain;
  } else {
    transfer.passed_on = !sends && piece.gets_sums;
  }
  if (!sends) transfer.unfinished = is_result ? &state.result : &state.values;
  // In one round, the piece is reduced only after its sends, because the sum may overwrite the
  // values that they read.
  if (sends && piece.reduces() && !state.reduced) transfer.unfinished = &state.values;
  const absl::Span<std::byte> bytes(memory, static_cast<size_t>(flight.layout->bytes(piece)));
  if (sends) return transport_->StartSend(transfer, bytes);
  return transport_->StartReceive(transfer, bytes);
}

absl::Status DomainExchange::Launch(const DomainShard& shard, Flight& flight) {
  const Layout& layout = *flight.layout;
  const bool is_received = shard.root != kNoRoot && partners_.DomainOf(shard.root) != domain_;
  flight.own = static_cast<const std::byte*>(is_received ? shard.out : shard.in);
  if (WireTypeOf(shard) != shard.dtype) {
    flight.narrowed.resize(layout.shard.count * layout.wire_bytes);
    NarrowToBFloat16(static_cast<const float*>(shard.in), layout.shard.count,
                     flight.narrowed.data());
    flight.own = flight.narrowed.data();
  }
  for (size_t p = 0; p < layout.pieces.size(); ++p) {
    const ShardPiece& piece = layout.pieces[p];
    std::byte* received = Received(flight, p);
    for (const int d : piece.values_from) {
      MF_RETURN_IF_ERROR(Start(flight, p, d, /*sends=*/false, /*is_result=*/false, received));
      received += layout.bytes(piece);
    }
    if (piece.result_from >= 0) {
      MF_RETURN_IF_ERROR(
          Start(flight, p, piece.result_from, /*sends=*/false, /*is_result=*/true, received));
    }
    if (piece.passes_sums()) continue;
    auto* const own = const_cast<std::byte*>(flight.own + layout.offset_of_own(piece));
    for (const int d : piece.values_to) {
      MF_RETURN_IF_ERROR(Start(flight, p, d, /*sends=*/true, /*is_result=*/false, own));
    }
  }
  return absl::OkStatus();
}

absl::Status DomainExchange::Launch(const DomainPart& part, Flight& flight) {
  Transfer transfer = {.tag = flight.tag,
                       .urgency = part.urgency,
                       .unfinished = &flight.sends,
                       .name = flight.work->offer().name};
  for (const int r : served_) {
    if (part.others[r].empty()) continue;
    transfer.peer = r;
    MF_RETURN_IF_ERROR(transport_->StartReceive(transfer, part.others[r]));
  }
  for (int d = 0; d < num_domains() && !part.own.empty(); ++d) {
    if (d == domain_) continue;
    transfer.peer = partners_.PartnerOf(rank_, d);
    MF_RETURN_IF_ERROR(transport_->StartSend(transfer, part.own));
  }
  return absl::OkStatus();
}

DomainExchange::Flight& DomainExchange::NewFlight(Layout& layout, DomainWork* work) {
  if (layout.free.empty()) {
    layout.free.push_back(layout.flights.emplace_back(std::make_unique<Flight>()).get());
    layout.free.back()->received.resize(layout.received_bytes);
    layout.free.back()->layout = &layout;
  }
  Flight& flight = *layout.free.back();
  layout.free.pop_back();
  flight.work = work;
  flight.tag = NextTag(work->offer().fingerprint);
  flight.pieces.assign(layout.pieces.size(), {});
  flight.first_waiting = 0;
  flight.left = static_cast<int>(layout.pieces.size()) + 1;
  flights_.push_back(&flight);
  return flight;
}

absl::Status DomainExchange::Begin(DomainWork* work,
                                   const std::variant<DomainShard, DomainPart>& needs) {
  MutexLock lock(&mu_);
  if (const auto* shard = std::get_if<DomainShard>(&needs)) {
    Flight& flight = NewFlight(LayoutOf(*shard), work);
    flight.shard = *shard;
    MF_RETURN_IF_ERROR(Launch(*shard, flight));
  } else {
    if (parts_layout_ == nullptr) parts_layout_ = std::make_unique<Layout>();
    MF_RETURN_IF_ERROR(Launch(std::get<DomainPart>(needs), NewFlight(*parts_layout_, work)));
  }
  return ProgressLocked().status();
}

// Reduces the values of piece `p` that have arrived, together with this rank's own. Returns a
// pointer to the sum.
std::byte* DomainExchange::Reduce(Flight& flight, size_t p) {
  const Layout& layout = *flight.layout;
  const ShardPiece& piece = layout.pieces[p];
  const std::byte* const received = flight.received.data() + layout.offset[p];
  size_t n = 0;
  bool has_own = false;
  const auto add_own = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    parts_[n++] = flight.own + layout.offset_of_own(piece);
    has_own = true;
  };
  for (size_t i = 0; i < piece.values_from.size(); ++i) {
    if (!has_own && piece.values_from[i] > domain_) add_own();
    parts_[n++] = received + i * layout.bytes(piece);
  }
  if (!has_own) add_own();
  const Reduction reduction = flight.shard.reduction;
  const DataType dtype = WireTypeOf(flight.shard);
  const bool is_result = piece.result_from < 0;
  std::byte* sum = flight.received.data() + layout.offset[p];
  if (is_result && flight.shard.out != nullptr && dtype == flight.shard.dtype) {
    sum = ByteOffset(flight.shard.out, layout.offset_of_own(piece));
  }
  const int ranks = is_result ? topology_.world_size() : kNotAll;
  ReduceDomains(reduction, dtype, {parts_.data(), n}, sum, piece.count, ranks);
  return sum;
}

void DomainExchange::Take(const Flight& flight, size_t p, const std::byte* result) {
  const ShardPiece& piece = flight.layout->pieces[p];
  const void* values = result;
  if (WireTypeOf(flight.shard) != flight.shard.dtype) {
    widened_.resize(std::max<size_t>(widened_.size(), piece.count));
    WidenBFloat16(result, piece.count, widened_.data());
    values = widened_.data();
  }
  flight.work->Take(piece.first, values, piece.count);
}

// Takes and forwards the pieces whose values have arrived. Returns whether any piece has advanced.
absl::StatusOr<bool> DomainExchange::Advance(Flight& flight) {
  const Layout& layout = *flight.layout;
  bool advanced = false;
  for (size_t p = flight.first_waiting; p < layout.pieces.size(); ++p) {
    Flight::Piece& state = flight.pieces[p];
    if (state.taken || (state.values != 0 && !state.reduced)) continue;
    const ShardPiece& piece = layout.pieces[p];
    std::byte* result = Received(flight, p);
    if (piece.reduces() && !state.reduced) {
      result = Reduce(flight, p);
      state.reduced = advanced = true;
      if (piece.passes_sums()) {
        const int next = piece.values_to[0];
        MF_RETURN_IF_ERROR(Start(flight, p, next, /*sends=*/true, /*is_result=*/false, result));
      }
    }
    if (state.result != 0) continue;
    if (piece.result_from >= 0) result += piece.values_from.size() * layout.bytes(piece);
    for (const int d : piece.result_to) {
      MF_RETURN_IF_ERROR(Start(flight, p, d, /*sends=*/true, /*is_result=*/true, result));
    }
    Take(flight, p, result);
    state.taken = advanced = true;
    --flight.left;
  }
  while (flight.first_waiting < layout.pieces.size() && flight.pieces[flight.first_waiting].taken) {
    ++flight.first_waiting;
  }
  if (flight.left == 1 && flight.sends == 0) flight.left = 0;
  return advanced;
}

absl::StatusOr<bool> DomainExchange::ProgressLocked() {
  bool moved = false;
  for (bool moves = true; moves; moved = moved || moves) {
    const absl::StatusOr<bool> progressed = transport_->Progress();
    if (!progressed.ok()) return WithSequence(progressed.status());
    moves = *progressed;
    for (Flight* flight : flights_) {
      if (flight->left == 0) continue;
      MF_ASSIGN_OR_RETURN(const bool advanced, Advance(*flight));
      moves = moves || advanced;
    }
  }
  return moved;
}

// Adds the sequence number of the work that `status` names, if that work is in flight.
absl::Status DomainExchange::WithSequence(const absl::Status& status) const {
  const std::optional<Failure> failure = FailureOf(status);
  for (const Flight* flight : flights_) {
    const TeamOffer& offer = flight->work->offer();
    if (failure.has_value() && offer.name == failure->name) {
      return WithFailure(status, {.sequence = offer.sequence});
    }
  }
  return status;
}

absl::StatusOr<bool> DomainExchange::Progress() {
  MutexLock lock(&mu_);
  return ProgressLocked();
}

bool DomainExchange::PrepareToWait(std::vector<pollfd>* events) {
  MutexLock lock(&mu_);
  const auto is_done = [](const Flight* flight) { return flight->left == 0; };
  return std::ranges::all_of(flights_, is_done) || transport_->PrepareToWait(events);
}

absl::Status DomainExchange::Finish(const DomainWork* work) {
  MutexLock lock(&mu_);
  const auto it = std::ranges::find(flights_, work, &Flight::work);
  if (it == flights_.end()) return absl::InternalError("work was finished before it began");
  Flight* const flight = *it;
  MF_RETURN_IF_ERROR(WaitFor(flight->left));
  std::erase(flights_, flight);
  Layout* const layout = flight->layout;
  if (flight->shard.root == kNoRoot) {
    layout->free.push_back(flight);
  } else {
    // This also destroys the flight.
    std::erase_if(broadcasts_, [layout](const auto& other) { return other.get() == layout; });
  }
  return absl::OkStatus();
}

absl::Status DomainExchange::WaitFor(const int& unfinished) {
  const MonotonicTime start = MonotonicTime::Now();
  MonotonicTime last = start;  // when data last moved
  for (;;) {
    MF_ASSIGN_OR_RETURN(const bool moved, ProgressLocked());
    if (unfinished == 0) return absl::OkStatus();
    const MonotonicTime now = MonotonicTime::Now();
    const absl::Duration waited = now - start;
    if (moved) last = now;
    if (waited >= timeout_ && (waited >= kPassedOn * timeout_ || !WaitsForPassedOn())) {
      transport_->Abort(TimedOut(waited));
      continue;  // the next iteration returns the failure, and no memory is accessed
    }
    if (now - last < kSpin) continue;
    events_.clear();
    if (!transport_->PrepareToWait(&events_)) continue;
    std::vector<pollfd> events = std::exchange(events_, {});  // another thread may also wait
    const absl::Duration longest =
        waited < timeout_ ? std::min(timeout_ - waited, kMaxSleep) : kMaxSleep;
    mu_.Unlock();
    poll(events.data(), events.size(), static_cast<int>(absl::ToInt64Milliseconds(longest)) + 1);
    mu_.Lock();
    events_ = std::move(events);
  }
}

bool DomainExchange::WaitsForPassedOn() const {
  const std::optional<Transport::Pending> pending = transport_->pending();
  return pending.has_value() && pending->passed_on;
}

absl::Status DomainExchange::TimedOut(absl::Duration waited) const {
  const std::optional<Transport::Pending> pending = transport_->pending();
  if (!pending.has_value()) return absl::InternalError("timed out with no pending transfer");
  const std::string name = pending->name.empty() ? "" : absl::StrCat(" '", pending->name, "'");
  return WithFailure(
      absl::DeadlineExceededError(absl::StrCat(
          "rank ", rank_, " timed out after ",
          absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1))), " in collective ",
          pending->tag.sequence, name, "; expected ", pending->bytes, " bytes ",
          pending->is_receive ? "from" : "to be sent to", " rank ", pending->peer)),
      {.rank = pending->peer, .name = std::string(pending->name)});
}

// --- other collectives: at most one message from each rank to each of its peers ------------------

absl::Status DomainExchange::Send(int rank, const MessageTag& tag, const void* memory,
                                  int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return transport_->StartSend({.peer = rank, .tag = tag, .unfinished = &unfinished_},
                               {ByteOffset(memory, 0), static_cast<size_t>(bytes)});
}

absl::Status DomainExchange::Receive(int rank, const MessageTag& tag, void* memory, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return transport_->StartReceive({.peer = rank, .tag = tag, .unfinished = &unfinished_},
                                  {ByteOffset(memory, 0), static_cast<size_t>(bytes)});
}

absl::Status DomainExchange::ReduceScatterParts(
    Reduction reduction, DataType dtype, absl::Span<const int64_t> counts, void* out,
    absl::FunctionRef<void(int rank, void* out)> reduce_in_domain, uint64_t fingerprint) {
  MutexLock lock(&mu_);
  const MessageTag tag = NextTag(fingerprint);
  const auto size = static_cast<int64_t>(DataTypeSize(dtype));
  const int64_t own_bytes = counts[rank_] * size;
  int64_t scratch_bytes = own_bytes * num_domains();
  for (const int r : served_) scratch_bytes += counts[r] * size;
  std::byte* next = Scratch(scratch_bytes);
  for (int d = 0; d < num_domains() && own_bytes > 0; ++d) {
    scattered_[d] = d == domain_ ? out : next;
    if (d == domain_) continue;
    MF_RETURN_IF_ERROR(Receive(partners_.PartnerOf(rank_, d), tag, next, own_bytes));
    next += own_bytes;
  }
  for (const int r : served_) {
    if (counts[r] == 0) continue;
    reduce_in_domain(r, next);
    MF_RETURN_IF_ERROR(Send(r, tag, next, counts[r] * size));
    next += counts[r] * size;
  }
  if (own_bytes > 0) reduce_in_domain(rank_, out);
  MF_RETURN_IF_ERROR(WaitFor(unfinished_));
  if (own_bytes > 0) {
    ReduceDomains(reduction, dtype, scattered_, out, counts[rank_], topology_.world_size());
  }
  return absl::OkStatus();
}

absl::Status DomainExchange::GatherParts(DataType dtype, absl::Span<const int64_t> counts,
                                         const void* own, void* all, uint64_t fingerprint) {
  MutexLock lock(&mu_);
  const MessageTag tag = NextTag(fingerprint);
  const auto size = static_cast<int64_t>(DataTypeSize(dtype));
  for (const int r : served_) {
    void* const part = ByteOffset(all, FirstOf(r, counts) * size);
    MF_RETURN_IF_ERROR(Receive(r, tag, part, counts[r] * size));
  }
  for (int d = 0; d < num_domains(); ++d) {
    if (d == domain_) continue;
    MF_RETURN_IF_ERROR(Send(partners_.PartnerOf(rank_, d), tag, own, counts[rank_] * size));
  }
  return WaitFor(unfinished_);
}

absl::Status DomainExchange::Barrier(uint64_t fingerprint) {
  MutexLock lock(&mu_);
  const MessageTag tag = NextTag(fingerprint);
  if (partners_.IndexOf(rank_) != 0) return absl::OkStatus();
  const std::byte token{};
  std::byte* const tokens = Scratch(num_domains());
  for (int d = 0; d < num_domains(); ++d) {
    if (d == domain_) continue;
    const int first = partners_.RanksOf(d)[0];
    MF_RETURN_IF_ERROR(Send(first, tag, &token, 1));
    MF_RETURN_IF_ERROR(Receive(first, tag, tokens + d, 1));
  }
  return WaitFor(unfinished_);
}

}  // namespace mirrorflow
