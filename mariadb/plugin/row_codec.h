// Rows of the server as values of the engine, and back.
//
// A value is a version byte, the record's NULL bytes (bits of BIT columns included), and the stored
// columns in the order of the table: fixed ones as they are, CHAR without its trailing spaces, and
// VARCHAR, TEXT and BLOB as length and bytes. NULL columns take no bytes. Columns that the primary
// key can give back are left out.
#pragma once

#include "server.h"
#include "buffer.h"
#include "key_codec.h"

namespace millpond {

class RowCodec {
 public:
  // Prepares the codec of a table. `primary` is null for a table with a hidden key.
  void init(const TABLE_SHARE *share, const KeyCodec *primary);

  // Appends the value of a record.
  void pack(const uchar *record, Buffer &out) const;

  // Puts a value into a record. Blobs of the record point into `value`. Returns false if the value
  // is damaged. Columns of the primary key are not touched. The bytes of a NULL column become those
  // of the table's default record: the server compares them, too, when it looks for a change.
  bool unpack(const uchar *value, size_t bytes, uchar *record) const;

  // Tells whether two records with equal keys have the same bytes in all stored columns.
  bool same(const uchar *a, const uchar *b) const;

  bool has_blobs() const { return has_blobs_; }

 private:
  enum class StepKind : uchar { COPY, CHAR, VARCHAR, BLOB };
  // What to do for one column, or for several fixed ones side by side.
  struct Step {
    StepKind kind;
    uchar null_mask;
    uchar length_bytes;
    uint null_offset;
    uint offset;
    uint width;
    CHARSET_INFO *charset;
  };

  static const uchar *unpack_step(const Step &step, const uchar *from, const uchar *end, uchar *to);

  static bool same_step(const Step &step, const uchar *a, const uchar *b);

  Step *steps_ = nullptr;
  // The NULL bits that are stored. Those of virtual columns are as in the default record: CHECKSUM
  // TABLE reads them.
  uchar *kept_nulls_ = nullptr;
  uint count_ = 0;
  const uchar *defaults_ = nullptr;  // The default record; the server's share of the table owns it.
  uint null_bytes_ = 0;
  uint plain_bytes_ = 0;
  bool has_blobs_ = false;

 public:
  RowCodec() = default;
  ~RowCodec() {
    free(steps_);
    free(kept_nulls_);
  }
  RowCodec(const RowCodec &) = delete;
  RowCodec &operator=(const RowCodec &) = delete;
};

}  // namespace millpond
