#include "proto/words.h"

#include <cctype>
#include <utility>

namespace nightshift {
namespace {

// The name of an enum's value without its prefix of `prefix` bytes, in lower case.
std::string Word(std::string name, size_t prefix) {
  if (name.size() > prefix) name.erase(0, prefix);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace

std::string JobStateWord(v1::JobState state) {
  return Word(v1::JobState_Name(state), sizeof("JOB_STATE_") - 1);
}

std::string PauseReasonWord(v1::PauseReason reason) {
  if (reason == v1::PAUSE_REASON_NONE) return "";
  return Word(v1::PauseReason_Name(reason), sizeof("PAUSE_REASON_") - 1);
}

std::string ErrorClassWord(v1::ErrorClass error_class) {
  return Word(v1::ErrorClass_Name(error_class), sizeof("ERROR_CLASS_") - 1);
}

}  // namespace nightshift
