// Answers that outlive the worker's process: each is appended to a file in the spool folder before
// the loop waits for anything, and forgotten when the coordinator has it durably. The next worker
// on the folder finds what was left and delivers it.
//
// Only one process may have a folder open. Answers belong to a store (jobs are numbered anew in
// each): files of other stores are left alone until that store's coordinator is met again.
//
// Lives on the loop's thread, but for its construction and destruction. Files are made, synced and
// removed on a thread of its own (spool_disk.h).
#ifndef NIGHTSHIFT_WORKER_SPOOL_SPOOL_H_
#define NIGHTSHIFT_WORKER_SPOOL_SPOOL_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/folder_lock.h"
#include "worker/core/spool_port.h"
#include "worker/spool/spool_disk.h"

namespace nightshift {

struct SpoolOptions {
  std::string folder;
  // A file is left for the next one when it has passed this. Smaller ones go sooner, larger ones
  // cost less.
  int64_t file_bytes = int64_t{8} << 20;
  // Of the present store's files; past it no new call starts until the coordinator has recorded
  // some of them.
  int64_t bytes_max = int64_t{256} << 20;
  // Of the other stores' files; past it the oldest of them are removed when the spool is opened.
  int64_t other_bytes_max = int64_t{1} << 30;
  // An answer that is kept for so long is on the disk, and not only in the kernel's memory.
  absl::Duration sync_after = absl::Milliseconds(200);
};

class Spool final : public SpoolPort {
 public:
  // FailedPrecondition when another process has the folder, otherwise as MakeFolder; the text is
  // one line for a person. Damaged files are no error: what is whole in them is kept. Nor are files
  // that cannot be read: they are left as they are, for a process that can.
  static absl::StatusOr<std::unique_ptr<Spool>> Open(SpoolOptions options);
  // Files of a spool that are not empty are in the folder. It need not exist.
  static bool HoldsAnswers(const std::string& folder);
  // Writes what is left, and removes the files when nothing is kept in them.
  ~Spool() override;

  std::string LastStore() const override;
  std::vector<KeptResult> Use(const std::string& store) override;
  uint64_t Keep(const v1::AttemptResult& result) override;
  void Forget(uint64_t number) override;
  bool Blocked() const override;
  std::string WaitingFor() const override;

  // Writes what has been kept and forgotten since the last time. Call at the end of each round of
  // the loop. Returns when to be called again even if nothing happens.
  MonotonicTime Flush(MonotonicTime now);

  // Answers that are kept: for the present store, and for all others.
  int64_t kept() const;
  int64_t kept_for_others() const;
  const std::string& folder() const { return options_.folder; }
  SpoolDisk& disk() { return *disk_; }

 private:
  struct Segment {
    std::string path;
    std::string store;
    std::shared_ptr<SpoolFile> file;  // null: of an earlier process
    int64_t bytes = 0;
    absl::btree_set<uint64_t> kept;
    // It may hold answers that nobody has seen: this process never removes it.
    bool unreadable = false;
  };

  Spool(SpoolOptions options, FolderLock lock)
      : options_(std::move(options)), lock_(std::move(lock)) {}

  // --- spool_open.cc
  absl::Status Load();
  void LoadFile(const std::string& path);
  void RemoveOldestOfOthers();
  std::vector<KeptResult> ReadKept(Segment* segment);

  // --- spool.cc
  // Starts a segment at the end; without a file, answers wait for one.
  void Begin(std::shared_ptr<SpoolFile> file);
  void WriteOut();  // as far as possible, when there is no next time
  bool HasFile();   // there is one to write to, if need be from now on
  // Answers wait for one.
  bool NeedsFile() const { return !buffer_.empty() && segments_.back().file == nullptr; }
  bool Write(std::string* error);
  void OnWritten();
  // Goes on to the next file, and removes those that are not needed. False when there is no next
  // file yet.
  bool Tidy();
  void OnFailed(const std::string& error, MonotonicTime now);
  void RemoveForgotten(std::deque<Segment>* segments, bool but_last);
  void RemoveFile(const Segment& segment);  // if it has one, and it was read
  uint64_t Oldest() const;

  const SpoolOptions options_;
  const FolderLock lock_;
  std::unique_ptr<SpoolDisk> disk_;
  std::string store_;
  // Of the present store, oldest first; the last is written to.
  std::deque<Segment> segments_;
  std::deque<Segment> others_;  // by age, of all other stores
  int64_t bytes_ = 0;           // of segments_
  uint64_t last_number_ = 0;

  std::string buffer_;               // frames to be written
  std::vector<uint64_t> forgotten_;  // and numbers that are not yet a frame
  std::string failing_;              // why the last write failed; empty when it did not
  MonotonicTime retry_at_;
  bool told_full_ = false;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_SPOOL_SPOOL_H_
