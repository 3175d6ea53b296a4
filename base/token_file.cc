#include "base/token_file.h"

#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/constant_time.h"

namespace nightshift {
namespace {

constexpr absl::string_view kHeader = "# nightshift tokens, version 1";
constexpr absl::string_view kPrefix = "ns_";
constexpr absl::string_view kNoTenant = "-";
constexpr size_t kIdBytes = 5;
constexpr size_t kSaltBytes = 16;
constexpr size_t kSecretBytes = 32;
constexpr size_t kTenantBytesMax = 64;
constexpr int kFields = 7;

constexpr std::array<std::pair<Role, absl::string_view>, 4> kRoles = {{
    {Role::kRead, "read"},
    {Role::kSubmit, "submit"},
    {Role::kAdmin, "admin"},
    {Role::kWorker, "worker"},
}};

std::string RandomHex(size_t bytes) {
  std::string raw(bytes, '\0');
  NIGHTSHIFT_CHECK(
      RAND_bytes(reinterpret_cast<unsigned char*>(raw.data()), static_cast<int>(bytes)) == 1,
      "the system gives no random bytes");
  return absl::BytesToHexString(raw);
}

std::string SaltedHash(absl::string_view salt, absl::string_view token) {
  const std::string text = absl::StrCat(salt, token);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof digest));
}

bool IsHex(absl::string_view text, size_t bytes) {
  return text.size() == 2 * bytes && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

}  // namespace

std::optional<Role> ParseRole(absl::string_view word) {
  for (const auto& [role, name] : kRoles) {
    if (word == name) return role;
  }
  return std::nullopt;
}

absl::string_view RoleWord(Role role) {
  for (const auto& [known, name] : kRoles) {
    if (role == known) return name;
  }
  return "";
}

bool IsTenantName(absl::string_view text) {
  return !text.empty() && text.size() <= kTenantBytesMax && text[0] != '-' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ||
                  c == '-';
         });
}

bool IsTokenTable(absl::string_view text) { return absl::StartsWith(text, kHeader); }

absl::StatusOr<std::vector<TokenEntry>> ParseTokenTable(absl::string_view text) {
  std::vector<TokenEntry> entries;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    absl::ConsumeSuffix(&line, "\r");
    if (line.empty() || line[0] == '#') continue;
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::MaxSplits(' ', kFields - 1));
    TokenEntry entry;
    std::optional<Role> role;
    bool good = fields.size() >= kFields - 1;
    if (good) {
      role = ParseRole(fields[1]);
      entry.id = std::string(fields[0]);
      entry.tenant = fields[2] == kNoTenant ? "" : std::string(fields[2]);
      entry.salt = std::string(fields[3]);
      entry.hash = std::string(fields[4]);
      if (fields.size() == kFields) entry.name = std::string(fields[6]);
      const bool tenant_good =
          entry.tenant.empty() || entry.tenant == kAllTenants || IsTenantName(entry.tenant);
      good = role.has_value() && tenant_good && IsHex(entry.id, kIdBytes) &&
             IsHex(entry.salt, kSaltBytes) && IsHex(entry.hash, SHA256_DIGEST_LENGTH) &&
             absl::SimpleAtoi(fields[5], &entry.created_at_s);
    }
    if (!good) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", number, " is no token's: `nightshift token` writes them, nothing else should"));
    }
    entry.role = *role;
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string PrintTokenTable(const std::vector<TokenEntry>& entries) {
  std::string text = absl::StrCat(kHeader, "\n");
  for (const TokenEntry& entry : entries) {
    absl::StrAppend(&text, entry.id, " ", RoleWord(entry.role), " ",
                    entry.tenant.empty() ? kNoTenant : absl::string_view(entry.tenant), " ",
                    entry.salt, " ", entry.hash, " ", entry.created_at_s, " ", entry.name, "\n");
  }
  return text;
}

NewToken MakeToken(Role role, absl::string_view tenant, absl::string_view name,
                   int64_t created_at_s) {
  NewToken made;
  made.entry.id = RandomHex(kIdBytes);
  made.entry.role = role;
  made.entry.tenant = std::string(tenant);
  made.entry.salt = RandomHex(kSaltBytes);
  made.entry.created_at_s = created_at_s;
  made.entry.name = std::string(name);
  for (char& c : made.entry.name) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  made.token = absl::StrCat(kPrefix, made.entry.id, "_", RandomHex(kSecretBytes));
  made.entry.hash = SaltedHash(made.entry.salt, made.token);
  return made;
}

const TokenEntry* FindToken(const std::vector<TokenEntry>& entries, absl::string_view token) {
  // The id is no secret. What belongs to none is hashed all the same.
  TokenEntry nobody;
  nobody.salt.assign(2 * kSaltBytes, '0');
  nobody.hash.assign(2 * SHA256_DIGEST_LENGTH, '-');
  absl::string_view id = token;
  id = absl::ConsumePrefix(&id, kPrefix) ? id.substr(0, 2 * kIdBytes) : "";
  const TokenEntry* entry = nullptr;
  for (const TokenEntry& one : entries) {
    if (one.id == id) entry = &one;
  }
  const TokenEntry& hashed = entry != nullptr ? *entry : nobody;
  const bool right = EqualInConstantTime(SaltedHash(hashed.salt, token), hashed.hash);
  return right ? entry : nullptr;
}

}  // namespace nightshift
