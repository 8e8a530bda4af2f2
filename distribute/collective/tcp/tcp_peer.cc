// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/tcp/tcp_peer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

// Orders a heap whose front is sent first.
constexpr auto kIsSentLater = [](const auto& a, const auto& b) {
  return std::make_pair(a.transfer.urgency, a.serial) >
         std::make_pair(b.transfer.urgency, b.serial);
};

}  // namespace

absl::Status TcpPeer::Lost(const absl::Status& why, const MessageTag* tag) const {
  std::string where = absl::StrCat("connection of rank ", own_rank_, " to rank ", rank_);
  Failure failure = {.rank = rank_};
  if (tag != nullptr) {
    const auto message = receives_.find(KeyOf(*tag));
    if (message != receives_.end()) failure.name = std::string(message->second.transfer.name);
    absl::StrAppend(&where, ", collective ", tag->sequence);
  } else if (const auto oldest = pending(); oldest.has_value()) {
    failure.name = std::string(oldest->name);
    absl::StrAppend(&where, ", collective ", oldest->tag.sequence);
  }
  if (!failure.name.empty()) absl::StrAppend(&where, " '", failure.name, "'");
  return WithFailure(Annotate(why, where), failure);
}

absl::Status TcpPeer::Progress(bool* moved) {
  if (stream_ == nullptr) return absl::OkStatus();
  MF_RETURN_IF_ERROR(ProgressSends(moved));
  return ProgressReceives(moved);
}

pollfd TcpPeer::events() const {
  const int events = (sends_.empty() && !sending_.has_value() ? 0 : stream_->send_event()) |
                     (receives_.empty() || is_full() ? 0 : stream_->receive_event());
  return {.fd = stream_->fd(), .events = static_cast<int16_t>(events), .revents = 0};
}

std::optional<Transport::Pending> TcpPeer::pending() const {
  const auto order = [](const Message& message) {
    return std::pair(message.transfer.passed_on, message.serial);
  };
  const Message* oldest = nullptr;
  for (const auto& [key, message] : receives_) {
    if (oldest == nullptr || order(message) < order(*oldest)) oldest = &message;
  }
  const bool is_receive = oldest != nullptr;
  if (!is_receive && sending_.has_value()) oldest = &*sending_;
  if (oldest == nullptr && !sends_.empty()) oldest = &sends_.front();
  if (oldest == nullptr) return std::nullopt;
  return Transport::Pending{.peer = rank_,
                            .tag = oldest->transfer.tag,
                            .bytes = oldest->size,
                            .is_receive = is_receive,
                            .passed_on = oldest->transfer.passed_on,
                            .name = oldest->transfer.name};
}

// --- sending ------------------------------------------------------------------------------------

void TcpPeer::Send(const Transfer& transfer, absl::Span<const std::byte> bytes) {
  ++*transfer.unfinished;
  sends_.push_back({.transfer = transfer,
                    .bytes = const_cast<std::byte*>(bytes.data()),
                    .size = bytes.size(),
                    .serial = started_++});
  std::push_heap(sends_.begin(), sends_.end(), kIsSentLater);
}

void TcpPeer::BeginFrame() {
  const Message& message = *sending_;
  sent_.payload = message.bytes + message.done;
  sent_.payload_bytes = std::min(message.size - message.done, kMaxPayload);
  sent_.header = PackFrameHeader({.incarnation = incarnation_,
                                  .number = frames_sent_++,
                                  .tag = message.transfer.tag,
                                  .message_bytes = message.size,
                                  .payload_bytes = static_cast<uint32_t>(sent_.payload_bytes),
                                  .payload_crc = PayloadCrc({sent_.payload, sent_.payload_bytes})});
  sent_.done = 0;
}

