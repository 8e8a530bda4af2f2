// SPDX-License-Identifier: Apache-2.0
#include "train/safetensors/safetensors_json.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/json.h"
#include "framework/core/utf8.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

constexpr absl::string_view kInvalidJson = "InvalidHeaderDeserialization";

constexpr SafetensorsDtype kDtypes[] = {
    {"BOOL", 8, DT_BOOL},
    {"F4", 4, DT_INVALID},
    {"F6_E2M3", 6, DT_INVALID},
    {"F6_E3M2", 6, DT_INVALID},
    {"U8", 8, DT_UINT8},
    {"I8", 8, DT_INT8},
    {"F8_E5M2", 8, DT_INVALID},
    {"F8_E4M3", 8, DT_INVALID},
    {"F8_E8M0", 8, DT_INVALID},
    {"F8_E4M3FNUZ", 8, DT_INVALID},
    {"F8_E5M2FNUZ", 8, DT_INVALID},
    {"I16", 16, DT_INT16},
    {"U16", 16, DT_UINT16},
    {"F16", 16, DT_HALF},
    {"BF16", 16, DT_BFLOAT16},
    {"I32", 32, DT_INT32},
    {"U32", 32, DT_UINT32},
    {"F32", 32, DT_FLOAT},
    {"C64", 64, DT_COMPLEX64},
    {"F64", 64, DT_DOUBLE},
    {"I64", 64, DT_INT64},
    {"U64", 64, DT_UINT64},
};

// Builds the header from nlohmann's parser events. The parser's own parse() would silently keep
// only the last of several equal keys, and would build the whole tree. A handler stops the parser
// by returning false; `status` then holds the reason.
class HeaderEvents {
 public:
  RawSafetensorsHeader header;
  absl::Status status;

  bool key(std::string& key) {
    if (!keys_.back().insert(key).second) {
      return Fail("DuplicateKey", "key ", JsonQuote(key), " appears twice");
    }
    key_ = key;
    return true;
  }

  bool start_object(size_t) {
    keys_.emplace_back();
    if (Ignored()) return Enter(kIgnored);
    switch (Here()) {
      case kOutside:
        return Enter(kTensors);
      case kTensors:
        if (key_ == kSafetensorsMetadataKey) return Enter(kMetadata);
        header.entries.emplace_back();
        header.entries.back().name = key_;
        has_shape_ = false;
        return Enter(kTensor);
      default:
        return Unexpected("an object");
    }
  }

  bool start_array(size_t) {
    if (Ignored()) return Enter(kIgnored);
    if (Here() == kTensor && key_ == "shape") {
      has_shape_ = true;
      return Enter(kShape);
    }
    if (Here() == kTensor && key_ == "data_offsets") return Enter(kOffsets);
    return Unexpected("an array");
  }

  bool end_object() {
    keys_.pop_back();
    const Place left = Leave();
    return left != kTensor || CheckComplete(header.entries.back());
  }

  bool end_array() {
    Leave();
    return true;
  }

  bool string(std::string& value) {
    if (Ignored()) return true;
    if (Here() == kMetadata) {
      header.metadata[key_] = value;
      return true;
    }
    if (Here() != kTensor || key_ != "dtype") return Unexpected("a string");
    const SafetensorsDtype* row =
        std::find_if(std::begin(kDtypes), std::end(kDtypes),
                     [&](const SafetensorsDtype& r) { return r.name == value; });
    if (row == std::end(kDtypes)) {
      return Fail(kInvalidJson, "unknown dtype of tensor ", JsonQuote(header.entries.back().name),
                  "; expected one of BOOL, U8, …, F32, …, U64, got ", JsonQuote(value));
    }
    header.entries.back().dtype = row;
    return true;
  }

  bool number_unsigned(uint64_t value) {
    if (Ignored()) return true;
    if (Here() != kShape && Here() != kOffsets) return Unexpected("a number");
    (Here() == kShape ? header.entries.back().shape : header.entries.back().offsets)
        .push_back(value);
    return true;
  }

