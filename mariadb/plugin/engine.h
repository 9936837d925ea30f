// What all parts of the plugin share: the open database and small helpers around its C interface.
#pragma once

#include "server.h"
#include <millpond.h>
#include "buffer.h"

#include <string>

namespace millpond {

// The engine's entry in the server, and its database. The plugin's start sets them, its end clears
// them.
extern handlerton *engine;
extern millpond_db *database;

// The directory of the data, in the server's own. No schema can have this name.
constexpr char DIRECTORY[] = "#millpond";
std::string data_directory();

// The bytes of a page of the database.
constexpr uint PAGE_BYTES = 16384;

inline millpond_bytes bytes_of(const void *ptr, size_t len) {
  return millpond_bytes{static_cast<const uint8_t *>(ptr), len};
}
inline millpond_bytes bytes_of(const Buffer &buffer) { return bytes_of(buffer.data(), buffer.size()); }

// No bytes, where the interface has optional ones.
inline millpond_bytes no_bytes() { return millpond_bytes{nullptr, 0}; }

// Memory for a result of the interface, freed with the object.
struct Result : millpond_buffer {
  Result() : millpond_buffer{nullptr, 0, 0} {}
  ~Result() { millpond_buffer_free(this); }
  Result(const Result &) = delete;
  Result &operator=(const Result &) = delete;
};

}  // namespace millpond
