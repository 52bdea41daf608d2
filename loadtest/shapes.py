"""How many users there are when: steady, step, spike, soak."""

import math
import os

import locust

STEPS = 4
# Of the users that the settings name, outside the spike.
SPIKE_BASE_SHARE = 0.1
SOAK_WAVE_SHARE = 0.3
SOAK_WAVE_S = 600


def steady(load, _at_s):
    """All users, from begin to end."""
    return load.users


def step(load, at_s):
    """A quarter of the users more in each quarter of the time."""
    return math.ceil(load.users * min(STEPS, 1 + int(at_s / load.time_s * STEPS)) / STEPS)


def spike(load, at_s):
    """A tenth of the users, and all of them in the middle fifth of the time."""
    is_spike = 0.4 <= at_s / load.time_s < 0.6
    return load.users if is_spike else max(1, round(load.users * SPIKE_BASE_SHARE))


def soak(load, at_s):
    """All users, and up to a third less, in slow waves: users come and go all the time."""
    wave = (1 - math.cos(2 * math.pi * at_s / SOAK_WAVE_S)) / 2
    return max(1, round(load.users * (1 - SOAK_WAVE_SHARE * wave)))


ALL = {"steady": steady, "step": step, "spike": spike, "soak": soak}


def shape_class(load):
    users_at = ALL[load.shape]

    class Shape(locust.LoadTestShape):
        def tick(self):
            at_s = self.get_run_time()
            if at_s >= load.time_s or (load.end_file and os.path.exists(load.end_file)):
                return None
            count = users_at(load, at_s)
            # A spike is one.
            return count, count if load.shape == "spike" else load.spawn_rate

    return Shape
