// A position in the binary log, as the database's bookmark holds it.
#pragma once

#include "server.h"

#include <cstdint>
#include <string>
#include <vector>

namespace millpond {

// The database has what the binary log has up to here.
//
// The bookmark: version u8 | flags u8 (1: at rest) | checksum of the log's name u32 | number of the file u32
//               | position u64 | transactions u64 ...
// Numbers have their least significant byte first.
struct BinlogPosition {
  uint32_t name = 0;      // A checksum of the log's name: the name of its files without their number.
  uint32_t number = 0;    // Of the file.
  uint64_t position = 0;  // Where the last transaction ends in it.
  bool at_rest = false;   // No transaction after it is durable by the binary log alone.
  std::vector<uint64_t> decided;  // Transactions after it that a recovery has committed already.

  std::string encoded() const;
  // Returns false for bytes that are no position.
  static bool decode(const std::string &bytes, BinlogPosition *result);

  // Returns the position in a file of the server's index, at this offset. False: that is no such name.
  static bool of(const char *file, uint64_t position, BinlogPosition *result);

  bool has_decided(uint64_t transaction) const;
};

}  // namespace millpond
