// SPDX-License-Identifier: Apache-2.0
#include "framework/proto/parsed_size.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace mirrorflow {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::Tokenizer;

constexpr int64_t kAllocation = 32;  // the pointer to an object, and allocator overhead
constexpr int64_t kString = sizeof(std::string) + kAllocation;  // without its text
constexpr int64_t kNumber = 8;     // a number, or a pointer to a string or a message
constexpr int64_t kHeader = 24;    // per message: virtual table pointer, arena, cached size
constexpr int64_t kRepeated = 24;  // a repeated field without elements
constexpr int64_t kMap = 120;      // a map without entries
constexpr int64_t kMapEntry = 32;  // with an empty key and value
constexpr int64_t kUnknown = 64;   // an unknown field, which the message keeps
constexpr size_t kMaxInput = std::numeric_limits<int>::max();  // protobuf's limit
// Maximum nesting of a text message. The parser in graph_file.cc has a lower limit.
constexpr size_t kMaxDepth = 1000;

// Estimates the size of an empty message of `type`. Message::SpaceUsedLong() would be exact, but it
// crashes under TSan, where map_field.h declares members that the prebuilt library lacks.
int64_t EmptyBytes(const Descriptor& type) {
  if (type.options().map_entry()) return kMapEntry;
  int64_t bytes = kHeader;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const auto* const oneof = field.containing_oneof();
    if (oneof != nullptr && oneof->field(0) != &field) continue;  // shares the first field's memory
    bytes += field.is_map() ? kMap : field.is_repeated() ? kRepeated : kNumber;
  }
  return bytes;
}

// Returns the memory taken by the elements of a packed field.
int64_t PackedBytes(const FieldDescriptor& field, absl::string_view packed) {
  const auto type = static_cast<WireFormatLite::FieldType>(field.type());
  if (WireFormatLite::WireTypeForFieldType(type) != WireFormatLite::WIRETYPE_VARINT) {
    return static_cast<int64_t>(packed.size());
  }
  // The continuation bit is clear only in the last byte of a varint, so count such bytes.
  const int64_t numbers =
      std::count_if(packed.begin(), packed.end(), [](char c) { return (c & 0x80) == 0; });
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return numbers;
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
      return 8 * numbers;
    default:
      return 4 * numbers;
  }
}

// Ignores syntax errors, because the parser reports them.
class IgnoredErrors : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int, const std::string&) override {}
};

}  // namespace

void ParsedSize::AddEmpty(const Descriptor& type) {
  const auto [it, is_new] = empty_.try_emplace(&type, 0);
  if (is_new) it->second = kAllocation + EmptyBytes(type);
  bytes_ += it->second;
}

bool ParsedSize::AddField(const Descriptor* type, uint32_t tag, CodedInputStream& input) {
  const FieldDescriptor* const field =
      type != nullptr ? type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag)) : nullptr;
  const WireFormatLite::WireType wire_type = WireFormatLite::GetTagWireType(tag);
  if (wire_type == WireFormatLite::WIRETYPE_START_GROUP) {
    bytes_ += kUnknown;
    if (!input.IncrementRecursionDepth() || !AddFields(nullptr, input)) return false;
    input.DecrementRecursionDepth();
    return true;
  }
  if (wire_type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
    bytes_ += field != nullptr ? kNumber : kUnknown;
    return WireFormatLite::SkipField(&input, tag);
  }
  int size;
  if (!input.ReadVarintSizeAsInt(&size)) return false;
  if (field != nullptr && field->message_type() != nullptr) {
    AddEmpty(*field->message_type());
    const auto [limit, depth_left] = input.IncrementRecursionDepthAndPushLimit(size);
    return depth_left >= 0 && AddFields(field->message_type(), input) &&
           input.DecrementRecursionDepthAndPopLimit(limit);
  }
  if (field != nullptr && field->is_packable() && size > 0) {
    const void* data;
    int available;
    if (!input.GetDirectBufferPointer(&data, &available)) return false;
    bytes_ += PackedBytes(
        *field, {static_cast<const char*>(data), static_cast<size_t>(std::min(size, available))});
    return input.Skip(size);
  }
  bytes_ += kString + size;
  return input.Skip(size);
}

bool ParsedSize::AddFields(const Descriptor* type, CodedInputStream& input) {
  while (const uint32_t tag = input.ReadTag()) {
    if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_END_GROUP) return true;
    if (!AddField(type, tag, input)) return false;
  }
  return true;
}

void ParsedSize::AddBinary(const Descriptor& type, absl::string_view bytes) {
  AddEmpty(type);
  if (bytes.size() > kMaxInput) {
    bytes_ += static_cast<int64_t>(bytes.size());
    return;
  }
  CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                         static_cast<int>(bytes.size()));
  AddFields(&type, input);  // the rest, if any, is not parsed either
}

void ParsedSize::AddText(const Descriptor& type, absl::string_view text) {
  AddEmpty(type);
  if (text.size() > kMaxInput) {
    bytes_ += static_cast<int64_t>(text.size());
    return;
  }
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  IgnoredErrors errors;
  Tokenizer tokens(&stream, &errors);
  // Use the settings of protobuf's text parser, so that both see the same tokens.
  tokens.set_allow_f_after_float(true);
  tokens.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
  struct Level {
    const Descriptor* type;  // null for a field that the parser skips
    std::string name;        // the last name seen, of a field or a constant
  };
  std::vector<Level> levels = {{&type, ""}};
  while (tokens.Next() && levels.size() < kMaxDepth) {
    const Tokenizer::Token& token = tokens.current();
    Level& level = levels.back();
    if (token.type == Tokenizer::TYPE_IDENTIFIER) {
      level.name = token.text;
    } else if (token.type == Tokenizer::TYPE_STRING) {
      bytes_ += kString + static_cast<int64_t>(token.text.size());
    } else if (token.type != Tokenizer::TYPE_SYMBOL) {
      bytes_ += kNumber;
    } else if (token.text == "{" || token.text == "<") {
      const FieldDescriptor* const field =
          level.type != nullptr ? level.type->FindFieldByName(level.name) : nullptr;
      const Descriptor* const inner = field != nullptr ? field->message_type() : nullptr;
      if (inner != nullptr) AddEmpty(*inner);
      levels.push_back({inner, ""});
    } else if ((token.text == "}" || token.text == ">") && levels.size() > 1) {
      levels.pop_back();
    }
  }
}

}  // namespace mirrorflow
