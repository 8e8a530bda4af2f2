// SPDX-License-Identifier: Apache-2.0
//
// The messages and their field numbers, from TensorFlow's core/example/example.proto and
// feature.proto:
//   Example { Features features = 1 }      Features { map<string, Feature> feature = 1 }
//   Feature { oneof { BytesList = 1, FloatList = 2, Int64List = 3 } }
//   each list { repeated … value = 1 }, packed for numbers
#include "train/formats/example.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "train/formats/wire_format.h"

namespace mirrorflow {
namespace {

static_assert(std::endian::native == std::endian::little, "floats are copied unchanged");

constexpr uint32_t kFeatures = 1, kMapEntry = 1, kKey = 1, kValue = 2, kValues = 1;
constexpr uint32_t kBytesList = 1, kFloatList = 2, kInt64List = 3;

absl::Status NotAnExample(absl::string_view expected) {
  return absl::DataLossError(
      absl::StrCat("not a tf.train.Example, or damaged; expected ", expected, ", got other bytes"));
}

uint32_t ListOf(DataType dtype) {
  return dtype == DT_FLOAT ? kFloatList : dtype == DT_INT64 ? kInt64List : kBytesList;
}

absl::string_view NameOfList(uint32_t list) {
  return list == kFloatList   ? "float"
         : list == kInt64List ? "int64"
         : list == kBytesList ? "bytes"
                              : "no values";
}

// A feature's values, which can be spread over several parts of the message. Almost every feature
// has only one part.
struct Values {
  uint32_t list = 0;  // 0: the feature has no list, not even an empty one
  int64_t count = 0;
  absl::InlinedVector<WireField, 1> parts;
};

// Finds and counts the values. If a feature has several lists, the last one is used, as in
// protobuf.
absl::Status Locate(absl::string_view feature, Values* values) {
  WireReader lists(feature);
  for (WireField list; lists.Next(&list);) {
    if (list.type != WireField::kBytes || list.number > kInt64List) continue;
    if (values->list != list.number) *values = Values{list.number};
    WireReader elements(list.bytes);
    for (WireField element; elements.Next(&element);) {
      if (element.number != kValues) continue;
      const bool bytes = element.type == WireField::kBytes;
      switch (list.number) {
        case kFloatList:
          if (element.type != WireField::kFixed32 && (!bytes || element.bytes.size() % 4 != 0)) {
            return NotAnExample("a list of floats");
          }
          values->count += element.bytes.size() / 4;
          break;
        case kInt64List:
          if (bytes) {  // the last byte of each varint is below 128
            for (const char c : element.bytes) values->count += (c & 0x80) == 0;
          } else if (element.type == WireField::kVarint) {
            ++values->count;
          } else {
            return NotAnExample("a list of integers");
          }
          break;
        default:
          if (!bytes) return NotAnExample("a list of byte strings");
          ++values->count;
      }
      values->parts.push_back(element);
    }
    if (elements.damaged()) return NotAnExample("a list of values");
  }
  return lists.damaged() ? NotAnExample("a Feature") : absl::OkStatus();
}

// Copies the values to `out`. The caller must have checked their count.
absl::Status Copy(const Values& values, std::byte* out) {
  for (const WireField& part : values.parts) {
    if (values.list != kInt64List) {
      if (part.bytes.empty()) continue;
      std::memcpy(out, part.bytes.data(), part.bytes.size());
      out += part.bytes.size();
    } else if (part.type == WireField::kVarint) {
      std::memcpy(out, &part.value, sizeof(part.value));
      out += sizeof(part.value);
    } else {
      WireReader integers(part.bytes);
      for (uint64_t value; integers.NextVarint(&value); out += sizeof(value)) {
        std::memcpy(out, &value, sizeof(value));
      }
      if (integers.damaged()) return NotAnExample("a list of integers");
    }
  }
  return absl::OkStatus();
}

// Returns the shape of a feature with these values, or an error if they do not fit.
absl::StatusOr<Shape> ShapeOf(const ExampleSlot& slot, const Values& values) {
  auto bad = [&](auto... what) {
    return absl::DataLossError(absl::StrCat("feature '", Printable(slot.name), "': ", what...));
  };
  const uint32_t list = ListOf(slot.dtype);
  if (values.list == 0 && !slot.fixed) return Shape({0});
  if (values.list == 0) {
    return bad("missing; expected ", NameOfList(list), " values or a default value, got no values");
  }
  if (values.list != list) {
    return bad("wrong type; expected ", NameOfList(list), ", got ", NameOfList(values.list));
  }
  int64_t count = values.count;
  if (list == kBytesList) {
    if (count != 1) return bad("wrong number of byte strings; expected 1, got ", count);
    count = static_cast<int64_t>(values.parts[0].bytes.size());
  }
  if (!slot.shape.IsFullyDefined()) return Shape({count});
  if (count == slot.shape.num_elements()) return slot.shape;
  return bad("wrong number of ", list == kBytesList ? "bytes" : "values", "; expected ",
             slot.shape.num_elements(), " for ", slot.shape.ToString(), ", got ", count);
}

// The Feature message of each slot; empty if the example lacks it.
using Found = absl::InlinedVector<absl::string_view, 8>;

}  // namespace

absl::StatusOr<ExampleParser> ExampleParser::Create(std::vector<ExampleFeature> features) {
  ExampleParser parser;
  for (const ExampleFeature& feature : features) {
    ExampleSlot slot;
    if (const auto* fixed = std::get_if<FixedLenFeature>(&feature)) {
      slot = {fixed->name, fixed->dtype, fixed->shape, fixed->default_value, /*fixed=*/true};
    } else {
      const auto& var = std::get<VarLenFeature>(feature);
      slot = {var.name, var.dtype, Shape({kUnknownDim}), Tensor(), /*fixed=*/false};
    }
    auto invalid = [&](auto... what) {
      return absl::InvalidArgumentError(
          absl::StrCat("feature '", Printable(slot.name), "': ", what...));
    };
    const bool bytes = slot.dtype == DT_UINT8 && slot.fixed;
    if (slot.dtype != DT_FLOAT && slot.dtype != DT_INT64 && !bytes) {
      return invalid("unsupported dtype; expected float, int64 or, for a fixed length, uint8, got ",
                     DataTypeName(slot.dtype));
    }
    if (!(slot.shape == Shape({kUnknownDim}) && (bytes || !slot.fixed))) {
      if (!slot.shape.IsFullyDefined() || !slot.shape.Validate(slot.dtype).ok()) {
        return invalid("invalid shape; expected a fully defined shape, or [?] for uint8, got ",
                       slot.shape.ToString());
      }
    }
    const Tensor& value = slot.default_value;
    if (value.has_value() &&
        (value.dtype() != slot.dtype || !value.shape().IsCompatibleWith(slot.shape))) {
      return invalid("invalid default value; expected ", DataTypeName(slot.dtype),
                     slot.shape.ToString(), ", got ", value.TypeString());
    }
    if (!parser.slot_of_name_.emplace(slot.name, parser.slots_.size()).second) {
      return invalid("requested twice; expected different names");
    }
    parser.slots_.push_back(std::move(slot));
  }
  return parser;
}

absl::Status ExampleParser::Find(absl::string_view example,
                                 absl::Span<absl::string_view> found) const {
  WireReader fields(example);
  for (WireField features; fields.Next(&features);) {
    if (features.number != kFeatures || features.type != WireField::kBytes) continue;
    WireReader entries(features.bytes);
    for (WireField entry; entries.Next(&entry);) {
      if (entry.number != kMapEntry || entry.type != WireField::kBytes) continue;
      absl::string_view key, value;
      WireReader parts(entry.bytes);
      for (WireField part; parts.Next(&part);) {
        if (part.type != WireField::kBytes) continue;
        if (part.number == kKey) key = part.bytes;
        if (part.number == kValue) value = part.bytes;
      }
      if (parts.damaged()) return NotAnExample("an entry of a map");
      const auto slot = slot_of_name_.find(key);
      if (slot != slot_of_name_.end()) found[slot->second] = value;
    }
    if (entries.damaged()) return NotAnExample("a map of features");
  }
  return fields.damaged() ? NotAnExample("a message") : absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> ExampleParser::Parse(absl::string_view example) const {
  Found found(slots_.size());
  MF_RETURN_IF_ERROR(Find(example, absl::MakeSpan(found)));
  std::vector<Tensor> tensors;
  tensors.reserve(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const ExampleSlot& slot = slots_[i];
    Values values;
    MF_RETURN_IF_ERROR(Locate(found[i], &values));
    if (values.list == 0 && slot.default_value.has_value()) {
      tensors.push_back(slot.default_value);
      continue;
    }
    MF_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(slot, values));
    MF_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(slot.dtype, shape));
    MF_RETURN_IF_ERROR(Copy(values, tensor.raw()));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<std::vector<Tensor>> ExampleParser::ParseBatch(
    absl::Span<const absl::string_view> examples) const {
  std::vector<Tensor> tensors;
  for (const ExampleSlot& slot : slots_) {
    if (!slot.shape.IsFullyDefined()) {
      return absl::InvalidArgumentError(
          absl::StrCat("feature '", Printable(slot.name),
                       "': its length can vary, so it cannot be batched; expected a fixed length"));
    }
    Shape shape({static_cast<int64_t>(examples.size())});
    for (const int64_t dim : slot.shape.dims()) shape.AddDim(dim);
    MF_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(slot.dtype, shape));
    tensors.push_back(std::move(tensor));
  }
  Found found(slots_.size());
  for (size_t row = 0; row < examples.size(); ++row) {
    std::fill(found.begin(), found.end(), absl::string_view());
    const absl::Status status = [&] {
      MF_RETURN_IF_ERROR(Find(examples[row], absl::MakeSpan(found)));
      for (size_t i = 0; i < slots_.size(); ++i) {
        const ExampleSlot& slot = slots_[i];
        const size_t bytes = slot.shape.num_elements() * DataTypeSize(slot.dtype);
        std::byte* const out = tensors[i].raw() + row * bytes;
        Values values;
        MF_RETURN_IF_ERROR(Locate(found[i], &values));
        if (values.list == 0 && slot.default_value.has_value()) {
          std::memcpy(out, slot.default_value.raw(), bytes);
          continue;
        }
        MF_RETURN_IF_ERROR(ShapeOf(slot, values).status());
        MF_RETURN_IF_ERROR(Copy(values, out));
      }
      return absl::OkStatus();
    }();
    if (!status.ok()) return Annotate(status, absl::StrCat("example ", row));
  }
  return tensors;
}

}  // namespace mirrorflow
