"""One call of an op: check, choose who serves, run, check the result, record, undo."""
