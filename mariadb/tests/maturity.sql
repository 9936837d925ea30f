-- The library says of all its plugins what the project says of itself.
SELECT PLUGIN_NAME, PLUGIN_TYPE, PLUGIN_STATUS, PLUGIN_MATURITY FROM information_schema.PLUGINS
  WHERE PLUGIN_LIBRARY = 'ha_millpond.so' ORDER BY PLUGIN_NAME;
