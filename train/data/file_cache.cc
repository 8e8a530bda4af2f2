// SPDX-License-Identifier: Apache-2.0
#include "train/data/file_cache.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "train/formats/tf_record.h"

namespace mirrorflow {
namespace {

constexpr absl::string_view kHeader = "mirrorflow rows 1";
constexpr absl::string_view kEnd = "mirrorflow rows end ";  // followed by the row count

// A record holds one row, in the machine's byte order:
//   row: int64 | components: int32, each: dtype, rank: int32 | dimensions: int64 | the elements
//
// Appends a number to a record.
template <typename T>
void Append(std::string* record, T value) {
  record->append(reinterpret_cast<const char*>(&value), sizeof value);
}

class RecordParser {
 public:
  explicit RecordParser(absl::string_view record) : rest_(record) {}

  template <typename T>
  bool Take(T* value) {
    return Take(value, sizeof *value);
  }
  bool Take(void* to, size_t size) {
    if (size > rest_.size()) return false;
    if (size > 0) std::memcpy(to, rest_.data(), size);
    rest_.remove_prefix(size);
    return true;
  }
  size_t left() const { return rest_.size(); }

 private:
  absl::string_view rest_;
};

absl::Status Encode(const RowRef& ref, std::string* record) {
  record->clear();
  Append(record, ref.id.row);
  Append(record, static_cast<int32_t>(ref.value->size()));
  for (const Tensor& component : *ref.value) {
    if (DataTypeSize(component.dtype()) == 0) {
      return absl::UnimplementedError(absl::StrCat(
          "dataset: Cache(): expected numeric components, got ", component.TypeString()));
    }
    Append(record, static_cast<int32_t>(component.dtype()));
    Append(record, static_cast<int32_t>(component.shape().rank()));
    for (const int64_t dim : component.shape().dims()) Append(record, dim);
    if (component.bytes() > 0) {
      record->append(reinterpret_cast<const char*>(component.raw()), component.bytes());
    }
  }
  return absl::OkStatus();
}

// Returns the row, or nullopt if the record is not a row.
std::optional<RowRef> Decode(absl::string_view record, int64_t epoch) {
  constexpr int32_t kMax = 1 << 16;
  RecordParser parser(record);
  int64_t number;
  int32_t components;
  if (!parser.Take(&number) || !parser.Take(&components)) return std::nullopt;
  if (components < 0 || components > kMax) return std::nullopt;
  Row row;
  for (int32_t i = 0; i < components; ++i) {
    int32_t dtype, rank;
    if (!parser.Take(&dtype) || !parser.Take(&rank) || rank < 0 || rank > kMax) return std::nullopt;
    if (static_cast<size_t>(rank) > parser.left() / sizeof(int64_t)) return std::nullopt;
    std::vector<int64_t> dims(rank);
    if (!parser.Take(dims.data(), rank * sizeof(int64_t))) return std::nullopt;
    absl::StatusOr<int64_t> size = DataTypeSize(static_cast<DataType>(dtype));
    if (*size == 0) return std::nullopt;
    for (const int64_t dim : dims) {
      size = CheckedMultiply(*size, dim);
      if (dim < 0 || !size.ok()) return std::nullopt;
    }
    if (static_cast<uint64_t>(*size) > parser.left()) return std::nullopt;
    absl::StatusOr<Tensor> value = Tensor::Allocate(static_cast<DataType>(dtype), Shape(dims));
    if (!value.ok() || !parser.Take(value->raw(), value->bytes())) return std::nullopt;
    row.push_back(*std::move(value));
  }
  if (parser.left() != 0) return std::nullopt;
  return NewRow(epoch, number, std::move(row));
}

// The file of a cached dataset, which the streams of a transform share.
class FileCache {
 public:
  explicit FileCache(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  // Returns the file's records, or null if the file does not exist.
  absl::StatusOr<std::shared_ptr<const TfRecordIndex>> Open() {
    MutexLock lock(&mu_);
    if (index_ != nullptr) return index_;
    absl::StatusOr<TfRecordIndex> index = TfRecordIndex::Build(path_);
    if (absl::IsNotFound(index.status())) return nullptr;
    MF_RETURN_IF_ERROR(index.status());
    std::string first, last;
    if (index->size() >= 2) {
      MF_RETURN_IF_ERROR(index->ReadAt(0, &first));
      MF_RETURN_IF_ERROR(index->ReadAt(index->size() - 1, &last));
    }
    if (first != kHeader || last != absl::StrCat(kEnd, index->size() - 2)) {
      return absl::DataLossError(
          absl::StrCat(path_, ": expected a complete Dataset::Cache() file, got ", index->size(),
                       " records, the last one '", absl::CHexEscape(last.substr(0, 40)),
                       "'; remove the file to rebuild it"));
    }
    index_ = std::make_shared<const TfRecordIndex>(*std::move(index));
    return index_;
  }

 private:
  const std::string path_;
  Mutex mu_;
  std::shared_ptr<const TfRecordIndex> index_ ABSL_GUARDED_BY(mu_);
};

// A file that is written under a temporary name, and renamed when it is complete. Other iterators
// and processes never see a partial file.
class NewFile {
 public:
  static absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& path) {
    std::string temporary = absl::StrCat(path, ".XXXXXX");
    const int fd = mkstemp(temporary.data());
    if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be created"));
    close(fd);
    MF_ASSIGN_OR_RETURN(auto writer, TfRecordWriter::Create(temporary));
    std::unique_ptr<NewFile> file(new NewFile(path, std::move(writer)));
    MF_RETURN_IF_ERROR(file->writer_->Write(kHeader));
    return file;
  }
  ~NewFile() {
    if (!is_complete_) unlink(writer_->path().c_str());
  }

