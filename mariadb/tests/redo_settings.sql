-- server: --millpond-redo-capacity=96M
-- The redo log is as long as the two settings say. The recovery target once hid a capacity that was
-- given at the start.
SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Millpond_redo_capacity_bytes';
-- It waits while there is a capacity.
SET GLOBAL millpond_recovery_target = 20;
SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Millpond_redo_capacity_bytes';
SET GLOBAL millpond_redo_capacity = 0;
SELECT variable_value INTO @long FROM information_schema.global_status WHERE variable_name = 'Millpond_redo_capacity_bytes';
SET GLOBAL millpond_recovery_target = 5;
SELECT variable_value INTO @short FROM information_schema.global_status WHERE variable_name = 'Millpond_redo_capacity_bytes';
SELECT @long > 3 * @short, @short > 96 * 1024 * 1024;
-- Too small: the old size stays.
SET GLOBAL millpond_redo_capacity = 1024 * 1024;
SELECT @@global.millpond_redo_capacity;
SET GLOBAL millpond_recovery_target = DEFAULT;
SELECT @@global.millpond_recovery_target;
