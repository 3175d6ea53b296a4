#include "base/thread_name.h"

#include <sys/prctl.h>

namespace nightshift {

void NameThisThread(const char* name) { prctl(PR_SET_NAME, name); }

}  // namespace nightshift
