// Functions of the server that it exports, but whose headers need all of the server's own classes.
// They are named by their symbols; a member function takes its object as the first argument.
#pragma once

#include "server.h"

class sys_var;

// Returns the system variable of a name, or null; that is an error of the statement too unless `silent`.
sys_var *find_sys_var(THD *thd, const char *name, size_t bytes, bool silent);

// Adds a directory to those that the server takes for no schema (ignore_db_dirs). It stays there; a
// second call changes nothing.
void ignore_db_dirs_append(const char *directory);

// Puts a name as SQL has it into `to`, from the encoding of the server's files. Returns its bytes. It
// writes to the server's log of names that it does not know, unless `stay_quiet`.
uint filename_to_tablename(const char *from, char *to, size_t bytes, bool stay_quiet);

extern "C" {

// Returns the character set of a connection's statements.
CHARSET_INFO *thd_charset(THD *thd);

// THD::mark_transaction_to_rollback(bool)
void mark_transaction_to_rollback(THD *thd, bool all) __asm__("_ZN3THD28mark_transaction_to_rollbackEb");

// THD::wsrep_parallel_slave_wait_for_prior_commit(): waits, in a thread of parallel replication, for the
// commits before its own, and returns whether that failed; in other threads it does nothing. A server
// without support of Galera clusters has not got it.
bool wait_for_prior_commit(THD *thd) __asm__("_ZN3THD42wsrep_parallel_slave_wait_for_prior_commitEv")
    __attribute__((weak));

// sys_var::val_int(bool *, THD *, enum_var_type, const LEX_CSTRING *)
longlong sys_var_val_int(sys_var *variable, bool *null, THD *thd, enum_var_type type, const LEX_CSTRING *base)
    __asm__("_ZN7sys_var7val_intEPbP3THD13enum_var_typePK25st_mysql_const_lex_string");

}  // extern "C"
