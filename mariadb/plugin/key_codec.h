// Keys of an index as bytes that memcmp orders like the index.
#pragma once

#include "server.h"
#include "buffer.h"
#include "text_key.h"

#include <vector>

namespace millpond {

// How the bytes of a column become bytes that memcmp orders.
enum class PartKind : uchar {
  SIGNED,    // little-endian two's complement: reversed, sign flipped
  UNSIGNED,  // little-endian: reversed
  REAL4,     // IEEE: all bits of negative numbers flipped, the sign of others
  REAL8,
  FIXED,     // ordered by memcmp as they are: decimals, newer temporal types, BINARY, BIT,
             // UUID, INET6
  TEXT,      // CHAR
  VARTEXT,   // VARCHAR and VARBINARY
  BLOBTEXT,  // TEXT and BLOB, a prefix of them
};

// One column of an index.
struct KeyPart {
  PartKind kind;
  bool descending;
  bool restorable;     // the column can be put back from the key
  uchar null_mask;     // 0: NOT NULL
  uint null_offset;    // in the record
  uint offset;         // in the record
  uint width;          // bytes of the column; for variable lengths, at most so many count
  uint length_bytes;   // of a VARCHAR or BLOB in the record
  uint tuple_bytes;    // in a key tuple of the server, NULL byte and length included
  uint chars;          // at most so many characters count
  uint field;          // its number in the table
  TextOrder order;
};

// The columns of one index.
class KeyCodec {
 public:
  // Prepares the codec of `key`. Returns null, or what about the index is not supported.
  const char *init(const TABLE_SHARE *share, const KEY *key);

  // Says that the primary key stands after the columns of this index, and that the server may name
  // its columns too, in key tuples after those of the index. `primary` must stay where it is.
  void extend(const KEY *key, const KeyCodec &primary);

  // Appends the key of a record. Returns true if a column is NULL.
  bool append_record(const uchar *record, Buffer &out, Buffer &scratch) const;

  // Appends the first `parts` columns of a key tuple of the server. Returns true if one is NULL.
  bool append_tuple(const uchar *tuple, uint parts, Buffer &out, Buffer &scratch) const;

  // Tells whether two records have the same bytes in all columns of the index.
  bool same_columns(const uchar *a, const uchar *b) const;

  // Returns how many columns the first `map` bits name, those of the primary key after them included.
  uint parts_of(key_part_map map) const;

  // Tells whether all columns, or one, can be put back from the key.
  bool restorable() const { return restorable_; }
  bool restorable(uint part) const { return parts_[part].restorable; }

  // Puts the restorable columns of a key back into a record. Returns how many bytes of the key all
  // columns take, or 0 if the key is damaged.
  size_t restore(const uchar *key, size_t bytes, uchar *record) const;

  // Returns where column `i` of a key ends that begins at `at`; 0 if the key is damaged.
  size_t part_end(uint i, const uchar *key, size_t bytes, size_t at) const;

  uint parts() const { return count_; }
  const KeyPart &part(uint i) const { return parts_[i]; }

  // Returns the bytes of each key of the index, or 0 if they vary.
  uint fixed_bytes() const { return fixed_bytes_; }

 private:
  // A column of the primary key after the columns of an index.
  struct TailPart {
    const KeyPart *part;
    uint tuple_at;  // where it is in a key tuple of the server
    bool repeated;  // it is a column of the index too, and the tuple has it only there
  };

  static bool append_tuple_part(const KeyPart &part, const uchar *image, Buffer &out, Buffer &scratch);
  static void append_value(const KeyPart &part, const uchar *image, size_t bytes, Buffer &out,
                           Buffer &scratch);

  uint count_ = 0;
  uint fixed_bytes_ = 0;
  bool restorable_ = false;
  std::vector<TailPart> tail_;
  KeyPart parts_[MAX_REF_PARTS];
};

// Turns `key` into the least key above all keys that begin with it. Returns false if there is none.
bool advance_past_prefix(Buffer &key);

}  // namespace millpond
