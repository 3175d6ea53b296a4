#include "client/commands/version.h"

namespace nightshift {

const char* Version() { return NIGHTSHIFT_VERSION; }
const char* Commit() { return NIGHTSHIFT_COMMIT; }

}  // namespace nightshift
