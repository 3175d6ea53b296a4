#include "storage/schema.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "storage/record.h"
#include "storage/schema_upgrades.h"

namespace nightshift {
namespace {

// Rows of family `meta`: a decimal number in the frame of storage/record.h.
constexpr absl::string_view kVersionKey = "schema_version";
constexpr absl::string_view kEpochKey = "epoch";
constexpr absl::string_view kNextJobKey = "next_job";
// Text in the same frame.
constexpr absl::string_view kStoreIdKey = "store_id";

// Each failed try means that another caller got its number, so only a store that refuses for a
// reason of its own reaches this.
constexpr int kCounterTriesMax = 10000;

const std::vector<SchemaUpgrade>& Upgrades() {
  static const auto* const kUpgrades = new std::vector<SchemaUpgrade>{};
  return *kUpgrades;
}

struct Number {
  uint64_t value;
  std::string raw;  // as stored, for the condition of the next write
};

// nullopt when the row is absent.
absl::StatusOr<std::optional<Number>> ReadNumber(const Store& store, absl::string_view key) {
  absl::StatusOr<std::string> raw = store.Get(Family::kMeta, key);
  if (absl::IsNotFound(raw.status())) return std::optional<Number>();
  RETURN_IF_ERROR(raw.status());
  ASSIGN_OR_RETURN(const absl::string_view text, DecodeBytes(key, *raw));
  uint64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) {
    return absl::DataLossError(absl::StrCat("the row \"", key, "\" of the store is no number"));
  }
  return std::optional<Number>(Number{value, *std::move(raw)});
}

// Writes `value` if the row still is what `before` says (nullopt: absent).
absl::Status WriteNumber(Store& store, absl::string_view key, uint64_t value,
                         const std::optional<Number>& before) {
  WriteSet writes;
  if (before.has_value()) {
    writes.ExpectValue(Family::kMeta, std::string(key), before->raw);
  } else {
    writes.ExpectAbsent(Family::kMeta, std::string(key));
  }
  writes.Put(Family::kMeta, std::string(key), EncodeBytes(key, absl::StrCat(value)));
  return store.Commit(std::move(writes));
}

// Adds one to the counter and returns the new value; the first is 1.
absl::StatusOr<uint64_t> Increment(Store& store, absl::string_view key) {
  for (int i = 0; i < kCounterTriesMax; ++i) {
    ASSIGN_OR_RETURN(const std::optional<Number> before, ReadNumber(store, key));
    const uint64_t next = before.has_value() ? before->value + 1 : 1;
    const absl::Status status = WriteNumber(store, key, next, before);
    if (status.ok()) return next;
    if (!absl::IsAborted(status)) return status;
  }
  return absl::InternalError(
      absl::StrCat("the counter \"", key, "\" changed under ", kCounterTriesMax, " tries"));
}

// `writes` may bring conditions.
absl::StatusOr<std::string> WriteStoreId(Store& store, WriteSet writes, Random& random) {
  const std::string id = absl::StrFormat("%016x%016x", random.Next(), random.Next());
  writes.Put(Family::kMeta, std::string(kStoreIdKey), EncodeBytes(kStoreIdKey, id));
  RETURN_IF_ERROR(store.Commit(std::move(writes)));
  return id;
}

// A store without a version must have nothing else either: otherwise its version row was lost, and
// to guess it could misread everything.
absl::Status CheckEmpty(const Store& store) {
  for (int i = 0; i < kFamilyCount; ++i) {
    const Family family = static_cast<Family>(i);
    const std::unique_ptr<StoreIterator> rows = store.Scan(family, "", "");
    RETURN_IF_ERROR(rows->status());
    if (rows->Valid()) {
      return absl::DataLossError(
          absl::StrCat("the store has rows (in \"", FamilyName(family),
                       "\") but no version: it is damaged, or another program's. Restore a backup, "
                       "or use another --data-dir."));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareSchemaWith(Store& store, uint32_t current,
                               const std::vector<SchemaUpgrade>& upgrades) {
  ASSIGN_OR_RETURN(std::optional<Number> version, ReadNumber(store, kVersionKey));
  if (!version.has_value()) {
    RETURN_IF_ERROR(CheckEmpty(store));
    return WriteNumber(store, kVersionKey, current, version);
  }
  if (version->value > current) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the store has version ", version->value, ", this program knows versions up to ", current,
        ": nothing was changed. Use the newer nightshift that wrote it, or another --data-dir."));
  }
  while (version->value < current) {
    const uint64_t from = version->value;
    const auto step = std::find_if(upgrades.begin(), upgrades.end(),
                                   [&](const SchemaUpgrade& u) { return u.from == from; });
    if (step == upgrades.end()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the store has version ", from, ", this program needs ", current,
          " and cannot upgrade from there. Finish its jobs with the nightshift that wrote it."));
    }
    RETURN_IF_ERROR(
        Annotate(step->run(store), absl::StrCat("upgrading the store from version ", from)));
    RETURN_IF_ERROR(WriteNumber(store, kVersionKey, from + 1, version));
    LogInfo("the store was upgraded from version ", from, " to ", from + 1);
    ASSIGN_OR_RETURN(version, ReadNumber(store, kVersionKey));
    if (!version.has_value()) return absl::DataLossError("the version row vanished");
  }
  return absl::OkStatus();
}

absl::Status PrepareSchema(Store& store) {
  return PrepareSchemaWith(store, kSchemaVersion, Upgrades());
}

absl::StatusOr<uint64_t> StartEpoch(Store& store) { return Increment(store, kEpochKey); }

absl::StatusOr<std::string> StoreId(Store& store, Random& random) {
  const absl::StatusOr<std::string> raw = store.Get(Family::kMeta, kStoreIdKey);
  if (raw.ok()) {
    ASSIGN_OR_RETURN(const absl::string_view id, DecodeBytes(kStoreIdKey, *raw));
    return std::string(id);
  }
  if (!absl::IsNotFound(raw.status())) return raw.status();
  WriteSet writes;
  writes.ExpectAbsent(Family::kMeta, std::string(kStoreIdKey));
  return WriteStoreId(store, std::move(writes), random);
}

absl::StatusOr<std::string> RenewStoreId(Store& store, Random& random) {
  return WriteStoreId(store, WriteSet(), random);
}

absl::StatusOr<uint64_t> NextJobNumber(Store& store) { return Increment(store, kNextJobKey); }

}  // namespace nightshift
