// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/manifest.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "framework/core/crc32c.h"
#include "framework/core/json.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "mirrorflow checkpoint";
constexpr int kVersion = 2;
constexpr int kFirstVersion = 1;  // without state and reading_step
constexpr absl::string_view kPrefix = "{\"crc32c\":\"";
constexpr absl::string_view kMiddle = "\",\"manifest\":";
constexpr absl::string_view kSuffix = "}\n";
constexpr size_t kCrcDigits = 8;

std::string Hex(uint32_t crc) { return absl::StrFormat("%08x", crc); }

template <typename... Parts>
absl::Status Damaged(absl::string_view field, const Parts&... what) {
  return absl::DataLossError(absl::StrCat(field, ": ", what...));
}

// Reads the fields of a JSON object. Keeps the first error, which status() returns.
class Reader {
 public:
  // `where` precedes the field names in errors.
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) Fail("", "expected an object");
  }
  const absl::Status& status() const { return status_; }

  template <typename Integer>
  void Read(const char* field, Integer* value) {
    const Json* const found = Find(field);
    if (found == nullptr) return;
    const bool fits =
        found->is_number_unsigned() &&
        found->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<Integer>::max());
    if (!fits) {
      return Fail(field, absl::StrCat("expected an integer from 0 to ",
                                      std::numeric_limits<Integer>::max()));
    }
    *value = found->get<Integer>();
  }
  void Read(const char* field, std::string* value) {
    const Json* const found = Find(field);
    if (found == nullptr) return;
    if (!found->is_string()) return Fail(field, "expected a string");
    *value = found->get<std::string>();
  }
  // Reads an object whose values are strings.
  void ReadTexts(const char* field, std::map<std::string, std::string>* texts) {
    for (const auto& [name, value] : Child(field, Json::value_t::object).items()) {
      if (!value.is_string()) return Fail(field, "expected only strings");
      (*texts)[name] = value.get<std::string>();
    }
  }
  void ReadCrc(const char* field, uint32_t* value) {
    std::string digits;
    Read(field, &digits);
    if (!status_.ok()) return;
    if (digits.size() != kCrcDigits || !absl::SimpleHexAtoi(digits, value)) {
      Fail(field, absl::StrCat("expected ", kCrcDigits, " hexadecimal digits"));
    }
  }
  // Returns the object or array at `field`, or a JSON null, which has no elements, if there is
  // none.
  const Json& Child(const char* field, Json::value_t type) {
    static const Json* const nothing = new Json();
    const Json* const found = Find(field);
    if (found == nullptr) return *nothing;
    if (found->type() != type) {
      Fail(field, type == Json::value_t::array ? "expected an array" : "expected an object");
      return *nothing;
    }
    return *found;
  }
  void Fail(absl::string_view field, absl::string_view what) {
    if (status_.ok()) status_ = Damaged(absl::StrCat(where_, field), what);
  }

 private:
  const Json* Find(const char* field) {
    if (!status_.ok()) return nullptr;
    const auto found = json_.find(field);
    if (found != json_.end()) return &*found;
    Fail(field, "missing");
    return nullptr;
  }

  const Json& json_;
  const std::string where_;
  absl::Status status_;
};

// Returns whether the name can only refer to a file next to the manifest that is not hidden.
bool IsPlainFileName(absl::string_view name) {
  return !name.empty() && name.size() <= 200 && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
         });
}

Json TensorsToJson(const CheckpointFile& file) {
  Json tensors = Json::array();
  for (const auto& [name, tensor] : file.tensors) {
    Json shape = Json::array();
    for (const int64_t dim : tensor.shape.dims()) shape.push_back(dim);
    tensors.push_back({{"name", name},
                       {"dtype", DataTypeName(tensor.dtype)},
                       {"shape", std::move(shape)},
                       {"crc32c", Hex(tensor.crc32c)}});
  }
  return tensors;
}

Json FileToJson(const CheckpointFile& file) {
  return {{"file", file.name},
          {"bytes", file.bytes},
          {"header_bytes", file.header_bytes},
          {"header_crc32c", Hex(file.header_crc32c)}};
}

Json ToJson(const CheckpointManifest& m) {
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"step", m.step},
               {"epoch", m.epoch},
               {"batch", m.batch},
               {"session_step", m.session_step},
               {"reading_step", m.reading_step},
               {"seed", m.seed},
               {"num_workers", m.num_workers},
               {"num_replicas", m.num_replicas},
               {"time", m.time},
               {"settings", m.settings},
               {"state", m.state},
               {"data", FileToJson(m.variables)},
               {"tensors", TensorsToJson(m.variables)}};
  if (!m.state_tensors.name.empty()) {
    json["state_data"] = FileToJson(m.state_tensors);
    json["state_tensors"] = TensorsToJson(m.state_tensors);
  }
  return json;
}

