-- A script of sysbench: each thread opens a transaction and leaves it open. Every transaction has
-- read, so it holds a snapshot; every second one has changed a row of its own too.

local ffi = require("ffi")
ffi.cdef("unsigned int sleep(unsigned int seconds);")

function thread_init()
   connection = sysbench.sql.driver():connect()
   local row = sysbench.tid + 1
   connection:query("BEGIN")
   connection:query("SELECT c FROM sbtest1 WHERE id = " .. row)
   if row % 2 == 0 then
      connection:query("UPDATE sbtest1 SET c = 'open' WHERE id = " .. row)
   end
end

function event()
   ffi.C.sleep(1)
end

function thread_done()
   connection:disconnect()
end