  bool number_integer(int64_t) { return Ignored() || Unexpected("a negative number"); }
  bool number_float(double, const std::string& text) {
    return Ignored() || Unexpected(absl::StrCat("the number ", text));
  }
  bool null() { return Ignored() || Unexpected("null"); }
  bool boolean(bool) { return Ignored() || Unexpected("a boolean"); }
  bool binary(nlohmann::json::binary_t&) { return Unexpected("binary data"); }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) {
    return Fail(kInvalidJson, "not JSON at byte ", position, " of the header: ", error.what());
  }

 private:
  enum Place { kOutside, kTensors, kMetadata, kTensor, kShape, kOffsets, kIgnored };

  Place Here() const { return places_.back(); }
  bool Enter(Place place) {
    places_.push_back(place);
    return true;
  }
  Place Leave() {
    const Place place = places_.back();
    places_.pop_back();
    return place;
  }

  // Returns whether the next value is in a field that the format does not define.
  bool Ignored() const {
    return Here() == kIgnored ||
           (Here() == kTensor && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets");
  }

  template <typename... Parts>
  bool Fail(absl::string_view rule, const Parts&... text) {
    status = BrokenSafetensors(rule, text...);
    return false;
  }

  bool Unexpected(absl::string_view got) {
    switch (Here()) {
      case kOutside:
        return Fail(kInvalidJson, "expected the header to be an object, got ", got);
      case kTensors:
        return Fail(kInvalidJson, "expected ", JsonQuote(key_), " to be an object, got ", got);
      case kMetadata:
        return Fail(kInvalidJson, "expected entry ", JsonQuote(key_),
                    " of __metadata__ to be a string, got ", got);
      case kTensor:
        return Fail(kInvalidJson, "tensor ", JsonQuote(header.entries.back().name), ": expected ",
                    key_, " to be ", key_ == "dtype" ? "a string" : "an array", ", got ", got);
      default:
        return Fail(kInvalidJson, "tensor ", JsonQuote(header.entries.back().name), ": expected ",
                    key_, " to hold integers from 0 to 2^64 - 1, got ", got);
    }
  }

  bool CheckComplete(const RawSafetensorsEntry& entry) {
    if (entry.dtype != nullptr && has_shape_ && entry.offsets.size() == 2) return true;
    return Fail(kInvalidJson, "tensor ", JsonQuote(entry.name),
                ": expected dtype, shape and 2 data_offsets, got ",
                entry.dtype != nullptr ? "a" : "no", " dtype, ", has_shape_ ? "a" : "no",
                " shape and ", entry.offsets.size(), " data_offsets");
  }

  std::string key_;
  bool has_shape_ = false;                   // of the current entry
  std::vector<std::set<std::string>> keys_;  // of each open object
  std::vector<Place> places_ = {kOutside};
};

}  // namespace

absl::Span<const SafetensorsDtype> SafetensorsDtypes() { return kDtypes; }

absl::StatusOr<RawSafetensorsHeader> ParseSafetensorsJson(absl::string_view json) {
  if (json.empty() || json[0] != '{') {
    return BrokenSafetensors("InvalidHeaderStart", "expected the header to begin with {, got ",
                             json.empty() ? "nothing" : JsonQuote(json.substr(0, 1)));
  }
  if (!IsUtf8(json)) return BrokenSafetensors("InvalidHeader", "the header is not UTF-8");
  // Check this here, because the parser accepts other trailing white space, and treats a NUL as the
  // end.
  const size_t last = json.find_last_not_of(' ');
  const size_t nul = json.find('\0');
  if (json[last] != '}' || nul != absl::string_view::npos) {
    return BrokenSafetensors("InvalidHeader", "expected only spaces after the header's closing }");
  }
  // The reference implementation also limits the depth to 128 levels.
  if (const absl::Status status = CheckJsonLimits(json); !status.ok()) {
    return BrokenSafetensors(kInvalidJson, status.message());
  }
  HeaderEvents events;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &events)) return events.status;
  return std::move(events.header);
}

}  // namespace mirrorflow