  absl::Status Add(const RowRef& ref) {
    MF_RETURN_IF_ERROR(Encode(ref, &record_));
    ++rows_;
    return writer_->Write(record_);
  }
  absl::Status Finish() {
    MF_RETURN_IF_ERROR(writer_->Write(absl::StrCat(kEnd, rows_)));
    MF_RETURN_IF_ERROR(writer_->Close());
    if (std::rename(writer_->path().c_str(), path_.c_str()) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat(path_, ": cannot be created"));
    }
    is_complete_ = true;
    return absl::OkStatus();
  }

 private:
  NewFile(std::string path, std::unique_ptr<TfRecordWriter> writer)
      : path_(std::move(path)), writer_(std::move(writer)) {}

  const std::string path_;
  const std::unique_ptr<TfRecordWriter> writer_;
  std::string record_;
  int64_t rows_ = 0;
  bool is_complete_ = false;
};

class CachedInFile final : public RowStream {
 public:
  CachedInFile(std::unique_ptr<RowStream> input, std::shared_ptr<FileCache> cache)
      : input_(std::move(input)), cache_(std::move(cache)) {}

  absl::Status Start(int64_t epoch) override {
    epoch_ = epoch;
    next_ = 0;
    new_file_ = nullptr;
    MF_ASSIGN_OR_RETURN(kept_, cache_->Open());
    if (kept_ != nullptr) return absl::OkStatus();
    MF_ASSIGN_OR_RETURN(new_file_, NewFile::Create(cache_->path()));
    return input_->Start(epoch);
  }

  absl::StatusOr<bool> Next(std::vector<RowRef>* rows) override {
    if (kept_ != nullptr) return NextKept(rows);
    if (new_file_ == nullptr) return false;
    MF_ASSIGN_OR_RETURN(const bool more, input_->Next(rows));
    if (more) {
      MF_RETURN_IF_ERROR(new_file_->Add(rows->back()));
    } else {
      MF_RETURN_IF_ERROR(std::exchange(new_file_, nullptr)->Finish());
    }
    return more;
  }

  absl::StatusOr<int64_t> Skip(int64_t count) override {
    // Read the skipped rows, because only a pass that reads every row can be cached.
    if (kept_ == nullptr) return SkipByReading(*this, count);
    count = std::min(count, kept_->size() - 2 - next_);
    next_ += count;
    return count;
  }

 private:
  absl::StatusOr<bool> NextKept(std::vector<RowRef>* rows) {
    if (next_ == kept_->size() - 2) return false;
    MF_RETURN_IF_ERROR(kept_->ReadAt(++next_, &record_));
    std::optional<RowRef> row = Decode(record_, epoch_);
    if (!row) {
      return absl::DataLossError(absl::StrCat(cache_->path(), ": record ", next_,
                                              ": expected a row, got an invalid record"));
    }
    rows->push_back(*std::move(row));
    return true;
  }

  const std::unique_ptr<RowStream> input_;
  const std::shared_ptr<FileCache> cache_;
  std::shared_ptr<const TfRecordIndex> kept_;
  std::unique_ptr<NewFile> new_file_;
  std::string record_;
  int64_t epoch_ = 0;
  int64_t next_ = 0;
};

}  // namespace

RowTransform CacheRowsInFile(std::string path) {
  return TransformOf<CachedInFile>(std::make_shared<FileCache>(std::move(path)));
}

}  // namespace mirrorflow
