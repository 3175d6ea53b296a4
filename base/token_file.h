// Tokens that let people and programs in, as the operator keeps them: a file with one line per
// token, written by `nightshift token`, read by the coordinator. Of a token itself only a salted
// hash is kept, so that whoever reads the file, or a copy of it, has no token.
//
//   # nightshift tokens, version 1
//   ID ROLE TENANT SALT HASH CREATED NAME
//
// The fields stand apart by single spaces; NAME is the rest of the line and may be empty. TENANT is
// a name, "-" for none or "*" for all. SALT and HASH are hexadecimal, CREATED is in Unix seconds.
// Other lines beginning with # and empty lines mean nothing.
//
// A token is "ns_ID_SECRET". The secret has 256 bits of chance, so one round of SHA-256 is enough:
// there is nothing to guess.
//
// Pure but for MakeToken, which asks the system for chance. Thread-safe.
#ifndef NIGHTSHIFT_BASE_TOKEN_FILE_H_
#define NIGHTSHIFT_BASE_TOKEN_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace nightshift {

enum class Role {
  kRead,    // looks at jobs, files and answers
  kSubmit,  // and hands them in, controls and deletes them
  kAdmin,   // and everything else, of all tenants
  kWorker,  // takes leases, nothing else
};
std::optional<Role> ParseRole(absl::string_view word);
absl::string_view RoleWord(Role role);

// Of a token that sees the jobs of all tenants.
inline constexpr char kAllTenants[] = "*";
// A name: 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', not beginning with '-'.
bool IsTenantName(absl::string_view text);

// How the message of an error begins that a tenant's limit made: what tells it from a full disk.
inline constexpr char kTenantLimitPrefix[] = "limit of the tenant: ";

struct TokenEntry {
  std::string id;
  Role role = Role::kRead;
  std::string tenant;  // empty: what belongs to no other
  std::string salt;
  std::string hash;
  int64_t created_at_s = 0;
  std::string name;  // for people
};

// Whether a file holds entries. Any other text is one token, in clear, that may do everything.
bool IsTokenTable(absl::string_view text);
// InvalidArgument names the line.
absl::StatusOr<std::vector<TokenEntry>> ParseTokenTable(absl::string_view text);
std::string PrintTokenTable(const std::vector<TokenEntry>& entries);

// A new token, which is shown once and kept nowhere; the entry is complete.
struct NewToken {
  TokenEntry entry;
  std::string token;
};
NewToken MakeToken(Role role, absl::string_view tenant, absl::string_view name,
                   int64_t created_at_s);

// The entry of a token that somebody sent; nullptr when it is none of them. How long that takes
// says nothing of how much of a wrong one was right.
const TokenEntry* FindToken(const std::vector<TokenEntry>& entries, absl::string_view token);

}  // namespace nightshift

#endif  // NIGHTSHIFT_BASE_TOKEN_FILE_H_
