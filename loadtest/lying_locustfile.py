"""locustfile.py with a kerfd that calls chunks duplicates that nobody has stored: the run must end with
the exit code of a wrong answer."""

from locustfile import *

import lies

lies.tell(lies.duplicate_without_locator)
