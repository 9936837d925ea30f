// Changes of tables. Each is one atomic, durable step of the engine, and safe to repeat.

#include "ha_millpond.h"
#include "definition.h"
#include "errors.h"
#include "names.h"

#include <sql_alter.h>

namespace millpond {

namespace {

// Makes new trees, or puts them in place of others, with the definitions that they are made with.
int make_trees(uint op, const std::vector<std::string> &names, const std::vector<std::string> &definitions) {
  std::vector<millpond_table_change> changes;
  for (size_t i = 0; i < names.size(); i++) {
    changes.push_back(change_of(op, names[i]));
    changes.back().metadata = bytes_of(definitions[i].data(), definitions[i].size());
  }
  return make_changes(changes);
}

// Makes the counter of a new table at least `next`.
int raise_counter(const std::string &name, ulonglong next) {
  millpond_table *rows = nullptr;
  int rc = millpond_table_open(database, bytes_of(name.data(), name.size()), &rows);
  if (rc == MILLPOND_RC_OK) rc = millpond_counter_raise(database, rows, next);
  millpond_table_free(rows);
  return rc;
}

// Lets the session's transaction read new trees, although its snapshot may be older: nobody else
// writes into them.
int show_to_all(const std::vector<std::string> &names) {
  int rc = MILLPOND_RC_OK;
  for (const std::string &name : names) {
    millpond_table *tree = nullptr;
    if (rc == MILLPOND_RC_OK) rc = millpond_table_open(database, bytes_of(name.data(), name.size()), &tree);
    if (rc == MILLPOND_RC_OK) rc = millpond_table_allow_older_snapshots(tree);
    millpond_table_free(tree);
  }
  return rc;
}

// Foreign keys are accepted and not enforced. The user has to know.
void warn_of_foreign_keys(THD *thd, const TABLE *form, HA_CREATE_INFO *info) {
  if (info->alter_info == nullptr) return;
  List_iterator<Key> keys(info->alter_info->key_list);
  while (Key *key = keys++) {
    if (key->type != Key::FOREIGN_KEY) continue;
    std::string which;
    if (key->name.length > 0) {
      which = "the constraint '" + std::string(key->name.str, key->name.length) + "'";
    } else {
      which = "a constraint of the table '" + std::string(form->s->table_name.str) + "'";
    }
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_ILLEGAL_HA_CREATE_OPTION,
                        "Millpond does not enforce foreign keys; %s has no effect", which.c_str());
  }
}

}  // namespace

int ha_millpond::create(const char *path, TABLE *form, HA_CREATE_INFO *info) {
  THD *thd = ha_thd();
  const char *refused = Table::refusal(form);
  if (info->data_file_name || info->index_file_name) refused = "DATA DIRECTORY or INDEX DIRECTORY";
  if (refused) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Storage engine Millpond does not support %s", MYF(0),
                    refused);
    return HA_WRONG_CREATE_OPTION;
  }
  std::string name = table_name_of(path);
  std::vector<std::string> names{name}, definitions{definition_of_rows(form)};
  for (uint i = 0; i < form->s->keys; i++) {
    if (i == form->s->primary_key) continue;
    names.push_back(index_name_of(name, form->s->key_info[i]));
    definitions.push_back(definition_of_index(form, i));
  }
  if (int rc = make_trees(MILLPOND_TABLE_OP_CREATE, names, definitions)) return reported(open_.error_of(rc));
  forget_memory(name);
  // The first key of an empty table needs no search, which would be a use of the tree.
  memory_of(name)->knows_key.store(true, std::memory_order_release);
  if (is_temporary(name)) {
    if (int rc = show_to_all(names)) return reported(open_.error_of(rc));
  }
  if (info->auto_increment_value > 1) {
    if (int rc = raise_counter(name, info->auto_increment_value)) return reported(open_.error_of(rc));
  }
  warn_of_foreign_keys(thd, form, info);
  return 0;
}

int ha_millpond::delete_table(const char *path) {
  std::string name = table_name_of(path);
  std::vector<std::string> names;
  if (int rc = trees_of(name, &names)) return open_.error_of(rc);
  if (names.empty()) {
    // The server drops partitions one by one. It names their table if it has no definition of it: after
    // a kill in the middle of a DROP, when it starts or when a user drops the table again.
    if (int rc = trees_of_partitions(name, &names)) return open_.error_of(rc);
    for (const std::string &tree : names) forget_memory(tree);
  }
  if (names.empty()) return HA_ERR_NO_SUCH_TABLE;
  forget_memory(name);
  // The running transaction may have used a temporary table. The engine drops it when that ends.
  Session *session = Session::existing(current_thd);
  if (session && is_temporary(name) && session->drop_at_end(names)) return 0;
  if (session) session->abandon_tables();
  return open_.error_of(drop_trees(names));
}

int ha_millpond::rename_table(const char *from, const char *to) {
  std::string old_name = table_name_of(from), new_name = table_name_of(to);
  std::vector<std::string> names, renamed;
  if (int rc = trees_of(old_name, &names)) return reported(open_.error_of(rc));
  if (names.empty()) {
    // A rename that is repeated after a crash finds its work done.
    if (int rc = trees_of(new_name, &names)) return reported(open_.error_of(rc));
    return names.empty() ? HA_ERR_NO_SUCH_TABLE : 0;
  }
  for (const std::string &tree : names) renamed.push_back(new_name + tree.substr(old_name.size()));
  std::vector<millpond_table_change> changes;
  for (size_t i = 0; i < names.size(); i++) {
    changes.push_back(change_of(MILLPOND_TABLE_OP_RENAME, names[i]));
    changes.back().new_name = bytes_of(renamed[i].data(), renamed[i].size());
  }
  if (int rc = make_changes(changes)) return reported(open_.error_of(rc));
  rename_memory(old_name, new_name);
  return 0;
}

// Tells whether a definition with these changes of columns means the same rows. The server asks when
// it compares a partition with a table.
bool ha_millpond::check_if_incompatible_data(HA_CREATE_INFO *info, uint changes) {
  const bool counter = (info->used_fields & HA_CREATE_USED_AUTO) && info->auto_increment_value != 0;
  return changes == IS_EQUAL_YES && !counter ? COMPATIBLE_DATA_YES : COMPATIBLE_DATA_NO;
}

// Puts empty trees in place of all trees of the table. The server holds an exclusive metadata lock.
int ha_millpond::truncate() {
  std::vector<std::string> names{open_.table().name()}, definitions{definition_of_rows(table)};
  for (uint i = 0; i < open_.table().indexes(); i++) {
    if (i == open_.table().primary()) continue;
    names.push_back(open_.table().tree_name(i));
    definitions.push_back(definition_of_index(table, i));
  }
  open_.cursors().forget();
  if (int rc = make_trees(MILLPOND_TABLE_OP_REPLACE, names, definitions)) return open_.error_of(rc);
  if (is_temporary(open_.table().name())) {
    if (int rc = show_to_all(names)) return open_.error_of(rc);
  }
  return open_.table().reopen_trees(table);
}

int ha_millpond::reset_auto_increment(ulonglong value) { return open_.error_of(numbers_.raise(value)); }

// Tells what the counter of a table is made with that gets the definition of this one.
void ha_millpond::update_create_info(HA_CREATE_INFO *info) {
  if (info->used_fields & HA_CREATE_USED_AUTO || !table->found_next_number_field) return;
  uint64_t next = 0;
  if (numbers_.next(&next) != MILLPOND_RC_OK) return;
  if (next > 1) info->auto_increment_value = next;
}

}  // namespace millpond
