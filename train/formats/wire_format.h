// SPDX-License-Identifier: Apache-2.0
//
// WireReader: reads the fields of a serialized protocol buffer without the generated class.
// Source: protobuf.dev, "Encoding".
#ifndef MIRRORFLOW_TRAIN_FORMATS_WIRE_FORMAT_H_
#define MIRRORFLOW_TRAIN_FORMATS_WIRE_FORMAT_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace mirrorflow {

struct WireField {
  enum Type { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  uint32_t number;
  Type type;
  uint64_t value;           // the value of a varint
  absl::string_view bytes;  // the contents of all other types
};

class WireReader {
 public:
  explicit WireReader(absl::string_view message)
      : p_(message.data()), end_(message.data() + message.size()) {}

  // Reads the next field. Returns false at the end of the message, and for bytes that are not a
  // field.
  bool Next(WireField* field) {
    if (p_ == end_ || damaged_) return false;
    damaged_ = true;
    uint64_t tag, length;
    if (!Varint(&tag) || tag > ~uint32_t{0} || tag >> 3 == 0) return false;
    field->number = static_cast<uint32_t>(tag >> 3);
    field->type = static_cast<WireField::Type>(tag & 7);
    switch (field->type) {
      case WireField::kVarint:
        damaged_ = !Varint(&field->value);
        return !damaged_;
      case WireField::kFixed64:
        length = 8;
        break;
      case WireField::kFixed32:
        length = 4;
        break;
      case WireField::kBytes:
        if (!Varint(&length)) return false;
        break;
      default:  // groups, which proto3 does not have
        return false;
    }
    if (length > static_cast<uint64_t>(end_ - p_)) return false;
    field->bytes = absl::string_view(p_, length);
    p_ += length;
    damaged_ = false;
    return true;
  }

  // Reads the next packed varint. Returns false at the end, and for bytes that are not a varint.
  bool NextVarint(uint64_t* value) {
    if (p_ == end_ || damaged_) return false;
    damaged_ = !Varint(value);
    return !damaged_;
  }

  // Returns whether the last call returned false because of invalid bytes.
  bool damaged() const { return damaged_; }

 private:
  bool Varint(uint64_t* value) {
    if (p_ < end_ && static_cast<unsigned char>(*p_) < 0x80) {  // the most common case
      *value = static_cast<unsigned char>(*p_++);
      return true;
    }
    *value = 0;
    for (int shift = 0; shift < 70 && p_ < end_; shift += 7) {
      const auto byte = static_cast<unsigned char>(*p_++);
      *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  const char* p_;
  const char* end_;
  bool damaged_ = false;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_WIRE_FORMAT_H_
