// The engine's figures as status variables.

#include "status.h"
#include "errors.h"
#include "figures.h"

#include <string>
#include <vector>

namespace millpond {

namespace {

// A status variable's name has letters, digits and underlines.
std::string variable_name(const std::string &name) {
  std::string plain = name;
  for (char &c : plain) {
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return plain;
}

// Gives the server an array of all figures. The memory lives as long as the statement.
int show_figures(MYSQL_THD thd, st_mysql_show_var *var, void *, system_status_var *, enum_var_type) {
  const std::vector<Figure> figures = all_figures();
  // One more for the failure, and one that ends the array.
  st_mysql_show_var *shown =
      static_cast<st_mysql_show_var *>(thd_calloc(thd, sizeof(st_mysql_show_var) * (figures.size() + 2)));
  var->type = SHOW_ARRAY;
  var->value = shown;
  for (size_t i = 0; shown && i < figures.size(); i++) {
    std::string name = variable_name(figures[i].name);
    shown[i].name = thd_strmake(thd, name.data(), name.size());
    if (figures[i].counter) {
      longlong value = static_cast<longlong>(figures[i].value);
      shown[i].value = thd_memdup(thd, &value, sizeof value);
      shown[i].type = SHOW_LONGLONG;
    } else {
      shown[i].value = thd_memdup(thd, &figures[i].value, sizeof figures[i].value);
      shown[i].type = SHOW_DOUBLE;
    }
  }
  if (shown) {
    const std::string text = failure();
    st_mysql_show_var &last = shown[figures.size()];
    last.name = "failure";
    last.value = thd_strmake(thd, text.data(), text.size());
    last.type = SHOW_CHAR;
  }
  return 0;
}

}  // namespace

st_mysql_show_var status_variables[] = {
    SHOW_FUNC_ENTRY("Millpond", show_figures),
    {nullptr, nullptr, SHOW_UNDEF},
};

}  // namespace millpond
