// Whether a table's definition is the one that its trees were made with.

#include "definition.h"

namespace millpond {

namespace {

constexpr uchar FORMAT = 1;
constexpr size_t HEAD_BYTES = 3, COLUMN_BYTES = 8, CHECKSUM_BYTES = 4;

// A checksum of numbers and bytes (FNV-1a).
class Checksum {
 public:
  void add(ulonglong number) {
    for (uint i = 0; i < 8; i++) add_byte(static_cast<uchar>(number >> (8 * i)));
  }
  void add(const char *text, size_t bytes) {
    add(bytes);
    for (size_t i = 0; i < bytes; i++) add_byte(static_cast<uchar>(text[i]));
  }
  uint32 value() const { return value_; }

 private:
  void add_byte(uchar byte) { value_ = (value_ ^ byte) * 0x01000193; }

  uint32 value_ = 0x811c9dc5;
};

void put_number(std::string &out, ulonglong number, uint bytes) {
  for (uint i = 0; i < bytes; i++) out.push_back(static_cast<char>(number >> (8 * i)));
}

uint32 number_at(const std::string &from, size_t at) {
  return uint4korr(reinterpret_cast<const uchar *>(from.data()) + at);
}

// Returns how much the column may only get more of without a new copy of the table.
uint32 least_of(const Field *field) {
  if (field->real_type() == MYSQL_TYPE_VARCHAR) return field->field_length;
  const TYPELIB *members = field->get_typelib();
  return members ? members->count : 0;
}

// Adds the first members of an ENUM or a SET. Those that the collation takes for equal are the same.
void add_members(Checksum &sum, const Field *field, uint32 count) {
  const TYPELIB *members = field->get_typelib();
  for (uint32 i = 0; members && i < count && i < members->count; i++) {
    ulong first = 1, second = 4;
    field->charset()->hash_sort(reinterpret_cast<const uchar *>(members->type_names[i]), members->type_lengths[i],
                                &first, &second);
    sum.add(first);
  }
}

// Adds what the bytes of a column's values depend on.
void add_type(Checksum &sum, const Field *field) {
  const enum_field_types type = field->real_type();
  sum.add(type);
  sum.add(field->null_ptr != nullptr);
  sum.add(field->compression_method() != nullptr);
  switch (type) {
    case MYSQL_TYPE_VARCHAR: sum.add(static_cast<const Field_varstring *>(field)->length_bytes); break;
    case MYSQL_TYPE_BIT:
    case MYSQL_TYPE_STRING: sum.add(field->field_length); break;
    case MYSQL_TYPE_NEWDECIMAL:
      sum.add(field->field_length);
      sum.add(field->decimals());
      break;
    case MYSQL_TYPE_TIME2:
    case MYSQL_TYPE_DATETIME2:
    case MYSQL_TYPE_TIMESTAMP2: sum.add(field->decimals()); break;
    default: sum.add(field->flags & BLOB_FLAG ? static_cast<const Field_blob *>(field)->pack_length_no_ptr()
                                              : field->pack_length());
  }
  if (field->result_type() != STRING_RESULT && type != MYSQL_TYPE_ENUM && type != MYSQL_TYPE_SET) {
    sum.add(field->flags & UNSIGNED_FLAG);
    return;
  }
  if (field->cmp_type() == TIME_RESULT) return;
  sum.add(field->charset()->number);
  // Types of plugins, such as UUID, are strings of bytes with an order of their own.
  if (type != MYSQL_TYPE_STRING || field->charset() != &my_charset_bin) return;
  const Name name = field->type_handler()->name();
  sum.add(name.ptr(), name.length());
}

uint32 column_checksum(const Field *field, uint32 least) {
  Checksum sum;
  add_type(sum, field);
  add_members(sum, field, least);
  return sum.value();
}

// Returns the checksum of the columns of an index. A column that is in it whole may get longer.
uint32 index_checksum(const TABLE *table, uint index) {
  const KEY &key = table->key_info[index];
  Checksum sum;
  sum.add(key.flags & HA_NOSAME);
  for (uint i = 0; i < key.user_defined_key_parts; i++) {
    const KEY_PART_INFO &part = key.key_part[i];
    const Field *field = table->s->field[part.fieldnr - 1];
    sum.add(part.fieldnr);
    sum.add(part.key_part_flag & HA_REVERSE_SORT);
    sum.add(part.length == field->key_length() ? 0 : part.length);
    add_type(sum, field);
  }
  return sum.value();
}

uint32 primary_checksum(const TABLE *table) {
  const uint primary = table->s->primary_key;
  return primary < MAX_KEY ? index_checksum(table, primary) : 0;
}

std::vector<const Field *> stored_columns(const TABLE *table) {
  std::vector<const Field *> stored;
  for (uint i = 0; i < table->s->fields; i++) {
    if (table->s->field[i]->stored_in_db()) stored.push_back(table->s->field[i]);
  }
  return stored;
}

std::string quoted(const LEX_CSTRING &name) { return "`" + std::string(name.str, name.length) + "`"; }

void compare_rows(const TABLE *table, const std::string &metadata, std::vector<std::string> *misfits) {
  const std::vector<const Field *> stored = stored_columns(table);
  const size_t columns = uint2korr(reinterpret_cast<const uchar *>(metadata.data()) + 1);
  if (metadata.size() != HEAD_BYTES + columns * COLUMN_BYTES + CHECKSUM_BYTES) return;
  if (columns != stored.size()) {
    misfits->push_back("the rows have " + std::to_string(columns) + " stored columns, not " +
                       std::to_string(stored.size()));
    return;
  }
  size_t at = HEAD_BYTES;
  for (const Field *field : stored) {
    const uint32 least = number_at(metadata, at + CHECKSUM_BYTES);
    if (least_of(field) < least || column_checksum(field, least) != number_at(metadata, at)) {
      misfits->push_back("the rows were written with another type or collation of column " +
                         quoted(field->field_name));
    }
    at += COLUMN_BYTES;
  }
  if (primary_checksum(table) != number_at(metadata, at)) {
    misfits->push_back("the rows were written with another primary key");
  }
}

}  // namespace

std::string definition_of_rows(const TABLE *table) {
  const std::vector<const Field *> stored = stored_columns(table);
  std::string out(1, static_cast<char>(FORMAT));
  put_number(out, stored.size(), 2);
  for (const Field *field : stored) {
    const uint32 least = least_of(field);
    put_number(out, column_checksum(field, least), 4);
    put_number(out, least, 4);
  }
  put_number(out, primary_checksum(table), 4);
  return out;
}

std::string definition_of_index(const TABLE *table, uint index) {
  std::string out(1, static_cast<char>(FORMAT));
  put_number(out, index_checksum(table, index), 4);
  return out;
}

void compare_definition(const TABLE *table, uint index, const std::string &metadata,
                        std::vector<std::string> *misfits) {
  if (metadata.size() < HEAD_BYTES || metadata[0] != static_cast<char>(FORMAT)) return;
  if (index == MAX_KEY) return compare_rows(table, metadata, misfits);
  if (metadata.size() != 1 + CHECKSUM_BYTES || index_checksum(table, index) == number_at(metadata, 1)) return;
  misfits->push_back("the index " + quoted(table->key_info[index].name) +
                     " was made of other columns, or with another type or collation");
}

}  // namespace millpond