absl::Status TcpPeer::ProgressSends(bool* moved) {
  while (sending_.has_value() || !sends_.empty()) {
    if (!sending_.has_value()) {
      std::pop_heap(sends_.begin(), sends_.end(), kIsSentLater);
      sending_ = sends_.back();
      sends_.pop_back();
      BeginFrame();
    }
    const size_t of_header = std::min(sent_.done, kFrameHeaderBytes);
    const size_t of_payload = sent_.done - of_header;
    const iovec rest[2] = {{sent_.header.data() + of_header, kFrameHeaderBytes - of_header},
                           {sent_.payload + of_payload, sent_.payload_bytes - of_payload}};
    const absl::StatusOr<size_t> count = stream_->Send(rest);
    if (!count.ok()) return Lost(count.status(), &sending_->transfer.tag);
    if (*count == 0) return absl::OkStatus();
    *moved = true;
    sent_.done += *count;
    if (sent_.done < kFrameHeaderBytes + sent_.payload_bytes) continue;
    sending_->done += sent_.payload_bytes;
    if (sending_->done < sending_->size) {
      BeginFrame();
      continue;
    }
    --*sending_->transfer.unfinished;
    sending_.reset();
  }
  return absl::OkStatus();
}

// --- receiving ----------------------------------------------------------------------------------

absl::Status TcpPeer::CheckFits(const FrameHeader& header, size_t done, size_t size) const {
  const size_t expected = std::min(size - done, kMaxPayload);
  if (header.payload_bytes == expected) return absl::OkStatus();
  return Lost(absl::DataLossError(absl::StrCat("wrong frame length; expected ", expected, ", got ",
                                               header.payload_bytes)),
              &header.tag);
}

absl::Status TcpPeer::Unexpected(const MessageTag& expected, size_t expected_bytes,
                                 const MessageTag& got, size_t got_bytes) const {
  return Lost(UnexpectedMessage(rank_, expected, expected_bytes, got, got_bytes), &got);
}

absl::Status TcpPeer::Receive(const Transfer& transfer, absl::Span<std::byte> bytes) {
  const Key key = KeyOf(transfer.tag);
  last_sequence_ = std::max(last_sequence_, transfer.tag.sequence);
  size_t done = 0;
  if (const auto early = early_.find(key); early != early_.end()) {
    const Early& message = early->second;
    if (message.tag != transfer.tag || message.size != bytes.size()) {
      return Unexpected(transfer.tag, bytes.size(), message.tag, message.size);
    }
    // The rest of a frame that has arrived in part is received directly into the caller's memory.
    const bool is_current = received_.done >= kFrameHeaderBytes && KeyOf(receiving_.tag) == key;
    const size_t here = is_current ? received_.done - kFrameHeaderBytes : 0;
    std::copy_n(message.bytes.begin(), message.done + here, bytes.begin());
    if (is_current) received_.payload = bytes.data() + message.done;
    done = message.done;
    early_bytes_ -= message.bytes.size();
    early_.erase(early);
    if (done == bytes.size()) return absl::OkStatus();
  }
  ++*transfer.unfinished;
  receives_[key] = {.transfer = transfer,
                    .bytes = bytes.data(),
                    .size = bytes.size(),
                    .done = done,
                    .serial = started_++};
  return absl::OkStatus();
}

// Reads the payload of one frame together with the header of the next. Stops after a complete
// message, so its values are used while they are in the cache.
absl::Status TcpPeer::ProgressReceives(bool* moved) {
  const size_t expected = receives_.size();
  while (receives_.size() == expected && (!receives_.empty() || received_.done > 0) && !is_full()) {
    FrameHeaderBytes next;
    const bool has_header = received_.done >= kFrameHeaderBytes;
    const size_t of_payload = has_header ? received_.done - kFrameHeaderBytes : 0;
    const size_t left = received_.payload_bytes - of_payload;
    // Read the next header only if another message is expected, so nothing is read too early.
    const iovec into[2] = {
        has_header
            ? iovec{received_.payload + of_payload, left}
            : iovec{received_.header.data() + received_.done, kFrameHeaderBytes - received_.done},
        {next.data(), has_header && receives_.size() > 1 ? kFrameHeaderBytes : 0}};
    const absl::StatusOr<size_t> count = stream_->Receive(into);
    if (!count.ok()) return Lost(count.status());
    if (*count == 0) return absl::OkStatus();
    *moved = true;
    const size_t first = std::min(*count, into[0].iov_len);
    received_.done += first;
    if (!has_header) {
      if (received_.done < kFrameHeaderBytes) continue;
      MF_RETURN_IF_ERROR(TakeHeader());
      if (received_.payload_bytes > 0) continue;
    } else if (first < left) {
      continue;
    }
    MF_RETURN_IF_ERROR(TakePayload());
    received_.payload_bytes = 0;
    received_.done = *count - first;
    std::copy_n(next.begin(), received_.done, received_.header.begin());
    if (received_.done == kFrameHeaderBytes) MF_RETURN_IF_ERROR(TakeHeader());
  }
  return absl::OkStatus();
}

