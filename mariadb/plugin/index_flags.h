// What the server may do with an index (handler::index_flags). It asks for each index of a table in
// each statement, so the answer is worked out once, when the table is opened.
#pragma once

#include "server.h"

namespace millpond {

class IndexFlags {
 public:
  IndexFlags() = default;

  // Looks at the first `parts` columns of the index.
  IndexFlags(const TABLE_SHARE *share, uint index, uint parts);

  // Returns the flags for one column of the index, or for all up to it. The column is one of those
  // that were looked at.
  ulong of(uint part, bool all_parts) const {
    const uint32 asked = all_parts ? (uint32{2} << part) - 1 : uint32{1} << part;
    return flags_ | ((asked & ~restorable_) == 0 ? HA_KEYREAD_ONLY : 0);
  }

 private:
  ulong flags_ = 0;
  uint32 restorable_ = 0;  // A bit for each column that can be put back from the index's entries.
};

}  // namespace millpond
