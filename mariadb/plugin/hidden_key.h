// The hidden key of a row, in a table without a primary key.
#pragma once

#include "table.h"

namespace millpond {

// That of the present row: the one that was read or written last.
class HiddenKey {
 public:
  // Takes the next key of a table, for a new row. Returns a return code of the engine.
  int draw(Table &table) {
    ulonglong next = 0;
    if (int rc = table.next_hidden_key(&next)) return rc;
    mi_int8store(bytes_, next);
    return MILLPOND_RC_OK;
  }

  // Takes the key of a row that was read. Returns false if it is no hidden key.
  bool set(millpond_bytes key) {
    if (key.len != HIDDEN_KEY_BYTES) return false;
    memcpy(bytes_, key.ptr, HIDDEN_KEY_BYTES);
    return true;
  }

  const uchar *bytes() const { return bytes_; }

 private:
  uchar bytes_[HIDDEN_KEY_BYTES] = {0};
};

}  // namespace millpond
