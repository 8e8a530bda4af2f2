// SPDX-License-Identifier: Apache-2.0
//
// Source: PKWARE, "APPNOTE.TXT - .ZIP File Format Specification", 6.3.10.
#include "train/formats/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/core/utf8.h"

namespace mirrorflow {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kCentralSignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kLocator64Signature = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr size_t kMaxCommentBytes = 0xffff;
constexpr uint64_t kMaxDirectoryBytes = 64 << 20;
constexpr uint32_t kIn64 = 0xffffffff;   // the value is in the zip64 record
constexpr uint16_t kIn64Short = 0xffff;  // like kIn64, for 16-bit fields
constexpr uint16_t kZip64Extra = 1;      // the id of the zip64 record
constexpr uint16_t kVersion64 = 45;      // the first format version with zip64
constexpr uint16_t kUtf8Name = 1 << 11;
constexpr uint16_t kEncrypted = 1 | 1 << 6 | 1 << 13;
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr uint16_t kFirstOf1980 = 1 << 5 | 1;  // the date that NumPy writes
constexpr uint64_t kMaxDeflateRatio = 1032;    // zlib's technical notes
constexpr size_t kChunk = size_t{1} << 16;
constexpr int kRawDeflate = -15;  // inflateInit2: largest window, no header

// Reads consecutive little-endian integers.
class Fields {
 public:
  explicit Fields(absl::string_view bytes) : rest_(bytes) {}

