// /v1/files: uploaded files, and the outputs of batches as if they were files.
//
// Thread-safe.
#ifndef NIGHTSHIFT_COORDINATOR_HTTP_FILES_API_H_
#define NIGHTSHIFT_COORDINATOR_HTTP_FILES_API_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/http/api_parts.h"
#include "coordinator/http/http_message.h"

namespace nightshift {

class FilesApi {
 public:
  // The parts must outlive it.
  explicit FilesApi(const ApiParts& parts) : parts_(parts) {}

  HttpReply Upload(HttpRequest& request) const;
  HttpReply List(const HttpRequest& request) const;
  HttpReply Get(const HttpRequest& request, const std::string& id) const;
  HttpReply Content(const HttpRequest& request, const std::string& id) const;
  HttpReply Delete(const HttpRequest& request, const std::string& id) const;

 private:
  // An output as a file. NotFound when there is none (yet, or any more) for this caller.
  absl::StatusOr<v1::FileRecord> OutputAsFile(const Caller& caller, const OutputFileName& name,
                                              const v1::OutputFileRecord& measured) const;
  // The file of that id. With `measured`, an output's length and places to read from as well.
  absl::StatusOr<v1::FileRecord> Find(const Caller& caller, const std::string& id,
                                      v1::OutputFileRecord* measured = nullptr) const;

  const ApiParts& parts_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_COORDINATOR_HTTP_FILES_API_H_
