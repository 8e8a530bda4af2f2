// SPDX-License-Identifier: Apache-2.0
#include "framework/core/text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr absl::string_view kUtf8Mark = "\xef\xbb\xbf";
constexpr absl::string_view kUtf16LittleMark = "\xff\xfe", kUtf16BigMark = "\xfe\xff";

bool IsHighSurrogate(uint32_t unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool IsLowSurrogate(uint32_t unit) { return unit >= 0xdc00 && unit < 0xe000; }

void AppendUtf8(uint32_t c, std::string* out) {
  const auto tail = [&](int shift) {
    out->push_back(static_cast<char>(0x80 | (c >> shift & 0x3f)));
  };
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xc0 | c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | c >> 12));
    tail(6);
    tail(0);
  } else {
    out->push_back(static_cast<char>(0xf0 | c >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

absl::Status TextDecoder::Decode(absl::string_view bytes, bool at_end, std::string* out) {
  if (encoding_ == Encoding::kUtf8) {
    absl::StrAppend(out, bytes);
    return absl::OkStatus();
  }
  absl::StrAppend(&pending_, bytes);
  if (encoding_ == Encoding::kUnknown) {
    if (pending_.size() < kLongestByteOrderMark && !at_end) return absl::OkStatus();
    absl::string_view start = pending_;
    encoding_ = absl::ConsumePrefix(&start, kUtf16LittleMark) ? Encoding::kUtf16Little
                : absl::ConsumePrefix(&start, kUtf16BigMark)  ? Encoding::kUtf16Big
                                                              : Encoding::kUtf8;
    if (encoding_ == Encoding::kUtf8) {
      absl::ConsumePrefix(&start, kUtf8Mark);
      absl::StrAppend(out, start);
      pending_ = {};
      return absl::OkStatus();
    }
    pending_.erase(0, kUtf16LittleMark.size());
    offset_ = kUtf16LittleMark.size();
  }
  return DecodeUtf16(at_end, out);
}

absl::Status TextDecoder::DecodeUtf16(bool at_end, std::string* out) {
  const auto unit_at = [&](size_t i) -> uint32_t {
    const auto first = static_cast<unsigned char>(pending_[i]);
    const auto second = static_cast<unsigned char>(pending_[i + 1]);
    return encoding_ == Encoding::kUtf16Little ? second << 8 | first : first << 8 | second;
  };
  size_t used = 0;
  while (pending_.size() - used >= 2) {
    uint32_t c = unit_at(used);
    size_t size = 2;
    if (IsHighSurrogate(c)) {
      if (pending_.size() - used < 4 && !at_end) break;
      size = 4;
    }
    const bool paired = size == 2
                            ? !IsLowSurrogate(c)
                            : pending_.size() - used >= 4 && IsLowSurrogate(unit_at(used + 2));
    if (!paired) {
      return absl::DataLossError(absl::StrFormat(
          "byte %d: malformed UTF-16 (the byte order mark indicates UTF-16); expected a surrogate "
          "pair, got a lone %04x",
          offset_ + used, c));
    }
    if (size == 4) c = 0x10000 + ((c - 0xd800) << 10) + (unit_at(used + 2) - 0xdc00);
    AppendUtf8(c, out);
    used += size;
  }
  pending_.erase(0, used);
  offset_ += used;
  if (!at_end || pending_.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("byte ", offset_, ": the UTF-16 text is cut short; ",
                                          "expected an even number of bytes, got ", offset_ + 1));
}

absl::string_view WithoutCtrlZ(absl::string_view text) {
  constexpr absl::string_view kTail = "\r\n\x1a";
  const size_t last = text.find_last_not_of(kTail);
  const size_t mark = text.find(kCtrlZ, last == absl::string_view::npos ? 0 : last + 1);
  return text.substr(0, mark);
}

std::string StrayControl(absl::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const absl::string_view rest = text.substr(i);
    if (c == '\f') return "a form feed";
    if (c == '\v') return "a vertical tab";
    if (absl::ascii_iscntrl(c) && c != '\t' && c != '\n' && c != '\r') {
      return absl::StrFormat("the control character 0x%02x", static_cast<unsigned char>(c));
    }
    if (absl::StartsWith(rest, "\xe2\x80\xa8")) return "U+2028";
    if (absl::StartsWith(rest, "\xe2\x80\xa9")) return "U+2029";
    // U+0080 to U+009f.
    if (c == '\xc2' && rest.size() > 1 && (rest[1] & 0xe0) == 0x80) {
      return rest[1] == '\x85' ? "NEL (U+0085)"
                               : absl::StrFormat("the control character U+%04X",
                                                 static_cast<unsigned char>(rest[1]));
    }
  }
  return "";
}

absl::Status CheckNoZeroByte(absl::string_view text, uint64_t offset) {
  const size_t zero = text.find('\0');
  if (zero == absl::string_view::npos) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("byte ", offset + zero,
                   ": not text; the zero byte indicates binary data, or UTF-16 "
                   "without a byte order mark"));
}

absl::StatusOr<std::string> PlainText(absl::string_view bytes) {
  std::string text;
  TextDecoder decoder;
  MF_RETURN_IF_ERROR(decoder.Decode(bytes, /*at_end=*/true, &text));
  MF_RETURN_IF_ERROR(CheckNoZeroByte(text));
  text.resize(WithoutCtrlZ(text).size());
  if (!absl::StrContains(text, '\r')) return text;
  size_t end = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool ends_line = text[i] == '\r';
    if (ends_line && i + 1 < text.size() && text[i + 1] == '\n') continue;  // the \n follows
    text[end++] = ends_line ? '\n' : text[i];
  }
  text.resize(end);
  return text;
}

}  // namespace mirrorflow
