// Whose a job is: a label that only the coordinator sets, so that it is there wherever labels are
// shown, and jobs of before there were tenants are simply nobody's.
#ifndef NIGHTSHIFT_COORDINATOR_CORE_TENANT_H_
#define NIGHTSHIFT_COORDINATOR_CORE_TENANT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "nightshift/v1/record.pb.h"
#include "nightshift/v1/types.pb.h"

namespace nightshift {

inline constexpr char kTenantLabel[] = "nightshift.tenant";

// Whatever a client has sent under that name, afterwards it says this; empty: nobody's.
inline void SetTenant(absl::string_view tenant, v1::JobOptions* options) {
  options->mutable_labels()->erase(kTenantLabel);
  if (!tenant.empty()) (*options->mutable_labels())[kTenantLabel] = std::string(tenant);
}

// Valid as long as the record.
inline absl::string_view TenantOf(const v1::JobRecord& record) {
  const auto found = record.options().labels().find(kTenantLabel);
  return found == record.options().labels().end() ? absl::string_view()
                                                  : absl::string_view(found->second);
}

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_CORE_TENANT_H_
