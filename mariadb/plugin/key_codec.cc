// Keys of an index as bytes that memcmp orders like the index.

#include "key_codec.h"

namespace millpond {

namespace {

// A NULL column is this byte alone; a value of a nullable column follows the other one.
enum NullByte : uchar { IS_NULL = 0, IS_VALUE = 1 };

void reversed(uchar *to, const uchar *from, uint width) {
  for (uint i = 0; i < width; i++) to[i] = from[width - 1 - i];
}

// Makes a real number comparable, big-endian. Minus zero becomes zero: they are equal.
void ordered_real(uchar *to, const uchar *from, uint width) {
  reversed(to, from, width);
  bool zero = (to[0] & 0x7f) == 0;
  for (uint i = 1; i < width; i++) zero = zero && to[i] == 0;
  if (zero) to[0] = 0;
  if (to[0] & 0x80) {
    for (uint i = 0; i < width; i++) to[i] = static_cast<uchar>(~to[i]);
  } else {
    to[0] ^= 0x80;
  }
}

void restored_real(uchar *to, const uchar *ordered, uint width) {
  uchar plain[8];
  bool negative = !(ordered[0] & 0x80);
  for (uint i = 0; i < width; i++) plain[i] = negative ? static_cast<uchar>(~ordered[i]) : ordered[i];
  if (!negative) plain[0] ^= 0x80;
  reversed(to, plain, width);
}

bool kind_of(const Field *field, PartKind *kind) {
  switch (field->key_type()) {
    case HA_KEYTYPE_INT8:
    case HA_KEYTYPE_SHORT_INT:
    case HA_KEYTYPE_INT24:
    case HA_KEYTYPE_LONG_INT:
    case HA_KEYTYPE_LONGLONG:
      *kind = PartKind::SIGNED;
      return true;
    case HA_KEYTYPE_USHORT_INT:
    case HA_KEYTYPE_UINT24:
    case HA_KEYTYPE_ULONG_INT:
    case HA_KEYTYPE_ULONGLONG:
      *kind = PartKind::UNSIGNED;
      return true;
    case HA_KEYTYPE_FLOAT: *kind = PartKind::REAL4; return true;
    case HA_KEYTYPE_DOUBLE: *kind = PartKind::REAL8; return true;
    case HA_KEYTYPE_BINARY:
      // TINYINT UNSIGNED has no key type of its own.
      *kind = field->real_type() == MYSQL_TYPE_TINY ? PartKind::UNSIGNED : PartKind::FIXED;
      return true;
    // BIT columns are whole bytes, big-endian: the engine does not ask for bits among the NULL bits.
    case HA_KEYTYPE_BIT: *kind = PartKind::FIXED; return true;
    case HA_KEYTYPE_TEXT: *kind = PartKind::TEXT; return true;
    case HA_KEYTYPE_VARTEXT1:
    case HA_KEYTYPE_VARTEXT2:
    case HA_KEYTYPE_VARBINARY1:
    case HA_KEYTYPE_VARBINARY2:
      *kind = field->flags & BLOB_FLAG ? PartKind::BLOBTEXT : PartKind::VARTEXT;
      return true;
    default: return false;
  }
}

bool is_text(PartKind kind) { return kind >= PartKind::TEXT; }

}  // namespace

const char *KeyCodec::init(const TABLE_SHARE *share, const KEY *key) {
  count_ = key->user_defined_key_parts;
  fixed_bytes_ = 0;
  restorable_ = true;
  bool fixed = true;
  for (uint i = 0; i < count_; i++) {
    const KEY_PART_INFO &info = key->key_part[i];
    const Field *field = share->field[info.fieldnr - 1];
    KeyPart &part = parts_[i];
    if (!kind_of(field, &part.kind)) return "a column of a type that cannot be indexed";
    part.descending = info.key_part_flag & HA_REVERSE_SORT;
    part.null_mask = field->null_ptr ? field->null_bit : 0;
    part.null_offset = field->null_ptr ? static_cast<uint>(field->null_ptr - share->default_values) : 0;
    part.offset = static_cast<uint>(field->ptr - share->default_values);
    part.width = info.length;
    part.tuple_bytes = info.store_length;
    part.field = info.fieldnr - 1;
    part.length_bytes = 0;
    if (is_text(part.kind)) {
      if (!part.order.init(field->charset(), part.kind == PartKind::TEXT)) {
        return "a column whose collation has no sort keys";
      }
      part.chars = info.length / field->charset()->mbmaxlen;
      if (part.kind == PartKind::VARTEXT) {
        part.length_bytes = static_cast<const Field_varstring *>(field)->length_bytes;
      } else if (part.kind == PartKind::BLOBTEXT) {
        part.length_bytes = static_cast<const Field_blob *>(field)->pack_length_no_ptr();
      }
    }
    fixed = fixed && !is_text(part.kind) && !part.null_mask;
    fixed_bytes_ += part.width;
    part.restorable = part.kind <= PartKind::FIXED && part.width == field->pack_length();
    restorable_ = restorable_ && part.restorable;
  }
  if (!fixed) fixed_bytes_ = 0;
  return nullptr;
}

void KeyCodec::append_value(const KeyPart &part, const uchar *image, size_t bytes, Buffer &out,
                            Buffer &scratch) {
  const uint width = part.width;
  size_t start = out.size();
  switch (part.kind) {
    case PartKind::SIGNED:
    case PartKind::UNSIGNED: {
      uchar *to = out.room(width);
      reversed(to, image, width);
      if (part.kind == PartKind::SIGNED) to[0] ^= 0x80;
      out.advance(width);
      break;
    }
    case PartKind::REAL4:
    case PartKind::REAL8:
      ordered_real(out.room(width), image, width);
      out.advance(width);
      break;
    case PartKind::FIXED: out.append(image, bytes); break;
    case PartKind::TEXT:
    case PartKind::VARTEXT:
    case PartKind::BLOBTEXT: {
      CHARSET_INFO *charset = part.order.charset();
      size_t count = bytes < width ? bytes : width;
      if (charset->mbmaxlen > 1) {
        const char *text = reinterpret_cast<const char *>(image);
        size_t end = charset->charpos(text, text + bytes, part.chars);
        count = end < bytes ? end : bytes;
      }
      part.order.append(image, count, out, scratch);
      break;
    }
  }
  if (!part.descending) return;
  for (size_t at = start; at < out.size(); at++) out.data()[at] = static_cast<uchar>(~out.data()[at]);
}

bool KeyCodec::append_record(const uchar *record, Buffer &out, Buffer &scratch) const {
  bool any_null = false;
  for (uint i = 0; i < count_; i++) {
    const KeyPart &part = parts_[i];
    const uchar flip = part.descending ? 0xff : 0;
    if (part.null_mask) {
      bool null = record[part.null_offset] & part.null_mask;
      out.push((null ? IS_NULL : IS_VALUE) ^ flip);
      if (null) {
        any_null = true;
        continue;
      }
    }
    const uchar *image = record + part.offset;
    switch (part.kind) {
      case PartKind::VARTEXT: {
        size_t bytes = part.length_bytes == 1 ? image[0] : uint2korr(image);
        append_value(part, image + part.length_bytes, bytes, out, scratch);
        break;
      }
      case PartKind::BLOBTEXT: {
        size_t bytes = read_lowendian(image, part.length_bytes);
        const uchar *text;
        memcpy(&text, image + part.length_bytes, sizeof text);
        append_value(part, text, bytes, out, scratch);
        break;
      }
      default: append_value(part, image, part.width, out, scratch);
    }
  }
  return any_null;
}

// Appends a column of a key tuple of the server. Returns true if it is NULL.
bool KeyCodec::append_tuple_part(const KeyPart &part, const uchar *image, Buffer &out, Buffer &scratch) {
  if (part.null_mask) {
    const uchar flip = part.descending ? 0xff : 0;
    bool null = *image++ != 0;
    out.push((null ? IS_NULL : IS_VALUE) ^ flip);
    if (null) return true;
  }
  if (part.length_bytes) {
    append_value(part, image + HA_KEY_BLOB_LENGTH, uint2korr(image), out, scratch);
  } else {
    append_value(part, image, part.width, out, scratch);
  }
  return false;
}

bool KeyCodec::append_tuple(const uchar *tuple, uint parts, Buffer &out, Buffer &scratch) const {
  bool any_null = false;
  const uchar *image = tuple;
  for (uint i = 0; i < parts && i < count_; i++) {
    any_null |= append_tuple_part(parts_[i], image, out, scratch);
    image += parts_[i].tuple_bytes;
  }
  uint left = parts > count_ ? parts - count_ : 0;
  for (size_t i = 0; left > 0 && i < tail_.size(); i++) {
    append_tuple_part(*tail_[i].part, tuple + tail_[i].tuple_at, out, scratch);
    if (!tail_[i].repeated) left--;
  }
  return any_null;
}

void KeyCodec::extend(const KEY *key, const KeyCodec &primary) {
  tail_.clear();
  uint next_at = 0;
  for (uint i = 0; i < count_; i++) next_at += parts_[i].tuple_bytes;
  uint left = key->ext_key_parts - key->user_defined_key_parts;
  for (uint p = 0; left > 0 && p < primary.count_; p++) {
    TailPart tail{&primary.parts_[p], 0, false};
    for (uint i = 0; i < count_ && !tail.repeated; i++) {
      tail.repeated = parts_[i].field == tail.part->field;
      if (!tail.repeated) tail.tuple_at += parts_[i].tuple_bytes;
    }
    if (!tail.repeated) {
      tail.tuple_at = next_at;
      next_at += tail.part->tuple_bytes;
      left--;
    }
    tail_.push_back(tail);
  }
}

bool KeyCodec::same_columns(const uchar *a, const uchar *b) const {
  for (uint i = 0; i < count_; i++) {
    const KeyPart &part = parts_[i];
    if (part.null_mask && ((a[part.null_offset] ^ b[part.null_offset]) & part.null_mask)) return false;
    if (part.null_mask && (a[part.null_offset] & part.null_mask)) continue;
    const uchar *left = a + part.offset, *right = b + part.offset;
    size_t bytes = part.width;
    if (part.kind == PartKind::VARTEXT) {
      bytes = part.length_bytes == 1 ? left[0] : uint2korr(left);
      if (memcmp(left, right, part.length_bytes) != 0) return false;
      left += part.length_bytes;
      right += part.length_bytes;
    } else if (part.kind == PartKind::BLOBTEXT) {
      return false;  // Rare; the caller compares the encoded keys.
    }
    if (memcmp(left, right, bytes) != 0) return false;
  }
  return true;
}

uint KeyCodec::parts_of(key_part_map map) const {
  uint most = count_;
  for (const TailPart &tail : tail_) most += !tail.repeated;
  uint parts = 0;
  while (parts < most && (map & 1)) {
    parts++;
    map >>= 1;
  }
  return parts;
}

size_t KeyCodec::restore(const uchar *key, size_t bytes, uchar *record) const {
  size_t at = 0;
  for (uint i = 0; i < count_; i++) {
    const KeyPart &part = parts_[i];
    const uchar flip = part.descending ? 0xff : 0;
    const size_t end = part_end(i, key, bytes, at);
    if (end == 0) return 0;
    size_t from = at;
    at = end;
    if (!restorable(i)) continue;
    if (part.null_mask) {
      if ((key[from++] ^ flip) == IS_NULL) {
        record[part.null_offset] |= part.null_mask;
        continue;
      }
      record[part.null_offset] &= static_cast<uchar>(~part.null_mask);
    }
    uchar image[MAX_FIELD_WIDTH];
    for (uint b = 0; b < part.width; b++) image[b] = key[from + b] ^ flip;
    uchar *to = record + part.offset;
    switch (part.kind) {
      case PartKind::SIGNED: image[0] ^= 0x80;  // fall through
      case PartKind::UNSIGNED: reversed(to, image, part.width); break;
      case PartKind::REAL4:
      case PartKind::REAL8: restored_real(to, image, part.width); break;
      default: memcpy(to, image, part.width);
    }
  }
  return at;
}

size_t KeyCodec::part_end(uint i, const uchar *key, size_t bytes, size_t at) const {
  const KeyPart &part = parts_[i];
  const uchar flip = part.descending ? 0xff : 0;
  if (part.null_mask) {
    if (at >= bytes) return 0;
    if ((key[at++] ^ flip) == IS_NULL) return at;
  }
  size_t width = is_text(part.kind) ? part.order.encoded_bytes(key + at, bytes - at, flip) : part.width;
  return width == 0 || width > bytes - at ? 0 : at + width;
}

bool advance_past_prefix(Buffer &key) {
  while (!key.empty()) {
    uchar &last = key.data()[key.size() - 1];
    if (last != 0xff) {
      last++;
      return true;
    }
    key.truncate(key.size() - 1);
  }
  return false;
}

}  // namespace millpond
