#include "client/input/decompress.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace nightshift {
namespace {

constexpr size_t kPackedBytes = size_t{256} << 10;
constexpr size_t kMagicBytes = 6;
// windowBits of zlib for "gzip header and trailer, any window".
constexpr int kGzipWindowBits = 15 + 16;

bool IsGzip(absl::string_view start) { return absl::StartsWith(start, "\x1F\x8B"); }

bool IsZstd(absl::string_view start) {
  if (absl::StartsWith(start, "\x28\xB5\x2F\xFD")) return true;
  // A skippable frame, as pzstd writes first.
  return start.size() >= 4 && (static_cast<unsigned char>(start[0]) & 0xF0) == 0x50 &&
         start.substr(1, 3) == "\x2A\x4D\x18";
}

absl::Status RefuseByMagic(absl::string_view start, const std::string& name) {
  struct Kind {
    absl::string_view magic;
    absl::string_view says;
  };
  static constexpr std::array<Kind, 5> kKinds = {
      {{"PK\x03\x04", "is a zip archive or a spreadsheet; save it as CSV (UTF-8), or unpack it"},
       {"\xD0\xCF\x11\xE0", "is a spreadsheet or another office file; save it as CSV (UTF-8)"},
       {"\xFD"
        "7zXZ",
        "is packed with xz; unpack it first: xz -dc FILE | … -"},
       {"BZh", "is packed with bzip2; unpack it first: bzip2 -dc FILE | … -"},
       {"PAR1", "is a Parquet file; write it as JSON Lines first"}}};
  for (const Kind& kind : kKinds) {
    if (absl::StartsWith(start, kind.magic)) {
      return absl::InvalidArgumentError(absl::StrCat(name, " ", kind.says));
    }
  }
  return absl::OkStatus();
}

absl::Status CutOff(const std::string& name, absl::string_view kind) {
  return absl::DataLossError(absl::StrCat(name, ": the ", kind,
                                          " data ends in the middle; the file is not whole (copied "
                                          "while it was written, or cut off?)"));
}

absl::Status Damaged(const std::string& name, absl::string_view kind, absl::string_view detail) {
  return absl::DataLossError(
      absl::StrCat(name, ": the ", kind, " data is damaged (", detail, "); get the file again"));
}

class PlainSource final : public DecompressingSource {
 public:
  explicit PlainSource(std::unique_ptr<ByteSource> inner) : inner_(std::move(inner)) {}
  absl::StatusOr<size_t> Read(char* to, size_t max) override { return inner_->Read(to, max); }
  Compression compression() const override { return Compression::kNone; }
  std::string warning() const override { return ""; }

 private:
  const std::unique_ptr<ByteSource> inner_;
};

// What the two kinds share: a buffer of packed bytes.
class PackedSource : public DecompressingSource {
 public:
  PackedSource(std::unique_ptr<ByteSource> packed, std::string name)
      : name_(std::move(name)), packed_(std::move(packed)), buffer_(kPackedBytes) {}
  std::string warning() const override { return warning_; }

 protected:
  size_t available() const { return end_ - begin_; }
  const char* next() const { return buffer_.data() + begin_; }
  void Consume(size_t count) { begin_ += count; }

  // Makes at least `count` bytes available if there are that many.
  absl::Status Want(size_t count) {
    if (available() >= count) return absl::OkStatus();
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
    while (end_ < count) {
      ASSIGN_OR_RETURN(const size_t got,
                       packed_->Read(buffer_.data() + end_, buffer_.size() - end_));
      if (got == 0) break;
      end_ += got;
    }
    return absl::OkStatus();
  }

  // Reads it all the same, since the layer below may be counting or hashing.
  absl::Status SkipGarbage(absl::string_view kind) {
    while (available() > 0) {
      Consume(available());
      RETURN_IF_ERROR(Want(1));
    }
    warning_ = absl::StrCat(name_, ": what follows the end of the ", kind,
                            " data is not part of it and was left out");
    return absl::OkStatus();
  }

  const std::string name_;

