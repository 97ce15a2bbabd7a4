"""The command line.

The tuner's matrices are small and many: threads of BLAS would wait for each other, and burn six times the
CPU. numpy reads the variable when it is imported, so it is set before any command's module is.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
