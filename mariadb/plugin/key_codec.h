// Keys of an index as bytes that memcmp orders like the index.
#pragma once

#include "server.h"
#include "buffer.h"
#include "text_key.h"

namespace millpond {

// How the bytes of a column become bytes that memcmp orders.
enum class PartKind : uchar {
  SIGNED,    // little-endian two's complement: reversed, sign flipped
  UNSIGNED,  // little-endian: reversed
  REAL4,     // IEEE: all bits of negative numbers flipped, the sign of others
  REAL8,
  FIXED,     // ordered by memcmp as they are: decimals, newer temporal types, BINARY, UUID, INET6
  BITS,      // BIT: the bits beside the NULL bits first
  TEXT,      // CHAR
  VARTEXT,   // VARCHAR and VARBINARY
  BLOBTEXT,  // TEXT and BLOB, a prefix of them
};

// One column of an index.
struct KeyPart {
  PartKind kind;
  bool descending;
  uchar null_mask;     // 0: NOT NULL
  uint null_offset;    // in the record
  uint offset;         // in the record
  uint width;          // bytes of the column; for variable lengths, at most so many count
  uint length_bytes;   // of a VARCHAR or BLOB in the record
  uint tuple_bytes;    // in a key tuple of the server, NULL byte and length included
  uint chars;          // at most so many characters count
  uint field;          // its number in the table
  uint bit_offset;     // BITS: the record's byte of the bits beside the NULL bits
  uchar bit_shift, bit_count;
  TextOrder order;
};

// The columns of one index.
class KeyCodec {
 public:
  // Prepares the codec of `key`. Returns null, or what about the index is not supported.
  const char *init(const TABLE_SHARE *share, const KEY *key);

  // Appends the key of a record. Returns true if a column is NULL.
  bool append_record(const uchar *record, Buffer &out, Buffer &scratch) const;

  // Appends the first `parts` columns of a key tuple of the server. Returns true if one is NULL.
  bool append_tuple(const uchar *tuple, uint parts, Buffer &out, Buffer &scratch) const;

  // Tells whether two records have the same bytes in all columns of the index.
  bool same_columns(const uchar *a, const uchar *b) const;

  // Returns how many columns the first `map` bits name.
  uint parts_of(key_part_map map) const;

  // Returns how many bytes of a tuple the first `parts` columns take.
  uint tuple_bytes(uint parts) const;

  // Tells whether columns can be put back from the key.
  bool restorable() const { return restorable_; }
  bool restorable(uint part) const { return part_restorable(parts_[part]); }

  // Puts the columns of a restorable key back into a record. Returns how many bytes of the key they
  // take, or 0 if the key is too short.
  size_t restore(const uchar *key, size_t bytes, uchar *record) const;

  uint parts() const { return count_; }
  const KeyPart &part(uint i) const { return parts_[i]; }

  // Returns the bytes of each key of the index, or 0 if they vary.
  uint fixed_bytes() const { return fixed_bytes_; }

 private:
  static bool part_restorable(const KeyPart &part) { return part.kind <= PartKind::FIXED; }
  void append_value(const KeyPart &part, const uchar *image, size_t bytes, Buffer &out,
                    Buffer &scratch) const;

  KeyPart parts_[MAX_REF_PARTS];
  uint count_ = 0;
  uint fixed_bytes_ = 0;
  bool restorable_ = false;
};

// Turns `key` into the least key above all keys that begin with it. Returns false if there is none.
bool advance_past_prefix(Buffer &key);

}  // namespace millpond
