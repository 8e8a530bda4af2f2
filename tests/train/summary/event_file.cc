// SPDX-License-Identifier: Apache-2.0
#include "tests/train/summary/event_file.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

template <typename T>
T Number(absl::string_view bytes) {
  T number = 0;
  EXPECT_GE(bytes.size(), sizeof(number));
  std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof(number)));
  return number;
}

// Computes CRC-32C bit by bit, with the reflected polynomial from RFC 3720, and masks it as
// TFRecord files do.
uint32_t MaskedChecksum(absl::string_view bytes) {
  uint32_t crc = ~0u;
  for (const unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

uint64_t Varint(absl::string_view* bytes) {
  uint64_t number = 0;
  for (int shift = 0; shift < 64 && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes->front());
    bytes->remove_prefix(1);
    number |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return number;
  }
  ADD_FAILURE() << "unterminated varint";
  return 0;
}

}  // namespace

WireMessage::WireMessage(absl::string_view bytes) {
  while (!bytes.empty()) {
    const uint64_t key = Varint(&bytes);
    std::vector<std::string>& values = fields_[static_cast<int>(key >> 3)];
    uint64_t size;
    switch (key & 7) {
      case 0: {
        const uint64_t number = Varint(&bytes);
        values.emplace_back(reinterpret_cast<const char*>(&number), sizeof(number));
        continue;
      }
      case 1:
        size = 8;
        break;
      case 2:
        size = Varint(&bytes);
        break;
      case 5:
        size = 4;
        break;
      default:
        ADD_FAILURE() << "unknown wire type " << (key & 7);
        return;
    }
    if (size > bytes.size()) {
      ADD_FAILURE() << "truncated field";
      return;
    }
    values.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
}

std::vector<std::string> WireMessage::All(int field) const {
  const auto found = fields_.find(field);
  return found == fields_.end() ? std::vector<std::string>() : found->second;
}

std::string WireMessage::String(int field) const {
  const auto found = fields_.find(field);
  return found == fields_.end() ? "" : found->second.back();
}

int64_t WireMessage::Int(int field) const {
  return Has(field) ? Number<int64_t>(String(field)) : 0;
}

float WireMessage::Float(int field) const { return Has(field) ? Number<float>(String(field)) : 0; }

double WireMessage::Double(int field) const {
  return Has(field) ? Number<double>(String(field)) : 0;
}

std::vector<double> WireMessage::PackedDoubles(int field) const {
  const std::string bytes = String(field);
  EXPECT_EQ(bytes.size() % sizeof(double), 0u);
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
  return numbers;
}

std::vector<WireMessage> ReadEvents(const std::string& path, bool is_growing) {
  std::stringstream stream;
  stream << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string contents = stream.str();
  absl::string_view rest = contents;
  std::vector<WireMessage> events;
  while (!rest.empty()) {
    if (rest.size() < 16 || Number<uint64_t>(rest) > rest.size() - 16) {
      EXPECT_TRUE(is_growing) << path << ": truncated record";
      break;
    }
    const size_t size = Number<uint64_t>(rest);
    EXPECT_EQ(Number<uint32_t>(rest.substr(8)), MaskedChecksum(rest.substr(0, 8)));
    const absl::string_view record = rest.substr(12, size);
    EXPECT_EQ(Number<uint32_t>(rest.substr(12 + size)), MaskedChecksum(record));
    events.emplace_back(record);
    rest.remove_prefix(16 + size);
  }
  return events;
}

}  // namespace mirrorflow