  // The functions below require that enough bytes are left.
  uint16_t U16() { return Number<uint16_t>(); }
  uint32_t U32() { return Number<uint32_t>(); }
  uint64_t U64() { return Number<uint64_t>(); }
  absl::string_view Bytes(size_t size) {
    const absl::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  size_t left() const { return rest_.size(); }

 private:
  template <typename T>
  T Number() {
    MF_CHECK(rest_.size() >= sizeof(T));
    T value;
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return value;
  }

  absl::string_view rest_;
};

void Append(std::string* out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i, value >>= 8) out->push_back(static_cast<char>(value));
}

template <typename A, typename B>
absl::Status Broken(absl::string_view what, const A& expected, const B& got) {
  return absl::DataLossError(absl::StrCat("zip: ", what, "; expected ", expected, ", got ", got));
}

absl::StatusOr<std::string> ReadBytes(const InputFile& file, uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  MF_RETURN_IF_ERROR(file.Read(offset, size, bytes.data()));
  return bytes;
}

struct Directory {
  uint64_t entries = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
};

// Reads the zip64 end record that precedes the end record at `end`, and sets `end` to its offset.
absl::StatusOr<Directory> ReadEnd64(const InputFile& file, uint64_t* end) {
  if (*end < kLocator64Bytes + kEnd64Bytes) {
    return Broken("the zip64 end record is cut short", kLocator64Bytes + kEnd64Bytes, *end);
  }
  MF_ASSIGN_OR_RETURN(const std::string located,
                      ReadBytes(file, *end - kLocator64Bytes, kLocator64Bytes));
  Fields locator(located);
  const uint64_t place = *end - kLocator64Bytes - kEnd64Bytes;
  if (locator.U32() != kLocator64Signature || locator.U32() != 0 || locator.U64() != place ||
      locator.U32() != 1) {
    return absl::DataLossError(
        absl::StrCat("zip: the zip64 end locator is invalid; expected disk 0 of 1, byte ", place,
                     ", got '", Printable(located), "'"));
  }
  MF_ASSIGN_OR_RETURN(const std::string record, ReadBytes(file, place, kEnd64Bytes));
  Fields f(record);
  const uint32_t signature = f.U32();
  const uint64_t length = f.U64();
  f.Bytes(4);  // versions
  const uint64_t disks = uint64_t{f.U32()} << 32 | f.U32();
  const uint64_t entries_here = f.U64();
  Directory directory;
  directory.entries = f.U64();
  directory.size = f.U64();
  directory.offset = f.U64();
  if (signature != kEnd64Signature || length != kEnd64Bytes - 12 || disks != 0 ||
      entries_here != directory.entries) {
    return absl::DataLossError(absl::StrCat(
        "zip: the zip64 end record is invalid; expected one disk and no extensions, got '",
        Printable(record), "'"));
  }
  *end = place;
  return directory;
}

absl::StatusOr<Directory> ReadEnd(const InputFile& file) {
  const uint64_t tail_bytes = std::min<uint64_t>(file.size(), kEndBytes + kMaxCommentBytes);
  MF_ASSIGN_OR_RETURN(const std::string tail,
                      ReadBytes(file, file.size() - tail_bytes, tail_bytes));
  // Find the last record whose comment extends to the end of the file.
  for (size_t back = kEndBytes; back <= tail.size(); ++back) {
    Fields f(absl::string_view(tail).substr(tail.size() - back));
    if (f.U32() != kEndSignature) continue;
    const uint32_t disks = uint32_t{f.U16()} << 16 | f.U16();
    const uint16_t entries_here = f.U16(), entries = f.U16();
    const uint32_t size = f.U32(), offset = f.U32();
    if (f.U16() != back - kEndBytes) continue;
    uint64_t end = file.size() - back;
    Directory directory{entries, offset, size};
    if (entries == kIn64Short || size == kIn64 || offset == kIn64) {
      MF_ASSIGN_OR_RETURN(directory, ReadEnd64(file, &end));
    } else if (disks != 0 || entries_here != entries) {
      return absl::UnimplementedError("zip: multi-disk archives are not supported");
    }
    if (directory.size > end || directory.offset != end - directory.size) {
      return Broken("the central directory ends at the wrong offset", end,
                    absl::StrCat(directory.offset, " + ", directory.size));
    }
    if (directory.size > kMaxDirectoryBytes) {
      return Broken("the central directory is too large",
                    absl::StrCat("at most ", kMaxDirectoryBytes), directory.size);
    }
    if (directory.entries > directory.size / kCentralBytes) {
      return Broken("the number of entries is out of range",
                    absl::StrCat("at most ", directory.size / kCentralBytes), directory.entries);
    }
    return directory;
  }
  return absl::DataLossError("not a zip archive; expected an end record, got none");
}

// Replaces the fields that do not fit in 32 bits with their 64-bit values from `extra`.
absl::Status TakeZip64(absl::string_view extra, absl::Span<uint64_t* const> fields) {
  const bool wanted =
      std::any_of(fields.begin(), fields.end(), [](const uint64_t* v) { return *v == kIn64; });
  Fields f(extra);
  while (wanted && f.left() >= 4) {
    const uint16_t id = f.U16(), size = f.U16();
    if (size > f.left()) break;
    Fields record(f.Bytes(size));
    if (id != kZip64Extra) continue;
    for (uint64_t* field : fields) {
      if (*field != kIn64) continue;
      if (record.left() < 8) return Broken("the zip64 record is cut short", 8, record.left());
      *field = record.U64();
    }
    return absl::OkStatus();
  }
  return wanted ? absl::DataLossError("zip: a zip64 field is missing") : absl::OkStatus();
}

// Rejects names that, as paths, would lead out of a directory. They are not used as paths here, but
// callers may create files with these names.
absl::Status CheckName(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  const bool leads_out = absl::StartsWith(name, "/") || absl::StrContains(name, '\\') ||
                         std::find(parts.begin(), parts.end(), "..") != parts.end();
  if (!name.empty() && IsUtf8(name) && !absl::StrContains(name, '\0') && !leads_out) {
    return absl::OkStatus();
  }
  return Broken("an entry has an invalid name",
                "UTF-8 without NUL, backslash, '..' or a leading '/'",
                absl::StrCat("'", Printable(name), "'"));
}

// Reads the next entry and sets `offset` to the offset of its local header.
absl::StatusOr<ZipEntry> ReadCentral(Fields* directory, uint64_t* offset) {
  if (directory->left() < kCentralBytes) {
    return Broken("the central directory is cut short", kCentralBytes, directory->left());
  }
  Fields f(directory->Bytes(kCentralBytes));
  if (f.U32() != kCentralSignature) {
    return absl::DataLossError("zip: an entry in the central directory has a wrong signature");
  }
  f.Bytes(4);  // versions
  const uint16_t flags = f.U16(), method = f.U16();
  f.Bytes(4);  // time and date
  ZipEntry entry;
  entry.crc = f.U32();
  entry.compressed_size = f.U32();
  entry.size = f.U32();
  const size_t name_bytes = f.U16(), extra_bytes = f.U16(), comment_bytes = f.U16();
  const uint16_t disk = f.U16();
  f.Bytes(6);  // attributes
  *offset = f.U32();
  if (directory->left() < name_bytes + extra_bytes + comment_bytes) {
    return Broken("the central directory is cut short", name_bytes + extra_bytes + comment_bytes,
                  directory->left());
  }
  entry.name = std::string(directory->Bytes(name_bytes));
  MF_RETURN_IF_ERROR(CheckName(entry.name));
  const absl::string_view extra = directory->Bytes(extra_bytes);
  directory->Bytes(comment_bytes);
  if ((flags & kEncrypted) != 0) {
    entry.readable = absl::UnimplementedError("zip: the entry is encrypted");
  } else if (method != kStored && method != kDeflated) {
    entry.readable = absl::UnimplementedError(absl::StrCat(
        "zip: unsupported compression method; expected 0 (stored) or 8 (deflate), got ", method));
  }
  if (disk != 0) return absl::UnimplementedError("zip: multi-disk archives are not supported");
  entry.deflated = method == kDeflated;
  uint64_t* const fields[] = {&entry.size, &entry.compressed_size, offset};
  MF_RETURN_IF_ERROR(TakeZip64(extra, fields));
  return entry;
}

// Checks the local header at `offset` and sets the entry's offset to the offset of its data.
absl::Status FindBytes(const InputFile& file, uint64_t offset, uint64_t end, ZipEntry* entry) {
  const uint64_t header_bytes = kLocalBytes + entry->name.size();
  if (offset > end || end - offset < header_bytes) {
    return Broken("the offset of the local header is out of range",
                  absl::StrCat("before byte ", end), offset);
  }
  MF_ASSIGN_OR_RETURN(const std::string header, ReadBytes(file, offset, header_bytes));
  Fields f(header);
  const uint32_t signature = f.U32();
  f.Bytes(2);  // version
  const uint16_t flags = f.U16(), method = f.U16();
  f.Bytes(16);  // fields that the central directory repeats
  const size_t name_bytes = f.U16(), extra_bytes = f.U16();
  const bool same_method =
      !entry->readable.ok() ||
      ((flags & kEncrypted) == 0 && method == (entry->deflated ? kDeflated : kStored));
  if (signature != kLocalSignature || !same_method || name_bytes != entry->name.size() ||
      f.Bytes(name_bytes) != entry->name) {
    return absl::DataLossError("zip: the local header does not match the central directory");
  }
  entry->offset = offset + header_bytes + extra_bytes;
  if (entry->offset > end || end - entry->offset < entry->compressed_size) {
    return Broken("the end of the entry is out of range", absl::StrCat("at most ", end),
                  absl::StrCat(entry->offset, " + ", entry->compressed_size));
  }
  if (!entry->readable.ok()) return absl::OkStatus();
  const uint64_t most =
      entry->deflated ? entry->compressed_size * kMaxDeflateRatio : entry->compressed_size;
  if (entry->deflated ? entry->size > most : entry->size != most) {
    return Broken("the entry has the wrong size",
                  absl::StrCat(entry->deflated ? "at most " : "", most), entry->size);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ZipEntry>> ReadZipDirectory(const InputFile& file) {
  MF_ASSIGN_OR_RETURN(const Directory directory, ReadEnd(file));
  MF_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(file, directory.offset, directory.size));
  Fields rest(bytes);
  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    uint64_t offset;
    MF_ASSIGN_OR_RETURN(ZipEntry entry, ReadCentral(&rest, &offset));
    const std::string where = absl::StrCat("'", Printable(entry.name), "'");
    MF_RETURN_IF_ERROR(Annotate(FindBytes(file, offset, directory.offset, &entry), where));
    if (!names.insert(entry.name).second) {
      return absl::DataLossError(absl::StrCat(where, ": zip: two entries have this name"));
    }
    places.emplace_back(offset, entry.offset + entry.compressed_size);
    entries.push_back(std::move(entry));
  }
  if (rest.left() != 0) return Broken("bytes after the last entry", 0, rest.left());
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i].first < places[i - 1].second) {
      return Broken("two entries overlap",
                    absl::StrCat("the next entry at byte ", places[i - 1].second, " or later"),
                    places[i].first);
    }
  }
  return entries;
}

