// SPDX-License-Identifier: Apache-2.0
#include "train/safetensors/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/json.h"
#include "framework/core/status.h"
#include "framework/core/utf8.h"
#include "nlohmann/json.hpp"
#include "train/safetensors/safetensors_json.h"

namespace mirrorflow {
namespace {

// Returns the size of an entry's data in bytes.
absl::StatusOr<uint64_t> BytesOf(const RawSafetensorsEntry& entry) {
  uint64_t bits = entry.dtype->bits;
  bool overflow = false;
  uint64_t elements = 1;
  for (uint64_t dim : entry.shape) overflow |= __builtin_mul_overflow(elements, dim, &elements);
  overflow |= __builtin_mul_overflow(elements, bits, &bits);
  const std::string what = absl::StrCat("tensor ", JsonQuote(entry.name), ": ", entry.dtype->name,
                                        "[", absl::StrJoin(entry.shape, ","), "]");
  if (overflow) return BrokenSafetensors("ValidationOverflow", what, " overflows 64 bits");
  if (bits % 8 != 0) {
    return BrokenSafetensors("MisalignedSlice", what,
                             " does not fill whole bytes; expected a multiple of 8 bits, got ",
                             bits);
  }
  return bits / 8;
}

// Checks that the tensors cover each byte of the data exactly once.
absl::Status CheckOffsets(std::vector<RawSafetensorsEntry>& entries, uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(),
            [](const RawSafetensorsEntry& a, const RawSafetensorsEntry& b) {
              return std::tie(a.offsets, a.name) < std::tie(b.offsets, b.name);
            });
  uint64_t expected = 0;
  std::string previous = "the header";
  for (const RawSafetensorsEntry& entry : entries) {
    const uint64_t begin = entry.offsets[0], end = entry.offsets[1];
    const std::string name = JsonQuote(entry.name);
    if (begin != expected) {
      return BrokenSafetensors("InvalidOffset", "tensor ", name,
                               begin < expected ? " overlaps " : " leaves a hole after ", previous,
                               "; expected it to begin at ", expected, ", got ", begin);
    }
    if (end < begin) {
      return BrokenSafetensors("InvalidOffset", "tensor ", name,
                               " ends before it begins; expected at least ", begin, ", got ", end);
    }
    MF_ASSIGN_OR_RETURN(const uint64_t bytes, BytesOf(entry));
    if (end - begin != bytes) {
      return BrokenSafetensors("TensorInvalidInfo", "tensor ", name, ": ", entry.dtype->name, "[",
                               absl::StrJoin(entry.shape, ","),
                               "] does not match its data_offsets; expected ", bytes,
                               " bytes, got ", end - begin);
    }
    expected = end;
    previous = name;
  }
  if (expected != data_bytes) {
    return BrokenSafetensors("MetadataIncompleteBuffer",
                             "the tensors do not cover the data; expected ", expected,
                             " bytes after the header, got ", data_bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<SafetensorsEntry> ToEntry(RawSafetensorsEntry raw) {
  const std::string what = absl::StrCat("tensor ", JsonQuote(raw.name), ": ");
  if (raw.dtype->dtype == DT_INVALID) {
    return absl::UnimplementedError(
        absl::StrCat(what, "elements of dtype ", raw.dtype->name, " are not supported"));
  }
  Shape shape;
  for (uint64_t dim : raw.shape) {
    if (dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return absl::UnimplementedError(
          absl::StrCat(what, "a dimension of ", dim, " is not supported; expected less than 2^63"));
    }
    shape.AddDim(dim);
  }
  const absl::Status valid = shape.Validate(raw.dtype->dtype);
  if (!valid.ok()) return absl::UnimplementedError(absl::StrCat(what, valid.message()));
  return SafetensorsEntry{std::move(raw.name), raw.dtype->dtype, shape, raw.offsets[0],
                          raw.offsets[1]};
}

const SafetensorsDtype* RowOf(DataType dtype) {
  if (dtype == DT_INVALID) return nullptr;
  for (const SafetensorsDtype& row : SafetensorsDtypes()) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         uint64_t data_bytes) {
  MF_ASSIGN_OR_RETURN(RawSafetensorsHeader raw_header, ParseSafetensorsJson(json));
  MF_RETURN_IF_ERROR(CheckOffsets(raw_header.entries, data_bytes));

  SafetensorsHeader header;
  header.metadata = std::move(raw_header.metadata);
  for (RawSafetensorsEntry& raw : raw_header.entries) {
    std::string name = raw.name;
    absl::StatusOr<SafetensorsEntry> entry = ToEntry(std::move(raw));
    if (entry.ok()) {
      header.entries.push_back(*std::move(entry));
    } else {
      header.unreadable.emplace(std::move(name), entry.status());
    }
  }
  return header;
}

absl::StatusOr<std::string> FormatSafetensorsHeader(
    const std::map<std::string, Tensor>& tensors,
    const std::map<std::string, std::string>& metadata, std::vector<const Tensor*>* order) {
  struct Item {
    const SafetensorsDtype* dtype;
    const std::string* name;
    const Tensor* tensor;
  };
  std::vector<Item> items;
  for (const auto& [name, tensor] : tensors) {
    const SafetensorsDtype* row = RowOf(tensor.dtype());
    if (row == nullptr || !IsUtf8(name) || name == kSafetensorsMetadataKey) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", JsonQuote(name), " cannot be written; expected ",
          row == nullptr ? absl::StrCat("a dtype that safetensors supports, got ",
                                        DataTypeName(tensor.dtype()))
                         : absl::StrCat("a UTF-8 name other than ", kSafetensorsMetadataKey)));
    }
    items.push_back({row, &name, &tensor});
  }
  // Stable, because the map is already sorted by name.
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.dtype > b.dtype; });

  // Join the fields as text, because ordered_json would compare each new key with all others.
  std::vector<std::string> fields;
  auto add_field = [&](absl::string_view name, const nlohmann::ordered_json& value) {
    fields.push_back(absl::StrCat(JsonQuote(name), ":", JsonText(value)));
  };
  if (!metadata.empty()) {
    for (const auto& [key, value] : metadata) {
      if (!IsUtf8(key) || !IsUtf8(value)) {
        return absl::InvalidArgumentError(
            absl::StrCat("metadata ", JsonQuote(key), " cannot be written; expected UTF-8"));
      }
    }
    add_field(kSafetensorsMetadataKey, metadata);
  }
  uint64_t begin = 0;
  order->clear();
  for (const Item& item : items) {
    const uint64_t end = begin + item.tensor->bytes();
    add_field(*item.name, {{"dtype", item.dtype->name},
                           {"shape", item.tensor->shape().dims()},
                           {"data_offsets", {begin, end}}});
    order->push_back(item.tensor);
    begin = end;
  }
  std::string header = absl::StrCat("{", absl::StrJoin(fields, ","), "}");
  header.resize(AlignUp(header.size(), 8), ' ');
  if (header.size() > kMaxSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the header is too large; expected at most ",
                                                   kMaxSafetensorsHeaderBytes, " bytes, got ",
                                                   header.size()));
  }
  return header;
}

}  // namespace mirrorflow
