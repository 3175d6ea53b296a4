// Which build this is.
#ifndef NIGHTSHIFT_CLIENT_COMMANDS_VERSION_H_
#define NIGHTSHIFT_CLIENT_COMMANDS_VERSION_H_

namespace nightshift {

const char* Version();  // "1.2.3"
const char* Commit();   // abbreviated; "unknown" outside a repository

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_COMMANDS_VERSION_H_