 private:
  const std::unique_ptr<ByteSource> packed_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  std::string warning_;
};

class GzipSource final : public PackedSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> packed, std::string name)
      : PackedSource(std::move(packed), std::move(name)) {
    NIGHTSHIFT_CHECK(inflateInit2(&stream_, kGzipWindowBits) == Z_OK, "out of memory");
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  Compression compression() const override { return Compression::kGzip; }

  absl::StatusOr<size_t> Read(char* to, size_t max) override {
    while (!done_) {
      if (between_members_) {
        RETURN_IF_ERROR(NextMember());
        continue;
      }
      RETURN_IF_ERROR(Want(1));
      if (available() == 0) return CutOff(name_, "gzip");
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(next()));
      stream_.avail_in = static_cast<uInt>(available());
      stream_.next_out = reinterpret_cast<Bytef*>(to);
      stream_.avail_out = static_cast<uInt>(std::min<size_t>(max, size_t{1} << 30));
      const uInt room = stream_.avail_out;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      Consume(available() - stream_.avail_in);
      if (result == Z_STREAM_END) {
        between_members_ = true;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return Damaged(name_, "gzip", stream_.msg != nullptr ? stream_.msg : "unreadable");
      }
      if (const size_t made = room - stream_.avail_out; made > 0) return made;
    }
    return size_t{0};
  }

 private:
  absl::Status NextMember() {
    RETURN_IF_ERROR(Want(2));
    // Blocks of zeros at the end are padding, as tapes and some archivers leave it.
    while (available() > 0 && next()[0] == '\0') {
      Consume(1);
      RETURN_IF_ERROR(Want(2));
    }
    if (IsGzip(absl::string_view(next(), available()))) {
      NIGHTSHIFT_CHECK(inflateReset(&stream_) == Z_OK, "zlib refused to start again");
      between_members_ = false;
      return absl::OkStatus();
    }
    if (available() > 0) RETURN_IF_ERROR(SkipGarbage("gzip"));
    done_ = true;
    return absl::OkStatus();
  }

  z_stream stream_{};
  bool between_members_ = false;
  bool done_ = false;
};

class ZstdSource final : public PackedSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> packed, std::string name)
      : PackedSource(std::move(packed), std::move(name)), context_(ZSTD_createDCtx()) {
    NIGHTSHIFT_CHECK(context_ != nullptr, "out of memory");
  }
  ~ZstdSource() override { ZSTD_freeDCtx(context_); }
  Compression compression() const override { return Compression::kZstd; }

  absl::StatusOr<size_t> Read(char* to, size_t max) override {
    while (!done_) {
      if (between_frames_) {
        RETURN_IF_ERROR(Want(4));
        if (!IsZstd(absl::string_view(next(), available()))) {
          if (available() > 0) RETURN_IF_ERROR(SkipGarbage("zstd"));
          done_ = true;
          break;
        }
        between_frames_ = false;
      }
      RETURN_IF_ERROR(Want(1));
      // The decoder may hold back output that did not fit: it is asked even when no input is left.
      ZSTD_inBuffer in = {next(), available(), 0};
      ZSTD_outBuffer out = {to, max, 0};
      const size_t result = ZSTD_decompressStream(context_, &out, &in);
      if (ZSTD_isError(result) != 0) return Explain(result);
      Consume(in.pos);
      between_frames_ = result == 0;
      if (out.pos > 0) return out.pos;
      if (!between_frames_ && in.size == 0) return CutOff(name_, "zstd");
    }
    return size_t{0};
  }

 private:
  absl::Status Explain(size_t result) const {
    if (ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_,
                       ": the zstd data needs a window of over 128 MiB to unpack; pack it "
                       "again without --long or --ultra, or send it in unpacked: zstd -dc "
                       "--long=31 FILE | … -"));
    }
    return Damaged(name_, "zstd", ZSTD_getErrorName(result));
  }

  ZSTD_DCtx* const context_;
  bool between_frames_ = true;
  bool done_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DecompressingSource>> DecompressingSource::Create(
    std::unique_ptr<ByteSource> packed, const std::string& name) {
  auto peek = std::make_unique<PeekSource>(std::move(packed));
  ASSIGN_OR_RETURN(const absl::string_view start, peek->Peek(kMagicBytes));
  RETURN_IF_ERROR(RefuseByMagic(start, name));
  if (IsGzip(start)) return std::make_unique<GzipSource>(std::move(peek), name);
  if (IsZstd(start)) return std::make_unique<ZstdSource>(std::move(peek), name);
  return std::make_unique<PlainSource>(std::move(peek));
}

}  // namespace nightshift
