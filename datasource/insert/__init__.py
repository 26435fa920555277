"""INSERT: encoding in tasks, one transaction, the commit by the driver."""