// Reads the array of tensors. `field` names it in errors.
absl::Status ReadTensors(const Json& array, absl::string_view field,
                         std::map<std::string, CheckpointFile::TensorInfo>* tensors) {
  for (size_t i = 0; i < array.size(); ++i) {
    const std::string element = absl::StrCat(field, "[", i, "]");
    Reader reader(array[i], absl::StrCat(element, "."));
    std::string name, dtype;
    CheckpointFile::TensorInfo tensor;
    reader.Read("name", &name);
    reader.Read("dtype", &dtype);
    reader.ReadCrc("crc32c", &tensor.crc32c);
    std::vector<int64_t> dims;
    for (const Json& dim : reader.Child("shape", Json::value_t::array)) {
      const bool fits = dim.is_number_unsigned() &&
                        dim.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
      if (!fits) reader.Fail("shape", "expected integers of at least 0");
      dims.push_back(fits ? dim.get<int64_t>() : 0);
    }
    MF_RETURN_IF_ERROR(reader.status());
    const absl::StatusOr<DataType> parsed = ParseDataType(dtype);
    if (!parsed.ok()) {
      return Damaged(absl::StrCat(element, ".dtype"), parsed.status().message());
    }
    tensor.dtype = *parsed;
    tensor.shape = Shape(dims);
    if (!tensors->emplace(name, std::move(tensor)).second) {
      return Damaged(element, "a second tensor '", Printable(name), "'");
    }
  }
  return absl::OkStatus();
}

// Reads the description of a file: the manifest's object `data` and its array `tensors`.
absl::Status ReadFile(Reader& manifest, const char* data, const char* tensors,
                      CheckpointFile* file) {
  const Json& array = manifest.Child(tensors, Json::value_t::array);
  Reader reader(manifest.Child(data, Json::value_t::object), absl::StrCat(data, "."));
  MF_RETURN_IF_ERROR(manifest.status());
  reader.Read("file", &file->name);
  reader.Read("bytes", &file->bytes);
  reader.Read("header_bytes", &file->header_bytes);
  reader.ReadCrc("header_crc32c", &file->header_crc32c);
  MF_RETURN_IF_ERROR(reader.status());
  if (!IsPlainFileName(file->name)) {
    return Damaged(absl::StrCat(data, ".file"),
                   "illegal file name; expected letters, digits, '.', '-' and '_', got '",
                   Printable(file->name), "'");
  }
  return ReadTensors(array, tensors, &file->tensors);
}

absl::StatusOr<CheckpointManifest> FromJson(const Json& json) {
  CheckpointManifest m;
  Reader reader(json, "");
  std::string format;
  int version = 0;
  reader.Read("format", &format);
  reader.Read("version", &version);
  MF_RETURN_IF_ERROR(reader.status());
  if (format != kFormat || version < kFirstVersion || version > kVersion) {
    return Damaged("format", "expected '", kFormat, "', version ", kFirstVersion, " to ", kVersion,
                   ", got '", Printable(format), "', version ", version);
  }
  reader.Read("step", &m.step);
  reader.Read("epoch", &m.epoch);
  reader.Read("batch", &m.batch);
  reader.Read("session_step", &m.session_step);
  reader.Read("seed", &m.seed);
  reader.Read("num_workers", &m.num_workers);
  reader.Read("num_replicas", &m.num_replicas);
  reader.Read("time", &m.time);
  reader.ReadTexts("settings", &m.settings);
  if (version > kFirstVersion) {
    reader.Read("reading_step", &m.reading_step);
    reader.ReadTexts("state", &m.state);
  }
  MF_RETURN_IF_ERROR(ReadFile(reader, "data", "tensors", &m.variables));
  if (json.contains("state_data")) {
    MF_RETURN_IF_ERROR(ReadFile(reader, "state_data", "state_tensors", &m.state_tensors));
  }
  MF_RETURN_IF_ERROR(reader.status());
  return m;
}

}  // namespace

std::string FormatManifest(const CheckpointManifest& manifest) {
  const std::string body = JsonText(ToJson(manifest));
  return absl::StrCat(kPrefix, Hex(Crc32c(body)), kMiddle, body, kSuffix);
}

absl::StatusOr<CheckpointManifest> ParseManifest(absl::string_view text) {
  absl::string_view body = text;
  uint32_t expected = 0;
  const bool is_framed = absl::ConsumePrefix(&body, kPrefix) && body.size() > kCrcDigits &&
                         absl::SimpleHexAtoi(body.substr(0, kCrcDigits), &expected);
  if (is_framed) body.remove_prefix(kCrcDigits);
  if (!is_framed || !absl::ConsumePrefix(&body, kMiddle) || !absl::ConsumeSuffix(&body, kSuffix)) {
    return Damaged("manifest", "damaged; expected {\"crc32c\":…,\"manifest\":…}, got ", text.size(),
                   " bytes in another form");
  }
  if (const uint32_t crc = Crc32c(body); crc != expected) {
    return Damaged("manifest", "damaged; expected a checksum of ", Hex(expected), ", got ",
                   Hex(crc));
  }
  const absl::StatusOr<Json> json = ParseJson(body);
  if (!json.ok()) return Damaged("manifest", json.status().message());
  return FromJson(*json);
}

}  // namespace mirrorflow
