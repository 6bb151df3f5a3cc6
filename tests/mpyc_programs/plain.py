"""An MPyC program that knows nothing of dpmpc: secure integers, comparisons, sorting, fixed-point arrays, bytes."""

import argparse
import os
import signal
import time

import numpy as np
from mpyc.runtime import mpc

parser = argparse.ArgumentParser()
parser.add_argument("-n", type=int, default=3)
parser.add_argument("--dies", type=int)
parser.add_argument("--fails", type=int)
parser.add_argument("--waits", type=float, default=0)
args = parser.parse_args()

secint, secfxp = mpc.SecInt(), mpc.SecFxp(32, 16)
mpc.run(mpc.start())
if mpc.pid == args.dies:
    os.kill(os.getpid(), signal.SIGKILL)
if mpc.pid == args.fails:
    raise ValueError("no good")
time.sleep(args.waits)
numbers = mpc.input(secint(10 * mpc.pid + args.n))
print("sum", mpc.run(mpc.output(mpc.sum(numbers))), flush=True)
print("max", mpc.run(mpc.output(mpc.max(numbers))))
print("sorted", mpc.run(mpc.output(mpc.sorted([-number for number in numbers]))))
[x] = mpc.input([secfxp.array(np.array([[1.5, 2.0], [0.25, -1.0]]))], senders=0)
print("product", mpc.run(mpc.output(x @ x)).tolist())
print("bits", secint.bit_length, mpc.threshold)
mpc.run(mpc.shutdown())
