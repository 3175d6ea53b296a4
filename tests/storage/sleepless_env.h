// The machine's environment for RocksDB on another file system, and without its sleeps: after an
// error in the background RocksDB sleeps for a second before it does anything else, even end.
#ifndef NIGHTSHIFT_TESTS_STORAGE_SLEEPLESS_ENV_H_
#define NIGHTSHIFT_TESTS_STORAGE_SLEEPLESS_ENV_H_

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/system_clock.h>

#include <memory>
#include <utility>

namespace nightshift {

class SleeplessClock final : public rocksdb::SystemClockWrapper {
 public:
  SleeplessClock() : SystemClockWrapper(rocksdb::SystemClock::Default()) {}
  const char* Name() const override { return "SleeplessClock"; }
  void SleepForMicroseconds(int /*micros*/) override {}
};

class SleeplessEnv final : public rocksdb::EnvWrapper {
 public:
  explicit SleeplessEnv(std::shared_ptr<rocksdb::FileSystem> files)
      : EnvWrapper(rocksdb::Env::Default()) {
    file_system_ = std::move(files);
    system_clock_ = std::make_shared<SleeplessClock>();
  }
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_STORAGE_SLEEPLESS_ENV_H_
