// Notices a manifest that has lost its end.
//
// RocksDB takes such a manifest for one whose last record was torn by a crash, opens the older
// state that is left of it, and removes the tables that this one does not name: acknowledged rows
// go, and nobody is told. So a small file beside the store ("nightshift.manifest") tells the
// manifest's name and a length that it had when it was synced. It is written after flushes and
// compactions, and may lag behind; that, or its absence, only makes the check weaker.
//
// Not for use outside storage/.
#ifndef NIGHTSHIFT_STORAGE_MANIFEST_MARK_H_
#define NIGHTSHIFT_STORAGE_MANIFEST_MARK_H_

#include <rocksdb/db.h>
#include <rocksdb/file_system.h>
#include <rocksdb/listener.h>

#include <memory>
#include <string>

#include "absl/status/status.h"

namespace nightshift {

// Before the store is opened. DataLoss when the manifest is shorter than it was.
absl::Status CheckManifestMark(rocksdb::FileSystem& files, const std::string& folder);

// Writes the mark after each flush and compaction. Thread-safe.
class ManifestMarker final : public rocksdb::EventListener {
 public:
  ManifestMarker();
  ~ManifestMarker() override;

  // Also to be called once when the store has been opened, and before it is closed. A failure is
  // logged and otherwise ignored.
  void Mark(rocksdb::DB& db);

  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo&) override { Mark(*db); }
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo&) override {
    Mark(*db);
  }

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_STORAGE_MANIFEST_MARK_H_
