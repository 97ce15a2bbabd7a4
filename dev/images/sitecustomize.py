"""What Python runs first in the images: SIGTERM ends a program that has no answer to it yet.

The kernel gives the first process of a container no default for signals. Without this a pod that still
imports, fetches, checks or loads a model is gone only when its grace period is over, minutes later.
"""

import os
import signal

if os.getpid() == 1:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
