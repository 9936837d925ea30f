// What the server may do with an index.

#include "index_flags.h"

namespace millpond {

namespace {

static_assert(MAX_REF_PARTS <= 32, "a bit for each column of an index");

// Tells whether a column can be put back from an index entry that has it.
bool restorable(const TABLE_SHARE *share, const KEY_PART_INFO &part) {
  const Field *field = share->field[part.fieldnr - 1];
  bool text = field->key_type() == HA_KEYTYPE_TEXT || field->key_type() >= HA_KEYTYPE_VARTEXT1;
  return !text && field->stored_in_db() && part.length == field->pack_length();
}

// Tells whether an index is the primary key: the first one, if it has that name, or if it is unique and
// has whole columns that are NOT NULL. The server asks for an index's flags before it says which is the
// primary key.
bool is_primary(const TABLE_SHARE *share, uint index) {
  if (index != 0 || share->keys == 0) return false;
  const KEY &key = share->key_info[0];
  if (my_strcasecmp(system_charset_info, key.name.str, "PRIMARY") == 0) return true;
  if (!(key.flags & HA_NOSAME) || key.algorithm == HA_KEY_ALG_LONG_HASH) return false;
  for (uint i = 0; i < key.user_defined_key_parts; i++) {
    const KEY_PART_INFO &part = key.key_part[i];
    const Field *field = share->field[part.fieldnr - 1];
    if (field->null_ptr || field->key_length() != part.length) return false;
  }
  return true;
}

// Tells whether the primary key, if the table has one, can be put back from any entry.
bool primary_restorable(const TABLE_SHARE *share) {
  if (!is_primary(share, 0)) return true;
  const KEY &key = share->key_info[0];
  for (uint i = 0; i < key.user_defined_key_parts; i++) {
    if (!restorable(share, key.key_part[i])) return false;
  }
  return true;
}

}  // namespace

IndexFlags::IndexFlags(const TABLE_SHARE *share, uint index, uint parts) {
  flags_ = HA_READ_NEXT | HA_READ_PREV | HA_READ_ORDER | HA_READ_RANGE;
  if (is_primary(share, index)) {
    // The primary key's index has all columns, so the server may always read from it alone.
    flags_ |= HA_CLUSTERED_INDEX | HA_KEYREAD_ONLY;
    return;
  }
  if (!primary_restorable(share)) return;
  flags_ |= HA_DO_INDEX_COND_PUSHDOWN | HA_DO_RANGE_FILTER_PUSHDOWN;
  const KEY &key = share->key_info[index];
  for (uint i = 0; i < parts; i++) {
    if (restorable(share, key.key_part[i])) restorable_ |= uint32{1} << i;
  }
}

}  // namespace millpond