absl::StatusOr<std::unique_ptr<ZipEntryReader>> ZipEntryReader::Open(const InputFile& file,
                                                                     const ZipEntry& entry) {
  MF_RETURN_IF_ERROR(entry.readable);
  auto reader = std::unique_ptr<ZipEntryReader>(new ZipEntryReader(file, entry));
  if (!entry.deflated) return reader;
  auto stream = std::make_unique<z_stream_s>();
  if (inflateInit2(stream.get(), kRawDeflate) != Z_OK) {
    return absl::ResourceExhaustedError("zip: not enough memory to inflate an entry");
  }
  reader->stream_ = std::move(stream);
  reader->input_.resize(kChunk);
  return reader;
}

ZipEntryReader::ZipEntryReader(const InputFile& file, const ZipEntry& entry)
    : file_(file), entry_(entry) {}

ZipEntryReader::~ZipEntryReader() {
  if (stream_ != nullptr) inflateEnd(stream_.get());
}

absl::Status ZipEntryReader::Read(size_t size, void* out) {
  if (size > entry_.size - given_) {
    return Broken("the entry is too short", absl::StrCat("at least ", given_ + size), entry_.size);
  }
  if (stream_ != nullptr) {
    MF_RETURN_IF_ERROR(Inflate(size, static_cast<unsigned char*>(out)));
  } else {
    MF_RETURN_IF_ERROR(file_.Read(entry_.offset + given_, size, out));
  }
  crc_ = crc32_z(crc_, static_cast<const unsigned char*>(out), size);
  given_ += size;
  return absl::OkStatus();
}