// Checks a header and determines where to store its payload.
absl::Status TcpPeer::TakeHeader() {
  const auto header = UnpackFrameHeader(received_.header);
  if (!header.ok()) return Lost(header.status());
  if (header->incarnation != incarnation_) {
    return Lost(absl::AbortedError(
        absl::StrCat("a frame from another incarnation of the workers; expected ", incarnation_,
                     ", got ", header->incarnation)));
  }
  if (header->number != frames_received_) {
    return Lost(absl::DataLossError(
        absl::StrCat("a frame is missing, repeated or out of order; expected frame ",
                     frames_received_, ", got ", header->number)));
  }
  ++frames_received_;
  receiving_ = *header;
  received_.payload_bytes = header->payload_bytes;
  const Key key = KeyOf(header->tag);
  if (const auto it = receives_.find(key); it != receives_.end()) {
    const Message& message = it->second;
    if (header->tag != message.transfer.tag || header->message_bytes != message.size) {
      return Unexpected(message.transfer.tag, message.size, header->tag, header->message_bytes);
    }
    MF_RETURN_IF_ERROR(CheckFits(*header, message.done, message.size));
    received_.payload = message.bytes + message.done;
    return absl::OkStatus();
  }
  // A rank that begins a collective expects all of its messages from then on, so this is an extra
  // one.
  if (header->tag.sequence <= last_sequence_) {
    return Unexpected({}, 0, header->tag, header->message_bytes);
  }
  // The buffer grows only as data arrives. No collective sends empty messages.
  if (header->message_bytes == 0) return Lost(absl::DataLossError("empty message"), &header->tag);
  Early& early = early_[key];
  if (early.bytes.empty()) early = {.tag = header->tag, .size = header->message_bytes};
  if (early.tag != header->tag || early.size != header->message_bytes) {
    return Unexpected(early.tag, early.size, header->tag, header->message_bytes);
  }
  MF_RETURN_IF_ERROR(CheckFits(*header, early.done, early.size));
  early.bytes.resize(early.done + header->payload_bytes);
  early_bytes_ += header->payload_bytes;
  received_.payload = early.bytes.data() + early.done;
  return absl::OkStatus();
}

absl::Status TcpPeer::TakePayload() {
  const uint32_t crc = PayloadCrc({received_.payload, received_.payload_bytes});
  if (crc != receiving_.payload_crc) {
    return Lost(absl::DataLossError(absl::StrCat("damaged frame: wrong payload CRC; expected ",
                                                 absl::Hex(receiving_.payload_crc), ", got ",
                                                 absl::Hex(crc))),
                &receiving_.tag);
  }
  const Key key = KeyOf(receiving_.tag);
  if (const auto it = receives_.find(key); it != receives_.end()) {
    Message& message = it->second;
    message.done += received_.payload_bytes;
    if (message.done < message.size) return absl::OkStatus();
    --*message.transfer.unfinished;
    receives_.erase(it);
    return absl::OkStatus();
  }
  early_[key].done += received_.payload_bytes;
  return absl::OkStatus();
}

}  // namespace mirrorflow
