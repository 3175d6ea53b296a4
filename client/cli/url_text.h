// URLs as they may be shown.
#ifndef NIGHTSHIFT_CLIENT_CLI_URL_TEXT_H_
#define NIGHTSHIFT_CLIENT_CLI_URL_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace nightshift {

// "http://user:secret@host/v1" -> "http://***@host/v1"; anything else as it is.
std::string WithoutCredentials(absl::string_view url);

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_CLI_URL_TEXT_H_