absl::Status ZipEntryReader::Refill() {
  const size_t n = std::min<uint64_t>(input_.size(), entry_.compressed_size - taken_);
  MF_RETURN_IF_ERROR(file_.Read(entry_.offset + taken_, n, input_.data()));
  taken_ += n;
  stream_->next_in = input_.data();
  stream_->avail_in = static_cast<uInt>(n);
  return absl::OkStatus();
}

absl::Status ZipEntryReader::Inflate(size_t size, unsigned char* out) {
  for (size_t done = 0; done < size;) {
    if (stream_->avail_in == 0) MF_RETURN_IF_ERROR(Refill());
    const size_t room = std::min(size - done, kChunk);
    stream_->next_out = out + done;
    stream_->avail_out = static_cast<uInt>(room);
    const int result = inflate(stream_.get(), Z_NO_FLUSH);
    done += room - stream_->avail_out;
    if (result == Z_MEM_ERROR) return absl::ResourceExhaustedError("zip: out of memory");
    const bool more = result == Z_OK || (result == Z_STREAM_END && done == size);
    if (!more) {
      return Broken("the deflated bytes are damaged or end early", entry_.size, given_ + done);
    }
  }
  return absl::OkStatus();
}

absl::Status ZipEntryReader::Finish() {
  if (given_ != entry_.size) return Broken("the entry is too long", given_, entry_.size);
  if (stream_ != nullptr) {
    // Inflate until the end of the stream; any further byte is an error.
    unsigned char one;
    int result = Z_OK;
    while (result == Z_OK) {
      if (stream_->avail_in == 0) MF_RETURN_IF_ERROR(Refill());
      stream_->next_out = &one;
      stream_->avail_out = 1;
      result = inflate(stream_.get(), Z_NO_FLUSH);
      if (stream_->avail_out == 0) break;
    }
    if (result != Z_STREAM_END || stream_->avail_out == 0 || stream_->avail_in != 0 ||
        taken_ != entry_.compressed_size) {
      return absl::DataLossError(absl::StrCat(
          "zip: the deflated data does not end where the entry does; expected the end after ",
          entry_.size, " bytes, got more data"));
    }
  }
  if (crc_ != entry_.crc) {
    return Broken("the entry has a wrong CRC-32", absl::StrCat(absl::Hex(entry_.crc)),
                  absl::Hex(crc_));
  }
  return absl::OkStatus();
}

