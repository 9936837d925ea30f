// ALTER TABLE without a copy: changes of the server's definition, and names of indexes.

#include "ha_millpond.h"
#include "errors.h"
#include "names.h"

#include <sql_alter.h>

namespace millpond {

namespace {

// A new name of an index, which is the name of its tree too.
struct IndexRename : inplace_alter_handler_ctx {
  std::string from, to;
  bool done = false;

  // Names the tree anew, or gives it its old name back. Returns a return code.
  int run(bool back) {
    if (done != back) return MILLPOND_RC_OK;
    millpond_table_change change = change_of(MILLPOND_TABLE_OP_RENAME, back ? to : from);
    const std::string &name = back ? from : to;
    change.new_name = bytes_of(name.data(), name.size());
    int rc = make_changes({change});
    if (rc == MILLPOND_RC_OK) done = !back;
    return rc;
  }
};

}  // namespace

// A longer VARCHAR leaves rows and keys as they are, if its length still takes as many bytes: a key
// has the weights of the characters that are there.
bool ha_millpond::can_convert_nocopy(const Field &field, const Column_definition &wanted) const {
  if (field.real_type() != MYSQL_TYPE_VARCHAR || wanted.type_handler() != field.type_handler()) return false;
  if (wanted.charset != field.charset() || wanted.length < field.field_length) return false;
  return HA_VARCHAR_PACKLENGTH(wanted.length) == HA_VARCHAR_PACKLENGTH(field.field_length);
}

// An index over a whole column grows with it, and one over a prefix stays.
Compare_keys ha_millpond::compare_key_parts(const Field &field, const Column_definition &wanted,
                                            const KEY_PART_INFO &part, const KEY_PART_INFO &wanted_part) const {
  if (!field.is_equal(wanted) && !can_convert_nocopy(field, wanted)) return Compare_keys::NotEqual;
  if (part.length == wanted_part.length) return Compare_keys::Equal;
  const bool whole = part.length == field.key_length() && wanted_part.length == wanted.length;
  return whole ? Compare_keys::EqualButKeyPartLength : Compare_keys::NotEqual;
}

// What changes only the definition is done at once: names, defaults and comments of columns, members
// after the others of an ENUM or a SET, longer VARCHARs, whether an index is ignored. Indexes over
// virtual columns hold their values, so their expressions stay.
//
// The tree of an index has its name, and changes it in a step of its own. A table finds one tree
// whose name is not that of the definition (Table::open_trees), so one name changes at a time.
enum_alter_inplace_result ha_millpond::check_if_supported_inplace_alter(TABLE *altered,
                                                                        Alter_inplace_info *changes) {
  const alter_table_operations asked = changes->handler_flags;
  if (asked & ALTER_VIRTUAL_GCOL_EXPR) return HA_ALTER_INPLACE_NOT_SUPPORTED;
  if (changes->rename_keys.size() > 1) {
    changes->unsupported_reason = "Millpond renames one index at a time";
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }
  // A copy checks that the rows are those of a sequence.
  const HA_CREATE_INFO *wanted = changes->create_info;
  if ((wanted->used_fields & HA_CREATE_USED_SEQUENCE) && wanted->sequence != open_.is_sequence()) {
    changes->unsupported_reason = "SEQUENCE";
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }
  // The server does not know that these need nothing here.
  changes->handler_flags &= ~(ALTER_COLUMN_TYPE_CHANGE_BY_ENGINE | ALTER_COLUMN_INDEX_LENGTH);
  enum_alter_inplace_result result = handler::check_if_supported_inplace_alter(altered, changes);
  changes->handler_flags = asked;
  return result == HA_ALTER_INPLACE_NO_LOCK ? HA_ALTER_INPLACE_INSTANT : result;
}

bool ha_millpond::prepare_inplace_alter_table(TABLE *, Alter_inplace_info *changes) {
  if (changes->rename_keys.size() == 0) return false;
  IndexRename *rename = new IndexRename();
  changes->handler_ctx = rename;
  const Alter_inplace_info::Rename_key_pair &pair = *changes->rename_keys.begin();
  for (uint i = 0; i < table->s->keys; i++) {
    const KEY &key = table->key_info[i];
    const LEX_CSTRING &old = pair.old_key->name;
    if (key.name.length != old.length || memcmp(key.name.str, old.str, old.length)) continue;
    rename->from = open_.table().tree_name(i);
  }
  rename->to = index_name_of(open_.table().name(), *pair.new_key);
  return false;
}

// What the binary log repeats after a crash has the rows of the definition that it was made with. So all
// that used the table is durable before the definition changes. Nobody uses it now.
bool ha_millpond::commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *changes, bool commit) {
  if (const int rc = commit ? millpond_sync(database) : MILLPOND_RC_OK) {
    print_error(open_.error_of(rc), MYF(0));
    return true;
  }
  IndexRename *rename = static_cast<IndexRename *>(changes->handler_ctx);
  if (rename == nullptr) return handler::commit_inplace_alter_table(altered, changes, commit);
  if (int rc = rename->run(!commit)) {
    print_error(open_.error_of(rc), MYF(0));
    return true;
  }
  return false;
}

}  // namespace millpond
