// Rows of the server as values of the engine, and back.

#include "row_codec.h"

namespace millpond {

namespace {

constexpr uchar ROW_VERSION = 1;

bool in_primary(const KeyCodec *primary, uint field) {
  if (primary == nullptr || !primary->restorable()) return false;
  for (uint i = 0; i < primary->parts(); i++) {
    if (primary->part(i).field == field) return true;
  }
  return false;
}

void put_length(uchar *to, size_t length, uint bytes) {
  for (uint i = 0; i < bytes; i++) to[i] = static_cast<uchar>(length >> (8 * i));
}

size_t get_length(const uchar *from, uint bytes) {
  size_t length = 0;
  for (uint i = 0; i < bytes; i++) length |= static_cast<size_t>(from[i]) << (8 * i);
  return length;
}

}  // namespace

void RowCodec::init(const TABLE_SHARE *share, const KeyCodec *primary) {
  free(steps_);
  steps_ = static_cast<Step *>(calloc(share->fields ? share->fields : 1, sizeof(Step)));
  free(kept_nulls_);
  kept_nulls_ = static_cast<uchar *>(calloc(share->null_bytes + 1, 1));
  if (steps_ == nullptr || kept_nulls_ == nullptr) abort();
  memset(kept_nulls_, 0xff, share->null_bytes);
  count_ = 0;
  has_blobs_ = false;
  defaults_ = share->default_values;
  null_bytes_ = share->null_bytes;
  plain_bytes_ = 1 + null_bytes_;
  for (uint i = 0; i < share->fields; i++) {
    const Field *field = share->field[i];
    if (!field->stored_in_db()) {
      const uchar bit = field->null_ptr ? field->null_bit : 0;
      if (bit) kept_nulls_[field->null_ptr - share->default_values] &= static_cast<uchar>(~bit);
      continue;
    }
    if (in_primary(primary, i)) continue;
    Step step{};
    step.offset = static_cast<uint>(field->ptr - share->default_values);
    if (field->null_ptr) {
      step.null_mask = field->null_bit;
      step.null_offset = static_cast<uint>(field->null_ptr - share->default_values);
    }
    step.width = field->pack_length_in_rec();
    if (field->flags & BLOB_FLAG) {
      step.kind = StepKind::BLOB;
      step.length_bytes = static_cast<uchar>(static_cast<const Field_blob *>(field)->pack_length_no_ptr());
      has_blobs_ = true;
    } else if (field->real_type() == MYSQL_TYPE_VARCHAR) {
      step.kind = StepKind::VARCHAR;
      step.length_bytes = static_cast<uchar>(static_cast<const Field_varstring *>(field)->length_bytes);
    } else if (field->real_type() == MYSQL_TYPE_STRING && field->key_type() == HA_KEYTYPE_TEXT) {
      step.kind = StepKind::CHAR;
      step.length_bytes = step.width < 256 ? 1 : 2;
      step.charset = field->charset();
    } else {
      step.kind = StepKind::COPY;
    }
    plain_bytes_ += step.width + step.length_bytes;
    Step *last = count_ ? &steps_[count_ - 1] : nullptr;
    if (last && last->kind == StepKind::COPY && step.kind == StepKind::COPY && !last->null_mask &&
        !step.null_mask && last->offset + last->width == step.offset) {
      last->width += step.width;
    } else {
      steps_[count_++] = step;
    }
  }
}

bool RowCodec::same_step(const Step &step, const uchar *a, const uchar *b) {
  switch (step.kind) {
    case StepKind::COPY:
    case StepKind::CHAR: return memcmp(a, b, step.width) == 0;
    case StepKind::VARCHAR:
      return memcmp(a, b, step.length_bytes + get_length(a, step.length_bytes)) == 0;
    default: {
      if (memcmp(a, b, step.length_bytes) != 0) return false;
      const uchar *left, *right;
      memcpy(&left, a + step.length_bytes, sizeof left);
      memcpy(&right, b + step.length_bytes, sizeof right);
      return left == right || memcmp(left, right, get_length(a, step.length_bytes)) == 0;
    }
  }
}

bool RowCodec::same(const uchar *a, const uchar *b) const {
  for (uint i = 0; i < null_bytes_; i++) {
    if ((a[i] ^ b[i]) & kept_nulls_[i]) return false;
  }
  for (const Step *step = steps_, *end = steps_ + count_; step != end; step++) {
    if (step->null_mask && (a[step->null_offset] & step->null_mask)) continue;
    if (!same_step(*step, a + step->offset, b + step->offset)) return false;
  }
  return true;
}

void RowCodec::pack(const uchar *record, Buffer &out) const {
  // Room for every column but the bytes of blobs.
  uchar *start = out.room(plain_bytes_);
  uchar *to = start;
  *to++ = ROW_VERSION;
  for (uint i = 0; i < null_bytes_; i++) {
    *to++ = static_cast<uchar>((record[i] & kept_nulls_[i]) | (defaults_[i] & ~kept_nulls_[i]));
  }
  for (const Step *step = steps_, *end = steps_ + count_; step != end; step++) {
    if (step->null_mask && (record[step->null_offset] & step->null_mask)) continue;
    const uchar *from = record + step->offset;
    switch (step->kind) {
      case StepKind::COPY:
        memcpy(to, from, step->width);
        to += step->width;
        break;
      case StepKind::CHAR: {
        size_t bytes = step->charset->lengthsp(reinterpret_cast<const char *>(from), step->width);
        put_length(to, bytes, step->length_bytes);
        memcpy(to + step->length_bytes, from, bytes);
        to += step->length_bytes + bytes;
        break;
      }
      case StepKind::VARCHAR: {
        size_t bytes = step->length_bytes + get_length(from, step->length_bytes);
        memcpy(to, from, bytes);
        to += bytes;
        break;
      }
      case StepKind::BLOB: {
        size_t bytes = get_length(from, step->length_bytes);
        const uchar *blob;
        memcpy(&blob, from + step->length_bytes, sizeof blob);
        memcpy(to, from, step->length_bytes);
        // The bytes of the blob come besides those that room() was asked for above.
        size_t written = static_cast<size_t>(to - start) + step->length_bytes;
        start = out.room(plain_bytes_ + written + bytes);
        to = start + written;
        if (bytes) memcpy(to, blob, bytes);
        to += bytes;
        break;
      }
    }
  }
  out.advance(static_cast<size_t>(to - start));
}

const uchar *RowCodec::unpack_step(const Step &step, const uchar *from, const uchar *end, uchar *to) {
  size_t left = static_cast<size_t>(end - from);
  if (step.kind == StepKind::COPY) {
    if (left < step.width) return nullptr;
    memcpy(to, from, step.width);
    return from + step.width;
  }
  if (left < step.length_bytes) return nullptr;
  size_t bytes = get_length(from, step.length_bytes);
  const uchar *text = from + step.length_bytes;
  if (left - step.length_bytes < bytes) return nullptr;
  switch (step.kind) {
    case StepKind::CHAR:
      if (bytes > step.width) return nullptr;
      memcpy(to, text, bytes);
      step.charset->fill(reinterpret_cast<char *>(to) + bytes, step.width - bytes, step.charset->pad_char);
      break;
    case StepKind::VARCHAR:
      if (bytes + step.length_bytes > step.width) return nullptr;
      memcpy(to, from, step.length_bytes + bytes);
      break;
    default:
      memcpy(to, from, step.length_bytes);
      memcpy(to + step.length_bytes, &text, sizeof text);
  }
  return text + bytes;
}

bool RowCodec::unpack(const uchar *value, size_t bytes, uchar *record) const {
  if (bytes < 1 + null_bytes_ || value[0] != ROW_VERSION) return false;
  const uchar *from = value + 1, *end = value + bytes;
  memcpy(record, from, null_bytes_);
  from += null_bytes_;
  for (const Step *step = steps_, *last = steps_ + count_; step != last; step++) {
    if (step->null_mask && (record[step->null_offset] & step->null_mask)) {
      memcpy(record + step->offset, defaults_ + step->offset, step->width);
      continue;
    }
    from = unpack_step(*step, from, end, record + step->offset);
    if (from == nullptr) return false;
  }
  return from == end;
}

}  // namespace millpond