absl::Status WriteZip(absl::string_view path, absl::Span<const ZipMember> members) {
  std::vector<std::string> headers;  // local headers of the members
  std::string directory;
  uint64_t offset = 0;
  for (const ZipMember& member : members) {
    MF_RETURN_IF_ERROR(Annotate(CheckName(member.name), path));
    if (member.name.size() > kIn64Short) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": a name is too long; expected at most ", kIn64Short, " bytes, got ",
                       member.name.size()));
    }
    uint64_t size = 0;
    uint32_t crc = 0;
    for (const absl::string_view piece : member.pieces) {
      crc = crc32_z(crc, reinterpret_cast<const unsigned char*>(piece.data()), piece.size());
      size += piece.size();
    }
    // The fields that both headers have before the name's length. The sizes are in the zip64
    // record.
    std::string common;
    for (const uint16_t field : {kVersion64, kUtf8Name, kStored, uint16_t{0}, kFirstOf1980}) {
      Append(&common, field, 2);
    }
    Append(&common, crc, 4);
    Append(&common, kIn64, 4);
    Append(&common, kIn64, 4);
    Append(&common, member.name.size(), 2);
    auto add_sizes = [&](std::string* out, int fields) {
      Append(out, kZip64Extra, 2);
      Append(out, 8 * fields, 2);
      Append(out, size, 8);
      Append(out, size, 8);
    };
    std::string local;
    Append(&local, kLocalSignature, 4);
    local += common;
    Append(&local, 4 + 2 * 8, 2);
    local += member.name;
    add_sizes(&local, 2);
    Append(&directory, kCentralSignature, 4);
    Append(&directory, kVersion64, 2);
    directory += common;
    Append(&directory, 4 + 3 * 8, 2);
    Append(&directory, 0, 2 + 2 + 2 + 4);  // comment, disk, attributes
    Append(&directory, kIn64, 4);
    directory += member.name;
    add_sizes(&directory, 3);
    Append(&directory, offset, 8);
    offset += local.size() + size;
    headers.push_back(std::move(local));
  }
  const uint64_t directory_bytes = directory.size();
  Append(&directory, kEnd64Signature, 4);
  Append(&directory, kEnd64Bytes - 12, 8);
  Append(&directory, kVersion64, 2);
  Append(&directory, kVersion64, 2);
  Append(&directory, 0, 4 + 4);
  Append(&directory, members.size(), 8);
  Append(&directory, members.size(), 8);
  Append(&directory, directory_bytes, 8);
  Append(&directory, offset, 8);
  Append(&directory, kLocator64Signature, 4);
  Append(&directory, 0, 4);
  Append(&directory, offset + directory_bytes, 8);
  Append(&directory, 1, 4);
  Append(&directory, kEndSignature, 4);
  Append(&directory, 0, 2 + 2);
  Append(&directory, kIn64Short, 2);
  Append(&directory, kIn64Short, 2);
  Append(&directory, kIn64, 4);
  Append(&directory, kIn64, 4);
  Append(&directory, 0, 2);

  std::vector<absl::string_view> pieces;
  for (size_t i = 0; i < members.size(); ++i) {
    pieces.push_back(headers[i]);
    pieces.insert(pieces.end(), members[i].pieces.begin(), members[i].pieces.end());
  }
  pieces.push_back(directory);
  return WriteFileAtomically(path, pieces);
}

}  // namespace mirrorflow
